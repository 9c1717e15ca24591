"""What policies sum up of tables that change one after the other is what they sum up of them all.

Each status is replaced by an equal one for the comparison, of which nothing is remembered.
"""

import dataclasses
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie_operator.api import hudi_table_status, kinds, objects
from hoodie_operator.reconcile import decide
from support.operators import operator_world as ow
from support.operators import rule_examples

TABLES = 4
SERVICES = ("Compaction", "Cleaning", "Archiving", "SavepointExpiry")
SELECTOR = {"tableSelector": {"matchLabels": {"tier": "gold"}}}
POLICIES = (
    (kinds.RETENTION_POLICY, "kept", {**rule_examples.RETENTION, "target": SELECTOR}),
    (kinds.RETENTION_POLICY, "also", {**rule_examples.RETENTION, "target": SELECTOR}),
    (kinds.COMPACTION_POLICY, "often", {**rule_examples.POLICY, "target": SELECTOR}),
)


@st.composite
def services(draw: st.DrawFn) -> hudi_table_status.ServiceStatus:
    told = {
        "name": draw(st.sampled_from(SERVICES)),
        "owner": draw(st.sampled_from(["Operator", "External", "Disabled"])),
        "policy": draw(
            st.sampled_from([None, "default", *(f"{each[0].name}/{each[1]}" for each in POLICIES)])
        ),
        "reason": draw(
            st.sampled_from(["NotDue", "ActionAtWork", "ActionFailed", "TableNotReady", "Disabled"])
        ),
        "message": draw(st.sampled_from(["some", "other"])),
        "action": draw(st.sampled_from([None, "an-action"])),
        "overdue": draw(st.sampled_from([None, True])),
    }
    return hudi_table_status.ServiceStatus.model_validate_json(json.dumps(told))


CHANGES = st.lists(
    st.tuples(
        st.integers(0, TABLES - 1),
        st.one_of(
            st.just("leave"),
            st.just("join"),
            st.lists(services(), unique_by=lambda each: each.name).map(tuple),
        ),
    ),
    min_size=1,
    max_size=12,
)


def statuses(here: ow.Outside) -> list[object]:
    return [decide.decide(here.world, here_key) for here_key in policies(here)]


def policies(here: ow.Outside) -> list[objects.ObjectKey]:
    names = {kind.name for kind in kinds.POLICIES}
    return [key for key in here.by_key if key.kind in names]


@settings(max_examples=60)
@given(CHANGES)
def test_sums_after_changes_are_those_of_all_tables_at_once(
    changes: list[tuple[int, str | tuple[hudi_table_status.ServiceStatus, ...]]],
) -> None:
    here = ow.Outside()
    for kind, name, spec in POLICIES:
        here.add(kind, name, spec)
    tables = [
        here.add(
            kinds.HUDI_TABLE,
            f"t{number}",
            rule_examples.edited(ow.TABLE, storage__path=f"t{number}"),
            labels={"tier": "gold"},
        )
        for number in range(TABLES)
    ]
    for number, change in changes:
        found = here.by_key[tables[number]]
        if isinstance(change, str):
            found = dataclasses.replace(found, labels={"tier": "gold"} if change == "join" else {})
        else:
            status = found.status.model_copy(update={"services": change})
            found = dataclasses.replace(found, status=status)
        here.by_key[found.key] = found
        one_by_one = statuses(here)
        for key in tables:
            found = here.by_key[key]
            here.by_key[key] = dataclasses.replace(found, status=found.status.model_copy())
        assert statuses(here) == one_by_one
