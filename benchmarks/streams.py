"""Measures streams on Spark: from a commit to its rows, beside Apache Hudi; writes STREAMS.md.

    .venv/bin/python benchmarks/streams.py [--commits N] [--rows N] [--ours-alone | --floor-alone]
                                           [--results FILE]

A table is written by this process, ten rows a commit, and read by a streaming query in another one,
which triggers as fast as it can. The next commit waits until the rows of the last have come. All
read tables that are alike: Apache Hudi on Spark 3.5, and this project on its Spark, and by threads
of a process that asks for changes from position to position.

The floor is a folder of parquet files that Spark's own source reads, in the session that this
project's query has: what a micro-batch costs there that lists a folder and reads ten rows of one
column, in the JVM alone.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import machine  # noqa: E402 (the path comes first)
import pyarrow as pa  # noqa: E402
import small_commits  # noqa: E402
from pyarrow import parquet  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import change_data, commits, schemas, table_config  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from hoodie_jobs.spark import session  # noqa: E402
from support.peer.judge import PYTHON, Judge, Settings  # noqa: E402

RESULTS = ROOT / "benchmarks" / "STREAMS.md"
WORK = ROOT / "benchmarks" / "work" / "streams"
READER = ROOT / "benchmarks" / "stream_reader.py"
CONSOLE = Console(stderr=True)
CORES, HEAP_MB = 2, 4096
BUCKETS = 4
WARM_UPS = 10
WAIT_S = 300.0
WARM_UP_S = 2.0
_POLL_S = 0.001

INCREMENTAL = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.streaming.startOffset": "latest",
}
CDC = INCREMENTAL | {"hoodie.datasource.query.incremental.format": "cdc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table and how it is read.

    Attributes:
        title: For the page.
        type: Of the table.
        options: Of the stream.
        mode: What the table stores of changes.
    """

    title: str
    type: table_config.TableType
    options: Mapping[str, str]
    mode: change_data.LoggingMode | None = None


_TYPES = table_config.TableType
CASES = (
    Case(title="merge-on-read, rows", type=_TYPES.MERGE_ON_READ, options=INCREMENTAL),
    Case(title="copy-on-write, rows", type=_TYPES.COPY_ON_WRITE, options=INCREMENTAL),
    Case(
        title="copy-on-write, changes stored with both rows",
        type=_TYPES.COPY_ON_WRITE,
        options=CDC,
        mode=change_data.LoggingMode.DATA_BEFORE_AFTER,
    ),
)

_HEAD = """# Streams on Spark

Written by `benchmarks/streams.py` on {date}.
{circumstances}.

Milliseconds from the return of a commit of ten rows, to a table of {rows:,} rows in {buckets}
buckets, until a streaming query in another process has its rows in `foreachBatch`; {commits}
commits, of which each waits for the one before. Both queries trigger as fast as they can, on
{cores} cores; the tables are written by this project. By threads a process has the rows that asks
each 5 ms for changes since its position. A ratio is Apache Hudi's median over ours.

| table | by threads | 95 % | on Spark | 95 % | Apache Hudi | 95 % | ratio, threads | ratio, Spark |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""


_FLOOR = "for comparison: a folder of parquet files by Spark's own source"


class Table:
    """A table that is written, ten rows at a time."""

    def __init__(self, folder: Path, case: Case, rows: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config = table_config.TableConfig(
            name="streamed",
            table_type=case.type,
            record_key_fields=("id",),
            ordering_fields=("ts",),
            merge_mode=table_config.MergeMode.EVENT_TIME,
            bucket_count=BUCKETS,
            change_data=case.mode,
            index=table_config.IndexKind.BUCKET,
        )
        schema = schemas.from_arrow(small_commits.SCHEMA, config.name)
        env = environment.system(parallelism=1)
        self.path = folder / "table"
        self._table = table.create_table(str(self.path), config, schema, env)
        self._options = sessions.WriteOptions(
            operation=commits.Operation.UPSERT,
            transaction=small_commits.transaction(
                "optimistic", small_commits.KINDS["ours"], writer="bench"
            ),
        )
        self._value = 0
        self._write(range(rows))

    def commit(self) -> tuple[int, float]:
        """Write ten rows; return their value, and when that was done."""
        self._write(range(self._value * 10, self._value * 10 + 10))
        return self._value, time.time()

    def _write(self, numbers: range) -> None:
        self._value += 1
        count = len(numbers)
        data = {
            "id": [f"key-{number:09d}" for number in numbers],
            "ts": [self._value] * count,
            "value": [self._value] * count,
        }
        self._table.write(pa.table(data, schema=small_commits.SCHEMA), self._options)


class Folder:
    """A folder of parquet files, to which files of ten rows are added."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.path = folder / "files"
        self.path.mkdir(parents=True)
        self._value = 0

    def commit(self) -> tuple[int, float]:
        """Add a file; return its value, and when that was done."""
        self._value += 1
        name = f"{self._value:06d}.parquet"
        # Spark passes names by that begin with a dot.
        written = self.path / f".{name}"
        parquet.write_table(pa.table({"value": [self._value] * 10}), written)
        written.rename(self.path / name)
        return self._value, time.time()


