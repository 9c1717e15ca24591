"""Tables for Daft: data frames that read one, and a sink of data frames.

    frame = daft_tables.read("s3://lake/trips")
    frame.where(daft.col("city") == "Oslo").select("id", "fare").show()
    daft_tables.write(frame, "s3://lake/trips")

A read is the table's dataset (`hoodie.door.datasets`): columns and filters of a query go into it,
and each of Daft's tasks reads a file slice. Of a write Daft has parts of rows in any process, and
none of them has all rows of a file group: tasks stage them (`staging`), and one process makes one
commit of them. Of rows with one key it is open which part comes last: expected are rows of distinct
keys, or a table with an ordering column.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from daft import DataFrame, Schema
from daft.io.pushdowns import Pushdowns
from daft.io.sink import DataSink, WriteResult
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import MicroPartition, RecordBatch

import hoodie
from hoodie import environment, errors
from hoodie.door import datasets, outcomes
from hoodie_jobs import staging

Operation = Literal["upsert", "insert", "delete", "overwrite"]
_OPERATIONS: tuple[Operation, ...] = ("upsert", "insert", "delete", "overwrite")


def read(
    uri: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    as_of: str | datetime | None = None,
    read_optimized: bool = False,
) -> DataFrame:
    """Return a snapshot of a table, that of now, as a data frame; rows are read by its queries.

    Args:
        uri: The table's.
        storage_options: As of `hoodie.open_table`.
        as_of: As of `Table.scan`.
        read_optimized: As of `Table.scan`.

    Raises:
        HoodieError: As of `hoodie.open_table` and `Table.scan`.
    """
    opened = hoodie.open_table(uri, storage_options)
    return HoodieSource(opened.dataset(as_of=as_of, read_optimized=read_optimized)).read()


def write(
    frame: DataFrame,
    uri: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    operation: Operation = "upsert",
    settings: Mapping[str, str] | None = None,
) -> outcomes.Written:
    """Write all rows of a data frame in one commit.

    Args:
        frame: The rows, with the columns of the table; of a delete those of key and partition.
        uri: The table's; `hoodie.create_table` makes one.
        storage_options: As of `hoodie.open_table`.
        operation: What is done with the rows.
        settings: As of `hoodie.open_table`.

    Raises:
        NotFoundError: There is no table.
        InvalidInputError: The operation is none of them, or the rows do not fit.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    sink = HoodieSink(uri, storage_options, operation=operation, settings=settings)
    try:
        frame.write_sink(sink)
    except BaseException:
        sink.discard()
        raise
    assert sink.result is not None
    return sink.result


