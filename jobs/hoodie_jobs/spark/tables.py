"""Hudi tables as DataFrames, by the shortest way for each file slice.

    tables.read(spark, "file:///data/orders", ["id", "price"], where=parse("price > 10"))

A slice without changes is a parquet file, which Spark's own scan reads best: in the JVM, columns
and filters pruned by what the query needs. A slice with changes is read and merged by the core, in
Python workers, as is every file that Spark might read otherwise than the core.

`where` leaves out the partitions and slices that `hoodie read --where` leaves out. A condition on
the DataFrame filters the rows of what is left: which slices it has is decided before Spark knows of
any condition. `spark.read.format("hoodie")` has the core read all, and is told of conditions.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import compress
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType

from hoodie import environment, table
from hoodie.engine import local
from hoodie.filegroup import log_scanning, parquet_reading
from hoodie.model import instants, partition_columns, predicates
from hoodie.read import positions, tasks, travel
from hoodie.storage import locations, protocol, uris
from hoodie_jobs.spark import changed, conditions, data_source, packing, reading

Item = TypeVar("Item")

_SCAN_OPTIONS = {
    # What stands in a file counts, not what its path says.
    "recursiveFileLookup": "true",
    # Hudi's days and times are those of the proleptic Gregorian calendar.
    "datetimeRebaseMode": "CORRECTED",
}
_FOOTERS_AT_ONCE = 16


def read(  # noqa: PLR0913 - a parameter an option
    spark: SparkSession,
    uri: str,
    columns: Sequence[str] | None = None,
    *,
    where: predicates.Predicate | None = None,
    is_read_optimized: bool = False,
    partition_values: str = partition_columns.Source.FILE,
    as_of: travel.Given | None = None,
) -> DataFrame:
    """Return the rows of a snapshot that is taken now.

    Cost: the snapshot's requests, and one footer for each slice without changes.

    Args:
        spark: Reads.
        uri: The table's root.
        columns: In the order of the result, meta columns allowed; None for all without them.
        where: Rows to return; None for all.
        is_read_optimized: Read base files alone: faster, without what is still in logs.
        partition_values: Where those of partition columns are taken from: `file` or `path`.
        as_of: An earlier moment (`hoodie.read.travel`); None for the table as it is now.

    Raises:
        NotFoundError: There is no table, or no such column.
        GoneError: The moment cannot be read any more.
        UnsupportedError: The table is of a version, or merges in a way, that is not read.
    """
    opened = table.open_table(uri, environment.system(parallelism=1))
    there = opened.columns_of(partition_values, as_of)
    planned = opened.plan_read(
        there.names if columns is None else columns,
        where,
        is_read_optimized=is_read_optimized,
        partition_values=partition_values,
        as_of=as_of,
    )
    full = tasks.full_schema(there)
    names = there.names if columns is None else columns
    wanted = _Wanted(pa.schema([full.field(name) for name in names]), where, full)
    scanned, merged = _divided(planned, wanted, opened.uri)
    frames = []
    if scanned:
        frames.append(_scan(spark, scanned, wanted))
    if merged or not scanned:
        frames.append(_merge(spark, merged, arrow_types.from_arrow_schema(wanted.schema)))
    return reduce(DataFrame.unionAll, frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What changed in a table, and up to where.

    Attributes:
        frame: The changes.
        position: Keep its text: the next read begins there. By requested times it is the requested
            time of the last write.
        is_snapshot: Whether these are all rows of the table: rows that a reader has and that are
            not among them are gone.
    """

    frame: DataFrame
    position: positions.Position | instants.InstantTime
    is_snapshot: bool


def changes(  # noqa: PLR0913 - a parameter an option
    spark: SparkSession,
    uri: str,
    since: positions.Position | travel.Given | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: predicates.Predicate | str | None = None,
    until: positions.Position | travel.Given | None = None,
    has_deletes: bool = True,
    is_ordered: bool = False,
    falls_back: bool = False,
) -> Changes:
    """Return what changed since a position: each changed row once, as it is at the end.

    Planned here, and read by tasks of Spark; arguments, columns and errors are those of
    `hoodie.table.Table.changes`.
    """
    opened = table.open_table(uri, environment.system(parallelism=1))
    found = opened.changes(
        since,
        columns=columns,
        where=where,
        until=until,
        has_deletes=has_deletes,
        is_ordered=is_ordered,
        falls_back=falls_back,
    )
    return Changes(
        frame=_changed(spark, found),
        position=found.position,
        is_snapshot=found.is_snapshot,
    )


