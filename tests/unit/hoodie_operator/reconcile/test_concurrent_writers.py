"""Which Writers of a table run beside each other, and what their runs are told for it."""

import dataclasses

import pytest

from hoodie.contract import job_specs
from hoodie.model import settings as write_settings
from hoodie_operator.api import kinds
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.flights_world import Flights
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited


def test_optimistic_writers_run_together_whatever_they_write() -> None:
    here = Flights(edited(ow.TABLE, concurrency={"mode": "Optimistic"}))
    here.add_writer("left", "a")
    here.add_writer("right", "a")
    here.add(kinds.TABLE_ACTION, "compact", rule_examples.ACTION)
    here.see_table(here.table_key, [ow.commit(1)])
    here.settle()
    assert [start.id.name for start in here.started] == ["left", "right", "compact"]
    assert {start.table.settings.concurrency for start in here.started} == {
        write_settings.ConcurrencyMode.OPTIMISTIC
    }


@pytest.mark.parametrize(("declared", "told"), [(None, 3), (0, 0), (7, 7)])
def test_runs_are_told_how_often_to_write_again_what_lost(declared: int | None, told: int) -> None:
    concurrency = {"mode": "Optimistic"} | (
        {} if declared is None else {"conflictRetries": declared}
    )
    here = Flights(edited(ow.TABLE, concurrency=concurrency))
    writer = here.add_writer("left")
    here.settle()
    (start,) = here.started
    assert start.table.settings.conflict_retries_max == told
    here.edit(here.table_key, concurrency__conflictRetries=9)
    here.settle()
    assert not here.stopped, "retries of one writer do not affect other writers"
    assert here.condition(writer)[0] == "Starting"


@pytest.mark.parametrize(
    ("declared", "strategy", "detection"),
    [
        ({}, "bucket-index", None),
        ({"conflictResolution": "PreferWriter"}, "prefer-writer", None),
        ({"conflictResolution": "Simple"}, "simple", None),
        (
            {"earlyConflictDetection": "SimpleDirectMarker"},
            "bucket-index",
            "simple-direct-marker",
        ),
        (
            {"earlyConflictDetection": "TransactionalDirectMarker"},
            "bucket-index",
            "transactional-direct-marker",
        ),
    ],
)
def test_runs_are_told_what_is_a_conflict_and_how_to_find_it_early(
    declared: dict[str, str], strategy: str, detection: str | None
) -> None:
    here = Flights(edited(ow.TABLE, concurrency={"mode": "Optimistic", **declared}))
    here.add_writer("left")
    here.settle()
    (start,) = here.started
    told = start.table.settings
    assert told.conflict_strategy.value == strategy
    assert (told.early_detection.value if told.detects_conflicts_early else None) == detection
    assert told.contradiction is None


def test_conflict_lost_too_often_is_told_with_its_class() -> None:
    here = Flights(edited(ow.TABLE, concurrency={"mode": "Optimistic"}))
    key = here.add_writer("left", retry={"limit": 0})
    here.settle()
    here.end(here.uid(key), "WriteConflict")
    here.see_table(here.table_key)
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "RetriesExhausted")
    assert "attempt 1: WriteConflict: as told" in message


@pytest.mark.parametrize("mode", ["Optimistic", "NonBlocking"])
def test_writers_of_several_processes_need_a_lock_that_excludes_processes(mode: str) -> None:
    """T-O19; that they need one at all is a rule of the kind."""
    here = Outside()
    lock = here.add(kinds.LOCK_PROVIDER, "zk", {"type": "InProcess"})
    concurrency = {"mode": mode, "lockRef": {"name": "zk"}}
    table = here.add(kinds.HUDI_TABLE, "flights", edited(ow.TABLE, concurrency=concurrency))
    here.see_lock(lock)
    here.settle()
    assert here.condition(table)[:2] == ("Stalled", "LockNotShared")


@pytest.mark.parametrize(
    ("kind", "interval", "told"),
    [
        ("Storage", "10s", "expire after 100000 ms, expected more than 315000 ms"),
        (
            "FileSystem",
            "500ms",
            "heartbeat.interval_in_ms is '500', expected a whole number of 1000",
        ),
        ("Storage", "60s", None),
        ("FileSystem", "1s", None),
    ],
)
def test_heartbeats_that_could_expire_while_all_is_well_are_refused_when_configured(
    kind: str, interval: str, told: str | None
) -> None:
    """H3: no run is started to find it out."""
    here = Outside()
    lock = here.add(kinds.LOCK_PROVIDER, "zk", {"type": kind})
    table = here.add(
        kinds.HUDI_TABLE, "flights", edited(ow.TABLE, concurrency__heartbeatInterval=interval)
    )
    here.see_lock(lock)
    here.settle()
    state, reason, message = here.condition(table)
    assert ((state, reason) == ("Stalled", "InvalidSpec")) == (told is not None), message
    assert (told or "") in message
    assert here.started == []


