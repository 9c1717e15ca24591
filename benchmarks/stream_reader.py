"""A streaming query of a table in a session of its own, by either side: what streams.py measures.

    stream_reader.py SETTINGS

SETTINGS is a JSON object: `session` (master, name, configuration), `format`, `path` and `options`
of the source, and `output`, a file. Of parquet files the value is the one column. For each
micro-batch with rows a line is added to the file: when the query had its last row, in seconds since
the epoch, and the rows' greatest value. Runs with the Python of Apache Hudi's Spark as well, and
imports nothing of ours there. Without a session the table is followed by threads of this process,
from position to position.
"""

from __future__ import annotations

import importlib
import json
import select
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

_POLL_S = 0.005


def main(settings: dict[str, Any]) -> None:
    """Read until the standard input ends."""
    if settings["session"] is None:
        follow(settings)
        return
    spark = opened(settings["session"])
    if settings["format"] == "hoodie":
        source = importlib.import_module("hoodie_jobs.spark.data_source")
        spark.dataSource.register(source.HoodieDataSource)
    output = Path(settings["output"])
    image = F.get_json_object("after", "$.value").cast("long")
    is_cdc = "cdc" in settings["options"].values()

    def take(frame: DataFrame, _number: int) -> None:
        rows = frame.select(image if is_cdc else "value").collect()
        if rows:
            with output.open("a") as lines:
                lines.write(json.dumps([time.time(), max(row[0] for row in rows)]) + "\n")

    stream = spark.readStream.format(settings["format"]).options(**settings["options"])
    if settings["format"] == "parquet":
        stream = stream.schema("value long")
    writer = stream.load(settings["path"]).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", settings["checkpoint"]).start()
    output.touch()
    for _ in sys.stdin:
        pass
    query.stop()
    spark.stop()


def follow(settings: dict[str, Any]) -> None:
    """Read what changes by threads, looking each few milliseconds."""
    tables = importlib.import_module("hoodie.table")
    environment = importlib.import_module("hoodie.environment")
    table = tables.open_table(settings["path"], environment.system(parallelism=2))
    is_cdc = "cdc" in settings["options"].values()
    output, position = Path(settings["output"]), table.position()
    output.touch()
    while not select.select([sys.stdin], [], [], _POLL_S)[0]:
        end = table.next_position(position)
        if end is None:
            continue
        if is_cdc:
            found = table.change_data(position, until=end, columns=["value"])
            values = [row["after"]["value"] for row in found.read().read_all().to_pylist()]
        else:
            found = table.changes(position, until=end, columns=["value"], has_deletes=False)
            values = found.read().read_all()["value"].to_pylist()
        position = end
        if values:
            with output.open("a") as lines:
                lines.write(json.dumps([time.time(), max(values)]) + "\n")


def opened(settings: dict[str, Any]) -> SparkSession:
    """Start Spark."""
    builder = SparkSession.builder.master(settings["master"]).appName(settings["name"])
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(settings["log_level"])
    return spark


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
