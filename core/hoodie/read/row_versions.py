"""What one write changed in one unit of file groups: operations with the rows before and after.

A unit is a file group, or several between which the write may have moved rows. Its slices are those
that readers merge right before the write and right after it, so that what is found is the
difference of two snapshots, whatever the write's files look like: rows that lost by their order are
no change, and a row that a clustering moved is none either.

    insert   rows of the later slices, of keys that the earlier ones lack
    update   rows of the later slices, of another version than in the earlier ones
    delete   rows of the earlier slices, of keys that the later ones lack

The version of a row is the write in its meta columns. Where columns of several writes are merged
into one row, all columns are compared.

Where the write has stored its change data, with the rows before and after, that is read instead;
where it has stored less, the keys are from there, and rows are looked up in the slices. Where a
write has added log files alone, the keys are from their blocks: no other row is another since.

Small logs of stored change data, of several units and writes, are read together.

Memory: keys of the unit, and the rows that changed; where rows are compared, all rows of the unit
as they were before.

Source: RFC-51; protocol.md: Change data.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import change_logs, common_base, held_keys, projecting, reading, snapshots
from hoodie.model import change_data, commits, files, predicates, schemas, table_config
from hoodie.model.change_data import Op
from hoodie.read import changed_rows
from hoodie.storage import locations
from hoodie.storage.protocol import Storage

PARTITION_PATH = "partition_path"

_VERSION = (schemas.COMMIT_TIME, schemas.COMMIT_SEQNO)
_NARROW = (schemas.RECORD_KEY, *_VERSION)
_BATCH_ROWS = 1 << 16
_OPS = pa.array([op.value for op in Op])
_CODES_MAX = np.iinfo(np.int64).max

Found: TypeAlias = tuple[pa.Table, pa.Table]
"""Rows that are gone and rows that have come; of an update its row is among both."""

Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTask:
    """What a process needs to know to find what a write changed in a unit; it pickles.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        before: The slices before the write.
        after: Those after it.
        known_before: Which log blocks count before the write.
        known_after: Likewise after it.
        time: The write's requested time; None for the changes of several writes together.
        columns: Of the images.
        is_compared: Whether all columns of rows are compared.
        logs: The change data that the write stored of the unit; none for nothing stored.
        record_keys: Returns the keys of rows with the table's columns; None if only the rows
            themselves have them.
        keys: Record keys whose changes alone are asked for; none for all.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    before: tuple[files.FileSlice, ...]
    after: tuple[files.FileSlice, ...]
    known_before: snapshots.CommittedInstants
    known_after: snapshots.CommittedInstants
    time: str | None
    columns: tuple[str, ...]
    is_compared: bool
    logs: tuple[commits.ChangeDataLog, ...] = ()
    record_keys: Callable[[pa.Table], pa.Array] | None = None
    keys: tuple[str, ...] = ()

    @property
    def is_stored(self) -> bool:
        """Whether all that is asked for is in its logs, as far as the table's properties say so."""
        has_images = self.time is not None and self.config.stores_images_of(self.time)
        return bool(self.logs) and self.record_keys is not None and has_images

    @property
    def size_bytes(self) -> int:
        """About how much is read."""
        if self.is_stored:
            return sum(each.size_bytes for each in self.logs)
        return sum(each.total_bytes for each in (*self.before, *self.after))


def schema_of(schema: schemas.TableSchema, columns: Sequence[str]) -> pa.Schema:
    """Return the columns of change data.

    The operation (`i`, `u`, `d`); the requested time of the write; the key; its partition; and the
    rows before and after, with the columns asked for: null where there is none.
    """
    full = pa.schema([*schemas.meta_fields(), *schema.arrow])
    image = pa.struct([full.field(name).with_nullable(True) for name in columns])
    return pa.schema(
        [
            pa.field(change_data.OP, pa.string(), nullable=False),
            pa.field(change_data.TIME, pa.string()),
            pa.field(change_data.RECORD_KEY, pa.string(), nullable=False),
            pa.field(PARTITION_PATH, pa.string(), nullable=False),
            pa.field(change_data.BEFORE, image),
            pa.field(change_data.AFTER, image),
        ]
    )


def together(tasks: Iterable[VersionTask]) -> Iterator[list[VersionTask]]:
    """Yield tasks of one plan for `changes_of`, in order: what is stored in small logs together."""
    for is_stored, some in itertools.groupby(tasks, key=lambda task: task.is_stored):
        if is_stored:
            yield from change_logs.together(some, lambda task: task.size_bytes)
        else:
            yield from ([each] for each in some)


