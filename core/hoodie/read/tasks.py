"""Reading one file slice: a value that pickles, and what to do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from hoodie import deferred
from hoodie.filegroup import snapshots
from hoodie.model import files, partition_columns, predicates, schemas, table_config
from hoodie.storage import locations

with deferred.imports():
    from hoodie.filegroup import reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to read.

    Attributes:
        columns: Columns of the result in its order, meta columns allowed.
        where: Rows of the result; None for all.
        is_read_optimized: Whether base files alone are read.
        source: Where values of partition columns are taken from.
    """

    columns: tuple[str, ...]
    where: predicates.Predicate | None = None
    is_read_optimized: bool = False
    source: partition_columns.Source = partition_columns.Source.FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What a process needs to know to read one file slice.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        committed: Which data files count; of the snapshot that all tasks of one read share.
        file_slice: The slice.
        query: What to read of it.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    committed: snapshots.CommittedInstants
    file_slice: files.FileSlice
    query: Query


def run(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, some at a time.

    Raises:
        NotFoundError: A file is gone, as after cleaning.
        FormatError: A file is broken.
    """
    for rows in _stream(task):
        yield from rows.to_batches()


def full_schema(columns: pa.Schema) -> pa.Schema:
    """Return all columns that a query may name: the table's, as it shows them, and meta columns."""
    return pa.schema([*schemas.meta_fields(), *columns])


def _stream(task: ReadTask) -> reading.SliceRows:
    storage = locations.open_storage(task.table_uri)
    committed = snapshots.CommittedFiles(storage, task.committed)
    query = task.query
    reader = reading.SliceReader(
        storage, task.config, task.schema, committed.is_committed, source=query.source
    )
    return reader.stream(
        task.file_slice,
        query.columns,
        query.where,
        is_read_optimized=query.is_read_optimized,
    )
