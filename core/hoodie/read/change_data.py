"""Change data: each change that each write of a range made, in the order in which they completed.

Increments (`increments.py`) say how rows differ between two moments; change data says it of every
write in between: the moment before a write, and the one after it, differ by the write alone. So the
changes of a range, applied one after the other, lead from the first snapshot to the last.

A compaction changes nothing, but for rows of equal ordering values that it merges in another order
(`increments.py`); those are its changes then.

The changes of all writes together, by key, are those of one step from the first to the last moment.

Memory: file groups of each write; of a few file groups at a time slices and changed rows; and what
steps of small file groups share (`group_steps.py`).

Source: RFC-51; protocol.md: Change data.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import guesses
from hoodie.engine import ahead
from hoodie.engine.protocol import Engine
from hoodie.filegroup import group_files, past, snapshots
from hoodie.index import tables
from hoodie.model import change_data as change_logs
from hoodie.model import commits, files, instants, moments, partition_columns, schemas
from hoodie.read import group_steps, increments, positions, row_versions

RecordKeys: TypeAlias = Callable[[pa.Table], pa.Array]
"""Returns the record keys of rows with the table's columns."""

_Logs: TypeAlias = Mapping[files.FileGroupId, tuple[commits.ChangeDataLog, ...]]

_AHEAD_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader asks for.

    Attributes:
        since: Where it is: a position, or a completion time.
        until: As in `increments.Wanted`.
        columns: Of the rows before and after.
        is_ordered: As in `increments.Wanted`.
        is_net: Whether the changes of a key by several writes are one.
        record_keys: As of `row_versions.VersionTask`.
        keys: Record keys whose changes alone are asked for; none for all.
    """

    since: positions.Position | instants.InstantTime
    until: positions.Position | instants.InstantTime | None
    columns: tuple[str, ...]
    is_ordered: bool
    is_net: bool
    record_keys: RecordKeys | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """From one moment to a later one.

    Attributes:
        write: The write that lies between; None for several.
        operation: What it was, as it says; None if it does not.
        writer_id: Of whom, as it says.
        touched: What was touched in between.
        before: The earlier moment.
        after: The later one.
        logs: Change data that the write stored, by file group.
    """

    write: instants.Instant | None
    operation: str | None = None
    writer_id: str | None = None
    touched: increments.Touched
    before: moments.Moment
    after: moments.Moment
    logs: _Logs = field(default_factory=dict)

    @property
    def groups(self) -> frozenset[files.FileGroupId]:
        """The file groups in which rows may have changed."""
        return frozenset(self.touched.groups | self.touched.compacted)

    def needed_before(
        self, source: increments.Source, wanted: "Wanted"
    ) -> frozenset[files.FileGroupId]:
        """Return the file groups whose earlier rows have to be read: not where they are stored."""
        is_stored = self.stores_images(source) and _takes_images(source, wanted)
        return self.groups - self.logs.keys() if is_stored else self.groups

    def stores_images(self, source: increments.Source) -> bool:
        """Return whether the write's logs have the rows before and after."""
        return self.write is not None and source.config.stores_images_of(self.write.requested_time)


