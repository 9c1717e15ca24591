"""Columns and rows of Arrow as callers have them, in the types that tables hold.

Two things that data frames have and tables do not: times in nanoseconds, which become microseconds
where nothing is lost, and dictionaries (categories) and runs, which become their values.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.model import column_names, column_types

with deferred.imports():
    from hoodie.door import pandas_frames

_HELD = {
    pa.string_view(): pa.string(),
    pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_binary(): pa.binary(),
}


@runtime_checkable
class ArrowSchema(Protocol):
    """Columns that Arrow's C interface gives."""

    def __arrow_c_schema__(self) -> object:
        """Return a capsule with a schema."""
        ...


@runtime_checkable
class ArrowStream(Protocol):
    """Data that Arrow's C stream interface gives, as data frames do."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with a stream of record batches."""
        ...


@runtime_checkable
class ArrowScanner(Protocol):
    """A `pyarrow.dataset.Scanner`, known without that module, which imports pandas."""

    dataset_schema: pa.Schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows."""
        ...


@runtime_checkable
class ArrowDataset(Protocol):
    """A `pyarrow.dataset.Dataset`."""

    schema: pa.Schema

    def scanner(self) -> ArrowScanner:
        """Return what reads its rows."""
        ...


def schema_of(given: object) -> pa.Schema:
    """Return the columns of a new table, from a schema of Arrow's or from data that has one.

    Raises:
        InvalidInputError: It is something else, or a column has no type.
    """
    found = _schema(given)
    for field in found:
        if pa.types.is_null(field.type):
            raise errors.InvalidInputError(
                f"column {field.name!r} has nulls alone, and so no type: cast it to one, such as "
                "pa.string(), or leave it out"
            )
    return pa.schema([field.with_type(held_type(field.type)) for field in found])


def _schema(given: object) -> pa.Schema:
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowDataset):
        return given.schema
    frame = pandas_frames.arrow_table(given)
    if frame is not None:
        return frame.schema
    if isinstance(given, ArrowSchema):
        return pa.schema(given)
    if isinstance(given, ArrowStream):
        return pa.RecordBatchReader.from_stream(given).schema
    if isinstance(given, Mapping):
        return pa.schema([_field(name, kind) for name, kind in given.items()])
    raise errors.InvalidInputError(
        f"schema is of type {type(given).__name__}, expected a pyarrow.Schema, or data with "
        "__arrow_c_schema__ or __arrow_c_stream__, such as a data frame of polars or pandas"
    )


def _field(name: object, kind: object) -> pa.Field:
    """Return a column of a dict: its type is one of Arrow, or a name of Arrow's, or of ours."""
    if not isinstance(name, str):
        raise errors.InvalidInputError(f"schema: {name!r} is not a name, expected texts as names")
    if isinstance(kind, pa.DataType):
        return pa.field(name, kind)
    if not isinstance(kind, str):
        raise errors.InvalidInputError(
            f"schema: column {name!r} has the type {kind!r}, expected one of pyarrow, such as "
            "pa.string(), or its name"
        )
    try:
        return pa.field(name, pa.type_for_alias(kind))
    except ValueError:
        try:
            return pa.field(name, column_types.named(kind))
        except errors.InvalidInputError as error:
            raise errors.InvalidInputError(
                f"schema: column {name!r}: {error}; or a type of pyarrow, such as "
                "pa.timestamp('us'), or its name, such as timestamp[us]"
            ) from error


def check_kept(name: str, values: Iterable[object], kind: pa.DataType) -> None:
    """Refuse values of which Arrow would drop a part: zones of times, and fields of dicts.

    Args:
        name: Of the column, and of fields within it.
        values: Of Python.
        kind: The column's.

    Raises:
        InvalidInputError: The column is of times without a zone, and one has a zone; or a dict has
            a key that is no field of the column.
    """
    if pa.types.is_timestamp(kind) and kind.tz is None:
        for each in values:
            if isinstance(each, datetime) and each.tzinfo is not None:
                raise errors.InvalidInputError(
                    f"column {name!r} is {kind}, and {each.isoformat()} has a time zone: take the "
                    "zone off the times"
                )
    elif pa.types.is_struct(kind):
        dicts = [each for each in values if isinstance(each, Mapping)]
        names = [each.name for each in kind]
        for unknown in (key for each in dicts for key in each if key not in names):
            raise errors.InvalidInputError(
                f"column {name!r} has no field {unknown!r}; its fields are {', '.join(names)}"
                f"{column_names.similar(unknown, names)}"
            )
        for each in kind:
            check_kept(f"{name}.{each.name}", [row.get(each.name) for row in dicts], each.type)
    elif pa.types.is_list(kind):
        lists = [each for each in values if isinstance(each, Iterable)]
        check_kept(name, [item for each in lists for item in each], kind.value_type)
    elif pa.types.is_map(kind):
        maps = [each.items() if isinstance(each, Mapping) else each for each in values]
        pairs = [pair for each in maps if isinstance(each, Iterable) for pair in each]
        check_kept(name, [each[-1] for each in pairs if isinstance(each, tuple)], kind.item_type)


def held_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a table holds such values, if there is one."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return held_type(kind.value_type)
    found = _HELD.get(kind, kind)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        found = pa.timestamp("us", kind.tz)
    elif pa.types.is_struct(kind):
        found = pa.struct([each.with_type(held_type(each.type)) for each in kind])
    elif pa.types.is_map(kind):
        found = pa.map_(held_type(kind.key_type), held_type(kind.item_type))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = pa.list_(kind.value_field.with_type(held_type(kind.value_type)))
    return found


def held(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in the types in which a table holds them; what needs no change is not copied.

    Raises:
        InvalidInputError: A time has nanoseconds.
    """
    arrays, fields = [], []
    for field, values in zip(batch.schema, batch.columns, strict=True):
        kind = held_type(field.type)
        arrays.append(values if kind.equals(field.type) else _cast(field, values, kind))
        fields.append(field.with_type(kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cast(field: pa.Field, values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        if pa.types.is_dictionary(field.type):
            # Arrow has no cast from all dictionaries.
            return values.dictionary.cast(kind).take(values.indices)
        if pa.types.is_run_end_encoded(field.type):
            return pc.run_end_decode(values).cast(kind)
        return values.cast(kind)
    except pa.ArrowException as error:
        lost = f" ({error})"
        if pa.types.is_timestamp(field.type):
            lost = ", and a value would lose its nanoseconds: round them first"
        raise errors.InvalidInputError(
            f"column {field.name!r} is {field.type}, which a table holds as {kind}{lost}"
        ) from error
