"""Measures what concurrency costs: lost conflicts, and commits beside a compaction.

    .venv/bin/python benchmarks/contention.py [--writers N]... [--seconds S] [--results FILE]

T-N21: so many processes upsert the same keys in two buckets, one batch after the other, for some
seconds. An optimistic one that loses writes its batch again; a non-blocking one never loses.

T-C06: a process commits small batches for as long, alone and while another one compacts the table
again and again: what the compaction costs a commit, and how much of that is waiting for the lock.

And 32 optimistic writers that share no bucket (`races`), of a table whose chain orders them: with
the lock, and without any.
"""

import argparse
import multiprocessing
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import machine  # noqa: E402 (the path comes first)
import pyarrow as pa  # noqa: E402
import races  # noqa: E402
import small_commits  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, errors, table  # noqa: E402

RESULTS = ROOT / "benchmarks" / "CONTENTION.md"
WORK = ROOT / "benchmarks" / "work"
BUCKETS = 2
KEYS = 40
WRITERS = (2, 4, 8)
SECONDS = 8.0
COMPACTED_ROWS = 400_000
KIND = small_commits.KINDS["ours"]
APART_WRITERS = 32
APART_BATCHES = 10
APART_LOCKS = {"the file system's": "filesystem", "none": races.NO_LOCK}
_CONFLICTS = """# Contention

Written by `benchmarks/contention.py`; {circumstances}.
A local disk, no clock wait; the file system's lock, and tables without a chain, but for the last
section.

## Writers of the same keys

{keys} keys in {buckets} buckets, upserted by all writers again and again for {seconds:g} s.
`lost` are attempts that another commit made worthless, of all attempts.

| mode | writers | commits/s | lost | lost, % |
|---|---:|---:|---:|---:|
"""
_COMPACTION = """
## Commits beside a compaction

One writer of {keys} rows a batch, on a table of {rows:,} rows. Times in ms.

| beside it | commits | commit, median | slowest | wait for the lock, median | longest |
|---|---:|---:|---:|---:|---:|
"""
_APART = """
## Writers that share no file group, with a lock and without

{writers} optimistic writers, a bucket for each, {batches} batches each, on a table with a chain
that no other engine writes. Without a lock each acquires it at once. Times in ms.
`decided again`: inside a commit, since another writer was faster; in `numbers lost` of them it had
created the next epoch. `refused`: writes that ended in a conflict all the same, and began again.

| lock | commits/s | commit, median | 95 % | decided again | numbers lost | refused |
|---|---:|---:|---:|---:|---:|---:|
"""
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What one writer did.

    Attributes:
        lost: Attempts that ended in a conflict.
        commits: Those that did not.
    """

    lost: int = 0
    commits: Sequence[small_commits.Commit] = field(default_factory=tuple)


def batch(writer: int, number: int) -> pa.Table:
    """Return a batch of the same keys, with ordering values that no other batch has."""
    first = (number * max(WRITERS) + writer) * KEYS
    return pa.table(
        {
            "id": [f"k{key}" for key in range(KEYS)],
            "ts": list(range(first, first + KEYS)),
            "value": [number] * KEYS,
        },
        schema=small_commits.SCHEMA,
    )


def write_for(path: str, mode: str, writer: int, seconds: float) -> Made:
    """Be one writer."""
    opened = table.open_table(path, environment.system(parallelism=1))
    made_by = small_commits.transaction(mode, KIND, f"w{writer}")
    made, lost = [], 0
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        rows = batch(writer, len(made) + 1)
        try:
            made.append(small_commits.commit(opened, rows, made_by))
        except errors.WriteConflictError:
            lost += 1
    return Made(lost=lost, commits=tuple(made))


def compact_for(path: str, seconds: float) -> int:
    """Be a compactor, and return how many compactions that were."""
    opened = table.open_table(path, environment.system(parallelism=1))
    transaction = small_commits.transaction("non-blocking", KIND)
    count = 0
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        planned = opened.schedule_compaction(transaction)
        if planned is None:
            time.sleep(0.01)
            continue
        opened.compact(planned, transaction)
        count += 1
    return count


def contend(mode: str, writers: int, seconds: float) -> Sequence[Made]:
    """Have processes write the same keys."""
    path = WORK / "contention"
    shutil.rmtree(path, ignore_errors=True)
    small_commits.create(path, KIND, BUCKETS)
    context = multiprocessing.get_context("spawn")
    with context.Pool(writers) as pool:
        made = pool.starmap(
            write_for, [(str(path), mode, number, seconds) for number in range(writers)]
        )
    shutil.rmtree(path)
    return made


def beside_compaction(seconds: float, *, is_compacted: bool) -> tuple[Made, int]:
    """Have a process write, and another one compact or not; return how many compactions."""
    path = WORK / "contention"
    shutil.rmtree(path, ignore_errors=True)
    opened = small_commits.create(path, KIND, BUCKETS)
    numbers = range(COMPACTED_ROWS)
    rows = {"id": [f"k{number}" for number in numbers], "ts": [0] * len(numbers), "value": numbers}
    data = pa.table(rows, schema=small_commits.SCHEMA)
    small_commits.commit(opened, data, small_commits.transaction("non-blocking", KIND, "w0"))
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        compacting = pool.apply_async(compact_for, (str(path), seconds)) if is_compacted else None
        made = pool.apply(write_for, (str(path), "non-blocking", 1, seconds))
        count = compacting.get() if compacting is not None else 0
    shutil.rmtree(path)
    return made, count


def race_apart(lock: str, writers: int) -> races.Result:
    """Have optimistic writers commit at one time, each to a bucket of its own."""
    path = WORK / "contention"
    shutil.rmtree(path, ignore_errors=True)
    entrants = races.Entrants(
        uri=str(path),
        kind="chain-ours",
        mode="optimistic",
        lock=lock,
        writers=writers,
        batches=APART_BATCHES,
    )
    result = races.run(entrants)
    shutil.rmtree(path)
    return result


def conflict_row(mode: str, writers: int, seconds: float, made: Sequence[Made]) -> str:
    """Return what writers of one mode did."""
    done = sum(len(each.commits) for each in made)
    lost = sum(each.lost for each in made)
    share = 100 * lost / max(1, done + lost)
    return f"| {mode} | {writers} | {done / seconds:.1f} | {lost} | {share:.0f} |\n"


def compaction_row(beside: str, made: Made) -> str:
    """Return what a writer met."""
    latencies = [each.latency_ms for each in made.commits]
    waits = [each.wait_ms or 0.0 for each in made.commits]
    cells = [beside, str(len(latencies)), f"{statistics.median(latencies):.0f}"]
    cells += [f"{max(latencies):.0f}", f"{statistics.median(waits):.0f}", f"{max(waits):.0f}"]
    return f"| {' | '.join(cells)} |\n"


def apart_row(lock: str, result: races.Result) -> str:
    """Return what writers that share nothing did."""
    made, overtaken = result.commits, result.overtaken
    cells = [lock, f"{result.rate:.1f}", f"{small_commits.median(made).latency_ms:.0f}"]
    cells += [f"{small_commits.slowest_ms(made):.0f}", str(overtaken.decided_again)]
    cells += [str(overtaken.numbers_lost), str(overtaken.refused)]
    return f"| {' | '.join(cells)} |\n"


def main() -> None:
    """Measure all and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--writers", type=int, action="append", help="default: 2, 4 and 8")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each measurement")
    parser.add_argument(
        "--apart", type=int, default=APART_WRITERS, help="writers that share nothing; default: 32"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    seconds: float = options.seconds
    text = _CONFLICTS.format(
        circumstances=machine.circumstances(), keys=KEYS, buckets=BUCKETS, seconds=seconds
    )
    for mode in small_commits.MODES:
        for writers in options.writers or WRITERS:
            CONSOLE.print(f"{mode}: {writers} writers")
            made = contend(mode, writers, seconds)
            assert mode == "optimistic" or not any(each.lost for each in made), "one has lost"
            text += conflict_row(mode, writers, seconds, made)
    text += _COMPACTION.format(keys=KEYS, rows=COMPACTED_ROWS)
    CONSOLE.print("beside a compaction")
    text += compaction_row("nobody", beside_compaction(seconds, is_compacted=False)[0])
    made_beside, count = beside_compaction(seconds, is_compacted=True)
    text += compaction_row(f"compactions ({count})", made_beside)
    text += _APART.format(writers=options.apart, batches=APART_BATCHES)
    for lock, address in APART_LOCKS.items():
        CONSOLE.print(f"{options.apart} writers that share nothing, lock: {lock}")
        text += apart_row(lock, race_apart(address, options.apart))
    sys.stdout.write(text)
    options.results.write_text(text)


if __name__ == "__main__":
    main()
