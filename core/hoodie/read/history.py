"""The history of a row: what became of one record key, write by write, as far as it is known.

It is change data (`change_data`) of one key: a step for each write that touched a file group in
which the key can be, and the row of the key before and after it. File groups of other buckets, and
of other partitions if one is named, are not looked at.

What cleans, restores and trimming left no files of is no error here: the history says from when to
when it is not known, and why, and goes on with the row as the first moment after it shows it, whose
meta column names the write that it is of.

    insert, update, delete   what a write did
    unknown                  what writes did cannot be read any more
    known                    the row as of the first moment after that

Memory: the file groups that each write touched; a step at a time.
"""

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from hoodie import guesses
from hoodie.filegroup import past, snapshots
from hoodie.index import tables
from hoodie.model import files, instants, moments, schemas
from hoodie.model.change_data import AFTER, BEFORE, OP, RECORD_KEY, TIME, Op
from hoodie.read import change_data, increments, row_versions

EVENT = "event"
INSTANT = "instant"
COMPLETED = "completed"
OPERATION = "operation"
WRITER = "writer"
NOTE = "note"


class Event(enum.Enum):
    """What a row of a history tells."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    UNKNOWN = "unknown"
    KNOWN = "known"


_EVENTS = {Op.INSERT.value: Event.INSERT, Op.UPDATE.value: Event.UPDATE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for.

    Attributes:
        key: The record key.
        partition_path: The partition to look into; None for all.
        since: Completion time after which the history begins.
        until: Completion time with which it ends; None for the newest.
        columns: Of the rows before and after.
        record_keys: As of `row_versions.VersionTask`.
    """

    key: str
    partition_path: str | None
    since: instants.InstantTime
    until: instants.InstantTime | None
    columns: tuple[str, ...]
    record_keys: change_data.RecordKeys | None = None

    @property
    def change_data(self) -> change_data.Wanted:
        """The same, asked of change data."""
        return change_data.Wanted(
            since=self.since,
            until=self.until,
            columns=self.columns,
            is_ordered=False,
            is_net=False,
            record_keys=self.record_keys,
            keys=(self.key,),
        )


@dataclass(slots=True, kw_only=True)
class _Hidden:
    """Writes of which it cannot be read what they did.

    Attributes:
        since: When the first of them completed, or began.
        until: The last time of which nothing is known.
        causes: Why, each once.
        writes: How many there are, as far as they are known.
    """

    since: instants.InstantTime
    until: instants.InstantTime
    causes: list[str]
    writes: int = 0

    def add(self, gap: past.Gap, until: instants.InstantTime, writes: int) -> None:
        """Add what is not known for another reason, or for the same."""
        self.until = max(self.until, until)
        self.writes += writes
        if gap.cause not in self.causes:
            self.causes.append(gap.cause)


