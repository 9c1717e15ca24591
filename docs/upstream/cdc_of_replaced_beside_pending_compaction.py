"""A CDC query has no deletes of replaced file groups of which a compaction is pending.

    1. rows are written to a merge-on-read table, and one again: a base file and a log file
    2. a compaction is planned, and another row is written again: a log file behind the plan
    3. insert overwrite replaces the file group
    4. CDC query from the beginning on

Expected: three inserts, two updates, and by the insert overwrite three deletes and an insert, as
without the plan. Apache Hudi 1.2.0 has no deletes.
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


EXPECTED = ["d", "d", "d", "i", "i", "i", "i", "u", "u"]
write([(f"key-{number}", 1, "first") for number in range(3)])
write([("key-0", 2, "second")])
ONE = "hoodie.compact.inline.max.delta.commits=1"
spark.sql(f"CALL run_compaction(op => 'schedule', path => '{PATH}', options => '{ONE}')").show()
write([("key-1", 3, "third")])
write([("key-7", 4, "overwrites")], "insert_overwrite")
found = changes()
print(f"expected {EXPECTED}, found {found}")
sys.exit(found != EXPECTED)
