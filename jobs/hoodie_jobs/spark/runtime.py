"""A job's work in Spark."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # py4j ships no types
from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.contract import engine_specs, input_sources
from hoodie.model import commits
from hoodie.sources import local_files
from hoodie.write import write_task
from hoodie_jobs import cancellation, runtimes
from hoodie_jobs.spark import (
    calls,
    engine,
    groups,
    kubernetes,
    reading,
    session,
    small,
    writing,
)

logger = logging.getLogger(__name__)


class SparkRuntime:
    """A session and what runs in it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.has_tasks_left = False
        self.engine = engine.SparkEngine(spark.sparkContext)

    def read(
        self, files: Sequence[str], source: input_sources.Source, target: runtimes.Target
    ) -> reading.SparkInput | small.SmallInput:
        """Look at the files' heads."""
        schema = target.schema.arrow
        size_bytes = sum(local_files.size_bytes(path) for path in files)
        if size_bytes > small.INPUT_BYTES_MAX:
            return reading.read(self._spark, files, source, schema)
        return small.SmallInput(
            files=tuple(files),
            source=source,
            schema=schema,
            columns=local_files.carried_columns(files, source, schema),
            size_bytes=size_bytes,
        )

    def write(self, data: runtimes.Input, task: write_task.WriteTask) -> list[commits.Written]:
        """Write all rows in Spark's tasks."""
        context = self._spark.sparkContext
        with groups.open_group(context, f"write {task.instant_time}") as group:
            try:
                outcomes = self._write(data, task)
            except BaseException:
                self.has_tasks_left = not group.has_ended()
                raise
        return [each for outcome in outcomes for each in calls.result_of(outcome)]

    def _write(
        self, data: runtimes.Input, task: write_task.WriteTask
    ) -> list[calls.Outcome[list[commits.Written]]]:
        if task.config.looks_keys_up:
            return self._write_placed(data, task)
        cores = self.engine.parallelism
        if isinstance(data, small.SmallInput):
            count = small.task_count(data.size_bytes, cores)
            outcomes = small.write(self._spark.sparkContext, data, task, count)
        else:
            assert isinstance(data, reading.SparkInput)
            outcomes = writing.write(data, task, writing.task_count(data.size_bytes, cores))
        if any(calls.is_error(each, errors.SharedGroupError) for each in outcomes):
            # What other tasks have written meanwhile is removed before the commit, by its markers.
            return self._write_placed(data, task)
        return outcomes

    def _write_placed(
        self, data: runtimes.Input, task: write_task.WriteTask
    ) -> list[calls.Outcome[list[commits.Written]]]:
        cores, lookups = self.engine.parallelism, engine.LookupEngine(self.engine)
        if isinstance(data, small.SmallInput):
            count = small.placed_task_count(data.size_bytes, cores, task.config)
            return small.write_placed(self._spark.sparkContext, data, task, count, lookups)
        assert isinstance(data, reading.SparkInput)
        count = writing.task_count(data.size_bytes, cores)
        return writing.write_placed(data, task, count, lookups)

    def cancel(self) -> None:
        """Have the running Spark jobs fail."""
        try:
            self._spark.sparkContext.cancelAllJobs()
        except (Py4JError, OSError) as error:
            # A stop that reaches the whole process group ends the JVM first.
            logger.warning("Spark's jobs were not cancelled: %s", type(error).__name__)

    def close(self) -> None:
        """Stop Spark."""
        try:
            self._spark.stop()
        except (Py4JError, OSError) as error:
            logger.warning("Spark was not stopped: %s", type(error).__name__)


def start(spec: engine_specs.EngineSpec, stop: cancellation.Cancellation) -> SparkRuntime:
    """Start Spark as the spec says; a stop cancels its jobs.

    Raises:
        ConfigurationError: The spec's Spark properties contradict what our jobs stand on, or it
            asks for executors in pods, and this is no pod.
    """
    spark = session.open_session("hoodie", spec.parallelism, properties(spec, os.environ))
    runtime = SparkRuntime(spark)
    stop.on_request(runtime.cancel)
    return runtime


def properties(spec: engine_specs.EngineSpec, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark properties of a spec, with those that make its executors pods of the run.

    Args:
        spec: The engine's.
        variables: The environment of this process.

    Raises:
        ConfigurationError: The spec asks for other pods, or this is no pod.
    """
    conf = dict(spec.spark_conf)
    if spec.executors is not None:
        kubernetes.check(conf)
        # What makes executors pods of this run goes before what a user wants.
        conf |= kubernetes.properties(spec.executors, variables, sys.executable)
        # They have the driver's image.
        conf = {**session.OWN_DAEMON, **conf}
    return conf
