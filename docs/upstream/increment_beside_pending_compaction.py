"""An incremental query beside a pending compaction lacks a write that completed after its plan.

    1. write A is requested (non-blocking concurrency control, bucket index, merge-on-read)
    2. a compaction is planned
    3. write B is requested and completes
    4. write A completes
    5. incremental query from the completion of write B on

Expected: the row of write A, which completed in the range. Apache Hudi 1.2.0 returns no rows until
the compaction has completed: the log file of A is in no file slice that its view of the range has.
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
ONE = "hoodie.compact.inline.max.delta.commits=1"
spark.sql(f"CALL run_compaction(op => 'schedule', path => '{PATH}', options => '{ONE}')").show()
write([("key-3", 3, "second")])
(_, (_, since)) = completed()
Path(GATE).touch()
late.join()
query = spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
found = query.option("hoodie.datasource.read.begin.instanttime", since).load(PATH)
keys = sorted(row.id for row in found.collect())
print(f"expected ['key-0'], found {keys}")
sys.exit(keys != ["key-0"])
