"""Gathering the statistics of a data file while it is written; nothing is read again.

    log file   from its rows, one pass a column; deletes have no values
    base file  sizes and bounds from its footer; from its rows what a footer does not say: NaNs, and
               the bounds of long values

Apache Hudi takes what a footer lacks for nulls, or 0, and its readers then leave the file out where
a row matches. Ours are right there: NaN is the greatest number, as in Spark, and a long bound is
cut to one outside it. Rows of a log that say of themselves that they are deleted count.

Source: `HoodieTableMetadataUtil.java` (collectColumnRangeMetadata), `ParquetUtils.java`
(readColumnStatsFromMetadata), `HoodieAppendHandle.java` (1.2.0); format.md: Metadata table.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.model import bounds, expression_indexes, file_statistics
from hoodie.model.file_statistics import ColumnStatistics, Kind, ValueType

_FOOTER_BOUND_BYTES_MAX = 4096
"""Of longer values Arrow writes no bounds into footers."""

_Values: TypeAlias = list[Any]
"""Values of one type that are ordered: of a time or a date the number that stands for it."""


@dataclass(slots=True)
class _Column:
    """What was found of a column.

    Attributes:
        bounds: Not above and not below any value: the least and the greatest are among them.
        ends: Of parts the bounds that are stated of them, of which the first may be above the
            second.
        values: Rows.
        nulls: Rows without a value.
        size_bytes: In the file.
        plain_bytes: The same before compression.
    """

    bounds: _Values = dataclasses.field(default_factory=list)
    ends: list[tuple[Any, Any]] = dataclasses.field(default_factory=list)
    values: int = 0
    nulls: int = 0
    size_bytes: int = 0
    plain_bytes: int = 0

    def add_rows(self, column: pa.ChunkedArray, *, has_bounds: bool) -> None:
        if has_bounds:
            self.bounds += _bounds_of_rows(column)
        self.values += len(column)
        self.nulls += column.null_count

    def add_chunk(self, chunk: pq.ColumnChunkMetaData, *, has_bounds: bool) -> None:
        if has_bounds:
            self.bounds += _bounds_of_chunk(chunk)
        self.size_bytes += chunk.total_compressed_size
        self.plain_bytes += chunk.total_uncompressed_size


class _Expressions:
    """What functions of columns make, as `_Column` has it of columns."""

    def __init__(
        self, kinds: Mapping[expression_indexes.Definition, Kind], *, is_certain: bool
    ) -> None:
        self._kinds = kinds
        self._is_certain = is_certain
        self._found = {definition: _Column() for definition in kinds}

    def add(self, rows: pa.Table) -> None:
        """Add rows; a column that they lack is null in them, as it is to Apache Hudi."""
        for definition, found in self._found.items():
            found.values += rows.num_rows
            if definition.column not in rows.column_names:
                found.nulls += rows.num_rows
                continue
            column = rows.column(definition.column)
            found.nulls += column.null_count
            made = definition.function.bounds(column, is_certain=self._is_certain)
            found.ends += [] if made is None else [made]

    def finish(self, file_name: str) -> tuple[ColumnStatistics, ...]:
        """Return the statistics of a file; without rows, none."""
        # Apache Hudi cannot merge the type of a file without rows.
        return tuple(
            dataclasses.replace(
                _statistics(file_name, definition.column, found, self._kinds[definition]),
                expression=definition,
            )
            for definition, found in self._found.items()
            if found.values
        )


class RowStatistics:
    """The statistics of a log file, from the rows in it."""

    def __init__(self, wanted: file_statistics.Wanted, *, is_certain: bool = False) -> None:
        """Begin without rows."""
        self._kinds = wanted.kinds
        self._columns = {name: _Column() for name in wanted.kinds}
        self._expressions = _Expressions(wanted.expressions, is_certain=is_certain)

    def add(self, rows: pa.Table) -> None:
        """Add rows; a column that is wanted, and that they lack, has no values by them."""
        self._expressions.add(rows)
        for name, found in self._columns.items():
            if name in rows.column_names:
                found.add_rows(rows.column(name), has_bounds=True)

    def finish(self, file_name: str) -> tuple[ColumnStatistics, ...]:
        """Return the statistics of a file with these rows; of a file without any, null types."""
        of_columns = (
            _statistics(file_name, name, found, self._kinds[name])
            for name, found in self._columns.items()
        )
        return (*of_columns, *self._expressions.finish(file_name))


class FooterStatistics:
    """The statistics of a base file, from its footer and the rows in it."""

    def __init__(self, wanted: file_statistics.Wanted, *, is_certain: bool = False) -> None:
        """Begin before the first row is written."""
        self._kinds = wanted.kinds
        self._columns = {name: _Column() for name in wanted.kinds}
        self._read: set[str] = set()
        self._expressions = _Expressions(wanted.expressions, is_certain=is_certain)

    def add_read(self, rows: pa.Table) -> None:
        """Add rows of some columns of a file that is there, which its footer does not describe."""
        for name in rows.column_names:
            self._read.add(name)
            self._columns[name].add_rows(rows.column(name), has_bounds=True)

    def add_for_expressions(self, rows: pa.Table) -> None:
        """Add rows of columns of expression indexes, of a file that is there, to these alone."""
        self._expressions.add(rows)

    def add_told(self, name: str, values: int, nulls: int) -> None:
        """Add the counts of a column of a file that is there, whose bounds are in its footer.

        Args:
            name: The column's name.
            values: Rows.
            nulls: Rows without a value.
        """
        self._columns[name].values += values
        self._columns[name].nulls += nulls

    def add(self, rows: pa.Table) -> None:
        """Add rows that become row groups together."""
        self._expressions.add(rows)
        for name, found in self._columns.items():
            column = rows.column(name)
            found.add_rows(column, has_bounds=_is_beyond_footers(column))

    def finish(self, file_name: str, footer: pq.FileMetaData) -> tuple[ColumnStatistics, ...]:
        """Return the statistics of the file; of a file without rows, none.

        Args:
            file_name: Its name.
            footer: As it was written, with statistics of each column that is wanted, and that was
                not read.
        """
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                name = chunk.path_in_schema
                if name in self._columns:
                    self._columns[name].add_chunk(chunk, has_bounds=name not in self._read)
        of_columns = (
            _statistics(file_name, name, found, self._kinds[name])
            for name, found in self._columns.items()
            if found.values
        )
        return (*of_columns, *self._expressions.finish(file_name))


def _is_beyond_footers(column: pa.ChunkedArray) -> bool:
    """Return whether a footer does not say all of a column."""
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        longest = pc.max(pc.binary_length(column)).as_py()
        return longest is not None and longest > _FOOTER_BOUND_BYTES_MAX
    return False


def _bounds_of_rows(column: pa.ChunkedArray) -> _Values:
    if pa.types.is_dictionary(column.type):
        column = pc.unique(column).cast(column.type.value_type)
    found = pc.min_max(column)
    ends = [_plain(found[end]) for end in ("min", "max") if found[end].is_valid]
    # Arrow leaves NaNs out.
    if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
        ends.append(math.nan)
    return ends


def _plain(value: pa.Scalar) -> object:
    is_counted = pa.types.is_temporal(value.type)
    return value.value if is_counted else value.as_py()


def _bounds_of_chunk(chunk: pq.ColumnChunkMetaData) -> _Values:
    found = chunk.statistics
    if not found.has_min_max:
        return []
    is_counted = chunk.physical_type in ("INT32", "INT64")
    is_decimal = found.logical_type.type == "DECIMAL"
    if is_counted and not is_decimal:
        return [found.min_raw, found.max_raw]
    return [found.min, found.max]


def _statistics(file_name: str, name: str, found: _Column, kind: Kind) -> ColumnStatistics:
    """Return what was found as a record has it."""
    value_type, type_info = kind.value_type, kind.type_info
    if not found.values and value_type is not None:
        value_type, type_info = ValueType.NULL, None
    low, high = None, None
    lows = [*found.bounds, *(each for each, _ in found.ends)]
    highs = [*found.bounds, *(each for _, each in found.ends)]
    assert lows or found.values == found.nulls, f"{file_name}, {name}"
    if lows:
        low = bounds.written(bounds.cut_low(min(lows, key=bounds.order)), kind)
        high = bounds.written(bounds.cut_high(max(highs, key=bounds.order)), kind)
    return ColumnStatistics(
        file_name=file_name,
        column=name,
        low=low,
        high=high,
        kind=kind.wrapper if lows else None,
        value_type=value_type,
        type_info=type_info,
        values=found.values,
        nulls=found.nulls,
        size_bytes=found.size_bytes,
        plain_bytes=found.plain_bytes,
    )
