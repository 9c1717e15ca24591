"""Measures commits: latency and rate with many writers, and what the lock is held for.

    .venv/bin/python benchmarks/commits.py [--writers N]... [--no-peer] [--results FILE]

Each writer is a process of its own (a thread of one warm Spark session on Apache Hudi's side) and
has a bucket of its own, so that nobody loses a conflict. All begin at once; a writer commits small
batches, one after the other. `wait` is the time that a clock which others do not share makes a
writer wait under the lock: none where all writers are ours, and more beside a JVM (`clock_wait_ms`
of ours, `hoodie.time.generator.max_expected_clock_skew_ms` of Apache Hudi's).
"""

import argparse
import contextlib
import functools
import json
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hoodie.transaction import manager

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import machine  # noqa: E402 (the path comes first)
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.index import bucket  # noqa: E402
from hoodie.model import commits, results, schemas, settings, table_config  # noqa: E402
from hoodie.storage.local import LocalStorage  # noqa: E402
from hoodie.storage.protocol import Storage  # noqa: E402
from hoodie.transaction import authors  # noqa: E402
from hoodie.transaction.locks import address_texts  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from support.peer.judge import Judge, Settings  # noqa: E402
from support.peer.peer_options import PeerTable, filesystem_lock  # noqa: E402

RESULTS = ROOT / "benchmarks" / "COMMITS.md"
WORK = ROOT / "benchmarks" / "work"
BUCKETS = 32
BATCH_ROWS = 10
WRITERS = (1, 8, 32)
PEER_COMMITS = 10
WAITS_MS = (0, 20)
HISTORIES = (10, 100, 1_000)
FILES = (16, 256, 4_096)
MODES = {
    "non-blocking": settings.ConcurrencyMode.NON_BLOCKING,
    "optimistic": settings.ConcurrencyMode.OPTIMISTIC,
}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("value", pa.int64())])
_HEAD = f"""Times in ms, medians and 95 %. Batches of {BATCH_ROWS} rows, a bucket for each writer,
the file system's lock, a local disk, with fsync (Apache Hudi: without). Lock wait and hold are
those of the completion. The clock wait is what beside a JVM's writers a clock is allowed to lag.
"""
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit; milliseconds. The lock's are those of the completion; None where unknown.

    Attributes:
        requests: To the storage: a call of it each; counted where one process writes alone.
    """

    latency_ms: float
    wait_ms: float | None = None
    hold_ms: float | None = None
    requests: float | None = None


Hold = tuple[int, Commit]
"""How much a table holds, and the median commit to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What some writers did at one time."""

    side: str
    mode: str
    writers: int
    clock_wait_ms: int
    seconds: float
    commits: tuple[Commit, ...]

    @property
    def rate(self) -> float:
        """Commits a second, of all writers together."""
        return len(self.commits) / self.seconds


def batches_of(writer: int, count: int) -> list[pa.Table]:
    """Return a writer's batches: keys of its own bucket, ordering values that nobody shares."""
    numbers = [f"w{writer}-{number}" for number in range(BUCKETS * BATCH_ROWS * 4)]
    places = bucket.buckets([pa.array(numbers)], BUCKETS)
    keys = [key for key, place in zip(numbers, places, strict=True) if place == writer % BUCKETS]
    keys = keys[:BATCH_ROWS]
    return [
        pa.table(
            {
                "id": keys,
                "ts": [
                    (batch * len(keys) + place) * BUCKETS + writer for place in range(len(keys))
                ],
                "value": [batch] * len(keys),
            },
            schema=SCHEMA,
        )
        for batch in range(1, count + 1)
    ]


def create(path: Path, buckets: int = BUCKETS) -> table.Table:
    """Create an empty table."""
    config = table_config.TableConfig(
        name="commits",
        record_key_fields=("id",),
        ordering_fields=("ts",),
        merge_mode=table_config.MergeMode.EVENT_TIME,
        bucket_count=buckets,
    )
    schema = schemas.from_arrow(SCHEMA, config.name)
    return table.create_table(str(path), config, schema, environment.system(parallelism=1))


def commit(
    opened: table.Table, data: pa.Table, writer: int, write: settings.WriteSettings
) -> Commit:
    """Write one batch."""
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=write,
            lock=address_texts.parse("filesystem"),
            author=authors.Author(writer_id=f"w{writer}"),
        ),
    )
    begin = time.perf_counter()
    result = opened.write(data, options)
    latency_ms = (time.perf_counter() - begin) * 1000
    assert isinstance(result, results.CommitResult)
    return Commit(latency_ms=latency_ms, wait_ms=result.lock_wait_ms, hold_ms=result.lock_hold_ms)


