"""Compaction of a table, planned and executed by processes that may disagree."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import clock, errors, table
from hoodie.model import commits, instants, results, settings, table_config
from hoodie.timeline import transitions
from hoodie.transaction import authors, lifecycle
from hoodie.transaction.locks import address_texts
from support.tables.tables import SmallTable

AHEAD_MS = 60_000


class ClockAhead(clock.SystemClock):
    """The machine's clock, but ahead of it."""

    def now_ms(self) -> int:
        return super().now_ms() + AHEAD_MS


class ClockAt(clock.SystemClock):
    """The machine's clock, set forward once."""

    def __init__(self, now_ms: int) -> None:
        self._ahead_ms = now_ms - super().now_ms()

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


def test_log_file_that_a_plan_has_missed_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planner that was paused until its lock was lost may publish a plan that is out of date.

    By its clock, which is ahead, the plan's time is above that of a write which completed since.
    """
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "k", "part": "p", "a": 1}])
    request = transitions.request

    def request_late(*arguments: object) -> instants.Instant:
        monkeypatch.undo()
        options = small.options()
        other = replace(options.transaction, lock=address_texts.parse("in-process"))
        data = small.data([{"id": "k", "part": "p", "a": 2}])
        small.table.write(data, replace(options, transaction=other))
        return request(*arguments)  # type: ignore[arg-type] # passed on as they are

    monkeypatch.setattr(transitions, "request", request_late)
    ahead = replace(small.env, clock=ClockAhead())
    planner = table.open_table(str(small.path), ahead)
    service = replace(small.options().transaction, author=authors.Author())
    planned = planner.schedule_compaction(service)
    assert planned is not None
    late = small.table.timeline().completed_writes[-1]
    assert late.completion_time is not None
    assert late.completion_time < planned

    planner.compact(planned, service)

    assert [row["a"] for row in small.rows()] == [2]
    assert small.problems() == []


EVENTS = table_config.TableConfig(
    name="events",
    record_key_fields=("id",),
    ordering_fields=("a",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
    bucket_count=1,
)


class Events(SmallTable):
    """A table whose keys are written and deleted by event time."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, EVENTS)

    def put(self, **times: int) -> None:
        self.upsert([{"id": key, "part": "p", "a": a, "b": "x"} for key, a in times.items()])

    def remove(self, **times: int) -> None:
        self.delete([{"id": key, "a": a} for key, a in times.items()])

    def compact_keeping(self, hours: int) -> results.CommitResult:
        transaction = self.options(deletes_kept_hours=hours).transaction
        planned = self.table.schedule_compaction(transaction)
        assert planned is not None
        return self.table.compact(planned, transaction)

    @property
    def keys(self) -> list[object]:
        return sorted(str(row["id"]) for row in self.rows())


@pytest.fixture
def events(tmp_path: Path) -> Events:
    found = Events(tmp_path / "t")
    found.put(x=1, y=1)
    found.remove(x=5)
    return found


def test_delete_with_an_ordering_value_outlives_the_compaction(events: Events) -> None:
    done = events.compact_keeping(1)
    assert done.group_count == 1
    (kept,) = events.table.slices()
    assert [log.instant_time for log in kept.kept_deletes] == [done.instant.requested_time]
    assert kept.log_files == kept.kept_deletes
    events.put(x=4)
    assert events.keys == ["y"]
    events.put(x=5)
    assert events.keys == ["x", "y"]
    assert events.problems() == []


def test_kept_deletes_are_read_with_what_comes_after_them_alone(events: Events) -> None:
    events.compact_keeping(1)
    (task,) = events.table.plan_read()
    assert task.file_slice.log_files == ()
    assert events.keys == ["y"]
    events.put(z=1)
    (task,) = events.table.plan_read()
    assert len(task.file_slice.log_files) == 2


def test_slice_that_holds_kept_deletes_alone_needs_no_compaction(events: Events) -> None:
    events.compact_keeping(1)
    assert events.table.schedule_compaction(events.options().transaction) is None


