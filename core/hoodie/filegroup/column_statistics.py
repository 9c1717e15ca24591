"""Records of the metadata table about the values of columns, and what footers say of them.

Requests: the blocks of `column_stats` or `partition_stats` that the records of the columns are in.
What a filter leaves out by them: `data_skipping`.

Source: `HoodieMetadataPayload.java`, `ValueType.java` (1.2.0); format.md: Metadata table.
"""

import datetime
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie import errors
from hoodie.filegroup import column_ranges, metadata_table
from hoodie.format import metadata_avro, metadata_columns
from hoodie.format.metadata_avro import RecordType
from hoodie.model.file_statistics import (
    COLUMN_STATS,
    PARTITION_STATS,
    ColumnStatistics,
    ValueType,
)

_MICROS = frozenset((None, ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS))
"""Types of times in microseconds, with and without zone; version 8 has no other ones."""

ByFile: TypeAlias = Mapping[str, ColumnStatistics]
"""Statistics of a column by the names of files."""

_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

SCHEMA = metadata_columns.SCHEMA.insert(0, pa.field("key", pa.binary()))
"""Records with their keys."""


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


def understood_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a table whose bounds are understood."""
    return [each.name for each in schema if column_ranges.is_understood(each.type)]


def read(
    partition: metadata_table.Partition,
    columns: Sequence[str],
    paths: Sequence[str | None],
) -> Mapping[str, ByFile]:
    """Return what the partition `column_stats` says, by column and file name; as `read_all`."""
    found: dict[str, dict[str, ColumnStatistics]] = {name: {} for name in columns}
    for each in metadata_columns.statistics_of(read_all(partition, columns, paths)):
        if each.column in found:
            found[each.column][each.file_name] = each
    return found


def read_all(
    partition: metadata_table.Partition,
    columns: Sequence[str],
    paths: Sequence[str | None],
) -> pa.Table:
    """Return the records of the partition `column_stats` that can be relied on, a row for each key.

    Others are those of deleted files, and of keys with two records that differ.

    Args:
        partition: The partition.
        columns: Of the data table.
        paths: Partitions of the data table; None among them for all.

    Returns:
        A table of SCHEMA.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    prefixes = [metadata_avro.statistics_prefix(name, path) for name in columns for path in paths]
    found = _records(partition, prefixes, RecordType.COLUMN_STATS)
    keys = found.column("key").combine_chunks().dictionary_encode()
    if len(keys.dictionary) == len(keys):
        return found
    codes = keys.indices.to_numpy()
    _, firsts = np.unique(codes, return_index=True)
    of_first = firsts[codes]
    differs = np.zeros(len(codes), np.bool_)
    for column in found.drop_columns("key").itercolumns():
        array = column.combine_chunks()
        first = array.take(pa.array(of_first))
        is_same = pc.or_(
            pc.fill_null(pc.equal(array, first), False),
            pc.and_(array.is_null(), first.is_null()),
        )
        differs |= ~_flags(is_same)
    is_differing = np.bincount(codes[differs], minlength=len(firsts)) > 0
    return found.take(pa.array(firsts[~is_differing]))


def of_partitions(partition: metadata_table.Partition, columns: Sequence[str]) -> pa.Table:
    """Return all records of the partition `partition_stats`; several of a key were not merged.

    Arguments, result and errors are those of `read_all`.
    """
    prefixes = [metadata_avro.statistics_prefix(name) for name in columns]
    return _records(partition, prefixes, RecordType.PARTITION_STATS)


def _records(
    partition: metadata_table.Partition, prefixes: Sequence[str], record_type: RecordType
) -> pa.Table:
    """Return the records of some prefixes that are not deleted, in the order of merging."""
    pieces = [SCHEMA.empty_table()]
    name = PARTITION_STATS if record_type is RecordType.PARTITION_STATS else COLUMN_STATS
    for batch, schema in partition.batches_with_prefixes(prefixes):
        try:
            decoded = metadata_columns.decode(batch.column("value"), schema, record_type)
        except errors.FormatError as error:
            raise errors.FormatError(f"{name}: {error}") from error
        pieces.append(pa.table([batch.column("key"), *decoded.columns], SCHEMA))
    return _without_deleted(pa.concat_tables(pieces).combine_chunks())


def _without_deleted(records: pa.Table) -> pa.Table:
    """Return the records behind the last one of their key that says that it is deleted."""
    is_deleted = _flags(records.column("isDeleted").combine_chunks())
    if not is_deleted.any():
        return records
    codes = records.column("key").combine_chunks().dictionary_encode().indices.to_numpy()
    last = np.full(codes.max() + 1, -1)
    np.maximum.at(last, codes[is_deleted], np.flatnonzero(is_deleted))
    return records.filter(pa.array(np.arange(len(codes)) > last[codes]))


def _flags(flags: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False)
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


def _converted(bound: object, statistics: ColumnStatistics, data_type: pa.DataType) -> object:
    """Return a bound as a value of the column's type.

    Raises:
        UnsupportedError: It was written in a way that is not understood.
        OverflowError: It is a day beyond all dates.
    """
    if pa.types.is_date32(data_type) and type(bound) is int:
        return _EPOCH + datetime.timedelta(days=bound)
    is_fit = (
        (pa.types.is_signed_integer(data_type) and type(bound) is int)
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
