"""The Apache Hudi side of the side-by-side benchmark.

One warm Spark session (local[2], a heap of at most 4 GiB, Java's default collector and compiler)
runs the steps of a workload; each step is timed inside that process, without the pipe to it. Small
tables go through the same steps first, so that no step pays for class loading or cold code.

Parity: what our side does, Apache Hudi is told to do, and nothing more: the same files in, the same
columns out, the same index, bucket count, codec, log format, merge mode and number of tasks at
once; no metadata table, no cleaning, archiving or timeline server, and no skew wait but 1 ms. What
cannot be made equal: Apache Hudi does not fsync on a local disk, its local file system writes a
checksum file beside each file, and its bulk insert writes a bloom filter into base files (kept to
one hash a key).

Run alone: `.venv/bin/python benchmarks/peer.py --workload plain --output peer.json`.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import alone  # noqa: E402 (the path comes first)
import pyarrow as pa  # noqa: E402
from data import AGGREGATE, Inputs, Workload, schema_of  # noqa: E402
from steps import Measured  # noqa: E402

from support.peer.judge import Judge, Query, Settings, Sink, Versions  # noqa: E402
from support.peer.peer_options import PeerTable, filesystem_lock, in_process_lock  # noqa: E402

HEAP_MB = 4096
CORES = 2
_TIMEOUT_S = 7200
"""Of one step: millions of rows take long."""


class ApacheHudi:
    """A warm Apache Hudi. Use as a context manager."""

    name = "apache-hudi"
    warm_ups = 2

    def __init__(self, folder: Path) -> None:
        settings = Settings(
            name="bench",
            cores=CORES,
            memory_mb=HEAP_MB,
            jvm_options=(),
            log_level="ERROR",
        )
        self._judge = Judge(folder / "judge", settings)

    def __enter__(self) -> Self:
        self._judge.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._judge.close()

    def versions(self) -> Versions:
        """Return what this side runs on."""
        return self._judge.versions()

    def create(self, workload: Workload, _inputs: Inputs, path: Path) -> "PeerSubject":
        """Return the table, which its first write creates."""
        options = peer_options(workload, parallelism=CORES)
        return PeerSubject(self._judge, path, options, tuple(schema_of(workload.sizes).names))

    def measured(self, work: Callable[[], object]) -> Measured:
        """Do the work, the clock and the memory being those of Apache Hudi's process."""
        self._judge.peak_memory_bytes(reset=True)
        work()
        return Measured(
            seconds=self._judge.seconds_last, peak_bytes=self._judge.peak_memory_bytes()
        )


@dataclass(frozen=True, slots=True)
class PeerSubject:
    """A table of Apache Hudi's."""

    judge: Judge
    path: Path
    options: Mapping[str, str]
    columns: tuple[str, ...]

    def bulk_insert(self, rows: Path) -> object:
        """Fill the new table."""
        return self._write(rows, "bulk_insert")

    def upsert(self, rows: Path) -> object:
        """Write changes."""
        return self._write(rows, "upsert")

    def delete(self, keys: Path) -> object:
        """Delete keys."""
        return self._write(keys, "delete")

    def aggregate(self) -> object:
        """Evaluate the aggregate."""
        return self._scan(Sink.ARROW, Query(select=AGGREGATE))

    def scan(self) -> object:
        """Make every row."""
        return self._full_scan(Sink.NOOP)

    def collect(self) -> object:
        """Collect all rows in the Python process of Apache Hudi's session."""
        return self._full_scan(Sink.ARROW)

    def copy(self) -> object:
        """Write all rows to parquet files."""
        return self._full_scan(Sink.PARQUET)

    def schedule_compaction(self) -> object:
        """Plan a compaction."""
        return self.judge.schedule_compaction(self.path, self.options)

    def compact(self) -> object:
        """Execute the plan."""
        [pending] = [
            instant.requested_time
            for instant in self.judge.timeline(self.path)
            if instant.action == "compaction"
        ]
        return self.judge.execute_compaction(self.path, pending, self.options, timeout_s=_TIMEOUT_S)

    def totals(self) -> pa.Table:
        """Evaluate the aggregate."""
        return self.judge.read(self.path, Query(select=AGGREGATE), timeout_s=_TIMEOUT_S)

    def _full_scan(self, sink: Sink) -> float:
        # The table's own columns, without Hudi's five: what we read too.
        return self._scan(sink, Query(pushed_columns=self.columns))

    def _scan(self, sink: Sink, query: Query) -> float:
        return self.judge.scan(self.path, sink, query, timeout_s=_TIMEOUT_S)

    def _write(self, rows: Path, operation: str) -> float:
        return self.judge.write(
            self.path, rows, self.options, operation=operation, timeout_s=_TIMEOUT_S
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


if __name__ == "__main__":
    alone.main(ApacheHudi)
