"""A workshop with a table, and one Spark session for all tests of a run: it takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hoodie.contract import engine_specs, job_specs
from hoodie_jobs import cancellation, local_runtime, runtimes
from hoodie_jobs.spark import session
from support.tables import every_type
from support.tables.job_workshop import Workshop, write_typed
from support.tables.shared_session import shared_runtime


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path)
    workshop.create()
    return workshop


@pytest.fixture
def written(workshop: Workshop) -> Workshop:
    """A table with a base file, logs over it, and one group of logs alone."""
    workshop.write(workshop.file("1", "a,eu,1,x\nb,eu,2,y\nc,us,3,\n"))
    workshop.run(
        workshop.spec(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE))
    )
    workshop.write(workshop.file("2", "a,eu,10,\nd,asia,4,z\n"), attempt=2)
    return workshop


@pytest.fixture
def typed(tmp_path: Path) -> str:
    """A table of each type that we write, its rows in base files and in logs over them."""
    uri = str(tmp_path / "typed")
    write_typed(uri, [every_type.ROWS, every_type.ROWS[:1]])
    return uri


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Workers that unpickle what tests and their support hold have to find it.
    path = str(Path(__file__).parents[1])
    spark = session.open_session("tests", 2, {"spark.executorEnv.PYTHONPATH": path})
    yield spark
    spark.stop()


@pytest.fixture(params=list(engine_specs.EngineKind))
def engine(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> engine_specs.EngineKind:
    """Each engine in turn; Spark's session stays open: starting it takes seconds."""
    kind: engine_specs.EngineKind = request.param
    if kind is engine_specs.EngineKind.SPARK:
        shared = request.getfixturevalue("spark")

        def start(
            spec: engine_specs.EngineSpec, stop: cancellation.Cancellation
        ) -> runtimes.Runtime:
            if spec.kind is engine_specs.EngineKind.LOCAL:
                return local_runtime.start(spec, stop)
            return shared_runtime(shared, stop)

        monkeypatch.setattr(runtimes, "open_runtime", start)
    return kind
