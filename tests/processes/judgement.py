"""Whether a fleet's table holds what its processes were told, by the invariants of the simulation.

Each writer has a column of its own, so a table has one right content, whatever was merged when: in
each row and column the last of the batches that were committed until then.

In a table without a chain, what was published after its lock was lost is not judged, nor are the
file groups that it is in: no storage of files can prevent that (docs/guarantees.md). It shows by
what is known for certain: how long after its completion time the completed file appeared, and
whether the lock's session was ended from outside meanwhile. In a table with a chain nothing is
excused, whatever its lock says.
"""

import bisect
import collections
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hoodie import environment, errors, table
from hoodie.format import timeline_avro
from hoodie.index import bucket
from hoodie.model import commits, files, instants, results
from hoodie.storage import memory
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, transitions
from hoodie.transaction import manager
from processes import fleet, worker
from support.simulation import invariants, moved_clock, whole_timeline

_CLOCK_MS = 10
"""By how much the time of a file may lag, and a completion time be ahead."""

_ROUNDED_S = 2
"""By how much younger a heartbeat may seem that an object store shows in whole seconds."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a run was; every invariant held.

    Attributes:
        batches: Committed ones.
        compactions: Completed ones.
        cleans: Completed ones.
        archived: Instants in the archive.
        builds: Indexing actions that are completed, and on the timeline.
        reads: All were judged.
        survived: Errors that processes survived, by their kinds.
        late: Writes that were published after their lock was lost.
        epochs: Changes in the order of the table's chain; 0 without one.
    """

    batches: int
    compactions: int
    cleans: int
    archived: int
    builds: int
    reads: int
    survived: Mapping[str, int]
    late: int
    epochs: int


