"""Batches are committed once each, in order, on every engine; what does not fit leaves no trace."""

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.contract import attempt_fences, engine_specs, input_sources, job_specs
from hoodie.model import commits, instants, results, settings, table_config
from hoodie.write import sessions
from hoodie_jobs import runtimes
from hoodie_jobs.spark import small
from support.tables.job_workshop import SCHEMA, Workshop, batches_of
from support.tables.shared_session import shared_runtime


def test_each_batch_is_one_commit_in_order(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    first = workshop.file("1", "a,eu,1,x\nb,us,2,y\n")
    second = workshop.file("2", "a,eu,3,\nc,eu,4,z\n")

    result = workshop.write(first, second, engine=engine)

    assert workshop.rows() == {
        "a": ("a", "eu", 3, "x"),
        "b": ("b", "us", 2, "y"),
        "c": ("c", "eu", 4, "z"),
    }
    assert [instant.batch_id for instant in result.instants] == ["1", "2"]
    assert (result.commit_count, result.records, result.skipped_count) == (2, 4, 0)
    completed = workshop.table().timeline().completed_writes
    assert [each.requested_time for each in completed] == [
        instant.requested_time for instant in result.instants
    ]


def test_committed_batch_is_skipped(workshop: Workshop, engine: engine_specs.EngineKind) -> None:
    first = workshop.file("1", "a,eu,1,x\n")
    second = workshop.file("2", "b,eu,2,y\n")
    workshop.write(first, engine=engine)

    result = workshop.write(first, second, engine=engine, attempt=2)

    assert (result.commit_count, result.skipped_count) == (1, 1)
    assert len(workshop.table().timeline().completed_writes) == 2
    assert workshop.write(first, second, engine=engine, attempt=3).skipped_count == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("b,eu,two,y\n", "2: column 'amount' has the value 'two'"),
        ("b,eu,2,y\n,eu,2,y\n", "id"),
        ("b,eu\n", "2: .*Expected 4 columns, got 2"),
    ],
)
def test_batch_that_does_not_fit_leaves_no_trace_and_the_ones_before_stay(
    workshop: Workshop, engine: engine_specs.EngineKind, rows: str, message: str
) -> None:
    first = workshop.file("1", "a,eu,1,x\n")

    with pytest.raises(errors.InvalidInputError, match=message):
        workshop.write(first, workshop.file("2", rows), engine=engine)

    assert workshop.rows() == {"a": ("a", "eu", 1, "x")}
    timeline = workshop.table().timeline()
    assert len(timeline.completed_writes) == 1
    assert len(workshop.data_files()) == 1
    if engine is engine_specs.EngineKind.LOCAL:
        # Spark finds out in the tasks of a write that has begun, and gives that up.
        assert timeline.pending == ()


def test_later_row_of_a_batch_wins(workshop: Workshop, engine: engine_specs.EngineKind) -> None:
    # As text of more than a task's share: the rows of one key are in parts of different tasks.
    filler = "".join(f"k{number},eu,{number},{'x' * 100}\n" for number in range(30_000))
    path = workshop.file("1", f"a,eu,1,first\n{filler}a,eu,2,second\n")

    workshop.write(path, engine=engine)

    rows = workshop.rows()
    assert len(rows) == 30_001
    assert rows["a"] == ("a", "eu", 2, "second")


@pytest.mark.parametrize("mode", list(settings.ConcurrencyMode))
def test_new_table_is_filled_by_many_tasks(
    workshop: Workshop, engine: engine_specs.EngineKind, mode: settings.ConcurrencyMode
) -> None:
    rows = "".join(f"k{number},eu,{number},{'x' * 100}\n" for number in range(30_000))
    alone = settings.WriteSettings(concurrency=mode, clock_wait_ms=0)

    workshop.write(workshop.file("1", rows), engine=engine, settings=alone)

    assert len(workshop.rows()) == 30_000
    assert len(workshop.table().slices()) == 4
    workshop.write(workshop.file("2", rows), engine=engine, settings=alone, attempt=2)
    assert len(workshop.rows()) == 30_000


