"""Measures indexes that are built beside writers, beside Apache Hudi; writes INDEX_BUILDS.md.

    .venv/bin/python benchmarks/index_builds.py [--rows N] [--ours-alone] [--spark] [--results FILE]

A copy-on-write table, by default of ten million rows, whose column statistics, bloom filters,
record index and secondary index are built one after the other. Apache Hudi builds each but the last
at the first write of one row with the index enabled, in a warm session, of which an ordinary write
of one row is taken off; the secondary index by CREATE INDEX. Then rows are looked up by key and by
value in both tables, and the record index is built again while another process of ours commits one
row at a time. With --spark ours are built again by tasks of Spark, in a session of two cores.
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import machine  # noqa: E402 (the path comes first)
import memory  # noqa: E402
import metadata  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import small_commits  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.engine.protocol import Engine  # noqa: E402
from hoodie.model import commits, secondary_indexes  # noqa: E402
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS  # noqa: E402
from hoodie.model.key_changes import RECORD_INDEX  # noqa: E402
from hoodie.read import where as filters  # noqa: E402
from hoodie.transaction import manager  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from hoodie_jobs.spark import session  # noqa: E402
from hoodie_jobs.spark.engine import SparkEngine  # noqa: E402
from support.peer import peer_indexes  # noqa: E402
from support.peer.judge import Judge, Query, Settings  # noqa: E402

RESULTS = ROOT / "benchmarks" / "INDEX_BUILDS.md"
CONSOLE = Console(stderr=True)
WRITER_ALONE_S = 10.0
COLUMN = "name"
SECONDARY = f"{secondary_indexes.PREFIX}of_{COLUMN}"
LOOK_UPS, PER_VALUE = 20, 10
ENABLED = {
    COLUMN_STATS: {"hoodie.metadata.index.column.stats.enable": "true"},
    BLOOM_FILTERS: {"hoodie.metadata.index.bloom.filter.enable": "true"},
    RECORD_INDEX: metadata.RECORD_INDEX,
}

_HEAD = """# Indexes built beside writers

Written by `benchmarks/index_builds.py` on {date}.
{circumstances}.

A copy-on-write table of {rows:,} rows in {partitions} partitions with {buckets} buckets each, whose
keys have 13 characters, and whose files have bloom filters in their footers; the line `of keys` is
of one whose files have none: ours makes them of the keys, Apache Hudi leaves such files out. The
peak is that of the process, in MiB. Apache Hudi makes an index at the
first write of one row with the index enabled, in a warm session with a heap of 4 GiB; an ordinary
write of one row is taken off. It makes the secondary index, of texts each of which {per_value} rows
have, by CREATE INDEX.

| index | seconds | rows a second | peak | lock held, ms | Apache Hudi, seconds | ratio |
|---|---:|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A build of ours: seconds, MiB, milliseconds."""

    seconds: float
    peak_mib: int
    hold_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of the writer beside; by the clock of all processes, in seconds."""

    begun_s: float
    latency_s: float


def transaction(writer: str) -> manager.TransactionOptions:
    """Return the options of a process of ours."""
    return small_commits.transaction("optimistic", small_commits.KINDS["chain-ours"], writer)


