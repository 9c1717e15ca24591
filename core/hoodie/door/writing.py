"""Writes as people ask for them: rows in any form, keys or a filter, one commit each."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, environment, errors
from hoodie.door import columns as forms
from hoodie.door import inputs, outcomes, writers
from hoodie.model import column_names, commits, results, schemas, table_config
from hoodie.services import definition
from hoodie.transaction import manager
from hoodie.write import sessions

with deferred.imports():
    from hoodie.door import expressions, filters
    from hoodie.filegroup import projecting
    from hoodie.model import predicates
    from hoodie.write import composition, pending

_PUSHED_MAX = 1000
"""So many record keys at most are looked for by a filter; for more all rows are read."""

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

    @property
    def all_columns(self) -> pa.Schema:
        """The table's columns, after the meta columns."""
        return pa.schema([*schemas.meta_fields(), *self.columns])

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


Step: TypeAlias = "composition.Part | Chosen"
"""One of the operations of a write: of rows that are given, or that a filter finds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Rows of the table that are changed, or deleted.

    Attributes:
        found: Which.
        changes: What their columns are set to; None to delete them.
    """

    found: filters.Filter
    changes: Mapping[str, pc.Expression] | None = None

    @property
    def operation(self) -> commits.Operation:
        """What it does alone."""
        return commits.Operation.DELETE if self.changes is None else commits.Operation.UPSERT


def write(job: Job, steps: Sequence[Step], batch_id: str | None) -> outcomes.Written:
    """Do operations one after the other, in one commit; none for nothing to do.

    Raises:
        InvalidInputError: Rows do not fit the table, or are too many beside a filter.
        ConfigurationError: The writer is non-blocking, and rows are found by a filter.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    if len(steps) == 1:
        return _write_one(job, steps[0], batch_id)
    options = job.options(commits.Operation.UPSERT, batch_id)

    def write_all() -> results.WriteResult | None:
        given = [each for each in steps if isinstance(each, composition.Part)]
        is_empty = all(isinstance(each.rows, pa.Table) and not len(each.rows) for each in given)
        if len(given) == len(steps) and is_empty:
            composition.composed(given, job.target.config, job.target.schema)
            return None
        return sessions.write_composed(
            job.target,
            [_selection(job, each) if isinstance(each, Chosen) else each for each in steps],
            options,
            job.env,
        )

    return job.timed(write_all)


def _write_one(job: Job, step: Step, batch_id: str | None) -> outcomes.Written:
    options = job.options(step.operation, batch_id)
    if isinstance(step, composition.Part):
        return write_rows(job, step.rows, options)
    chosen = step

    def write_chosen() -> results.WriteResult | None:
        sessions.check_selected(job.target, options)
        # A write that finds nothing would be rolled back.
        if not _has_rows(job, [schemas.RECORD_KEY], chosen.found):
            return None
        by = sessions.delete_selected if chosen.changes is None else sessions.update_selected
        return by(job.target, lambda: _selected(job, chosen, None), options, job.env)

    return job.timed(write_chosen)


def _selection(job: Job, chosen: Chosen) -> pending.Selection:
    return pending.Selection(
        select=lambda before: _selected(job, chosen, before), deletes=chosen.changes is None
    )


def _selected(job: Job, chosen: Chosen, before: pending.Pending | None) -> pa.Table:
    """Return the rows, as operations before leave them, with what they are set to.

    Raises:
        ConflictError: Another writer has changed the columns since they were read.
    """
    names = [schemas.RECORD_KEY, schemas.PARTITION_PATH]
    if chosen.changes is not None:
        _check_columns(job)
        names += job.columns.names
    rows = _found(job, names, chosen.found, before)
    changed = {
        name: _evaluated(name, change, rows, job.columns.field(name).type)
        for name, change in (chosen.changes or {}).items()
    }
    for name, column in changed.items():
        position = rows.schema.get_field_index(name)
        rows = rows.set_column(position, job.columns.field(name), column)
    return rows


def delete(job: Job, where: object, keys: object, batch_id: str | None) -> outcomes.Written:
    """Delete the rows that a filter keeps, or those of some keys.

    Raises:
        InvalidInputError: Both or neither are given, or they are malformed.
        ConfigurationError: The writer is non-blocking, and rows are deleted by a filter.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    return write(job, [deletion(job, where, keys)], batch_id)


