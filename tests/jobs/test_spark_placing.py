"""Tables whose rows the driver deals out to Spark's tasks: as one process would write them."""

import dataclasses
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.contract import engine_specs, input_sources, job_results
from hoodie.model import commits, settings, table_config
from hoodie.write import sessions
from hoodie_jobs import opening
from hoodie_jobs.spark import calls, reading, small, writing
from hoodie_jobs.spark import engine as spark_engine
from support.processes import dying_tasks
from support.tables.job_workshop import SCHEMA, Workshop, batches_of

REGIONS = ("eu", "us", "asia")
COW, MOR = table_config.TableType.COPY_ON_WRITE, table_config.TableType.MERGE_ON_READ
INDEX = table_config.IndexKind
OPTIMISTIC = settings.WriteSettings(
    concurrency=settings.ConcurrencyMode.OPTIMISTIC, clock_wait_ms=0, small_file_bytes=20_000
)
Row = Sequence[object]


def make_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all input pass through Spark's own scans, in several pieces a task."""
    monkeypatch.setattr(small, "INPUT_BYTES_MAX", -1)
    monkeypatch.setattr(writing, "_CHUNK_BYTES", 4_000)


def workshop_of(folder: Path, **changes: object) -> Workshop:
    """Return a workshop with a table of no buckets, unless changes say otherwise."""
    folder.mkdir()
    workshop = Workshop(folder)
    without_buckets = dataclasses.replace(workshop.config, bucket_count=None, hash_fields=())
    workshop.config = dataclasses.replace(without_buckets, **changes)  # type: ignore[arg-type] # what a test varies
    workshop.create()
    return workshop


def csv(rows: Iterable[Row]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def random_rows(seed: int, count: int) -> list[Row]:
    """Return rows of which some have a key that others have, too, some in another partition."""
    rng = random.Random(seed)
    return [
        (f"k{rng.randrange(count)}", rng.choice(REGIONS), number, f"n{seed}")
        for number in range(count)
    ]


def write(
    workshop: Workshop, rows: Iterable[Row], engine: engine_specs.EngineKind, **changes: object
) -> job_results.JobResult:
    number = len(list(workshop.folder.glob("*.csv")))
    batch = batches_of(workshop.file(f"{number}.csv", csv(rows)), **changes)
    return workshop.run(workshop.spec(batch, engine, attempt=number + 1, settings=OPTIMISTIC))


def content(workshop: Workshop) -> list[tuple[object, ...]]:
    names = ["_hoodie_partition_path", *SCHEMA.names]
    rows = workshop.table().read([*names]).read_all().to_pylist()
    return sorted(tuple(row[name] for name in names) for row in rows)


def replace_property(workshop: Workshop, line: str, by: str) -> None:
    properties = Path(workshop.uri) / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert line in text
    properties.write_text(text.replace(line, by))


def newest_groups(workshop: Workshop) -> list[tuple[str, str]]:
    """Return the file groups that the newest write touched, once for each of its data files."""
    timeline = workshop.table().timeline()
    completed = [each for each in timeline.instants if each.is_completed]
    newest = max(completed, key=lambda each: each.requested_time)
    (metadata,) = workshop.table().metadata([newest]).values()
    return [(stat.partition_path, stat.file_id) for stat in metadata.stats]


@pytest.mark.parametrize("engine", [engine_specs.EngineKind.SPARK], indirect=True)
@pytest.mark.parametrize(
    ("is_large", "changes"),
    [
        (True, {"index": INDEX.SIMPLE, "table_type": COW}),
        (False, {"index": INDEX.SIMPLE, "table_type": MOR}),
        (False, {"index": INDEX.BLOOM, "table_type": COW}),
        (False, {"index": INDEX.GLOBAL_SIMPLE, "table_type": COW}),
        (True, {"index": INDEX.GLOBAL_SIMPLE, "table_type": COW, "updates_partitions": False}),
        (True, {"index": INDEX.GLOBAL_SIMPLE, "table_type": MOR, "ordering_fields": ("amount",)}),
    ],
)
def test_tasks_write_what_one_process_would(
    engine: engine_specs.EngineKind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    *,
    is_large: bool,
) -> None:
    if is_large:
        make_large(monkeypatch)
    # Any file is read in Spark's tasks.
    monkeypatch.setattr(spark_engine, "_FEW_A_CORE", 0)
    if "ordering_fields" in changes:
        changes = changes | {"merge_mode": table_config.MergeMode.EVENT_TIME}
    changes = changes | {"has_partial_updates": False}
    here = workshop_of(tmp_path / "here", **changes)
    there = workshop_of(tmp_path / "there", **changes)
    for step in range(3):
        rows = random_rows(step, 600)
        operation = commits.Operation.DELETE if step == 2 else commits.Operation.UPSERT
        if step == 2:
            rows = rows[:50]
        write(here, rows, engine_specs.EngineKind.LOCAL, operation=operation)
        write(there, rows, engine, operation=operation)
        assert content(there) == content(here), step
        touched = newest_groups(there)
        assert sorted(touched) == sorted(set(touched)), "two tasks wrote one file group"
    assert not there.table().timeline().pending


@pytest.mark.parametrize("engine", [engine_specs.EngineKind.SPARK], indirect=True)
@pytest.mark.parametrize("is_large", [False, True])
def test_rows_of_all_buckets_go_to_one_base_file_of_no_bucket(
    engine: engine_specs.EngineKind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_large: bool,
) -> None:
    """Two tasks that had rows of one such file each would write it, and one be lost."""
    if is_large:
        make_large(monkeypatch)
    else:
        monkeypatch.setattr(small, "_TASK_BYTES_MIN", 1)
    workshop = workshop_of(tmp_path / "it", index=INDEX.SIMPLE, table_type=COW)
    rows: list[Row] = [(f"k{n}", "eu", n, "a") for n in range(400)]
    write(workshop, rows, engine_specs.EngineKind.LOCAL)
    # What another engine's clustering makes of a table with buckets.
    buckets = "hoodie.bucket.index.num.buckets=4\nhoodie.bucket.index.hash.field=id\n"
    replace_property(workshop, "hoodie.operator.index=SIMPLE\n", buckets)
    workshop.config = dataclasses.replace(
        workshop.config, index=INDEX.BUCKET, bucket_count=4, hash_fields=("id",)
    )
    changed: list[Row] = [(f"k{n}", "eu", -n, "b") for n in range(500)]
    write(workshop, changed, engine)
    assert content(workshop) == sorted(("eu", *row) for row in changed)
    touched = newest_groups(workshop)
    assert len(touched) == len(set(touched)) == 5


@pytest.mark.parametrize("engine", [engine_specs.EngineKind.SPARK], indirect=True)
@pytest.mark.parametrize("is_large", [False, True])
def test_rows_without_keys_get_one_each_whichever_task_writes_them(
    engine: engine_specs.EngineKind,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_large: bool,
) -> None:
    if is_large:
        make_large(monkeypatch)
    workshop = workshop_of(
        tmp_path / "it", index=INDEX.SIMPLE, table_type=COW, has_partial_updates=False
    )
    # Apache Hudi makes such tables.
    replace_property(workshop, "hoodie.table.recordkey.fields=id\n", "")
    workshop.config = dataclasses.replace(workshop.config, record_key_fields=())
    rows = random_rows(1, 900)
    for _ in range(2):
        write(workshop, rows, engine, operation=commits.Operation.INSERT)
    assert content(workshop) == sorted((row[1], *row) for row in [*rows, *rows])
    keys = workshop.table().read(["_hoodie_record_key"]).read_all().column(0)
    assert len(keys.unique()) == 1_800


def begun(workshop: Workshop, path: str) -> sessions.WriteSession:
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=opening.transaction_of(workshop.spec(batches_of(path), settings=OPTIMISTIC)),
    )
    session = workshop.table().begin_write(options, SCHEMA.names)
    assert isinstance(session, sessions.WriteSession)
    return session


