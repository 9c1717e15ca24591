"""A table as a sink: `df.write.format("hoodie").save(uri)`, and `writeStream`.

A sink of Python gets the rows of each of Spark's tasks, and no shuffle that would bring together
what belongs to one file group. So a write is

    plan     here, before any task runs: options are understood, the table or the new one agrees
             with them, the columns fit
    stage    each task puts its rows into a file that is no part of the table (`staging`)
    commit   one process, on the driver, reads them in the order of the tasks, groups them in
             bounded memory (`hoodie.write.streaming`), and makes one commit

Nothing is on the timeline before the last step, which is a commit as any of the library: a driver
or a task that is killed at any moment publishes nothing, and a task that runs twice is read once.
The table is created in the last step, too. More rows than one process should write are refused with
the function that writes them in tasks (`frames.write`).

A micro-batch of a stream is a batch of the writer, named by the query's id, which its checkpoint
has, and its number: the library writes it once, however often Spark runs it.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import StructType

from hoodie import environment, errors, table
from hoodie.door import columns, outcomes, writers
from hoodie.model import commits, schema_evolution, schemas, settings, table_config
from hoodie.services import new_tables
from hoodie.write import batches
from hoodie_jobs import staging
from hoodie_jobs.spark import calls, write_options

logger = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"
"""A property of the tasks of a stream: the id that its checkpoint keeps."""

_Message = datasource.WriterCommitMessage | None


@dataclass
class Message(datasource.WriterCommitMessage):
    """What a task tells the driver.

    Attributes:
        write_id: Of the write.
        outcome: What it has staged, or why it has not.
        query_id: Of the stream; None for none.
    """

    write_id: str
    outcome: calls.Outcome[staging.Staged]
    query_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A write that may begin; it goes to the tasks.

    Attributes:
        options: What is asked for.
        schema: Columns of the rows that are staged.
        write_id: Of this write alone.
        is_left_out: Whether nothing is done, since the table exists.
    """

    options: write_options.Options
    schema: pa.Schema
    write_id: str
    is_left_out: bool = False


def plan(options: write_options.Options, schema: StructType) -> Plan:
    """Return a write of rows of these columns.

    Raises:
        InvalidInputError: The columns do not fit the table, or make no new one.
        NotFoundError: Rows are deleted, and there is no table.
        AlreadyExistsError: There is one, and `if_exists` is `error`.
        ConfigurationError: The table does not agree with the options.
    """
    env = environment.system(parallelism=1)
    # Columns of Hudi's own are those of the table that the rows were read from.
    given = arrow_types.to_arrow_schema(schema, timezone="UTC")
    kept = pa.schema([field for field in given if field.name not in schemas.META_COLUMNS])
    made = Plan(options=options, schema=kept, write_id=env.random.uuid())
    try:
        opened = table.open_table(options.uri, env)
    except errors.NotFoundError:
        if options.operation is commits.Operation.DELETE:
            raise
        _new_table(made, env)
        return made
    write_options.check_facts(options, opened.config)
    if options.if_exists is write_options.IfExists.ERROR:
        raise errors.AlreadyExistsError(
            f"there already is a table in {options.uri}, and option {write_options.IF_EXISTS} is "
            "error"
        )
    if options.if_exists is write_options.IfExists.IGNORE:
        return replace(made, is_left_out=True)
    if options.operation is commits.Operation.DELETE:
        made = replace(made, schema=_keys(kept, opened.config))
    check_columns(made, opened)
    return made


def check_columns(made: Plan, opened: table.Table) -> None:
    """Refuse rows whose columns do not fit the table: no rows of them do, either.

    Raises:
        InvalidInputError: The message names the columns.
    """
    batches.prepare(
        _held(made.schema).empty_table(),
        opened.config,
        grown(made, opened),
        made.options.operation,
        fills_columns=_adds_columns(made.options),
    )


def grown(made: Plan, opened: table.Table) -> schemas.TableSchema:
    """Return the columns of the table, and those that a write adds, if it does."""
    if not _adds_columns(made.options):
        return opened.schema
    return schema_evolution.merged(opened.schema, _held(made.schema))


def _adds_columns(options: write_options.Options) -> bool:
    key = settings.ADDS_COLUMNS_KEY
    given = {key: options.settings[key]} if key in options.settings else {}
    return settings.from_properties(given).adds_columns