@pytest.mark.parametrize("mode", list(settings.ConcurrencyMode))
def test_input_that_is_not_small_is_shuffled(
    workshop: Workshop,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mode: settings.ConcurrencyMode,
) -> None:
    path = workshop.file("1", "".join(f"k{number},eu,{number},\n" for number in range(1000)))
    monkeypatch.setattr(small, "INPUT_BYTES_MAX", 1000)
    runtime = shared_runtime(spark, workshop.stop)
    monkeypatch.setattr(runtimes, "open_runtime", lambda *_: runtime)
    monkeypatch.setattr(small, "write", None)
    alone = settings.WriteSettings(concurrency=mode, clock_wait_ms=0)

    workshop.write(path, engine=engine_specs.EngineKind.SPARK, settings=alone)

    assert len(workshop.rows()) == 1000
    assert len(workshop.table().slices()) == 4


@pytest.mark.parametrize(("retries", "is_written"), [(0, False), (1, True)])
def test_batch_that_lost_a_conflict_is_written_again(
    workshop: Workshop,
    engine: engine_specs.EngineKind,
    monkeypatch: pytest.MonkeyPatch,
    retries: int,
    is_written: bool,
) -> None:
    optimistic = settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC,
        clock_wait_ms=0,
        conflict_retries_max=retries,
    )
    path = workshop.file("1", "a,eu,1,mine\n")
    other = workshop.file("2", "a,eu,2,other\n")
    commit = sessions.WriteSession.commit

    def commit_late(
        session: sessions.WriteSession, stats: Sequence[commits.Written]
    ) -> results.CommitResult:
        # Another writer is faster, once.
        with monkeypatch.context() as patched:
            patched.setattr(sessions.WriteSession, "commit", commit)
            if len(workshop.table().timeline().completed_writes) == 0:
                workshop.write(other, writer_id="other", settings=optimistic)
            return session.commit(stats)

    monkeypatch.setattr(sessions.WriteSession, "commit", commit_late)
    if is_written:
        result = workshop.write(path, engine=engine, settings=optimistic)
        assert (result.commit_count, result.records) == (1, 1)
    else:
        with pytest.raises(errors.WriteConflictError):
            workshop.write(path, engine=engine, settings=optimistic)
    assert workshop.rows()["a"][3] == ("mine" if is_written else "other")
    assert not workshop.table().timeline().pending


def test_conflict_is_found_before_data_is_written(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    optimistic = settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.OPTIMISTIC,
        clock_wait_ms=0,
        detects_conflicts_early=True,
    )
    path = workshop.file("1", "a,eu,1,mine\n")
    work = batches_of(path, commit_interval_ms=600_000)
    spec = workshop.spec(work, writer_id="earlier", settings=optimistic)
    earlier = threading.Thread(target=_run_until_stopped, args=(workshop, spec))
    earlier.start()
    try:
        while not workshop.data_files():
            assert earlier.is_alive()
            time.sleep(0.02)
        written = workshop.data_files()
        with pytest.raises(errors.WriteConflictError, match="no data of it was written"):
            workshop.write(path, engine=engine, writer_id="later", settings=optimistic)
        assert workshop.data_files() == written
    finally:
        workshop.stop.request()
        earlier.join()


def _run_until_stopped(workshop: Workshop, spec: job_specs.JobSpec) -> None:
    with contextlib.suppress(errors.CancelledError):
        workshop.run(spec)