@guesses.of_names(guesses.READER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeData:
    """The changes of a range.

    Attributes:
        position: Keep its text: the next read begins there.
        writes: The writes of the range, by completion time; compactions are left out.
        latecomers: Those of them that completed at or below the position before, after it was given
            out.
        columns: Of the changes, as `row_versions.schema_of` says.
    """

    position: positions.Position
    writes: tuple[instants.Instant, ...]
    latecomers: tuple[instants.Instant, ...]
    columns: pa.Schema
    _source: increments.Source = field(repr=False, compare=False)
    _snapshot: snapshots.Snapshot = field(repr=False, compare=False)
    _steps: tuple[Step, ...] = field(repr=False, compare=False)
    _wanted: Wanted = field(repr=False, compare=False)

    def read(self) -> pa.RecordBatchReader:
        """Return the changes, those of a write together, in the order of completion."""
        return pa.RecordBatchReader.from_batches(self.columns, self._batches())

    def tasks(self) -> Iterator[row_versions.VersionTask]:
        """Yield what processes can read alone, in any order: `row_versions.changes` of each."""
        sides = Sides(self._snapshot)
        for step in self._steps:
            yield from tasks_of(self._source, sides, step, self._wanted)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        engine: Engine = self._source.engine
        bound = ahead.Bound(size_of=_size_bytes, size_max=_AHEAD_BYTES)
        pieces = group_steps.pieces(self.tasks())
        return ahead.streams(group_steps.changes, pieces, engine.parallelism, bound)


def plan(source: increments.Source, snapshot: snapshots.Snapshot, wanted: Wanted) -> ChangeData:
    """Return the changes of a range.

    A read for each write of the range, and the archive where some of them were archived; the names
    of the files in partitions that they touched; a read for each clean since the position.

    Args:
        source: The table.
        snapshot: Of it as it is now.
        wanted: What the reader asks for.

    Raises:
        InvalidInputError: The position is of another table.
        GoneError: Writes that the reader has seen were rolled back, more than can be named came
            late, or files are gone that are needed; the error has the earliest time that can be
            read.
        ConflictError: A write was rolled back while this looked.
    """
    found = increments.range_of(
        source,
        snapshot,
        increments.Wanted(
            since=wanted.since,
            until=wanted.until,
            is_ordered=wanted.is_ordered,
            columns=wanted.columns,
        ),
    )
    if wanted.is_net:
        steps = _net_step(source, snapshot, found)
    else:
        steps = steps_of(source, snapshot, found)
    _check_readable(source, snapshot, steps, wanted)
    return ChangeData(
        position=positions.of_completion(found.position),
        writes=found.data_writes,
        latecomers=found.data_latecomers,
        columns=row_versions.schema_of(source.schema, wanted.columns),
        _source=source,
        _snapshot=snapshot,
        _steps=steps,
        _wanted=wanted,
    )


def operations_of(
    source: increments.Source, snapshot: snapshots.Snapshot, write: instants.Instant
) -> Mapping[change_logs.Op, int]:
    """Return how many rows a completed write inserted, updated and deleted.

    Of the file groups that it touched the keys are read, as they are and as they were.

    Args:
        source: The table.
        snapshot: Of it as it is now.
        write: The write.

    Raises:
        HoodieError: As `plan`.
    """
    completion_time = increments.completion_of(write)
    wanted = Wanted(
        since=instants.previous_time(completion_time),
        until=completion_time,
        columns=(schemas.RECORD_KEY,),
        is_ordered=False,
        is_net=False,
    )
    found = plan(source, snapshot, wanted)
    # Writes of other engines may have completed in the same millisecond.
    own = [
        each
        for each in found._steps
        if each.write is not None and each.write.requested_time == write.requested_time
    ]
    counts = Counter[str]()
    for batch in replace(found, _steps=tuple(own)).read():
        for each in pc.value_counts(batch.column(change_logs.OP)).to_pylist():
            counts[each["values"]] += each["counts"]
    return {operation: counts[operation.value] for operation in change_logs.Op}


def _net_step(
    source: increments.Source, snapshot: snapshots.Snapshot, found: increments.Range
) -> tuple[Step, ...]:
    touched = increments.touched_by(source, snapshot.timeline, found.writes)
    # A key may have gone from a file group, or with it, and come back in another one.
    replaced = {group.partition_path for move in touched.moves for group in move}
    touched.moves.append(
        frozenset(
            each
            for each in touched.groups
            if each.partition_path in replaced or not tables.keeps_keys(source.config, each.file_id)
        )
    )
    return (
        Step(
            write=None,
            touched=touched,
            before=found.begin,
            after=found.end,
        ),
    )


def steps_of(
    source: increments.Source,
    snapshot: snapshots.Snapshot,
    found: increments.Range,
    is_wanted: Callable[[files.FileGroupId], bool] | None = None,
) -> tuple[Step, ...]:
    """Return a step for each write, latecomers first: they come at the reader's moment.

    A read for each write, and the archive where some of them were archived.

    Args:
        source: The table.
        snapshot: Of it as it is now.
        found: The writes.
        is_wanted: Whether changes in a file group are asked for; None for all.

    Raises:
        ConflictError: A write was rolled back while this looked.
    """
    done: dict[instants.InstantTime, Step] = {}
    for write, commit in increments.commits_of(source, snapshot.timeline, found.writes):
        touched = increments.Touched()
        touched.add(commit, is_compaction=increments.is_compaction(source.config, write))
        done[write.requested_time] = Step(
            write=write,
            operation=commit.operation,
            writer_id=commit.extra.get(commits.WRITER_ID_KEY),
            touched=touched if is_wanted is None else touched.only(is_wanted),
            before=found.begin,
            after=found.begin,
            logs=_logs_of(source, commit),
        )
    steps = []
    before = found.begin
    for write in found.writes:
        if write.requested_time in before.without:
            without = before.without - {write.requested_time}
            after = moments.Moment(time=before.time, without=without)
        else:
            time = increments.completion_of(write)
            after = moments.Moment(time=time, without=found.end.without)
        steps.append(replace(done.pop(write.requested_time), before=before, after=after))
        before = after
    return tuple(steps)


def _logs_of(source: increments.Source, commit: commits.CommitMetadata) -> _Logs:
    """Return the change data that a write stored of file groups that have no log files."""
    if not source.config.is_copy_on_write or commit.replaced:
        return {}
    return {
        files.FileGroupId(stat.partition_path, stat.file_id): stat.change_data
        for stat in commit.stats
        if stat.change_data
    }


def _check_readable(
    source: increments.Source,
    snapshot: snapshots.Snapshot,
    steps: Sequence[Step],
    wanted: Wanted,
) -> None:
    """Refuse a range of which files are gone.

    Change data that a write stored goes with what the write wrote, not with what was there before,
    which is not needed if all images are stored.

    Raises:
        GoneError: Some are.
    """
    if not steps:
        return
    gaps = past.GapsAhead(past.gaps(source.storage, snapshot, steps[0].before))
    for step in steps:
        for moment, needed in (
            (step.before, step.needed_before(source, wanted)),
            (step.after, step.groups),
        ):
            if moment.time > positions.BEGINNING:
                past.refuse(source.storage, gaps.at(moment.time), moment, needed)


def _takes_images(source: increments.Source, wanted: Wanted) -> bool:
    """Return whether stored rows before and after are all that is wanted of a change."""
    return (
        wanted.record_keys is not None
        and not partition_columns.left_out(source.config)
        and not set(wanted.columns) - set(source.schema.arrow.names)
    )


class Sides:
    """The table as of the moments of steps, each made once for the steps that it is between."""

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        self._snapshot = snapshot
        self._files = group_files.GroupFiles(snapshot.listing, snapshot.timeline.completion_time)
        self._last: tuple[moments.Moment, snapshots.Snapshot] | None = None

    def of(self, step: Step) -> increments.Ends:
        """Return the table before a step and after it."""
        if self._last is not None and self._last[0] == step.before:
            then = self._last[1]
        else:
            then = snapshots.as_of(self._snapshot, step.before)
        now = snapshots.as_of(self._snapshot, step.after)
        self._last = (step.after, now)
        return increments.Ends(then=then, now=now, files=self._files)


def tasks_of(
    source: increments.Source, sides: Sides, step: Step, wanted: Wanted
) -> Iterator[row_versions.VersionTask]:
    """Yield a task for each unit of file groups in which a step may have changed rows."""
    ends = sides.of(step)
    takes_images = _takes_images(source, wanted)
    for unit in increments.units_of(source, step.touched, ends):
        logs: tuple[commits.ChangeDataLog, ...] = ()
        if len(unit.groups) == 1 and (takes_images or not step.stores_images(source)):
            logs = step.logs.get(unit.groups[0], ())
        yield row_versions.VersionTask(
            table_uri=source.storage.uri,
            config=source.config,
            schema=source.schema,
            before=unit.before,
            after=unit.after,
            known_before=ends.then.known,
            known_after=ends.now.known,
            time=None if step.write is None else step.write.requested_time,
            columns=wanted.columns,
            is_compared=unit.is_compared,
            logs=logs,
            record_keys=wanted.record_keys if takes_images else None,
            keys=wanted.keys,
        )


def _size_bytes(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes)