def change_data(  # noqa: PLR0913 - a parameter an option
    spark: SparkSession,
    uri: str,
    since: positions.Position | str | None = None,
    *,
    columns: Sequence[str] | None = None,
    until: positions.Position | str | None = None,
    is_ordered: bool = False,
    is_net: bool = False,
) -> Changes:
    """Return what each write since a position changed (CDC), in no order but that of `ts_ms`.

    Planned here, and read by tasks of Spark; arguments, columns and errors are those of
    `hoodie.table.Table.change_data`.
    """
    opened = table.open_table(uri, environment.system(parallelism=1))
    found = opened.change_data(
        since, columns=columns, until=until, is_ordered=is_ordered, is_net=is_net
    )
    return Changes(frame=_changed(spark, found), position=found.position, is_snapshot=False)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a read returns.

    Attributes:
        schema: The columns.
        where: The rows; None for all.
        full: All columns of the table.
    """

    schema: pa.Schema
    where: predicates.Predicate | None
    full: pa.Schema

    @property
    def scanned(self) -> pa.Schema:
        """The columns that a scan needs: those of the filter among them."""
        of_filter = predicates.columns(self.where) if self.where is not None else frozenset()
        others = sorted(of_filter.difference(self.schema.names))
        return pa.schema([*self.schema, *(self.full.field(name) for name in others)])

    @property
    def condition(self) -> Column | None:
        """The filter as Spark's; None if there is none, or none that means the same."""
        return None if self.where is None else conditions.of_predicate(self.where, self.full)


def _divided(
    planned: Sequence[tasks.ReadTask], wanted: _Wanted, table_uri: str
) -> tuple[list[tasks.ReadTask], list[tasks.ReadTask]]:
    """Return the tasks for which Spark's scan gives what the core would, and the others."""
    scanned = wanted.scanned
    # Elsewhere Spark has names and credentials of its own for a storage.
    is_local = locations.resolve(table_uri).scheme == uris.LOCAL
    is_filtered = wanted.where is not None and wanted.condition is None
    if not is_local or is_filtered or not all(map(_is_plain, scanned.types)):
        return [], list(planned)
    storage = locations.open_storage(table_uri)
    engine = local.LocalEngine(_FOOTERS_AT_ONCE)
    fit = engine.map(partial(_is_scannable, storage, scanned), planned)
    return list(compress(planned, fit)), list(compress(planned, map(operator.not_, fit)))


def _is_scannable(storage: protocol.Storage, wanted: pa.Schema, task: tasks.ReadTask) -> bool:
    base_file = task.file_slice.base_file
    is_changed = bool(task.file_slice.log_files) and not task.query.is_read_optimized
    # Whatever the file says of them, if it does.
    of_paths = partition_columns.of_paths(task.config, task.schema.arrow, task.query.source)
    if base_file is None or is_changed or reading.is_hidden(base_file.path):
        return False
    if not set(of_paths.names).isdisjoint(wanted.names):
        return False
    with log_scanning.named(base_file), storage.open_input(base_file.path) as source:
        stored = parquet_reading.ParquetInput(source).schema
    # A column that a file has not is null to Spark, too; one of another type may be an error.
    common = set(stored.names) & set(wanted.names)
    return all(stored.field(name).type == wanted.field(name).type for name in common)


def _is_plain(kind: pa.DataType) -> bool:
    """Return whether Spark and Arrow have one meaning of a parquet column of that type."""
    return bool(pa.types.is_primitive(kind) and not pa.types.is_time(kind)) or any(
        is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_binary, pa.types.is_decimal)
    )


def _scan(spark: SparkSession, scanned: Sequence[tasks.ReadTask], wanted: _Wanted) -> DataFrame:
    paths = []
    for task in scanned:
        assert task.file_slice.base_file is not None
        path = task.file_slice.base_file.path.replace("%", "%25")
        paths.append(reading.spark_path(f"{task.table_uri}/{path}"))
    schema = arrow_types.from_arrow_schema(wanted.scanned)
    frame = spark.read.schema(schema).options(**_SCAN_OPTIONS).parquet(*paths)
    condition = wanted.condition
    if condition is None:
        return frame
    return frame.where(condition).select(*map(reading.quoted, wanted.schema.names))


def _changed(spark: SparkSession, planned: changed.Planned) -> DataFrame:
    groups = changed.packed(changed.parts_of(planned), spark.sparkContext.defaultParallelism)
    schema = arrow_types.from_arrow_schema(planned.columns)
    return _read_in_groups(spark, groups, schema, changed.read_part)


def _merge(spark: SparkSession, merged: Sequence[tasks.ReadTask], schema: StructType) -> DataFrame:
    groups = packing.packed(merged, spark.sparkContext.defaultParallelism)
    return _read_in_groups(spark, groups, schema, data_source.batches)


def _read_in_groups(
    spark: SparkSession,
    groups: Sequence[Sequence[Item]],
    schema: StructType,
    read_item: Callable[[Item, pa.Schema], Iterator[pa.RecordBatch]],
) -> DataFrame:
    """Return what is read of items, a task of Spark for each group of them."""
    if not groups:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(groups), 1, len(groups))
    arrow_schema = arrow_types.to_arrow_schema(schema, timezone="UTC")

    def read_groups(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for number in part.column("id").to_pylist():
                for item in groups[number]:
                    yield from read_item(item, arrow_schema)

    return numbers.mapInArrow(read_groups, schema)
