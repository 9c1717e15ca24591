"""Scans: the rows of one snapshot of a table, planned once, read as often as they are asked for."""

import html
import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import pyarrow as pa

from hoodie import deferred, errors, guesses
from hoodie.door import filters
from hoodie.engine import ahead
from hoodie.filegroup import parquet_reading
from hoodie.model import column_names, files, predicates, schemas
from hoodie.read import planning, streams, tasks, travel
from hoodie.storage import protocol

with deferred.imports():
    from hoodie.door import datasets, duckdb_sql, guarantees, plain_files

Explain = Callable[[Sequence[str], predicates.Predicate | None], planning.Plan]
"""Plans a read of some columns and of the rows that a predicate keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a scan is asked for.

    Attributes:
        columns: In the order of the result, meta columns allowed; None for all without them.
        where: Rows to return, as `filters.Where`; None for all.
        as_of: An earlier moment; None for now.
        read_optimized: Whether base files alone are read.
        limit: So many rows at most; None for all.
    """

    columns: Sequence[str] | None = None
    where: object = None
    as_of: travel.Given | None = None
    read_optimized: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The table that is scanned.

    Attributes:
        uri: The table's.
        storage: Its storage.
        threads: So many slices are read at once.
        columns: The table's, as of the moment that is read, meta columns first.
        explain: Plans reads of the snapshot; None where there is one plan alone.
    """

    uri: str
    storage: protocol.Storage
    threads: int
    columns: pa.Schema
    explain: Explain | None = None


@guesses.of_names(guesses.SCAN)
@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The rows of a snapshot, not read yet.

    The snapshot is that of the moment when the scan was made: whatever is written afterwards is
    not in it. Files that a clean deletes meanwhile are missed (`NotFoundError`): scan again.
    """

    _source: Source
    _plan: planning.Plan
    _filter: filters.Filter
    _schema: pa.Schema
    _limit: int | None
    _is_read_optimized: bool

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._schema

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a stream, in memory that does not grow with the table.

        Slices are read by threads of this process, some ahead of the caller, up to 256 MiB. Forget
        the reader (`del`) to stop them: its `close` is Arrow's, and has no effect.
        """
        return pa.RecordBatchReader.from_batches(self._schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """Return all rows."""
        return self.to_batches().read_all()

    def to_pandas(self, **options: Any) -> Any:  # noqa: ANN401 - a pandas.DataFrame; none of ours to name
        """Return all rows as a `pandas.DataFrame`.

        Args:
            options: As of `pyarrow.Table.to_pandas`.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        _extra("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self, *, lazy: bool = False) -> Any:  # noqa: ANN401 - one of two classes of Polars
        """Return all rows as a `polars.DataFrame`, or a frame that reads what its query needs.

        Of a lazy one Polars reads file slices without changes itself, as DuckDB does (`to_duckdb`).

        Args:
            lazy: Whether it is a `polars.LazyFrame`.

        Raises:
            ConfigurationError: Polars is not installed.
            InvalidInputError: As `dataset`, of a lazy one.
        """
        polars = _extra("polars")
        if not lazy:
            return polars.from_arrow(self.to_arrow())
        paths, others = self._divided() if self._filter.is_empty else ([], self)
        parts = []
        if others is not None:
            # Arrow compares NaN otherwise than Polars does, which hands it comparisons of columns
            # and none of what is computed.
            own = [polars.col(each).neg().neg() for each in self._fractions()]
            parts.append(polars.scan_pyarrow_dataset(others.dataset()).with_columns(own))
        if paths:
            found = polars.scan_parquet(paths, glob=False, hive_partitioning=False)
            parts.insert(0, found.select(self._schema.names))
        return polars.concat(parts)

    @guesses.of_arguments()
    def to_duckdb(self, connection: Any, name: str) -> Any:  # noqa: ANN401 - duckdb's own
        """Give a connection of DuckDB the rows under a name; queries push columns and filters.

        DuckDB reads file slices that nothing has changed with its own reader of parquet where it
        can, as of tables on a local disk; of such a table a query fails with its error if a file
        was cleaned meanwhile.

        Args:
            connection: A `duckdb.DuckDBPyConnection`.
            name: By which queries name them.

        Returns:
            The connection.

        Raises:
            InvalidInputError: As `dataset`; or they are not a connection and a name.
        """
        if not hasattr(connection, "register") or not isinstance(name, str):
            raise errors.InvalidInputError(
                f"to_duckdb takes a connection and a name, such as duckdb.connect() and 'trips', "
                f"and was given {type(connection).__name__} and {type(name).__name__}"
            )
        condition = self._condition()
        paths, others = ([], self) if condition is None else self._divided()
        if condition is None or not paths:
            connection.register(name, self.dataset())
            return connection
        read = [self._source.columns.field(each) for each in self._stored_columns()]
        star = ", ".join(map(duckdb_sql.quoted, self._schema.names))
        try:
            found = connection.from_parquet(paths, hive_partitioning=False)
        except _extra("duckdb").PermissionException:  # It may not open files.
            connection.register(name, self.dataset())
            return connection
        found = found.project(", ".join(map(duckdb_sql.column, read)))
        found = found.filter(condition).project(star)
        if others is not None:
            found = found.union(connection.from_arrow(others.dataset()).project(star))
        connection.register(name, found)
        return connection

    def _condition(self) -> str | None:
        """Return the filter as DuckDB has it; None where it does not mean the same there."""
        if self._filter.expression is not None:
            return None
        where = self._filter.predicate or predicates.And(())
        return duckdb_sql.condition(where, self._source.columns)

    def _fractions(self) -> list[str]:
        """Return the columns of floating-point numbers."""
        return [each.name for each in self._schema if pa.types.is_floating(each.type)]

    def _stored_columns(self) -> list[str]:
        """Return the columns of the result, and those that the filter needs beside them."""
        where = self._filter.predicate
        needed = () if where is None else sorted(predicates.columns(where))
        return list(dict.fromkeys([*self._schema.names, *needed]))

    def _divided(self) -> "tuple[list[str], Scan | None]":
        """Return the paths of slices that engines can read themselves, and a scan of the others."""
        if not self._schema.names or self._limit is not None:
            return [], self
        columns = self._stored_columns()
        wanted = [_of_columns(each, columns) for each in self._plan.tasks]
        found = plain_files.paths(self._source.storage, wanted, self._source.threads)
        paths = [path for path in found if path is not None]
        if not paths:
            return [], self
        slices = zip(self._plan.slices, found, strict=True)
        left = tuple(each for each, path in slices if path is None)
        if not left:
            return paths, None
        plan = replace(self._plan, slices=left)
        return paths, replace(self, _plan=plan, _source=replace(self._source, explain=None))

    def dataset(self) -> "datasets.HoodieDataset":
        """Return the rows as a dataset of Arrow, which engines push columns and filters into.

        Raises:
            InvalidInputError: The scan has a limit, which no dataset has.
        """
        if self._limit is not None:
            raise errors.InvalidInputError(
                f"a scan with limit {self._limit} is not a dataset: leave the limit to the query"
            )
        return datasets.HoodieDataset(self)

    @guesses.of_arguments()
    def narrowed(self, columns: Sequence[str] | None = None, where: object = None) -> "Scan":
        """Return a scan of the same snapshot with some of the columns, and of the rows.

        Args:
            columns: Of this scan's, in the order of the result; None for all.
            where: As of `Table.scan`, on columns of this scan; None for all.

        Raises:
            NotFoundError: A column is named that is not there.
            InvalidInputError: The filter is malformed.
        """
        names = self._schema.names if columns is None else list(columns)
        known = set(self._schema.names)
        for name in names:
            if name not in known:
                raise not_found(name, self._schema)
        found = filters.both(self._filter, filters.filter_of(where, self._source.columns))
        return _planned(
            self._source,
            self._source.explain or partial(_requeried, self._plan),
            found,
            pa.schema([self._schema.field(name) for name in names]),
            self._limit,
            is_read_optimized=self._is_read_optimized,
        )

    def fragments(self) -> "list[datasets.HoodieFragment]":
        """Return the rows of each file slice by themselves."""
        return [
            datasets.HoodieFragment(
                datasets.Slice(task=task, filter=self._filter, schema=self._schema)
            )
            for task in self._plan.tasks
        ]

    def count(self) -> int:
        """Return how many rows there are.

        Without a filter, of file slices without changes the footers alone are read; of others the
        keys, what they are merged by, and the columns of the filter.
        """
        if self._limit is not None:
            return sum(int(batch.num_rows) for batch in self.to_batches())
        columns = _columns_read((), self._filter)
        merged: list[tasks.ReadTask] = []
        footers: list[str] = []
        for each in self._plan.slices:
            is_base_alone = self._is_read_optimized or not each.is_changed
            if not self._filter.is_empty or not is_base_alone:
                merged.append(_of_columns(self._plan.task(each), columns))
            elif each.base_file is not None:
                footers.append(each.base_file.path)
        threads = self._source.threads
        found = streams.batches(merged, threads)
        count = sum(ahead.results(self._rows_of, footers, threads))
        return count + sum(int(self._filter.kept(batch).num_rows) for batch in found)

    def explain(self) -> "Explanation":
        """Return which files are read, and what was left out by which means."""
        return Explanation(uri=self._source.uri, plan=self._plan)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a capsule of Arrow's C stream interface."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def _rows_of(self, path: str) -> int:
        with self._source.storage.open_input(path) as source:
            return int(parquet_reading.ParquetInput(source).metadata.num_rows)

    def _kept(self, found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in found:
            yield self._filter.kept(batch).select(self._schema.names)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        left = self._limit
        if left == 0:
            return
        for batch in self._kept(streams.batches(self._plan.tasks, self._source.threads)):
            if left is None:
                yield batch
                continue
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)
            if left == 0:
                return

    def __repr__(self) -> str:
        limit = "" if self._limit is None else f", at most {self._limit} rows"
        return (
            f"<Scan of {self._source.uri}: {len(self._plan.slices)} file slices{limit}; "
            f"{', '.join(self._schema.names)}>"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(each.name)}</td><td>{html.escape(str(each.type))}</td></tr>"
            for each in self._schema
        )
        return (
            f"<p>{html.escape(repr(self).partition('; ')[0].removeprefix('<'))}</p>"
            f"<table><tr><th>column</th><th>type</th></tr>{rows}</table>"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a scan reads, and what it leaves out.

    Attributes:
        uri: The table's.
        plan: With the file slices, and a step for each means of leaving some out.
    """

    uri: str
    plan: planning.Plan

    @property
    def file_slices(self) -> int:
        """How many file slices are read."""
        return len(self.plan.slices)

    @property
    def files(self) -> int:
        """How many files are read."""
        return sum(len(each.data_files) for each in self.plan.slices)

    @property
    def size_bytes(self) -> int:
        """Their summed size."""
        return sum(file.size_bytes for each in self.plan.slices for file in each.data_files)

    def __repr__(self) -> str:
        lines = [f"{self.uri}: {self.files} files, {self.size_bytes:,} bytes"]
        for each in self.plan.steps:
            what = f"  {each.means.value}: {each.left} of {each.considered} left"
            lines.append(what if each.unused is None else f"{what} (not used: {each.unused})")
        return "\n".join(lines)


def scan(source: Source, wanted: Wanted, explain: Explain) -> Scan:
    """Plan a scan.

    Args:
        source: The table.
        wanted: What is asked for.
        explain: Plans the read.

    Raises:
        InvalidInputError: The filter, the columns or the limit are malformed.
        NotFoundError: A column is named that is not there.
        HoodieError: As `Table.plan_read`.
    """
    if isinstance(wanted.columns, str):
        raise errors.InvalidInputError(
            f"columns is the text {wanted.columns!r}, expected a list of names, such as "
            f"[{wanted.columns!r}]; a filter is given as where="
        )
    if wanted.limit is not None and not _is_count(wanted.limit):
        raise errors.InvalidInputError(
            f"limit is {wanted.limit!r}, expected a whole number, 0 or more"
        )
    full = source.columns
    own = pa.schema([each for each in full if each.name not in schemas.META_COLUMNS])
    names = list(own.names if wanted.columns is None else wanted.columns)
    known = set(full.names)
    for name in names:
        if name not in known:
            raise not_found(name, own)
    return _planned(
        source,
        explain,
        filters.filter_of(wanted.where, full),
        pa.schema([full.field(name) for name in names]),
        wanted.limit,
        is_read_optimized=wanted.read_optimized,
    )


def _planned(
    source: Source,
    explain: Explain,
    found: filters.Filter,
    schema: pa.Schema,
    limit: int | None,
    *,
    is_read_optimized: bool,
) -> Scan:
    plan = explain(_columns_read(schema.names, found), found.predicate)
    if found.expression is not None:
        plan = guarantees.without_other_partitions(plan, found.expression, source.columns)
    return Scan(
        _source=source,
        _plan=plan,
        _filter=found,
        _schema=schema,
        _limit=limit,
        _is_read_optimized=is_read_optimized,
    )


def _requeried(
    plan: planning.Plan, columns: Sequence[str], where: predicates.Predicate | None
) -> planning.Plan:
    """Return a plan for the same slices, of other columns and a filter that keeps fewer rows."""

    def task(file_slice: files.FileSlice) -> tasks.ReadTask:
        found = _of_columns(plan.task(file_slice), columns)
        return replace(found, query=replace(found.query, where=where))

    return replace(plan, task=task)


def _columns_read(wanted: Sequence[str], found: filters.Filter) -> list[str]:
    """Return what is read for some columns and a filter: of none, as for a count, one is."""
    return list(dict.fromkeys([*wanted, *found.columns])) or [schemas.RECORD_KEY]


def _of_columns(task: tasks.ReadTask, columns: Sequence[str]) -> tasks.ReadTask:
    return replace(task, query=replace(task.query, columns=tuple(columns)))


def not_found(name: object, columns: pa.Schema) -> errors.NotFoundError:
    """Return the error of a column that is not there."""
    return errors.NotFoundError(column_names.absence(name, columns.names))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _extra(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise errors.ConfigurationError(
            f"needs the package {name}, which is not installed: pip install {name}"
        ) from error
