"""The Spark session of a job.

What must hold whatever a spec says: no speculation (two attempts of a task would write at once, and
only waste), workers of this very interpreter, times in UTC. The rest are defaults.
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

_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.task.maxFailures": str(TASK_ATTEMPTS_MAX),
    "spark.python.worker.reuse": "true",
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
    for key, value in _FORCED.items():
        if conf.get(key, value).lower() != value.lower():
            raise errors.ConfigurationError(f"{key} is {conf[key]!r}, expected {value!r}")
    cores = parallelism or local.processors()
    # A plain local[N] gives a task one attempt only.
    master = conf.get("spark.master", f"local[{cores},{TASK_ATTEMPTS_MAX}]")
    properties = {**_DEFAULTS, **conf, **_FORCED, "spark.master": master}
    properties.setdefault("spark.sql.shuffle.partitions", str(cores))
    if master.startswith("local"):
        properties.setdefault("spark.driver.host", "127.0.0.1")
        properties.setdefault("spark.driver.bindAddress", "127.0.0.1")
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Without it Spark's workers are whatever `python3` is on the path.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        properties.setdefault("spark.pyspark.python", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in properties.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
