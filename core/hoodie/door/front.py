"""The part of `table.Table` that people use: a base class, beside what programs call with options.

Here are names, defaults and documentation; what is done is in the other modules of this folder.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NoReturn, Self

import pyarrow as pa

from hoodie import deferred, environment, errors, guesses
from hoodie.model import commits, predicates, schemas, table_config
from hoodie.storage import protocol

with deferred.imports():
    from hoodie.door import (
        datasets,
        filters,
        inputs,
        inspecting,
        maintaining,
        outcomes,
        scans,
        transactions,
        writers,
        writing,
    )
    from hoodie.model import files, instants, results, settings
    from hoodie.read import planning, streams, tasks, travel
    from hoodie.timeline import active
    from hoodie.transaction import authors, manager

_SHOWN_MAX = 5
"""So many of the newest actions a notebook shows."""


@guesses.of_names(guesses.TABLE)
class Front(ABC):
    """What a table does for people.

    Attributes:
        config: The table's configuration.
        schema: Its columns when it was opened.
    """

    config: table_config.TableConfig
    schema: schemas.TableSchema
    _storage: protocol.Storage
    _env: environment.Environment

    @property
    @abstractmethod
    def _writer(self) -> writers.Writer:
        """On whose behalf the table is changed."""

    @property
    @abstractmethod
    def uri(self) -> str:
        """The table's root."""

    @abstractmethod
    def explain_read(
        self,
        columns: Sequence[str] | None = None,
        where: predicates.Predicate | None = None,
        *,
        is_read_optimized: bool = False,
        partition_values: str = ...,
        as_of: travel.Given | None = None,
    ) -> planning.Plan:
        """Return the plan of a read."""

    @abstractmethod
    def pinned(
        self, *, is_read_optimized: bool = False, as_of: travel.Given | None = None
    ) -> scans.Explain:
        """Return what plans reads of one snapshot."""

    @abstractmethod
    def refresh(self) -> Self:
        """Take up columns and configuration that others have changed."""

    @abstractmethod
    def timeline(self) -> active.ActiveTimeline:
        """Return the active timeline."""

    @abstractmethod
    def metadata(
        self, wanted: Sequence[instants.Instant]
    ) -> Mapping[instants.Instant, commits.CommitMetadata]:
        """Return what writes say of themselves."""

    @abstractmethod
    def pending(self, heartbeat_settings: settings.WriteSettings) -> list[results.PendingInstant]:
        """Return what is pending, and who works on it."""

    @abstractmethod
    def slices(self) -> list[files.FileSlice]:
        """Return the newest slice of each file group."""

    @abstractmethod
    def committed_batches(self, writer_id: str) -> frozenset[str]:
        """Return the ids of the writer's batches that the table holds."""

    @abstractmethod
    def row_counts(self, write: results.CommitResult) -> results.RowCounts:
        """Return how many rows of a write were new, and how many replaced others."""

    @property
    @abstractmethod
    def _target(self) -> manager.Target:
        """The table as transactions take it."""

    @abstractmethod
    def columns_of(self, partition_values: str, as_of: travel.Given | None = None) -> pa.Schema:
        """Return the table's columns as of a moment."""

    @guesses.of_arguments()
    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: filters.Where | None = None,
        *,
        as_of: travel.AsOf | str | datetime | None = None,
        read_optimized: bool = False,
        limit: int | None = None,
    ) -> scans.Scan:
        """Return the rows of the table as it is now, or was, to be read in the form that you need.

        The snapshot is taken and the files are chosen at once; rows are read when they are asked
        for.

        Args:
            columns: In the order of the result, meta columns (`_hoodie_commit_time`, ...) allowed;
                None for all without them.
            where: Rows to return: a text of SQL (`"city = 'Oslo' and fare > 5"`), an expression of
                `pyarrow.compute`, or triples (`[("city", "=", "Oslo")]`), all of which are true.
            as_of: An instant, `savepoint:INSTANT`, or a time such as `2026-11-20 12:00` or
                `2 hours ago`.
            read_optimized: Read base files alone: faster, without what is still in logs.
            limit: So many rows at most, any of them.

        Raises:
            InvalidInputError: The filter, the columns, the limit or the moment are malformed.
            NotFoundError: A column is named that is not there; or there is no such savepoint.
            GoneError: Files of that moment were cleaned, or a restore took it back.
        """
        as_of = self._fixed(as_of)
        wanted = scans.Wanted(
            columns=columns,
            where=where,
            as_of=as_of,
            read_optimized=read_optimized,
            limit=limit,
        )
        explain = partial(self.explain_read, is_read_optimized=read_optimized, as_of=as_of)
        return scans.scan(self._source(as_of), wanted, explain)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all rows, as they are now, as a capsule of Arrow's C stream interface."""
        return self.scan().__arrow_c_stream__(requested_schema)

    @guesses.of_arguments()
    def dataset(
        self,
        *,
        as_of: travel.AsOf | str | datetime | None = None,
        read_optimized: bool = False,
    ) -> datasets.HoodieDataset:
        """Return the table as a dataset of Arrow, for DuckDB, Polars, DataFusion and others.

        They push columns and filters into it: of each query only the file slices that it needs are
        read. All queries see the same snapshot, that of now.

            trips = table.dataset()
            duckdb.sql("select city, sum(fare) from trips where day = '2026-11-20' group by city")
            polars.scan_pyarrow_dataset(trips)
            datafusion.SessionContext().register_dataset("trips", trips)

        Args:
            as_of: As of `scan`.
            read_optimized: As of `scan`.

        Raises:
            HoodieError: As `scan`.
        """
        as_of = self._fixed(as_of)
        pinned = self.pinned(is_read_optimized=read_optimized, as_of=as_of)
        wanted = scans.Wanted(as_of=as_of, read_optimized=read_optimized)
        source = replace(self._source(as_of), explain=pinned)
        return scans.scan(source, wanted, pinned).dataset()

    def _fixed(self, as_of: travel.Given | None) -> travel.AsOf | None:
        """Return a moment that is the same in all steps of a read."""
        if as_of is None:
            return None
        return travel.fixed(as_of, self.config, self._env.clock.now_ms())

    def _source(self, as_of: travel.Given | None) -> scans.Source:
        columns = self.schema.arrow if as_of is None else self.columns_of("file", as_of)
        return scans.Source(
            uri=self.uri,
            storage=self._storage,
            threads=self._env.engine.parallelism,
            columns=tasks.full_schema(columns),
        )

    @guesses.of_arguments()
    def upsert(
        self, rows: inputs.Rows, *, batch_id: str | None = None, count: bool = False
    ) -> outcomes.Written:
        """Insert new rows, and update those whose keys are there, in one commit.

        Memory follows the rows and not the table: up to 256 MiB of them are held, larger ones go
        through scratch files. Of rows with one key the later one counts.

        Args:
            rows: A data frame of Polars or pandas, a table, reader or dataset of pyarrow, anything
                with `__arrow_c_stream__`, an iterator of record batches, or a list of dicts.
                Columns are matched by name.
            batch_id: The writer's name of this input: it is not written again if the table has it.
            count: Whether new, updated and unchanged rows are counted where log files take them
                unseen: by a read of the keys in the file groups that were written to, afterwards.

        Raises:
            InvalidInputError: The rows do not fit the table; the message says which column.
            WriteConflictError: Another writer was faster (`occ`): write again.
            HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it
                was. What an iterator raises comes through, and nothing was written either.
        """
        job = self._job
        options = job.options(commits.Operation.UPSERT, batch_id)
        return self._written(writing.write_rows(job, rows, options, is_counted=count))

    @guesses.of_arguments()
    def insert(
        self,
        rows: inputs.Rows,
        *,
        bulk: bool = False,
        sort_by: str | Sequence[str] = (),
        batch_id: str | None = None,
    ) -> outcomes.Written:
        """Add rows whose keys are new, in one commit; they are not looked for in the table.

        Args:
            rows: As of `upsert`.
            bulk: Whether they become base files wherever a bucket is empty: for first loads.
            sort_by: With `bulk`: columns by which files hold sorted ranges of each partition.
            batch_id: As of `upsert`.

        Raises:
            HoodieError: As `upsert`.
        """
        names = (sort_by,) if isinstance(sort_by, str) else tuple(sort_by)
        job = self._job
        operation = commits.Operation.BULK_INSERT if bulk else commits.Operation.INSERT
        options = replace(job.options(operation, batch_id), sort_by=names)
        return self._written(writing.write_rows(job, rows, options))

    @guesses.of_arguments()
    def overwrite(
        self,
        rows: inputs.Rows,
        *,
        replace: writing.Replaced = "table",
        batch_id: str | None = None,
    ) -> outcomes.Written:
        """Replace rows by others, in one commit.

        Args:
            rows: As of `upsert`.
            replace: What is replaced: `table`, `partitions` for those that the rows are of, or the
                paths of some partitions, also if no row is of them.
            batch_id: As of `upsert`.

        Raises:
            ConfigurationError: The writer is non-blocking.
            HoodieError: As `upsert`.
        """
        return self._written(writing.overwrite(self._job, rows, replace, batch_id))

    def _written(self, written: outcomes.Written) -> outcomes.Written:
        """Take up the columns that a write of this table may have added, or widened."""
        if written.instant is not None and self._job.adds_columns:
            self.refresh()
        return written

    @guesses.of_arguments()
    def delete(
        self,
        where: filters.Where | None = None,
        *,
        keys: inputs.Rows | Sequence[object] | None = None,
        batch_id: str | None = None,
    ) -> outcomes.Written:
        """Delete the rows that a filter keeps, or those of some keys, in one commit.

        Args:
            where: As of `scan`.
            keys: A list of record keys, or rows with the columns of key and partition.
            batch_id: As of `upsert`.

        Raises:
            InvalidInputError: Both or neither are given, or they are malformed.
            ConfigurationError: The writer is non-blocking, and rows are found by a look at the
                table: another writer's change of them would be lost.
            HoodieError: As `upsert`.
        """
        return writing.delete(self._job, where, keys, batch_id)

    @guesses.of_arguments()
    def update(
        self,
        values: Mapping[str, writing.Value],
        where: filters.Where | None = None,
        *,
        batch_id: str | None = None,
    ) -> outcomes.Written:
        """Set columns of the rows that a filter keeps, in one commit.

        The rows that are changed are held in memory. Another writer's change of them meanwhile is
        a conflict.

        Args:
            values: For each column a literal, or an expression of `pyarrow.compute` over the
                columns of the row, such as `{"fare": pc.field("fare") * 2}`.
            where: As of `scan`; None for all rows.
            batch_id: As of `upsert`.

        Raises:
            InvalidInputError: A value is not one of its column, or changes key or partition.
            NotFoundError: There is no such column.
            ConfigurationError: The writer is non-blocking.
            HoodieError: As `upsert`.
        """
        # Whole rows are written: what they have in columns that others have added must stay.
        self.refresh()
        return writing.update(self._job, values, where, batch_id)

    @guesses.of_arguments("app_id and batch_id name an input, which is written once")
    def transaction(self, app_id: str, batch_id: str | int) -> transactions.Transaction:
        """Return a transaction, to be used in a `with` block: several operations, one commit, once.

        Args:
            app_id: The writer that batches are counted for.
            batch_id: Of this one; a batch that the table has is neither read nor written.

        Raises:
            InvalidInputError: An id is empty or too long.
        """
        text = authors.checked_batch_id(str(batch_id))
        done = self.committed_batches(authors.Author(writer_id=app_id).writer_id or app_id)
        return transactions.Transaction(
            self._job, app_id, text, is_done=text in done, on_written=self._written
        )

    @property
    def inspect(self) -> inspecting.Inspection:
        """What is in the table besides rows, as tables of Arrow."""
        return inspecting.Inspection(self, self._job)

    @property
    def maintain(self) -> maintaining.Maintenance:
        """The table's services: compaction, cleaning, archiving, rollbacks, savepoints, indexes."""
        return maintaining.Maintenance(lambda: self.refresh()._job, self._job)

    @property
    def _job(self) -> writing.Job:
        return writing.Job(
            target=self._target,
            env=self._env,
            writer=self._writer,
            read=self._read_now,
            count=self.row_counts,
        )

    def _read_now(
        self, columns: Sequence[str], where: predicates.Predicate | None
    ) -> pa.RecordBatchReader:
        plan = self.explain_read(columns, where)
        rows = streams.batches(plan.tasks, self._env.engine.parallelism)
        return pa.RecordBatchReader.from_batches(plan.columns, rows)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a table does not pickle: pickle its uri, or its dataset()")

    def __repr__(self) -> str:
        key = ", ".join(self.config.record_key_fields)
        names = self.schema.arrow.names
        return f"<hoodie.Table {self.config.name} in {self.uri}: {len(names)} columns, key {key}>"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the columns, and the newest commits."""
        rows = [(each.name, str(each.type), self._role(each.name)) for each in self.schema.arrow]
        parts = [f"<p>{html.escape(repr(self)[1:-1])}</p>", _grid(("column", "type", ""), rows)]
        try:
            newest = self.inspect.timeline(_SHOWN_MAX).to_pylist()
        except errors.HoodieError as error:
            parts.append(f"<p>{html.escape(str(error))}</p>")
        else:
            names = ("requested", "action", "state", "operation", "rows", "deletes")
            told = [
                ["" if each[name] is None else str(each[name]) for name in names] for each in newest
            ]
            parts.append(_grid(names, told))
        return "".join(parts)

    def _role(self, name: str) -> str:
        config = self.config
        roles = {
            "record key": config.record_key_fields,
            "partition": config.partition_fields,
            "ordering": config.ordering_fields,
        }
        return ", ".join(role for role, names in roles.items() if name in names)


def _grid(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    first = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
    cells = ("".join(f"<td>{_text(each)}</td>" for each in row) for row in rows)
    return f"<table><tr>{first}</tr>{''.join(f'<tr>{each}</tr>' for each in cells)}</table>"


def _text(value: object) -> str:
    return "" if value is None else html.escape(str(value))
