"""Measures what keeps tables from growing, beside Apache Hudi; writes RETENTION.md.

    .venv/bin/python benchmarks/retention.py [--repeat N] [--only NAME]... [--results FILE]

Plans of cleans of many files, cleans, archiving, and commits to tables with a long history
(`large_tables`). Both sides get the same table, made once and linked file by file, and do the same
work in turns: Apache Hudi in a warm session (`peer`), we in a process each (`retention_ours`). The
figures are the fastest of the runs of each side. That both choose the same files is asserted.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import large_tables  # noqa: E402 (the path comes first)
import machine  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import retention_ours  # noqa: E402
import slow_s3  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import schemas  # noqa: E402
from support.peer.judge import Judge, Settings  # noqa: E402
from support.peer.peer_options import PeerTable, filesystem_lock  # noqa: E402

RESULTS = ROOT / "benchmarks" / "RETENTION.md"
WORK = ROOT / "benchmarks" / "work" / "retention"
OURS = ROOT / "benchmarks" / "retention_ours.py"
CORES = 2
PEER = PeerTable(
    name="large",
    partition_by=("part",),
    ordering="ts",
    buckets=large_tables.GROUPS,
    parallelism=CORES,
    extra={
        "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
        "hoodie.clean.commits.retained": str(retention_ours.RETAINED),
        "hoodie.clean.parallelism": str(CORES),
        "hoodie.keep.min.commits": str(retention_ours.POLICY.commits_min),
        "hoodie.keep.max.commits": str(retention_ours.POLICY.commits_max),
        "hoodie.compact.inline.max.delta.commits": str(
            retention_ours.POLICY.compaction_delta_commits
        ),
    },
)
OPTIONS = PEER.shared_options(filesystem_lock(skew_ms=1))
HISTORY_BUCKETS = 8
WITH_POLICIES = replace(PEER, buckets=HISTORY_BUCKETS).shared_options(
    filesystem_lock(skew_ms=1)
) | {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "10",
    "hoodie.archive.automatic": "true",
}
PLANS = {
    "plan of a whole table, 100,000 files": large_tables.compacted_whole(100, 4),
    "plan since the last clean, 100,000 files": large_tables.cleaned_before(198, 20),
}
CLEANED = large_tables.compacted_whole(20, 0)
CLEANED_OF_GROUP = 5
"""So many files of each file group go: a base file and four log files."""

ARCHIVED = 10_000
S3_LATENCY_MS = 20
HISTORIES = (100, 1_000, 10_000, 1_000_000)
COLD_KEYS = [f"cold{number}" for number in range(50)]
BEFORE_MS = 60_000
"""So long before the first commit that is not of the history its newest instant was requested."""

PEER_ROUNDS = 11
CONSOLE = Console(stderr=True)

_HEAD = """# What keeps tables from growing

Written by `make bench` (`benchmarks/retention.py`) on {date}.
{circumstances}.
Apache Hudi {hudi} on Spark {spark}, Java {java}, in a warm session with a heap of 4 GiB; ours on
local threads, each run a process of its own.