class Judge:
    """What is known of one run, its processes being dead."""

    def __init__(
        self, opened: table.Table, mode: worker.ModeName, actors: Sequence[fleet.Actor]
    ) -> None:
        """Read what the processes said.

        Raises:
            AssertionError: One of them failed.
        """
        self._opened = opened
        self._mode = mode
        self._storage: Storage = environment.system().open_storage(opened.uri)
        said = [(actor, each) for actor in actors for each in fleet.said_by(actor)]
        self._told = [(actor.name, each) for actor, each in said if isinstance(each, worker.Told)]
        self._acknowledged = {
            actor.name: fleet.acknowledged_batches(actor)
            for actor in actors
            if actor.role is worker.Role.WRITER
        }
        self._seen = [each for _, each in said if isinstance(each, worker.Seen)]
        self._shown_ms = {
            path: modified_ms
            for _, each in said
            if isinstance(each, worker.Shown)
            for path, modified_ms in each.modified_ms.items()
        }
        self._has_indexer = any(actor.role is worker.Role.INDEXER for actor in actors)
        survived = [each.kind for _, each in said if isinstance(each, worker.Survived)]
        self._survived = collections.Counter(survived)

    def judge(self, lock: str, lease_ms: int | None, expiries_ms: Sequence[int]) -> Verdict:
        """Bring the table to rest, and check everything.

        Args:
            lock: The table's.
            lease_ms: How long a silent holder keeps it; None for as long as it lives, or where
                nothing depends on the lock: no write counts as published late.
            expiries_ms: When a holder's session was ended from outside.

        Raises:
            AssertionError: An invariant does not hold.
        """
        self._bring_to_rest(worker.transaction(self._mode, lock))
        self._storage = _whole(self._storage, self._shown_ms)
        timeline = active.load(self._storage)
        late = self._late(timeline, lease_ms, expiries_ms)
        told = self._told_of_instants()
        acknowledged = invariants.acknowledged(told)
        judged = _Content(self._storage, timeline, self._opened, self._mode, late)
        excused = {*(late - acknowledged), *judged.hidden}
        checked = invariants.check_all(self._storage, told, excused)
        if self._mode is not worker.ModeName.NON_BLOCKING:
            certain = [each for each in told if each.requested_time not in late]
            invariants.check_serial(self._storage, checked, certain)
        self._check_batches(judged)
        last = worker.seen(self._opened)
        reads = [judged.read(each) for each in sorted([*self._seen, last], key=_end)]
        invariants.check_reads(self._storage, checked, told, reads, late, excused)
        invariants.check_increments(checked, reads, {*late, *excused})
        invariants.check_everything_is_read(
            self._storage, invariants.without(checked, excused), reads[-1]
        )
        invariants.check_quiescence(self._storage, checked)
        if self._opened.config.chain is not None:
            invariants.check_parity(checked)
        if not late:
            self._check_findings()
        writes = {
            each for each in checked.completed_writes if each.requested_time in judged.batches
        }
        return Verdict(
            batches=len(writes),
            compactions=len(checked.completed_writes) - len(writes),
            cleans=sum(each.action is instants.Action.CLEAN for each in checked.completed),
            archived=sum(1 for _ in self._opened.archived_instants()),
            builds=sum(each.action is instants.Action.INDEXING for each in checked.completed),
            reads=len(reads),
            survived=self._survived,
            late=len(late),
            epochs=self._opened.epochs()[-1].number if self._opened.config.chain else 0,
        )

    def _bring_to_rest(self, transaction: manager.TransactionOptions) -> None:
        """Execute what was planned, take all else back that is pending, and clean a last time."""
        if self._counts_as_alive():
            time.sleep(worker.HEARTBEAT_EXPIRY_S + _ROUNDED_S)
        for pending in self._opened.timeline().pending_compactions:
            # It may be completed by the newest epoch, which the next change publishes.
            with contextlib.suppress(errors.ConflictError):
                self._opened.compact(pending.requested_time, transaction)
        pending = self._opened.timeline().pending_compactions
        assert not pending, f"not compacted: {pending}"
        self._opened.roll_back_failed(transaction)
        if self._has_indexer:
            self._opened.build_index(worker.indexes_of(self._opened.config), transaction)
            self._opened.refresh()
        how = replace(worker.RETENTION, grace_ms=0, files_max=1_000_000)
        self._opened.clean(how, transaction)
        removals = self._opened.propose_clean(how).removals
        assert not removals, f"not cleaned: {removals}"
        # A clean that died as it made its heartbeat has left half a file, which went with no sweep
        # while it was pending.
        self._opened.roll_back_failed(transaction)

    def _counts_as_alive(self) -> bool:
        """Return whether something is left alone as yet, though every process is dead.

        A dead process may have asked an object store for something. One that lost its lock right
        after its instant was on the timeline took its heartbeat away: nothing says whose it is.
        """
        pending = self._opened.pending(worker.MODES[self._mode].settings)
        return bool(self._storage.request_time_ms) or any(each.is_alive for each in pending)

    def _late(
        self, timeline: active.ActiveTimeline, lease_ms: int | None, expiries_ms: Sequence[int]
    ) -> frozenset[instants.InstantTime]:
        """Return what may have been published without the lock."""
        if lease_ms is None:
            return frozenset()
        appeared = {info.path: info.modified_ms for info in self._storage.list(active.DIRECTORY)}
        late = set()
        for write in timeline.completed_writes:
            assert write.completion_time is not None
            from_ms = instants.parse_time(write.completion_time)
            to_ms = appeared[transitions.path(write)]
            if not to_ms:
                late.add(write.requested_time)  # It was archived before anything saw its file.
                continue
            is_interrupted = any(
                from_ms - _CLOCK_MS <= each <= to_ms + _CLOCK_MS for each in expiries_ms
            )
            if is_interrupted or to_ms - from_ms > lease_ms // 2:
                late.add(write.requested_time)
        return frozenset(late)

    def _told_of_instants(self) -> list[invariants.Told]:
        return [
            invariants.Told(
                writer_id=name if each.batch is not None else None,
                batch_id=None if each.batch is None else str(each.batch),
                requested_time=instants.InstantTime(each.requested_time),
                begun_ms=each.begun_ms,
                ended_ms=each.ended_ms,
                outcome=invariants.Outcome(each.outcome),
            )
            for name, each in self._told
            if each.requested_time is not None
        ]

    def _check_batches(self, judged: "_Content") -> None:
        """Check that each writer's batches are there from the first on, and all acknowledged."""
        for column, acknowledged in self._acknowledged.items():
            held = {int(number) for number in self._opened.committed_batches(column)}
            assert acknowledged <= held, f"{column} lost {sorted(acknowledged - held)}"
            assert held == set(range(len(held))), f"{column} holds {sorted(held)}"
            there = {number for name, number in judged.batches.values() if name == column}
            assert there == held, f"{column}: the ledger tells of {held}, commits of {there}"

    def _check_findings(self) -> None:
        """Check that a check finds nothing, in a metadata table neither, which reads use."""
        has_metadata = bool(self._opened.config.metadata_partitions)
        uses_metadata = self._opened.explain_read().has_metadata_table
        assert uses_metadata is has_metadata, f"a read uses a metadata table: {uses_metadata}"
        if self._has_indexer:
            validated = self._opened.validate_metadata()
            assert validated.is_right, validated
        bad = [
            finding
            for finding in self._opened.check(worker.MODES[self._mode].settings)
            if finding.severity is results.Severity.ERROR
        ]
        assert not bad, f"a check finds: {bad}"