def test_kept_delete_takes_no_further_row_of_its_key(tmp_path: Path) -> None:
    """A bulk insert does not look for its keys: of several rows of one a delete takes the first."""
    events = Events(tmp_path / "t")
    rows = [{"id": "k", "part": "p", "a": a, "b": "x"} for a in (1, 2)]
    single = settings.ConcurrencyMode.SINGLE_WRITER
    bulk = events.options(operation=commits.Operation.BULK_INSERT, concurrency=single)
    events.table.write(events.data(rows), bulk)
    events.remove(k=5)
    assert [row["a"] for row in events.rows()] == [2]
    events.compact_keeping(1)
    assert [row["a"] for row in events.rows()] == [2]
    events.put(y=2)
    assert events.keys == ["k", "y"]


def test_kept_deletes_are_carried_on_and_keep_their_age(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = events.compact_keeping(2).instant.requested_time
    hours_later = instants.parse_time(first) + 3_600_000 + 60_000
    events.env = replace(events.env, clock=ClockAt(hours_later))
    events.table = table.open_table(str(events.path), events.env)
    events.put(z=1)
    events.remove(z=2)
    events.compact_keeping(2)
    events.put(x=4, z=1)
    assert events.keys == ["y"]
    # More than an hour old is the first, the second is not.
    events.compact_keeping(1)
    events.put(x=4, z=1)
    assert events.keys == ["x", "y"]


def test_no_deletes_are_kept_for_no_hours(events: Events) -> None:
    events.compact_keeping(0)
    (kept,) = events.table.slices()
    assert kept.log_files == ()
    events.put(x=4)
    assert events.keys == ["x", "y"]


def test_files_of_an_execution_that_failed_are_removed_and_made_again(
    events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = events.options().transaction
    planned = events.table.schedule_compaction(transaction)
    assert planned is not None

    def fail(*arguments: object) -> None:
        raise errors.StorageError("nothing is published")

    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "commit", fail)
        with pytest.raises(errors.StorageError):
            events.table.compact(planned, transaction)
    assert not [path for path in events.path.glob(f"*{planned}*") if path.is_file()]
    events.table.compact(planned, transaction)
    events.put(x=4)
    assert events.keys == ["y"]
    assert events.problems() == []


def test_slice_that_exceeds_its_memory_is_merged_to_the_same_rows(tmp_path: Path) -> None:
    """With the deletes that outlive a compaction, and the counts of its commit."""
    found = []
    for memory_bytes in (1 << 30, 1):
        events = Events(tmp_path / str(memory_bytes))
        keys = [f"k{number}" for number in range(40)]
        events.put(**dict.fromkeys(keys[:30], 1))
        events.compact()
        events.put(**dict.fromkeys(keys[20:], 2))
        events.remove(**dict.fromkeys(keys[:5], 5))
        given = events.options(compaction_memory_bytes=memory_bytes, scratch_folder=str(tmp_path))
        service = replace(given.transaction, author=authors.Author())
        planned = events.table.schedule_compaction(service)
        assert planned is not None
        commit = events.table.compact(planned, service)
        events.put(k0=4)
        assert events.problems() == []
        counts = [(each.records, each.inserts, each.updates, each.deletes) for each in commit.stats]
        found.append((events.rows(columns=["id", "a", "b"]), counts))
    assert found[0] == found[1]
    assert len(found[0][0]) == 35


def test_compaction_without_scratch_space_fails_and_can_be_run_again(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    small.upsert([{"id": "k", "part": "p", "a": 1}])
    absent = small.options(compaction_memory_bytes=1, scratch_folder=str(tmp_path / "absent"))
    service = replace(absent.transaction, author=authors.Author())
    planned = small.table.schedule_compaction(service)
    assert planned is not None
    with pytest.raises(errors.StorageError, match=r"absent.*hoodie\.memory\.spillable"):
        small.table.compact(planned, service)
    again = replace(
        service, settings=small.options(scratch_folder=str(tmp_path)).transaction.settings
    )
    small.table.compact(planned, again)
    assert [row["a"] for row in small.rows()] == [1]
    assert small.problems() == []
