"""The Spark session of a job.

What must hold whatever a spec says: no speculation (two attempts of a task would write at once, and
only waste), workers of this very interpreter, times in UTC. The rest are defaults.

Workers are forked from `daemon` by default only where executors surely have this installation: with
a local master, and in pods of the driver's image. Elsewhere workers may get our package from
`addPyFile`, which comes after the daemon has started.
"""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from hoodie import errors
from hoodie.engine import local

TASK_ATTEMPTS_MAX = 4

_FORCED: Mapping[str, str] = {
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Filters reach our data source only when Spark is told that it may push them.
    "spark.sql.python.filterPushdown.enabled": "true",
}

OWN_DAEMON: Mapping[str, str] = {"spark.python.daemon.module": "hoodie_jobs.spark.daemon"}
"""A default for executors that have this installation."""

_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.task.maxFailures": str(TASK_ATTEMPTS_MAX),
    "spark.python.worker.reuse": "true",
    # It is a variable in the environment of the workers of queries. Spark reuses workers only for
    # equal environments, and those of RDDs never have it.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
    # Our plans are one scan and at most one shuffle, whose width we choose ourselves.
    "spark.sql.adaptive.enabled": "false",
}


def open_session(name: str, parallelism: int | None, conf: Mapping[str, str]) -> SparkSession:
    """Start Spark, or take the process's running session.

    Args:
        name: The application's name.
        parallelism: Cores of a local master; None takes the machine's. A master in the
            configuration decides for itself.
        conf: Spark properties.

    Raises:
        ConfigurationError: A property contradicts what our jobs stand on.
    """
    found = properties(parallelism, conf)
    if _is_local(found["spark.master"]):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Without it Spark's workers are whatever `python3` is on the path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName(name)
    for key, value in found.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def properties(parallelism: int | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a session is started with; see `open_session`."""
    for key, value in _FORCED.items():
        if conf.get(key, value).lower() != value.lower():
            raise errors.ConfigurationError(f"{key} is {conf[key]!r}, expected {value!r}")
    cores = parallelism or local.processors()
    # A plain local[N] gives a task one attempt only.
    master = conf.get("spark.master", f"local[{cores},{TASK_ATTEMPTS_MAX}]")
    found = {**_DEFAULTS, **conf, **_FORCED, "spark.master": master}
    found.setdefault("spark.sql.shuffle.partitions", str(cores))
    if _is_local(master):
        found.setdefault("spark.driver.host", "127.0.0.1")
        found.setdefault("spark.driver.bindAddress", "127.0.0.1")
        if found.setdefault("spark.pyspark.python", sys.executable) == sys.executable:
            found = {**OWN_DAEMON, **found}
    return found


def _is_local(master: str) -> bool:
    return master.startswith("local")
