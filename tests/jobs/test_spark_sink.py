"""`df.write.format("hoodie")`, `df.writeStream` and `frames.write`, by Spark.

What does not need Spark is in `tests/unit/hoodie_jobs/test_spark_sink.py`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

import hoodie
from hoodie import errors
from hoodie_jobs import staging
from hoodie_jobs.spark import data_source, frames
from support.tables import every_type

WRITE = "hoodie.datasource.write"
OPTIONS = {f"{WRITE}.recordkey.field": "id", f"{WRITE}.partitionpath.field": "city"}
INSERT = {f"{WRITE}.operation": "insert"}
SCHEMA = "id string, city string, fare double"


@pytest.fixture(autouse=True, scope="module")
def register(spark: SparkSession) -> None:
    spark.dataSource.register(data_source.HoodieDataSource)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "trips")


def frame(spark: SparkSession, *rows: str, parts: int = 2) -> DataFrame:
    values = [(id_, city, float(fare)) for id_, city, fare in map(str.split, rows)]
    return spark.createDataFrame(values, SCHEMA).coalesce(1).repartition(parts)


def save(data: DataFrame, uri: str, mode: str = "append", **options: str) -> None:
    given = {**OPTIONS, **{f"{WRITE}.{name}": value for name, value in options.items()}}
    data.write.format("hoodie").options(**given).mode(mode).save(uri)


def held(uri: str) -> list[str]:
    found = hoodie.open_table(uri).scan(["id", "city", "fare"]).to_arrow()
    return sorted(f"{row['id']} {row['city']} {row['fare']:g}" for row in found.to_pylist())


def staged(uri: str) -> list[Path]:
    return sorted((Path(uri) / staging.FOLDER).rglob("*.arrow"))


Batches = Iterator[pa.RecordBatch]


def breaking(folder: Path, end: Callable[[], object]) -> Callable[[Batches], Batches]:
    """Return a step of a frame that ends its task in the middle, where `break` is there."""

    def step(batches: Batches) -> Batches:
        for batch in batches:
            yield batch
            if "b" in batch.column("id").to_pylist() and (folder / "break").exists():
                (folder / "break").unlink()
                end()

    return step


def fail() -> None:
    raise RuntimeError("the step is broken")


def die() -> None:
    os._exit(1)


def test_task_that_fails_every_time_publishes_nothing(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    save(frame(spark, "a oslo 1"), uri)

    def step(batches: Batches) -> Batches:
        for batch in batches:
            yield batch
            if "b" in batch.column("id").to_pylist():
                fail()

    data = frame(spark, "a oslo 2", "b oslo 2", "c oslo 2", parts=3)
    with pytest.raises(Exception, match="the step is broken"):
        save(data.mapInArrow(step, SCHEMA), uri)
    assert (held(uri), staged(uri)) == (["a oslo 1"], [])
    assert hoodie.open_table(uri).inspect.timeline().num_rows == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", [die, fail])
def test_task_that_runs_again_leaves_no_double_rows(
    spark: SparkSession, uri: str, tmp_path: Path, end: Callable[[], object]
) -> None:
    (tmp_path / "break").touch()
    data = frame(spark, "a oslo 1", "b oslo 1", "c oslo 1", parts=3)
    step = breaking(tmp_path, end)
    save(data.mapInArrow(step, SCHEMA), uri, operation="insert")
    assert not (tmp_path / "break").exists()
    assert (held(uri), staged(uri)) == (["a oslo 1", "b oslo 1", "c oslo 1"], [])


def test_save_modes_of_spark(spark: SparkSession, uri: str) -> None:
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="cannot be written in the"):
            save(frame(spark, "a oslo 1"), uri, mode)
    save(frame(spark, "a oslo 1"), uri, "overwrite")
    save(frame(spark, "b oslo 1"), uri, "append")
    assert held(uri) == ["a oslo 1", "b oslo 1"]
    save(frame(spark, "c oslo 1"), uri, "overwrite")
    assert held(uri) == ["c oslo 1"]


def test_refusal_reaches_the_user(spark: SparkSession, uri: str) -> None:
    with pytest.raises(Exception, match=r"option hoodie\.clean\.automatic=true: a write does not"):
        frame(spark, "a oslo 1").write.format("hoodie").options(**OPTIONS).option(
            "hoodie.clean.automatic", "true"
        ).mode("append").save(uri)
    with pytest.raises(Exception, match=r"the option hoodie\.datasource\.write\.recordkey"):
        frame(spark, "a oslo 1").write.format("hoodie").mode("append").save(uri)
    assert not Path(uri).exists()


def test_every_type_is_written_as_it_was_read(spark: SparkSession, typed: str, uri: str) -> None:
    data = spark.read.format("hoodie").load(typed)
    key = hoodie.open_table(typed).config.record_key_fields[0]
    for copy in (f"{uri}-sink", f"{uri}-tasks"):
        options = {f"{WRITE}.recordkey.field": key}
        if copy.endswith("sink"):
            data.write.format("hoodie").options(**options).mode("append").save(copy)
        else:
            frames.write(data, copy, options)
        found, expected = (hoodie.open_table(each).scan().to_arrow() for each in (copy, typed))
        assert found.sort_by(key).to_pylist() == expected.sort_by(key).to_pylist()
        assert len(found) == len(every_type.ROWS)


def read_lines(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").json(str(folder))


def test_stream_writes_a_micro_batch_once(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """It dies between the commit and Spark's own log, which then runs the micro-batch again."""
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()
    for number, id_ in enumerate("abc"):
        line = f'{{"id": "{id_}", "city": "oslo", "fare": {number}}}\n'
        (source / f"{number}.json").write_text(line)

    def run(checkpoint: Path) -> None:
        query = (
            read_lines(spark, source)
            .writeStream.format("hoodie")
            .options(**OPTIONS, **INSERT)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(uri)
        )
        query.awaitTermination()

    run(checkpoint)
    expected = ["a oslo 0", "b oslo 1", "c oslo 2"]
    assert held(uri) == expected
    commits = sorted((checkpoint / "commits").iterdir(), key=lambda path: path.name)
    newest = max(int(path.name) for path in commits if path.name.isdecimal())
    for path in commits:
        if str(newest) in path.name:
            path.unlink()
    run(checkpoint)
    assert (held(uri), staged(uri)) == (expected, [])
    # Another checkpoint is another query: its micro-batches have the same numbers.
    run(tmp_path / "other")
    assert held(uri) == sorted(expected * 2)


