"""What a query as of a time returns changes when a write completes that was requested earlier.

    1. write A is requested (non-blocking concurrency control, bucket index, merge-on-read)
    2. write B is requested and completes
    3. query as of write B
    4. write A completes
    5. the same query

Expected: the same rows twice: RFC-66 has time travel by completion times, and write A completed
after write B. Apache Hudi 1.2.0 goes by requested times.
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

    thread = threading.Thread(target=run)
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


before = then()
Path(GATE).touch()
late.join()
after = then()
print(f"as of {as_of}: {before}, then {after}")
sys.exit(before != after)
