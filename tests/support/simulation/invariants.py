"""What must hold of every table, after whatever happened to it (docs/protocol.md, 'Invariants').

Functions on a table's storage and on what its clients were told; each fails with the facts.
"""

import collections
import enum
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import data_skipping, key_footers, metadata_listing, snapshots
from hoodie.format import (
    file_names,
    instant_names,
    metadata_avro,
    rollback_avro,
    timeline_avro,
)
from hoodie.index import bucket
from hoodie.model import commits, files, instants, predicates, schemas, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, contents, metadata_timelines, transitions
from hoodie.transaction import layout
from support.tables import filtered_metadata

_PLANNED = (instants.Action.COMPACTION, instants.Action.CLEAN)
"""What may stay pending with nobody at work on it."""


MEANWHILE = "completed meanwhile"
"""What the finding on a publication says that consumers of increments may miss."""


class Outcome(enum.Enum):
    """What a client was told of a write."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    UNKNOWN = "unknown"  # Nothing, or that it is not known.


@dataclass(frozen=True, kw_only=True)
class Told:
    """One write as its client saw it.

    Attributes:
        writer_id: Whose it was; None for a table service.
        batch_id: What it was to hold; None for a table service.
        requested_time: Of its instant.
        begun_ms: When it began, by the world's clock.
        ended_ms: When the client was told; None when it never was.
        outcome: What it was told.
        completed: What was acknowledged; None for anything else, and where it was not taken down.
        findings: What the client was told beside it.
    """

    writer_id: str | None
    batch_id: str | None
    requested_time: instants.InstantTime
    begun_ms: int
    ended_ms: int | None
    outcome: Outcome
    completed: instants.Instant | None = None
    findings: tuple[str, ...] = ()

    @property
    def is_said_to_be_alone(self) -> bool:
        """Whether the client may think that nothing has completed while it published."""
        return self.completed is not None and not any(MEANWHILE in each for each in self.findings)


@dataclass(frozen=True, kw_only=True)
class Read:
    """One snapshot read.

    Attributes:
        reader_id: Whose it was.
        begun_ms: When it began, by the world's clock.
        ended_ms: When it ended.
        seen: The writes that each file group held, by their requested times.
    """

    reader_id: str
    begun_ms: int
    ended_ms: int
    seen: Mapping[files.FileGroupId, tuple[instants.InstantTime, ...]]

    @functools.cached_property
    def writes(self) -> frozenset[instants.InstantTime]:
        """All writes that it saw."""
        return frozenset(itertools.chain.from_iterable(self.seen.values()))


class LockEvent(enum.Enum):
    """What the history of a table's lock is made of."""

    TAKEN = "taken"
    GIVEN_BACK = "given back"
    LOST = "lost"
    CHANGED = "changed the timeline"


LockHistory = Sequence[tuple[LockEvent, str, str]]
"""What happened, by which process, and of a change what to: in the order of events."""


def check_lock_history(history: LockHistory) -> None:
    """L1: one has the lock at a time, and every change lies in a holding of its author.

    One that lost the lock cannot know at once: until it gives the lock back its changes are those
    of a scope that it entered with the lock. What else must hold of them others check.
    """
    holder = ""
    in_scope = set()
    for event, process, what in history:
        match event:
            case LockEvent.TAKEN:
                assert not holder, f"{process} took the lock that {holder} has"
                holder = process
                in_scope.add(process)
            case LockEvent.LOST:
                holder = ""
            case LockEvent.GIVEN_BACK:
                holder = "" if holder == process else holder
                in_scope.discard(process)
            case LockEvent.CHANGED:
                assert process in in_scope, f"{process} changed {what} without the lock"