def test_files_of_a_batch_count_in_their_order(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    # The larger one last: Spark by itself would take it first.
    large = "".join(f"k{number},eu,{number},{'x' * 100}\n" for number in range(30_000))
    files = (
        workshop.file("1", "a,eu,1,first\n"),
        workshop.file("2", f"a,eu,2,second\n{large}"),
        workshop.file("3", "a,eu,3,third\n"),
    )
    work = batches_of(*files, batches=(input_sources.Batch(id="all", files=files),))

    result = workshop.run(workshop.spec(work, engine))

    assert result.commit_count == 1
    assert workshop.rows()["a"] == ("a", "eu", 3, "third")


def test_delete_removes_keys(workshop: Workshop, engine: engine_specs.EngineKind) -> None:
    workshop.write(workshop.file("1", "a,eu,1,x\nb,eu,2,y\n"))
    gone = workshop.folder / "gone"
    gone.write_text("id,region\na,eu\n")
    work = batches_of(str(gone), operation=commits.Operation.DELETE)

    result = workshop.run(workshop.spec(work, engine))

    assert result.deletes == 1
    assert workshop.rows() == {"b": ("b", "eu", 2, "y")}


def test_copy_on_write_table_is_filled_and_changed(
    tmp_path: Path, engine: engine_specs.EngineKind
) -> None:
    workshop = Workshop(tmp_path)
    cow = table_config.TableType.COPY_ON_WRITE
    workshop.config = replace(workshop.config, table_type=cow, bucket_count=1)
    workshop.create()
    single = settings.WriteSettings(clock_wait_ms=0)
    written = []
    for attempt, (operation, rows) in enumerate(
        (
            (commits.Operation.BULK_INSERT, "a,eu,1,x\nb,eu,2,y\n"),
            (commits.Operation.UPSERT, "a,eu,3,\nc,eu,4,z\n"),
            (commits.Operation.DELETE, "b,eu,,\n"),
        ),
        start=1,
    ):
        work = replace(batches_of(workshop.file(operation.value, rows)), operation=operation)
        spec = workshop.spec(work, engine, settings=single, attempt=attempt)
        written.append(workshop.run(spec).records)
    assert workshop.rows() == {"a": ("a", "eu", 3, "x"), "c": ("c", "eu", 4, "z")}
    assert written == [2, 2, 0]
    assert all(name.endswith(".parquet") for name in workshop.data_files())
    with pytest.raises(errors.ConfigurationError, match="COPY_ON_WRITE"):
        workshop.run(
            workshop.spec(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE))
        )


@pytest.mark.parametrize("index", [None, table_config.IndexKind.SIMPLE])
@pytest.mark.parametrize("table_type", list(table_config.TableType))
def test_batches_replace_partitions_or_the_table(
    tmp_path: Path,
    engine: engine_specs.EngineKind,
    table_type: table_config.TableType,
    index: table_config.IndexKind | None,
) -> None:
    workshop = Workshop(tmp_path)
    count = None if index else workshop.config.bucket_count
    workshop.config = replace(
        workshop.config, table_type=table_type, index=index, bucket_count=count
    )
    workshop.create()
    kept = {}
    alone = settings.WriteSettings(clock_wait_ms=0)
    for attempt, (operation, rows) in enumerate(
        (
            (commits.Operation.UPSERT, "a,eu,1,x\nb,us,2,y\nc,eu,3,z\n"),
            (commits.Operation.INSERT_OVERWRITE, "d,eu,4,w\n"),
            (commits.Operation.INSERT_OVERWRITE_TABLE, "e,us,5,v\nf,asia,6,u\n"),
        )
    ):
        work = batches_of(workshop.file(operation.value, rows), operation=operation)
        spec = workshop.spec(work, engine, settings=alone, attempt=2 * attempt + 1)
        assert workshop.run(spec).commit_count == 1
        assert workshop.run(replace(spec, attempt=2 * attempt + 2)).skipped_count == 1
        kept[operation] = sorted(workshop.rows())
    assert list(kept.values()) == [["a", "b", "c"], ["b", "d"], ["e", "f"]]


@pytest.mark.parametrize("table_type", list(table_config.TableType))
@pytest.mark.parametrize("is_small", [True, False])
def test_bulk_insert_sorts_each_partition_on_every_engine(
    tmp_path: Path,
    engine: engine_specs.EngineKind,
    monkeypatch: pytest.MonkeyPatch,
    table_type: table_config.TableType,
    *,
    is_small: bool,
) -> None:
    if not is_small:
        monkeypatch.setattr(small, "INPUT_BYTES_MAX", 0)
    workshop = Workshop(tmp_path)
    workshop.config = replace(
        workshop.config,
        table_type=table_type,
        index=table_config.IndexKind.SIMPLE,
        bucket_count=None,
    )
    workshop.create()
    amounts = [n * 71 % 300 for n in range(300)]
    lines = (f"k{n},{'eu' if n % 2 else 'us'},{amount},x\n" for n, amount in enumerate(amounts))
    work = batches_of(
        workshop.file("in", "".join(lines)),
        operation=commits.Operation.BULK_INSERT,
        sort_by=("amount",),
    )
    some = settings.WriteSettings(
        clock_wait_ms=0,
        concurrency=settings.ConcurrencyMode.OPTIMISTIC,
        base_file_bytes_max=1500,
    )
    assert workshop.run(workshop.spec(work, engine, settings=some)).commit_count == 1
    assert {row[2] for row in workshop.rows().values()} == set(amounts)
    found: dict[str, list[tuple[int, list[int]]]] = {}
    for path in Path(workshop.uri).rglob("*.parquet"):
        values = parquet.read_table(path, partitioning=None).column("amount").to_pylist()
        number = int(path.name.partition("_")[0].rpartition("-")[2])
        found.setdefault(path.parent.name, []).append((number, values))
    for files in found.values():
        assert len(files) > 2
        in_order = [value for _, values in sorted(files) for value in values]
        assert in_order == sorted(in_order)
    assert sum(len(values) for files in found.values() for _, values in files) == 300


