"""Our side of the side-by-side benchmark on Spark: the jobs' own code, and reading as a DataFrame.

One warm Spark session of as many cores and as large a heap as Apache Hudi's runs the steps of a
workload: writes and compactions as `python -m hoodie_jobs.write` and `compact` do them once their
session is up, reads by `hoodie_jobs.spark.tables`. Memory is that of the JVM, of its Python
workers and of this process, summed.

Run alone: `.venv/bin/python benchmarks/ours_on_spark.py --workload plain --output ours.json`.
"""

import shutil
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]  # our neighbours

import alone  # noqa: E402 (the path comes first)
import memory  # noqa: E402
import ours  # noqa: E402
import pyarrow as pa  # noqa: E402
from data import AGGREGATE, AGGREGATED, Inputs, Workload  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402
from steps import Measured  # noqa: E402

from hoodie import clock, environment, table  # noqa: E402
from hoodie.contract import engine_specs, input_sources, job_specs  # noqa: E402
from hoodie.model import commits  # noqa: E402
from hoodie_jobs import cancellation, compact, write  # noqa: E402
from hoodie_jobs.run import Run  # noqa: E402
from hoodie_jobs.spark import runtime, session, tables  # noqa: E402

HEAP = "4g"
CORES = 2
_CONF = {"spark.driver.memory": HEAP, "spark.log.level": "ERROR"}


class HoodieOnSpark:
    """A warm Spark session with our jobs. Use as a context manager."""

    name = "hoodie-on-spark"
    warm_ups = 2

    def __init__(self, _folder: Path) -> None:
        self._spark: SparkSession | None = None

    def __enter__(self) -> Self:
        self._spark = session.open_session("bench", CORES, _CONF)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._spark is not None
        self._spark.stop()

    @property
    def version(self) -> str:
        """Spark's version."""
        assert self._spark is not None
        return self._spark.version

    def create(self, workload: Workload, _inputs: Inputs, path: Path) -> "SparkSubject":
        """Return the new table."""
        ours.create_table(workload, path)
        return SparkSubject(self.jobs(workload, path))

    def jobs(self, workload: Workload, path: Path) -> "Jobs":
        """Return the jobs of a table that exists, with a workload's writer."""
        assert self._spark is not None
        return Jobs(workload, path, self._spark, runtime.SparkRuntime(self._spark))

    def measured(self, work: Callable[[], object]) -> Measured:
        """Do the work."""
        memory.forget_peaks(self._processes())
        begin = time.perf_counter()
        work()
        seconds = time.perf_counter() - begin
        return Measured(seconds=seconds, peak_bytes=memory.peak_bytes(self._processes()))

    def _processes(self) -> set[int]:
        assert self._spark is not None
        jvm = self._spark._jvm
        assert jvm is not None
        return {memory.OWN, *memory.family(int(jvm.java.lang.ProcessHandle.current().pid()))}


@dataclass(frozen=True, slots=True)
class Jobs:
    """What is done with a table by our jobs."""

    workload: Workload
    path: Path
    spark: SparkSession
    runtime: runtime.SparkRuntime

    def write(
        self, rows: Path, operation: commits.Operation, columns: tuple[str, ...] = ()
    ) -> None:
        """Write some columns of a parquet file, or all."""
        batch = input_sources.Batch(id=f"{rows.stem}-{uuid.uuid4()}", files=(str(rows),))
        source = input_sources.Source(
            format=input_sources.SourceFormat.PARQUET,
            columns=tuple(input_sources.ColumnMapping(name=name, source=name) for name in columns),
        )
        work = job_specs.WriteBatches(operation=operation, source=source, batches=(batch,))
        write.write_batch(self.run(work), batch, work.settings, self.open(), self.runtime)

    def open(self) -> table.Table:
        """Open the table."""
        return table.open_table(str(self.path), environment.system(parallelism=1))

    def run(self, work: job_specs.WriteBatches | job_specs.Compact) -> Run:
        """Return a run that does some work."""
        spec = job_specs.JobSpec(
            table_uri=str(self.path),
            allowed_roots=(),
            table_properties={},
            settings=ours.write_settings(self.workload),
            lock=ours.lock(self.workload),
            protocol_hash="",
            writer_id="benchmark",
            action_id=None,
            attempt=1,
            fence=None,
            work=work,
            engine=engine_specs.EngineSpec(kind=engine_specs.EngineKind.SPARK, parallelism=CORES),
            progress_path=None,
            result_path="",
        )
        return Run(spec, clock.SystemClock(), cancellation.Cancellation())


@dataclass(frozen=True, slots=True)
class SparkSubject:
    """A table of ours."""

    jobs: Jobs

    def bulk_insert(self, rows: Path) -> object:
        """Fill the new table."""
        return self.jobs.write(rows, commits.Operation.BULK_INSERT)

    def upsert(self, rows: Path) -> object:
        """Write changes."""
        return self.jobs.write(rows, commits.Operation.UPSERT)

    def delete(self, keys: Path) -> object:
        """Delete keys."""
        columns = ours.delete_columns(self.jobs.workload)
        return self.jobs.write(keys, commits.Operation.DELETE, columns)

    def aggregate(self) -> object:
        """Evaluate the aggregate; what Python workers read has to be told its columns."""
        return self.totals()

    def scan(self) -> object:
        """Make every row."""
        return self._load().write.format("noop").mode("overwrite").save()

    def collect(self) -> object:
        """Collect all rows."""
        return self._load().toArrow()

    def copy(self) -> object:
        """Write all rows to parquet files."""
        target = self.jobs.path.with_suffix(".copy")
        self._load().write.parquet(str(target))
        return shutil.rmtree(target)

    def schedule_compaction(self) -> object:
        """Plan a compaction."""
        run = self.jobs.run(job_specs.Compact(step=job_specs.CompactionStep.SCHEDULE))
        return compact.perform(run)

    def compact(self) -> object:
        """Execute the plan."""
        (pending,) = self.jobs.open().timeline().pending_compactions
        instant_time = pending.requested_time
        step = job_specs.Compact(step=job_specs.CompactionStep.EXECUTE, instant_time=instant_time)
        return compact.execute(self.jobs.run(step), instant_time, self.jobs.runtime)

    def totals(self) -> pa.Table:
        """Evaluate the aggregate."""
        self._load(*AGGREGATED).createOrReplaceTempView("scanned")
        return self.jobs.spark.sql(AGGREGATE).toArrow()

    def _load(self, *columns: str) -> DataFrame:
        return tables.read(self.jobs.spark, str(self.jobs.path), columns or None)


if __name__ == "__main__":
    alone.main(HoodieOnSpark)
