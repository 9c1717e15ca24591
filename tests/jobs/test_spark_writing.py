"""Writing in Spark's tasks: both ways of dividing the work, and tasks that die."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import environment, table
from hoodie.contract import input_sources, job_specs
from hoodie.model import commits, schemas, settings, table_config
from hoodie.sources import local_files
from hoodie.write import sessions, write_task
from hoodie_jobs import opening
from hoodie_jobs.spark import calls, engine, reading, small, writing
from support.processes.dying_tasks import DyingEngine, DyingTask
from support.tables import filtered_metadata, record_indexes
from support.tables.job_workshop import SCHEMA, Workshop, batches_of, rows_of

CSV = input_sources.Source(format=input_sources.SourceFormat.CSV)


@pytest.mark.parametrize(
    ("size_bytes", "parallelism", "of_small", "of_any"),
    [
        (0, 2, 1, 2),
        (8 << 20, 2, 2, 2),
        (1 << 20, 64, 1, 64),
        (64 << 20, 64, 8, 64),
        (1 << 30, 2, 2, 16),
        (100 << 30, 64, 8, 1600),
    ],
)
def test_as_many_tasks_as_their_cost_is_worth(
    size_bytes: int, parallelism: int, of_small: int, of_any: int
) -> None:
    assert small.task_count(size_bytes, parallelism) == of_small
    assert writing.task_count(size_bytes, parallelism) == of_any


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


def begin(workshop: Workshop, path: str, **changes: object) -> sessions.WriteSession:
    spec = workshop.spec(batches_of(path), **changes)
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT, transaction=opening.transaction_of(spec)
    )
    session = workshop.table().begin_write(options, SCHEMA.names)
    assert isinstance(session, sessions.WriteSession)
    return session


def read_sorted(workshop: Workshop) -> pa.Table:
    rows = workshop.table().read().read_all()
    return rows.sort_by("id").combine_chunks()


Data = reading.SparkInput | small.SmallInput


def look_at(spark: SparkSession, path: str, *, is_small: bool) -> Data:
    if not is_small:
        return reading.read(spark, [path], CSV, SCHEMA)
    columns = local_files.carried_columns([path], CSV, SCHEMA)
    size_bytes = local_files.size_bytes(path)
    return small.SmallInput(
        files=(path,), source=CSV, schema=SCHEMA, columns=columns, size_bytes=size_bytes
    )


def write(
    spark: SparkSession, data: Data, task: write_task.WriteTask, count: int
) -> list[commits.Written]:
    is_placed = task.config.looks_keys_up
    lookups = engine.LookupEngine(engine.SparkEngine(spark.sparkContext))
    match data:
        case reading.SparkInput() if is_placed:
            outcomes = writing.write_placed(data, task, count, lookups)
        case reading.SparkInput():
            outcomes = writing.write(data, task, count)
        case _ if is_placed:
            outcomes = small.write_placed(spark.sparkContext, data, task, count, lookups)
        case _:
            outcomes = small.write(spark.sparkContext, data, task, count)
    return [each for outcome in outcomes for each in calls.result_of(outcome)]


@pytest.mark.parametrize("is_small", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_arrive_in_their_order_however_the_work_is_divided(
    spark: SparkSession,
    workshop: Workshop,
    content: tuple[str, pa.Table],
    count: int,
    *,
    is_small: bool,
) -> None:
    path, expected = content
    session = begin(workshop, path)

    stats = write(spark, look_at(spark, path, is_small=is_small), session.task, count)
    session.commit(stats)

    assert read_sorted(workshop).equals(expected.sort_by("id").combine_chunks())
    # Each file group is written by one task.
    groups = [(stat.partition_path, stat.file_id) for stat in stats]
    assert len(groups) == len(set(groups)) == 12


def copy_on_write(folder: Path) -> tuple[Workshop, settings.WriteSettings]:
    """Return a workshop with such a table, and the settings of its writers."""
    workshop = Workshop(folder)
    cow = table_config.TableType.COPY_ON_WRITE
    workshop.config = replace(workshop.config, table_type=cow)
    workshop.create()
    optimistic = settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC, clock_wait_ms=0
    )
    return workshop, optimistic


@pytest.mark.parametrize("kind", table_config.TableType)
@pytest.mark.parametrize("is_small", [False, True])
def test_tasks_look_keys_up_by_partition(
    spark: SparkSession, tmp_path: Path, kind: table_config.TableType, *, is_small: bool
) -> None:
    """All rows of a partition are in one task: two would put a new key into two file groups."""
    workshop = Workshop(tmp_path)
    workshop.config = replace(
        workshop.config,
        table_type=kind,
        bucket_count=None,
        hash_fields=(),
        index=table_config.IndexKind.SIMPLE,
    )
    workshop.create()
    optimistic = settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC,
        clock_wait_ms=0,
        small_file_bytes=0,
    )
    regions = ("eu", "us", "asia")
    for first in (0, 1_000, 500):
        rows = [f"k{n},{regions[n % 3]},{n + first}" for n in range(first, first + 2_000)]
        path = workshop.file("in.csv", "".join(f"{row},a\n{row},b\n" for row in rows))
        session = begin(workshop, path, settings=optimistic)
        session.commit(write(spark, look_at(spark, path, is_small=is_small), session.task, 3))
    found = {row["id"]: (row["amount"], row["note"]) for row in read_sorted(workshop).to_pylist()}
    assert read_sorted(workshop).num_rows == len(found) == 3_000
    assert found["k0"] == (0, "b")
    assert found["k700"] == (1_200, "b")
    assert found["k2999"] == (3_999, "b")
    assert not workshop.table().timeline().pending


@pytest.mark.parametrize("is_small", [False, True])
def test_tasks_write_bloom_filters_and_report_keys(
    spark: SparkSession, tmp_path: Path, *, is_small: bool
) -> None:
    workshop, optimistic = copy_on_write(tmp_path)
    path = workshop.file("1.csv", "".join(f"k{n},eu,{n},a\n" for n in range(2_000)))
    transaction = opening.transaction_of(workshop.spec(batches_of(path), settings=optimistic))
    env = environment.system(parallelism=1)
    opened = filtered_metadata.with_bloom_filters(workshop.table(), transaction, env)
    opened = record_indexes.with_record_index(opened, transaction, env)
    session = begin(workshop, path, settings=optimistic)
    stats = write(spark, look_at(spark, path, is_small=is_small), session.task, 2)
    session.commit(stats)
    found = opened.validate_metadata()
    assert found.is_right
    assert (found.filters_compared, found.groups_compared) == (len(stats), len(stats))


@pytest.mark.parametrize("is_small", [False, True])
def test_copy_on_write_file_group_gets_one_base_file_however_the_work_is_divided(
    spark: SparkSession, tmp_path: Path, *, is_small: bool
) -> None:
    workshop, optimistic = copy_on_write(tmp_path)
    numbers = range(2_000)
    first = workshop.file("1.csv", "".join(f"k{n},eu,{n},a\n" for n in numbers))
    second = workshop.file("2.csv", "".join(f"k{n},eu,{-n},\n" for n in numbers if n % 2))
    for path in (first, second):
        session = begin(workshop, path, settings=optimistic)
        stats = write(spark, look_at(spark, path, is_small=is_small), session.task, 5)
        assert sorted(stat.file_id[:8] for stat in stats) == [f"0000000{n}" for n in range(4)]
        session.commit(stats)
    rows = {key: amount for key, _, amount, note in rows_of(read_sorted(workshop)) if note == "a"}
    assert rows == {f"k{n}": -n if n % 2 else n for n in numbers}
    assert len(workshop.data_files()) == 8


@pytest.mark.parametrize("is_small", [False, True])
def test_task_that_dies_after_writing_is_tried_again_and_its_files_are_removed(
    spark: SparkSession, workshop: Workshop, content: tuple[str, pa.Table], *, is_small: bool
) -> None:
    path, expected = content
    mark = workshop.folder / "died"
    data = look_at(spark, path, is_small=is_small)
    session = begin(workshop, path)

    stats = write(spark, data, DyingTask.of(session.task, mark), 2)

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
    env = replace(environment.system(parallelism=1), engine=dying)
    opened = table.open_table(workshop.uri, env)
    spec = workshop.spec(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE))
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


@pytest.mark.parametrize("is_small", [False, True])
def test_nested_columns_are_written_however_the_work_is_divided(
    spark: SparkSession, tmp_path: Path, *, is_small: bool
) -> None:
    workshop = Workshop(tmp_path)
    source = input_sources.Source(format=input_sources.SourceFormat.PARQUET)
    point = pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema(
        [("id", pa.string()), ("point", point), ("by_name", pa.map_(pa.string(), point))]
    )
    points = [None, {"x": 1, "tags": []}, {"x": None, "tags": ["a", "b"]}]
    rows = [
        {
            "id": f"k{n:03d}",
            "point": points[n % 3],
            "by_name": (None, [], [("a", points[n % 2 + 1])])[n % 3],
        }
        for n in range(300)
    ]
    expected = pa.Table.from_pylist(rows, schema)
    path = workshop.parquet("nested", dict(zip(schema.names, expected.columns, strict=True)))
    workshop.config = replace(
        workshop.config,
        partition_fields=(),
        create_schema=schemas.from_arrow(schema, "orders").avro,
    )
    workshop.create()
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=opening.transaction_of(workshop.spec(batches_of(path))),
    )
    session = workshop.table().begin_write(options, schema.names)
    assert isinstance(session, sessions.WriteSession)
    if is_small:
        data: Data = small.SmallInput(
            files=(path,), source=source, schema=schema, columns=schema.names, size_bytes=1
        )
    else:
        data = reading.read(spark, [path], source, schema)
    session.commit(write(spark, data, session.task, 2))
    assert read_sorted(workshop).select(schema.names).to_pylist() == rows
