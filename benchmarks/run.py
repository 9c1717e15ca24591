"""Apache Hudi and we, on the same machine and data, in alternating runs; writes RESULTS.md.

    .venv/bin/python benchmarks/run.py [--workload NAME]... [--repeat N] [--shrink N]

Every figure is the median over the runs of one side; a ratio is Apache Hudi's time over ours. We
are there twice: on Spark, in one warm session as Apache Hudi is, and on local threads, each run a
process of its own, warmed up by a small table. Whoever does not run is idle.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import duckdb  # noqa: E402 (the path comes first)
import machine  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from data import WORKLOADS, Workload, schema_of, shrunk  # noqa: E402
from ours import Hoodie  # noqa: E402
from ours_on_spark import HoodieOnSpark  # noqa: E402
from peer import ApacheHudi  # noqa: E402
from rich.console import Console  # noqa: E402
from steps import Run, Step, are_same, run, warm_up  # noqa: E402

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PARITY = """
Parity: the same parquet files in, the same columns out, the same keys, buckets, codec, log block
format and merge mode; 2 cores; no metadata table, no bloom filters, no cleaning or archiving; 1 ms
of clock skew. What differs: we fsync data files and timeline, Apache Hudi does not on a local disk.
Spark's heap is 4 GiB on both sides; our memory on Spark has the Python workers in it. The full
scans differ in where the rows go: nowhere, into Arrow in the caller, into parquet files; some
workloads have the first alone. On Spark, both sides scan compacted slices by Spark's own parquet
reader. The aggregate is SQL, which Spark evaluates, and locally DuckDB. The workload `gzip` is
Apache Hudi's own defaults: gzip, Avro log blocks.
"""
TITLES = {ApacheHudi.name: "Apache Hudi", HoodieOnSpark.name: "Spark", Hoodie.name: "local"}


def main() -> None:
    """Run the benchmarks side by side and write a page of results."""
    usual = [name for name, workload in WORKLOADS.items() if not workload.is_large]
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS], help="default: usual")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shrink", type=int, default=1, help="divides all numbers of rows")
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks" / "work")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    folder = arguments.folder
    console = Console(stderr=True)
    sections: list[str] = []
    with ApacheHudi(folder) as peer, HoodieOnSpark(folder) as on_spark:
        versions = peer.versions()
        header = _header(
            f"Apache Hudi {versions.hudi} on Spark {versions.spark}, Java {versions.java}; "
            f"ours on Spark {on_spark.version}, Python {platform.python_version()}",
            os.getloadavg()[0],
            arguments.repeat,
        )
        for name in arguments.workload or usual:
            workload = shrunk(WORKLOADS[name], arguments.shrink)
            console.print(f"[bold]{name}[/]: making the input, warming both Sparks up")
            warm_up(peer, workload, folder, is_first=not sections)
            warm_up(on_spark, workload, folder, is_first=not sections)
            runs = []
            for number in range(1, arguments.repeat + 1):
                console.print(f"[bold]{name}[/]: run {number} of {arguments.repeat}")
                runs.append(run(peer, workload, folder))
                runs.append(run(on_spark, workload, folder))
                runs.append(_local_run(workload, arguments.shrink, folder))
            _check_same(runs)
            sections.append(_section(workload, runs))
            console.print(sections[-1], markup=False)
            # Now and not at the end: a set takes more than an hour, and may be interrupted.
            arguments.results.write_text("\n".join([header, *sections]))
    console.print(f"wrote {arguments.results}")


def _local_run(workload: Workload, shrink: int, folder: Path) -> Run:
    output = folder / "ours.json"
    subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "ours.py"),
            f"--workload={workload.name}",
            f"--shrink={shrink}",
            f"--folder={folder}",
            f"--output={output}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    [stored] = json.loads(output.read_text())
    return Run(**stored | {"steps": tuple(Step(**step) for step in stored["steps"])})


def _check_same(runs: Sequence[Run]) -> None:
    """Make sure that all sides have the same rows in the end."""
    first, *others = runs
    for other in others:
        assert are_same(first.totals, other.totals), (
            f"{first.side} has {first.totals}, {other.side} {other.totals}"
        )


def _section(workload: Workload, runs: Sequence[Run]) -> str:
    what = (
        f"{workload.sizes.rows:,} rows, {workload.sizes.upserts} upserts of "
        f"{workload.sizes.upsert_rows:,}, key {', '.join(workload.record_key)}, "
        f"{len(schema_of(workload.sizes))} columns, {workload.buckets} buckets, "
        f"codec {workload.codec}, "
        f"{'parquet' if workload.parquet_logs else 'Avro'} log blocks"
    )
    times, amounts = [], []
    for name in [step.name for step in runs[0].steps]:
        peer, *mine = (
            [step for run in runs if run.side == side for step in run.steps if step.name == name]
            for side in TITLES
        )
        peer_s = _median(step.seconds for step in peer)
        cells = [f"{peer_s:.2f}"]
        for steps in mine:
            seconds = _median(step.seconds for step in steps)
            cells += [f"{seconds:.2f}", f"{peer_s / seconds:.1f}"]
        times.append([name, *cells])
        cells = [
            f"{_median(step.peak_bytes for step in steps) / 2**20:.0f}" for steps in (peer, *mine)
        ]
        cells.append(f"{_median(step.arrow_peak_bytes for step in mine[-1]) / 2**20:.0f}")
        cells += [
            f"{_median(step.stored_bytes for step in steps) / 1e6:.1f}" for steps in (peer, *mine)
        ]
        amounts.append([name, *cells])
    peer_title, *our_titles = TITLES.values()
    time_titles = [f"{peer_title} s"]
    for title in our_titles:
        time_titles += [f"{title} s", "ratio"]
    amount_titles = [
        *(f"{title} MiB" for title in TITLES.values()),
        "Arrow in local MiB",
        *(f"{title} MB on disk" for title in TITLES.values()),
    ]
    return "\n".join(
        [
            f"## {workload.name}",
            "",
            what,
            "",
            *_table(["step", *time_titles], times),
            "",
            "Peak memory and bytes stored:",
            "",
            *_table(["step", *amount_titles], amounts),
            "",
        ]
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _header(versions: str, load_before: float, repeat: int) -> str:
    return f"""# Side by side with Apache Hudi

What the operator costs with many tables: [CLUSTER.md](CLUSTER.md).
Commits of many writers: [COMMITS.md](COMMITS.md); of the same keys, and beside compactions:
[CONTENTION.md](CONTENTION.md). Cleaning, archiving, long histories:
[RETENTION.md](RETENTION.md).

Written by `benchmarks/run.py` on {datetime.now(UTC):%Y-%m-%d};
medians of {repeat} alternating run(s).
{machine.described()}, load {load_before:.1f} before.
{versions}, pyarrow {pa.__version__}, DuckDB {duckdb.__version__}, numpy {np.__version__}.
{PARITY}"""


if __name__ == "__main__":
    main()
