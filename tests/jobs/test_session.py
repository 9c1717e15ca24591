"""What our jobs stand on is forced onto Spark's session, whatever a spec says."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie_jobs.spark import session

_DAEMON = "spark.python.daemon.module"
_OURS = "hoodie_jobs.spark.daemon"
_TRACEBACK = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"


@pytest.mark.parametrize(
    ("key", "value"),
    [("spark.speculation", "true"), ("spark.sql.session.timeZone", "Europe/Berlin")],
)
def test_property_that_contradicts_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"{key} is '{value}', expected"):
        session.open_session("contradicting", 1, {key: value})


def test_session_is_of_what_jobs_stand_on(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.speculation") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.parametrize(
    ("conf", "module"),
    [
        ({}, _OURS),
        ({"spark.master": "local[2]"}, _OURS),
        ({"spark.pyspark.python": sys.executable}, _OURS),
        ({"spark.pyspark.python": "/usr/bin/python3"}, None),
        ({"spark.master": "spark://host:7077"}, None),
        ({"spark.master": "yarn"}, None),
        ({_DAEMON: "pyspark.daemon"}, "pyspark.daemon"),
        ({_DAEMON: _OURS, "spark.master": "yarn"}, _OURS),
    ],
)
def test_workers_are_forked_from_our_daemon_where_it_surely_is_unless_the_user_has_another(
    conf: dict[str, str], module: str | None
) -> None:
    assert session.properties(2, conf).get(_DAEMON) == module


def test_tracebacks_are_as_the_user_has_them() -> None:
    assert session.properties(2, {})[_TRACEBACK] == "false"
    assert session.properties(2, {_TRACEBACK: "true"})[_TRACEBACK] == "true"


def daemon_of(_: object) -> tuple[int, str]:
    """Return the process that a worker was forked from, and its command."""
    process = os.getppid()
    command = Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8")
    return process, " ".join(command.split("\0")[1:3])


def daemons(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        process, command = daemon_of(batch)
        yield pa.record_batch({"process": [process], "command": [command]})


def test_rdds_and_queries_have_workers_of_one_daemon(spark: SparkSession) -> None:
    numbers = spark.sparkContext.parallelize(range(4), 4)
    [(process, command)] = set(numbers.map(daemon_of).collect())
    assert command == f"-m {_OURS}"
    rows = spark.range(0, 4, 1, 4).mapInArrow(daemons, "process long, command string").collect()
    assert {(row.process, row.command) for row in rows} == {(process, command)}
