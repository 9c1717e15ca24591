"""What the metadata table says of the values of columns in data files.

A filter on merged rows may leave a file slice out if no value that it wants is in any file of the
slice: the values of a merged row are values of these files, each perhaps of another one. So the
ranges of a slice's files are joined, column by column. Where the record of a file is missing, or
has what is not understood, nothing is known of the slice's column.

Requests: the blocks of the partition `column_stats` that the records of the columns are in. The
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
from hoodie.model import files, predicates
from hoodie.model.file_statistics import COLUMN_STATS, ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

_PARTITIONS_MAX = 100
"""Of more partitions of the data table the records of a column are read at once."""

_DECIMAL_SCALE_MAX = 15
"""Greater scales are cut in version 8, which a bound does not survive."""

_MICROS = frozenset((None, ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS))
"""Types of times in microseconds, with and without zone; version 8 has no other ones."""

ByFile: TypeAlias = Mapping[str, ColumnStatistics]
"""Statistics of a column by the names of files."""

_WHOLE = frozenset((Wrapper.INT, Wrapper.LONG))

_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """The values of a column in some rows.

    Attributes:
        low: The least value, as a value of the column's type, of a time in microseconds; None where
            no row has a value.
        high: The greatest value, as `low`.
        nulls: How many rows have no value; None where that is not known.
    """

    low: object = None
    high: object = None
    nulls: int | None = 0

    @property
    def has_nulls(self) -> bool:
        """Whether a row may have no value."""
        return self.nulls != 0

    def joined(self, other: "ColumnRange") -> "ColumnRange":
        """Return the range of these rows and others."""
        lows = [each.low for each in (self, other) if each.low is not None]
        highs = [each.high for each in (self, other) if each.high is not None]
        is_unknown = self.nulls is None or other.nulls is None
        return ColumnRange(
            min(lows, default=None),  # type: ignore[type-var]
            max(highs, default=None),  # type: ignore[type-var]
            None if is_unknown else (self.nulls or 0) + (other.nulls or 0),
        )


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
        partition = table.partition(COLUMN_STATS, is_held=False)
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
    prefixes = [metadata_avro.statistics_prefix(name, path) for name in columns for path in paths]
    found: dict[str, dict[str, ColumnStatistics]] = {name: {} for name in columns}
    for key, values in partition.with_prefixes(prefixes).items():
        statistics = metadata_avro.column_statistics(values, f"{COLUMN_STATS}, key {key!r}")
        if statistics is not None and statistics.column in found:
            found[statistics.column][statistics.file_name] = statistics
    return found


def footer_ranges(metadata: pq.FileMetaData) -> dict[str, ColumnRange]:
    """Return what a footer says of the columns that it has statistics of, by their names."""
    found: dict[str, ColumnRange | None] = {}
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            name, added = chunk.path_in_schema, _chunk_range(chunk)
            before = found.get(name, ColumnRange())
            found[name] = None if before is None or added is None else before.joined(added)
    return {name: each for name, each in found.items() if each is not None}


def _chunk_range(chunk: pq.ColumnChunkMetaData) -> ColumnRange | None:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    if statistics.has_min_max:
        low, high = _plain(statistics.min), _plain(statistics.max)
        return ColumnRange(low, high, statistics.null_count)
    # Without values there are no bounds; with some they were too long to be written.
    return None if statistics.num_values else ColumnRange(nulls=statistics.null_count)


def _plain(bound: object) -> object:
    """Return a bound as `_converted` returns it: of a time the microseconds."""
    if not isinstance(bound, datetime.datetime):
        return bound
    zoned = bound if bound.tzinfo is not None else bound.replace(tzinfo=datetime.UTC)
    return (zoned - _EPOCH_TIME) // datetime.timedelta(microseconds=1)


def excludes(statistics: ColumnStatistics, footer: ColumnRange, data_type: pa.DataType) -> bool:
    """Return whether statistics exclude a value, or a null, that is in their file."""
    if footer.nulls and not statistics.has_nulls:
        return True
    stated = _stated_range(statistics, data_type)
    if stated is None or footer.low is None:
        return False  # Nothing is left out by what is not understood.
    if stated.low is None:
        return True
    return bool(stated.low > footer.low or stated.high < footer.high)  # type: ignore[operator]


def _of_slice(
    file_slice: files.FileSlice, known: ByFile, data_type: pa.DataType
) -> ColumnRange | None:
    """Return the range of a column in a slice; None where it is not known."""
    found = ColumnRange()
    for name in _names(file_slice):
        statistics = known.get(name)
        stated = None if statistics is None else _stated_range(statistics, data_type)
        if stated is None:
            return None
        found = found.joined(stated)
    return found


def _stated_range(statistics: ColumnStatistics, data_type: pa.DataType) -> ColumnRange | None:
    """Return the range that statistics state; None where it is not understood."""
    if statistics.kind is None:
        return ColumnRange(nulls=statistics.nulls)
    try:
        low = _converted(statistics.low, statistics, data_type)
        high = _converted(statistics.high, statistics, data_type)
    except (errors.UnsupportedError, OverflowError):
        return None  # An overflow is of a date that there is not.
    return ColumnRange(low, high, statistics.nulls)


def _names(file_slice: files.FileSlice) -> Iterable[str]:
    if file_slice.base_file is not None:
        yield file_slice.base_file.name
    for log_file in file_slice.log_files:
        yield log_file.name


def _converted(bound: object, statistics: ColumnStatistics, data_type: pa.DataType) -> object:
    """Return a bound as a value of the column's type.

    Raises:
        UnsupportedError: It was written in a way that is not understood.
        OverflowError: It is a day beyond all dates.
    """
    if pa.types.is_date32(data_type) and type(bound) is int:
        return _EPOCH + datetime.timedelta(days=bound)
    is_fit = (
        (pa.types.is_signed_integer(data_type) and statistics.kind in _WHOLE)
        or (pa.types.is_floating(data_type) and type(bound) is float)
        or (pa.types.is_string(data_type) and type(bound) is str)
        or (pa.types.is_decimal(data_type) and type(bound) is decimal.Decimal)
        or (pa.types.is_date32(data_type) and type(bound) is datetime.date)
        or (
            pa.types.is_timestamp(data_type)
            and type(bound) is int
            and statistics.value_type in _MICROS
        )
    )
    if not is_fit:
        raise errors.UnsupportedError(f"a bound {bound!r} of a column of type {data_type}")
    return bound


def _arrays(
    name: str, found: Sequence[ColumnRange | None], data_type: pa.DataType
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