class Requests:
    """Counts the calls of a local storage, but for those that one of them makes itself."""

    def __init__(self) -> None:
        self.count = 0
        self._depth = threading.local()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count for a while."""
        calls = {name: getattr(LocalStorage, name) for name in vars(Storage) if name[0] != "_"}
        calls.pop("uri")
        for name, call in calls.items():
            setattr(LocalStorage, name, self._counting(call))
        try:
            yield
        finally:
            for name, call in calls.items():
                setattr(LocalStorage, name, call)

    def _counting(self, call: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(call)
        def counting(*arguments: object, **named: object) -> object:
            depth = getattr(self._depth, "value", 0)
            self.count += depth == 0
            self._depth.value = depth + 1
            try:
                return call(*arguments, **named)
            finally:
                self._depth.value = depth

        return counting


def write_settings(mode: str, clock_wait_ms: int) -> settings.WriteSettings:
    """Return a writer's settings."""
    return settings.WriteSettings(
        concurrency=MODES[mode], clock_wait_ms=clock_wait_ms, lock_wait_ms=300_000
    )


def commits_of(writers: int, at_most: int = 40) -> int:
    """Return how many commits each writer makes, of so many together."""
    return max(3, at_most // writers)


def our_race(mode: str, writers: int, clock_wait_ms: int) -> Race:
    """Have processes of ours commit at one time."""
    path = WORK / "commits"
    shutil.rmtree(path, ignore_errors=True)
    create(path)
    command = [sys.executable, __file__, "--race", str(path), mode, str(clock_wait_ms)]
    processes = [
        subprocess.Popen(
            [*command, str(number), str(commits_of(writers))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    begin = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    made: list[Commit] = []
    for process in processes:
        assert process.stdout is not None
        made += [Commit(**each) for each in json.loads(process.stdout.readline())]
    seconds = time.perf_counter() - begin
    assert [process.wait() for process in processes] == [0] * writers
    opened = table.open_table(str(path), environment.system(parallelism=1))
    assert len(opened.timeline().completed_writes) == len(made) == writers * commits_of(writers)
    shutil.rmtree(path)
    return Race(
        side="ours",
        mode=mode,
        writers=writers,
        clock_wait_ms=clock_wait_ms,
        seconds=seconds,
        commits=tuple(made),
    )


def run_writer(path: str, mode: str, clock_wait_ms: str, number: str, count: str) -> None:
    """Be one writer of a race."""
    opened = table.open_table(path, environment.system(parallelism=1))
    write = write_settings(mode, int(clock_wait_ms))
    batches = batches_of(int(number), int(count))
    print("ready", flush=True)
    sys.stdin.readline()
    made = [commit(opened, batch, int(number), write) for batch in batches]
    print(json.dumps([asdict(each) for each in made]), flush=True)


def peer_race(judge: Judge, mode: str, writers: int, clock_wait_ms: int) -> Race:
    """Have threads of Apache Hudi's session commit at one time."""
    path, inputs = WORK / "commits", WORK / "commit-batches"
    for folder in (path, inputs):
        shutil.rmtree(folder, ignore_errors=True)
    inputs.mkdir(parents=True)
    peer = PeerTable(name="commits", ordering="ts", buckets=BUCKETS, parallelism=1)
    lock = filesystem_lock(skew_ms=max(1, clock_wait_ms))
    options = peer.nbcc_options(lock) if mode == "non-blocking" else peer.occ_options(lock)
    options["hoodie.write.lock.num_retries"] = "1000"
    # The table, and code that is warm.
    for number, batch in enumerate(batches_of(BUCKETS - 1, 3)):
        pq.write_table(batch, inputs / f"first-{number}.parquet")
        judge.write(path, inputs / f"first-{number}.parquet", options)
    files: list[list[Path]] = []
    for writer in range(writers):
        files.append([])
        for number, batch in enumerate(batches_of(writer, commits_of(writers, PEER_COMMITS))):
            files[-1].append(inputs / f"{writer}-{number}.parquet")
            pq.write_table(batch, files[-1][-1])
    spent = judge.write_at_once(path, files, options)
    made = tuple(Commit(latency_ms=each * 1000) for writer in spent for each in writer)
    seconds = judge.seconds_last
    for folder in (path, inputs):
        shutil.rmtree(folder)
    return Race(
        side="Apache Hudi",
        mode=mode,
        writers=writers,
        clock_wait_ms=clock_wait_ms,
        seconds=seconds,
        commits=made,
    )


def holds(prepare: Callable[[Path, int], table.Table], counts: Sequence[int]) -> list[Hold]:
    """Return the median commit of a table that `prepare` makes, for each count."""
    found = []
    for count in counts:
        path = WORK / "commits"
        shutil.rmtree(path, ignore_errors=True)
        opened = prepare(path, count)
        write = write_settings("non-blocking", 0)
        made = [commit(opened, batch, 0, write) for batch in batches_of(0, 21)][1:]
        requests = Requests()
        with requests.counted():
            commit(opened, batches_of(0, 22)[-1], 0, write)
        found.append((count, replace(_median(made), requests=requests.count)))
        shutil.rmtree(path)
    return found


def with_history(path: Path, count: int) -> table.Table:
    """Return a table of so many commits."""
    opened = create(path)
    for batch in batches_of(1, count):
        commit(opened, batch, 1, write_settings("non-blocking", 0))
    return opened


def with_files(path: Path, count: int) -> table.Table:
    """Return a table of so many file groups, and one commit."""
    opened = create(path, count)
    numbers = range(count * 20)
    rows = pa.table(
        {"id": [f"k{number}" for number in numbers], "ts": numbers, "value": numbers},
        schema=SCHEMA,
    )
    commit(opened, rows, 1, write_settings("non-blocking", 0))
    assert len(opened.slices()) > 0.9 * count
    return opened


def _median(made: Sequence[Commit]) -> Commit:
    def of(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    latency = of([each.latency_ms for each in made])
    assert latency is not None
    return Commit(
        latency_ms=latency,
        wait_ms=of([each.wait_ms for each in made]),
        hold_ms=of([each.hold_ms for each in made]),
    )


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _race_row(race: Race) -> str:
    middle = _median(race.commits)
    slow = sorted(each.latency_ms for each in race.commits)[int(len(race.commits) * 0.95)]
    cells = [race.mode, str(race.writers), str(race.clock_wait_ms), race.side]
    cells += [f"{race.rate:.1f}", _text(middle.latency_ms), _text(slow)]
    return f"| {' | '.join([*cells, _text(middle.wait_ms), _text(middle.hold_ms)])} |"


def _hold_rows(title: str, found: Sequence[Hold]) -> list[str]:
    lines = [
        f"| {title} | commit | lock wait | lock hold | requests |",
        "|---:|---:|---:|---:|---:|",
    ]
    for count, middle in found:
        cells = [f"{count:,}", f"{middle.latency_ms:.1f}"]
        cells += [_text(middle.wait_ms), _text(middle.hold_ms), _text(middle.requests)]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _report(
    where: str,
    races: Sequence[Race],
    history: Sequence[Hold],
    files: Sequence[Hold],
) -> str:
    titles = ["mode", "writers", "clock wait", "side", "commits/s", "commit", "95 %"]
    titles += ["lock wait", "lock hold"]
    return "\n".join(
        [
            "# Commits",
            "",
            f"Written by `benchmarks/commits.py` on {datetime.now(UTC):%Y-%m-%d}.",
            f"{where}.",
            _HEAD,
            f"| {' | '.join(titles)} |",
            "|---|---:|---:|---|---:|---:|---:|---:|---:|",
            *map(_race_row, races),
            "",
            "One writer, by what the table holds:",
            "",
            *_hold_rows("commits before", history),
            *_hold_rows("file groups", files),
        ]
    )


def main() -> None:
    """Run the races and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--writers", type=int, action="append", help="default: 1, 8 and 32")
    parser.add_argument("--no-peer", action="store_true", help="leave Apache Hudi out")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--race", nargs=5, metavar="ARGUMENT", help="be one writer of a race")
    options = parser.parse_args()
    if options.race:
        run_writer(*options.race)
        return
    where = machine.circumstances()
    races = []
    for mode in MODES:
        for writers in options.writers or WRITERS:
            for clock_wait_ms in WAITS_MS:
                CONSOLE.print(f"{mode}: {writers} writers, clock wait {clock_wait_ms} ms")
                races.append(our_race(mode, writers, clock_wait_ms))
    if not options.no_peer:
        judge_settings = replace(Settings(name="commits", cores=2), memory_mb=4096, jvm_options=())
        with Judge(WORK / "judge", judge_settings) as judge:
            versions = judge.versions()
            where += f"; Apache Hudi {versions.hudi} on Spark {versions.spark}"
            for mode in MODES:
                for writers in options.writers or WRITERS:
                    CONSOLE.print(f"Apache Hudi, {mode}: {writers} writers")
                    races.append(peer_race(judge, mode, writers, WAITS_MS[-1]))
    races.sort(key=lambda race: (race.mode, race.writers, race.clock_wait_ms, race.side))
    CONSOLE.print("by length of the history and number of files")
    text = _report(where, races, holds(with_history, HISTORIES), holds(with_files, FILES))
    print(text)
    options.results.write_text(text)


if __name__ == "__main__":
    main()