def check_all(  # noqa: PLR0913 - what is excused, by name
    storage: Storage,
    told: Iterable[Told],
    excused: Collection[instants.InstantTime] = (),
    surplus: Collection[instants.Instant] = (),
    strays: Collection[instants.InstantTime] = (),
    late: Collection[instants.Instant] = (),
    *,
    behind: Collection[instants.InstantTime] = (),
) -> active.ActiveTimeline:
    """Check every invariant of a table that only clients of the library wrote.

    Args:
        storage: The table's.
        told: What they were told.
        excused: What was published after its lock was lost, and not acknowledged (L2): no storage
            of files prevents that, and nothing is promised of it but that it is never called a
            success. And what a request of the dead published, after others had carried on.
        surplus: Completed files that appeared after others had gone on, and that were not called a
            success: those others may have completed the instant as well.
        strays: What was requested after others had gone on: they may have used its time.
        late: What was completed after others had gone on: they may have used its completion time.
        behind: What other engines gave times of an hour that clocks show twice (T5).
    """
    timeline = active.load(storage)
    check_timeline(storage, timeline)
    history = list(told)
    check_acknowledged(timeline, history)
    certain = without(timeline, excused, surplus)
    check_times_differ(without(certain, (), late))
    check_order(timeline, history, behind)
    check_states(certain)
    check_completed_once(certain)
    check_files_are_there(storage, certain)
    check_batches_once(storage, certain)
    check_times_once(certain, strays, late)
    check_rollbacks(storage, certain)
    return timeline


def without(
    timeline: active.ActiveTimeline,
    excused: Collection[instants.InstantTime],
    surplus: Collection[instants.Instant] = (),
) -> active.ActiveTimeline:
    """Return a timeline as if some instants had never been requested, nor some files created."""
    return active.from_files(
        each
        for each in timeline.files
        if each.requested_time not in excused and each not in surplus
    )


def acknowledged(told: Iterable[Told]) -> frozenset[instants.InstantTime]:
    """Return what clients were told is there."""
    return frozenset(each.requested_time for each in told if each.outcome is Outcome.ACKNOWLEDGED)


def check_acknowledged(timeline: active.ActiveTimeline, told: Iterable[Told]) -> None:
    """I1: what was acknowledged is completed, what failed is not."""
    completed = {each.requested_time for each in timeline.completed_writes}
    for write in told:
        if write.outcome is Outcome.ACKNOWLEDGED:
            assert write.requested_time in completed, f"acknowledged and not there: {write}"
        if write.outcome is Outcome.FAILED:
            assert write.requested_time not in completed, f"failed and there: {write}"


def check_times_differ(timeline: active.ActiveTimeline) -> None:
    """I2: completion times are a total order."""
    times = [each.completion_time for each in timeline.completed_writes]
    assert len(set(times)) == len(times), f"equal completion times: {times}"


def check_order(
    timeline: active.ActiveTimeline,
    told: Iterable[Told],
    behind: Collection[instants.InstantTime] = (),
) -> None:
    """I2: completion times agree with real time, but for those that went back."""
    history = [
        (write, timeline.completion_time(write.requested_time))
        for write in told
        if write.outcome is Outcome.ACKNOWLEDGED
    ]
    for first, first_time in history:
        for second, second_time in history:
            if second.requested_time in behind:
                continue
            if first.ended_ms is not None and first.ended_ms < second.begun_ms:
                assert first_time is not None
                assert second_time is not None
                assert first_time < second_time, (
                    f"{second} began after {first} was acknowledged, and completed before it"
                )


def check_indexing_is_followed(timeline: active.ActiveTimeline) -> None:
    """IF13: whenever an indexing action was complete, so was a write that was requested later."""
    for each in timeline.completed:
        if each.action is instants.Action.INDEXING:
            time, end = each.requested_time, str(each.completion_time)
            assert any(
                write.requested_time > time and str(write.completion_time) < end
                for write in timeline.completed_writes
            ), f"{each} was the last action when it completed"


def check_completed_once(timeline: active.ActiveTimeline) -> None:
    """I9: no instant has two completed files."""
    assert not timeline.duplicates, timeline.duplicates


def check_files_are_there(storage: Storage, timeline: active.ActiveTimeline) -> None:
    """I9: no completed instant names a file that is not there, unless a clean has deleted it."""
    present = {info.path: info.size_bytes for info in storage.list("", is_recursive=True)}
    gone = cleaned(storage, timeline)
    for instant in timeline.completed_writes:
        for stat in _metadata(storage, instant).stats:
            named = [files.join(stat.partition_path, name) for name in stat.log_files]
            for path in {stat.path, *named} - gone:
                assert path in present, f"{instant} names {path}, which is not there"
            if stat.path not in gone:
                assert present[stat.path] == stat.size_bytes, f"{instant}: {stat.path} was changed"


def cleaned(storage: Storage, timeline: active.ActiveTimeline) -> frozenset[str]:
    """Return the paths of the files that cleans have deleted, or are about to."""
    return frozenset().union(
        *(
            contents.read_clean_plan(storage, each).paths
            for each in timeline.instants
            if each.action is instants.Action.CLEAN
        )
    )


