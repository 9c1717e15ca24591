"""A workshop with a table, and one Spark session for all tests of a run: it takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hoodie.model import jobs
from hoodie_jobs import cancellation, local_runtime, runtimes
from hoodie_jobs.spark import runtime as spark_runtime
from hoodie_jobs.spark import session
from support.job_workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path)
    workshop.create()
    return workshop


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Workers that unpickle what tests and their support hold have to find it.
    path = str(Path(__file__).parents[1])
    spark = session.open_session("tests", 2, {"spark.executorEnv.PYTHONPATH": path})
    yield spark
    spark.stop()


@pytest.fixture(params=list(jobs.EngineKind))
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> jobs.EngineKind:
    """Each engine in turn; Spark's session stays open: starting it takes seconds."""
    kind: jobs.EngineKind = request.param
    if kind is jobs.EngineKind.SPARK:
        shared = request.getfixturevalue("spark")

        def start(spec: jobs.EngineSpec, stop: cancellation.Cancellation) -> runtimes.Runtime:
            if spec.kind is jobs.EngineKind.LOCAL:
                return local_runtime.start(spec, stop)
            return shared_runtime(shared, stop)

        monkeypatch.setattr(runtimes, "open_runtime", start)
    return kind


def shared_runtime(
    spark: SparkSession, stop: cancellation.Cancellation
) -> spark_runtime.SparkRuntime:
    runtime = spark_runtime.SparkRuntime(spark)
    runtime.close = lambda: None  # type: ignore[method-assign] # the session is everybody's
    stop.on_request(runtime.cancel)
    return runtime
