"""Statistics of partitions of the data table: what a commit adds to them, and how they are merged.

A commit does not look at the files that it did not write. So its records are not tight: each widens
the one before, for a reader and when the metadata table is compacted. A tight one replaces it.

    bounds   of all files that there ever were since the last tight record
    nulls    one more than there are, in one more row: an older file may lack the column, which is
             null in its rows then

A partition without a record of a column has no rows with a value to Apache Hudi's readers, once it
has one of another column. So records have all columns, and a file without rows needs none.

Source: `HoodieTableMetadataUtil.java` (mergeColumnStatsRecords), `FileFormatUtils.java`
(getColumnRangeInPartition), `PartitionStatsIndexSupport.scala` (1.2.0).
"""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from hoodie import errors
from hoodie.model import bounds
from hoodie.model.file_statistics import Bound, ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

_NUMBERS = (Wrapper.INT, Wrapper.LONG, Wrapper.FLOAT, Wrapper.DOUBLE)
_NUMBER_TYPES = (None, ValueType.INT, ValueType.LONG, ValueType.FLOAT, ValueType.DOUBLE)


def of_files(
    partition_path: str, files: Iterable[ColumnStatistics]
) -> tuple[ColumnStatistics, ...]:
    """Return the records that a commit adds for a partition, one for each column.

    Args:
        partition_path: The partition's.
        files: The statistics of all files that the commit wrote there.
    """
    found: dict[str, ColumnStatistics] = {}
    for each in files:
        if not each.values:
            continue  # Apache Hudi cannot merge the type of a file without rows.
        before = found.get(each.column)
        found[each.column] = _with_one_more_row(each) if before is None else merged(before, each)
    return tuple(replace(each, file_name=partition_path) for each in found.values())


def _with_one_more_row(statistics: ColumnStatistics) -> ColumnStatistics:
    return replace(
        statistics, values=(statistics.values or 0) + 1, nulls=(statistics.nulls or 0) + 1
    )


def merged(older: ColumnStatistics, newer: ColumnStatistics) -> ColumnStatistics:
    """Return the record that two records of one key come to.

    Raises:
        UnsupportedError: They have bounds of types that have no order together.
    """
    if newer.is_tight:
        return newer
    with_bounds = [_promoted(each, newer) for each in (older, newer) if each.kind is not None]
    found = replace(
        with_bounds[-1] if with_bounds else newer,
        file_name=newer.file_name,
        values=_sum(older.values, newer.values),
        nulls=_sum(older.nulls, newer.nulls),
        size_bytes=_sum(older.size_bytes, newer.size_bytes),
        plain_bytes=_sum(older.plain_bytes, newer.plain_bytes),
        is_tight=False,
    )
    if len(with_bounds) < len((older, newer)):
        return found
    if _family(older) != _family(newer):
        raise errors.UnsupportedError(
            f"statistics of column {newer.column!r} of {newer.file_name!r} are of "
            f"{_family(older)} and {_family(newer)}, expected one type: rebuild the metadata "
            "table by `hoodie metadata init --rebuild`"
        )
    low = min(with_bounds, key=lambda each: bounds.order(each.low, each.value_type)).low
    high = max(with_bounds, key=lambda each: bounds.order(each.high, each.value_type)).high
    return replace(found, low=low, high=high)


def _family(statistics: ColumnStatistics) -> tuple[object, ...]:
    """Return what is equal of bounds that have an order together."""
    kind, value_type = statistics.kind, statistics.value_type
    if kind in _NUMBERS and value_type in _NUMBER_TYPES:
        return ("numbers",)
    scale = (statistics.type_info or "").partition(",")[2]
    return kind, value_type, scale


def _promoted(statistics: ColumnStatistics, newer: ColumnStatistics) -> ColumnStatistics:
    """Return statistics with bounds of the newer ones' type: a column may have become wider.

    They are what values are read as: of a float the double that reads alike (3.1 stays 3.1).
    """
    low, high = statistics.low, statistics.high
    if statistics.kind is Wrapper.FLOAT and newer.kind is Wrapper.DOUBLE:
        low, high = _alike(low), _alike(high)
    elif newer.kind in (Wrapper.FLOAT, Wrapper.DOUBLE):
        low, high = (float(each) if isinstance(each, int) else each for each in (low, high))
    return replace(statistics, low=low, high=high)


def _alike(bound: Bound | None) -> float:
    found: float = pa.scalar(bound, pa.float32()).cast(pa.string()).cast(pa.float64()).as_py()
    return found


def _sum(older: int | None, newer: int | None) -> int | None:
    return None if older is None or newer is None else older + newer
