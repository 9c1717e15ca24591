"""Whether the statistics of a metadata table exclude what is in data files.

A reader leaves a file, or a partition, out where its statistics exclude what is asked for. So a
record must not exclude a value, or a null, that is there; one that includes more does no harm. A
file may lack records. A partition that lacks one of a column, and has others, has no value of it to
Apache Hudi's readers.

Some of what Apache Hudi records is wrong by its own rules (format.md: Metadata table). Its readers
leave rows out by it; reads of this project do not rely on it, which is said of each record.

Expression indexes have the same of what a function makes of a column, in partitions of their own.

Cost: the footer of each base file, columns that footers do not describe in full, each log file.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    column_ranges,
    listing,
    metadata_merging,
    metadata_table,
    statistics_reading,
)
from hoodie.format import metadata_avro, metadata_columns
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import expression_indexes, files, partition_statistics, predicates
from hoodie.model.file_statistics import COLUMN_STATS, PARTITION_STATS, ColumnStatistics

_FILES_AT_ONCE = 256

_Stated: TypeAlias = Mapping[tuple[str, str], ColumnStatistics]
"""Records by the file or partition, and the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongStatistics:
    """A data file, or a partition, of which the metadata table excludes a value that it has.

    Attributes:
        path: The file's, or the partition's.
        column: The column, or the call of a function that an index is of; empty where the file
            cannot be read.
        metadata_range: What the metadata table says.
        file_range: What is in the file, or in those of the partition, or why it cannot be read.
        is_relied_on: Whether reads of this project leave the file or the partition out by it.
    """

    path: str
    column: str
    metadata_range: str
    file_range: str
    is_relied_on: bool = True


class Comparison:
    """Compares statistics with data files, a partition of the data table at a time.

    Attributes:
        files: So many data files were looked into.
    """

    def __init__(
        self,
        table: metadata_table.MetadataTable,
        partitions: Sequence[str],
        source: statistics_reading.Source,
        engine: Engine,
        *,
        is_shared: bool,
    ) -> None:
        """Open the partitions with statistics.

        Args:
            table: The metadata table.
            partitions: Those that it has.
            source: Of the data table.
            engine: Looks into data files.
            is_shared: Whether Apache Hudi may have written files of the table.

        Raises:
            FormatError: One is damaged.
        """
        self.files = 0
        # Data files have statistics of an expression index that is being built as well.
        self._expressions = {
            each: kind
            for each, kind in source.wanted.expressions.items()
            if each.partition in partitions
        }
        self._source = replace(source, wanted=replace(source.wanted, expressions=self._expressions))
        self._engine = engine
        self._is_shared = is_shared
        named = (COLUMN_STATS, PARTITION_STATS, *(each.partition for each in self._expressions))
        self._opened = {
            name: table.partition(name, is_held=False) for name in named if name in partitions
        }

    def compare(
        self,
        partition_path: str,
        data_files: Sequence[listing.DataFile],
        latest: Sequence[files.FileSlice],
    ) -> Iterator[WrongStatistics]:
        """Yield what is wrong of a partition of the data table.

        Args:
            partition_path: Its path.
            data_files: Those that count.
            latest: What a snapshot read takes of them.

        Raises:
            FormatError: Records of the metadata table are broken.
        """
        if not self._opened:
            return
        of_files: dict[expression_indexes.Definition | None, _Stated] = {
            None: self._stated(COLUMN_STATS, partition_path)
        }
        for definition in self._expressions:
            prefix = metadata_avro.statistics_prefix(definition.column, partition_path)
            of_files[definition] = self._with_prefixes(definition.partition, [prefix])
        taken = {each.path for file_slice in latest for each in file_slice.data_files}
        found: list[ColumnStatistics] = []
        is_whole = True
        remaining = iter(data_files)
        while some := list(itertools.islice(remaining, _FILES_AT_ONCE)):
            looked = self._engine.map(functools.partial(_of_file, self._source), some)
            for data_file, statistics in zip(some, looked, strict=True):
                self.files += 1
                if isinstance(statistics, str):
                    yield WrongStatistics(
                        path=data_file.path, column="", metadata_range="", file_range=statistics
                    )
                    is_whole = is_whole and data_file.path not in taken
                    continue
                yield from self._wrong_file(data_file, statistics, of_files)
                if data_file.path in taken:
                    # Merged at once, to hold few.
                    of_both = [*found, *statistics]
                    found = [*partition_statistics.of_all_files(partition_path, of_both)]
        if is_whole:
            of_columns = [each for each in found if each.expression is None]
            of_partition = self._stated(PARTITION_STATS, partition_path)
            yield from self._wrong_partition(partition_path, of_columns, of_partition)
            yield from self._wrong_expressions(partition_path, found)

    def _wrong_file(
        self,
        data_file: listing.DataFile,
        statistics: Sequence[ColumnStatistics],
        of_files: Mapping[expression_indexes.Definition | None, _Stated],
    ) -> Iterator[WrongStatistics]:
        for there in statistics:
            stated = of_files[there.expression].get((data_file.name, there.column))
            if stated is not None and partition_statistics.excludes(stated, there):
                may_hide = self._is_shared and isinstance(data_file, files.BaseFile)
                yield self._wrong(data_file.path, stated, there, may_hide=may_hide)

    def _wrong_expressions(
        self, partition_path: str, found: Sequence[ColumnStatistics]
    ) -> Iterator[WrongStatistics]:
        for definition in self._expressions:
            key = metadata_avro.expression_key(definition.column, partition_path)
            own = [each for each in found if each.expression == definition]
            of_partition = self._with_prefixes(definition.partition, [key])
            if of_partition or self._has_partitions(definition):
                yield from self._wrong_partition(partition_path, own, of_partition)

    def _has_partitions(self, definition: expression_indexes.Definition) -> bool:
        """Return whether an expression index has any partition: others have no rows then."""
        mark = metadata_avro.statistics_prefix(definition.column, expression_indexes.PARTITION_MARK)
        return bool(self._with_prefixes(definition.partition, [mark]))

    def _wrong_partition(
        self,
        partition_path: str,
        found: Sequence[ColumnStatistics],
        of_partition: _Stated,
    ) -> Iterator[WrongStatistics]:
        if not of_partition and not any(each.expression for each in found):
            return
        for there in found:
            stated = of_partition.get((partition_path, there.column))
            if stated is None:
                yield WrongStatistics(
                    path=partition_path or ".",
                    column=_name(there),
                    metadata_range="missing",
                    file_range=_text(there),
                    # A column without values has none where another partition brought it in, nor
                    # where Apache Hudi wrote.
                    is_relied_on=there.kind is not None,
                )
            elif partition_statistics.excludes(stated, there):
                # Whether a partition has nulls is not taken from its record.
                alike = replace(there, nulls=0)
                wrong = self._wrong(partition_path, stated, alike, may_hide=self._is_shared)
                yield replace(wrong, path=partition_path or ".", file_range=_text(there))

    def _wrong(
        self, path: str, stated: ColumnStatistics, there: ColumnStatistics, *, may_hide: bool
    ) -> WrongStatistics:
        data_type = self._source.columns.field(there.column).type
        if there.expression is not None:
            data_type = there.expression.function.result_of(data_type)
        return WrongStatistics(
            path=path,
            column=_name(there),
            metadata_range=_text(stated),
            file_range=_text(there),
            is_relied_on=_misleads(stated, there, data_type, may_hide=may_hide),
        )

    def _stated(self, name: str, partition_path: str) -> _Stated:
        """Return the records of a partition of the data table, by file or partition and column."""
        prefixes = [
            metadata_avro.statistics_prefix(column, partition_path)
            for column in self._source.wanted.kinds
        ]
        return self._with_prefixes(name, prefixes) if name in self._opened else {}

    def _with_prefixes(self, name: str, prefixes: Sequence[str]) -> _Stated:
        records = (
            _newest(name, key, values)
            for key, values in self._opened[name].with_prefixes(prefixes).items()
        )
        return {(each.file_name, each.column): each for each in records if each is not None}