def check_listing(
    storage: Storage,
    snapshot: snapshots.Snapshot,
    excused: Collection[instants.InstantTime] = (),
) -> None:
    """I7: the files that a snapshot has by the metadata table are those that storage has of it.

    What cleans have deleted since, or are about to, it may have or not: `snapshots.consistent`
    looks again where that matters.

    Args:
        storage: The table's; its listings are of now.
        snapshot: Taken by the metadata table.
        excused: What has a completed file that was published after others had gone on: files that
            it names may be gone.
    """
    gone = cleaned(storage, active.listed(storage))
    wrong = _differences(snapshot, storage, excused)
    told = {path: sizes for path, sizes in wrong.items() if path not in gone}
    assert not told, f"sizes by the metadata table and on storage differ: {told}"


def check_metadata(
    storage: Storage,
    whole: Storage,
    config: table_config.TableConfig,
    excused: Collection[instants.InstantTime] = (),
) -> None:
    """I7, I10: once all is done the metadata table is exact, and nothing is left over in it.

    Args:
        storage: The table's.
        whole: The same with the instants that were archived.
        config: The table's.
        excused: As in `check_listing`.

    Raises:
        FormatError: It lacks a change, or is damaged.
    """
    timeline = chain.load(storage, config)
    snapshot = snapshots.take(storage, config, timeline, has_committed_only=True)
    wrong = _differences(snapshot, whole, excused)
    assert isinstance(snapshot.listing, metadata_listing.MetadataListing)
    assert not snapshot.listing.is_refused, "the storage was listed instead"
    assert not wrong, f"sizes by the metadata table and on storage differ: {wrong}"
    beside = active.listed(metadata_timelines.opened(storage))
    completed = {each.requested_time for each in timeline.completed}
    surplus = [
        str(each)
        for each in beside.instants
        if each.requested_time not in completed | timeline.pending_times
        and each.requested_time not in metadata_timelines.FIRST_TIMES
        and each.action.completed is not instants.Action.COMMIT
        and timeline.archive.completion_time(each.requested_time) is None
        and not _makes_index(metadata_timelines.opened(storage), each)
    ]
    assert not surplus, f"left over in the metadata table: {surplus}"
    pending = [str(each) for each in beside.pending if each.requested_time in completed]
    assert not pending, f"pending in the metadata table: {pending}"
    assert not beside.duplicates, f"completed twice in the metadata table: {beside.duplicates}"


def _makes_index(beside: Storage, instant: instants.Instant) -> bool:
    """Return whether an instant of a metadata table completes the build of an index."""
    if instant.is_pending:
        return False
    made_by = contents.read_commit(beside, instant).operation
    return made_by == commits.Operation.BULK_INSERT.value


def check_bloom_filters(
    storage: Storage,
    config: table_config.TableConfig,
    snapshot: snapshots.Snapshot,
    excused: Collection[instants.InstantTime] = (),
) -> int:
    """I7: the metadata table has the filter of each base file that is there and has one.

    A file that was written before the table had the partition has none.

    Args:
        storage: The table's.
        config: Its configuration.
        snapshot: Its committed base files.
        excused: As in `check_listing`.

    Returns:
        How many filters were compared.
    """
    recorded = filtered_metadata.recorded(storage, config)
    count = 0
    for each in filtered_metadata.base_files(snapshot):
        stored = key_footers.read_filter(storage, each.path)
        if stored is None or each.instant_time in excused:
            continue
        key = metadata_avro.bloom_filter_key(each.group.partition_path, each.name)
        assert recorded.get(key) == stored, f"the filter of {each.path} is not in `bloom_filters`"
        count += 1
    return count