Seconds are the fastest of {repeat} runs of each side, in turns, on the same table. So are those of
CPU, which say more where the machine has other work, and do not say that Apache Hudi uses both
cores. Memory is the peak of the fastest run. Both sides have {cores} cores, the file system's lock
and no metadata table. The tables are merge-on-read. Both plan to delete the same files, and archive
the same instants; the benchmark asserts it.
"""
_TITLES = (
    "what",
    *("Apache Hudi s", "ours s", "ratio"),
    *("Apache Hudi CPU s", "ours CPU s", "ratio"),
    *("Apache Hudi MiB", "ours MiB"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run took."""

    seconds: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The runs of both sides."""

    title: str
    theirs: Sequence[Run]
    ours: Sequence[Run]

    def row(self) -> str:
        """Return the line of the report."""
        theirs, ours = (min(each, key=lambda run: run.seconds) for each in (self.theirs, self.ours))
        cells = [self.title, f"{theirs.seconds:.2f}", f"{ours.seconds:.2f}"]
        cells += [f"{theirs.seconds / ours.seconds:.1f}"]
        theirs_cpu_s, ours_cpu_s = (
            min(run.cpu_s for run in runs) for runs in (self.theirs, self.ours)
        )
        cells += [f"{theirs_cpu_s:.2f}", f"{ours_cpu_s:.2f}", f"{theirs_cpu_s / ours_cpu_s:.1f}"]
        cells += [f"{run.peak_bytes / 2**20:.0f}" for run in (theirs, ours)]
        return _row(cells)


class Sides:
    """Both sides, each of which does something to a table."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._pid = judge.versions().jvm_pid

    def theirs(self, work: Callable[[], object]) -> Run:
        """Have Apache Hudi do something."""
        self.judge.peak_memory_bytes(reset=True)
        begin_s = self.cpu_s()
        work()
        return Run(
            seconds=self.judge.seconds_last,
            cpu_s=self.cpu_s() - begin_s,
            peak_bytes=self.judge.peak_memory_bytes(),
        )

    def cpu_s(self) -> float:
        """Return the CPU time that Apache Hudi's Java has taken."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def ours(task: str, uri: str) -> tuple[Run, Mapping[str, Any]]:
    """Have a process of ours do a task."""
    command = [sys.executable, str(OURS), task, uri]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    run = Run(seconds=found["seconds"], cpu_s=found["cpu_s"], peak_bytes=found["peak_bytes"])
    return run, found


def linked(master: Path, name: str) -> Path:
    """Return a table with the files of another one."""
    path = WORK / name
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(master, path, copy_function=os.link)
    return path


def made(name: str, make: Callable[[str], object]) -> Path:
    """Return a table that no run changes."""
    path = WORK / "masters" / name
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    CONSOLE.print(f"making {name}")
    make(str(path))
    return path


def plans(sides: Sides, repeat: int) -> Iterator[str]:
    """Measure plans of cleans."""
    small = made("small", partial(large_tables.create, shape=large_tables.compacted_whole(2, 1)))
    for _ in range(2):
        path = linked(small, "warm")
        sides.judge.schedule_clean(path, OPTIONS)
    yield _row(_TITLES) + "|---|" + "---:|" * (len(_TITLES) - 1) + "\n"
    for title, shape in PLANS.items():
        path = made("many", partial(large_tables.create, shape=shape))
        theirs, our, chosen = [], [], set()
        for _ in range(repeat):
            theirs.append(sides.theirs(partial(sides.judge.schedule_clean, path, OPTIONS)))
            chosen.add(retention_ours.planned_paths(str(path)))
            run, found = ours("plan", str(path))
            our.append(run)
            chosen.add(retention_ours.planned_paths(str(path)))
            assert (found["commits_seen"] is None) == ("whole" in title), found
        assert len(chosen) == 1, f"{title}: the sides chose {sorted(map(len, chosen))} files"
        (paths,) = chosen
        yield Compared(title=f"{title}, {len(paths):,} to delete", theirs=theirs, ours=our).row()


def cleans(sides: Sides, repeat: int) -> Iterator[str]:
    """Measure cleans."""
    master = made("cleaned", partial(large_tables.create, shape=CLEANED))
    theirs, our, left = [], [], set()
    for _ in range(repeat):
        path = linked(master, "theirs")
        theirs.append(sides.theirs(partial(sides.judge.clean, path, OPTIONS)))
        left.add(data_files(path))
        path = linked(master, "ours")
        run, found = ours("clean", str(path))
        our.append(run)
        left.add(data_files(path))
        assert found["count"] == 10_000, found
    assert len(left) == 1, "the sides left different files"
    yield Compared(title="clean of 10,000 files", theirs=theirs, ours=our).row()


def archives(sides: Sides, repeat: int) -> Iterator[str]:
    """Measure archiving: Apache Hudi's by its default batch, and by one like ours."""
    master = made("archived", partial(large_tables.create_long, count=ARCHIVED))
    for title, batch in (
        (f"archiving of {ARCHIVED:,} instants", {}),
        (
            f"the same, `hoodie.commits.archival.batch` = {500}",
            {"hoodie.commits.archival.batch": "500"},
        ),
    ):
        theirs, our, left = [], [], set()
        for _ in range(repeat):
            path = linked(master, "theirs")
            options = OPTIONS | batch
            theirs.append(sides.theirs(partial(sides.judge.archive, path, options, timeout_s=1200)))
            left.add(instants_of(path))
            path = linked(master, "ours")
            our.append(ours("archive", str(path))[0])
            left.add(instants_of(path))
        assert len(left) == 1, f"the sides left {sorted(map(len, left))} instants"
        yield Compared(title=title, theirs=theirs, ours=our).row()