@pytest.mark.parametrize("index", [each for each in table_config.IndexKind if each.is_global])
def test_keys_are_found_in_all_partitions(
    tmp_path: Path, engine: engine_specs.EngineKind, index: table_config.IndexKind
) -> None:
    workshop = Workshop(tmp_path)
    workshop.config = replace(workshop.config, index=index, bucket_count=None)
    workshop.config = replace(workshop.config, has_partial_updates=False)
    workshop.create()
    alone = settings.WriteSettings(clock_wait_ms=0)
    first = workshop.file("1", "a,eu,1,x\nb,us,2,y\nc,eu,3,z\n")
    second = workshop.file("2", "a,us,4,moved\nd,asia,5,new\nb,us,6,y\nc,asia,7,moved\n")
    workshop.write(first, second, engine=engine, settings=alone)
    assert workshop.rows() == {
        "a": ("a", "us", 4, "moved"),
        "b": ("b", "us", 6, "y"),
        "c": ("c", "asia", 7, "moved"),
        "d": ("d", "asia", 5, "new"),
    }


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("mode", list(settings.ConcurrencyMode))
def test_parquet_files_add_columns(
    workshop: Workshop,
    engine: engine_specs.EngineKind,
    mode: settings.ConcurrencyMode,
    monkeypatch: pytest.MonkeyPatch,
    is_small: bool,
) -> None:
    """T-O17: two batches of one run add one each, and widen one; both opened the table before."""
    monkeypatch.setattr(small, "INPUT_BYTES_MAX", small.INPUT_BYTES_MAX if is_small else 0)
    adding = settings.WriteSettings(concurrency=mode, clock_wait_ms=0, adds_columns=True)
    keys = {"id": ["a", "b"], "region": ["eu", "us"]}
    work = batches_of(
        workshop.parquet("1", {**keys, "left": pa.array([1, 2], pa.int32())}),
        workshop.parquet("2", {**keys, "right": ["x", "y"], "amount": [0.5, 1.5]}),
        source=input_sources.Source(format=input_sources.SourceFormat.PARQUET),
    )
    assert workshop.run(workshop.spec(work, engine, settings=adding)).commit_count == 2
    assert workshop.table().schema.arrow.names == [*SCHEMA.names, "left", "right"]
    assert workshop.rows() == {
        "a": ("a", "eu", 0.5, None, 1, "x"),
        "b": ("b", "us", 1.5, None, 2, "y"),
    }


