"""Increments: which rows of a table changed between a position and a later time.

    position    what a reader has seen: all that had completed by then, but for latecomers
    range       the writes that it has not seen, up to a completion time
    latecomer   a write that completed at or below the position after that was given out
    unit        a file group, or several between which a write of the range moved rows

An increment is the difference of two snapshots, one of what the reader has seen and one of the end
of the range, of the file groups that writes of the range touched; the others are equal in both. So
compactions, clusterings and cleans in between change nothing, and a chain of increments is the
snapshot. `changed_rows` has the rows.

A compaction touches no row, and its file groups are not read, with one exception. Log files that
completed before the position, and behind the compaction's plan, are merged on top of its base file
from then on; before, those that the compaction merged may have come after them. Rows of equal
ordering values may change by that, so that such file groups are compared row by row.

The end of a range is the newest completion time below which nothing completes any more, as far as
that is known; where a reader asks for order, it is below the first write that was requested after
one that is still pending (S88).

By requested times, the rule of Apache Hudi before 1.0, a range has the writes that were requested
in it, and ends below the first pending one; its position is the requested time of its last write.

Source: RFC-66, "Pseudocode for Incremental/CDC Queries"; protocol.md: Increments.
"""

import itertools
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import group_files, past, snapshots
from hoodie.format import timeline_avro
from hoodie.maintenance import consumers
from hoodie.model import commits, files, instants, moments, predicates, schemas, table_config
from hoodie.read import changed_rows, planning, positions
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, archived, contents

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256
"""So many commits are read before what they touched is added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table, and what reads it.

    Attributes:
        storage: The table's.
        config: Its configuration.
        schema: The columns of rows.
        engine: Reads commits.
        clock_ms: What our clock says, since the epoch.
    """

    storage: Storage
    config: table_config.TableConfig
    schema: schemas.TableSchema
    engine: Engine
    clock_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader asks for.

    Attributes:
        since: Where it is: a position, or a completion time, by which no latecomers are found.
        until: The end: a completion time, or a position that was given out, of which no latecomers
            count, so that the range is the same whenever it is read; None for the newest.
        has_deletes: Whether deleted rows are asked for.
        is_ordered: Whether the range ends below what is still in flight.
        columns: Of the rows.
        rule: By which time of a write it is in the range; by requested times both ends are such.
        where: Which changes are asked for, by what the result shows of them; None for all.
    """

    since: positions.Position | instants.InstantTime
    until: positions.Position | instants.InstantTime | None = None
    has_deletes: bool = True
    is_ordered: bool = False
    columns: tuple[str, ...]
    rule: moments.Rule = moments.Rule.COMPLETION
    where: predicates.Predicate | None = None

    @property
    def time(self) -> instants.InstantTime:
        """Time up to which the reader has read, by the rule."""
        return self.since.time if isinstance(self.since, positions.Position) else self.since


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """An increment, planned.

    Attributes:
        position: From which the next one begins; a requested time if they are the rule.
        writes: The writes of the range, compactions left out, by completion time.
        latecomers: Those of them that completed at or below the position before.
        tasks: A task for each unit, by partition.
    """

    position: positions.Position | instants.InstantTime
    writes: tuple[instants.Instant, ...]
    latecomers: tuple[instants.Instant, ...]
    tasks: tuple[changed_rows.UnitTask, ...]


@dataclass(slots=True)
class Touched:
    """What writes of a range touched.

    Attributes:
        groups: File groups that they wrote to or retired.
        compacted: Those of compactions.
        moves: For each write that retired file groups, these and those that it wrote.
    """

    groups: set[files.FileGroupId] = field(default_factory=set)
    compacted: set[files.FileGroupId] = field(default_factory=set)
    moves: list[frozenset[files.FileGroupId]] = field(default_factory=list)

    def add(self, commit: commits.CommitMetadata, *, is_compaction: bool) -> None:
        """Add what one more write touched."""
        written = {files.FileGroupId(each.partition_path, each.file_id) for each in commit.stats}
        if is_compaction:
            self.compacted |= written
            return
        self.groups |= written | commit.replaced
        if commit.replaced:
            self.moves.append(frozenset(written | commit.replaced))

    def only(self, is_wanted: Callable[[files.FileGroupId], bool]) -> "Touched":
        """Return what was touched of some file groups alone."""
        return Touched(
            groups=set(filter(is_wanted, self.groups)),
            compacted=set(filter(is_wanted, self.compacted)),
            moves=[frozenset(filter(is_wanted, each)) for each in self.moves],
        )


def plan(source: Source, snapshot: snapshots.Snapshot, wanted: Wanted) -> Increment:
    """Return what changed between a position and a later time.

    A read for each write of the range, and the archive where some of them were archived; the names
    of the files in partitions that they touched. For deleted rows, and rows that are compared, a
    read for each clean since the position.

    Args:
        source: The table.
        snapshot: Of it as it is now.
        wanted: What the reader asks for.

    Raises:
        InvalidInputError: The position is of another table.
        GoneError: Writes that the reader has seen were rolled back, more than can be named came
            late, or files are gone that are needed.
        ConflictError: A write was rolled back while this looked.
    """
    found = range_of(source, snapshot, wanted)
    touched = touched_by(source, snapshot.timeline, found.writes)
    ends = Ends(
        then=snapshots.as_of(snapshot, found.begin),
        now=snapshots.as_of(snapshot, found.end),
        files=group_files.GroupFiles(snapshot.listing, snapshot.timeline.completion_time),
    )
    units = units_of(source, touched, ends)
    _check_readable(source, snapshot, wanted, units, ends)
    texts = changed_rows.texts_of([each.requested_time for each in found.data_writes])
    units_tasks = tuple(_task(source, unit, ends, texts, wanted.columns) for unit in units)
    return Increment(
        position=found.position,
        writes=found.data_writes,
        latecomers=found.data_latecomers,
        tasks=_filtered(source, units_tasks, ends, wanted),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Which writes a reader has not seen.

    Attributes:
        begin: What the reader has seen: the table as of then, without latecomers.
        end: The table up to which it goes.
        position: From which the next one begins; a requested time if they are the rule.
        writes: All of them, by completion time.
        data_writes: Those of them that are no compactions.
        data_latecomers: Those of these that completed at or below the position.
    """

    begin: moments.Moment
    end: moments.Moment
    position: positions.Position | instants.InstantTime
    writes: tuple[instants.Instant, ...]
    data_writes: tuple[instants.Instant, ...]
    data_latecomers: tuple[instants.Instant, ...]


