"""A CDC query fails if an insert added rows to a base file of a copy-on-write table.

    1. a row is written by upsert
    2. another row is written by insert, which puts it into the same file group
    3. CDC query from the beginning on

Expected: two inserts. Apache Hudi 1.2.0 fails: There should be a cdc log file. An insert merges no
rows, so that it writes none, and its reader expects one of each base file that follows another.
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
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.table.type": "COPY_ON_WRITE",
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


EXPECTED = ["i", "i"]
write([("key-0", 1, "first")])
write([("key-1", 2, "second")], "insert")
try:
    found = changes()
except Exception as error:
    causes = [line for line in str(error).splitlines() if "Exception" in line]
    print(f"expected {EXPECTED}, failed: {causes[-1] if causes else error}")
    sys.exit(1)
print(f"expected {EXPECTED}, found {found}")
sys.exit(found != EXPECTED)
