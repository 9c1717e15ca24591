"""When a TableAction of type DeletePartitions or DeleteRows runs, and when it is done."""

import pytest

from hoodie.contract import job_specs
from hoodie_operator.api import kinds
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import DELETE_PARTITIONS, DELETE_ROWS, Spec, edited

WORK: tuple[tuple[Spec, job_specs.Work, str], ...] = (
    (
        DELETE_PARTITIONS,
        job_specs.DeletePartitions(partitions=("region=eu/day=2026-11-27",)),
        "1 partition has no rows of before",
    ),
    (
        DELETE_ROWS,
        job_specs.DeleteRows(where="origin = 'ORD' and delay is null"),
        "the rows that matched are deleted",
    ),
)


@pytest.mark.parametrize(("spec", "work", "told"), WORK)
@pytest.mark.parametrize("table", [ow.SINGLE, edited(ow.TABLE, concurrency={"mode": "Optimistic"})])
def test_rows_are_deleted_by_one_run(
    table: Spec, spec: Spec, work: job_specs.Work, told: str
) -> None:
    here = Flights(table)
    here.see_table(here.table_key, [ow.commit(1)])
    action = here.add(kinds.TABLE_ACTION, "old", spec)
    here.settle()
    (start,) = here.started
    assert start.work == work
    here.end(here.uid(action), is_told=True)
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2)])
    here.settle()
    assert here.condition(action) == ("Succeeded", "Succeeded", told)
    assert len(here.started) == 1


@pytest.mark.parametrize(
    ("spec", "lost"), [(DELETE_PARTITIONS, "add meanwhile"), (DELETE_ROWS, "change meanwhile")]
)
def test_rows_of_writers_that_do_not_block_are_not_deleted(spec: Spec, lost: str) -> None:
    """N15: what they write meanwhile would be lost."""
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1)])
    action = here.add(kinds.TABLE_ACTION, "old", spec)
    here.settle()
    assert not here.started
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Failed", "OperationNotAllowed")
    assert f"writers of HudiTable flights {lost} in mode NonBlocking" in message


def test_action_of_a_name_that_was_there_before_deletes_again() -> None:
    """Its filter may be another one: the commit of the earlier one does not count."""
    here = Flights(ow.SINGLE)
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2, action_id="old")])
    here.add(kinds.TABLE_ACTION, "old", DELETE_ROWS)
    here.settle()
    assert len(here.started) == 1


@pytest.mark.parametrize("path", ["/eu", "../eu", "eu/../us", "eu/", "", "eu//us", ".hoodie"])
def test_path_that_is_no_partition_is_refused(path: str) -> None:
    here = Flights(ow.SINGLE)
    wanted = edited(DELETE_PARTITIONS, deletePartitions={"partitions": [path]})
    with pytest.raises(ValueError, match="partitions"):
        here.add(kinds.TABLE_ACTION, "old", wanted)


@pytest.mark.parametrize("where", ["", "a" * 5000])
def test_text_of_another_length_is_refused(where: str) -> None:
    here = Flights(ow.SINGLE)
    with pytest.raises(ValueError, match=r"deleteRows\.where"):
        here.add(kinds.TABLE_ACTION, "old", edited(DELETE_ROWS, deleteRows={"where": where}))


@pytest.mark.parametrize("where", [" ", "delay <", "delay = 'x", "1 = 1", "(" * 200, "a = 1;"])
def test_text_that_is_no_filter_deletes_nothing(where: str) -> None:
    here = Flights(ow.SINGLE)
    here.see_table(here.table_key, [ow.commit(1)])
    wanted = edited(DELETE_ROWS, deleteRows={"where": where})
    action = here.add(kinds.TABLE_ACTION, "old", wanted)
    here.settle()
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Failed", "InvalidSpec")
    assert message.startswith("deleteRows.where: ")
    assert not here.started
