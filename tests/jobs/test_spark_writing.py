"""Writing in Spark's tasks: both ways of dividing the work, and tasks that die."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import environment, table
from hoodie.model import commits, jobs, settings
from hoodie.sources import local_files
from hoodie.write import sessions
from hoodie_jobs import opening
from hoodie_jobs.spark import calls, engine, reading, writing
from support.dying_tasks import DyingEngine, DyingParser
from support.job_workshop import SCHEMA, Workshop, batches_of

CSV = jobs.Source(format=jobs.SourceFormat.CSV)
NON_BLOCKING = settings.ConcurrencyMode.NON_BLOCKING
SINGLE_WRITER = settings.ConcurrencyMode.SINGLE_WRITER


@pytest.mark.parametrize(
    ("size_bytes", "parallelism", "mode", "tasks", "is_shuffled"),
    [
        (0, 2, NON_BLOCKING, 1, False),
        (8 << 20, 2, NON_BLOCKING, 2, False),
        (1 << 20, 64, NON_BLOCKING, 1, False),
        (64 << 20, 64, NON_BLOCKING, 64, True),
        (1 << 30, 2, NON_BLOCKING, 16, True),
        (100 << 30, 64, NON_BLOCKING, 1600, True),
        (0, 2, SINGLE_WRITER, 1, False),
        (8 << 20, 2, SINGLE_WRITER, 2, True),
    ],
)
def test_few_tasks_write_directly_and_many_shuffle(
    size_bytes: int,
    parallelism: int,
    mode: settings.ConcurrencyMode,
    tasks: int,
    *,
    is_shuffled: bool,
) -> None:
    expected = writing.Layout(tasks=tasks, is_shuffled=is_shuffled)
    assert writing.layout(size_bytes, parallelism, mode) == expected


@pytest.fixture
def content(workshop: Workshop) -> tuple[str, pa.Table]:
    """A file with each key twice, far apart, and what a table of it holds."""
    numbers = range(20_000)
    regions = ("eu", "us", "asia")
    first = "".join(f"k{n},{regions[n % 3]},{n},{'x' * 80}\n" for n in numbers)
    second = "".join(f"k{n},{regions[n % 3]},{-n},\n" for n in reversed(numbers))
    expected = pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "region": [regions[n % 3] for n in numbers],
            "amount": [-n for n in numbers],
            "note": ["x" * 80] * len(numbers),
        },
        schema=SCHEMA,
    )
    return workshop.file("in.csv", first + second), expected


def begin(workshop: Workshop, path: str) -> sessions.WriteSession:
    spec = workshop.spec(batches_of(path))
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT, transaction=opening.transaction_of(spec)
    )
    session = workshop.table().begin_write(options, SCHEMA.names)
    assert isinstance(session, sessions.WriteSession)
    return session


def read_sorted(workshop: Workshop) -> pa.Table:
    rows = workshop.table().read().read_all()
    return rows.sort_by("id").combine_chunks()


@pytest.mark.parametrize("is_shuffled", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_arrive_in_their_order_however_the_work_is_divided(
    spark: SparkSession,
    workshop: Workshop,
    content: tuple[str, pa.Table],
    count: int,
    *,
    is_shuffled: bool,
) -> None:
    path, expected = content
    data = reading.read(spark, [path], CSV, SCHEMA)
    session = begin(workshop, path)

    outcomes = writing.write(
        data, session.task, writing.Layout(tasks=count, is_shuffled=is_shuffled)
    )
    stats = [stat for outcome in outcomes for stat in calls.result_of(outcome)]
    session.commit(stats)

    assert read_sorted(workshop).equals(expected.sort_by("id").combine_chunks())
    if is_shuffled:
        # Each file group is written by one task.
        groups = [(stat.partition_path, stat.file_id) for stat in stats]
        assert len(groups) == len(set(groups)) == 12


def test_task_that_dies_after_writing_is_tried_again_and_its_files_are_removed(
    spark: SparkSession, workshop: Workshop, content: tuple[str, pa.Table]
) -> None:
    path, expected = content
    data = reading.read(spark, [path], CSV, SCHEMA)
    mark = workshop.folder / "died"
    dying = reading.SparkInput(
        frame=data.frame,
        columns=data.columns,
        parser=DyingParser(data.parser, mark),  # type: ignore[arg-type] # parses alike
        size_bytes=data.size_bytes,
    )
    session = begin(workshop, path)

    outcomes = writing.write(dying, session.task, writing.Layout(tasks=2, is_shuffled=False))
    stats = [stat for outcome in outcomes for stat in calls.result_of(outcome)]

    assert mark.exists()
    written = {name for stat in stats for name in stat.log_files}
    assert workshop.data_files() > written, "the dead task has left files"
    session.commit(stats)
    assert workshop.data_files() == written
    assert read_sorted(workshop).equals(expected.sort_by("id").combine_chunks())


def test_compaction_task_that_dies_after_writing_is_tried_again(
    spark: SparkSession, workshop: Workshop, content: tuple[str, pa.Table]
) -> None:
    path, expected = content
    workshop.write(path)
    dying = DyingEngine(engine.SparkEngine(spark.sparkContext), workshop.folder / "died")
    outside = replace(environment.system(parallelism=1), engine=dying)
    opened = table.open_table(workshop.uri, outside)
    spec = workshop.spec(jobs.Compact(step=jobs.CompactionStep.SCHEDULE))
    instant_time = opened.schedule_compaction(opening.transaction_of(spec))
    assert instant_time is not None

    commit = opened.compact(instant_time, opening.transaction_of(spec))

    assert dying.mark.exists()
    base_files = {name for name in workshop.data_files() if name.endswith(".parquet")}
    assert base_files == {Path(stat.path).name for stat in commit.stats}
    assert read_sorted(workshop).equals(expected.sort_by("id").combine_chunks())


def test_both_engines_write_the_same(
    spark: SparkSession, workshop: Workshop, content: tuple[str, pa.Table]
) -> None:
    path, expected = content
    workshop.write(path)
    assert read_sorted(workshop).equals(expected.sort_by("id").combine_chunks())
    assert local_files.read([path], CSV, SCHEMA).num_rows == 40_000