def test_lock_file_beside_a_table_in_an_object_store_is_refused() -> None:
    """T-O19, T-L11."""
    here = Outside()
    here.limits = dataclasses.replace(here.limits, data_roots=("s3://lake",))
    optimistic = edited(ow.TABLE, concurrency={"mode": "Optimistic"})
    table = here.add(kinds.HUDI_TABLE, "flights", optimistic)
    here.settle()
    state, reason, message = here.condition(table)
    assert (state, reason) == ("Stalled", "InvalidSpec")
    assert "s3://lake/flights cannot hold a lock file" in message


def test_writers_of_different_columns_run_at_once() -> None:
    here = Flights()
    here.add_writer("left", "a")
    here.add_writer("right", "b")
    here.settle()
    assert [start.writer_id for start in here.started] == ["left", "right"]


def test_younger_of_two_writers_that_share_columns_is_refused_with_their_names() -> None:
    here = Flights()
    here.add_writer("left", "a")
    key = here.add_writer("right", "a")
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "SharedColumns")
    assert message == (
        "beside Writer left the content of HudiTable flights would depend on when compaction "
        "runs: both write columns a"
    )
    assert [start.writer_id for start in here.started] == ["left"]


def test_shared_columns_may_be_acknowledged() -> None:
    here = Flights(edited(ow.TABLE, concurrency__acknowledgeOrderDependence=True))
    here.add_writer("left", "a")
    here.add_writer("right", "a")
    here.settle()
    assert [start.writer_id for start in here.started] == ["left", "right"]


def test_columns_that_are_declared_need_no_look_into_files() -> None:
    here = Flights()
    here.add_writer("left", "a")
    mapping = {"id": "x", "b": "y"}
    key = here.add(kinds.WRITER, "right", ow.writer_spec(source__files__columns=mapping))
    here.see_source(key, [["1"]], None)
    here.settle()
    assert [start.writer_id for start in here.started] == ["left", "right"]


def test_second_writer_of_a_single_writer_table_is_refused() -> None:
    here = Flights(ow.SINGLE)
    here.add_writer("left", "a")
    key = here.add_writer("right", "b")
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "SecondWriter")


@pytest.mark.parametrize("operation", ["InsertOverwrite", "InsertOverwriteTable"])
def test_writer_that_replaces_file_groups_blocks_others(operation: str) -> None:
    """N15: what non-blocking writers add meanwhile to what it retires would be lost."""
    here = Flights()
    key = here.add_writer("snapshots", "a", operation=operation)
    here.settle()
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "OperationNotAllowed")
    assert f"{operation} replaces what other writers of HudiTable flights" in message
    for table in (ow.SINGLE, edited(ow.TABLE, concurrency={"mode": "Optimistic"})):
        here = Flights(table)
        here.add_writer("snapshots", "a", operation=operation)
        here.settle()
        (start,) = here.started
        work = start.work
        assert isinstance(work, job_specs.WriteBatches)
        assert work.operation.replaces


@pytest.mark.parametrize("operation", ["Insert", "Upsert", "Delete"])
def test_rows_are_only_added_to_a_table_without_key_fields(operation: str) -> None:
    added = edited(ow.SINGLE, keys__recordFields=[], writeIndex={"type": "Simple"})
    here = Flights(added)
    key = here.add_writer("rows", "a", operation=operation)
    here.settle()
    if operation == "Insert":
        (start,) = here.started
        assert start.table.config.record_key_fields == ()
        return
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Stalled", "OperationNotAllowed")
    assert f"HudiTable flights has no record key, by which {operation} finds rows" in message


def test_runs_of_a_single_writer_table_wait_for_each_other() -> None:
    here = Flights(ow.SINGLE)
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    writer_uid = here.uid(here.add_writer("left", "a"))
    here.add_policy()
    here.settle()
    (compaction,) = here.compactions()
    assert [start.id.name for start in here.started] == ["left"]
    assert here.condition(compaction)[:2] == ("Blocked", "TableBusy")
    here.now_ms += 1000
    here.end(writer_uid, is_told=True)
    written = [ow.commit(n, writer_id="left", batch_id=f"{n}@0") for n in (1, 2)]
    here.see_table(here.table_key, written)
    here.settle()
    assert [start.id.name for start in here.started] == ["left", compaction.name]


def test_two_writers_of_one_id_are_told_apart() -> None:
    here = Flights()
    here.add_writer("left", "a", writerId="w")
    key = here.add_writer("right", "b", writerId="w")
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "DuplicateWriterId")
