"""Hudi tables as a Spark data source: `spark.read.format("hoodie").load(uri)`.

    spark.dataSource.register(HoodieDataSource)
    spark.read.format("hoodie").option("columns", "id,price").load("file:///data/orders")

Options:
    path         the table's URI; what `load` is given
    columns      which columns, comma-separated, meta columns allowed; all but those by default
    query        `snapshot` (default) or `read_optimized`: base files alone, without newer changes
    partition_values
                 where those of partition columns are taken from: `file` (default) or `path`
    as.of.instant
                 an earlier moment, as of which the table is read: an instant, `savepoint:INSTANT`,
                 or a time; see `hoodie.read.travel`
    as.of.rule   `completion` (default): writes count that had completed by then; or `requested`, by
                 which Apache Hudi's readers go
    as.of.columns
                 `now` (default) or `then`: which columns of the table rows are shown with

A partition of the scan is a file slice, or some small ones; it is read and merged by the core, and
handed over as Arrow.
Filters are pushed down where `spark.sql.python.filterPushdown.enabled` is true; Spark's default is
false. Spark never tells a Python data source which columns a query needs: name them in the option,
or in `.schema(...)`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType

from hoodie import environment, errors, table
from hoodie.model import moments, partition_columns, predicates
from hoodie.read import tasks, travel
from hoodie_jobs.spark import filters, packing

FORMAT = "hoodie"
_READ_OPTIMIZED = {"snapshot": False, "read_optimized": True}


class HoodieDataSource(datasource.DataSource):
    """A table that is read."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` is given."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns that the option names, or all of the table's."""
        columns = _open(self.options).columns_of(
            _partition_values(self.options), _as_of(self.options)
        )
        wanted = _columns(self.options) or columns.names
        return arrow_types.from_arrow_schema(_selected(tasks.full_schema(columns), wanted))

    def reader(self, schema: StructType) -> "HoodieReader":
        """Return the reader of these columns."""
        return HoodieReader(dict(self.options), schema)


@dataclass(frozen=True)
class SlicesPartition(datasource.InputPartition):
    """Some file slices."""

    tasks: tuple[tasks.ReadTask, ...]


NOTHING = SlicesPartition(())


class HoodieReader(datasource.DataSourceReader):
    """Plans and reads one scan.

    It is made where the query is planned and pickled to the workers, after the filters were pushed.
    """

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
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
            where=predicates.all_of(self._pushed),
            is_read_optimized=_is_read_optimized(self._options),
            partition_values=_partition_values(self._options),
            as_of=_as_of(self._options),
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


class Pushdown:
    """A reader's `pushFilters` that looks inherited.

    Where pushdown is off, Spark 4.3 fails for a reader that overrides the method instead of not
    calling it, and no session can be asked where the reader is made. It looks at `__func__`.
    """

    def __init__(self, reader: HoodieReader) -> None:
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


def _open(options: Mapping[str, str]) -> table.Table:
    uri = options.get("path")
    if not uri:
        raise errors.InvalidInputError("no table is named: expected its URI, load(uri)")
    return table.open_table(uri, environment.system(parallelism=1))


def _columns(options: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in options.get("columns", "").split(",") if name.strip()]


def _selected(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    for name in names:
        if schema.get_field_index(name) < 0:
            raise errors.NotFoundError(
                f"there is no column {name!r}; the columns are {', '.join(schema.names)}"
            )
    return pa.schema([schema.field(name) for name in names])


def _partition_values(options: Mapping[str, str]) -> str:
    return options.get("partition_values", partition_columns.Source.FILE).lower()


def _as_of(options: Mapping[str, str]) -> travel.AsOf | None:
    given = options.get("as.of.instant")
    rule = options.get("as.of.rule", moments.Rule.COMPLETION.value).lower()
    columns = options.get("as.of.columns", travel.Columns.NOW.value).lower()
    try:
        found = moments.Rule(rule), travel.Columns(columns)
    except ValueError as error:
        raise errors.InvalidInputError(
            f"options as.of.rule and as.of.columns are {rule!r} and {columns!r}, expected "
            "completion or requested, and now or then"
        ) from error
    if given is None:
        return None
    return travel.AsOf(time=given, rule=found[0], columns=found[1])


def _is_read_optimized(options: Mapping[str, str]) -> bool:
    query = options.get("query", "snapshot").lower().replace("-", "_")
    if query not in _READ_OPTIMIZED:
        raise errors.InvalidInputError(
            f"option query is {query!r}, expected {' or '.join(_READ_OPTIMIZED)}"
        )
    return _READ_OPTIMIZED[query]