def data_files(path: Path) -> frozenset[str]:
    """Return the paths of a table's data files."""
    return frozenset(
        str(each.relative_to(path))
        for partition in path.iterdir()
        if partition.is_dir() and partition.name != ".hoodie"
        for each in partition.iterdir()
        if not each.name.endswith(".crc") and "partition_metadata" not in each.name
    )


def instants_of(path: Path) -> frozenset[str]:
    """Return the requested times of the writes on a table's timeline."""
    timeline = table.open_table(str(path), environment.system(parallelism=1)).timeline()
    return frozenset(each.requested_time for each in timeline.instants if each.action.is_write)


def on_s3() -> Iterator[str]:
    """Measure our clean of 10,000 files in an object store."""
    with slow_s3.running(WORK, S3_LATENCY_MS) as emulator:
        uri = f"{emulator.new_bucket()}/cleaned"
        CONSOLE.print("making cleaned on S3")
        large_tables.create(uri, CLEANED)
        emulator.asked()
        run, found = ours("clean", uri)
        asked = emulator.asked()
    assert found["count"] == CLEANED.partitions * large_tables.GROUPS * CLEANED_OF_GROUP, found
    counts = ", ".join(f"{asked.count(method)} {method}" for method in sorted(set(asked)))
    yield f"""
A clean of {found["count"]:,} files on an S3 emulator (moto in a process of this machine,
{S3_LATENCY_MS} ms of sleep before it answers a request): {run.seconds:.1f} s,
{run.peak_bytes / 2**20:.0f} MiB, {len(asked)} requests ({counts}). A GET lists up to 1,000 files,
a POST deletes 1,000.
"""


class AgoClock:
    """The machine's clock, some time ago."""

    def __init__(self, ago_ms: int) -> None:
        """Take how long ago."""
        self._clock = environment.system().clock
        self._ago_ms = ago_ms

    def now_ms(self) -> int:
        """Return that time."""
        return self._clock.now_ms() - self._ago_ms

    def monotonic_s(self) -> float:
        """Return the machine's."""
        return self._clock.monotonic_s()

    def sleep_s(self, seconds: float) -> None:
        """Sleep."""
        self._clock.sleep_s(seconds)


def with_history(uri: str, count: int) -> None:
    """Make a table of ours that was written for long: most of its file groups long ago."""
    config = replace(large_tables.config_of(), bucket_count=HISTORY_BUCKETS)
    schema = schemas.from_arrow(large_tables.SCHEMA, config.name)
    middle_ms = BEFORE_MS + count * large_tables.HISTORY_STEP_MS // 2
    long_ago = replace(environment.system(parallelism=CORES), clock=AgoClock(middle_ms))
    opened = table.create_table(uri, config, schema, long_ago)
    for number in range(2):
        retention_ours.commit(opened, retention_ours.rows_of(COLD_KEYS, number))
    env = environment.system(parallelism=CORES)
    first_ms = env.clock.now_ms()
    for number in range(40):
        retention_ours.commit(table.open_table(uri, env), retention_ours.hot_rows(number - 100))
    table.open_table(uri, env).archive(retention_ours.transaction(), retention_ours.POLICY)
    large_tables.put_history(env.open_storage(uri), count, first_ms - BEFORE_MS)


def histories(sides: Sides) -> Iterator[str]:
    """Measure commits to tables with a history."""
    titles = ("commits before", "open and commit", "clean", "archive", "CPU", "all of a round")
    yield "\n## By the history of a table\n\n"
    yield (
        f"A round opens the table, commits ten rows, cleans and archives; milliseconds. Ours: of "
        f"{retention_ours.ROUNDS} rounds the fastest commit and clean; means of archiving, which "
        "has something to do in every eleventh, of CPU and of whole rounds. Apache Hudi's: a write "
        f"that cleans and archives, mean of {PEER_ROUNDS}. Half of the file groups were written "
        "long ago, so that their completion times are in the archive. All was written by us; "
        "Apache Hudi finds the "
        "completion times in it, and reads the same number of rows.\n\n"
    )
    yield _row([*titles, "MiB", "Apache Hudi", "ratio", "Apache Hudi MiB"])
    yield "|---:|" + "---:|" * 9 + "\n"
    for count in HISTORIES:
        yield _history(sides, count)


