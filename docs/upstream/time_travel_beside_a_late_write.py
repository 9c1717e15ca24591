"""A query as of a write has rows of another one that completed after it.

    1. write A is requested (non-blocking concurrency control, bucket index, merge-on-read)
    2. write B is requested and completes
    3. write A completes
    4. query as of write B

Expected: no row of write A: RFC-66 has time travel by completion times, and when write B completed
no reader saw write A. Apache Hudi 1.2.0 goes by requested times. While write A is in flight it
refuses the query, so that nothing can be read as of any time since A was requested.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

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
}


def write(rows, operation="upsert"):
    """Write rows of (id, ts, value)."""
    frame = spark.createDataFrame(rows, "id string, ts long, value string")
    writer = frame.write.format("hudi").options(**OPTIONS)
    writer.option("hoodie.datasource.write.operation", operation).mode("append").save(PATH)


def held_back(gate, rows):
    """Return a write that is requested now, and gets its rows when a file appears."""

    def wait(row):
        Path(f"{gate}.reached").touch()
        while not Path(gate).exists():
            time.sleep(0.05)
        return row

    def run():
        frame = spark.createDataFrame(rows, "id string, ts long, value string").coalesce(1)
        held = spark.createDataFrame(frame.rdd.map(wait), frame.schema)
        writer = held.write.format("hudi").options(**OPTIONS)
        writer.option("hoodie.datasource.write.operation", "upsert").mode("append").save(PATH)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not Path(f"{gate}.reached").exists():
        time.sleep(0.05)
    return thread


def completed():
    """Return the completed delta commits as pairs of requested and completion time."""
    names = (each.name for each in Path(PATH, ".hoodie/timeline").glob("*.deltacommit"))
    return sorted(tuple(name.partition(".")[0].split("_")) for name in names)


write([(f"key-{n}", 1, "first") for n in range(4)])
GATE = f"{PATH}.gate"
late = held_back(GATE, [("key-0", 2, "late")])
write([("key-3", 3, "second")])
(_, (as_of, _)) = completed()


def then():
    """Return the rows as of write B."""
    rows = spark.read.format("hudi").option("as.of.instant", as_of).load(PATH).collect()
    return sorted((row.id, row.value) for row in rows)


try:
    print(f"while write A is in flight: {then()}")
except Exception as error:
    print(f"while write A is in flight: {str(error).splitlines()[1]}")
Path(GATE).touch()
late.join()
found = then()
print(f"expected no row of write A, found {found}")
sys.exit(("key-0", "late") in found)