def rows_of(part: int) -> pa.Table:
    """Return the rows of a partition, with a column whose values are in few file groups each."""
    rows = metadata.keyed_rows(part)
    first = part * rows.num_rows
    values = [_value((first + place) // PER_VALUE) for place in range(rows.num_rows)]
    return rows.append_column(COLUMN, pa.array(values, pa.string()))


def _value(number: int) -> str:
    return f"name-{number:09d}"


def built(path: Path, name: str, engine: Engine | None = None) -> Built:
    """Build an index, by an engine that is not that of threads of this process."""
    CONSOLE.print(f"building {name}")
    env = environment.system()
    opened = table.open_table(str(path), env if engine is None else replace(env, engine=engine))
    memory.forget_peaks([memory.OWN])
    secondary = {name: COLUMN} if name == SECONDARY else {}
    start_s = time.monotonic()
    done = opened.build_index([name], transaction("indexer"), secondary=secondary)
    seconds = time.monotonic() - start_s
    assert done.built == (name,)
    return Built(
        seconds=seconds,
        peak_mib=memory.peak_bytes([memory.OWN]) >> 20,
        hold_ms=done.lock_hold_ms,
    )


def theirs(judge: Judge, path: Path) -> dict[str, float]:
    """Return in how many seconds Apache Hudi makes each index."""
    one = metadata.fresh("one.parquet")
    pq.write_table(rows_of(0).slice(0, 1), one)
    options = {**metadata.KEYED.write_options(), **dict.fromkeys(metadata.RECORD_INDEX, "false")}
    found: dict[str, float] = {}
    for _ in range(3):
        _write(judge, path, one, options)
    ordinary = min(_write(judge, path, one, options) for _ in range(2))
    for name, enabled in ENABLED.items():
        CONSOLE.print(f"Apache Hudi makes {name}")
        options |= enabled
        found[name] = _write(judge, path, one, options) - ordinary
    CONSOLE.print(f"Apache Hudi makes {SECONDARY}")
    start_s = time.monotonic()
    peer_indexes.create(judge, path, {f"of_{COLUMN}": f"({COLUMN})"})
    found[SECONDARY] = time.monotonic() - start_s
    return found


def look_ups(ours: Path, theirs: Path | None, judge: Judge | None) -> Iterator[str]:
    """Measure how long rows are looked for by a key, and by a value."""
    step = max(1, metadata.KEYS // LOOK_UPS)
    numbers = range(17, metadata.KEYS, step)
    wanted = {
        "key, by the record index": ([f"id = 'key-{number:09d}'" for number in numbers], 1),
        "value, by the secondary index": (
            [f"{COLUMN} = '{_value(number // PER_VALUE)}'" for number in numbers],
            PER_VALUE,
        ),
    }
    yield f"""
## Look-ups

Of {len(numbers)} keys and values; ours open the table for each. Milliseconds; `files` says how many
of {metadata.KEYED_PARTITIONS * (metadata.KEYED.buckets or 1)} file slices ours read at most.

| | ours, median | slowest | files | Apache Hudi, median | slowest | ratio |
|---|---:|---:|---:|---:|---:|---:|
"""
    for title, (conditions, count) in wanted.items():
        CONSOLE.print(f"looking up a {title}")
        mine = [_our_look_up(ours, each, count) for each in [conditions[0], *conditions]][1:]
        compared = "| | |"
        if judge is not None and theirs is not None:
            warm = [conditions[0], *conditions]
            spent = [_their_look_up(judge, theirs, each, count) for each in warm][1:]
            ratio = metadata.median_ms(spent) / metadata.median_ms([each for each, _ in mine])
            compared = f"{metadata.median_ms(spent):.0f} | {max(spent) * 1000:.0f} | {ratio:.1f} |"
        seconds = [each for each, _ in mine]
        read = max(files for _, files in mine)
        yield (
            f"| {title} | {metadata.median_ms(seconds):.0f} | {max(seconds) * 1000:.0f} | {read} | "
            f"{compared}\n"
        )


def _our_look_up(path: Path, condition: str, count: int) -> tuple[float, int]:
    """Return the seconds of a look-up, and how many file slices it reads."""
    start_s = time.monotonic()
    opened = table.open_table(str(path), environment.system())
    where = filters.parse(condition)
    found = opened.read(where=where).read_all().num_rows
    seconds = time.monotonic() - start_s
    assert found == count, (condition, found)
    return seconds, len(opened.plan_read(where=where))


def _their_look_up(judge: Judge, path: Path, condition: str, count: int) -> float:
    options = metadata.SKIPPING | metadata.RECORD_INDEX
    query = Query(use_metadata_table=True, where=condition, options=options)
    found = judge.read(path, query).num_rows
    assert found == count, (condition, found)
    return judge.seconds_last


def _write(judge: Judge, path: Path, rows: Path, options: dict[str, str]) -> float:
    start_s = time.monotonic()
    judge.write(path, rows, options)
    return time.monotonic() - start_s


def beside(path: Path) -> Iterator[str]:
    """Measure what a build costs a writer beside it."""
    opened = table.open_table(str(path), environment.system())
    opened.drop_index([SECONDARY, RECORD_INDEX], transaction("indexer"))
    spawning = multiprocessing.get_context("spawn")
    is_over, made = spawning.Event(), spawning.Queue()
    writer = spawning.Process(target=_write_on, args=(str(path), is_over, made))
    writer.start()
    time.sleep(WRITER_ALONE_S)
    begun_s = time.monotonic()
    built(path, RECORD_INDEX)
    ended_s = time.monotonic()
    time.sleep(WRITER_ALONE_S)
    is_over.set()
    found: list[Commit] = made.get()
    writer.join()
    yield """
## What it costs a writer

Commits of one row by another process while the record index is built, in ms.

| | commits | median | slowest |
|---|---:|---:|---:|
"""
    for title, first_s, last_s in (
        ("before", 0.0, begun_s),
        ("meanwhile", begun_s, ended_s),
        ("afterwards", ended_s, float("inf")),
    ):
        spent = [each.latency_s * 1000 for each in found if first_s <= each.begun_s < last_s]
        if spent:
            median, slowest = statistics.median(spent), max(spent)
            yield f"| {title} | {len(spent)} | {median:.0f} | {slowest:.0f} |\n"


def by_spark(path: Path, of_theirs: Mapping[str, float]) -> Iterator[str]:
    """Measure builds by tasks of Spark."""
    found = {"spark.driver.memory": "2g", "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)}
    spark = session.open_session("index builds", 2, found)
    engine = SparkEngine(spark.sparkContext)
    engine.map(str, range(8))  # Its workers are there then.
    yield """
## On Spark

In a session of two cores; the peak is not that of its workers.

| index | seconds | lock held, ms | Apache Hudi, seconds | ratio |
|---|---:|---:|---:|---:|
"""
    names = (*ENABLED, SECONDARY)
    opened = table.open_table(str(path), environment.system())
    opened.drop_index(names, transaction("indexer"))
    for name in names:
        ours = built(path, name, engine)
        compared = " | |"
        if name in of_theirs:
            compared = f"{of_theirs[name]:.1f} | {of_theirs[name] / ours.seconds:.1f} |"
        yield f"| {name} | {ours.seconds:.1f} | {ours.hold_ms:.0f} | {compared}\n"
    spark.stop()


def _write_on(uri: str, is_over: Event, made: "multiprocessing.Queue[list[Commit]]") -> None:
    """Commit one row at a time until it is over."""
    env = environment.system()
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT, transaction=transaction("writer")
    )
    rows = rows_of(0).slice(0, 1)
    found = []
    while not is_over.is_set():
        begun_s = time.monotonic()
        table.open_table(uri, env).write(rows, options)
        found.append(Commit(begun_s=begun_s, latency_s=time.monotonic() - begun_s))
    made.put(found)


def page(*, is_ours_alone: bool, has_spark: bool) -> Iterator[str]:
    """Measure all, and yield the page."""
    circumstances = machine.circumstances()
    path, copy = metadata.fresh("built"), metadata.fresh("built-by-theirs")
    plain = metadata.fresh("built-plain")
    for each in (path, plain):
        CONSOLE.print(f"writing {metadata.KEYS:,} rows")
        opened = metadata.write_parts(
            each, rows_of, metadata.KEYED_PARTITIONS, has_filters=each is path
        )
        if each is path and not is_ours_alone:
            shutil.copytree(path, copy)
        opened = opened.configure_chain(
            transaction("indexer"), has_chain=True, has_foreign_writers=False
        )
        opened.initialise_metadata(transaction("indexer"), has_statistics=False)
    yield _HEAD.format(
        date=datetime.now(UTC).date(),
        circumstances=circumstances,
        rows=metadata.KEYS,
        partitions=metadata.KEYED_PARTITIONS,
        buckets=metadata.KEYED.buckets,
        per_value=PER_VALUE,
    )
    settings = replace(Settings(name="index builds", cores=2), memory_mb=4096, jvm_options=())
    with contextlib.ExitStack() as stack:
        judge, of_theirs = None, dict[str, float]()
        if not is_ours_alone:
            judge = stack.enter_context(Judge(metadata.WORK / "judge", settings))
            of_theirs = theirs(judge, copy)
        builds = [(name, path, name) for name in (*ENABLED, SECONDARY)]
        builds.insert(2, (f"{BLOOM_FILTERS}, of keys", plain, BLOOM_FILTERS))
        for title, place, name in builds:
            ours = built(place, name)
            compared = " | |"
            if title in of_theirs:
                compared = f"{of_theirs[title]:.1f} | {of_theirs[title] / ours.seconds:.1f} |"
            yield (
                f"| {title} | {ours.seconds:.1f} | {metadata.KEYS / ours.seconds:,.0f} | "
                f"{ours.peak_mib} | {ours.hold_ms:.0f} | {compared}\n"
            )
        yield from look_ups(path, None if judge is None else copy, judge)
    yield from beside(path)
    if has_spark:
        yield from by_spark(path, of_theirs)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Measure indexes that are built beside writers.")
    parser.add_argument("--rows", type=int, default=metadata.KEYS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--ours-alone", action="store_true", help="without Apache Hudi")
    parser.add_argument("--spark", action="store_true", help="build by tasks of Spark as well")
    arguments = parser.parse_args()
    metadata.KEYS = arguments.rows
    pieces = []
    for piece in page(is_ours_alone=arguments.ours_alone, has_spark=arguments.spark):
        CONSOLE.print(piece, end="", markup=False)
        pieces.append(piece)
    arguments.results.write_text("".join(pieces))


if __name__ == "__main__":
    main()
