"""Hudi tables as a Spark data source: `spark.read.format("hoodie").load(uri)`, and three more.

    spark.dataSource.register(HoodieDataSource)  # where Spark does not find `pyspark_hoodie`
    spark.read.format("hoodie").option("columns", "id,price").load("file:///data/orders")

Options:
    path         the table's URI; what `load` is given
    columns      which columns, comma-separated, meta columns allowed; all but those by default
    where        which rows, or changed rows as they are at the end, as `hoodie read --where` takes
                 it; not of `cdc`
    query        or `hoodie.datasource.query.type`: `snapshot` (default), `read_optimized`: base
                 files alone, without newer changes, or `incremental`: what changed
    partition_values
                 where those of partition columns are taken from: `file` (default) or `path`
    as.of.instant
                 an earlier moment, as of which the table is read: an instant, `savepoint:INSTANT`,
                 or a time; see `hoodie.read.travel`
    as.of.rule   `completion` (default): writes count that had completed by then; or `requested`, by
                 which Apache Hudi's readers go
    as.of.columns
                 `now` (default) or `then`: which columns of the table rows are shown with

Options of changes, of an incremental query and of a stream (`changed`):
    hoodie.datasource.query.incremental.format
                 `latest_state` (default) or `cdc`
    deletes      `true`: deleted keys too, with a column `_change`; `false` by default
    images       of `cdc`: `json` (default) or `struct`
    ordered      `true`: end below the first write that was requested after one that is pending
    hoodie.datasource.read.incr.fallback.fulltablescan.enable
                 `true`: all rows where the changes are gone; `false`, an error, by default

Of an incremental query:
    hoodie.datasource.read.begin.instanttime, hoodie.datasource.read.end.instanttime
                 a position, an instant or a time each: what completed after the first one, up to
                 the second one, included; by default all rows, up to now
    rule         `completion` (default), or `requested`: what was requested between the two, as
                 before version 1.0 of Apache Hudi, up to the first write that is pending. Its
                 option `hoodie.datasource.read.incr.table.version` says so with a version below 8

Of a stream (`streaming`):
    hoodie.datasource.streaming.startOffset
                 `earliest` (default), `latest`, a position, an instant or a time
    maxCommitsPerTrigger, maxFilesPerTrigger, maxBytesPerTrigger
                 how much a micro-batch reads at most, unless a single write is more: writes, data
                 files that they wrote, their size
    consumer     a name, under which the table knows how far the stream has read, so that cleaning
                 waits; a stream without a checkpoint begins there

A partition of a scan is a file slice, or a unit of changes, or some small ones; it is read and
merged by the core, and handed over as Arrow.
Filters are pushed down where `spark.sql.python.filterPushdown.enabled` is true; Spark's default is
false. For streams it pushes no filters down, and for no Python data source the selected columns:
name them in options, the columns also in `.schema(...)`.

`df.write.format("hoodie").save(uri)` and `df.writeStream` write a table (`sink`); their options are
those of `write_options`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType

from hoodie import environment, errors, table
from hoodie.model import column_names, predicates
from hoodie.read import changed_rows, tasks
from hoodie_jobs.spark import (
    changed,
    filters,
    packing,
    read_options,
    sink,
    streaming,
    write_options,
)

FORMAT = "hoodie"


class HoodieDataSource(datasource.DataSource):
    """A table that is read, or written."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that the option names, or all of the table's; or those of changes."""
        options = read_options.parse(self.options)
        opened = _open(options)
        if options.has_changes:
            return arrow_types.from_arrow_schema(changed.schema_of(opened, options))
        columns = opened.columns_of(options.partition_values, options.as_of)
        wanted = options.columns or columns.names
        return arrow_types.from_arrow_schema(_selected(tasks.full_schema(columns), wanted))

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        """Return the reader of these columns."""
        options = read_options.parse(self.options)
        read_options.check_batch(options)
        if options.query is read_options.Query.INCREMENTAL:
            return ChangesReader(options, schema)
        return HoodieReader(options, schema)

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:  # noqa: N802
        """Return the reader of micro-batches with these columns."""
        options = read_options.parse(self.options)
        read_options.check_stream(options)
        return streaming.HoodieStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> datasource.DataSourceWriter:
        """Return the writer of rows with these columns."""
        options = write_options.parse(self.options, is_overwrite=overwrite)
        return sink.HoodieWriter(sink.plan(options, schema))

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: StructType,
        overwrite: bool,
    ) -> datasource.DataSourceStreamArrowWriter:
        """Return the writer of micro-batches with these columns."""
        options = write_options.parse(self.options, is_overwrite=overwrite)
        write_options.check_stream(options)
        return sink.HoodieStreamWriter(sink.plan(options, schema))


@dataclass(frozen=True)
class SlicesPartition(datasource.InputPartition):
    """Some file slices."""

    tasks: tuple[tasks.ReadTask, ...]