def test_parquet_files_add_nothing_unless_told(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    path = workshop.parquet("1", {"id": ["a"], "region": ["eu"], "left": [1]})
    work = batches_of(path, source=input_sources.Source(format=input_sources.SourceFormat.PARQUET))
    with pytest.raises(errors.InvalidInputError, match="no column 'left'"):
        workshop.run(workshop.spec(work, engine))
    assert not workshop.table().timeline().instants


def test_empty_file_is_an_empty_commit(workshop: Workshop, engine: engine_specs.EngineKind) -> None:
    result = workshop.write(workshop.file("1", ""), engine=engine)
    assert (result.commit_count, result.records, result.files) == (1, 0, 0)


def test_commit_stays_open_for_its_interval(workshop: Workshop) -> None:
    work = batches_of(workshop.file("1", "a,eu,1,x\n"), commit_interval_ms=1500)

    [commit] = workshop.run(workshop.spec(work)).instants

    assert commit.completion_time is not None
    requested_ms, completed_ms = map(
        instants.parse_time, (commit.requested_time, commit.completion_time)
    )
    assert completed_ms - requested_ms >= 1500


def test_interval_is_none_of_the_time_zone(workshop: Workshop) -> None:
    """Instants of a table in local time are hours before, or after, those of UTC."""
    properties = Path(workshop.uri) / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("timezone=UTC", "timezone=LOCAL")
    properties.write_text(f"{text}{table_config.TIME_ZONE_KEY}=America/Los_Angeles\n")
    work = batches_of(workshop.file("1", "a,eu,1,x\n"), commit_interval_ms=1500)

    [commit] = workshop.run(workshop.spec(work)).instants

    assert commit.completion_time is not None
    requested_ms, completed_ms = map(
        instants.parse_time, (commit.requested_time, commit.completion_time)
    )
    assert 1500 <= completed_ms - requested_ms < 600_000


def test_stop_before_the_commit_publishes_nothing(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    workshop.stop.request()
    with pytest.raises(errors.CancelledError):
        workshop.write(workshop.file("1", "a,eu,1,x\n"), engine=engine)
    assert workshop.table().timeline().instants == ()


@pytest.mark.parametrize(
    ("fence", "message"),
    [
        (attempt_fences.Fence(attempt=2, protocol_hash="h"), "attempt 2 is the current one"),
        (attempt_fences.Fence(attempt=1, protocol_hash="other"), "the current one is other"),
        (None, "lost its fence"),
    ],
)
def test_fenced_attempt_publishes_nothing(
    workshop: Workshop, fence: attempt_fences.Fence | None, message: str
) -> None:
    path = workshop.folder / "fence.json"
    if fence is not None:
        path.write_bytes(attempt_fences.encode_fence(fence))

    with pytest.raises(errors.FencedError, match=message):
        workshop.write(
            workshop.file("1", "a,eu,1,x\n"),
            fence=attempt_fences.FenceFile(path=str(path)),
            protocol_hash="h",
        )

    assert workshop.table().timeline().completed_writes == ()
    assert workshop.rows() == {}


def test_current_attempt_passes_its_fence(workshop: Workshop) -> None:
    path = workshop.folder / "fence.json"
    path.write_bytes(
        attempt_fences.encode_fence(attempt_fences.Fence(attempt=1, protocol_hash="h"))
    )
    result = workshop.write(
        workshop.file("1", "a,eu,1,x\n"),
        fence=attempt_fences.FenceFile(path=str(path)),
        protocol_hash="h",
    )
    assert result.commit_count == 1


def test_attempt_is_fenced_off_by_a_later_one(workshop: Workshop) -> None:
    first, second = workshop.file("1", "a,eu,1,x\n"), workshop.file("2", "b,eu,2,y\n")
    assert workshop.write(first, attempt=1).commit_count == 1
    assert workshop.write(first, second, attempt=2).commit_count == 1
    with pytest.raises(errors.FencedError, match="was replaced by attempt 2"):
        workshop.write(first, second, attempt=1)
    assert len(workshop.rows()) == 2


def test_input_outside_the_allowed_root_is_refused(
    workshop: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    env = tmp_path_factory.mktemp("outside") / "in.csv"
    env.write_text("id,region,amount,note\na,eu,1,x\n")
    link = workshop.folder / "link.csv"
    link.symlink_to(env)
    for path in (env, link):
        with pytest.raises(errors.InvalidInputError, match="outside the allowed root"):
            workshop.write(str(path), allowed_roots=(str(workshop.folder),))
    assert workshop.table().timeline().instants == ()


def test_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    with pytest.raises(errors.NotFoundError, match="table"):
        workshop.write(workshop.file("1", "a,eu,1,x\n"))


def test_missing_input_is_named(workshop: Workshop, engine: engine_specs.EngineKind) -> None:
    with pytest.raises(errors.NotFoundError, match="/nowhere: there is no such file"):
        workshop.write("/nowhere", engine=engine)


def test_one_session_writes_what_the_other_engine_began(
    workshop: Workshop, engine: engine_specs.EngineKind
) -> None:
    """A run may be resumed on another engine."""
    files = [workshop.file(str(number), f"a,eu,{number},x\n") for number in range(2)]
    workshop.write(files[0])
    spec = replace(workshop.spec(batches_of(*files), engine), attempt=2)
    assert workshop.run(spec).commit_count == 1
    assert workshop.rows()["a"] == ("a", "eu", 1, "x")