def _held(schema: pa.Schema) -> pa.Schema:
    return pa.schema([each.with_type(columns.held_type(each.type)) for each in schema])


class HoodieWriter(datasource.DataSourceArrowWriter):
    """Stages rows in tasks, and writes them on the driver."""

    def __init__(self, made: Plan) -> None:
        """Take a plan; pickled to the tasks, and back to the driver."""
        self._plan = made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """Stage the rows of a task."""
        return _stage(self._plan, iterator)

    def commit(self, messages: list[_Message]) -> None:
        """Write what was staged, in one commit.

        Raises:
            HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it
                was.
        """
        made, options = self._plan, self._plan.options
        if not made.is_left_out:
            _commit(made, _staged(messages), options.writer_id, options.batch_id)

    def abort(self, messages: list[_Message]) -> None:
        """Delete what was staged."""
        _discard(self._plan.options.uri, self._plan.write_id)


class HoodieStreamWriter(datasource.DataSourceStreamArrowWriter):
    """The same for each micro-batch of a stream."""

    def __init__(self, made: Plan) -> None:
        """Take a plan; Spark makes another writer for the commit."""
        self._plan = made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """Stage the rows of a task."""
        return _stage(self._plan, iterator)

    def commit(self, messages: list[_Message], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Write a micro-batch in one commit, unless the table has it.

        Raises:
            HoodieError: As of `HoodieWriter.commit`.
        """
        told = _told(messages)
        query_ids = {each.query_id for each in told} - {None}
        if len(query_ids) != 1 or len({each.write_id for each in told}) != 1:
            raise errors.ConfigurationError(
                f"micro-batch {batchId} has {len(told)} messages of the queries {query_ids}: "
                "expected those of one"
            )
        (query_id,) = query_ids
        made = replace(self._plan, write_id=told[0].write_id)
        # Of a query with another checkpoint the first micro-batch is another one.
        batch_id = f"{query_id}/{batchId}"
        writer_id = made.options.writer_id or f"spark-{query_id}"
        if not made.is_left_out:
            _commit(made, _staged(messages), writer_id, batch_id)

    def abort(self, messages: list[_Message], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Delete what was staged."""
        for write_id in {each.write_id for each in messages if isinstance(each, Message)}:
            _discard(self._plan.options.uri, write_id)


def _stage(made: Plan, rows: Iterator[pa.RecordBatch]) -> Message:
    context = TaskContext.get()
    assert context is not None
    partition, attempt = context.partitionId(), context.taskAttemptId()
    query_id = context.getLocalProperty(_QUERY_ID)

    def staged() -> staging.Staged:
        if made.is_left_out:
            return staging.Staged(partition=partition)
        env = environment.system(parallelism=1)
        return staging.stage(
            env.open_storage(made.options.uri),
            staging.folder_of(made.write_id),
            f"{attempt}-{env.random.uuid()}",
            partition,
            (batch.select(made.schema.names) for batch in rows),
        )

    return Message(
        write_id=made.write_id, outcome=calls.outcome_of(staged), query_id=query_id or None
    )


def _told(messages: Sequence[_Message]) -> list[Message]:
    found = [each for each in messages if isinstance(each, Message)]
    assert len(found) == len(messages), messages
    return found


def _staged(messages: Sequence[_Message]) -> list[staging.Staged]:
    """Return what tasks have staged.

    Raises:
        HoodieError: A task could not.
    """
    return [calls.result_of(each.outcome) for each in _told(messages)]


def _commit(
    made: Plan, staged: Sequence[staging.Staged], writer_id: str | None, batch_id: str | None
) -> None:
    options = made.options
    rows = sum(each.rows for each in staged)
    size_bytes = sum(each.size_bytes for each in staged)
    if size_bytes > options.staged_bytes_max:
        raise errors.UnsupportedError(
            f"{rows:,} rows of {size_bytes:,} bytes were staged for {options.uri}, expected at "
            f"most {options.staged_bytes_max:,}, which one process writes: use "
            "hoodie_jobs.spark.frames.write(frame, uri, options), which writes in Spark's tasks, "
            f"write in parts, or raise the option {write_options.STAGED_MAX}"
        )
    env = environment.system()
    storage = env.open_storage(options.uri)
    opened, is_new = opened_for(made, env, writer_id)
    if rows or options.replaces_table:
        reader = staging.reader(storage, staged, made.schema)
        done = written(opened, reader, options, batch_id, is_new=is_new)
        logger.info("%s: %s", options.uri, done)
        for finding in done.findings:
            logger.warning("%s: %s", options.uri, finding)
    staging.clear(storage, made.write_id)


def opened_for(
    made: Plan, env: environment.Environment, writer_id: str | None
) -> tuple[table.Table, bool]:
    """Return the table of a write, and whether it was created for it.

    Raises:
        ConfigurationError: The table, which another process has created, does not agree with the
            options.
    """
    options = made.options
    writer = writers.writer_of(
        options.uri,
        env.random,
        writer_id=writer_id,
        lock=options.lock,
        options=options.settings,
    )
    try:
        opened = table.open_table(options.uri, env, writer)
    except errors.NotFoundError:
        config, schema = _new_table(made, env)
        table.create_table(options.uri, config, schema, env)
        return table.open_table(options.uri, env, writer), True
    write_options.check_facts(options, opened.config)
    return opened, False


def written(
    opened: table.Table,
    rows: pa.RecordBatchReader,
    options: write_options.Options,
    batch_id: str | None,
    *,
    is_new: bool,
) -> outcomes.Written:
    """Write rows as the options say.

    Args:
        opened: The table.
        rows: All of them.
        options: Of the write.
        batch_id: Of the writer; None for none.
        is_new: Whether the table was created for them, so that there is nothing to replace.

    Raises:
        HoodieError: As of `HoodieWriter.commit`.
    """
    match operation_of(options, is_new=is_new):
        case commits.Operation.DELETE:
            return opened.delete(keys=rows, batch_id=batch_id)
        case commits.Operation.INSERT_OVERWRITE_TABLE:
            return opened.overwrite(rows, batch_id=batch_id)
        case commits.Operation.INSERT_OVERWRITE:
            return opened.overwrite(rows, replace="partitions", batch_id=batch_id)
        case commits.Operation.UPSERT:
            return opened.upsert(rows, batch_id=batch_id)
        case commits.Operation.BULK_INSERT:
            sort_by = sort_columns(options, opened.config, commits.Operation.BULK_INSERT)
            return opened.insert(rows, bulk=True, sort_by=sort_by, batch_id=batch_id)
        case _:
            return opened.insert(rows, batch_id=batch_id)


def operation_of(options: write_options.Options, *, is_new: bool) -> commits.Operation:
    """Return what is done with the rows.

    Args:
        options: Of the write.
        is_new: Whether the table was created for them.
    """
    if options.replaces_table and not is_new:
        return commits.Operation.INSERT_OVERWRITE_TABLE
    if is_new and options.operation.replaces:
        return commits.Operation.INSERT
    return options.operation


def sort_columns(
    options: write_options.Options,
    config: table_config.TableConfig,
    operation: commits.Operation,
) -> tuple[str, ...]:
    """Return the columns by which an operation sorts."""
    if operation is not commits.Operation.BULK_INSERT:
        return ()
    return config.record_key_fields if options.sort_by is None else options.sort_by


def _new_table(
    made: Plan, env: environment.Environment
) -> tuple[table_config.TableConfig, schemas.TableSchema]:
    """Return the table that a write creates.

    Raises:
        HoodieError: The options, or the columns, make none.
    """
    chain = table_config.ChainName(id=env.random.uuid())
    wish = write_options.wish(made.options, chain)
    schema = schemas.from_arrow(columns.schema_of(made.schema), wish.name)
    config = new_tables.new_table(wish, schema, write_options.spelled)
    # As stored it says how its keys are made.
    stored = table_config.from_properties(table_config.to_properties(config))
    write_options.check_facts(made.options, stored)
    return config, schema


def _keys(schema: pa.Schema, config: table_config.TableConfig) -> pa.Schema:
    """Return the columns that say which rows are deleted.

    Raises:
        InvalidInputError: One is missing.
    """
    fields = [*config.record_key_fields, *config.partition_fields]
    names = dict.fromkeys(
        name if name in schema.names else name.partition(".")[0] for name in fields
    )
    if missing := [name for name in names if name not in schema.names]:
        raise errors.InvalidInputError(
            f"rows to delete lack the column {missing[0]!r}: expected those of the record key and "
            f"of the partition, {', '.join(names)}"
        )
    return pa.schema([schema.field(name) for name in names])


def _discard(uri: str, write_id: str) -> None:
    storage = environment.system(parallelism=1).open_storage(uri)
    staging.clear(storage, write_id)
