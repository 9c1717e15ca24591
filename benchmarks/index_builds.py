"""Measures indexes that are built beside writers, beside Apache Hudi; writes INDEX_BUILDS.md.

    .venv/bin/python benchmarks/index_builds.py [--rows N] [--ours-alone] [--results FILE]

A copy-on-write table, by default of ten million rows, whose column statistics, bloom filters and
record index are built one after the other; Apache Hudi builds each at the first write of one row
with the index enabled, in a warm session, of which an ordinary write of one row is taken off. Then
the record index is built again while another process of ours commits one row at a time.
"""

import argparse
import multiprocessing
import shutil
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import machine  # noqa: E402 (the path comes first)
import memory  # noqa: E402
import metadata  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import small_commits  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import commits  # noqa: E402
from hoodie.model.file_statistics import BLOOM_FILTERS, COLUMN_STATS  # noqa: E402
from hoodie.model.key_changes import RECORD_INDEX  # noqa: E402
from hoodie.transaction import manager  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from support.peer.judge import Judge, Settings  # noqa: E402

RESULTS = ROOT / "benchmarks" / "INDEX_BUILDS.md"
CONSOLE = Console(stderr=True)
WRITER_ALONE_S = 10.0
ENABLED = {
    COLUMN_STATS: {"hoodie.metadata.index.column.stats.enable": "true"},
    BLOOM_FILTERS: {"hoodie.metadata.index.bloom.filter.enable": "true"},
    RECORD_INDEX: metadata.RECORD_INDEX,
}

_HEAD = """# Indexes built beside writers

Written by `benchmarks/index_builds.py` on {date}.
{circumstances}.

A copy-on-write table of {rows:,} rows in {partitions} partitions with {buckets} buckets each, whose
keys have 13 characters. The peak is that of the process, in MiB. Apache Hudi makes an index at the
first write of one row with the index enabled, in a warm session with a heap of 4 GiB; an ordinary
write of one row is taken off.

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


def built(path: Path, name: str) -> Built:
    """Build an index."""
    CONSOLE.print(f"building {name}")
    opened = table.open_table(str(path), environment.system())
    memory.forget_peaks([memory.OWN])
    start_s = time.monotonic()
    done = opened.build_index([name], transaction("indexer"))
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
    pq.write_table(metadata.keyed_rows(0).slice(0, 1), one)
    options = {**metadata.KEYED.write_options(), **dict.fromkeys(metadata.RECORD_INDEX, "false")}
    found: dict[str, float] = {}
    for _ in range(3):
        _write(judge, path, one, options)
    ordinary = min(_write(judge, path, one, options) for _ in range(2))
    for name, enabled in ENABLED.items():
        CONSOLE.print(f"Apache Hudi makes {name}")
        options |= enabled
        found[name] = _write(judge, path, one, options) - ordinary
    return found


def _write(judge: Judge, path: Path, rows: Path, options: dict[str, str]) -> float:
    start_s = time.monotonic()
    judge.write(path, rows, options)
    return time.monotonic() - start_s


def beside(path: Path) -> Iterator[str]:
    """Measure what a build costs a writer beside it."""
    opened = table.open_table(str(path), environment.system())
    opened.drop_index([RECORD_INDEX], transaction("indexer"))
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


def _write_on(uri: str, is_over: Event, made: "multiprocessing.Queue[list[Commit]]") -> None:
    """Commit one row at a time until it is over."""
    env = environment.system()
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT, transaction=transaction("writer")
    )
    rows = metadata.keyed_rows(0).slice(0, 1)
    found = []
    while not is_over.is_set():
        begun_s = time.monotonic()
        table.open_table(uri, env).write(rows, options)
        found.append(Commit(begun_s=begun_s, latency_s=time.monotonic() - begun_s))
    made.put(found)


def page(*, is_ours_alone: bool) -> Iterator[str]:
    """Measure all, and yield the page."""
    circumstances = machine.circumstances()
    path, copy = metadata.fresh("built"), metadata.fresh("built-by-theirs")
    CONSOLE.print(f"writing {metadata.KEYS:,} rows")
    opened = metadata.write_parts(path, metadata.keyed_rows, metadata.KEYED_PARTITIONS)
    of_theirs: dict[str, float] = {}
    if not is_ours_alone:
        shutil.copytree(path, copy)
        settings = replace(Settings(name="index builds", cores=2), memory_mb=4096, jvm_options=())
        with Judge(metadata.WORK / "judge", settings) as judge:
            of_theirs = theirs(judge, copy)
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
    )
    for name in ENABLED:
        ours = built(path, name)
        compared = "| |"
        if name in of_theirs:
            compared = f"{of_theirs[name]:.1f} | {of_theirs[name] / ours.seconds:.1f} |"
        yield (
            f"| {name} | {ours.seconds:.1f} | {metadata.KEYS / ours.seconds:,.0f} | "
            f"{ours.peak_mib} | {ours.hold_ms:.0f} | {compared}\n"
        )
    yield from beside(path)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Measure indexes that are built beside writers.")
    parser.add_argument("--rows", type=int, default=metadata.KEYS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--ours-alone", action="store_true", help="without Apache Hudi")
    arguments = parser.parse_args()
    metadata.KEYS = arguments.rows
    text = "".join(page(is_ours_alone=arguments.ours_alone))
    arguments.results.write_text(text)
    CONSOLE.print(text)


if __name__ == "__main__":
    main()