def range_of(source: Source, snapshot: snapshots.Snapshot, wanted: Wanted) -> Range:
    """Return which writes a reader has not seen; the archive, where some were archived.

    Raises:
        InvalidInputError: A position is of another table.
        GoneError: Writes that the reader has seen, or that are to be read, were rolled back; or
            more than can be named came late.
    """
    _say_if_early(source, snapshot.timeline, wanted.until, wanted.rule)
    if not isinstance(wanted.since, positions.Position):
        begin = moments.Moment(time=wanted.since, rule=wanted.rule)
        past.check_history(source.storage, snapshot, begin)
        if wanted.rule is moments.Rule.REQUESTED:
            return _requested_in(source, snapshot.timeline, begin, wanted)
    return unseen(source, snapshot.timeline, wanted)


def _requested_in(
    source: Source, timeline: active.ActiveTimeline, begin: moments.Moment, wanted: Wanted
) -> Range:
    """Return the writes that were requested in a range; the archive, where some were archived."""
    known = Known(source.storage, source.config, timeline, begin.time, wanted.until)
    end = _requested_end(timeline, wanted.until)
    writes = [
        each
        for each in known.writes
        if begin.time < each.requested_time and (end is None or each.requested_time <= end)
    ]
    last = max((each.requested_time for each in writes), default=begin.time)
    writes.sort(key=completion_of)
    return Range(
        begin=begin,
        end=moments.Moment(time=last, rule=begin.rule),
        position=last,
        writes=tuple(writes),
        data_writes=tuple(each for each in writes if not known.is_compaction(each)),
        data_latecomers=(),
    )


def _requested_end(
    timeline: active.ActiveTimeline, until: positions.Position | instants.InstantTime | None
) -> instants.InstantTime | None:
    """Return up to which requested time writes are read; None for all."""
    assert not isinstance(until, positions.Position), until
    ends = [] if until is None else [until]
    pending = [each.requested_time for each in timeline.pending_of(*instants.WRITES)]
    if pending:
        ends.append(instants.previous_time(min(pending)))
    return min(ends, default=None)