@guesses.of_names(guesses.READER)
@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history of a row, to be read.

    Attributes:
        columns: Of the history, as `schema_of` says.
    """

    columns: pa.Schema
    _source: increments.Source = field(repr=False, compare=False)
    _snapshot: snapshots.Snapshot = field(repr=False, compare=False)
    _wanted: Wanted = field(repr=False, compare=False)
    _can_hold: Callable[[files.FileGroupId], bool] = field(repr=False, compare=False)
    _steps: tuple[change_data.Step, ...] = field(repr=False, compare=False)
    _gaps: tuple[past.Gap, ...] = field(repr=False, compare=False)
    _end: instants.InstantTime = field(repr=False, compare=False)

    def read(self) -> pa.RecordBatchReader:
        """Return what became of the row, the newest last."""
        return pa.RecordBatchReader.from_batches(self.columns, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        hidden: _Hidden | None = None
        # Of a restore nothing is on the timeline but itself.
        left = sorted(self._of_table(), key=lambda gap: gap.end)
        sides = change_data.Sides(self._snapshot)
        gaps = past.GapsAhead(self._gaps)
        for step in self._steps:
            while left and left[0].end <= step.after.time:
                hidden = _hide(hidden, left.pop(0))
            if not step.groups:
                continue
            gap = self._gap_of(step, gaps)
            if gap is not None:
                if step.touched.groups:  # A compaction alone changes nothing.
                    hidden = _hide(hidden, gap, step)
                continue
            if hidden is not None:
                yield from self._resumed(hidden, step.before.time)
                hidden = None
            yield from self._read(step, sides)
        for gap in left:
            hidden = _hide(hidden, gap)
        if hidden is not None:
            yield from self._resumed(hidden, self._end)

    def _read(self, step: change_data.Step, sides: change_data.Sides) -> Iterator[pa.RecordBatch]:
        for task in change_data.tasks_of(self._source, sides, step, self._wanted.change_data):
            for found in row_versions.changes(task):
                yield self._changes(step, found)

    def _of_table(self) -> list[past.Gap]:
        """Return the gaps that are no file group's: the whole table's, within what is asked for."""
        return [
            each
            for each in self._gaps
            if each.group is None and self._wanted.since < each.end and each.first <= self._end
        ]

    def _gap_of(self, step: change_data.Step, gaps: past.GapsAhead) -> past.Gap | None:
        """Return why a step cannot be read; None if it can."""
        sides = (
            (step.before, step.needed_before(self._source, self._wanted.change_data)),
            (step.after, step.groups),
        )
        for moment, needed in sides:
            for gap in gaps.at(moment.time):
                if gap.has(moment.time) and (gap.group is None or gap.group in needed):
                    return gap
        return None

    def _resumed(self, hidden: _Hidden, time: instants.InstantTime) -> Iterator[pa.RecordBatch]:
        """Yield that something is not known, and the row as it is after that."""
        yield self._unknown(hidden)
        moment = moments.Moment(time=max(time, hidden.until))
        if any(gap.has(moment.time) for gap in self._gaps):
            return  # The row may be in a file group whose files are gone.
        then = snapshots.as_of(self._snapshot, moment)
        view = then.view
        path = self._wanted.partition_path
        slices = tuple(
            each
            for partition in (view.partitions() if path is None else (path,))
            for each in view.latest_slices(partition)
            if self._can_hold(each.group)
        )
        task = row_versions.VersionTask(
            table_uri=self._source.storage.uri,
            config=self._source.config,
            schema=self._source.schema,
            before=(),
            after=slices,
            known_before=then.known,
            known_after=then.known,
            time=None,
            columns=self._wanted.columns,
            is_compared=False,
            keys=(self._wanted.key,),
        )
        is_there = False
        for found in row_versions.changes(task):
            is_there = is_there or bool(found.num_rows)
            for place in range(found.num_rows):
                yield self._known(found.slice(place, 1), moment)
        if not is_there:
            yield self._absent(moment)

    def _changes(self, step: change_data.Step, found: pa.RecordBatch) -> pa.RecordBatch:
        assert step.write is not None, step
        ops = found.column(OP).to_pylist()
        return self._rows(
            [_EVENTS.get(each, Event.DELETE) for each in ops],
            instant=step.write.requested_time,
            completed=step.write.completion_time,
            operation=step.operation and step.operation.lower(),
            writer=step.writer_id,
            found=found,
        )

    def _known(self, found: pa.RecordBatch, moment: moments.Moment) -> pa.RecordBatch:
        (instant,) = found.column(TIME).to_pylist()
        return self._rows(
            [Event.KNOWN],
            instant=instant,
            completed=self._completion_time(instant),
            note=f"as of {moment.time}, the first time that can be read after that",
            found=found,
        )

    def _completion_time(self, instant: str | None) -> instants.InstantTime | None:
        if instant is None:
            return None
        times = {each.write.requested_time: each.write for each in self._steps if each.write}
        for text in (instant, f"{instant}{instants.SHORT_ENDING}"):
            write = times.get(instants.InstantTime(text))
            if write is not None:
                return write.completion_time
        return None

    def _absent(self, moment: moments.Moment) -> pa.RecordBatch:
        note = f"the table has no such row as of {moment.time}, the first time that can be read"
        return self._rows([Event.KNOWN], note=note)

    def _unknown(self, hidden: _Hidden) -> pa.RecordBatch:
        counted = "write" if hidden.writes == 1 else "writes"
        what = f"what {hidden.writes} {counted} did" if hidden.writes else "what writes did"
        return self._rows(
            [Event.UNKNOWN],
            completed=hidden.until,
            note=f"{what} from {hidden.since or 'the beginning'} to {hidden.until} is not known "
            f"any more: {hidden.causes[0]}",
        )

    def _rows(  # noqa: PLR0913 - a column each
        self,
        events: list[Event],
        *,
        instant: str | None = None,
        completed: str | None = None,
        operation: str | None = None,
        writer: str | None = None,
        note: str | None = None,
        found: pa.RecordBatch | None = None,
    ) -> pa.RecordBatch:
        count = len(events)
        same = {
            EVENT: pa.array([each.value for each in events], pa.string()),
            INSTANT: pa.repeat(pa.scalar(instant, pa.string()), count),
            COMPLETED: pa.repeat(pa.scalar(completed, pa.string()), count),
            OPERATION: pa.repeat(pa.scalar(operation, pa.string()), count),
            WRITER: pa.repeat(pa.scalar(writer, pa.string()), count),
            RECORD_KEY: pa.repeat(pa.scalar(self._wanted.key), count),
            NOTE: pa.repeat(pa.scalar(note, pa.string()), count),
        }
        arrays = []
        for each in self.columns:
            if each.name in same:
                arrays.append(same[each.name])
            elif found is not None:
                arrays.append(found.column(each.name))
            else:
                arrays.append(pa.nulls(count, each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


def plan(source: increments.Source, snapshot: snapshots.Snapshot, wanted: Wanted) -> History:
    """Return the history of a row.

    A read for each write of the table, the archive, and a read for each clean.

    Args:
        source: The table.
        snapshot: Of it as it is now.
        wanted: What is asked for.

    Raises:
        ConflictError: A write was rolled back while this looked.
    """
    found = increments.unseen(
        source,
        snapshot.timeline,
        increments.Wanted(since=wanted.since, until=wanted.until, columns=wanted.columns),
    )
    can_hold = _holders(source, snapshot, wanted, found.begin)
    gaps = past.gaps(source.storage, snapshot, found.begin)
    return History(
        columns=schema_of(source.schema, wanted.columns),
        _source=source,
        _snapshot=snapshot,
        _wanted=wanted,
        _can_hold=can_hold,
        _steps=change_data.steps_of(source, snapshot, found, can_hold),
        _gaps=tuple(each for each in gaps if each.group is None or can_hold(each.group)),
        _end=found.end.time,
    )


def schema_of(schema: schemas.TableSchema, columns: tuple[str, ...]) -> pa.Schema:
    """Return the columns of a history.

    `event`, of `Event`; requested and completion time of the write, its operation and writer; key
    and partition; the rows before and after, null where there is none; and a note for people.
    """
    images = row_versions.schema_of(schema, columns)
    return pa.schema(
        [
            pa.field(EVENT, pa.string(), nullable=False),
            pa.field(INSTANT, pa.string()),
            pa.field(COMPLETED, pa.string()),
            pa.field(OPERATION, pa.string()),
            pa.field(WRITER, pa.string()),
            pa.field(RECORD_KEY, pa.string(), nullable=False),
            pa.field(row_versions.PARTITION_PATH, pa.string()),
            images.field(BEFORE),
            images.field(AFTER),
            pa.field(NOTE, pa.string()),
        ]
    )


def _holders(
    source: increments.Source,
    snapshot: snapshots.Snapshot,
    wanted: Wanted,
    begin: moments.Moment,
) -> Callable[[files.FileGroupId], bool]:
    """Return what tells whether a file group can have, or had, the key."""
    # Bucket counts of now say nothing of then.
    counts = snapshots.as_of(snapshot, begin).bucket_counts
    index = tables.index_of(source.config, counts)
    key = pa.array([wanted.key], pa.string())
    known: dict[str, bool] = {}

    def can_hold(group: files.FileGroupId) -> bool:
        if wanted.partition_path not in (None, group.partition_path):
            return False
        if group.file_id not in known:
            known[group.file_id] = bool(index.may_hold(group.file_id, key).all())
        return known[group.file_id]

    return can_hold


def _hide(hidden: _Hidden | None, gap: past.Gap, step: change_data.Step | None = None) -> _Hidden:
    """Return what is not known once a gap, or a write in it, belongs to that."""
    since, until = (gap.first, gap.end) if step is None else (step.after.time, step.after.time)
    if hidden is None:
        hidden = _Hidden(since=since, until=until, causes=[])
    hidden.since = min(hidden.since, since)
    hidden.add(gap, until, 0 if step is None else 1)
    return hidden
