"""Who may create TableActions gets compactions and rollbacks of a table, never its deletion.

Any type that any release has stored, any name, any owner reference, any labels, in any number: data
is dropped by the HudiTable's own run alone, when the HudiTable asks for it itself.
"""

import dataclasses
import itertools
import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.contract import job_specs
from hoodie_operator.api import (
    documents,
    group,
    kinds,
    manifests,
    objects,
    schemas,
    table_action,
)
from hoodie_operator.reconcile import decide, effects, facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import edited

TYPES = [each.value for each in table_action.ActionType]
TABLE_SPECS = [
    edited(ow.TABLE, deletionPolicy=policy, deletionProtection=is_protected)
    for policy, is_protected in itertools.product(("Retain", "Delete"), (True, False))
]


def _owner(here: Flights, which: str) -> objects.Owner | None:
    """Return what an action of somebody's says that it was made for."""
    uid = here.uid(here.table_key)
    return {
        "none": None,
        "table": objects.Owner(kind="HudiTable", name="flights", uid=uid),
        "uid": objects.Owner(kind="CompactionPolicy", name="other", uid=uid),
        "name": objects.Owner(kind="HudiTable", name="flights", uid="other"),
    }[which]


@st.composite
def _actions(draw: st.DrawFn) -> list[tuple[str, str, str, bool]]:
    """Draw actions: type, name, owner, and whether it says that it has ended."""
    names = st.sampled_from(
        ["mine", "flights-delete-000002-data", "flights-create-000002-g1", "flights"]
    )
    one = st.tuples(
        st.sampled_from(TYPES),
        names,
        st.sampled_from(["none", "table", "uid", "name"]),
        st.booleans(),
    )
    return draw(st.lists(one, max_size=4, unique_by=lambda each: each[1]))


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(TABLE_SPECS),
    actions=_actions(),
    is_ready=st.booleans(),
    is_deleted=st.booleans(),
    is_writer_there=st.booleans(),
)
def test_no_data_is_dropped_that_its_table_does_not_ask_to_drop(
    *,
    spec: dict[str, object],
    actions: list[tuple[str, str, str, bool]],
    is_ready: bool,
    is_deleted: bool,
    is_writer_there: bool,
) -> None:
    here = Flights(spec, is_ready=is_ready)
    table = here.by_key[here.table_key]
    if is_writer_there:
        here.add_writer("left")
    for action_type, name, owner, has_ended in actions:
        key = here.add(
            kinds.TABLE_ACTION,
            name,
            {"tableRef": {"name": "flights"}, "type": action_type},
            owner=_owner(here, owner),
            labels={"app.kubernetes.io/managed-by": "hudi-operator"},
        )
        if has_ended:
            status = here.status(key).model_copy(update={"finished_time": "2026-01-01T00:00:00Z"})
            here.by_key[key] = dataclasses.replace(here.by_key[key], status=status)
    if is_deleted:
        here.delete(here.table_key)
    for _ in range(3):
        here.settle()
        here.now_ms += 1_000
        for run in [run for runs in here.runs.values() for run in runs if run.is_running]:
            here.end(run.id.uid, is_told=True)
        if here.table_key in here.by_key:
            here.see_table(here.table_key)
    dropping = [start for start in here.started if isinstance(start.work, job_specs.DropTable)]
    may_drop = (
        is_deleted
        and is_ready
        and not is_writer_there
        and (spec["deletionPolicy"], spec["deletionProtection"]) == ("Delete", False)
    )
    assert bool(dropping) == may_drop
    for start in dropping:
        assert start.id.owner == here.table_key
        assert start.work == job_specs.DropTable(
            table_uid=table.uid, deletion_policy="Delete", is_protected=False
        )
    creating = [start for start in here.started if isinstance(start.work, job_specs.CreateTable)]
    assert {start.id.owner for start in creating} <= {here.table_key}
    retired = {each.value for each in table_action.RETIRED}
    left = [here.by_key.get(objects.ObjectKey(kind="TableAction", namespace="default", name=name))
            for action_type, name, _, _ in actions if action_type in retired]  # fmt: skip
    assert left == [None] * len(left)


RETIRED = ["Create", "Delete"]


