"""The changes of one unit of file groups between two moments, row by row.

A unit is a file group, or several between which rows may have moved, since a write replaced some
of them by others. A task has the slices of both moments, as a read as of each would merge them.

    upserts   rows of the later moment whose version was written in between
    deletes   keys of the earlier moment that the later one lacks

The version of a row is the write in its meta column, so that upserts need the later slices alone.
Where columns of several writes are merged into one row that is not enough: a write that comes
first in the order of merging may fill columns of a row and leave its meta columns as they are. All
columns of both moments are compared then.

Where log files came to slices and nothing else, only rows of the keys in them are read, as far as
keys tell row groups apart.

Memory: of a unit its keys for deletes; the rows of its earlier moment where rows are compared.

Source: RFC-66, "Pseudocode for Incremental/CDC Queries"; protocol.md: Increments.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import held_keys, reading, snapshots
from hoodie.model import files, instants, predicates, schemas, sent_times, table_config
from hoodie.storage.protocol import Storage

CHANGE = "_change"
"""Column of changes: what became of a row."""

UPSERT, DELETE = "upsert", "delete"

PUSHED_KEYS_MAX = 1 << 10
"""So many keys are a filter of a read; more are looked for in all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitTask:
    """What a process needs to know to find the changes of a unit.

    Attributes:
        config: The table's configuration.
        schema: The table's columns.
        before: The slices of the earlier moment.
        after: Those of the later one.
        known_before: Which log blocks count at the earlier moment.
        known_after: Likewise at the later one.
        writes: Requested times of the writes whose rows are changes, as rows name them; sorted.
        columns: Of the result; meta columns are allowed.
        is_compared: Whether rows of both moments are compared.
        where: Which changes are asked for, by what the result shows of them; None for all.
        may_upsert: Whether upserted rows may be among them.
        may_delete: Whether deleted rows may be.
    """

    config: table_config.TableConfig
    schema: schemas.TableSchema
    before: tuple[files.FileSlice, ...]
    after: tuple[files.FileSlice, ...]
    known_before: snapshots.CommittedInstants
    known_after: snapshots.CommittedInstants
    writes: tuple[str, ...]
    columns: tuple[str, ...]
    is_compared: bool
    where: predicates.Predicate | None = None
    may_upsert: bool = True
    may_delete: bool = True


def schema_of(schema: schemas.TableSchema, columns: Sequence[str]) -> pa.Schema:
    """Return the columns of changes: what became of a row, then those asked for.

    All may be null: of a deleted row only the columns of its key and partition are known.
    """
    full = pa.schema([*schemas.meta_fields(), *schema.arrow])
    return pa.schema(
        [
            pa.field(CHANGE, pa.string(), nullable=False),
            *(full.field(name).with_nullable(True) for name in columns),
        ]
    )


def default_columns(
    config: table_config.TableConfig, schema: schemas.TableSchema, *, has_deletes: bool
) -> tuple[str, ...]:
    """Return the columns of changes for which none are named: all, without meta columns.

    But deleted rows of a table without key fields are known by their record keys alone.
    """
    names = tuple(schema.arrow.names)
    if has_deletes and not config.record_key_fields:
        return (schemas.RECORD_KEY, *names)
    return names


def texts_of(writes: Sequence[instants.InstantTime]) -> tuple[str, ...]:
    """Return how rows name the writes that wrote them; sorted.

    Those of old writers have 14 digits.
    """
    short = [
        each.removesuffix(instants.SHORT_ENDING)
        for each in writes
        if each.endswith(instants.SHORT_ENDING)
    ]
    return sent_times.Names(sorted([*writes, *short]))