def unseen(source: Source, timeline: active.ActiveTimeline, wanted: Wanted) -> Range:
    """Return which writes a reader has not seen, as far as history tells; as `range_of`."""
    known = Known(source.storage, source.config, timeline, wanted.since, wanted.until)
    late = known.latecomers(wanted.since)
    until, later = wanted.until, frozenset[instants.InstantTime]()
    if isinstance(until, positions.Position) and until.time >= wanted.time:
        position = until
        later = frozenset(each.requested_time for each in known.latecomers(until))
    else:
        time = until.time if isinstance(until, positions.Position) else until
        position = position_at(source, timeline, _end(source, timeline, wanted, time))
    after = (each for each in known.writes if wanted.time < completion_of(each) <= position.time)
    found = sorted(
        (each for each in (*late, *after) if each.requested_time not in later), key=completion_of
    )
    late = tuple(each for each in late if each.requested_time not in later)
    return Range(
        begin=moments.Moment(
            time=wanted.time, without=later | {each.requested_time for each in late}
        ),
        end=moments.Moment(time=position.time, without=later),
        position=position,
        writes=tuple(found),
        data_writes=tuple(each for each in found if not known.is_compaction(each)),
        data_latecomers=tuple(each for each in late if not known.is_compaction(each)),
    )


def ending_of(
    source: Source,
    timeline: active.ActiveTimeline,
    until: positions.Position | instants.InstantTime | None,
) -> tuple[moments.Moment, positions.Position]:
    """Return the table that a reader of all rows is given, and its position then.

    Args:
        source: The table.
        timeline: The table's.
        until: As in `Wanted`; a completion time.

    Raises:
        InvalidInputError: The position is of another table.
        GoneError: Writes that it has counted were rolled back.
    """
    if isinstance(until, positions.Position):
        later = Known(source.storage, source.config, timeline, until).latecomers(until)
        without = frozenset(each.requested_time for each in later)
        return moments.Moment(time=until.time, without=without), until
    _say_if_early(source, timeline, until)
    time = end_of(timeline, source.config, source.clock_ms)
    if until is not None:
        time = min(time, until)
    return moments.Moment(time=time), position_at(source, timeline, time)


def _say_if_early(
    source: Source,
    timeline: active.ActiveTimeline,
    until: positions.Position | instants.InstantTime | None,
    rule: moments.Rule = moments.Rule.COMPLETION,
) -> None:
    """Warn of an end before the first write; a request to the archive if it is an early one."""
    if until is None or isinstance(until, positions.Position):
        return
    moment = moments.Moment(time=until, rule=rule)
    if past.is_before_first(source.storage, timeline, moment):
        logger.warning("%s: had no commit yet as of %s", source.storage.uri, until)


def position_at(
    source: Source,
    timeline: active.ActiveTimeline,
    time: instants.InstantTime,
    without: Collection[instants.InstantTime] = (),
) -> positions.Position:
    """Return the position of a reader that has seen all that a timeline shows up to a time.

    No request for the newest time that can be read; those to the archive for an earlier one.

    Args:
        source: The table.
        timeline: The table's.
        time: A completion time.
        without: Requested times of writes that it has not seen.
    """
    config = source.config
    writes = timeline.completed_writes
    since = timeline.start
    if since is None:
        newest = timeline.greatest_time
        since = positions.BEGINNING if newest is None else instants.next_time(newest)
    if time < end_of(timeline, config, source.clock_ms):
        # Of what completes after it some may have been archived: the position counts from there.
        archive = archived.ArchivedTimeline(source.storage)
        after = [each.requested_time for each in archive.writes(completed_after=time)]
        if after and min(after) < since:
            since = min(after)
            there = {each.requested_time for each in writes}
            older = archive.writes(requested_from=since)
            writes = (*(each for each in older if each.requested_time not in there), *writes)
    counted = (
        each
        for each in writes
        if not is_compaction(config, each) and each.requested_time not in without
    )
    return positions.at(time, config, since, map(_completed, counted))


def end_of(
    timeline: active.ActiveTimeline, config: table_config.TableConfig, clock_ms: int
) -> instants.InstantTime:
    """Return the newest time below which nothing completes any more, as far as that is known."""
    return consumers.reach_of(timeline, config, clock_ms).certain