def test_complete_stream_replaces_the_table(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(2):
        (source / f"{number}.json").write_text('{"id": "a", "city": "oslo", "fare": 1}\n')
    query = (
        read_lines(spark, source)
        .groupBy("id", "city")
        .agg({"fare": "sum"})
        .withColumnRenamed("sum(fare)", "fare")
        .writeStream.format("hoodie")
        .options(**OPTIONS)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("complete")
        .trigger(availableNow=True)
        .start(uri)
    )
    query.awaitTermination()
    assert held(uri) == ["a oslo 2"]


@pytest.mark.sample(1)  # The page has the other one.
@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
def test_frames_are_written_by_tasks(spark: SparkSession, uri: str, index: str) -> None:
    options = {**OPTIONS, "hoodie.index.type": index}
    many = spark.range(0, 500, 1, 5).selectExpr(
        "cast(id % 400 as string) id", "if(id % 2 = 0, 'oslo', 'rome') city", "id * 1.0D fare"
    )
    done = frames.write(many, uri, options, tasks=3)
    assert (done.rows, done.inserted) == (400, 400)
    # Of rows with one key the later one.
    rows = hoodie.open_table(uri).scan(["id", "fare"]).to_arrow().to_pylist()
    assert {int(row["id"]): row["fare"] for row in rows} == {
        number: float(number + 400 if number < 100 else number) for number in range(400)
    }
    frames.write(frame(spark, "0 oslo 7"), uri, {**options, f"{WRITE}.operation": "delete"})
    frames.write(frame(spark, "1 rome 7"), uri, options, mode="ignore")
    with pytest.raises(errors.AlreadyExistsError):
        frames.write(frame(spark, "1 rome 7"), uri, options, mode="errorifexists")
    assert hoodie.open_table(uri).scan().count() == 399
    named = {**INSERT, "writer_id": "nightly", "batch_id": "1"}
    frames.write(frame(spark, "x rome 7"), uri, {**options, **named}, mode="overwrite")
    again = frames.write(frame(spark, "y rome 7"), uri, {**options, **named}, mode="overwrite")
    assert again.is_repeated
    assert held(uri) == ["x rome 7"]


def test_frame_whose_task_fails_publishes_nothing(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    frames.write(frame(spark, "a oslo 1"), uri, OPTIONS)
    nulls = spark.createDataFrame([(None, "oslo", 1.0)], SCHEMA)
    with pytest.raises(errors.InvalidInputError, match="'id'"):
        frames.write(nulls.union(frame(spark, "b oslo 1")), uri, OPTIONS)
    assert held(uri) == ["a oslo 1"]


def test_frames_are_not_written_where_a_task_may_run_twice_at_once(
    spark: SparkSession, uri: str
) -> None:
    conf = SparkConf(loadDefaults=False).set("spark.speculation", "true")
    with (
        mock.patch.object(SparkContext, "getConf", return_value=conf),
        pytest.raises(errors.ConfigurationError, match=r"spark\.speculation is true"),
    ):
        frames.write(frame(spark, "a oslo 1"), uri, OPTIONS)
    assert not Path(uri).exists()