def upserts(task: UnitTask, storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the rows that were written between the moments, as they are at the later one.

    As `schema_of` says, and their record keys beside them: the last column, named as the meta
    column.

    Raises:
        NotFoundError: A file is gone, as after cleaning.
        FormatError: A file is broken.
    """
    if not task.may_upsert:
        return
    if not task.is_compared:
        asked = _asked(task.where, _logged_since(task, storage))
        readers = [
            _rows(task, storage, each, _with_meta(task.columns), asked, is_after=True)
            for each in task.after
        ]
        if not any(rows.is_partial for rows in readers):
            writes = pa.array(task.writes, pa.string())
            for rows in readers:
                for found in rows:
                    mask = pc.is_in(found.column(schemas.COMMIT_TIME), value_set=writes)
                    yield from _upserts(task, found.filter(mask))
            return
    yield from _compared(replace(task, is_compared=True), storage)


def deletes(task: UnitTask, storage: Storage) -> pa.Table:
    """Return the keys that are gone, as `upserts` does rows: of each its key and partition.

    Raises:
        HoodieError: As `upserts`.
    """
    schema = schema_of(task.schema, task.columns)
    empty = _beside_keys(schema.empty_table(), pa.chunked_array([], pa.string()))
    if not task.before or not task.may_delete:
        return empty
    known = key_columns(task.config, task.schema)
    keys = _logged_since(task, storage)
    of_known, of_keys = None, _asked(None, keys)
    if task.where is not None:
        of_known, _ = where_of_deletes(task.where, task.config, task.schema)
    before = pa.concat_tables(
        [
            found
            for each in task.before
            for found in _rows(task, storage, each, known, _asked(of_known, keys), is_after=False)
        ]
        or [_selected(task, known).empty_table()]
    )
    after = [
        found.column(schemas.RECORD_KEY)
        for each in task.after
        for found in _rows(task, storage, each, [schemas.RECORD_KEY], of_keys, is_after=True)
    ]
    kept = pa.chunked_array([chunk for each in after for chunk in each.chunks], pa.string())
    gone = before.filter(pc.invert(pc.is_in(before.column(schemas.RECORD_KEY), value_set=kept)))
    if task.where is not None:
        gone = gone.filter(_shown_of(task.where, gone, task.schema))
    keys = gone.column(schemas.RECORD_KEY)
    first = np.unique(np.asarray(pc.index_in(keys, value_set=pc.unique(keys)).fill_null(-1)), True)
    gone = gone.take(pa.array(np.sort(first[1])))
    arrays = [pa.repeat(pa.scalar(DELETE), gone.num_rows)]
    for field in list(schema)[1:]:
        is_known = field.name in gone.column_names
        arrays.append(gone.column(field.name) if is_known else pa.nulls(gone.num_rows, field.type))
    return _beside_keys(
        pa.Table.from_arrays(arrays, schema=schema), gone.column(schemas.RECORD_KEY)
    )


def where_of_deletes(
    where: predicates.Predicate,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
) -> tuple[predicates.Predicate | None, bool]:
    """Return what a filter asks of deleted rows, and whether it may be true of any.

    Of a deleted row the columns of key and partition alone are not null.

    Args:
        where: The filter of changes.
        config: The table's configuration.
        schema: The table's columns.

    Returns:
        Its conditions on known columns, None where there are none; and whether those on the other
        columns are true of null.
    """
    known = set(key_columns(config, schema))
    parts = predicates.conjuncts(where)
    of_known = predicates.all_of(each for each in parts if predicates.columns(each) <= known)
    of_nulls = predicates.without(where, known)
    if of_nulls is None:
        return of_known, True
    one = pa.table({schemas.RECORD_KEY: pa.array([""])})
    return of_known, bool(pc.any(_shown_of(of_nulls, one, schema)).as_py())


def _shown_of(
    where: predicates.Predicate, gone: pa.Table, schema: schemas.TableSchema
) -> pa.ChunkedArray:
    """Return for deleted rows whether a filter is true, false or unknown."""
    full = pa.schema([*schemas.meta_fields(), *schema.arrow])
    shown = gone
    for field in full:
        if field.name in predicates.columns(where) and field.name not in gone.column_names:
            nulls = pa.nulls(gone.num_rows, field.type)
            shown = shown.append_column(field.with_nullable(True), nulls)
    return predicates.mask(where, shown)


def _beside_keys(rows: pa.Table, keys: pa.ChunkedArray) -> pa.Table:
    # By its place: the meta column may be among those asked for.
    names = [*rows.column_names, schemas.RECORD_KEY]
    return pa.Table.from_arrays([*rows.columns, keys], names=names)


def _compared(task: UnitTask, storage: Storage) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the later moment that the earlier one did not have like that."""
    everything = [*schemas.META_COLUMNS[:-1], *task.schema.arrow.names]
    before = pa.concat_tables(
        [
            found
            for each in task.before
            for found in _rows(task, storage, each, everything, None, is_after=False)
        ]
        or [_selected(task, everything).empty_table()]
    )
    keys = before.column(schemas.RECORD_KEY).combine_chunks()
    for each in task.after:
        names = [*everything, *(name for name in task.columns if name not in everything)]
        for found in _rows(task, storage, each, names, task.where, is_after=True):
            place = pc.index_in(found.column(schemas.RECORD_KEY), value_set=keys)
            is_there = np.asarray(place.is_valid())
            rows = np.flatnonzero(is_there)
            old = before.take(place.drop_null())
            new = found.take(pa.array(rows))
            is_changed = ~is_there
            is_changed[rows] = differ(old, new, everything)
            yield from _upserts(task, found.filter(pa.array(is_changed)))


def differ(old: pa.Table, new: pa.Table, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which of two tables' rows differ in some columns; nulls are equal, NaN as well."""
    found = np.zeros(old.num_rows, np.bool_)
    for name in names:
        one, other = old.column(name), new.column(name)
        if pa.types.is_nested(one.type):
            pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
            found |= np.fromiter((a != b for a, b in pairs), np.bool_, old.num_rows)
            continue
        equal = pc.equal(one, other)
        if pa.types.is_floating(one.type):
            equal = pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))
        is_equal = np.asarray(equal.fill_null(False))
        both_null = np.asarray(one.is_null()) & np.asarray(other.is_null())
        found |= ~(is_equal | both_null)
    return found


