"""A workshop with a table, and one Spark session for all tests of a run: it takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import environment, table
from hoodie.contract import engine_specs, job_specs
from hoodie.model import commits, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from hoodie_jobs import cancellation, local_runtime, runtimes
from hoodie_jobs.spark import session
from support.tables import every_type
from support.tables.job_workshop import Workshop
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
    schema = schemas.from_arrow(every_type.SCHEMA, "typed")
    config = table_config.TableConfig(
        name="typed",
        record_key_fields=("id",),
        create_schema=schema.avro,
        bucket_count=2,
        has_partial_updates=True,
    )
    uri = str(tmp_path / "typed")
    opened = table.create_table(uri, config, schema, environment.system(parallelism=1))
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=settings.WriteSettings(clock_wait_ms=0),
            lock=address_texts.parse("in-process"),
            author=authors.Author(writer_id="test"),
        ),
    )
    opened.write(pa.Table.from_pylist(every_type.ROWS, schema=opened.schema.arrow), options)
    opened.write(pa.Table.from_pylist(every_type.ROWS[:1], schema=opened.schema.arrow), options)
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