@pytest.mark.parametrize("action_type", RETIRED)
def test_retired_type_is_refused_in_a_manifest_and_in_the_schema(action_type: str) -> None:
    manifest = {
        "apiVersion": group.API_VERSION,
        "kind": "TableAction",
        "metadata": {"name": "mine"},
        "spec": {"tableRef": {"name": "flights"}, "type": action_type},
    }
    _, (problem,) = manifests.parse(json.dumps(manifest).encode(), "mine.yaml")
    assert problem.path == "spec.type"
    declarable = [each.value for each in table_action.ActionType if each.value not in RETIRED]
    assert problem.message == f'is "{action_type}", expected one of {", ".join(declarable)}'
    schema = cast("Any", schemas.structural(table_action.TableActionSpec))
    assert schema["properties"]["type"]["enum"] == declarable


@pytest.mark.parametrize("action_type", ["Create", "Delete"])
def test_action_of_an_earlier_release_is_read_stopped_and_taken_away(action_type: str) -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete", deletionProtection=False))
    owner = _owner(here, "table")
    spec = {"tableRef": {"name": "flights"}, "type": action_type}
    key = here.add(kinds.TABLE_ACTION, "flights-old", spec, owner=owner)
    here.by_key[key] = documents.from_document(documents.to_document(here.by_key[key]))
    run_id = facts.RunId(
        kind="TableAction", namespace="default", name=key.name, uid=here.uid(key), attempt=1
    )
    run = facts.Run(id=run_id, protocol_hash="old", started_ms=0, table="default/flights")
    here.runs[run_id.uid] = [run]
    here.delete(here.table_key)
    here.settle()
    assert here.condition(here.table_key)[:2] == ("Deleting", "InUse")
    assert [stop.id for stop in here.stopped] == [run_id]
    assert not here.started
    here.end(run_id.uid, "Cancelled")
    here.settle()
    assert key not in here.by_key
    (start,) = here.started
    assert start.id.owner == here.table_key


@pytest.mark.parametrize(
    "change",
    [{"name": "other"}, {"record_key_fields": ("a",)}, {"partition_fields": ("b",)}],
)
def test_another_table_at_the_place_is_not_dropped(change: dict[str, object]) -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete", deletionProtection=False))
    here.change_stored(**change)
    here.delete(here.table_key)
    here.settle()
    state, reason, message = here.condition(here.table_key)
    assert (state, reason) == ("Stalled", "ImmutableMismatch")
    assert "To delete only the object, set deletionPolicy Retain" in message
    assert not here.started
    assert decide.is_settled(here.world)
    here.edit(here.table_key, deletionPolicy="Retain")
    here.settle()
    assert here.table_key not in here.by_key


@pytest.mark.parametrize("edit", [{"deletionPolicy": "Retain"}, {"deletionProtection": True}])
def test_drop_at_work_is_stopped_when_the_data_is_to_stay_after_all(
    edit: dict[str, object],
) -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete", deletionProtection=False))
    here.delete(here.table_key)
    here.settle()
    assert isinstance(here.started[-1].work, job_specs.DropTable)
    here.edit(here.table_key, **edit)
    here.settle()
    assert len(here.stopped) == 1
    here.end(here.uid(here.table_key), errors.CancelledError.kind)
    here.settle()
    assert here.table_key not in here.by_key
    assert len(here.started) == 1


def test_history_of_a_policy_is_not_crowded_out_by_what_only_names_it() -> None:
    here = Flights()
    policy = here.add_policy(history={"successful": 1, "failed": 1})
    spec = {"tableRef": {"name": "flights"}, "type": "Compaction"}
    owner = objects.Owner(kind="CompactionPolicy", name="other", uid=here.uid(policy))
    for number in range(3):
        here.add(kinds.TABLE_ACTION, f"forged-{number}", spec, owner=owner)
    assert not here.world.actions_for(here.by_key[policy])  # type: ignore[arg-type]  # a policy
    removed = [each for each in here.decide(policy) if isinstance(each, effects.RemoveObject)]
    assert not removed


@pytest.mark.parametrize("has_ended", [False, True])
def test_drop_whose_operator_was_killed_before_it_noted_it_is_followed(*, has_ended: bool) -> None:
    here = Flights(edited(ow.TABLE, deletionPolicy="Delete", deletionProtection=False))
    here.delete(here.table_key)
    before = here.status(here.table_key)
    here.settle()
    # The attempt was started, and nothing was told of it.
    here.by_key[here.table_key] = dataclasses.replace(here.by_key[here.table_key], status=before)
    if has_ended:
        here.end(here.uid(here.table_key), is_told=True)
        here.see_table(here.table_key, is_there=False)
    here.settle()
    assert not here.stopped
    assert len(here.started) == 1
    assert (here.table_key in here.by_key) is not has_ended
