"""What the metadata table says of the values of columns in data files.

A filter on merged rows may leave a file slice out if no value that it wants is in any file of the
slice: the values of a merged row are values of these files, each perhaps of another one. So the
ranges of a slice's files are joined, column by column. Where the record of a file is missing, or
has what is not understood, nothing is known of the slice's column.

Requests: for each column the blocks of the partition `column_stats` that its records are in. The
partition `partition_stats` is not used: a writer that does not keep it up makes it wrong, and
nothing shows that (format.md: Metadata table).

Source: `ColumnStatsIndexSupport.scala`, `ValueType.java` (1.2.0).
"""

import datetime
import decimal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import ColumnStatistics, ValueKind, ValueType
from hoodie.model import files, predicates

PARTITION = "column_stats"

_PARTITIONS_MAX = 100
"""Of more partitions of the data table the records of a column are read at once."""

_DECIMAL_SCALE_MAX = 15
"""Greater scales are cut in version 8, which a bound does not survive."""

_MICROS = frozenset((None, ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS))
"""Types of times in microseconds, with and without zone; version 8 has no other ones."""

_WHOLE = frozenset((ValueKind.INT, ValueKind.LONG))

_EPOCH = datetime.date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class _Joined:
    """The range of a column in a file slice."""

    low: object
    high: object
    has_nulls: bool


def may_match(
    table: metadata_table.MetadataTable,
    slices: Sequence[files.FileSlice],
    where: predicates.Predicate,
    schema: pa.Schema,
) -> list[bool]:
    """Return for each file slice whether a read with a filter needs it.

    Args:
        table: The metadata table, which has `column_stats`.
        slices: Of any partitions.
        where: The filter.
        schema: The data table's.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    columns = [
        name
        for name in sorted(predicates.columns(where))
        if name in schema.names and _is_ordered(schema.field(name).type)
    ]
    paths = {each.group.partition_path for each in slices}
    known = {} if not columns else _read(table, columns, paths)
    arrays: dict[str, pa.Array] = {}
    for name in predicates.columns(where):
        data_type = schema.field(name).type
        found = [_of_slice(each, known.get(name, {}), data_type) for each in slices]
        arrays |= _arrays(name, found, data_type)
    ranges = pa.table({**arrays, "": pa.array(range(len(slices)))})
    matching = ranges.filter(predicates.to_range_expression(where, schema))
    wanted = set(matching.column("").to_pylist())
    return [place in wanted for place in range(len(slices))]


def _is_ordered(data_type: pa.DataType) -> bool:
    """Return whether the bounds of a type are understood."""
    if pa.types.is_decimal(data_type):
        return bool(data_type.scale <= _DECIMAL_SCALE_MAX)
    if pa.types.is_timestamp(data_type):
        return bool(data_type.unit == "us")
    return bool(
        pa.types.is_signed_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_string(data_type)
        or pa.types.is_date32(data_type)
    )


def _read(
    table: metadata_table.MetadataTable, columns: Sequence[str], paths: Collection[str]
) -> Mapping[str, Mapping[str, ColumnStatistics]]:
    """Return the ranges by column and file name."""
    partition = table.partition(PARTITION, is_held=False)
    places = sorted(paths) if len(paths) <= _PARTITIONS_MAX else [None]
    found: dict[str, dict[str, ColumnStatistics]] = {}
    for name in columns:
        prefixes = [metadata_avro.statistics_prefix(name, place) for place in places]
        ranges = (
            metadata_avro.column_statistics(values, f"{PARTITION}, key {key!r}")
            for key, values in partition.with_prefixes(prefixes).items()
        )
        found[name] = {each.file_name: each for each in ranges if each is not None}
    return found


def _of_slice(
    file_slice: files.FileSlice, known: Mapping[str, ColumnStatistics], data_type: pa.DataType
) -> _Joined | None:
    """Return the range of a column in a slice; None where it is not known."""
    lows: list[object] = []
    highs: list[object] = []
    has_nulls = False
    for name in _names(file_slice):
        told = known.get(name)
        if told is None:
            return None
        has_nulls = has_nulls or told.has_nulls
        if told.kind is None:
            continue
        try:
            lows.append(_converted(told.low, told, data_type))
            highs.append(_converted(told.high, told, data_type))
        except errors.UnsupportedError:
            return None
    return _Joined(
        low=min(lows, default=None),  # type: ignore[type-var]
        high=max(highs, default=None),  # type: ignore[type-var]
        has_nulls=has_nulls,
    )


def _names(file_slice: files.FileSlice) -> Iterable[str]:
    if file_slice.base_file is not None:
        yield file_slice.base_file.name
    for log_file in file_slice.log_files:
        yield log_file.name


def _converted(bound: object, told: ColumnStatistics, data_type: pa.DataType) -> object:
    """Return a bound as a value of the column's type.

    Raises:
        UnsupportedError: It was written in a way that is not understood.
    """
    if pa.types.is_date32(data_type) and type(bound) is int:
        return _EPOCH + datetime.timedelta(days=bound)
    is_fit = (
        (pa.types.is_signed_integer(data_type) and told.kind in _WHOLE)
        or (pa.types.is_floating(data_type) and type(bound) is float)
        or (pa.types.is_string(data_type) and type(bound) is str)
        or (pa.types.is_decimal(data_type) and type(bound) is decimal.Decimal)
        or (pa.types.is_date32(data_type) and type(bound) is datetime.date)
        or (pa.types.is_timestamp(data_type) and type(bound) is int and told.value_type in _MICROS)
    )
    if not is_fit:
        raise errors.UnsupportedError(f"a bound {bound!r} of a column of type {data_type}")
    return bound


def _arrays(
    name: str, found: Sequence[_Joined | None], data_type: pa.DataType
) -> dict[str, pa.Array]:
    try:
        low = pa.array([each and each.low for each in found], data_type)
        high = pa.array([each and each.high for each in found], data_type)
        is_known = [each is not None for each in found]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        # A type that is wider than the column's: it was narrowed, which nobody does.
        low = high = pa.nulls(len(found), data_type)
        is_known = [False] * len(found)
    return {
        predicates.range_name(name, predicates.LOW): low,
        predicates.range_name(name, predicates.HIGH): high,
        predicates.range_name(name, predicates.HAS_NULLS): pa.array(
            [each and each.has_nulls for each in found], pa.bool_()
        ),
        predicates.range_name(name, predicates.IS_KNOWN): pa.array(is_known, pa.bool_()),
    }
