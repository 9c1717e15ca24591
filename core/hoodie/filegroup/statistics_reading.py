"""Statistics of data files that are there already, as `statistics_gathering` has them.

    base file  its footer; a column is read if that does not describe it in full: of fractions,
               which may be NaN, of long values, without statistics, or of another type than the
               table's
    log file   its rows

A column that a file is older than is null in its rows.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.filegroup import (
    block_decoding,
    changes,
    log_scanning,
    parquet_reading,
    reading,
    slicing,
    statistics_gathering,
)
from hoodie.format.log_blocks import BlockType
from hoodie.model import file_statistics, files, schemas
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class Source:
    """What all data files of a table have in common.

    Attributes:
        storage: The table's.
        schema: Its columns, without meta columns.
        wanted: Which statistics.
        is_committed: Whether log blocks of an instant count.
        fills_partial_rows: Whether what partial rows leave as it is counts as null, as it does to
            Apache Hudi's readers without a record of it; otherwise it does not count.
        is_certain: Whether bounds of expressions are those that all right ones include, by which
            others are judged.
    """

    storage: Storage
    schema: pa.Schema
    wanted: file_statistics.Wanted
    is_committed: slicing.IsCommitted
    fills_partial_rows: bool = True
    is_certain: bool = False

    @property
    def columns(self) -> pa.Schema:
        """Meta columns, those with statistics and of expression indexes, in the table's types."""
        every = pa.schema([*schemas.meta_fields(), *self.schema])
        of_expressions = (each.column for each in self.wanted.expressions)
        # Rows of log files are told apart by their meta columns.
        names = dict.fromkeys((*file_statistics.META_COLUMNS, *self.wanted.kinds, *of_expressions))
        return pa.schema([every.field(name) for name in names])

    @property
    def of_expressions(self) -> pa.Schema:
        """The columns of expression indexes, in the table's types."""
        names = {each.column for each in self.wanted.expressions}
        return pa.schema([each for each in self.schema if each.name in names])


def of_file(
    source: Source, data_file: files.BaseFile | files.LogFile
) -> tuple[ColumnStatistics, ...]:
    """Return the statistics of a data file; one for each column, or none of one without rows.

    Raises:
        NotFoundError: It is gone.
        FormatError: It is broken.
        UnsupportedError: It has a log block of a kind that is not read, or its rows are elsewhere.
    """
    if isinstance(data_file, files.LogFile):
        return _of_log_file(source, data_file)
    reading.check_is_whole(data_file)
    with source.storage.open_input(data_file.path) as opened:
        return _of_base_file(source, data_file, parquet_reading.ParquetInput(opened))


def _of_base_file(
    source: Source, base_file: files.BaseFile, parquet: parquet_reading.ParquetInput
) -> tuple[ColumnStatistics, ...]:
    gathered = statistics_gathering.FooterStatistics(source.wanted, is_certain=source.is_certain)
    footer = parquet.metadata
    chunks = _chunks(footer)
    to_read = []
    for column in source.columns:
        if column.name not in source.wanted.kinds:
            continue
        # A file without rows has no chunks.
        of_column = chunks.get(column.name, [])
        if column.name not in parquet.schema.names:
            gathered.add_told(column.name, footer.num_rows, footer.num_rows)
        elif _is_described(column, parquet.schema, of_column):
            nulls = sum(each.statistics.null_count for each in of_column)
            gathered.add_told(column.name, footer.num_rows, nulls)
        else:
            to_read.append(column)
    of_expressions = source.of_expressions
    both = dict.fromkeys([*to_read, *of_expressions])
    if both:
        # A column that the file lacks is null there.
        for rows in parquet.pieces(pa.schema(list(both))):
            gathered.add_read(rows.select([each.name for each in to_read]))
            gathered.add_for_expressions(rows)
    return gathered.finish(base_file.name, footer)


def _chunks(footer: pq.FileMetaData) -> dict[str, list[pq.ColumnChunkMetaData]]:
    found: dict[str, list[pq.ColumnChunkMetaData]] = {}
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            found.setdefault(chunk.path_in_schema, []).append(chunk)
    return found


def _is_described(
    column: pa.Field, present: pa.Schema, chunks: list[pq.ColumnChunkMetaData]
) -> bool:
    """Return whether a footer describes a column in full."""
    if pa.types.is_floating(column.type) or present.field(column.name).type != column.type:
        return False
    return all(
        found is not None and found.has_null_count and (found.has_min_max or not found.num_values)
        for found in (chunk.statistics for chunk in chunks)
    )


def _of_log_file(source: Source, log_file: files.LogFile) -> tuple[ColumnStatistics, ...]:
    gathered = statistics_gathering.RowStatistics(source.wanted, is_certain=source.is_certain)
    decoder = block_decoding.Decoder(
        columns=source.columns, ordering_fields=(), delete_marker=None, has_deleted_column=False
    )
    blocks = log_scanning.read(
        source.storage, [log_file], source.is_committed, lambda _file, _range: None
    )
    for found in blocks:
        if found.block.type is BlockType.DELETE:
            continue
        with log_scanning.named(log_file):
            change = decoder.decode(found.block)
        assert isinstance(change, changes.ChangedRows)
        rows = change.rows
        if change.partial_columns is not None and not source.fills_partial_rows:
            rows = rows.select(
                [each for each in rows.column_names if each in change.partial_columns]
            )
        gathered.add(rows)
    return gathered.finish(log_file.name)
