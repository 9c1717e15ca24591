"""A query as of a time whose files were cleaned returns wrong rows instead of an error.

    1. three writes of one row to a copy-on-write table
    2. a clean that keeps one file version
    3. query as of the first write

Expected: an error that says that the files of that time are gone, as after a clean that keeps
commits. Apache Hudi 1.2.0 returns no rows: such a clean retains no commit, by which it would know.
"""

import sys
import tempfile
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
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
}


def write(rows, operation="upsert"):
    """Write rows of (id, ts, value)."""
    frame = spark.createDataFrame(rows, "id string, ts long, value string")
    writer = frame.write.format("hudi").options(**OPTIONS)
    writer.option("hoodie.datasource.write.operation", operation).mode("append").save(PATH)


for number in range(3):
    write([("key-0", number, f"version {number}")])
first = min(each.name for each in Path(PATH, ".hoodie/timeline").glob("*.commit")).partition("_")[0]


def then():
    """Return the rows as of the first write."""
    rows = spark.read.format("hudi").option("as.of.instant", first).load(PATH).collect()
    return [(row.id, row.value) for row in rows]


before = then()
spark.sql(f"CREATE TABLE cleaned USING hudi LOCATION '{PATH}'")
POLICY = "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1"
spark.sql(f"CALL run_clean(table => 'cleaned', {POLICY})").show()
try:
    after = then()
except Exception as error:
    print(f"refused, as expected: {str(error).splitlines()[0]}")
    sys.exit(0)
print(f"as of {first}: {before}, after the clean {after}")
sys.exit(before != after)
