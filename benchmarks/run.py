"""Apache Hudi and we, on the same machine and data, in alternating runs; writes RESULTS.md.

    .venv/bin/python benchmarks/run.py [--workload NAME]... [--repeat N]

Every figure is the median over the runs of one side; the ratio is Apache Hudi's time over ours.
Each of our runs is a process of its own, warmed up by a small table; Apache Hudi stays in one warm
JVM, which is idle while we run.
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

import numpy as np  # noqa: E402 (the path comes first)
import pyarrow as pa  # noqa: E402
from data import WORKLOADS, Workload, generate  # noqa: E402
from peer import ApacheHudi  # noqa: E402
from rich.console import Console  # noqa: E402
from steps import Run, Step  # noqa: E402

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PARITY = """
Parity: the same parquet files in, the same keys, buckets, codec, log block format and merge mode;
2 cores; no metadata table, no bloom filters, no cleaning or archiving; 1 ms of clock skew. What
differs: we fsync data files and timeline, Apache Hudi does not on a local disk; its heap is fixed
at 4 GiB. `bulk_insert` is Apache Hudi's bulk insert and, until we have one, our first upsert. The
three full scans differ in where the rows go: nowhere, into Arrow in the caller, into a parquet
file. The workload `gzip` is Apache Hudi's own defaults: gzip, Avro log blocks.
"""


def main() -> None:
    """Run the benchmarks side by side and write RESULTS.md."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS], help="default: all")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks" / "work")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    sections = []
    load_before = os.getloadavg()[0]
    with ApacheHudi(arguments.folder / "peer") as peer:
        versions = peer.versions()
        for name in arguments.workload or WORKLOADS:
            workload = WORKLOADS[name]
            console.print(f"[bold]{name}[/]: making the input")
            inputs = generate(arguments.folder / "inputs", workload.sizes)
            console.print(f"[bold]{name}[/]: warming Apache Hudi up")
            peer.warm_up(workload, arguments.folder / "inputs")
            ours, theirs = [], []
            for number in range(1, arguments.repeat + 1):
                console.print(f"[bold]{name}[/]: run {number} of {arguments.repeat}")
                ours.append(_our_run(workload, arguments.folder))
                theirs.append(peer.run(workload, inputs))
            sections.append(_section(workload, ours, theirs))
            console.print(sections[-1])
    header = _header(
        f"Apache Hudi {versions.hudi} on Spark {versions.spark}, Java {versions.java}",
        load_before,
        arguments.repeat,
    )
    arguments.results.write_text("\n".join([header, *sections]))
    console.print(f"wrote {arguments.results}")


def _our_run(workload: Workload, folder: Path) -> Run:
    output = folder / "ours.json"
    subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "ours.py"),
            f"--workload={workload.name}",
            f"--folder={folder}",
            f"--output={output}",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    stored = json.loads(output.read_text())
    return Run(**stored | {"steps": tuple(Step(**step) for step in stored["steps"])})


def _section(workload: Workload, ours: Sequence[Run], theirs: Sequence[Run]) -> str:
    what = (
        f"{workload.sizes.rows:,} rows, {workload.sizes.upserts} upserts of "
        f"{workload.sizes.upsert_rows:,}, key {', '.join(workload.record_key)}, "
        f"{workload.buckets} buckets, codec {workload.codec}, "
        f"{'parquet' if workload.parquet_logs else 'Avro'} log blocks"
    )
    columns = ("s", "our s", "ratio", "MiB", "our MiB", "MB on disk", "our MB on disk")
    lines = [
        f"## {workload.name}",
        "",
        what,
        "",
        f"| step | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for name in [step.name for step in ours[0].steps]:
        mine, peers = _steps(ours, name), _steps(theirs, name)
        if not peers:
            continue
        my_s = statistics.median(step.seconds for step in mine)
        peer_s = statistics.median(step.seconds for step in peers)
        lines.append(
            f"| {name} | {peer_s:.2f} | {my_s:.2f} | {peer_s / my_s:.1f} | "
            f"{_median_mib(peers):.0f} | {_median_mib(mine):.0f} | "
            f"{_median_mb(peers):.1f} | {_median_mb(mine):.1f} |"
        )
    return "\n".join([*lines, ""])


def _steps(runs: Iterable[Run], name: str) -> list[Step]:
    return [step for run in runs for step in run.steps if step.name == name]


def _median_mib(steps: Iterable[Step]) -> float:
    return statistics.median(step.peak_bytes for step in steps) / 2**20


def _median_mb(steps: Iterable[Step]) -> float:
    return statistics.median(step.stored_bytes for step in steps) / 1e6


def _header(peer_versions: str, load_before: float, repeat: int) -> str:
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    ours = f"Python {platform.python_version()}, pyarrow {pa.__version__}, numpy {np.__version__}"
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"""# Side by side with Apache Hudi

Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}; medians of {repeat} alternating runs.
{os.cpu_count()} cores ({processor}), {memory_gib:.0f} GiB, load {load_before:.1f} before.
{peer_versions}; {ours}.
{PARITY}"""


if __name__ == "__main__":
    main()