def _upserts(task: UnitTask, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    if not rows.num_rows:
        return
    schema = schema_of(task.schema, task.columns)
    change = pa.repeat(pa.scalar(UPSERT), rows.num_rows)
    arrays = [change, *(rows.column(name) for name in task.columns)]
    found = pa.Table.from_arrays(arrays, schema=schema)
    yield from _beside_keys(found, rows.column(schemas.RECORD_KEY)).to_batches()


def logged_since(
    before: Sequence[files.FileSlice],
    after: Sequence[files.FileSlice],
    then: Callable[[files.FileSlice], held_keys.KeySource],
    now: Callable[[files.FileSlice], held_keys.KeySource],
) -> pa.Array | None:
    """Return the keys in log blocks that slices have at a later moment alone, if these are few.

    Rows of other keys are the same at both moments. None where that is not so, or there are many.

    Args:
        before: The slices of the earlier moment.
        after: Those of the later one.
        then: Returns the table as an earlier slice sees it.
        now: Returns it as a later slice does.
    """
    olds = {each.group: each for each in before}
    if not after or olds.keys() != {each.group for each in after}:
        return None
    chunks = []
    for each in after:
        old = olds[each.group]
        keys = held_keys.logged_since(
            held_keys.Side(then(old), old), held_keys.Side(now(each), each)
        )
        if keys is None:
            return None
        chunks.append(keys)
    found = pc.unique(pa.chunked_array(chunks, pa.string()))
    return found if len(found) <= PUSHED_KEYS_MAX else None


def _asked(
    where: predicates.Predicate | None, keys: pa.Array | None
) -> predicates.Predicate | None:
    """Return a filter of rows with some keys; None of keys is all of them."""
    parts = () if where is None else (where,)
    if keys is not None:
        parts = (predicates.In(schemas.RECORD_KEY, tuple(keys.to_pylist())), *parts)
    return predicates.all_of(parts)


def _logged_since(task: UnitTask, storage: Storage) -> pa.Array | None:
    if not any(each.is_changed for each in task.after):
        return None  # A base file is left out by its own statistics.
    return logged_since(
        task.before,
        task.after,
        lambda each: _source(task, storage, task.known_before, each),
        lambda each: _source(task, storage, task.known_after, each),
    )


def _source(
    task: UnitTask,
    storage: Storage,
    known: snapshots.CommittedInstants,
    file_slice: files.FileSlice,
) -> held_keys.KeySource:
    committed = snapshots.CommittedFiles(storage, known.with_files_of(file_slice))
    return held_keys.KeySource(storage, task.config, task.schema, committed.is_committed)


def _rows(
    task: UnitTask,
    storage: Storage,
    file_slice: files.FileSlice,
    columns: Sequence[str],
    where: predicates.Predicate | None,
    *,
    is_after: bool,
) -> reading.SliceRows:
    known = task.known_after if is_after else task.known_before
    source = _source(task, storage, known, file_slice)
    reader = reading.SliceReader(source.storage, source.config, source.schema, source.is_committed)
    if is_after and not task.is_compared and task.writes and schemas.COMMIT_TIME in columns:
        # Of row groups in which no row is as young nothing is read.
        first = task.writes[0]
        is_young = predicates.Compare(schemas.COMMIT_TIME, predicates.Comparator.GE, first)
        where = is_young if where is None else predicates.And((is_young, where))
    changed = file_slice if file_slice.is_changed else _base_alone(file_slice)
    return reader.stream(changed, list(columns), where)


def _base_alone(file_slice: files.FileSlice) -> files.FileSlice:
    return files.FileSlice(
        group=file_slice.group,
        base_instant_time=file_slice.base_instant_time,
        base_file=file_slice.base_file,
        log_files=(),
    )


def _with_meta(columns: Sequence[str]) -> list[str]:
    needed = (schemas.COMMIT_TIME, schemas.RECORD_KEY)
    return [*columns, *(name for name in needed if name not in columns)]


def key_columns(config: table_config.TableConfig, schema: schemas.TableSchema) -> list[str]:
    """Return the columns that are known of a deleted row: of its key and partition."""
    names = (*config.record_key_fields, *config.partition_fields)
    top = [name for name in dict.fromkeys(names) if name in schema.arrow.names]
    return [schemas.RECORD_KEY, schemas.PARTITION_PATH, *top]


def _selected(task: UnitTask, names: Sequence[str]) -> pa.Schema:
    full = pa.schema([*schemas.meta_fields(), *task.schema.arrow])
    return pa.schema([full.field(name) for name in names])
