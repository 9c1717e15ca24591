"""Writes as people ask for them: rows in any form, keys or a filter, one commit each."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, environment, errors
from hoodie.door import inputs, outcomes, writers
from hoodie.model import column_names, commits, results, schemas, table_config
from hoodie.services import definition
from hoodie.transaction import manager
from hoodie.write import sessions

with deferred.imports():
    from hoodie.door import expressions, filters
    from hoodie.model import predicates

Value: TypeAlias = object | pc.Expression
"""What a column is set to: a literal, or an expression over the columns of the row."""


class Reader(Protocol):
    """Reads a table as it is now."""

    def __call__(
        self, columns: Sequence[str], where: predicates.Predicate | None
    ) -> pa.RecordBatchReader:
        """Return the rows that a filter keeps."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a write has to work with.

    Attributes:
        target: The table.
        env: Time, ids, threads.
        writer: On whose behalf.
        read: Reads the table as it is now.
        count: Looks up how many rows of a write were new.
    """

    target: manager.Target
    env: environment.Environment
    writer: writers.Writer
    read: Reader
    count: outcomes.RowCounter

    @property
    def columns(self) -> pa.Schema:
        """The table's columns."""
        return self.target.schema.arrow

    @property
    def adds_columns(self) -> bool:
        """Whether its writes add columns, and widen types."""
        return self.writer.transaction.settings.adds_columns

    def options(
        self, operation: commits.Operation, batch_id: str | None = None
    ) -> sessions.WriteOptions:
        """Return the options of a write by the writer.

        Raises:
            InvalidInputError: A batch has an id, and its writer has not.
        """
        if batch_id is not None and self.writer.transaction.author.writer_id is None:
            raise errors.InvalidInputError(
                "batch_id without a writer_id: a writer's batches have ids of their own; open the "
                "table with writer_id=..., or use Table.transaction"
            )
        return sessions.WriteOptions(
            operation=operation,
            transaction=self.writer.transaction,
            batch_id=batch_id,
            compaction=self.writer.compaction,
        )

    def timed(
        self, write: Callable[[], results.WriteResult | None], *, is_counted: bool = False
    ) -> outcomes.Written:
        """Return what a write did, and how long it took, with a look at new rows if asked for."""
        begun_s = self.env.clock.monotonic_s()
        result = write()
        count = outcomes.counted(result, self.count) if is_counted else None
        took_ms = round((self.env.clock.monotonic_s() - begun_s) * 1000)
        return outcomes.written(result, took_ms, count)


def write_rows(
    job: Job, rows: object, options: sessions.WriteOptions, *, is_counted: bool = False
) -> outcomes.Written:
    """Write rows in one commit; none, and no commit, for no rows.

    Raises:
        InvalidInputError: They are no rows, or do not fit the table.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """

    def write() -> results.WriteResult | None:
        data = inputs.data_of(rows, job.columns)
        # A replacement by no rows empties what it replaces.
        if options.replacement is None and isinstance(data, pa.Table) and not data.num_rows:
            schemas.check_fits(data.schema, job.target.schema, may_miss=job.columns.names)
            return None
        return sessions.write(job.target, data, options, job.env)

    return job.timed(write, is_counted=is_counted)


def delete(job: Job, where: object, keys: object, batch_id: str | None) -> outcomes.Written:
    """Delete the rows that a filter keeps, or those of some keys.

    Raises:
        InvalidInputError: Both or neither are given, or they are malformed.
        ConfigurationError: The writer is non-blocking, and rows are deleted by a filter.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    if (where is None) == (keys is None):
        raise errors.InvalidInputError("delete: expected either where=... or keys=...")
    listed = list(where) if isinstance(where, list | tuple | set) else []
    if not filters.is_triple(where) and any(not isinstance(each, tuple | list) for each in listed):
        raise errors.InvalidInputError(
            f"delete: where is a list of values: expected keys={listed!s:.80}, or a filter"
        )
    options = job.options(commits.Operation.DELETE, batch_id)
    if keys is not None:
        values = _values(keys)
        if values is None:
            return write_rows(job, keys, options)
        return _delete_keys(job, values, options)
    full = pa.schema([*schemas.meta_fields(), *job.columns])
    return _delete_where(job, filters.filter_of(where, full), options)


def _values(keys: object) -> list[object] | None:
    """Return the values of a list of keys; None for rows that have them in columns."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        found: list[object] = keys.to_pylist()
        return found
    to_list = getattr(keys, "to_list", None)
    if callable(to_list) and not hasattr(keys, "columns"):
        return list(to_list())
    if isinstance(keys, list | tuple | set | frozenset) and not any(
        isinstance(each, Mapping | pa.RecordBatch | pa.Table) for each in keys
    ):
        return list(keys)
    return None