def _end(
    source: Source,
    timeline: active.ActiveTimeline,
    wanted: Wanted,
    until: instants.InstantTime | None,
) -> instants.InstantTime:
    config = source.config
    end = end_of(timeline, config, source.clock_ms)
    if until is not None:
        end = min(end, until)
    pending = [each.requested_time for each in timeline.pending_of(*instants.WRITES)]
    if wanted.is_ordered and pending:
        first = min(pending)
        for each in timeline.completed_writes:
            if each.requested_time > first and not is_compaction(config, each):
                below = instants.parse_time(completion_of(each)) - 1
                end = min(end, instants.format_time(below))
                break
    return max(end, wanted.time)


class Known:
    """The writes of a table, as far as a reader needs to know them.

    All that completed after a position were requested at its `since` or later, so that the archive
    is asked only if it has such ones; of a time alone it is not known how long a write took.
    """

    def __init__(
        self,
        storage: Storage,
        config: table_config.TableConfig,
        timeline: active.ActiveTimeline,
        since: positions.Position | instants.InstantTime,
        until: positions.Position | instants.InstantTime | None = None,
    ) -> None:
        self._storage = storage
        self._config = config
        self._timeline = timeline
        for each in (since, until):
            if isinstance(each, positions.Position):
                positions.check_table(each, config)
        self.writes = [*self._archived(timeline, since, until), *timeline.completed_writes]

    def is_compaction(self, write: instants.Instant) -> bool:
        """Return whether a write changes no row."""
        return is_compaction(self._config, write)

    def latecomers(
        self, position: positions.Position | instants.InstantTime
    ) -> tuple[instants.Instant, ...]:
        """Return the writes that completed at or below a position since it was given out.

        Raises:
            GoneError: What the reader has seen is not there any more.
        """
        if not isinstance(position, positions.Position):
            return ()
        counted = {_completed(each): each for each in self.writes if not self.is_compaction(each)}
        found = positions.latecomers(position, counted)
        if found is None:
            newest = max((completion_of(each) for each in self.writes), default=position.time)
            raise errors.GoneError(
                f"what a reader at {position.time} has seen of {self._storage.uri} is not "
                f"the table any more: {self._cause(position.time)}; read the whole table "
                "again",
                newest,
            )
        return tuple(counted[each] for each in found)

    def _cause(self, time: instants.InstantTime) -> str:
        """Return what may have taken back what a reader at a time has seen; a read for each."""
        found = []
        for each in self._timeline.completed:
            if each.completion_time is None or each.completion_time <= time:
                continue
            if each.action is instants.Action.RESTORE:
                found.append(f"{each} restored it")
            elif each.action is instants.Action.ROLLBACK:
                target = contents.read_rollback_target(self._storage, each)
                if target is not None and target < time:
                    found.append(f"{each} rolled back what began at {target}")
        return ", ".join(found) or (
            "writes of it were rolled back, the table was restored or made again, or more than "
            "four completed at or below that time later"
        )

    def _archived(
        self,
        timeline: active.ActiveTimeline,
        since: positions.Position | instants.InstantTime,
        until: positions.Position | instants.InstantTime | None,
    ) -> list[instants.Instant]:
        there = {each.requested_time for each in timeline.completed_writes}
        archive = archived.ArchivedTimeline(self._storage)
        counted_from = [
            each.since for each in (since, until) if isinstance(each, positions.Position)
        ]
        start = timeline.start
        found = []
        if counted_from and (start is None or start > min(counted_from)):
            found += archive.writes(requested_from=min(counted_from))
        if not isinstance(since, positions.Position):
            found += archive.writes(completed_after=since)
        by_time = {each.requested_time: each for each in found}
        return [each for time, each in sorted(by_time.items()) if time not in there]


def touched_by(
    source: Source, timeline: active.ActiveTimeline, writes: Sequence[instants.Instant]
) -> Touched:
    """Return what writes touched; a read for each, or parts of the archive."""
    found = Touched()
    for write, commit in commits_of(source, timeline, writes):
        found.add(commit, is_compaction=is_compaction(source.config, write))
    return found