def deletion(job: Job, where: object, keys: object) -> Step:
    """Return the operation that deletes the rows that a filter keeps, or those of some keys.

    Raises:
        InvalidInputError: Both or neither are given, or they are malformed.
        NotFoundError: The filter names a column that is not there.
    """
    if (where is None) == (keys is None):
        raise errors.InvalidInputError(
            "delete: expected either where=... or keys=...; overwrite([]) deletes all rows"
        )
    listed = list(where) if isinstance(where, list | tuple | set) else []
    if not filters.is_triple(where) and any(not isinstance(each, tuple | list) for each in listed):
        raise errors.InvalidInputError(
            f"delete: where is a list of values: expected keys={listed!s:.80}, or a filter"
        )
    if isinstance(keys, str | bytes | int | float):
        raise errors.InvalidInputError(
            f"delete: keys is {keys!r:.80}, expected a list, such as [{keys!r:.80}]"
        )
    if keys is not None:
        values = _values(keys)
        if values is not None:
            return _deletion_of(job, values)
        rows = inputs.data_of(keys, job.columns)
        return composition.Part(operation=commits.Operation.DELETE, rows=rows)
    return Chosen(found=filters.filter_of(where, job.all_columns))


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


def _deletion_of(job: Job, values: list[object]) -> Step:
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
    rows = inputs.data_of({fields[0]: values}, job.columns)
    if not values or not job.target.config.partition_fields:
        return composition.Part(operation=commits.Operation.DELETE, rows=rows)
    # In which partition a key is only a look into the table says.
    return Chosen(found=filters.filter_of([(fields[0], "in", values)], job.columns))


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
    return write(job, [change(job, values, where)], batch_id)


def change(job: Job, values: Mapping[str, Value], where: object) -> Chosen:
    """Return the operation that sets columns of the rows that a filter keeps.

    Raises:
        InvalidInputError: The values or the filter are malformed, or a value changes a key.
        NotFoundError: There is no such column.
    """
    changes = changes_of(values, job.target.config, job.columns)
    return Chosen(found=filters.filter_of(where, job.all_columns), changes=changes)


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
        forms.check_kept(name, (value,), kind)
        try:
            found[name] = pc.scalar(_scalar(value, kind))
        except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
            hint = ""
            if isinstance(value, str):
                hint = "; expressions are those of pyarrow.compute, such as pc.field('fare') * 2"
            raise errors.InvalidInputError(
                f"update: column {name!r} is {kind}, and {value!r:.80} is not one: {error}{hint}"
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


def _found(
    job: Job, columns: Sequence[str], found: filters.Filter, before: pending.Pending | None
) -> pa.Table:
    """Return the rows that a filter keeps, as operations before leave them."""
    full = job.all_columns
    fields = pa.schema([full.field(name) for name in columns])
    batches = _batches(job, columns, found)
    if before is None:
        return pa.Table.from_batches(batches, fields)
    kept = [batch.filter(pc.invert(before.names(batch))) for batch in batches]
    changed = before.after(_stored(job, before))
    whole = projecting.project(changed, full)
    if found.predicate is not None:
        whole = predicates.kept(found.predicate, whole, whole.column_names)
    kept += [found.kept(batch).select(list(columns)) for batch in whole.to_batches()]
    return pa.Table.from_batches([batch.cast(fields) for batch in kept], fields)


def _stored(job: Job, before: pending.Pending) -> pa.Table:
    """Return what the table has of the rows that operations before name."""
    names = [schemas.RECORD_KEY, schemas.PARTITION_PATH, *job.columns.names]
    full = job.all_columns
    fields = pa.schema([full.field(name) for name in names])
    keys = before.keys
    few = predicates.In(schemas.RECORD_KEY, tuple(keys.to_pylist()))
    batches = job.read(names, few if len(keys) <= _PUSHED_MAX else None)
    return pa.Table.from_batches([batch.filter(before.names(batch)) for batch in batches], fields)


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