def _history(sides: Sides, count: int) -> str:
    master = made(f"history-{count}", partial(with_history, count=count))
    run, found = ours("use", str(linked(master, "ours")))
    spent = found["spent"]
    fastest = [min(spent[name]) for name in ("commit", "clean")]
    fastest += [statistics.fmean(spent["archive"]), run.cpu_s / retention_ours.ROUNDS]
    mean_s = sum(map(sum, spent.values())) / retention_ours.ROUNDS
    path = linked(master, "theirs")
    check_read(sides.judge, path)
    batches = []
    for number in range(PEER_ROUNDS):
        batches.append(WORK / f"batch-{number}.parquet")
        pq.write_table(retention_ours.hot_rows(number), batches[-1])
    seconds = []
    sides.judge.peak_memory_bytes(reset=True)
    for batch in batches:
        sides.judge.write(path, batch, WITH_POLICIES)
        seconds.append(sides.judge.seconds_last)
    peer_s = statistics.fmean(seconds)
    cells = [f"{count:,}", *(f"{each * 1000:.0f}" for each in (*fastest, mean_s))]
    cells += [f"{run.peak_bytes / 2**20:.0f}", f"{peer_s * 1000:.0f}", f"{peer_s / mean_s:.1f}"]
    return _row([*cells, f"{sides.judge.peak_memory_bytes() / 2**20:.0f}"])


def check_read(judge: Judge, path: Path) -> None:
    """Check that Apache Hudi finds in the archive what we find, and reads the same rows."""
    opened = table.open_table(str(path), environment.system(parallelism=CORES))
    old = [each.instant for each, _ in zip(opened.archived_instants(), range(200), strict=False)]
    data_file_times = {
        each.name.rpartition("_")[2].partition(".")[0]
        for each in path.rglob("*_*.parquet")
        if ".hoodie" not in each.parts
    }
    times = {each.requested_time: each.completion_time for each in old}
    # The oldest first: what is asked for is read up to what was read before, and Apache Hudi passes
    # by a file that begins before that range and ends after it.
    found = judge.completion_times(path, sorted({*times, *data_file_times}))
    assert {time: found[time] for time in times} == times
    ours_rows = sum(batch.num_rows for batch in opened.read(columns=["id"]))
    assert judge.read(path, columns=["id"]).num_rows == ours_rows


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


SECTIONS = ("plans", "cleans", "archives", "s3", "histories")


def measure(chosen: Sequence[str], repeat: int) -> Iterator[str]:
    """Measure what is asked for; yield the parts of the report."""
    settings = replace(Settings(name="bench", cores=CORES), memory_mb=4096, jvm_options=())
    with Judge(WORK / "judge", replace(settings, log_level="ERROR")) as judge:
        versions, sides = judge.versions(), Sides(judge)
        yield _HEAD.format(
            date=f"{datetime.now(UTC):%Y-%m-%d}",
            circumstances=machine.circumstances(),
            hudi=versions.hudi,
            spark=versions.spark,
            java=versions.java,
            repeat=repeat,
            cores=CORES,
        )
        yield "\n## Cleaning and archiving\n\n"
        if "plans" in chosen:
            yield from plans(sides, repeat)
        if "cleans" in chosen:
            yield from cleans(sides, repeat)
        if "archives" in chosen:
            yield from archives(sides, repeat)
        if "s3" in chosen:
            yield from on_s3()
        if "histories" in chosen:
            yield from histories(sides)


def main() -> None:
    """Measure and write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", action="append", choices=SECTIONS, help="default: all")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    text = ""
    for section in measure(options.only or SECTIONS, options.repeat):
        print(section, end="", flush=True)
        text += section
        options.results.write_text(text)
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
