"""A streaming query as a process: a micro-batch is a file, which it may be killed before or after.

    stream_reader.py TABLE FOLDER

It reads all that there is, a commit at a time, deletes too. In FOLDER are the checkpoint and the
sink: `N.json` has the rows of micro-batch N, written at once. Where `hold` exists the process makes
`holding-N` once it has read micro-batch N, and waits; with `hold-after` once it has written it.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

from hoodie_jobs.spark import data_source, session


def main(table_uri: str, folder: Path) -> None:
    spark = session.open_session("stream", 2, {})
    spark.dataSource.register(data_source.HoodieDataSource)

    def take(frame: DataFrame, number: int) -> None:
        rows = sorted((row.asDict() for row in frame.collect()), key=repr)
        hold(folder, "hold", number)
        target = folder / f"{number}.json"
        if target.exists():
            assert json.loads(target.read_text()) == rows, f"micro-batch {number} is another one"
        temporary = target.with_suffix(".part")
        temporary.write_text(json.dumps(rows))
        temporary.replace(target)
        hold(folder, "hold-after", number)

    options = {"deletes": "true", "maxCommitsPerTrigger": "1", "path": table_uri}
    query = (
        spark.readStream.format("hoodie")
        .options(**options)
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def hold(folder: Path, name: str, number: int) -> None:
    if (folder / name).exists():
        (folder / f"holding-{number}").touch()
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
