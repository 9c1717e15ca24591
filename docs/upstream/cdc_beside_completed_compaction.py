"""A CDC query fails for a write beside a compaction that was pending then and has completed since.

    1. two writes of a row to a merge-on-read table, the first of them to a base file
    2. a compaction is planned
    3. the row is written again: the log file lies behind the plan
    4. the compaction is executed
    5. CDC query from the beginning on

Expected: an insert and two updates. Apache Hudi 1.2.0 fails: No value present in Option. It looks
for the slice that the write stood on by the plan of the compaction, as long as that is pending.
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


EXPECTED = ["i", "u", "u"]
write([("key-0", 1, "first")], "bulk_insert")
write([("key-0", 2, "second")])
ONE = "hoodie.compact.inline.max.delta.commits=1"
spark.sql(f"CALL run_compaction(op => 'schedule', path => '{PATH}', options => '{ONE}')").show()
write([("key-0", 3, "third")])
print(f"while the compaction is pending: {changes()}")
spark.sql(f"CALL run_compaction(op => 'run', path => '{PATH}')").show()
try:
    found = changes()
except Exception as error:
    causes = [line for line in str(error).splitlines() if "Exception" in line]
    print(f"expected {EXPECTED}, failed: {causes[-1] if causes else error}")
    sys.exit(1)
print(f"expected {EXPECTED}, found {found}")
sys.exit(found != EXPECTED)
