"""A run whose Writer was deleted works until its pods are gone: others wait where they have to."""

import dataclasses

import pytest

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators import rule_examples


def _world(spec: rule_examples.Spec) -> tuple[ow.Outside, objects.ObjectKey]:
    here = ow.Outside()
    here.see_lock(here.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK))
    table = here.add(kinds.HUDI_TABLE, "flights", spec)
    here.see_table(table)
    made = here.by_key[table]
    status = made.status.model_copy(update={"provisioned": True})
    here.by_key[table] = dataclasses.replace(made, status=status)
    writer = here.add(kinds.WRITER, "new", rule_examples.WRITER)
    here.see_source(writer, [["1"]], ["id"])
    old = facts.RunId(kind="Writer", namespace="default", name="old", uid="u-old", attempt=3)
    run = facts.Run(
        id=old, protocol_hash="h", started_ms=0, process="pod old-3", table="default/flights"
    )
    here.runs["u-old"] = [run]
    return here, writer


def test_single_writer_waits_for_the_run_of_one_that_is_gone() -> None:
    here, writer = _world(rule_examples.TABLE)
    here.settle()
    state, reason, message = here.condition(writer)
    assert (state, reason) == ("Blocked", "TableBusy")
    assert "pod old-3 still runs for Writer old, which no longer exists" in message
    run = here.runs["u-old"][0]
    here.runs["u-old"] = [dataclasses.replace(run, ended_ms=here.now_ms)]
    here.settle()
    assert here.condition(writer)[0] == "Starting"


@pytest.mark.parametrize("edit", [{"table": "default/others"}, {"table": "other/flights"}])
def test_run_on_another_table_is_none_of_its_business(edit: dict[str, str]) -> None:
    here, writer = _world(rule_examples.TABLE)
    here.runs["u-old"] = [dataclasses.replace(here.runs["u-old"][0], table=edit["table"])]
    here.settle()
    assert here.condition(writer)[0] == "Starting"


def test_writer_made_anew_waits_for_the_run_of_its_namesake() -> None:
    here, writer = _world(rule_examples.TABLE)
    run = here.runs["u-old"][0]
    here.runs["u-old"] = [
        dataclasses.replace(run, id=dataclasses.replace(run.id, name=writer.name))
    ]
    here.settle()
    assert here.condition(writer)[1] == "TableBusy"


def test_table_of_many_writers_waits_for_nobody_of_its_protocol() -> None:
    here, writer = _world(ow.TABLE)
    del here.runs["u-old"]
    here.settle()
    agreed = here.started[0].table.protocol_hash
    here, writer = _world(ow.TABLE)
    here.runs["u-old"] = [dataclasses.replace(here.runs["u-old"][0], protocol_hash=agreed)]
    here.settle()
    assert here.condition(writer)[0] == "Starting"


def test_table_of_many_writers_waits_for_the_run_under_another_protocol() -> None:
    here, writer = _world(ow.TABLE)
    here.settle()
    state, reason, message = here.condition(writer)
    assert (state, reason) == ("Blocked", "TableBusy")
    assert "the shared settings of HudiTable flights have changed since it started" in message
    here.runs["u-old"] = [dataclasses.replace(here.runs["u-old"][0], ended_ms=here.now_ms)]
    here.settle()
    assert here.condition(writer)[0] == "Starting"
