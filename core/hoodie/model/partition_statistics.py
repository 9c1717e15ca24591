"""Statistics of partitions of the data table: what a commit adds to them, and how they are merged.

A commit does not look at the files that it did not write. So its records are not tight: each widens
the one before, for a reader and when the metadata table is compacted. A tight one replaces it.

    bounds   of all files that there ever were since the last tight record
    nulls    one more than there are, in one more row: an older file may lack the column, which is
             null in its rows then

A partition without a record of a column has no rows with a value to Apache Hudi's readers, once it
has one of another column. So records have all columns, and a file without rows needs none.

Apache Hudi's readers cannot merge records of two types, as there are of a column that was widened.
There a commit adds a tight record that has the older one in it (`continued`), of the wider type.

Source: `HoodieTableMetadataUtil.java` (mergeColumnStatsRecords), `FileFormatUtils.java`
(getColumnRangeInPartition), `PartitionStatsIndexSupport.scala` (1.2.0).
"""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from hoodie import errors
from hoodie.model import bounds, file_statistics
from hoodie.model.file_statistics import Bound, ColumnStatistics, ValueType
from hoodie.model.value_wrappers import Wrapper

_NUMBERS = (Wrapper.INT, Wrapper.LONG, Wrapper.FLOAT, Wrapper.DOUBLE)
"""Kinds of numbers, each wider than those before it."""

_NUMBER_TYPES = (None, ValueType.INT, ValueType.LONG, ValueType.FLOAT, ValueType.DOUBLE)
"""Types of numbers, as `_NUMBERS`."""


def of_files(
    partition_path: str, files: Iterable[ColumnStatistics]
) -> tuple[ColumnStatistics, ...]:
    """Return the records that a commit adds for a partition, one for each column.

    Args:
        partition_path: The partition's.
        files: The statistics of all files that the commit wrote there.
    """
    found: dict[object, ColumnStatistics] = {}
    for each in files:
        if not each.values:
            continue  # Apache Hudi cannot merge the type of a file without rows.
        key = each.expression, each.column
        before = found.get(key)
        found[key] = _with_one_more_row(each) if before is None else merged(before, each)
    return tuple(replace(each, file_name=partition_path) for each in found.values())


def of_all_files(
    partition_path: str, files: Iterable[ColumnStatistics]
) -> tuple[ColumnStatistics, ...]:
    """Return the tight records of a partition, one for each column, from those of all its files.

    Args:
        partition_path: The partition's.
        files: The statistics of its files, or of some files together, as of `of_some_files`.
    """
    return tuple(
        replace(each, file_name=partition_path, is_tight=True) for each in of_some_files(files)
    )


def of_some_files(files: Iterable[ColumnStatistics]) -> tuple[ColumnStatistics, ...]:
    """Return what the statistics of some files come to, one for each column, for `of_all_files`."""
    found: dict[object, ColumnStatistics] = {}
    for each in files:
        if each.values:
            key = each.expression, each.column
            before = found.get(key)
            found[key] = each if before is None else merged(before, each)
    return tuple(found.values())


def _with_one_more_row(statistics: ColumnStatistics) -> ColumnStatistics:
    return replace(
        statistics, values=(statistics.values or 0) + 1, nulls=(statistics.nulls or 0) + 1
    )


def may_be_of_another_type(
    added: ColumnStatistics, published: pa.Schema | None, created: pa.Schema | None
) -> bool:
    """Return whether a partition may have an older record of a column that is of another type.

    It has none if the column has the type that it was created with: types are only widened. What
    was created with the table is in its properties, but for tables of some engines.

    Args:
        added: What a commit adds.
        published: The table's columns as of that commit; None where it tells nothing of others
            that completed meanwhile.
        created: Those that the table was created with; None where it is not known.
    """
    if added.column in file_statistics.META_COLUMNS:
        return False
    if created is None or added.column not in created.names:
        return True
    data_type = created.field(added.column).type
    if published is None:
        if added.kind in _NUMBERS or added.value_type in _NUMBER_TYPES:
            return True
    elif added.column not in published.names or published.field(added.column).type != data_type:
        return True
    kind = file_statistics.kind_of(data_type, has_value_types=added.value_type is not None)
    return kind is None or _differ(added, (kind.wrapper, kind.value_type, kind.type_info))


def continued(older: ColumnStatistics, newer: ColumnStatistics) -> ColumnStatistics:
    """Return the record that a commit adds to an older one; tight if that is of another type.

    Raises:
        UnsupportedError: As `merged`.
    """
    if not _differ(newer, (older.kind, older.value_type, older.type_info)):
        return newer
    return replace(merged(older, newer), is_tight=True)


def _differ(added: ColumnStatistics, other: tuple[Wrapper | None, int | None, str | None]) -> bool:
    wrapper, *column_type = other
    has_bounds = added.kind is not None and wrapper is not None
    is_of_column_type = [added.value_type, added.type_info] == column_type
    return not is_of_column_type or (has_bounds and added.kind is not wrapper)


def merged(older: ColumnStatistics, newer: ColumnStatistics) -> ColumnStatistics:
    """Return the record that two records of one key come to, of the wider type.

    Raises:
        UnsupportedError: They have bounds of types that have no order together.
    """
    if newer.is_tight:
        return newer
    wider = max((newer, older), key=_width)
    with_bounds = [_promoted(each, wider) for each in (older, newer) if each.kind is not None]
    found = replace(
        max(reversed(with_bounds or (older, newer)), key=_width),
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


def _width(statistics: ColumnStatistics) -> tuple[int, int]:
    kind, value_type = statistics.kind, statistics.value_type
    return (
        _NUMBERS.index(kind) if kind in _NUMBERS else -1,
        _NUMBER_TYPES.index(value_type) if value_type in _NUMBER_TYPES else -1,
    )


def excludes(stated: ColumnStatistics, there: ColumnStatistics) -> bool:
    """Return whether statistics exclude a value, or a null, that is there.

    Long bounds are compared as far as both are known when they are cut.

    Args:
        stated: The statistics.
        there: What is there.
    """
    if there.nulls and stated.nulls == 0:
        return True
    if there.kind is None:
        return False
    if stated.kind is None:
        return True
    if _family(stated) != _family(there):
        return False  # Nothing is left out by what is not understood.
    stated = _promoted(stated, there)
    low, other_low = (
        bounds.order(bounds.cut_low(each.low), each.value_type) for each in (stated, there)
    )
    high, other_high = (
        bounds.order(bounds.cut_high(each.high), each.value_type) for each in (stated, there)
    )
    return low > other_low or high < other_high


def excludes_rows(stated: ColumnStatistics, added: ColumnStatistics) -> bool:
    """Return whether statistics exclude a value, or a null, of the files of a commit.

    Args:
        stated: The statistics.
        added: What the commit adds, as of `of_files`: with a null that is in none of them.
    """
    if added.is_tight:
        return excludes(stated, added)
    return excludes(stated, replace(added, nulls=(added.nulls or 1) - 1))


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
    elif newer.kind in (Wrapper.FLOAT, Wrapper.DOUBLE) and statistics.kind is not newer.kind:
        low, high = (float(each) if isinstance(each, int) else each for each in (low, high))
    else:
        return statistics
    return replace(statistics, low=low, high=high)


def _alike(bound: Bound | None) -> float:
    found: float = pa.scalar(bound, pa.float32()).cast(pa.string()).cast(pa.float64()).as_py()
    return found


def _sum(older: int | None, newer: int | None) -> int | None:
    return None if older is None or newer is None else older + newer
