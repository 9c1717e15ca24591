"""DataFrames written by Spark's tasks, in one commit: for more rows than one process should write.

    frames.write(frame, "file:///data/orders", {"hoodie.datasource.write.operation": "upsert"})

Options are those of `df.write.format("hoodie")` (`write_options`), and so is what they do. That
sink gets no shuffle, and one process of the driver writes what tasks have staged. Here Spark brings
the rows of each file group together, and tasks write them (`writing`). It takes a session of this
process, and no Spark Connect.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from hoodie import environment, errors, table
from hoodie.door import columns, outcomes, writers
from hoodie.model import results, schemas
from hoodie.write import retries, sessions
from hoodie_jobs.spark import reading, runtime, sink, write_options, writing

SaveMode = Literal["append", "overwrite", "ignore", "error", "errorifexists"]

_MODES: Mapping[SaveMode, write_options.IfExists] = {
    "append": write_options.IfExists.APPEND,
    "overwrite": write_options.IfExists.APPEND,
    "ignore": write_options.IfExists.IGNORE,
    "error": write_options.IfExists.ERROR,
    "errorifexists": write_options.IfExists.ERROR,
}
_TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameParser:
    """Turns a part of a DataFrame into columns as a table holds them.

    Attributes:
        schema: Of the DataFrame.
    """

    schema: pa.Schema

    def parse(self, part: pa.Table) -> pa.Table:
        """Return the rows of a part in their order."""
        held = (columns.held(each) for each in part.cast(self.schema).to_batches())
        fields = [each.with_type(columns.held_type(each.type)) for each in self.schema]
        return pa.Table.from_batches(held, pa.schema(fields))


def write(
    frame: DataFrame,
    uri: str,
    options: Mapping[str, str] | None = None,
    *,
    mode: SaveMode = "append",
    tasks: int | None = None,
) -> outcomes.Written:
    """Write all rows of a DataFrame in one commit.

    Its rows are read once, or twice where keys are looked up in the table; it must have the same
    rows, in the same order, then.

    Args:
        frame: The rows.
        uri: The table's root; the table is created if it does not exist.
        options: By Apache Hudi's names; those of `df.write.format("hoodie")`.
        mode: What becomes of a table that exists.
        tasks: How many tasks write; None for some a core.

    Raises:
        UnsupportedError: The session is one of Spark Connect; or an option is not known.
        ConfigurationError: Spark may run a task twice at once; or the table does not agree with the
            options.
        AlreadyExistsError: There is a table, and the mode is `error`.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    spark = _checked_session(frame)
    if mode not in _MODES:
        raise errors.InvalidInputError(f"mode is {mode!r}, expected one of {', '.join(_MODES)}")
    given = {**(options or {}), "path": uri}
    if mode != "append":
        given[write_options.IF_EXISTS] = _MODES[mode].value
    parsed = write_options.parse(given, is_overwrite=mode == "overwrite")
    made = sink.plan(parsed, frame.schema)
    if made.is_left_out:
        return outcomes.Written()
    env = environment.system()
    begun_s = env.clock.monotonic_s()
    opened, is_new = sink.opened_for(made, env, parsed.writer_id)
    data = reading.SparkInput(
        frame=frame.select(*(F.col(reading.quoted(name)) for name in made.schema.names)),
        columns=tuple(made.schema.names),
        parser=FrameParser(schema=made.schema),
        size_bytes=writing.TASK_BYTES * (tasks or _TASKS_PER_CORE * _cores(spark)),
    )
    writer = writers.writer_of(
        uri,
        env.random,
        writer_id=parsed.writer_id,
        lock=parsed.lock,
        options=parsed.settings,
    )
    operation = sink.operation_of(parsed, is_new=is_new)
    wanted = sessions.WriteOptions(
        operation=operation,
        transaction=writer.transaction,
        batch_id=parsed.batch_id,
        compaction=writer.compaction,
        sort_by=sink.sort_columns(parsed, opened.config, operation),
    )
    schema = sink.grown(made, opened)
    result = retries.until_won(
        lambda: _write_once(runtime.SparkRuntime(spark), opened, data, wanted, schema),
        retries.Retries(
            count_max=writer.transaction.settings.conflict_retries_max,
            random=env.random,
            wait=env.clock.sleep_s,
        ),
    )
    return outcomes.written(result, round((env.clock.monotonic_s() - begun_s) * 1000))


def _write_once(
    spark: runtime.SparkRuntime,
    opened: table.Table,
    data: reading.SparkInput,
    options: sessions.WriteOptions,
    schema: schemas.TableSchema,
) -> results.WriteResult:
    session = opened.begin_write(options, data.columns, schema)
    if isinstance(session, results.AlreadyCommitted):
        return session
    try:
        written = spark.write(data, session.task)
    except BaseException:
        session.abort(has_tasks_left=spark.has_tasks_left)
        raise
    return session.commit(written)


def _checked_session(frame: DataFrame) -> SparkSession:
    spark = frame.sparkSession
    # One of Spark Connect has none.
    if not hasattr(spark, "sparkContext"):
        raise errors.UnsupportedError(
            "frames.write needs a session of this process, and this one is of Spark Connect: use "
            "df.write.format('hoodie')"
        )
    if spark.sparkContext.getConf().get("spark.speculation", "false").lower() == "true":
        raise errors.ConfigurationError(
            "spark.speculation is true: an attempt of a task that outlives the commit would add to "
            "it; expected false, or df.write.format('hoodie')"
        )
    return spark


def _cores(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism
