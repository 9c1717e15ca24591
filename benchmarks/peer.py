"""The Apache Hudi side of the side-by-side benchmark.

One warm Spark session (local[2], a heap of at most 4 GiB, Java's default collector and compiler)
runs the steps of a workload; each step is timed inside that process, without the pipe to it. A
small table goes through the same steps first, so that no step pays for class loading or cold code.

Parity: what our side does, Apache Hudi is told to do, and nothing more: the same files in, the same
index, bucket count, codec, log format, merge mode and number of tasks at once; no metadata table,
no cleaning, archiving or timeline server, and no skew wait but 1 ms. What cannot be made equal:
Apache Hudi does not fsync on a local disk, its local file system writes a checksum file beside each
file, and its bulk insert writes a bloom filter into base files (kept to one hash a key).

A full scan is measured three ways: `noop` makes every row and drops it, `arrow` collects all rows
as Arrow into the driver's Python process, `parquet` writes them all to files again.

Run alone: `.venv/bin/python benchmarks/peer.py --workload plain --output peer.json`.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

from data import (  # noqa: E402 (the path comes first)
    AGGREGATE,
    WARM_UP,
    WORKLOADS,
    Inputs,
    Workload,
    generate,
    stored_bytes,
)
from steps import Run, Step  # noqa: E402

from support.judge import Judge, Query, Settings, Sink, Versions  # noqa: E402
from support.peer_options import PeerTable, filesystem_lock, in_process_lock  # noqa: E402

SIDE = "apache-hudi"
HEAP_MB = 4096
CORES = 2


class ApacheHudi:
    """A warm Apache Hudi. Use as a context manager; `run` may be called any number of times."""

    def __init__(self, folder: Path, *, heap_mb: int = HEAP_MB, cores: int = CORES) -> None:
        settings = Settings(
            name="bench",
            cores=cores,
            memory_mb=heap_mb,
            jvm_options=(),
            log_level="ERROR",
        )
        self._folder = folder
        self._cores = cores
        self._judge = Judge(folder / "judge", settings)

    def __enter__(self) -> Self:
        self._judge.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._judge.close()

    def versions(self) -> Versions:
        """Return what this side runs on."""
        return self._judge.versions()

    def warm_up(self, workload: Workload, inputs_folder: Path) -> None:
        """Take a small table through all steps of the workload, twice."""
        small = replace(workload, sizes=WARM_UP)
        for _ in range(2):
            self.run(small, generate(inputs_folder, small.sizes))

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        """Make the table anew, take it through all steps, and delete it."""
        path = self._folder / "tables" / workload.name
        shutil.rmtree(path, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        options = peer_options(workload, parallelism=self._cores)
        steps = tuple(self._steps(workload, inputs, path, options))
        rows = int(self._judge.read(path, columns=[workload.record_key[0]]).num_rows)
        expected = inputs.rows_after_deletes if workload.deletes else inputs.rows_after_upserts
        assert rows == expected, f"{rows} rows instead of {expected} in {workload.name}"
        shutil.rmtree(path)
        return Run(side=SIDE, workload=workload.name, steps=steps, rows=rows)

    def _steps(
        self, workload: Workload, inputs: Inputs, path: Path, options: Mapping[str, str]
    ) -> Iterator[Step]:
        judge = self._judge
        with self._measured(path) as done:
            judge.write(path, inputs.rows, options, operation="bulk_insert")
        yield done("bulk_insert")
        for number, upsert in enumerate(inputs.upserts, start=1):
            with self._measured(path) as done:
                judge.write(path, upsert, options)
            yield done(f"upsert_{number}")
        if workload.deletes:
            with self._measured(path) as done:
                judge.write(path, inputs.deletes, options, operation="delete")
            yield done("delete")
        yield from self._scans(path, "logs")
        with self._measured(path) as done:
            instant = judge.schedule_compaction(path, options)
        yield done("schedule_compaction")
        assert instant is not None
        with self._measured(path) as done:
            judge.execute_compaction(path, instant, options)
        yield done("compaction")
        yield from self._scans(path, "compacted")

    def _scans(self, path: Path, state: str) -> Iterator[Step]:
        with self._measured(path) as done:
            self._judge.scan(path, Sink.ARROW, Query(select=AGGREGATE))
        yield done(f"aggregate_{state}")
        for sink in Sink:
            with self._measured(path) as done:
                self._judge.scan(path, sink)
            yield done(f"full_scan_{sink}_{state}")

    @contextmanager
    def _measured(self, path: Path) -> Iterator["_Finish"]:
        self._judge.peak_memory_bytes(reset=True)
        finish = _Finish()
        yield finish
        finish.seconds = self._judge.seconds_last
        finish.peak_bytes = self._judge.peak_memory_bytes()
        finish.stored_bytes = stored_bytes(path)


@dataclass(slots=True)
class _Finish:
    seconds: float = 0.0
    peak_bytes: int = 0
    stored_bytes: int = 0

    def __call__(self, name: str) -> Step:
        return Step(
            name=name,
            seconds=self.seconds,
            peak_bytes=self.peak_bytes,
            stored_bytes=self.stored_bytes,
        )


def peer_options(workload: Workload, *, parallelism: int) -> dict[str, str]:
    """Return the write options that give Apache Hudi the workload's table."""
    table = PeerTable(
        name=workload.name,
        record_key=workload.record_key,
        partition_by=workload.partition_by,
        ordering=workload.ordering,
        buckets=workload.buckets,
        codec=workload.codec,
        parquet_logs=workload.parquet_logs,
        parallelism=parallelism,
    )
    if workload.non_blocking:
        return table.nbcc_options(filesystem_lock(skew_ms=1))
    return table.write_options() | in_process_lock(skew_ms=1)


def main() -> None:
    """Run workloads on Apache Hudi alone and write the results as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS], help="default: all")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks" / "work")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    runs: list[Run] = []
    with ApacheHudi(arguments.folder / "peer") as peer:
        versions = peer.versions()
        for name in arguments.workload or WORKLOADS:
            workload = WORKLOADS[name]
            inputs = generate(arguments.folder / "inputs", workload.sizes)
            peer.warm_up(workload, arguments.folder / "inputs")
            for _ in range(arguments.repeat):
                run = peer.run(workload, inputs)
                runs.append(run)
                for step in run.steps:
                    print(f"{name:14} {step}", flush=True)
    result = {"versions": asdict(versions), "runs": [asdict(run) for run in runs]}
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