def _name(statistics: ColumnStatistics) -> str:
    """Return what statistics are of."""
    return statistics.column if statistics.expression is None else str(statistics.expression)


def _of_file(
    source: statistics_reading.Source, data_file: listing.DataFile
) -> tuple[ColumnStatistics, ...] | str:
    """Return the statistics of a data file, or why it is broken; none of one that is gone.

    Nor of one that is not supported.
    """
    try:
        return statistics_reading.of_file(source, data_file)
    except (errors.NotFoundError, errors.UnsupportedError):
        return ()
    except errors.FormatError as error:
        return str(error)


def _newest(name: str, key: bytes, values: Sequence[Value]) -> ColumnStatistics | None:
    """Return what readers take from the records of a key; None of a file that is gone."""
    is_of_partition = expression_indexes.is_one(name) and metadata_avro.is_of_partition(key)
    if name == PARTITION_STATS or is_of_partition:
        return metadata_merging.statistics_of_partition(key, values)
    source = f"{name}, key {key!r}"
    return metadata_avro.decode_statistics(values[-1], source, RecordType.COLUMN_STATS)


def _misleads(
    stated: ColumnStatistics, there: ColumnStatistics, data_type: pa.DataType, *, may_hide: bool
) -> bool:
    """Return whether a read leaves values, or nulls, out by statistics that exclude them."""
    records = metadata_columns.of_records([stated, there])
    found = column_ranges.stated(records, data_type, np.array([may_hide, False]))
    if not found.is_known[0]:
        return False
    if there.nulls and not found.has_nulls[0]:
        return True
    if there.kind is None:
        return False
    (low, other_low), (high, other_high) = (
        map(predicates.compared, each.to_pylist()) for each in (found.low, found.high)
    )
    if None in (low, high, other_low, other_high):
        return True
    return bool(low > other_low or high < other_high)


def _text(statistics: ColumnStatistics) -> str:
    low, high = (f"{each!r:.80}" for each in (statistics.low, statistics.high))
    return f"{low} to {high}, {statistics.nulls} nulls"