def _delete_keys(
    job: Job, values: list[object], options: sessions.WriteOptions
) -> outcomes.Written:
    fields = job.target.config.record_key_fields
    if not fields:
        raise errors.InvalidInputError(
            f"delete by keys: {job.target.storage.uri} has no record key, expected where=..., a "
            "filter of the rows"
        )
    if len(fields) != 1:
        raise errors.InvalidInputError(
            f"delete by keys: the record key of {job.target.storage.uri} is {', '.join(fields)}, "
            "expected rows with these columns"
        )
    if not values:
        return outcomes.Written()
    rows = inputs.data_of({fields[0]: values}, job.columns)
    if not job.target.config.partition_fields:
        return write_rows(job, rows, options)
    # In which partition a key is only a look into the table says.
    found = filters.filter_of([(fields[0], "in", values)], job.columns)
    return _delete_where(job, found, options)


def _delete_where(
    job: Job, found: filters.Filter, options: sessions.WriteOptions
) -> outcomes.Written:
    names = [schemas.RECORD_KEY, schemas.PARTITION_PATH]

    def select() -> pa.Table:
        return _selected(job, names, found)

    def write() -> results.WriteResult | None:
        sessions.check_selected(job.target, options)
        # A write that finds nothing would be rolled back.
        if not _has_rows(job, names, found):
            return None
        return sessions.delete_selected(job.target, select, options, job.env)

    return job.timed(write)


