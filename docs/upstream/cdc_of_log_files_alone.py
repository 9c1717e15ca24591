"""A CDC query fails for writes to a merge-on-read file group of log files alone.

    1. a non-blocking writer (bucket index) writes a row: its file group begins with a log file
    2. it writes the row again
    3. CDC query from the beginning on

Expected: an insert and an update. Apache Hudi 1.2.0 fails: No value present in Option.
"""

import sys
import tempfile

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
PATH = tempfile.mkdtemp(prefix="hudi-") + "/t"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
}


def write(rows, operation="upsert"):
    """Write rows of (id, ts, value)."""
    frame = spark.createDataFrame(rows, "id string, ts long, value string")
    writer = frame.write.format("hudi").options(**OPTIONS)
    writer.option("hoodie.datasource.write.operation", operation).mode("append").save(PATH)


def changes():
    """Return the operations that a CDC query of all writes returns."""
    query = spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
    query = query.option("hoodie.datasource.query.incremental.format", "cdc")
    query = query.option("hoodie.datasource.read.begin.instanttime", "000")
    return sorted(row.op for row in query.load(PATH).collect())


EXPECTED = ["i", "u"]
write([("key-0", 1, "first")])
write([("key-0", 2, "second")])
try:
    found = changes()
except Exception as error:
    causes = [line for line in str(error).splitlines() if "Exception" in line]
    print(f"expected {EXPECTED}, failed: {causes[-1] if causes else error}")
    sys.exit(1)
print(f"expected {EXPECTED}, found {found}")
sys.exit(found != EXPECTED)
