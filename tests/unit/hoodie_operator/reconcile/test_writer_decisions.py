"""What is decided about a Writer, state by state: with its reason, and what is started for it."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.contract import job_specs
from hoodie.model import commits
from hoodie_operator.api import kinds, objects, writer
from hoodie_operator.api.writer import Operation
from hoodie_operator.reconcile import facts, sources
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.operator_world import Outside


def test_writer_writes_every_file_in_order() -> None:
    here = Flights()
    key = here.add_writer("left", files=("1", "2", "3"))
    here.settle()
    (start,) = here.started
    assert isinstance(start.work, job_specs.WriteBatches)
    assert [batch.id for batch in start.work.batches] == ["1@0", "2@0", "3@0"]
    assert (start.writer_id, start.id.attempt) == ("left", 1)
    assert here.condition(key)[0] == "Starting"
    here.progress(here.uid(key), "writing", 1, 3)
    here.settle()
    assert here.condition(key) == ("Running", "Running", "attempt 1, pid 1 on test: writing 1/3")


@pytest.mark.parametrize("operation", Operation)
def test_writer_does_what_its_operation_says(operation: Operation) -> None:
    here = Flights(ow.SINGLE)
    here.add_writer("left", operation=operation.value)
    here.settle()
    (start,) = (each for each in here.started if isinstance(each.work, job_specs.WriteBatches))
    assert isinstance(start.work, job_specs.WriteBatches)
    assert start.work.operation.name == operation.name
    assert start.work.sort_by == ()


def test_writer_sorts_its_bulk_inserts() -> None:
    here = Flights(ow.SINGLE)
    here.add_writer("left", operation="BulkInsert", sortBy=["day", "amount"])
    here.settle()
    (start,) = (each for each in here.started if isinstance(each.work, job_specs.WriteBatches))
    assert isinstance(start.work, job_specs.WriteBatches)
    assert start.work.sort_by == ("day", "amount")


def test_writer_whose_files_are_committed_is_complete() -> None:
    here = Flights()
    key = here.add_writer("left")
    commits = [
        ow.commit(1, writer_id="left", batch_id="1@0"),
        ow.commit(2, writer_id="left", batch_id="2@0"),
        ow.commit(3, writer_id="right", batch_id="3@0"),
    ]
    here.see_table(here.table_key, commits)
    here.settle()
    assert here.condition(key) == ("Completed", "UpToDate", "all 2 files committed")
    assert not here.started


def test_writer_killed_after_a_commit_goes_on_at_the_next_batch() -> None:
    here = Flights()
    key = here.add_writer("left", files=("1", "2", "3"))
    here.settle()
    here.now_ms += 1000
    here.end(here.uid(key))
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="1@0")])
    here.settle()
    assert here.condition(key)[0] == "BackingOff"
    here.now_ms += 10_000
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="1@0")])
    here.settle()
    start = here.started[-1]
    assert isinstance(start.work, job_specs.WriteBatches)
    assert [batch.id for batch in start.work.batches] == ["2@0", "3@0"]
    assert start.id.attempt == 2


def test_nothing_is_started_before_the_timeline_was_read_after_the_last_run() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.now_ms += 1000
    here.end(here.uid(key), is_told=True)
    here.settle()
    assert here.condition(key)[:2] == ("Pending", "Confirming")
    assert len(here.started) == 1


def test_success_that_the_timeline_does_not_show_is_not_repeated_for_ever() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.end(here.uid(key), is_told=True)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "RunFailed")
    assert len(here.started) == 1


def test_new_file_is_written_after_the_others() -> None:
    here = Flights()
    key = here.add_writer("left", files=("1",))
    here.settle()
    here.end(here.uid(key), is_told=True)
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="1@0")])
    here.settle()
    assert here.condition(key)[0] == "Completed"
    here.see_source(key, [["1"], ["2"]], ["id", "a"])
    here.settle()
    assert here.started[-1].id.attempt == 2
    assert isinstance(here.started[-1].work, job_specs.WriteBatches)
    assert [batch.id for batch in here.started[-1].work.batches] == ["2@0"]


def test_files_are_written_once_however_they_are_grouped() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.see_source(key, [["1", "2"], ["3", "4"]], ["id", "a"])
    written = ow.commit(1, writer_id="left", batch_id="1+1@x", files=("1@0", "3@0"))
    here.see_table(here.table_key, [written])
    here.settle()
    assert isinstance(here.started[0].work, job_specs.WriteBatches)
    batches = here.started[0].work.batches
    assert [(batch.id, batch.files) for batch in batches] == [
        ("2@0", ("/data/2",)),
        ("4@0", ("/data/4",)),
    ]


def test_batch_of_several_files_lists_them_in_its_commit() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.see_source(key, [["1", "2"]], ["id", "a"])
    here.settle()
    assert isinstance(here.started[0].work, job_specs.WriteBatches)
    (batch,) = here.started[0].work.batches
    assert batch.tokens == ("1@0", "2@0")
    assert batch.extra_metadata == {commits.BATCH_FILES_KEY: '["1@0", "2@0"]'}
    assert batch.id.startswith("1+1@")


def test_batch_of_an_archived_commit_is_not_written_again() -> None:
    """Its commit has left the active timeline, and more batches came since than ledgers hold."""
    here = Flights()
    key = here.add_writer("left", files=("1", "2", "3"))
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", batch_id="3@0")])
    uid = here.uid(here.table_key)
    archived = {"left": facts.digests(["2@0", "1@0"]), "right": facts.digests(["9@0"])}
    here.tables[uid] = dataclasses.replace(here.tables[uid], archived=archived)
    here.settle()
    assert here.condition(key) == ("Completed", "UpToDate", "all 3 files committed")
    assert not here.started


def test_batch_that_only_the_ledger_remembers_is_not_written_again() -> None:
    here = Flights()
    key = here.add_writer("left")
    seen = here.tables[here.uid(here.table_key)]
    here.tables[here.uid(here.table_key)] = dataclasses.replace(
        seen, ledger={"left": ("1@0", "2@0")}
    )
    here.settle()
    assert here.condition(key)[0] == "Completed"


@settings(deadline=None)
@given(name=st.text(min_size=1, max_size=300), count=st.integers(2, 1000))
def test_ids_of_batches_fit_into_commits(name: str, count: int) -> None:
    one = facts.SourceFile(path="/x", token=sources.token(name, "0" * 16))
    others = [facts.SourceFile(path="/y", token=f"{n}@0") for n in range(count - 1)]
    for group in ([one], [one, *others]):
        seen = facts.SourceFacts(generation=1, observed_ms=0, groups=(tuple(group),))
        (batch,) = sources.remaining(seen, frozenset())
        assert 0 < len(batch.id) <= 128
        assert sources.remaining(seen, frozenset({batch.id})) == ()


def test_long_names_are_told_apart_by_more_than_their_ends() -> None:
    tokens = {sources.token(f"{first}{'x' * 200}", "0" * 16) for first in "ab"}
    assert len(tokens) == 2


def test_object_made_anew_fences_off_the_attempts_of_the_old_one() -> None:
    numbers = []
    for created_s in (0, 60):
        here = Flights()
        key = here.add_writer("left")
        made = dataclasses.replace(here.by_key[key], created_ms=ow.START_MS + created_s * 1000)
        here.by_key[key] = made
        for _ in range(3):
            here.settle()
            numbers.append(here.started[-1].fence_number)
            here.now_ms += 1
            here.end(here.uid(key), "Conflict")
            here.now_ms += 1_000_000
            here.see_table(here.table_key)
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    ("kind", "state", "reason"),
    [
        ("Conflict", "BackingOff", "BackingOff"),
        ("WriteConflict", "BackingOff", "WriteConflict"),
        ("LockTimeout", "BackingOff", "BackingOff"),
        ("Storage", "BackingOff", "BackingOff"),
        ("Configuration", "Stalled", "RunFailed"),
        ("InvalidInput", "Stalled", "RunFailed"),
        (None, "BackingOff", "BackingOff"),
    ],
)
def test_failed_attempt_is_answered_by_its_class(kind: str | None, state: str, reason: str) -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.end(here.uid(key), kind)
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[:2] == (state, reason)
    assert (kind or "Killed") in here.condition(key)[2]


def test_exhausted_writer_starts_again_when_it_is_edited() -> None:
    here = Flights()
    key = here.add_writer("left", retry={"limit": 0})
    here.settle()
    here.end(here.uid(key), "Storage")
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "RetriesExhausted")
    here.edit(key, retry__limit=1)
    here.see_source(key, [["1"], ["2"]], ["id", "a"])
    here.settle()
    assert here.started[-1].id.attempt == 2


@pytest.mark.parametrize(("limit", "kind"), [(0, "Storage"), (5, "Configuration")])
def test_writer_that_has_failed_is_tried_again_once_for_each_request(limit: int, kind: str) -> None:
    here = Flights()
    key = here.add_writer("left", retry={"limit": limit})
    for attempt in (1, 2, 3):
        here.settle()
        assert [start.id.attempt for start in here.started] == [*range(1, attempt + 1)]
        here.end(here.uid(key), kind)
        here.see_table(here.table_key)
        here.settle()
        assert here.condition(key)[0] == "Stalled"
        # Of any length and content: it is an annotation, and anybody's who may change the object.
        request = f"{attempt} " * 100_000
        here.by_key[key] = dataclasses.replace(here.by_key[key], retry_request=request)


def test_request_does_not_disturb_an_attempt_at_work() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.by_key[key] = dataclasses.replace(here.by_key[key], retry_request="now")
    here.settle()
    assert (len(here.started), here.stopped) == (1, [])


def test_suspended_writer_is_stopped_and_killed_when_it_does_not_end() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.edit(key, suspend=True)
    here.settle()
    assert here.condition(key)[:2] == ("Stopping", "Stopping")
    assert [stop.is_killed for stop in here.stopped] == [False]
    here.now_ms += 61_000
    here.see_table(here.table_key)
    here.settle()
    assert [stop.is_killed for stop in here.stopped] == [False, True]
    assert here.condition(key)[:2] == ("Suspended", "Suspended")


def test_silent_writer_is_stopped() -> None:
    here = Flights()
    key = here.add_writer("left", progressDeadline="1m")
    here.settle()
    here.progress(here.uid(key))
    here.now_ms += 61_000
    here.settle()
    assert [stop.reason for stop in here.stopped] == ["NoProgress"]
    here.end(here.uid(key))
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(key)[0] == "BackingOff"


def test_change_of_the_protocol_stops_the_runs_and_starts_them_anew() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    before = here.started[0].table.protocol_hash
    here.edit(here.table_key, concurrency__externalWriters=True)
    here.settle()
    assert here.stopped[0].reason == "the shared settings of HudiTable flights changed"
    here.end(here.uid(key))
    here.see_table(here.table_key)
    here.settle()
    assert here.started[-1].id.attempt == 2
    assert here.started[-1].table.protocol_hash != before


def test_nothing_starts_under_a_new_protocol_beside_a_run_under_the_old_one() -> None:
    here = Flights()
    left, right = here.add_writer("left"), here.add_writer("right", "b")
    here.settle()
    here.edit(here.table_key, concurrency__externalWriters=True)
    here.settle()
    here.end(here.uid(left))
    here.see_table(here.table_key)
    here.settle()
    assert here.condition(left)[:2] == ("Blocked", "TableBusy")
    assert "Writer right has an active run" in here.condition(left)[2]
    here.end(here.uid(right))
    here.see_table(here.table_key)
    here.settle()
    assert [here.condition(each)[0] for each in (left, right)] == ["Starting", "Starting"]


def test_change_of_how_files_are_coded_leaves_runs_alone() -> None:
    here = Flights()
    here.add_writer("left")
    here.settle()
    here.edit(here.table_key, files__codec="Zstd")
    here.settle()
    assert not here.stopped


@pytest.mark.parametrize(
    ("of_table", "edits"),
    [
        (False, {"runtime__image": "hudi:2"}),
        (False, {"runtime__resources": {"limits": {"memory": "4Gi"}}}),
        (False, {"runtime__sparkConf": {"spark.ui.enabled": "false"}, "runtime__engine": "Spark"}),
        (True, {"storage__env": {"AWS_REGION": "eu-central-1"}}),
        (True, {"files__codec": "Zstd"}),
    ],
)
def test_change_of_what_runs_run_on_comes_with_the_next_attempt(
    *, of_table: bool, edits: dict[str, object]
) -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    before = _run_hashes(here, key)
    assert len(set(before)) == 1
    here.edit(here.table_key if of_table else key, **edits)
    here.settle()
    assert not here.stopped
    assert len(here.started) == 1
    wanted, at_work = _run_hashes(here, key)
    assert at_work == before[0] != wanted
    here.end(here.uid(key), is_told=True)
    here.see_table(here.table_key, [ow.commit(1, writer_id="left", files=(ow.token("1"),))])
    here.see_source(key, [["1"], ["2"]], ["id", "a"])
    here.settle()
    assert _run_hashes(here, key) == (wanted, wanted)


def test_change_of_what_the_operator_gives_comes_with_the_next_attempt() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.limits = dataclasses.replace(here.limits, run_defaults="another image")
    here.settle()
    wanted, at_work = _run_hashes(here, key)
    assert wanted != at_work
    assert not here.stopped


def _run_hashes(here: Flights, key: objects.ObjectKey) -> tuple[str | None, str | None]:
    """Return the hash that the next attempt gets, and that of the one at work."""
    status = here.status(key)
    assert isinstance(status, writer.WriterStatus)
    assert status.runs is not None
    assert status.runs.current is not None
    return status.run_hash, status.runs.current.run_hash


def test_writer_of_a_table_that_is_not_there_is_stalled() -> None:
    here = Outside()
    key = here.add(kinds.WRITER, "left", ow.writer_spec())
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "ReferenceNotFound")


def test_writer_waits_for_its_table_and_stalls_with_it() -> None:
    here = Flights(is_ready=False)
    key = here.add_writer("left")
    here.settle()
    assert here.condition(key)[:2] == ("Blocked", "TableNotReady")
    here.see_table(here.table_key)
    here.change_stored(bucket_count=5)
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "TableNotReady")


def test_suspended_table_suspends_its_writers() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.edit(here.table_key, suspend=True)
    here.settle()
    assert here.stopped[0].reason == "HudiTable flights is suspended"
    here.end(here.uid(key))
    here.settle()
    assert here.condition(key)[:2] == ("Suspended", "TableSuspended")


def test_deleted_writer_is_stopped_before_it_goes() -> None:
    here = Flights()
    key = here.add_writer("left")
    here.settle()
    here.delete(key)
    here.settle()
    assert key in here.by_key
    assert here.stopped
    here.end(here.uid(key))
    here.settle()
    assert key not in here.by_key