class Forgetful:
    """Parses as another, but not twice the same."""

    def __init__(self, parser: reading.Parser, mark: Path) -> None:
        self.parser = parser
        self.mark = mark

    def parse(self, part: pa.Table) -> pa.Table:
        parsed = self.parser.parse(part)
        if not self.mark.exists():
            self.mark.touch()
            return parsed
        keys = pa.array([f"{key}x" for key in parsed["id"].to_pylist()])
        return parsed.set_column(0, "id", keys)


def test_input_that_changes_while_it_is_read_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    workshop = workshop_of(tmp_path / "it", index=INDEX.SIMPLE)
    path = workshop.file("in.csv", csv(random_rows(1, 50)))
    source = input_sources.Source(format=input_sources.SourceFormat.CSV)
    data = reading.read(spark, [path], source, SCHEMA)
    forgetful = Forgetful(data.parser, tmp_path / "mark")
    data = dataclasses.replace(data, parser=forgetful)  # type: ignore[arg-type] # parses alike
    lookups = spark_engine.LookupEngine(spark_engine.SparkEngine(spark.sparkContext))
    session = begun(workshop, path)
    outcomes = writing.write_placed(data, session.task, 2, lookups)
    with pytest.raises(errors.InvalidInputError, match="changed while it was read"):
        [calls.result_of(each) for each in outcomes]
    assert not workshop.data_files()
    session.abort(has_tasks_left=False)


def test_placed_rows_of_a_task_that_dies_are_written_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    workshop = workshop_of(
        tmp_path / "it", index=INDEX.GLOBAL_SIMPLE, table_type=COW, has_partial_updates=False
    )
    rows: list[Row] = [(f"k{n}", REGIONS[n % 3], n, "a") for n in range(300)]
    path = workshop.file("in.csv", csv(rows))
    source = input_sources.Source(format=input_sources.SourceFormat.CSV)
    data = reading.read(spark, [path], source, SCHEMA)
    lookups = spark_engine.LookupEngine(spark_engine.SparkEngine(spark.sparkContext))
    session = begun(workshop, path)
    dying = dying_tasks.DyingTask.of(session.task, tmp_path / "died")
    outcomes = writing.write_placed(data, dying, 2, lookups)
    assert dying.mark.exists()
    written = [each for outcome in outcomes for each in calls.result_of(outcome)]
    names = {Path(each.path).name for each in written if isinstance(each, commits.WriteStat)}
    assert workshop.data_files() > names, "the dead task has left files"
    session.commit(written)
    assert workshop.data_files() == names
    assert content(workshop) == sorted((row[1], *row) for row in rows)