class HoodieSource(DataSource):  # type: ignore[misc] # Daft is no package of the tests' environment.
    """A dataset of a table, by its file slices."""

    def __init__(self, dataset: datasets.HoodieDataset) -> None:
        """Take a dataset."""
        self._dataset = dataset

    @property
    def name(self) -> str:
        """What plans call it."""
        return "hoodie"

    @property
    def schema(self) -> Schema:
        """The columns."""
        return Schema.from_pyarrow_schema(self._dataset.schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """Yield the file slices that may have rows of a query."""
        where = None if pushdowns.filters is None else _understood(pushdowns.filters)
        names = self._dataset.schema.names
        if pushdowns.columns is not None:
            # Daft filters what it gets again.
            wanted = {*pushdowns.columns, *pushdowns.filter_required_column_names()}
            names = [name for name in names if name in wanted]
        for fragment in self._dataset.get_fragments(where):
            yield SliceTask(fragment, names, where)


def _understood(filters: Any) -> pc.Expression | None:  # noqa: ANN401 - Daft's expression
    """Return a filter as one of Arrow's; None for one that only Daft evaluates."""
    try:
        found: pc.Expression = filters.to_arrow_expr()
    except (NotImplementedError, ValueError, TypeError, AttributeError):
        # Daft has no list of what it converts; it filters the rows itself, too.
        return None
    return found


class SliceTask(DataSourceTask):  # type: ignore[misc] # As above.
    """Reads the rows of a file slice."""

    def __init__(
        self, fragment: datasets.HoodieFragment, names: list[str], where: pc.Expression | None
    ) -> None:
        """Take a slice, and what is wanted of it."""
        self._scanner = fragment.scanner(columns=names, filter=where)

    @property
    def schema(self) -> Schema:
        """The columns that are read."""
        return Schema.from_pyarrow_schema(self._scanner.projected_schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """Yield the rows."""
        for batch in self._scanner.to_reader():
            yield RecordBatch.from_arrow_record_batches([batch], batch.schema)


@dataclass(frozen=True)
class _Part:
    staged: staging.Staged
    schema: pa.Schema


class HoodieSink(DataSink):  # type: ignore[misc] # As above.
    """A table that rows of a data frame are written to, in one commit.

    Attributes:
        result: What the commit did; None until it was made.
    """

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        operation: Operation = "upsert",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Open the table.

        Raises:
            HoodieError: As of `write`.
        """
        if operation not in _OPERATIONS:
            raise errors.InvalidInputError(
                f"operation is {operation!r}, expected one of {', '.join(_OPERATIONS)}"
            )
        self.result: outcomes.Written | None = None
        self._uri = uri
        self._storage_options = storage_options
        self._operation = operation
        self._settings = settings
        hoodie.open_table(uri, storage_options, settings=settings)
        self._write_id = environment.system().random.uuid()

    def name(self) -> str:
        """What plans call it."""
        return "hoodie"

    def schema(self) -> Schema:
        """What a write returns."""
        return Schema.from_pyarrow_schema(_outcome_table(outcomes.Written()).schema)

    def write(self, micropartitions: Iterator[MicroPartition]) -> Iterator[WriteResult]:
        """Stage rows, in any process."""
        env = environment.system(parallelism=1, storage_options=self._storage_options)
        storage = env.open_storage(self._uri)
        folder = staging.folder_of(self._write_id)
        for each in micropartitions:
            rows = each.to_arrow()
            attempt = env.random.uuid()
            staged = staging.stage(storage, folder, attempt, 0, iter(rows.to_batches()))
            yield WriteResult(
                result=_Part(staged, rows.schema),
                bytes_written=staged.size_bytes,
                rows_written=staged.rows,
            )

    def finalize(self, write_results: list[WriteResult]) -> MicroPartition:
        """Make one commit of all rows that were staged."""
        parts = [each.result for each in write_results]
        env = environment.system(storage_options=self._storage_options)
        storage = env.open_storage(self._uri)
        opened = hoodie.open_table(self._uri, self._storage_options, settings=self._settings)
        schema = parts[0].schema if parts else opened.schema.arrow
        staged = [replace(each.staged, partition=place) for place, each in enumerate(parts)]
        rows = staging.reader(storage, staged, schema)
        match self._operation:
            case "upsert":
                self.result = opened.upsert(rows)
            case "insert":
                self.result = opened.insert(rows)
            case "delete":
                self.result = opened.delete(keys=rows)
            case "overwrite":
                self.result = opened.overwrite(rows)
        staging.clear(storage, self._write_id)
        return MicroPartition.from_arrow(_outcome_table(self.result))

    def discard(self) -> None:
        """Delete what was staged; nothing of it is part of the table."""
        env = environment.system(parallelism=1, storage_options=self._storage_options)
        staging.clear(env.open_storage(self._uri), self._write_id)


def _outcome_table(done: outcomes.Written) -> pa.Table:
    return pa.table(
        {
            "instant": pa.array([done.instant], pa.string()),
            "rows": pa.array([done.rows], pa.int64()),
            "deleted": pa.array([done.deleted], pa.int64()),
            "files": pa.array([done.files], pa.int64()),
        }
    )
