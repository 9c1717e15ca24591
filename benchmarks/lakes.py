"""Measures this project beside delta-rs and PyIceberg on the same rows; writes LAKES.md.

    .venv/bin/python benchmarks/lakes.py [--rows N] [--repeat N] [--limit-s S] [--limit-gib G]
        [--only SIDE]... [--results FILE]

Each figure is of a process of its own (`lake_steps.py`), and the sides take turns: a step of one
side, the same of the next, and again, so that a machine that slows down slows all. A process that
takes longer than the limit, or more memory, is ended and reported so. Answers must be equal.

Sketch for 10,000,000 rows: 0.7 GB of input and 3 GB of tables; five sides, some 25 minutes, of
which PyIceberg's upserts take what the limit allows.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]  # our neighbours

import data  # noqa: E402 (the path comes first)
import machine  # noqa: E402
from rich.console import Console  # noqa: E402

RESULTS = ROOT / "benchmarks" / "LAKES.md"
WORK = ROOT / "benchmarks" / "work" / "lakes"
STEPS = ROOT / "benchmarks" / "lake_steps.py"
PYTHON = str(ROOT / ".peers" / "lakes" / ".venv" / "bin" / "python")
"""Of all sides: one environment, without pandas, whose import pyarrow's datasets would wait for."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "core")}
CONSOLE = Console(stderr=True)
FILES = 16
"""As of `lake_steps`, which is not imported here: it is run in another environment."""
SHARE = 100
"""An upsert has one row of so many."""
_POLL_S = 0.02

SIDES: Mapping[str, str] = {
    "hoodie": "this project",
    "delta": "delta-rs",
    "iceberg": "PyIceberg",
    "parquet": "plain parquet",
    "arrow": "the same as a dataset of Arrow",
}
READS: Mapping[str, str] = {
    "duckdb": "scan with a filter, DuckDB",
    "polars": "scan with a filter, Polars",
    "count": "count",
    "look_up": "look-up of one key",
}
WRITERS = ("hoodie", "delta", "iceberg")

