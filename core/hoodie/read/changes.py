"""The changes of a table since a position, to be read: upserted rows, and keys that are gone.

A key has one change at most. It may be gone from one file group because it moved to another: a
delete whose key is upserted in the same partition is none, or in a table with a global index
anywhere. So deletes come after the upserts of their partition.

Memory: what is read ahead, and of one partition the keys that are gone; with a global index of the
whole table.

Other processes read a part each (`Changes.parts`): the upserts of a unit, or the deletes of units
between which keys may have moved, which are settled there.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors, guesses
from hoodie.engine import ahead
from hoodie.engine.protocol import Engine
from hoodie.filegroup import past, snapshots
from hoodie.index import tables
from hoodie.model import instants, moments, predicates
from hoodie.read import changed_rows, increments, planning, tasks
from hoodie.read.positions import Position
from hoodie.storage import locations
from hoodie.storage.protocol import Storage

logger = logging.getLogger(__name__)

Item = TypeVar("Item")

_AHEAD_BYTES = 256 << 20
_KEYS_AT_ONCE = 1 << 16


@guesses.of_names(guesses.READER)
@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What changed since a position.

    Attributes:
        position: Keep its text: the next read begins there. By requested times it is the requested
            time of the last write.
        is_snapshot: Whether these are all rows of the table, and not the changes since a position:
            rows that a reader has and that are not among them are gone.
        writes: The writes whose rows they are, by completion time; none of a snapshot.
        latecomers: Those of them that completed at or below the position before, after it was given
            out: by other engines whose clocks are behind, or without a lock.
        columns: Of the rows.
        units: A task for each unit of file groups, by partition.
        slices: Of a snapshot, a task for each file slice.
        has_deletes: Whether deletes are read.
        is_global: Whether a key is one row of the table, whichever its partition.
        storage: The table's.
        engine: Reads.
    """

    position: Position | instants.InstantTime
    is_snapshot: bool
    writes: tuple[instants.Instant, ...] = ()
    latecomers: tuple[instants.Instant, ...] = ()
    columns: pa.Schema
    units: tuple[changed_rows.UnitTask, ...] = field(default=(), repr=False)
    slices: tuple[tasks.ReadTask, ...] = field(default=(), repr=False)
    has_deletes: bool = True
    is_global: bool = False
    storage: Storage = field(repr=False, compare=False)
    engine: Engine = field(repr=False, compare=False)

    def read(self) -> pa.RecordBatchReader:
        """Return the changes: a column `_change` of `upsert` and `delete`, then the others.

        Of deleted rows the columns of key and partition alone are not null.
        """
        return pa.RecordBatchReader.from_batches(self.columns, self._batches())

    def parts(self) -> tuple["Part", ...]:
        """Return the changes in parts that processes can read alone, in any order."""
        uri = self.storage.uri
        rows = [Part(table_uri=uri, columns=self.columns, rows=each) for each in self.slices]
        upserts = [
            Part(table_uri=uri, columns=self.columns, upserts=each)
            for each in self.units
            if each.may_upsert
        ]
        deletes = [
            Part(table_uri=uri, columns=self.columns, deletes=each)
            for scope in (self._scopes() if self.has_deletes else ())
            for each in _settled_alone(scope)
            if any(unit.may_delete for unit in each)
        ]
        return (*rows, *upserts, *deletes)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.is_snapshot:
            yield from self._streamed(_of_slice, self.slices)
            return
        if any(unit.where is not None for unit in self.units):
            # What is gone from where it was may be elsewhere, in a row that is not asked for.
            yield from self._streamed(Part.read, self.parts())
            return
        deletes = functools.partial(changed_rows.deletes, storage=self.storage)
        upserts = functools.partial(changed_rows.upserts, storage=self.storage)
        for scope in self._scopes():
            gone = None
            if self.has_deletes:
                gone = _Gone(pa.concat_tables(self.engine.map(deletes, scope)))
            for batch in self._streamed(upserts, scope):
                if gone is not None:
                    gone.leave_out(batch.column(batch.num_columns - 1))
                yield _shown(batch, self.columns)
            if gone is not None:
                yield from (_shown(batch, self.columns) for batch in gone.left().to_batches())

    def _scopes(self) -> Iterator[Sequence[changed_rows.UnitTask]]:
        if self.is_global:
            if self.units:
                yield self.units
            return
        for _, same in itertools.groupby(self.units, key=_partition_of):
            yield tuple(same)

    def _streamed(
        self, run: Callable[[Item], Iterator[pa.RecordBatch]], items: Sequence[Item]
    ) -> Iterator[pa.RecordBatch]:
        bound = ahead.Bound(size_of=_size_bytes, size_max=_AHEAD_BYTES)
        return ahead.streams(run, items, self.engine.parallelism, bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of changes; it pickles. One of the last three is given.

    Attributes:
        table_uri: The table's root.
        columns: Of the rows.
        rows: A file slice, of which all rows are upserts.
        upserts: A unit whose upserts are read.
        deletes: Units whose deletes are read: of their keys none is upserted in other units.
    """

    table_uri: str
    columns: pa.Schema
    rows: tasks.ReadTask | None = None
    upserts: changed_rows.UnitTask | None = None
    deletes: tuple[changed_rows.UnitTask, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The summed size of the files that are read."""
        if self.rows is not None:
            return self.rows.file_slice.total_bytes
        units = self.deletes if self.upserts is None else (self.upserts,)
        after = [each for unit in units for each in unit.after]
        before = [each for unit in units for each in unit.before if self.deletes]
        return sum(each.total_bytes for each in (*before, *after))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the changes, as `Changes.read` has them.

        Raises:
            NotFoundError: A file is gone, as after cleaning.
            FormatError: A file is broken.
        """
        if self.rows is not None:
            yield from _of_slice(self.rows)
            return
        storage = locations.open_storage(self.table_uri)
        if self.upserts is not None:
            for batch in changed_rows.upserts(self.upserts, storage):
                yield _shown(batch, self.columns)
            return
        gone = _Gone(
            pa.concat_tables([changed_rows.deletes(each, storage) for each in self.deletes])
        )
        # Of one unit the keys that are gone are nowhere in it.
        for unit in self.deletes if gone and len(self.deletes) > 1 else ():
            everything = replace(unit, columns=(), where=None, may_upsert=True)
            for batch in changed_rows.upserts(everything, storage):
                gone.leave_out(batch.column(batch.num_columns - 1))
        yield from (_shown(batch, self.columns) for batch in gone.left().to_batches())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader asks for.

    Attributes:
        begin: Where it is: a position, or a time by the rule; None for all rows.
        until: As in `increments.Wanted`.
        columns: Of the rows.
        has_deletes: As in `increments.Wanted`.
        is_ordered: As in `increments.Wanted`.
        falls_back: Whether all rows are wanted where the changes cannot be found any more.
        rule: As in `increments.Wanted`.
        where: As in `increments.Wanted`.
    """

    begin: Position | instants.InstantTime | None
    until: Position | instants.InstantTime | None
    columns: tuple[str, ...]
    has_deletes: bool
    is_ordered: bool
    falls_back: bool
    rule: moments.Rule = moments.Rule.COMPLETION
    where: predicates.Predicate | None = None


def plan(source: increments.Source, snapshot: snapshots.Snapshot, wanted: Wanted) -> Changes:
    """Return the changes that a reader asks for; cost and errors as of `increments.plan`."""
    if wanted.begin is None:
        return _all_rows(source, snapshot, wanted)
    asked = increments.Wanted(
        since=wanted.begin,
        until=wanted.until,
        has_deletes=wanted.has_deletes,
        is_ordered=wanted.is_ordered,
        columns=wanted.columns,
        rule=wanted.rule,
        where=wanted.where,
    )
    try:
        increment = increments.plan(source, snapshot, asked)
    except errors.GoneError as error:
        if not wanted.falls_back:
            raise
        logger.warning("%s: all rows are read: %s", source.storage.uri, error)
        return _all_rows(source, snapshot, wanted)
    for each in increment.latecomers:
        logger.warning(
            "%s: %s completed at %s, at or below the position before",
            source.storage.uri,
            each,
            each.completion_time,
        )
    return Changes(
        position=increment.position,
        is_snapshot=False,
        writes=increment.writes,
        latecomers=increment.latecomers,
        columns=changed_rows.schema_of(source.schema, wanted.columns),
        units=increment.tasks,
        has_deletes=wanted.has_deletes,
        is_global=source.config.has_global_index,
        storage=source.storage,
        engine=source.engine,
    )


def _all_rows(source: increments.Source, snapshot: snapshots.Snapshot, wanted: Wanted) -> Changes:
    """Return all rows of a table, as if each was new."""
    moment, position = increments.ending_of(source, snapshot.timeline, wanted.until)
    past.check_readable(source.storage, snapshot, moment)
    query = tasks.Query(columns=wanted.columns, where=wanted.where)
    planned = planning.plan(
        source.storage.uri,
        source.config,
        source.schema,
        snapshots.as_of(snapshot, moment),
        query,
    )
    return Changes(
        position=position,
        is_snapshot=True,
        columns=changed_rows.schema_of(source.schema, wanted.columns),
        slices=planned.tasks,
        storage=source.storage,
        engine=source.engine,
    )


class _Gone:
    """Keys that are gone from where they were, but for those that are elsewhere."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._waiting: list[pa.Array] = []
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._rows.num_rows)

    def leave_out(self, keys: pa.Array) -> None:
        """Leave out keys; several times together, since each looks at all that are gone."""
        if not self:
            return
        self._waiting.append(keys)
        self._count += len(keys)
        if self._count >= _KEYS_AT_ONCE:
            self._leave_out()

    def left(self) -> pa.Table:
        """Return the rows of the keys that are left."""
        self._leave_out()
        return self._rows

    def _leave_out(self) -> None:
        if self._waiting:
            found = pa.chunked_array(self._waiting, pa.string())
            keys = self._rows.column(self._rows.num_columns - 1)
            self._rows = self._rows.filter(pc.invert(pc.is_in(keys, value_set=found)))
        self._waiting, self._count = [], 0


def _settled_alone(
    scope: Sequence[changed_rows.UnitTask],
) -> Iterator[tuple[changed_rows.UnitTask, ...]]:
    """Yield units whose deletes can be settled without the others of a scope.

    A key of a bucket is in no other one, and so in no other file group, unless one of them was
    retired, and another bucket count or file group follows it.
    """
    if all(map(_is_of_buckets, scope)):
        yield from ((unit,) for unit in scope)
    elif scope:
        yield tuple(scope)


def _is_of_buckets(unit: changed_rows.UnitTask) -> bool:
    """Return whether the keys of a unit are in its file groups, and stay there."""
    after = {each.group for each in unit.after}
    return {each.group for each in unit.before} <= after and all(
        tables.keeps_keys(unit.config, each.file_id) for each in after
    )


def _of_slice(task: tasks.ReadTask) -> Iterator[pa.RecordBatch]:
    schema = changed_rows.schema_of(task.schema, task.query.columns)
    for batch in tasks.run(task):
        change = pa.repeat(pa.scalar(changed_rows.UPSERT), batch.num_rows)
        yield pa.RecordBatch.from_arrays([change, *batch.columns], schema=schema)


def _shown(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return a batch without the record keys beside it."""
    return pa.RecordBatch.from_arrays(batch.columns[:-1], schema=columns)


def _partition_of(unit: changed_rows.UnitTask) -> str:
    found = (*unit.before, *unit.after)
    return found[0].group.partition_path if found else ""


def _size_bytes(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes)