def check_skipping(
    snapshot: snapshots.Snapshot,
    slices: Sequence[files.FileSlice],
    seen: Mapping[files.FileGroupId, Sequence[instants.InstantTime]],
    schema: pa.Schema,
    excused: Collection[instants.InstantTime] = (),
) -> int:
    """I7: what a filter leaves out by statistics has no row that it keeps.

    The filters are those of rows of single writes: of the first, the last, and one between them.
    Statistics are trusted more than in a table that other engines write, too.

    Args:
        snapshot: As a read took it.
        slices: What it read.
        seen: The writes that were found in each file group.
        schema: All columns of the table.
        excused: As in `check_listing`.

    Returns:
        How many filters were tried by both kinds of statistics.
    """
    table = snapshot.metadata
    if table is None:
        return 0
    times = sorted({time for writes in seen.values() for time in writes}.difference(excused))
    count = 0
    for time in {*times[:1], *times[len(times) // 2 :][:1], *times[-1:]}:
        where = predicates.Compare(schemas.COMMIT_TIME, predicates.Comparator.EQ, time)
        holding = [each for each in slices if time in seen[each.group]]
        paths = sorted({each.group.partition_path for each in holding})
        try:
            found = data_skipping.matching_slices(table, holding, where, schema, is_shared=False)
            found += data_skipping.matching_partitions(table, paths, where, schema, is_shared=False)
        except errors.HoodieError:
            continue  # As a read does that finds the metadata table compacted and cleaned.
        groups = [str(each.group) for each in holding]
        assert all(found), (
            f"by statistics a read leaves out rows of {time}: {found} of {groups}, {paths}"
        )
        count += 1
    return count


def _differences(
    snapshot: snapshots.Snapshot, storage: Storage, excused: Collection[instants.InstantTime]
) -> dict[str, tuple[int | None, int | None]]:
    """Return the files of which a snapshot and storage have different sizes, by path."""
    named, there = _sizes(snapshot), _named_by_commits(storage, snapshot)
    excuses = [f"_{time}." for time in excused]
    return {
        path: (named.get(path), there.get(path))
        for path in sorted(named.keys() | there.keys())
        if named.get(path) != there.get(path) and not any(each in path for each in excuses)
    }


def _sizes(snapshot: snapshots.Snapshot) -> dict[str, int]:
    """Return the sizes of the committed files that a snapshot has, by path."""
    return {
        each.path: each.size_bytes
        for partition_path in snapshot.listing.partitions()
        for each in snapshot.listing.files(partition_path)
        if snapshot.committed.is_committed(each.instant_time)
    }


def _named_by_commits(storage: Storage, snapshot: snapshots.Snapshot) -> dict[str, int]:
    """Return the sizes of the files that are there and that the commits of a snapshot name."""
    there = {info.path: info.size_bytes for info in storage.list("", is_recursive=True)}
    return {
        path: there[path]
        for write in active.load(storage).completed_writes
        if snapshot.committed.is_committed(write.requested_time)
        for stat in _metadata(storage, write).stats
        for path in (
            stat.path,
            *(files.join(stat.partition_path, name) for name in stat.log_files),
        )
        if path in there
    }


def check_batches_once(storage: Storage, timeline: active.ActiveTimeline) -> None:
    """WR1: no batch is held twice, and each writer's batches are in one order."""
    held = batches(storage, timeline)
    twice = [batch for batch, count in collections.Counter(held).items() if count > 1]
    assert not twice, f"held twice: {twice}"


def check_attempts_write_once(storage: Storage, timeline: active.ActiveTimeline) -> None:
    """WR1: no attempt of a writer has written a batch twice, whenever its files appeared.

    Only a higher attempt goes on beside a lower one, of which something may be on its way yet.
    """
    extras = [_metadata(storage, each).extra for each in timeline.completed_writes]
    held = [
        (each[commits.WRITER_ID_KEY], each[commits.ATTEMPT_KEY], each[commits.BATCH_ID_KEY])
        for each in extras
        if commits.BATCH_ID_KEY in each
    ]
    twice = [batch for batch, count in collections.Counter(held).items() if count > 1]
    assert not twice, f"written twice by one attempt: {twice}"


def check_timeline(storage: Storage, timeline: active.ActiveTimeline) -> None:
    """A timeline that was made from one before is what all files say together."""
    found = map(instant_names.parse, storage.names(active.DIRECTORY))
    whole = active.from_files(each for each in found if each is not None)
    assert timeline == whole, f"{timeline} is not {whole}"


def check_times_once(
    timeline: active.ActiveTimeline,
    strays: Collection[instants.InstantTime] = (),
    late: Collection[instants.Instant] = (),
) -> None:
    """No two instants have one requested time, and no other's completion time; savepoints apart."""
    times = [
        time
        for each in timeline.instants
        if each.action is not instants.Action.SAVEPOINT and each.requested_time not in strays
        for time in (each.requested_time, None if each in late else each.completion_time)
        if time is not None
    ]
    assert len(set(times)) == len(times), sorted(times)


def check_parity(timeline: active.ActiveTimeline) -> None:
    """CH4, CH5: the times that epochs give are even, those that writers give odd."""
    for each in timeline.instants:
        is_given_by_epoch = each.action in (*_PLANNED, instants.Action.ROLLBACK)
        given = [each.completion_time, each.requested_time if is_given_by_epoch else None]
        assert all(int(time) % 2 == 0 for time in given if time is not None), f"odd time: {each}"


def check_serial(
    storage: Storage,
    timeline: active.ActiveTimeline,
    told: Iterable[Told],
    behind: Collection[instants.InstantTime] = (),
) -> None:
    """I3: of the writes of one file group each began after the one before it had completed.

    Then every write of a group stood on all earlier ones: the order of completion is serial. What
    was not acknowledged may be one that was published late, after the lock was lost; of what went
    back, the times do not say when it began.
    """
    certain = acknowledged(told) - set(behind)
    newest: dict[tuple[str, str], instants.Instant] = {}
    for write in timeline.completed_writes:
        metadata = _metadata(storage, write)
        if _is_compaction(metadata) or write.requested_time not in certain:
            continue
        for stat in metadata.stats:
            before = newest.get((stat.partition_path, stat.file_id))
            newest[stat.partition_path, stat.file_id] = write
            if before is not None:
                assert before.completion_time is not None
                assert before.completion_time < write.requested_time, (
                    f"{write} began before {before} completed, and both wrote to {stat.file_id}"
                )


def check_one_group_a_bucket(
    storage: Storage,
    timeline: active.ActiveTimeline,
    excused: Collection[instants.InstantTime],
) -> None:
    """O1: no bucket has two file groups, of which Apache Hudi would see one.

    One that an excused write has named is not counted, though others may have written to it since.
    """
    by_write = _groups_by_write(storage, timeline)
    surplus = {group for write in excused for group in by_write.get(write, ())}
    groups = {group for each in by_write.values() for group in each} - surplus
    found = {(group.partition_path, group.file_id) for group in groups}
    by_bucket = collections.Counter(
        (partition, bucket.bucket_of(file_id)) for partition, file_id in found
    )
    twice = [each for each, count in by_bucket.items() if count > 1]
    assert not twice, f"several file groups of one bucket: {sorted(found)}"


def check_reads(  # noqa: PLR0913 - what is excused, by name
    storage: Storage,
    timeline: active.ActiveTimeline,
    told: Iterable[Told],
    reads: Iterable[Read],
    late: Collection[instants.InstantTime],
    excused: Collection[instants.InstantTime],
    *,
    behind: Collection[instants.InstantTime] = (),
) -> None:
    """I4, I5, I11: each read saw the first writes in the order of completion, all of each, once.

    It missed nothing that was acknowledged, or seen by another read, before it began.

    Args:
        storage: The table's.
        timeline: As it is in the end.
        told: What writers were told.
        reads: In the order in which they ended.
        late: Writes published without the lock, but for those of which their writers were told that
            nothing completed meanwhile: one may complete before what was read already, and what
            others complete after it may have a smaller completion time.
        excused: Those of them that were not called a success: they may come and go.
        behind: As in `check_all`: they complete behind what was read, and no reader misses them,
            but for what base files of greater times hide.
    """
    late = {*late, *behind}
    groups = _groups_by_write(storage, without(timeline, excused))
    hidden = hidden_by(storage, timeline, excused) | hidden_behind(storage, timeline, behind)
    partly_hidden = {write for write, _ in hidden}
    order = list(groups)
    places = {write: place for place, write in enumerate(order)}
    successes = [each for each in told if each.outcome is Outcome.ACKNOWLEDGED]
    ended: list[Read] = []
    for each in reads:
        read = _without_excused(each, excused)
        strangers = read.writes - groups.keys()
        assert not strangers, f"{read} saw what was never committed: {sorted(strangers)}"
        last = max((places[write] for write in read.writes if write not in late), default=-1)
        prefix = [
            write
            for write in order
            if write in read.writes or (places[write] <= last and write not in late)
        ]
        for group in {group for write in prefix for group in groups[write]}:
            seen = sorted(read.seen.get(group, ()))
            expected = sorted(
                write
                for write in prefix
                if group in groups[write] and (write in seen or (write, group) not in hidden)
            )
            assert seen == expected, (
                f"{read} saw other writes of {group} than those that completed first: {expected}"
            )
        for write in successes:
            is_before = write.ended_ms is not None and write.ended_ms < read.begun_ms
            time = write.requested_time
            is_there = time not in groups or time in read.writes or time in partly_hidden
            assert not is_before or is_there, f"{read} began after it, and missed {write}"
        for before in ended:
            is_later = before.ended_ms < read.begun_ms
            lost = before.writes - read.writes - partly_hidden
            assert not (is_later and lost), f"{read} went back from {before}"
        ended.append(read)


def check_increments(
    timeline: active.ActiveTimeline,
    reads: Iterable[Read],
    late: Collection[instants.InstantTime],
) -> None:
    """I6: who goes on from the greatest completion time seen misses nothing and repeats nothing.

    Args:
        timeline: As it is in the end.
        reads: In the order in which they ended; those of one reader are its looks at the table.
        late: As in `check_reads`: they may complete behind what was seen already, and who goes on
            from one of them may miss what completed at that time.
    """
    completed = timeline.write_completion_times
    seen: dict[str, set[instants.InstantTime]] = collections.defaultdict(set)
    for read in reads:
        before = seen[read.reader_id]
        # What was published late may have been taken back since.
        certain = (before & completed.keys()) - set(late)
        checkpoint = max((completed[write] for write in certain), default="")
        new = read.writes - before
        missed = [write for write in new if completed.get(write, "") <= checkpoint]
        assert set(missed) <= set(late), f"{read}, which went on from {checkpoint}, missed {missed}"
        before |= read.writes


def hidden_by(
    storage: Storage, timeline: active.ActiveTimeline, excused: Collection[instants.InstantTime]
) -> frozenset[tuple[instants.InstantTime, files.FileGroupId]]:
    """Return which writes the base files of excused ones hide, in which file groups.

    Those that completed after the excused one had begun, and have smaller requested times: its base
    file was made without theirs, and is the newest. One that was published late itself may have a
    completion time from before; its file tells when it was there.
    """
    writes = [
        (each, stat)
        for each in timeline.completed_writes
        if not _is_compaction(metadata := _metadata(storage, each))
        for stat in metadata.stats
        if not stat.log_files
    ]
    return frozenset(
        (each.requested_time, files.FileGroupId(stat.partition_path, stat.file_id))
        for late, late_stat in writes
        if late.requested_time in excused
        for each, stat in writes
        if (stat.partition_path, stat.file_id) == (late_stat.partition_path, late_stat.file_id)
        and each.requested_time < late.requested_time
        and (
            late.requested_time < str(each.completion_time)
            or _changed_ms(storage, each)
            > _changed_ms(storage, late.pending_in(instants.State.REQUESTED))
        )
    )


def hidden_behind(
    storage: Storage, timeline: active.ActiveTimeline, behind: Collection[instants.InstantTime]
) -> frozenset[tuple[instants.InstantTime, files.FileGroupId]]:
    """Return which writes are hidden by base files of greater times than those that they gave.

    A compaction hides none (T5): log files are read, whatever their times.
    """
    bases = [
        (each.requested_time, files.FileGroupId(stat.partition_path, stat.file_id))
        for each in timeline.completed_writes
        if not _is_compaction(metadata := _metadata(storage, each))
        for stat in metadata.stats
        if not stat.log_files
    ]
    return frozenset(
        (time, group)
        for time, group in bases
        if time in behind and any(group == other and time < above for above, other in bases)
    )


def _changed_ms(storage: Storage, instant: instants.Instant) -> int:
    """Return when an instant came to a state; 0 if there is no file of that."""
    try:
        return storage.stat(transitions.path(instant)).modified_ms
    except errors.NotFoundError:
        return 0


def _without_excused(read: Read, excused: Collection[instants.InstantTime]) -> Read:
    if not excused:
        return read
    seen = {
        group: tuple(write for write in writes if write not in excused)
        for group, writes in read.seen.items()
    }
    return replace(read, seen=seen)


def check_everything_is_read(
    storage: Storage,
    timeline: active.ActiveTimeline,
    read: Read,
    excused: Collection[instants.InstantTime] = (),
    behind: Collection[instants.InstantTime] = (),
) -> None:
    """I3, I4: in the end a read sees every write that completed, in every file group of it."""
    hidden = hidden_by(storage, timeline, excused) | hidden_behind(storage, timeline, behind)
    for write, groups in _groups_by_write(storage, without(timeline, excused)).items():
        for group in groups:
            is_seen = write in read.seen.get(group, ()) or (write, group) in hidden
            assert is_seen, f"{write} is not read in {group}"


def check_merged_in_order(reads: Iterable[Read], excused: Collection[instants.InstantTime]) -> None:
    """N1: writes of one column are merged in one order, whenever compaction ran.

    Without any it is the order of requested times.
    """
    for read in reads:
        for group, merged in read.seen.items():
            writes = [write for write in merged if write not in excused]
            assert writes == sorted(writes), f"{read} merged {group} in another order"


def _groups_by_write(
    storage: Storage, timeline: active.ActiveTimeline
) -> dict[instants.InstantTime, frozenset[files.FileGroupId]]:
    """Return which file groups each write wrote to, in the order of completion."""
    return {
        write.requested_time: frozenset(
            files.FileGroupId(stat.partition_path, stat.file_id) for stat in metadata.stats
        )
        for write in timeline.completed_writes
        if not _is_compaction(metadata := _metadata(storage, write))
    }


def _is_compaction(metadata: commits.CommitMetadata) -> bool:
    return metadata.operation == commits.Operation.COMPACT.value


def check_states(timeline: active.ActiveTimeline) -> None:
    """No instant is completed without having been requested.

    What is inflight without being requested, or the other way round, may be the late act of a
    process that was paused and has been replaced; nobody is misled by it.
    """
    requested, completed = (
        {each.requested_time for each in timeline.files if each.state is state}
        for state in (instants.State.REQUESTED, instants.State.COMPLETED)
    )
    assert completed <= requested, f"completed without requested: {completed - requested}"


def check_rollbacks(storage: Storage, timeline: active.ActiveTimeline) -> None:
    """R-A, R-D: nothing that took effect was taken back, and no rollback says it was done twice."""
    completed = {each.requested_time for each in timeline.completed_writes}
    for rollback in timeline.instants:
        if rollback.action is instants.Action.ROLLBACK and rollback.is_completed:
            path = contents.rollback_plan_path(rollback)
            plan = rollback_avro.decode_plan(storage.read(path), path)
            is_plan_kept = plan.action is instants.Action.COMPACTION
            assert is_plan_kept or plan.target not in completed, f"{rollback} took {plan.target}"


def check_quiescence(
    storage: Storage,
    timeline: active.ActiveTimeline,
    strays: Collection[instants.InstantTime] = (),
) -> None:
    """I8, I10: once all is done and swept nothing is pending, and no file is nobody's.

    Args:
        storage: The table's.
        timeline: At the end.
        strays: As in `check_all`: what shares its time with another's completed instant stays.
    """
    shared = frozenset(strays) & timeline.write_completion_times.keys()
    pending = [
        each
        for each in timeline.pending
        if each.action is not instants.Action.COMPACTION and each.requested_time not in shared
    ]
    assert not pending, f"still pending: {[str(each) for each in pending]}"
    left = [
        info.path
        for directory in (layout.HEARTBEATS, layout.MARKERS)
        for info in storage.list(directory, is_recursive=True)
    ]
    assert not left, f"left behind: {left}"
    for info in storage.list("", is_recursive=True):
        parsed = file_names.parse(info.path, info.size_bytes)
        if parsed is not None and not info.path.startswith(".hoodie/"):
            assert parsed.instant_time in timeline.write_completion_times, f"of nobody: {info.path}"


def batches(storage: Storage, timeline: active.ActiveTimeline) -> list[tuple[str, str]]:
    """Return the (writer, batch) of every completed write that has one, in completion order."""
    held = []
    for instant in timeline.completed_writes:
        extra = _metadata(storage, instant).extra
        if commits.BATCH_ID_KEY in extra:
            held.append((extra[commits.WRITER_ID_KEY], extra[commits.BATCH_ID_KEY]))
    return held


def _metadata(storage: Storage, write: instants.Instant) -> commits.CommitMetadata:
    return _decode(storage.read(transitions.path(write)))


@functools.lru_cache(maxsize=256)
def _decode(content: bytes) -> commits.CommitMetadata:
    """Return what a commit says; one check after the other wants to know."""
    return timeline_avro.decode_commit(content)


def outcome_of(error: BaseException) -> Outcome:
    """Return what an error tells a client of the write it ended."""
    if isinstance(error, errors.HoodieError) and not isinstance(error, errors.OutcomeUnknownError):
        return Outcome.FAILED
    return Outcome.UNKNOWN