class Stream:
    """A query that runs.

    Attributes:
        came_s: When the newest rows had come, in seconds since the epoch.
    """

    def __init__(self, output: Path) -> None:
        self._output = output
        self._read = 0
        self._value = 0
        self.came_s = 0.0

    def has_value(self, value: int, wait_s: float) -> bool:
        """Return whether the rows of a commit, or of a later one, come within some seconds."""
        deadline_s = time.monotonic() + wait_s
        while self._value < value:
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
            with self._output.open() as lines:
                lines.seek(self._read)
                for line in lines.read().splitlines(keepends=True):
                    if line.endswith("\n"):
                        self.came_s, self._value = json.loads(line)
                        self._read += len(line)
        return True


@contextlib.contextmanager
def streaming(python: Path, settings: dict[str, Any], folder: Path) -> Iterator[Stream]:
    """Run a query for a while."""
    output = folder / "arrivals"
    settings |= {"output": str(output), "checkpoint": str(folder / "checkpoint")}
    variables = dict(os.environ) | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(python)}
    if python == PYTHON:
        variables.pop("PYTHONPATH", None)
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [python, READER, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=variables,
            cwd=folder,
        )
    try:
        deadline_s = time.monotonic() + WAIT_S
        while not output.exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the query did not start: see {folder / 'log.txt'}")
            time.sleep(0.05)
        yield Stream(output)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ours() -> tuple[Path, dict[str, Any]]:
    """Return our Python, and what a session of ours is started with."""
    conf = session.properties(CORES, {"spark.driver.memory": f"{HEAP_MB}m"})
    started = {
        "master": conf.pop("spark.master"),
        "name": "bench",
        "log_level": "ERROR",
        "conf": conf,
    }
    return Path(sys.executable), {"format": "hoodie", "session": started}


def by_threads() -> tuple[Path, dict[str, Any]]:
    """Return the same without Spark."""
    return Path(sys.executable), {"format": "threads", "session": None}


def theirs(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the Python of Apache Hudi's Spark, and what its session is started with."""
    settings = Settings(
        name="bench", cores=CORES, memory_mb=HEAP_MB, jvm_options=(), log_level="ERROR"
    )
    started = Judge(folder / "judge", settings).server_settings()
    return PYTHON, {"format": "hudi", "session": started}


def floor() -> tuple[Path, dict[str, Any]]:
    """Return our Python, and a query by Spark's own source in a session like ours."""
    python, settings = ours()
    return python, settings | {"format": "parquet"}


def latencies_ms(
    written: Table | Folder,
    options: Mapping[str, str],
    side: tuple[Path, dict[str, Any]],
    folder: Path,
    commits_: int,
) -> list[float]:
    """Return how long the rows of each commit took."""
    python, settings = side
    settings = settings | {"path": str(written.path), "options": dict(options)}
    found = []
    with streaming(python, settings, folder) as stream:
        # The query begins at the latest commit, which it looks for some time after its start.
        CONSOLE.print(f"  {settings['format']}")
        while not stream.has_value(written.commit()[0], WARM_UP_S):
            pass
        for number in range(WARM_UPS + commits_):
            value, done_s = written.commit()
            if not stream.has_value(value, WAIT_S):
                raise TimeoutError(f"no rows of value {value} within {WAIT_S} s")
            if number >= WARM_UPS:
                found.append((stream.came_s - done_s) * 1000)
    return found


def floor_ms(commits_: int) -> list[float]:
    """Return how long the rows of each file took."""
    CONSOLE.print("Spark's own source")
    folder = WORK / "floor"
    return latencies_ms(Folder(folder), {}, floor(), folder, commits_)


def page(*, commits_: int, rows: int, is_ours_alone: bool) -> Iterator[str]:
    """Measure all, and yield the page."""
    yield _HEAD.format(
        date=datetime.now(UTC).date(),
        circumstances=machine.circumstances(),
        rows=rows,
        buckets=BUCKETS,
        commits=commits_,
        cores=CORES,
    )
    for number, case in enumerate(CASES):
        CONSOLE.print(case.title)
        folder = WORK / str(number)
        found = [
            latencies_ms(Table(folder, case, rows), case.options, side, folder, commits_)
            for side in (by_threads(), ours())
        ]
        compared = "| | | |"
        if not is_ours_alone:
            written = Table(folder, case, rows)
            of_theirs = latencies_ms(written, case.options, theirs(WORK), folder, commits_)
            theirs_ms = statistics.median(of_theirs)
            ratios = " | ".join(f"{theirs_ms / statistics.median(each):.1f}" for each in found)
            compared = f"{_shown(of_theirs)} | {ratios} |"
        yield f"| {case.title} | {' | '.join(map(_shown, found))} | {compared}\n"
    yield f"| {_FLOOR} | | | {_shown(floor_ms(commits_))} | | | | |\n"


def _shown(found_ms: Sequence[float]) -> str:
    slowest_ms = sorted(found_ms)[int(len(found_ms) * 0.95)]
    return f"{statistics.median(found_ms):.0f} | {slowest_ms:.0f}"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Measure streams from a commit to its rows.")
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--ours-alone", action="store_true", help="without Apache Hudi")
    alone.add_argument("--floor-alone", action="store_true", help="print that of Spark itself")
    arguments = parser.parse_args()
    if arguments.floor_alone:
        CONSOLE.print(_shown(floor_ms(arguments.commits)))
        return
    text = "".join(
        page(
            commits_=arguments.commits,
            rows=arguments.rows,
            is_ours_alone=arguments.ours_alone,
        )
    )
    arguments.results.write_text(text)
    CONSOLE.print(text)


if __name__ == "__main__":
    main()
