"""What Spark finds by its name: `spark.read.format("hoodie")` without a call to register it.

Spark looks for packages whose names begin with `pyspark_`, and takes their `DefaultSource`.
Source: `pyspark/sql/worker/lookup_data_sources.py` (4.3.0).
"""

from hoodie_jobs.spark import data_source

DefaultSource = data_source.HoodieDataSource
