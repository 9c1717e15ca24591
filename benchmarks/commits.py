"""Measures commits: rate and latency with many writers, requests, and what the lock is held for.

    .venv/bin/python benchmarks/commits.py [--no-peer] [--results FILE] [WHICH]...
    .venv/bin/python benchmarks/commits.py --trace [WHICH]...

Writers race (`races`; of Apache Hudi as threads of one warm Spark session) on tables of each kind
(`small_commits`), on a local disk and on an S3 emulator that takes 20 ms for each request
(`slow_s3`). WHICH is `--store`, `--kind`, `--mode` or `--writers`, each any number of times, for
some of them alone. `--trace` measures no time: it prints the calls of one commit to the storage,
each with whether the table lock was held, and the HTTP requests that it made; with `--lock
filesystem` the calls of that lock as well.
"""

import argparse
import contextlib
import itertools
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import instruments  # noqa: E402 (the path comes first)
import machine  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import races  # noqa: E402
import slow_s3  # noqa: E402
import small_commits  # noqa: E402
from instruments import Counts  # noqa: E402
from rich.console import Console  # noqa: E402
from small_commits import BATCH_ROWS, BUCKETS, CLOCK_WAIT_MS, KINDS, MODES, Commit  # noqa: E402

from hoodie import table  # noqa: E402
from support.peer.judge import Judge, Settings  # noqa: E402
from support.peer.peer_options import PeerTable, filesystem_lock  # noqa: E402

RESULTS = ROOT / "benchmarks" / "COMMITS.md"
WORK = ROOT / "benchmarks" / "work"
LATENCY_MS = 20
STORES = {"local": "a local disk", "s3": "an S3 emulator"}
COMMITS = {"local": (40, 3), "s3": (16, 2)}
"""About so many in a race, and so many of each writer at least."""
WRITERS = (1, 8, 32)
PEER = "Apache Hudi"
PEER_COMMITS = (10, 3)
TALLIED = (("local", "in-process"), ("local", "filesystem"), ("s3", "in-process"))
"""Where the calls of a commit are counted, by which lock."""
HELD_KINDS = ("ours", "chain-ours")
HISTORIES = (10, 100, 1_000)
FILES = (16, 256, 4_096)
_HEAD = f"""# Commits

Written by `benchmarks/commits.py` on {{date}}.
{{circumstances}}.

Times in ms. Batches of {BATCH_ROWS} rows, a bucket for each writer. Commits, lock waits and lock
holds are medians; the lock's are those of the completion. The clock wait is for what the clock of a
JVM's writer is allowed to lag.
"""
_RACES = {
    "local": """
## On a local disk

With fsync (Apache Hudi: without); the file system's lock.

""",
    "s3": f"""
## On an S3 emulator

moto, in a process of this machine; {LATENCY_MS} ms of sleep before it answers an HTTP request, and
a new connection for each. It answers one request after the other, in some ms, so that many writers
wait for it. The lock is a file on the local disk, as a lock server beside the store would be.

""",
}
_TALLIES = """
## Requests of a commit

Of one writer, by a warm one to a small table; in brackets those while the table lock was held. A
call is one of a method of our storage, on a local disk and in an object store; the store's client
makes one HTTP request of it or several (a directory that is deleted is listed first). The
in-process lock makes no calls, the file system's makes some.

| table | mode | calls | and the file system's lock | HTTP requests to S3 |
|---|---|---:|---:|---:|
"""
_HOLDS = """
## By what the table holds

One non-blocking writer, a local disk.
"""
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A race and what came of it."""

    store: str
    mode: str
    table: str
    clock_wait_ms: int
    writers: int
    result: races.Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The median commit to a table that holds a number of something, and its calls."""

    kind: str
    count: int
    commit: Commit
    calls: Counts


class Places:
    """Fresh places for tables, one at a time on the local disk; the emulator runs when needed."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._s3: slow_s3.SlowS3 | None = None

    @contextlib.contextmanager
    def place(self, store: str) -> Iterator[str]:
        """Give a table's URI."""
        if store == "s3":
            yield f"{self.s3().new_bucket()}/commits"
            return
        path = WORK / "commits"
        shutil.rmtree(path, ignore_errors=True)
        yield str(path)
        shutil.rmtree(path)

    def s3(self) -> slow_s3.SlowS3:
        """Return the emulator."""
        if self._s3 is None:
            self._s3 = self._stack.enter_context(slow_s3.running(WORK, LATENCY_MS))
        return self._s3