def changes_of(tasks: Sequence[VersionTask]) -> Iterator[pa.RecordBatch]:
    """Yield the changes of tasks that are together, as `changes` of one after the other.

    Raises:
        NotFoundError: As `changes`.
        FormatError: As `changes`.
    """
    if len(tasks) == 1:
        yield from changes(tasks[0])
        return
    logs = [log for task in tasks for log in task.logs]
    found = list(change_logs.read(locations.open_storage(tasks[0].table_uri), logs))
    if all(_has_images(each.rows) for each in found):
        for records in found:
            yield from _stored(tasks, records)
    else:  # Another program has changed the properties since.
        for task in tasks:
            yield from changes(task)


def changes(
    task: VersionTask, computed: Callable[[], Found] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield what the write changed in the unit, as `schema_of` says; each change once.

    Args:
        task: The write and the unit.
        computed: Returns what `compute` does, if it is asked for; None for `compute`.

    Raises:
        NotFoundError: A file is gone, as after cleaning.
        FormatError: A file is broken.
    """
    schema = schema_of(task.schema, task.columns)
    keys: list[pa.Array] = []
    for records in change_logs.read(locations.open_storage(task.table_uri), task.logs):
        if not _has_images(records.rows):
            keys.append(records.rows.column(change_data.RECORD_KEY).combine_chunks())
        elif task.record_keys is None:
            break  # It has rows before and after, in columns that are not all that is asked for.
        else:
            yield from _stored([task], records)
    else:
        if task.logs and not keys:
            return
    computed = computed or functools.partial(compute, task)
    found = _of_keys(task, _asked(task, keys)) if task.keys or keys else computed()
    for op, before, after in _paired(*found):
        rows = after if before is None else before
        assert rows is not None, op
        present = _Present(rows.column(schemas.RECORD_KEY), rows.column(schemas.PARTITION_PATH))
        yield from _shown(task, schema, op, before, after, present)


def _has_images(rows: pa.Table) -> bool:
    """Return whether stored changes have the rows before and after, and not the keys alone."""
    return change_data.RECORD_KEY not in rows.column_names


def _stored(tasks: Sequence[VersionTask], records: change_logs.Records) -> Iterator[pa.RecordBatch]:
    """Yield stored changes that have the rows before and after, in the order of the logs."""
    task = tasks[0]
    assert task.record_keys is not None
    rows, places = records.rows, pa.array(records.places)
    is_known = pc.is_in(rows.column(change_data.OP), value_set=_OPS)
    if not pc.all(is_known).as_py():
        rows, places = rows.filter(is_known), places.filter(is_known.combine_chunks())
    is_inserted, is_deleted = (
        pc.equal(rows.column(change_data.OP), op.value).combine_chunks()
        for op in (Op.INSERT, Op.DELETE)
    )
    before = _table_of(task, rows.column(change_data.BEFORE))
    after = _table_of(task, rows.column(change_data.AFTER))
    keys = task.record_keys(after)
    if pc.any(is_deleted).as_py():
        keys = pc.if_else(is_deleted, task.record_keys(before), keys)
    origins = [(each.time, _partition_of(log.path)) for each in tasks for log in each.logs]
    times, partitions = (pa.array(texts, pa.string()) for texts in zip(*origins, strict=True))
    schema = schema_of(task.schema, task.columns)
    image = schema.field(change_data.BEFORE).type
    found = pa.Table.from_arrays(
        [
            rows.column(change_data.OP),
            times.take(places),
            keys,
            partitions.take(places),
            _images_of(before, image, is_inserted),
            _images_of(after, image, is_deleted),
        ],
        schema=schema,
    )
    if task.keys:
        found = found.filter(pc.is_in(keys, value_set=pa.array(task.keys, pa.string())))
    yield from found.to_batches(max_chunksize=_BATCH_ROWS)


def _partition_of(path: str) -> str:
    return path.rpartition("/")[0]


def _table_of(task: VersionTask, images: pa.ChunkedArray) -> pa.Table:
    """Return images as rows in the table's columns, as they are now."""
    images = images.combine_chunks()
    rows = pa.Table.from_arrays(images.flatten(), names=[each.name for each in images.type])
    return projecting.project(rows, task.schema.arrow)


def _images_of(rows: pa.Table, image: pa.DataType, is_absent: pa.Array) -> pa.StructArray:
    """Return rows as structs of some of their columns, null where absent."""
    arrays = [rows.column(each.name).combine_chunks() for each in image]
    # The mask has the length where the structs have no fields.
    return pa.StructArray.from_arrays(arrays, fields=list(image), mask=is_absent)


def _asked(task: VersionTask, stored: Sequence[pa.Array]) -> pa.Array:
    """Return which keys may have changed: those that are asked for, of those that are stored."""
    asked = pa.array(task.keys, pa.string())
    if not stored:
        return asked
    found = pc.unique(pa.chunked_array(stored, pa.string()))
    return found.filter(pc.is_in(found, value_set=asked)) if task.keys else found


def _of_keys(task: VersionTask, keys: pa.Array) -> Found:
    """Return the rows of some keys at both moments, without those that both have like that."""
    before = _Side(task, task.before, is_after=False)
    after = _Side(task, task.after, is_after=True)
    old, new = before.rows_of_keys(keys), after.rows_of_keys(keys)
    if not task.is_compared and (before.is_partial or after.is_partial):
        return _of_keys(replace(task, is_compared=True), keys)
    return _apart(task, old, new)


def _apart(task: VersionTask, old: pa.Table, new: pa.Table) -> Found:
    """Return the rows of both moments without those that both have like that."""
    if task.is_compared:
        return _differing(old, new)
    versions = _Versions(old, new)
    return old.filter(pa.array(versions.is_gone)), new.filter(pa.array(versions.has_come))


def compute_together(tasks: Sequence[VersionTask]) -> list[Found | None]:
    """Return what `compute` returns of each of some tasks, from one read of what they have alike.

    None for those for which that is not possible.

    Args:
        tasks: Of one file group; all slices of them have their base file in common.

    Raises:
        HoodieError: As `compute`, of any of them.
    """
    storage = locations.open_storage(tasks[0].table_uri)
    columns = _columns(tasks[0], is_compared=any(each.is_compared for each in tasks))
    ends = [
        _Side(task, slices, is_after=is_after, storage=storage)
        for task in tasks
        for slices, is_after in ((task.before, False), (task.after, True))
    ]
    sides = [held_keys.Side(end.source_of(each), each) for end in ends for each in end.slices]
    assert len(sides) == 2 * len(tasks), tasks
    common = common_base.CommonBase(sides, columns)
    found: list[Found | None] = [None] * len(tasks)
    if common.is_partial:
        return found
    numbers: list[int] = []
    asked: list[common_base.Asked] = []
    for number in range(len(tasks)):
        then, now = 2 * number, 2 * number + 1
        keys = common.added(then, now)
        if keys is not None:
            numbers.append(number)
            asked += (common_base.Asked(side=each, keys=keys) for each in (then, now))
    rows = common.rows(asked)
    for number, old, new in zip(numbers, rows[::2], rows[1::2], strict=True):
        found[number] = _apart(tasks[number], old, new)
    return found


def compute_behind(task: VersionTask, rows_before: pa.Table | None) -> tuple[Found, pa.Table]:
    """Return what `compute` returns of slices that are base files alone, and all rows after it.

    Args:
        task: The write and the unit.
        rows_before: All rows before it, as this returned them of the write before; None to read
            them.

    Raises:
        HoodieError: As `compute`.
    """
    before = rows_before
    if before is None or before.column_names != _columns(task, is_compared=task.is_compared):
        before = _Side(task, task.before, is_after=False).rows()
    after = _Side(task, task.after, is_after=True).rows()
    if task.is_compared:
        return _differing(before, after), after
    return _apart(task, *_without_same_places(before, after)), after


def _without_same_places(old: pa.Table, new: pa.Table) -> Found:
    """Return rows of two files without those of one version that are at the same place in both.

    A write keeps the order of rows, so that few are left where none was deleted. A file has a
    version of a row once: no other row of either file is the same.
    """
    count = min(old.num_rows, new.num_rows)
    is_same = np.ones(count, np.bool_)
    for name in _NARROW:
        same = pc.equal(old.column(name).slice(0, count), new.column(name).slice(0, count))
        is_same &= np.asarray(same.fill_null(False))
    left = np.flatnonzero(~is_same)
    return (
        old.take(pa.array(np.concatenate([left, np.arange(count, old.num_rows)]))),
        new.take(pa.array(np.concatenate([left, np.arange(count, new.num_rows)]))),
    )


def compute(task: VersionTask) -> Found:
    """Return the rows that the write changed; errors as of `changes`."""
    keys = changed_rows.logged_since(
        task.before,
        task.after,
        _Side(task, task.before, is_after=False).source_of,
        _Side(task, task.after, is_after=True).source_of,
    )
    if keys is not None:
        return _of_keys(task, keys)
    if task.is_compared:
        return _compared(task)
    return _by_version(task) or _compared(replace(task, is_compared=True))


def _by_version(task: VersionTask) -> Found | None:
    """Return the rows of both moments whose version the other one lacks.

    None where log files have some of the columns alone: a version does not tell what a row is then.
    """
    before = _Side(task, task.before, is_after=False)
    after = _Side(task, task.after, is_after=True)
    if not task.before or not task.after:
        return before.rows(), after.rows()
    versions = _Versions(before.rows(_NARROW), after.rows(_NARROW))
    if after.is_partial:
        return None
    return (
        before.rows_of(versions.before.filter(pa.array(versions.is_gone))),
        after.rows_of(versions.after.filter(pa.array(versions.has_come))),
    )


def _compared(task: VersionTask) -> Found:
    """Return the rows of both moments that the other one has not got like that."""
    before = _Side(task, task.before, is_after=False).rows()
    return _differing(before, _Side(task, task.after, is_after=True).rows())


def _differing(before: pa.Table, after: pa.Table) -> Found:
    """Return the rows of two tables, with all columns, that the other one has not got like that."""
    versions = _Versions(before, after)
    # Of a version that both have, by its place before.
    places = np.flatnonzero(~versions.has_come)
    same = versions.place_before(places)
    names = [name for name in before.column_names if name not in schemas.META_COLUMNS]
    old, new = before.take(pa.array(same)), after.take(pa.array(places))
    differs = changed_rows.differ(old, new, names)
    is_gone, has_come = versions.is_gone.copy(), versions.has_come.copy()
    is_gone[same[differs]] = True
    has_come[places[differs]] = True
    return before.filter(pa.array(is_gone)), after.filter(pa.array(has_come))


class _Versions:
    """Rows of two moments by their keys and versions."""

    def __init__(self, before: pa.Table, after: pa.Table) -> None:
        self.before, self.after = before, after
        both = pa.concat_tables([before.select(_NARROW), after.select(_NARROW)])
        codes, codes_max = np.zeros(both.num_rows, np.int64), 1
        for name in _NARROW:
            encoded = both.column(name).combine_chunks().fill_null("").dictionary_encode()
            numbers = encoded.indices.to_numpy().astype(np.int64)
            count = max(1, len(encoded.dictionary))
            if codes_max * count > _CODES_MAX:
                _, codes = np.unique(codes, return_inverse=True)
                codes_max = both.num_rows  # As many as there are values of a column, at most.
            codes, codes_max = codes * count + numbers, codes_max * count
        self._before, self._after = codes[: before.num_rows], codes[before.num_rows :]
        self.is_gone: Flags = ~_is_in(self._before, self._after)
        self.has_come: Flags = ~_is_in(self._after, self._before)

    def place_before(self, places: Places) -> Places:
        """Return where rows of the later moment were before, of versions that both have."""
        order = np.argsort(self._before, kind="stable")
        found: Places = order[np.searchsorted(self._before[order], self._after[places])]
        return found


def _columns(task: VersionTask, *, is_compared: bool) -> list[str]:
    """Return the columns in which rows are read."""
    more = (*task.columns, *(task.schema.arrow.names if is_compared else ()))
    return list(dict.fromkeys((*_NARROW, schemas.PARTITION_PATH, *more)))


def _is_in(codes: Places, others: Places) -> Flags:
    return np.asarray(pc.is_in(pa.array(codes), value_set=pa.array(others)))


class _Side:
    """The rows of a unit at one of the two moments."""

    def __init__(
        self,
        task: VersionTask,
        slices: Sequence[files.FileSlice],
        *,
        is_after: bool,
        storage: Storage | None = None,
    ) -> None:
        self._task = task
        self.slices = slices
        self._known = task.known_after if is_after else task.known_before
        self._storage = storage or locations.open_storage(task.table_uri)
        self._columns = _columns(task, is_compared=task.is_compared)
        self.is_partial = False

    def rows(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all of them."""
        names = list(columns or self._columns)
        return pa.concat_tables([self._empty(names), *self._tables(names, None)])

    def rows_of(self, versions: pa.Table) -> pa.Table:
        """Return those of some versions."""
        found = self.rows_of_keys(pc.unique(versions.column(schemas.RECORD_KEY)))
        return found.filter(pa.array(~_Versions(found, versions).is_gone))

    def rows_of_keys(self, keys: pa.Array) -> pa.Table:
        """Return those of some keys."""
        kept = [self._empty(self._columns)]
        where = None
        if len(keys) <= changed_rows.PUSHED_KEYS_MAX:
            where = predicates.In(schemas.RECORD_KEY, tuple(keys.to_pylist()))
        kept.extend(
            found.filter(pc.is_in(found.column(schemas.RECORD_KEY), value_set=keys))
            for found in (self._tables(self._columns, where) if len(keys) else ())
        )
        return pa.concat_tables(kept)

    def source_of(self, file_slice: files.FileSlice) -> held_keys.KeySource:
        """Return the table as one of the slices sees it."""
        task, known = self._task, self._known.with_files_of(file_slice)
        committed = snapshots.CommittedFiles(self._storage, known)
        return held_keys.KeySource(self._storage, task.config, task.schema, committed.is_committed)

    def _empty(self, names: Sequence[str]) -> pa.Table:
        full = pa.schema([*schemas.meta_fields(), *self._task.schema.arrow])
        return pa.schema([full.field(name) for name in names]).empty_table()

    def _tables(
        self, columns: Sequence[str], where: predicates.Predicate | None
    ) -> Iterator[pa.Table]:
        for each in self.slices:
            source = self.source_of(each)
            reader = reading.SliceReader(
                source.storage, source.config, source.schema, source.is_committed
            )
            found = reader.stream(each, columns, where)
            self.is_partial |= found.is_partial
            yield from found


def _paired(
    gone: pa.Table, came: pa.Table
) -> Iterator[tuple[Op, pa.Table | None, pa.Table | None]]:
    """Yield operations: of a key of several rows the first of both sides belong together."""
    keys = pa.chunked_array(
        [*gone.column(schemas.RECORD_KEY).chunks, *came.column(schemas.RECORD_KEY).chunks],
        pa.string(),
    )
    ids = keys.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    before, after = _ranked(ids[: gone.num_rows]), _ranked(ids[gone.num_rows :])
    # Each is a key with its rank: more than there are rows.
    span = gone.num_rows + came.num_rows + 1
    before_codes = ids[: gone.num_rows] * span + before
    after_codes = ids[gone.num_rows :] * span + after
    _, of_gone, of_came = np.intersect1d(
        before_codes, after_codes, assume_unique=True, return_indices=True
    )
    order = np.argsort(of_came, kind="stable")
    of_gone, of_came = of_gone[order], of_came[order]
    deleted = np.setdiff1d(np.arange(gone.num_rows), of_gone)
    inserted = np.setdiff1d(np.arange(came.num_rows), of_came)
    if len(of_came):
        yield Op.UPDATE, gone.take(pa.array(of_gone)), came.take(pa.array(of_came))
    if len(inserted):
        yield Op.INSERT, None, came.take(pa.array(inserted))
    if len(deleted):
        yield Op.DELETE, gone.take(pa.array(deleted)), None


def _ranked(ids: Places) -> Places:
    """Return for each row how many rows of the same key come before it."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    ranks = np.empty(len(ids), np.int64)
    ranks[order] = np.arange(len(ids)) - starts
    return ranks


@dataclass(frozen=True, slots=True)
class _Present:
    """Keys and partitions of changed rows."""

    keys: pa.Array | pa.ChunkedArray
    partitions: pa.Array | pa.ChunkedArray


def _shown(
    task: VersionTask,
    schema: pa.Schema,
    op: Op,
    before: pa.Table | None,
    after: pa.Table | None,
    present: "_Present",
) -> Iterator[pa.RecordBatch]:
    count = len(present.keys)
    time: pa.Array | pa.ChunkedArray = pa.repeat(pa.scalar(task.time, pa.string()), count)
    if task.time is None and after is not None:
        time = after.column(schemas.COMMIT_TIME)
    image = schema.field(change_data.BEFORE).type
    found = pa.Table.from_arrays(
        [
            pa.repeat(pa.scalar(op.value), count),
            time,
            present.keys,
            present.partitions,
            _images(before, image, count),
            _images(after, image, count),
        ],
        schema=schema,
    )
    yield from found.to_batches(max_chunksize=_BATCH_ROWS)


def _images(rows: pa.Table | None, image: pa.DataType, count: int) -> pa.Array:
    if rows is None:
        return pa.nulls(count, image)
    return _images_of(rows, image, pa.repeat(False, count))