class _Times(moved_clock.MovedClock):
    """The clock of a copy, whose files have the times of those that they were copied from."""

    def __init__(self) -> None:
        super().__init__()
        self.modified_ms = 0

    def now_ms(self) -> int:
        return self.modified_ms


def _whole(storage: Storage, shown_ms: Mapping[str, int]) -> Storage:
    """Return a copy of a table whose archived instants are on the timeline.

    Args:
        storage: The table's.
        shown_ms: When files of the timeline appeared, by their paths.
    """
    times = _Times()
    store = memory.MemoryStore(times)
    copy = memory.MemoryStorage(store)
    for info in storage.list("", is_recursive=True):
        times.modified_ms = info.modified_ms
        copy.create(info.path, storage.read(info.path))
    return whole_timeline.WholeStorage(store, shown_ms)


class _Content:
    """Which batches a read saw, by the values that it found.

    Attributes:
        batches: Column and number of each write of a batch.
        hidden: Writes all of whose file groups are not judged.
    """

    def __init__(
        self,
        storage: Storage,
        timeline: active.ActiveTimeline,
        opened: table.Table,
        mode: worker.ModeName,
        late: Iterable[instants.InstantTime],
    ) -> None:
        self._mode = mode
        self.batches: dict[instants.InstantTime, tuple[str, int]] = {}
        self._groups: dict[instants.InstantTime, frozenset[files.FileGroupId]] = {}
        for write in timeline.completed_writes:
            metadata = timeline_avro.decode_commit(storage.read(transitions.path(write)))
            self._groups[write.requested_time] = _groups_of(metadata)
            if commits.BATCH_ID_KEY in metadata.extra:
                writer_id, batch_id = (
                    metadata.extra[key] for key in (commits.WRITER_ID_KEY, commits.BATCH_ID_KEY)
                )
                self.batches[write.requested_time] = (writer_id, int(batch_id))
        unjudged = frozenset[files.FileGroupId]().union(*(self._groups[time] for time in late))
        self.hidden = {time for time, groups in self._groups.items() if groups <= unjudged}
        of_keys = bucket.buckets_of_keys(pa.array(worker.KEYS), opened.config)
        self._judged = [
            files.FileGroupId("", bucket.file_id(int(number))) not in unjudged for number in of_keys
        ]
        columns = (name for name in opened.schema.arrow.names if name != "id")
        self._numbers = self._numbers_by_key(columns)

    def _numbers_by_key(self, columns: Iterable[str]) -> dict[str, list[list[int]]]:
        """Return the committed numbers of each column and key, ascending."""
        place = {key: number for number, key in enumerate(worker.KEYS)}
        found: dict[str, list[list[int]]] = {
            column: [[] for _ in worker.KEYS] for column in columns
        }
        for column, number in sorted(self.batches.values()):
            for key in worker.rows_of(self._mode, column, number):
                found[column][place[key]].append(number)
        return found

    def read(self, seen: worker.Seen) -> invariants.Read:
        """Return what a read saw.

        Raises:
            AssertionError: It is not what the table held after any of its commits.
        """
        newest = {
            column: max(
                (value for value in self._judged_values(values) if value is not None), default=-1
            )
            for column, values in seen.values.items()
        }
        for column, values in seen.values.items():
            expected = [_last(numbers, newest[column]) for numbers in self._numbers[column]]
            found = self._judged_values(values)
            assert found == self._judged_values(expected), (
                f"a read that ended at {seen.ended_ms} found in {column} up to {newest[column]}: "
                f"{found}, and not {expected}"
            )
        groups = collections.defaultdict(list)
        for requested_time, (column, number) in self.batches.items():
            if number <= newest[column]:
                for group in self._groups[requested_time]:
                    groups[group].append(requested_time)
        return invariants.Read(
            reader_id="reader",
            begun_ms=seen.begun_ms,
            ended_ms=seen.ended_ms,
            seen={group: tuple(times) for group, times in groups.items()},
        )

    def _judged_values(self, values: Sequence[int | None]) -> list[int | None]:
        return [value for value, is_judged in zip(values, self._judged, strict=True) if is_judged]


def _groups_of(metadata: commits.CommitMetadata) -> frozenset[files.FileGroupId]:
    return frozenset(
        files.FileGroupId(stat.partition_path, stat.file_id) for stat in metadata.stats
    )


def _last(numbers: Sequence[int], newest: int) -> int | None:
    """Return the greatest of some ascending numbers that is not above another."""
    place = bisect.bisect_right(numbers, newest)
    return numbers[place - 1] if place else None


def _end(seen: worker.Seen) -> int:
    return seen.ended_ms