NOTHING = SlicesPartition(())


class HoodieReader(datasource.DataSourceReader):
    """Plans and reads one scan.

    It is made where the query is planned and pickled to the workers, after the filters were pushed.
    """

    def __init__(self, options: read_options.Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed: list[predicates.Predicate] = []

    @property
    def pushFilters(self) -> "Pushdown":  # type: ignore[override] # noqa: N802 - Spark's name
        """What Spark calls to push filters down, where it does."""
        return Pushdown(self)

    def push(self, filters_: "Iterable[datasource.Filter]") -> "Iterator[datasource.Filter]":
        """Take the filters that mean the same to us, and return the others."""
        schema = self._arrow_schema
        for each in filters_:
            predicate = filters.to_predicate(each, schema)
            if predicate is None:
                yield each
            else:
                self._pushed.append(predicate)

    def partitions(self) -> Sequence[SlicesPartition]:
        """Return the file slices that may hold rows of the query."""
        planned = _open(self._options).plan_read(
            columns=self._schema.names,
            where=predicates.all_of((*self._pushed, *_given(self._options.where))),
            is_read_optimized=self._options.query is read_options.Query.READ_OPTIMIZED,
            partition_values=self._options.partition_values,
            as_of=self._options.as_of,
        )
        # Spark plans in a worker, where the number of cores is not known.
        groups = packing.packed(planned, None)
        # Where there are none, Spark makes one up and has that read.
        return [SlicesPartition(tuple(group)) for group in groups] or [NOTHING]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the slices' rows in the types that Spark expects."""
        assert isinstance(partition, SlicesPartition)
        for task in partition.tasks:
            yield from batches(task, self._arrow_schema)

    @property
    def _arrow_schema(self) -> pa.Schema:
        """The columns as Spark compares them with what it is given: exactly."""
        return arrow_types.to_arrow_schema(self._schema, timezone="UTC")


class ChangesReader(datasource.DataSourceReader):
    """Plans and reads changes, where and when `HoodieReader` does its scan."""

    def __init__(self, options: read_options.Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed: list[predicates.Predicate] = []

    @property
    def pushFilters(self) -> "Pushdown":  # type: ignore[override] # noqa: N802 - Spark's name
        """What Spark calls to push filters down, where it does."""
        return Pushdown(self)

    def push(self, filters_: "Iterable[datasource.Filter]") -> "Iterator[datasource.Filter]":
        """Take the filters on columns of rows that mean the same to us, and return the others.

        Of change data those are returned as well: they leave out what need not be read, no rows.
        """
        is_rows = self._options.format is read_options.Format.LATEST_STATE
        arrow = arrow_types.to_arrow_schema(self._schema, timezone="UTC")
        known = pa.schema([each for each in arrow if each.name != changed_rows.CHANGE])
        for each in filters_:
            predicate = filters.to_predicate(each, known)
            if predicate is not None:
                self._pushed.append(predicate)
            if predicate is None or not is_rows:
                yield each

    def partitions(self) -> Sequence[changed.ChangesPartition]:
        """Return the parts of what changed."""
        options = self._options
        begin, end = options.begin, options.end
        pushed = predicates.all_of(self._pushed)
        opened = _open(options)
        planned = changed.plan(opened, options, begin, end, self._schema.names, pushed)
        return changed.partitions(changed.parts_of(planned, pushed)) or [changed.NOTHING]

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the parts' rows in the types that Spark expects."""
        schema = arrow_types.to_arrow_schema(self._schema, timezone="UTC")
        return changed.read(partition, schema, self._options.images)


class Pushdown:
    """A reader's `pushFilters` that looks inherited.

    Where pushdown is off, Spark 4.3 fails for a reader that overrides the method instead of not
    calling it, and no session can be asked where the reader is made. It looks at `__func__`.
    """

    def __init__(self, reader: HoodieReader | ChangesReader) -> None:
        self._reader = reader

    def __call__(self, filters_: "Iterable[datasource.Filter]") -> "Iterator[datasource.Filter]":
        """Push filters down; return those that Spark is to evaluate."""
        return self._reader.push(filters_)

    @property
    def __func__(self) -> object:
        """The inherited method."""
        return datasource.DataSourceReader.pushFilters


def batches(task: tasks.ReadTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield a slice's rows in exactly these types, nullability included: Spark compares them."""
    for batch in tasks.run(task):
        yield pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )


def _given(where: predicates.Predicate | None) -> tuple[predicates.Predicate, ...]:
    return () if where is None else (where,)


def _open(options: read_options.Options) -> table.Table:
    return table.open_table(options.uri, environment.system(parallelism=1))


def _selected(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    for name in names:
        if schema.get_field_index(name) < 0:
            raise errors.NotFoundError(column_names.absence(name, schema.names))
    return pa.schema([schema.field(name) for name in names])