def commits_of(
    source: Source, timeline: active.ActiveTimeline, writes: Sequence[instants.Instant]
) -> Iterator[tuple[instants.Instant, commits.CommitMetadata]]:
    """Yield what writes say of themselves, archived ones first, otherwise in their order.

    A read for each that is on the timeline, some of them ahead; of the others parts of the archive.

    Raises:
        ConflictError: One is neither on the timeline nor archived.
    """
    by_time = {each.requested_time: each for each in writes}
    there = [each for each in writes if timeline.has_file(each)]
    old = by_time.keys() - {each.requested_time for each in there}
    yield from _archived_commits(source, by_time, old)
    for first in range(0, len(there), _READ_AT_ONCE):
        some = there[first : first + _READ_AT_ONCE]
        for write, commit in zip(some, source.engine.map(_Read(source.storage), some), strict=True):
            if commit is not None:
                yield write, commit
            else:
                yield from _archived_commits(source, by_time, {write.requested_time})


def _archived_commits(
    source: Source,
    by_time: Mapping[instants.InstantTime, instants.Instant],
    times: Collection[instants.InstantTime],
) -> Iterator[tuple[instants.Instant, commits.CommitMetadata]]:
    left = set(times)
    for each in archived.ArchivedTimeline(source.storage).contents_of(left) if left else ():
        left.discard(each.instant.requested_time)
        write = by_time[each.instant.requested_time]
        yield write, timeline_avro.decode_commit(each.metadata, f"the archived {each.instant}")
    if left:
        raise errors.ConflictError(
            f"{source.storage.uri}: {by_time[min(left)]} is neither on the timeline nor archived: "
            "it was rolled back just now; read again"
        )


@dataclass(frozen=True, slots=True)
class _Read:
    """Reads what a write says of itself; None if it was archived since."""

    storage: Storage

    def __call__(self, write: instants.Instant) -> commits.CommitMetadata | None:
        try:
            return contents.read_commit(self.storage, write)
        except errors.NotFoundError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The table as the reader has seen it, and as of the end of the range.

    Attributes:
        then: As the reader has seen it.
        now: As of the end.
        files: Of its file groups.
    """

    then: snapshots.Snapshot
    now: snapshots.Snapshot
    files: group_files.GroupFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Some file groups.

    Attributes:
        groups: They, sorted.
        before: Their slices as the reader has seen them.
        after: Their slices at the end.
        is_compared: Whether the meta columns alone do not show which rows changed.
    """

    groups: tuple[files.FileGroupId, ...]
    before: tuple[files.FileSlice, ...]
    after: tuple[files.FileSlice, ...]
    is_compared: bool


def units_of(source: Source, touched: Touched, ends: Ends) -> list[Unit]:
    """Return the units in which rows may have changed, by partition."""
    asked = touched.groups | touched.compacted
    then, now = (_slices(each, asked, ends.files) for each in (ends.then, ends.now))
    reordered = {
        group
        for group in touched.compacted
        if group in now and _is_reordered(then.get(group), now[group], ends.then.committed)
    }
    return [
        Unit(
            groups=groups,
            before=tuple(then[each] for each in groups if each in then),
            after=tuple(now[each] for each in groups if each in now),
            is_compared=source.config.has_partial_updates or not reordered.isdisjoint(groups),
        )
        for groups in _components(touched.groups | reordered, touched.moves)
    ]


def _check_readable(
    source: Source,
    snapshot: snapshots.Snapshot,
    wanted: Wanted,
    units: Sequence[Unit],
    ends: Ends,
) -> None:
    """Refuse a range of which files are gone that its units need.

    Raises:
        GoneError: Some are.
    """
    assert ends.then.moment is not None
    assert ends.now.moment is not None
    if wanted.until is not None or wanted.rule is moments.Rule.REQUESTED:
        touched = [group for unit in units for group in unit.groups]
        past.check_readable(source.storage, snapshot, ends.now.moment, touched)
    needed = [
        group for unit in units if wanted.has_deletes or unit.is_compared for group in unit.groups
    ]
    if needed and wanted.time > positions.BEGINNING:
        past.check_readable(source.storage, snapshot, ends.then.moment, needed)


def _task(
    source: Source,
    unit: Unit,
    ends: Ends,
    writes: tuple[str, ...],
    columns: tuple[str, ...],
) -> changed_rows.UnitTask:
    return changed_rows.UnitTask(
        config=source.config,
        schema=source.schema,
        before=unit.before,
        after=unit.after,
        known_before=ends.then.known,
        known_after=ends.now.known,
        writes=writes,
        columns=columns,
        is_compared=unit.is_compared,
    )


