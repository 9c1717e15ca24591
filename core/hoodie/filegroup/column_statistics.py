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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

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

ByFile: TypeAlias = Mapping[str, ColumnStatistics]
"""Statistics of a column by the names of files."""

_WHOLE = frozenset((ValueKind.INT, ValueKind.LONG))

_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


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
    columns = sorted(predicates.columns(where).intersection(understood_columns(schema)))
    known: Mapping[str, ByFile] = {}
    if columns:
        paths = sorted({each.group.partition_path for each in slices})
        partition = table.partition(PARTITION, is_held=False)
        known = read(partition, columns, paths if len(paths) <= _PARTITIONS_MAX else [None])
    arrays: dict[str, pa.Array] = {}
    for name in predicates.columns(where):
        data_type = schema.field(name).type
        found = [_of_slice(each, known.get(name, {}), data_type) for each in slices]
        arrays |= _arrays(name, found, data_type)
    ranges = pa.table({**arrays, "": pa.array(range(len(slices)))})
    matching = ranges.filter(predicates.to_range_expression(where, schema))
    wanted = set(matching.column("").to_pylist())
    return [place in wanted for place in range(len(slices))]


def understood_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a table whose bounds are understood."""
    return [each.name for each in schema if _is_ordered(each.type)]


def _is_ordered(data_type: pa.DataType) -> bool:
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


def read(
    partition: metadata_table.Partition,
    columns: Sequence[str],
    paths: Sequence[str | None],
) -> Mapping[str, ByFile]:
    """Return what the partition `column_stats` says, by column and file name.

    Args:
        partition: The partition.
        columns: Of the data table.
        paths: Partitions of the data table; None among them for all.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    found: dict[str, ByFile] = {}
    for name in columns:
        prefixes = [metadata_avro.statistics_prefix(name, path) for path in paths]
        told = (
            metadata_avro.column_statistics(values, f"{PARTITION}, key {key!r}")
            for key, values in partition.with_prefixes(prefixes).items()
        )
        found[name] = {each.file_name: each for each in told if each is not None}
    return found


@dataclass(frozen=True, slots=True)
class FooterRange:
    """What the footer of a base file says of a column.

    Attributes:
        low: The least value; None where there is none, or where the footer does not say it.
        high: The greatest value.
        nulls: How many rows have none.
    """

    low: object
    high: object
    nulls: int


def footer_ranges(metadata: pq.FileMetaData) -> dict[str, FooterRange]:
    """Return what a footer says of the columns that it has statistics of, by their names."""
    found: dict[str, FooterRange | None] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            name = chunk.path_in_schema
            told = _chunk_range(chunk)
            before = found.get(name)
            found[name] = told if name not in found else _joined_ranges(before, told)
    return {name: each for name, each in found.items() if each is not None}


def _chunk_range(chunk: pq.ColumnChunkMetaData) -> FooterRange | None:
    told = chunk.statistics
    if told is None or not told.has_null_count:
        return None
    if not told.has_min_max:
        # Without values there are no bounds; with some they were too long to be written.
        return FooterRange(None, None, told.null_count) if not told.num_values else None
    return FooterRange(_plain(told.min), _plain(told.max), told.null_count)


def _joined_ranges(one: FooterRange | None, other: FooterRange | None) -> FooterRange | None:
    if one is None or other is None:
        return None
    lows = [each.low for each in (one, other) if each.low is not None]
    highs = [each.high for each in (one, other) if each.high is not None]
    return FooterRange(
        min(lows, default=None),  # type: ignore[type-var]
        max(highs, default=None),  # type: ignore[type-var]
        one.nulls + other.nulls,
    )


def _plain(bound: object) -> object:
    """Return a bound as `_converted` returns it: of a time the microseconds."""
    if not isinstance(bound, datetime.datetime):
        return bound
    zoned = bound if bound.tzinfo is not None else bound.replace(tzinfo=datetime.UTC)
    return (zoned - _EPOCH_TIME) // datetime.timedelta(microseconds=1)


def excludes(told: ColumnStatistics, footer: FooterRange, data_type: pa.DataType) -> bool:
    """Return whether statistics exclude a value, or a null, that is in their file."""
    if footer.nulls and not told.has_nulls:
        return True
    if footer.low is None:
        return False
    if told.kind is None:
        return True
    try:
        low = _converted(told.low, told, data_type)
        high = _converted(told.high, told, data_type)
    except errors.UnsupportedError:
        return False  # Nothing is left out by what is not understood.
    return bool(low > footer.low or high < footer.high)  # type: ignore[operator]


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