_HEAD = """# Beside delta-rs and PyIceberg

Written by `benchmarks/lakes.py` on {date}.
{circumstances}.

{rows:,} rows of ten columns, not partitioned, in random order of their keys, and upserts of
{batch:,} rows, of which nine of ten are updates all over the table. deltalake {delta}, pyiceberg
{iceberg}, DuckDB {duckdb}, Polars {polars}, pyarrow {arrow}; all on the same local disk, with their
defaults. This project's table is merge-on-read with a bucket index of {files} buckets, which no
other engine writes.

Each figure is of a process of its own: seconds of the step, the table opened in them, then in
brackets the seconds of the whole process, and the peak of its resident memory in MiB. Medians of
{repeat}, the sides in turn, in one environment, without pandas. This project imports of itself
what a step needs, so its steps have that in them (Imports, below). The filter keeps 4 %
of the rows and reads 5 columns. The extensions of DuckDB for Delta and Iceberg are fetched from a
server and not used: DuckDB reads these tables through Arrow, as it reads slices of this project's
that log files change; of others it reads the files. Polars has readers of its own for both.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a process took.

    Attributes:
        seconds: Of the step; None if the process was ended.
        whole_s: Of the process.
        peak_mib: Of its resident memory.
        answer: What the step found.
        ended_by: The limit that ended it; empty if none did.
    """

    seconds: float | None
    whole_s: float
    peak_mib: int
    answer: object = None
    ended_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a process may take."""

    seconds: float
    mib: int


def measured(command: Sequence[str], limits: Limits) -> Taken:
    """Run a process; end it when it takes more than it may.

    Raises:
        RuntimeError: It failed by itself.
    """
    begun_s = time.monotonic()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=ENVIRONMENT,
    ) as process:
        ended_by = ""
        peak_kib = 0
        while process.poll() is None:
            peak_kib = max(peak_kib, _peak_kib(process.pid))
            if time.monotonic() - begun_s > limits.seconds:
                ended_by = f"over {limits.seconds / 60:g} minutes"
            elif peak_kib > limits.mib * 1024:
                ended_by = f"over {limits.mib / 1024:g} GiB"
            if ended_by:
                os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(_POLL_S)
        out, problem = process.communicate()
        whole_s = time.monotonic() - begun_s
    if ended_by:
        return Taken(seconds=None, whole_s=whole_s, peak_mib=peak_kib >> 10, ended_by=ended_by)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {problem.decode()[-2000:]}")
    found = json.loads(out) if out else {"seconds": whole_s, "answer": None}
    return Taken(
        seconds=found["seconds"],
        whole_s=whole_s,
        peak_mib=found.get("peak_kib", peak_kib) >> 10,
        answer=found["answer"],
    )


def _peak_kib(process: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


class Bench:
    """The sides, their tables, and what was measured so far."""

    def __init__(self, sides: Sequence[str], limits: Limits, repeat: int) -> None:
        self._sides = list(sides)
        self._limits = limits
        self._repeat = repeat
        self.folder = WORK / "tables"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def take(self, side: str, step: str, *given: object) -> Taken:
        """Take a step of one side, once; a side whose step was ended takes no more."""
        command = [PYTHON, str(STEPS), side, step, str(self.folder), *map(str, given)]
        found = measured(command, self._limits)
        told = f"{found.seconds:.3f} s" if found.seconds is not None else found.ended_by
        CONSOLE.print(f"{step:9} {side:8} {told} ({found.whole_s:.2f} s, {found.peak_mib} MiB)")
        return found

    def in_turn(
        self, step: str, sides: Sequence[str], each_given: Sequence[Sequence[object]]
    ) -> dict[str, list[Taken]]:
        """Take a step of several sides in turn, as often as there are arguments for it."""
        found: dict[str, list[Taken]] = {side: [] for side in sides if side in self._sides}
        for given in each_given:
            for side, taken in found.items():
                if not (taken and taken[-1].ended_by):
                    taken.append(self.take(side, step, *given))
        answers = {
            json.dumps(each.answer)
            for number in range(len(each_given))
            for each in (taken[number] for taken in found.values() if len(taken) > number)
            if not each.ended_by
        }
        if len(answers) != 1:
            raise RuntimeError(f"{step}: the sides have different answers: {answers}")
        return found

    def reads(self, sides: Sequence[str]) -> dict[str, dict[str, list[Taken]]]:
        """Take all reads; the first round of each, in which files may be cold, does not count."""
        found = {}
        for step in READS:
            given = [("order-0000000017",) if step == "look_up" else ()] * (self._repeat + 1)
            rounds = self.in_turn(step, sides, given)
            found[step] = {side: taken[1:] or taken for side, taken in rounds.items()}
        return found


def cell(taken: Sequence[Taken]) -> str:
    """Return a cell of the page: medians, or why there are none."""
    if not taken:
        return ""
    if ended := next((each.ended_by for each in taken if each.ended_by), ""):
        return f"{ended} (ended; {max(each.peak_mib for each in taken):,} MiB)"
    seconds = statistics.median(each.seconds for each in taken if each.seconds is not None)
    whole_s = statistics.median(each.whole_s for each in taken)
    peak = statistics.median(each.peak_mib for each in taken)
    return f"{seconds:.2f} ({whole_s:.2f}), {peak:,.0f}"


def table(rows: Mapping[str, Mapping[str, Sequence[Taken]]], sides: Sequence[str]) -> str:
    """Return a table of the page: a row for each step, a column for each side."""
    lines = [["step", *(SIDES[side] for side in sides)], ["---", *["---:"] * len(sides)]]
    for title, by_side in rows.items():
        lines.append([title, *(cell(by_side.get(side, ())) for side in sides)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def imports(repeat: int, limits: Limits) -> str:
    """Measure what imports and the first look at a command cost, in turn; return a table."""
    python = [PYTHON, "-c"]
    commands = {
        "`import pyarrow`": [*python, "import pyarrow"],
        "`import pyarrow, hoodie`": [*python, "import pyarrow, hoodie"],
        "`import pyarrow, hoodie; hoodie.open_table`": [
            *python,
            "import pyarrow, hoodie; hoodie.open_table",
        ],
        "`import deltalake`": [*python, "import deltalake"],
        "`import pyiceberg.catalog, pyiceberg.table`": [
            *python,
            "import pyiceberg.catalog, pyiceberg.table",
        ],
        "`hoodie --help`": [*python, "from hoodie import cli; cli.main()", "--help"],
    }
    found: dict[str, list[float]] = {title: [] for title in commands}
    for number in range(2 * repeat + 1):
        for title, command in commands.items():
            begun_s = time.monotonic()
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                timeout=limits.seconds,
                env=ENVIRONMENT,
            )
            if number:
                found[title].append(time.monotonic() - begun_s)
    lines = ["| process | ms |\n| --- | ---: |\n"]
    lines += [
        f"| {title} | {statistics.median(spent) * 1000:.0f} |\n" for title, spent in found.items()
    ]
    return "".join(lines)


def page(bench: Bench, inputs: data.Inputs, sides: Sequence[str], repeat: int) -> Iterator[str]:
    """Measure all, and yield the page."""
    loads = bench.in_turn("load", [each for each in sides if each != "arrow"], [(inputs.rows,)])
    writers = [side for side in WRITERS if side in sides]
    yield "\n## Reads, after the load\n\n"
    found = bench.reads(sides)
    rows = {READS[step]: by_side for step, by_side in found.items()}
    yield table({"load": loads, **rows}, sides)
    yield f"\n## Upserts of 1 in {SHARE} rows\n\n"
    upserts = bench.in_turn("upsert", writers, [(path,) for path in inputs.upserts])
    yield table({f"upsert, {len(inputs.upserts)} in a row": upserts}, writers)
    yield _compared(upserts)
    left = [side for side in writers if not upserts[side][-1].ended_by]
    yield (
        "\n## Reads, after the upserts\n\nThis project's upserts are in log files, which reads "
        "merge until a compaction has made base files of them. The others' upserts rewrote the "
        "files.\n\n"
    )
    over_logs = bench.reads(left)
    yield table({READS[step]: by_side for step, by_side in over_logs.items()}, left)
    if "hoodie" in left:
        compaction = bench.take("hoodie", "compact")
        compacted = bench.reads(["hoodie"])
        yield f"\nThe compaction: {cell([compaction])}. Then:\n\n"
        yield table({READS[step]: each for step, each in compacted.items()}, ["hoodie"])
        yield _scans(compacted, found)


def _median(taken: Sequence[Taken]) -> float | None:
    spent = [each.seconds for each in taken if each.seconds is not None]
    return statistics.median(spent) if spent and not any(each.ended_by for each in taken) else None


def _compared(upserts: Mapping[str, Sequence[Taken]]) -> str:
    """Return how ours compares with the better of the others that came to an end."""
    ours = _median(upserts.get("hoodie", ()))
    others = {
        side: spent
        for side, taken in upserts.items()
        if side != "hoodie" and (spent := _median(taken)) is not None
    }
    if ours is None or not others:
        return ""
    best = min(others, key=lambda side: others[side])
    peaks = {
        side: statistics.median(each.peak_mib for each in upserts[side])
        for side in ("hoodie", best)
    }
    return (
        f"\nThis project's upsert is {others[best] / ours:.1f} times as fast as that of "
        f"{SIDES[best]}, in {peaks['hoodie'] / peaks[best]:.2f} times its memory.\n"
    )


def _scans(
    compacted: Mapping[str, Mapping[str, Sequence[Taken]]],
    loaded: Mapping[str, Mapping[str, Sequence[Taken]]],
) -> str:
    """Return how scans of a compacted table compare with plain files."""
    told = []
    for step, engine in (("duckdb", "DuckDB"), ("polars", "Polars")):
        ours = _median(compacted[step]["hoodie"])
        for side in ("parquet", "arrow"):
            plain = _median(loaded[step].get(side, ()))
            if ours is not None and plain is not None:
                told.append(f"{engine} {ours / plain:.1f} times those of {SIDES[side]}")
    return f"\nScans of the compacted table take, of {', '.join(told)}.\n" if told else ""


def versions() -> dict[str, str]:
    """Return the versions of the peers and engines."""
    names = {
        "delta": "deltalake",
        "iceberg": "pyiceberg",
        "duckdb": "duckdb",
        "polars": "polars",
        "arrow": "pyarrow",
    }
    code = "import importlib.metadata, sys; print(*map(importlib.metadata.version, sys.argv[1:]))"
    done = subprocess.run(
        [PYTHON, "-c", code, *names.values()], check=True, capture_output=True, text=True
    )
    return dict(zip(names, done.stdout.split(), strict=True))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description="Measure beside delta-rs and PyIceberg.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=600)
    parser.add_argument("--limit-gib", type=float, default=10)
    parser.add_argument("--only", action="append", choices=[*SIDES], help="a side; default: all")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    limits = Limits(seconds=arguments.limit_s, mib=int(arguments.limit_gib * 1024))
    circumstances = machine.circumstances()
    sizes = data.Sizes(
        rows=arguments.rows,
        upserts=arguments.repeat,
        upsert_rows=arguments.rows // SHARE,
        delete_rows=1,
    )
    # As an installation does, and was done with the others' packages.
    compile_all = (PYTHON, "-m", "compileall", "-q", str(ROOT / "core"))
    subprocess.run(compile_all, check=True)
    inputs = data.generate(WORK / "input", sizes)
    # Both ways of reading plain files read the same.
    only = {*(arguments.only or SIDES)}
    sides = [side for side in SIDES if side in only or (side == "parquet" and "arrow" in only)]
    bench = Bench(sides, limits, arguments.repeat)
    head = _HEAD.format(
        date=datetime.now(UTC).date(),
        circumstances=circumstances,
        rows=sizes.rows,
        batch=sizes.upsert_rows,
        files=FILES,
        repeat=arguments.repeat,
        **versions(),
    )
    if left_out := [SIDES[side] for side in SIDES if side not in sides]:
        head += f"\nLeft out of this run, by `--only`: {', '.join(left_out)}.\n"
    text = head + "".join(page(bench, inputs, sides, arguments.repeat))
    text += f"\n## Imports\n\n{imports(arguments.repeat, limits)}"
    arguments.results.write_text(text, encoding="utf-8")
    CONSOLE.print(text)
    shutil.rmtree(bench.folder)


if __name__ == "__main__":
    main()