def _filtered(
    source: Source,
    found: tuple[changed_rows.UnitTask, ...],
    ends: Ends,
    wanted: Wanted,
) -> tuple[changed_rows.UnitTask, ...]:
    """Return tasks with the filter, and with what it excludes of their file groups."""
    if wanted.where is None:
        return found
    after = [each for task in found for each in task.after]
    upserted = _holding(source, ends.now, wanted.where, after)
    deleted: set[files.FileGroupId] = set()
    of_deletes, may_be = changed_rows.where_of_deletes(wanted.where, source.config, source.schema)
    if wanted.has_deletes and may_be:
        before = [each for task in found for each in task.before]
        deleted = _holding(source, ends.then, of_deletes, before)
    return tuple(
        replace(
            task,
            where=wanted.where,
            may_upsert=any(each.group in upserted for each in task.after),
            may_delete=any(each.group in deleted for each in task.before),
        )
        for task in found
    )


def _holding(
    source: Source,
    snapshot: snapshots.Snapshot,
    where: predicates.Predicate | None,
    slices: Sequence[files.FileSlice],
) -> set[files.FileGroupId]:
    """Return the file groups of slices that may hold rows of a filter."""
    if where is None or not slices:
        return {each.group for each in slices}
    uri = source.storage.uri
    return planning.holding(uri, source.config, source.schema, snapshot, where, slices)


def _slices(
    snapshot: snapshots.Snapshot,
    groups: Collection[files.FileGroupId],
    files_of: group_files.GroupFiles,
) -> dict[files.FileGroupId, files.FileSlice]:
    """Return what a read of some file groups reads; their partitions are listed, no others."""
    assert snapshot.moment is not None, groups
    view = snapshot.view
    if snapshot.moment.rule is moments.Rule.COMPLETION:
        is_committed = snapshot.committed.is_committed
        moment = group_files.Moment(time=snapshot.moment.time, is_committed=is_committed)
        found = itertools.chain.from_iterable(files_of.at(groups, moment).values())
        view = replace(snapshot, listing=group_files.OfGroups(snapshot.listing, list(found))).view
    return {
        each.group: each
        for path in sorted({group.partition_path for group in groups})
        for each in view.latest_slices(path)
        if each.group in groups
    }


def _is_reordered(
    before: files.FileSlice | None, after: files.FileSlice, seen: snapshots.CommittedFiles
) -> bool:
    """Return whether a compaction merges log files in another order than readers did before.

    Args:
        before: What a reader of the position read.
        after: What one of the end reads.
        seen: What the reader of the position has seen.
    """
    if before is None or before.base_instant_time == after.base_instant_time:
        return False
    on_top = {each.name for each in after.log_files}
    merged = [each.instant_time for each in before.log_files if each.name not in on_top]
    kept = [
        each.instant_time
        for each in after.log_files
        if each.instant_time != after.base_instant_time and seen.is_committed(each.instant_time)
    ]
    return bool(merged and kept) and min(kept) < max(merged)


def _components(
    groups: Iterable[files.FileGroupId], moves: Iterable[frozenset[files.FileGroupId]]
) -> list[tuple[files.FileGroupId, ...]]:
    """Return file groups, those together between which rows moved, within their partitions."""
    parents: dict[files.FileGroupId, files.FileGroupId] = {each: each for each in groups}

    def root(group: files.FileGroupId) -> files.FileGroupId:
        while parents[group] != group:
            parents[group] = parents[parents[group]]
            group = parents[group]
        return group

    for move in moves:
        by_partition: defaultdict[str, list[files.FileGroupId]] = defaultdict(list)
        for each in move:
            by_partition[each.partition_path].append(each)
        for first, *others in by_partition.values():
            for other in others:
                parents[root(other)] = root(first)
    units: defaultdict[files.FileGroupId, list[files.FileGroupId]] = defaultdict(list)
    for each in parents:
        units[root(each)].append(each)
    return sorted(tuple(sorted(each)) for each in units.values())


def is_compaction(config: table_config.TableConfig, write: instants.Instant) -> bool:
    """Return whether a completed write is a compaction, which changes no row."""
    return write.action is instants.Action.COMMIT and not config.is_copy_on_write


def _completed(write: instants.Instant) -> positions.Completed:
    return positions.Completed(
        requested_time=write.requested_time, completion_time=completion_of(write)
    )


def completion_of(write: instants.Instant) -> instants.InstantTime:
    """Return when a completed write completed."""
    assert write.completion_time is not None, write
    return write.completion_time
