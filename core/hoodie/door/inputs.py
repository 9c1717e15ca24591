"""Rows that callers give, in whatever they have them, as a table or a stream of Arrow.

A stream stays one: it is read once, batch by batch, while the write checks its rows
(`write.streaming`). So a generator that fails in the middle fails the write before it has begun.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.door import columns
from hoodie.write import streaming

with deferred.imports():
    from hoodie.door import pandas_frames

Rows: TypeAlias = (
    columns.ArrowStream
    | pa.Table
    | pa.RecordBatch
    | pa.RecordBatchReader
    | columns.ArrowDataset
    | Iterable[pa.RecordBatch | pa.Table | columns.ArrowStream | Mapping[str, object]]
)
"""What callers give, and data frames of pandas and Polars."""

Data: TypeAlias = pa.Table | pa.RecordBatchReader

_ROWS_MAX = 1 << 13
"""So many dicts of an iterator are put into columns together."""

_EXPECTED = (
    "expected something with __arrow_c_stream__, such as a data frame of Polars or pandas, a "
    "table, reader or dataset of pyarrow, an iterator of record batches or data frames, or a list "
    "of dicts"
)


def data_of(given: object, schema: pa.Schema) -> Data:
    """Return rows in types that a table holds; a table where they are in memory, or else a stream.

    Args:
        given: One of `Rows`.
        schema: The columns of the table that they are for.

    Raises:
        InvalidInputError: It is something else, or malformed.
    """
    if type(given).__name__ == "LazyFrame":  # Of Polars, which is not asked for its schema.
        raise errors.InvalidInputError(
            "the rows are a LazyFrame, which is not collected: expected .collect() of it, or its "
            "parts, .collect_batches()"
        )
    table = _in_memory(given, schema)
    if table is not None:
        held = _held_table(table)
        # As a stream what is large is written in bounded memory.
        return held if held.nbytes <= streaming.MEMORY_BYTES else held.to_reader()
    reader = _stream(given, schema)
    fields = [each.with_type(columns.held_type(each.type)) for each in reader.schema]
    if pa.schema(fields).equals(reader.schema):
        return reader
    return pa.RecordBatchReader.from_batches(pa.schema(fields), map(columns.held, reader))


def _in_memory(given: object, schema: pa.Schema) -> pa.Table | None:
    """Return rows that are in memory as a table; None for others."""
    held = _table(given, schema)
    if held is not None:
        return held
    if isinstance(given, Mapping):
        given = dict(given)
        if all(isinstance(each, Sequence) and not isinstance(each, str) for each in given.values()):
            return _of_lists(given, schema)
        raise errors.InvalidInputError(
            "the rows are a dict, expected a list of dicts, or a dict of lists"
        )
    if isinstance(given, list | tuple) and all(isinstance(each, Mapping) for each in given):
        return _of_rows(given, schema)
    return None


def _table(given: object, schema: pa.Schema) -> pa.Table | None:
    """Return a table or batch of Arrow, or a data frame of pandas, as a table; None for others."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    return pandas_frames.arrow_table(given, schema)


def _of_rows(rows: Sequence[Mapping[object, object]], schema: pa.Schema) -> pa.Table:
    """Return dicts as a table; a column that some of them lack is null there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _of_lists({name: [row.get(name) for row in rows] for name in names}, schema)


def _of_lists(lists: Mapping[object, Sequence[object]], schema: pa.Schema) -> pa.Table:
    """Return lists of values as columns, of the table's types where it has them."""
    if not lists:
        return schema.empty_table()
    arrays = {}
    for name, values in lists.items():
        position = schema.get_field_index(name) if isinstance(name, str) else -1
        kind = schema.field(position).type if position >= 0 else None
        if kind is not None:
            columns.check_kept(str(name), values, kind)
        try:
            arrays[str(name)] = pa.array(values, kind)
        except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
            raise errors.InvalidInputError(
                f"column {name!r} has a value that is not {kind or 'of one type'}: {error}"
            ) from error
    try:
        return pa.table(arrays)
    except pa.ArrowException as error:
        raise errors.InvalidInputError(f"the lists differ in length: {error}") from error


def _stream(given: object, schema: pa.Schema) -> pa.RecordBatchReader:
    if isinstance(given, pa.RecordBatchReader):
        return given
    if isinstance(given, columns.ArrowDataset):
        return given.scanner().to_reader()
    if isinstance(given, columns.ArrowScanner):
        return given.to_reader()
    if isinstance(given, columns.ArrowStream):
        return pa.RecordBatchReader.from_stream(given)
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return _of_iterable(given, schema)
    raise errors.InvalidInputError(f"the rows are of type {type(given).__name__}, {_EXPECTED}")


def _of_iterable(given: Iterable[object], schema: pa.Schema) -> pa.RecordBatchReader:
    batches = _batches(given, schema)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    return pa.RecordBatchReader.from_batches(
        first.schema, _alike(itertools.chain([first], batches), first.schema)
    )


def _batches(given: Iterable[object], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    rows: list[Mapping[object, object]] = []
    for each in given:
        if isinstance(each, Mapping):
            rows.append(each)
            if len(rows) < _ROWS_MAX:
                continue
            found = _of_rows(rows, schema)
            rows = []
        else:
            found = _piece(each, schema)
        yield from found.to_batches()
    if rows:
        yield from _of_rows(rows, schema).to_batches()


def _piece(given: object, schema: pa.Schema) -> pa.Table:
    """Return some of the rows of an iterator."""
    held = _table(given, schema)
    if held is not None:
        return held
    if isinstance(given, columns.ArrowStream):
        return pa.table(given)
    raise errors.InvalidInputError(
        f"an iterator of rows gave a value of type {type(given).__name__}, expected record batches "
        "or tables of pyarrow, data frames, or dicts"
    )


def _alike(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.schema.equals(schema):
            raise errors.InvalidInputError(
                "an iterator of rows gave a record batch with other columns than the first: "
                f"{', '.join(f'{each.name} {each.type}' for each in batch.schema)}; expected "
                f"{', '.join(f'{each.name} {each.type}' for each in schema)}"
            )
        yield batch


def _held_table(table: pa.Table) -> pa.Table:
    if all(columns.held_type(each.type).equals(each.type) for each in table.schema):
        return table
    fields = [each.with_type(columns.held_type(each.type)) for each in table.schema]
    return pa.Table.from_batches(
        [columns.held(each) for each in table.to_batches()], pa.schema(fields)
    )
