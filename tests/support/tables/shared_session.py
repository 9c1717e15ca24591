"""A job's runtime in a Spark session that outlives it: starting one takes seconds."""

from pyspark.sql import SparkSession

from hoodie_jobs import cancellation
from hoodie_jobs.spark import runtime as spark_runtime


def shared_runtime(
    spark: SparkSession, stop: cancellation.Cancellation
) -> spark_runtime.SparkRuntime:
    runtime = spark_runtime.SparkRuntime(spark)
    runtime.close = lambda: None  # type: ignore[method-assign] # the session is everybody's
    stop.on_request(runtime.cancel)
    return runtime