def commits_of(writers: int, together: int, at_least: int) -> int:
    """Return how many commits each writer makes."""
    return max(at_least, together // writers)


def our_race(places: Places, store: str, kind: str, mode: str, writers: int) -> Race:
    """Have processes of ours commit at one time."""
    CONSOLE.print(f"{store}, {KINDS[kind].title}, {mode}: {writers} writers")
    lock = "filesystem" if store == "local" else f"filesystem?directory={WORK / 'lock'}"
    with places.place(store) as uri:
        entrants = races.Entrants(
            uri=uri,
            kind=kind,
            mode=mode,
            lock=lock,
            writers=writers,
            batches=commits_of(writers, *COMMITS[store]),
        )
        result = races.run(entrants)
    return Race(
        store=store,
        mode=mode,
        table=KINDS[kind].title,
        clock_wait_ms=KINDS[kind].clock_wait_ms,
        writers=writers,
        result=result,
    )


def peer_race(judge: Judge, mode: str, writers: int) -> Race:
    """Have threads of Apache Hudi's session commit at one time."""
    CONSOLE.print(f"{PEER}, {mode}: {writers} writers")
    path, inputs = WORK / "commits", WORK / "commit-batches"
    for folder in (path, inputs):
        shutil.rmtree(folder, ignore_errors=True)
    inputs.mkdir(parents=True)
    peer = PeerTable(name="commits", ordering="ts", buckets=BUCKETS, parallelism=1)
    lock = filesystem_lock(skew_ms=CLOCK_WAIT_MS)
    options = peer.nbcc_options(lock) if mode == "non-blocking" else peer.occ_options(lock)
    options["hoodie.write.lock.num_retries"] = "1000"
    # The table, and code that is warm.
    for number, batch in enumerate(small_commits.batches_of(BUCKETS - 1, 3)):
        pq.write_table(batch, inputs / f"first-{number}.parquet")
        judge.write(path, inputs / f"first-{number}.parquet", options)
    files: list[list[Path]] = []
    for writer in range(writers):
        batches = small_commits.batches_of(writer, commits_of(writers, *PEER_COMMITS))
        files.append([])
        for number, batch in enumerate(batches):
            files[-1].append(inputs / f"{writer}-{number}.parquet")
            pq.write_table(batch, files[-1][-1])
    spent = judge.write_at_once(path, files, options)
    made = [Commit(latency_ms=each * 1000) for writer in spent for each in writer]
    result = races.Result(seconds=judge.seconds_last, commits=made)
    for folder in (path, inputs):
        shutil.rmtree(folder)
    return Race(
        store="local",
        mode=mode,
        table=PEER,
        clock_wait_ms=CLOCK_WAIT_MS,
        writers=writers,
        result=result,
    )


def traced(places: Places, store: str, kind: str, mode: str, lock: str) -> instruments.Trace:
    """Return the calls of one commit, by a writer that has made some before."""
    trace = instruments.Trace(places.s3().asked if store == "s3" else tuple)
    with places.place(store) as uri:
        opened = small_commits.create(uri, KINDS[kind])
        made_by = small_commits.transaction(mode, KINDS[kind], "w0", lock)
        *before, last = small_commits.batches_of(0, 4)
        for batch in before:
            small_commits.commit(opened, batch, made_by)
        with trace.on():
            small_commits.commit(opened, last, made_by)
    return trace


def hold(places: Places, kind: str, count: int, prepare: "Preparation") -> Hold:
    """Return the median commit to a table that is prepared for that."""
    CONSOLE.print(f"{KINDS[kind].title}, {prepare.__name__}: {count:,}")
    made_by = small_commits.transaction("non-blocking", KINDS[kind], "w0")
    uncounted = small_commits.transaction("non-blocking", KINDS[kind], "w0", "in-process")
    *batches, last = small_commits.batches_of(0, 22)
    trace = instruments.Trace()
    with places.place("local") as uri:
        opened = prepare(uri, kind, count)
        made = [small_commits.commit(opened, batch, made_by) for batch in batches][1:]
        with trace.on():
            small_commits.commit(opened, last, uncounted)
    return Hold(kind=kind, count=count, commit=small_commits.median(made), calls=trace.call_counts)


Preparation = Callable[[str, str, int], table.Table]
"""Makes a table at a URI, of a kind, that holds a number of something."""


def with_history(uri: str, kind: str, count: int) -> table.Table:
    """Return a table of so many commits."""
    opened = small_commits.create(uri, KINDS[kind])
    made_by = small_commits.transaction("non-blocking", KINDS[kind], "w1")
    for batch in small_commits.batches_of(1, count):
        small_commits.commit(opened, batch, made_by)
    return opened


def with_files(uri: str, kind: str, count: int) -> table.Table:
    """Return a table of so many file groups, and one commit."""
    opened = small_commits.create(uri, KINDS[kind], count)
    numbers = range(count * 20)
    rows = pa.table(
        {"id": [f"k{number}" for number in numbers], "ts": numbers, "value": numbers},
        schema=small_commits.SCHEMA,
    )
    made_by = small_commits.transaction("non-blocking", KINDS[kind], "w1")
    small_commits.commit(opened, rows, made_by)
    assert len(opened.slices()) > 0.9 * count
    return opened


def print_trace(title: str, trace: instruments.Trace) -> None:
    """Print the calls of a commit."""
    print(f"\n{title}: {trace.call_counts} calls, {trace.request_counts} HTTP requests\n")
    for number, call in enumerate(trace.calls, 1):
        lock = "lock" if call.is_locked else ""
        print(f"{number:3} {lock:5}{call.name:17}{call.path:70} {' '.join(call.requests)}".rstrip())


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def race_table(found: Sequence[Race]) -> str:
    """Return the rows of a store."""
    titles = ["mode", "writers", "table", "clock wait", "commits/s"]
    text = _row([*titles, "commit", "95 %", "lock wait", "lock hold"])
    text += "|---|---:|---|---:|---:|---:|---:|---:|---:|\n"
    for race in sorted(found, key=lambda race: (race.mode, race.writers)):
        made = race.result.commits
        middle = small_commits.median(made)
        cells = [race.mode, str(race.writers), race.table, str(race.clock_wait_ms)]
        cells += [f"{race.result.rate:.1f}", _text(middle.latency_ms)]
        cells += [_text(small_commits.slowest_ms(made))]
        text += _row([*cells, _text(middle.wait_ms), _text(middle.hold_ms)])
    return text


def tally_row(kind: str, mode: str, traces: Sequence[instruments.Trace]) -> str:
    """Return the counts of one commit, by the stores and locks of `TALLIED`."""
    local, with_lock, s3 = traces
    counts = [local.call_counts, with_lock.call_counts, s3.request_counts]
    return _row([KINDS[kind].title, mode, *map(str, counts)])


def hold_table(title: str, found: Sequence[Hold]) -> str:
    """Return commits by what the table holds."""
    text = "\n" + _row([title, "table", "commit", "lock wait", "lock hold", "calls"])
    text += "|---:|---|---:|---:|---:|---:|\n"
    for each in found:
        cells = [f"{each.count:,}", KINDS[each.kind].title, f"{each.commit.latency_ms:.1f}"]
        cells += [_text(each.commit.wait_ms), _text(each.commit.hold_ms), str(each.calls)]
        text += _row(cells)
    return text


def measure(options: argparse.Namespace, places: Places) -> Iterator[str]:
    """Measure all that is asked for; yield the sections of the report."""
    where = machine.circumstances()
    found = [
        our_race(places, *chosen)
        for chosen in itertools.product(options.store, options.kind, options.mode, options.writers)
    ]
    if not options.no_peer and "local" in options.store:
        judge_settings = replace(Settings(name="commits", cores=2), memory_mb=4096, jvm_options=())
        with Judge(WORK / "judge", judge_settings) as judge:
            versions = judge.versions()
            where += f"; {PEER} {versions.hudi} on Spark {versions.spark}"
            found += [
                peer_race(judge, *chosen)
                for chosen in itertools.product(options.mode, options.writers)
            ]
    yield _HEAD.format(date=f"{datetime.now(UTC):%Y-%m-%d}", circumstances=where)
    for store in options.store:
        yield _RACES[store] + race_table([race for race in found if race.store == store])
    CONSOLE.print("requests of a commit")
    yield _TALLIES
    for kind, mode in itertools.product(options.kind, options.mode):
        yield tally_row(
            kind, mode, [traced(places, store, kind, mode, lock) for store, lock in TALLIED]
        )
    yield _HOLDS
    kinds = [kind for kind in HELD_KINDS if kind in options.kind]
    for title, counts, prepare in (
        ("commits before", HISTORIES, with_history),
        ("file groups", FILES, with_files),
    ):
        yield hold_table(
            title, [hold(places, kind, count, prepare) for count in counts for kind in kinds]
        )


def main() -> None:
    """Run the races and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--writers", type=int, action="append", help="default: 1, 8 and 32")
    parser.add_argument("--store", action="append", choices=STORES, help="default: both")
    parser.add_argument("--kind", action="append", choices=KINDS, help="of table; default: all")
    parser.add_argument("--mode", action="append", choices=MODES, help="default: both")
    parser.add_argument("--no-peer", action="store_true", help="leave Apache Hudi out")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--trace", action="store_true", help="print the calls of a commit instead")
    parser.add_argument("--lock", default="in-process", help="of --trace; default: in-process")
    options = parser.parse_args()
    for name, all_of_them in (
        ("writers", WRITERS),
        ("store", STORES),
        ("kind", KINDS),
        ("mode", MODES),
    ):
        setattr(options, name, getattr(options, name) or list(all_of_them))
    with contextlib.ExitStack() as stack:
        places = Places(stack)
        if options.trace:
            for store, kind, mode in itertools.product(options.store, options.kind, options.mode):
                trace = traced(places, store, kind, mode, options.lock)
                print_trace(f"{store}, {KINDS[kind].title}, {mode}", trace)
            return
        text = ""
        for section in measure(options, places):
            print(section, end="", flush=True)
            text += section
            options.results.write_text(text)


if __name__ == "__main__":
    main()
