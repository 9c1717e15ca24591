"""When a TableAction of type DeletePartitions runs, and when it is done."""

import pytest

from hoodie.contract import job_specs
from hoodie_operator.api import kinds
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.rule_examples import DELETE_PARTITIONS, edited


@pytest.mark.parametrize("table", [ow.SINGLE, edited(ow.TABLE, concurrency={"mode": "Optimistic"})])
def test_partitions_are_deleted_by_one_run(table: dict[str, object]) -> None:
    here = Flights(table)
    here.see_table(here.table_key, [ow.commit(1)])
    action = here.add(kinds.TABLE_ACTION, "old", DELETE_PARTITIONS)
    here.settle()
    (start,) = here.started
    assert start.work == job_specs.DeletePartitions(partitions=("region=eu/day=2026-11-27",))
    here.end(here.uid(action), is_told=True)
    here.see_table(here.table_key, [ow.commit(1), ow.commit(2)])
    here.settle()
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Succeeded", "Succeeded")
    assert message == "1 partition has no rows of before"


def test_partitions_of_writers_that_do_not_block_are_not_deleted() -> None:
    """N15: what they add meanwhile to file groups that it retires would be lost."""
    here = Flights()
    here.see_table(here.table_key, [ow.commit(1)])
    action = here.add(kinds.TABLE_ACTION, "old", DELETE_PARTITIONS)
    here.settle()
    assert not here.started
    state, reason, message = here.condition(action)
    assert (state, reason) == ("Failed", "OperationNotAllowed")
    assert "what writers of HudiTable flights add meanwhile in mode NonBlocking" in message


@pytest.mark.parametrize("path", ["/eu", "../eu", "eu/../us", "eu/", "", "eu//us", ".hoodie"])
def test_path_that_is_no_partition_is_refused(path: str) -> None:
    here = Flights(ow.SINGLE)
    wanted = edited(DELETE_PARTITIONS, deletePartitions={"partitions": [path]})
    with pytest.raises(ValueError, match="partitions"):
        here.add(kinds.TABLE_ACTION, "old", wanted)
