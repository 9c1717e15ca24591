"""The data source `hoodie` by Spark Connect: found by its name, read and written."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie
from hoodie import errors
from hoodie_jobs.spark import frames

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session of a server in this machine, which it starts."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    yield session
    session.stop()


def test_table_is_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "numbers")
    numbers = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) id", "id * 2 twice")
    numbers.write.format("hoodie").options(**OPTIONS).mode("append").save(uri)
    read = spark.read.format("hoodie").load(uri)
    assert (read.count(), read.where("twice = 8").collect()[0].id) == (100, "4")
    (
        read.where("twice < 100")
        .write.format("hoodie")
        .option("hoodie.datasource.write.operation", "delete")
        .mode("append")
        .save(uri)
    )
    assert hoodie.open_table(uri).scan().count() == 50
    with pytest.raises(Exception, match=r"option hoodie\.nonsense might change"):
        numbers.write.format("hoodie").options(**OPTIONS).option("hoodie.nonsense", "1").mode(
            "append"
        ).save(uri)


def test_stream_is_written(spark: SparkSession, tmp_path: Path) -> None:
    source, uri = tmp_path / "source", str(tmp_path / "copies")
    source.mkdir()
    (source / "1.json").write_text('{"id": "a", "twice": 1}\n')
    query = (
        spark.readStream.schema("id string, twice long")
        .json(str(source))
        .writeStream.format("hoodie")
        .options(**OPTIONS)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(uri)
    )
    query.awaitTermination()
    assert hoodie.open_table(uri).scan().to_arrow().to_pylist() == [{"id": "a", "twice": 1}]


def test_tasks_do_not_write_frames_of_another_process(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match="of Spark Connect: use"):
        frames.write(spark.range(3), str(tmp_path / "numbers"), OPTIONS)