def update(
    job: Job, values: Mapping[str, Value], where: object, batch_id: str | None
) -> outcomes.Written:
    """Set columns of the rows that a filter keeps.

    Raises:
        InvalidInputError: The values or the filter are malformed, or a value changes a key.
        NotFoundError: There is no such column.
        ConfigurationError: The writer is non-blocking.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    options = job.options(commits.Operation.UPSERT, batch_id)
    changes = changes_of(values, job.target.config, job.columns)
    full = pa.schema([*schemas.meta_fields(), *job.columns])
    found = filters.filter_of(where, full)

    def select() -> pa.Table:
        _check_columns(job)
        meta = [schemas.RECORD_KEY, schemas.PARTITION_PATH]
        rows = _selected(job, [*meta, *job.columns.names], found)
        changed = {
            name: _evaluated(name, change, rows, job.columns.field(name).type)
            for name, change in changes.items()
        }
        for name, column in changed.items():
            position = rows.schema.get_field_index(name)
            rows = rows.set_column(position, job.columns.field(name), column)
        return rows

    def write() -> results.WriteResult | None:
        sessions.check_selected(job.target, options)
        if not _has_rows(job, [schemas.RECORD_KEY], found):
            return None
        return sessions.update_selected(job.target, select, options, job.env)

    return job.timed(write)


def _check_columns(job: Job) -> None:
    """Refuse to write whole rows that would lack columns of the table.

    Raises:
        ConflictError: Another writer has changed the columns since they were read.
    """
    now = definition.load_schema(job.target.storage, job.target.config).arrow
    if not now.equals(job.columns):
        raise errors.ConflictError(
            f"the columns of {job.target.storage.uri} were changed while rows were selected: "
            "update again"
        )


def changes_of(
    values: Mapping[str, Value], config: table_config.TableConfig, columns: pa.Schema
) -> dict[str, pc.Expression]:
    """Return what an update sets columns to.

    Args:
        values: As of `front.Front.update`.
        config: The table's.
        columns: The table's.

    Raises:
        InvalidInputError: They are malformed, or one changes a key.
        NotFoundError: There is no such column.
    """
    if not values or not hasattr(values, "items"):
        raise errors.InvalidInputError(
            "update: expected a dict of columns and what they are set to, such as {'fare': 0}"
        )
    fixed = {*config.record_key_fields, *config.partition_fields}
    found = {}
    for name, value in values.items():
        if name not in columns.names:
            raise errors.NotFoundError(column_names.absence(name, columns.names))
        if name in fixed:
            raise errors.InvalidInputError(
                f"update: column {name!r} is part of the record key or of the partition, which say "
                "where a row is: delete the row, and insert it again"
            )
        if isinstance(value, pc.Expression):
            found[name] = value
            continue
        if value is None and config.has_partial_updates:
            raise errors.InvalidInputError(
                f"update: column {name!r} is set to null, which changes nothing in a table with "
                "partial updates"
            )
        kind = columns.field(name).type
        try:
            found[name] = pc.scalar(_scalar(value, kind))
        except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
            raise errors.InvalidInputError(
                f"update: column {name!r} is {kind}, and {value!r:.80} is not one: {error}"
            ) from error
    return found


def _scalar(value: object, kind: pa.DataType) -> pa.Scalar:
    """Return a literal in a column's type, by the rules of filters.

    Raises:
        ArrowException, TypeError, OverflowError, ValueError: It is not of that type.
    """
    is_number = isinstance(value, int | float | decimal.Decimal)
    if is_number and pa.types.is_temporal(kind):
        raise TypeError("a number would be taken for days or for parts of a second")
    if isinstance(value, str) and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return predicates.of_text(value, kind)
    if pa.types.is_integer(kind) and isinstance(value, float | decimal.Decimal):
        if value % 1:
            raise ValueError("a fraction would be cut off")
        value = int(value)
    if isinstance(value, decimal.Decimal) and pa.types.is_floating(kind):
        value = float(value)
    return pa.scalar(value, kind)


def _evaluated(
    name: str, change: pc.Expression, rows: pa.Table, kind: pa.DataType
) -> pa.ChunkedArray:
    try:
        return expressions.evaluated(change, rows).cast(kind)
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise errors.InvalidInputError(
            f"update: column {name!r} is {kind}, and {change!s:.200} does not become one: "
            f"{str(error).partition(' in ')[0]}"
        ) from error


def _has_rows(job: Job, columns: Sequence[str], found: filters.Filter) -> bool:
    return any(batch.num_rows for batch in _batches(job, columns, found))


def _selected(job: Job, columns: Sequence[str], found: filters.Filter) -> pa.Table:
    full = pa.schema([*schemas.meta_fields(), *job.columns])
    fields = pa.schema([full.field(name) for name in columns])
    return pa.Table.from_batches(_batches(job, columns, found), fields)


def _batches(job: Job, columns: Sequence[str], found: filters.Filter) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys([*columns, *found.columns]))
    for batch in job.read(wanted, found.predicate):
        yield found.kept(batch).select(list(columns))


Replaced: TypeAlias = Literal["table", "partitions"] | Sequence[str]
"""What an overwrite replaces: everything, the partitions of its rows, or those of some paths."""


def overwrite(job: Job, rows: object, replace_: Replaced, batch_id: str | None) -> outcomes.Written:
    """Replace rows by others.

    Raises:
        InvalidInputError: What is replaced is malformed, or the rows do not fit.
        ConfigurationError: The writer is non-blocking.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    if replace_ == "table":
        options = job.options(commits.Operation.INSERT_OVERWRITE_TABLE, batch_id)
    else:
        options = job.options(commits.Operation.INSERT_OVERWRITE, batch_id)
        if isinstance(replace_, str):
            if replace_ != "partitions":
                raise errors.InvalidInputError(
                    f"overwrite: replace is {replace_!r}, expected 'table', 'partitions', or a "
                    "list of partition paths"
                )
        else:
            options = replace(options, partitions=tuple(replace_))
    return write_rows(job, rows, options)
