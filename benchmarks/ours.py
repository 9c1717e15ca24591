"""Our side of the side-by-side benchmark on local threads: the core as a library.

`run.py` starts it as a process of its own, so that its memory is its own; each step is timed inside
it, commit protocol, locks, markers and fsync included.

Run alone: `.venv/bin/python benchmarks/ours.py --workload plain --output ours.json`.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hoodie.transaction import manager

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]  # our neighbours

import alone  # noqa: E402 (the path comes first)
import duckdb  # noqa: E402
import memory  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from data import AGGREGATE, AGGREGATED, Inputs, Workload, schema_of  # noqa: E402
from steps import Measured  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import commits, schemas, settings, table_config  # noqa: E402
from hoodie.transaction import authors  # noqa: E402
from hoodie.transaction.locks import address_texts  # noqa: E402
from hoodie.write import sessions  # noqa: E402

THREADS = 2
BATCH_ROWS = 1 << 17


class Hoodie:
    """Our library in this process."""

    name = "hoodie"
    warm_ups = 1

    def __init__(self, _folder: Path) -> None:
        self._env = environment.system(parallelism=THREADS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def create(self, workload: Workload, _inputs: Inputs, path: Path) -> "LocalSubject":
        """Return the new table."""
        create_table(workload, path)
        return LocalSubject(workload, path, self._env)

    def measured(self, work: Callable[[], object]) -> Measured:
        """Do the work."""
        # What the allocator kept of the step before would count as resident.
        pa.default_memory_pool().release_unused()
        memory.forget_peaks([memory.OWN])
        with memory.ArrowPeak() as arrow:
            begin = time.perf_counter()
            work()
            seconds = time.perf_counter() - begin
        return Measured(
            seconds=seconds,
            peak_bytes=memory.peak_bytes([memory.OWN]),
            arrow_peak_bytes=arrow.bytes,
        )


@dataclass(frozen=True, slots=True)
class LocalSubject:
    """A table of ours."""

    workload: Workload
    path: Path
    env: environment.Environment

    def bulk_insert(self, rows: Path) -> object:
        """Fill the new table."""
        return self._write(rows, commits.Operation.BULK_INSERT)

    def upsert(self, rows: Path) -> object:
        """Write changes."""
        return self._write(rows, commits.Operation.UPSERT)

    def delete(self, keys: Path) -> object:
        """Delete keys."""
        return self._write(keys, commits.Operation.DELETE, delete_columns(self.workload))

    def aggregate(self) -> object:
        """Evaluate the aggregate."""
        return self.totals()

    def scan(self) -> object:
        """Make every row."""
        return sum(batch.num_rows for batch in self._open().read())

    def collect(self) -> object:
        """Collect all rows."""
        return self._open().read().read_all()

    def copy(self) -> object:
        """Write all rows to a parquet file."""
        target = self.path.with_suffix(".copy.parquet")
        reader = self._open().read()
        with pq.ParquetWriter(target, reader.schema, compression="snappy") as writer:
            for batch in reader:
                writer.write_batch(batch)
        return target.unlink()

    def schedule_compaction(self) -> object:
        """Plan a compaction."""
        return self._open().schedule_compaction(transaction(self.workload))

    def compact(self) -> object:
        """Execute the plan."""
        opened = self._open()
        (pending,) = opened.timeline().pending_compactions
        return opened.compact(pending.requested_time, transaction(self.workload))

    def totals(self) -> pa.Table:
        """Have DuckDB evaluate the aggregate."""
        with duckdb.connect(config={"threads": THREADS}) as connection:
            self._open().scan(AGGREGATED).to_duckdb(connection, "scanned")
            return connection.sql(AGGREGATE).to_arrow_table()

    def _open(self) -> table.Table:
        return table.open_table(str(self.path), self.env)

    def _write(
        self, rows: Path, operation: commits.Operation, columns: Sequence[str] | None = None
    ) -> object:
        return write(self._open(), rows, operation, transaction(self.workload), columns)


def write(
    opened: table.Table,
    rows: Path,
    operation: commits.Operation,
    transaction: manager.TransactionOptions,
    columns: Sequence[str] | None = None,
) -> object:
    """Write some columns of a parquet file, or all, as a stream of its batches."""
    with pq.ParquetFile(rows) as file:
        schema = file.schema_arrow
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        batches = file.iter_batches(batch_size=BATCH_ROWS, columns=schema.names)
        stream = pa.RecordBatchReader.from_batches(schema, batches)
        options = sessions.WriteOptions(operation=operation, transaction=transaction)
        return opened.write(stream, options)


def transaction(workload: Workload) -> manager.TransactionOptions:
    """Return the options of a workload's single writer."""
    return manager.TransactionOptions(
        settings=write_settings(workload),
        lock=address_texts.parse(lock(workload)),
        author=authors.Author(writer_id="benchmark"),
    )


def create_table(workload: Workload, path: Path) -> None:
    """Create the workload's table."""
    schema = schemas.from_arrow(schema_of(workload.sizes), workload.name)
    config = table_config.TableConfig(
        name=workload.name,
        record_key_fields=workload.record_key,
        partition_fields=workload.partition_by,
        ordering_fields=(workload.ordering,),
        merge_mode=table_config.MergeMode.EVENT_TIME,
        create_schema=schema.avro,
        bucket_count=workload.buckets,
    )
    path.mkdir(parents=True)
    table.create_table(str(path), config, schema, environment.system(parallelism=1))


def write_settings(workload: Workload) -> settings.WriteSettings:
    """Return what equals what the peer is told: the same mode and codec, 1 ms of skew."""
    mode = settings.ConcurrencyMode
    log_format = settings.LogBlockFormat
    return settings.WriteSettings(
        concurrency=mode.NON_BLOCKING if workload.non_blocking else mode.SINGLE_WRITER,
        log_block_format=log_format.PARQUET if workload.parquet_logs else log_format.AVRO,
        parquet_codec=workload.codec,
        clock_skew_ms_max=1,
        clock_wait_ms=1,
    )


def lock(workload: Workload) -> str:
    """Return the lock's address; the peer's lock is of the same kind."""
    return "filesystem" if workload.non_blocking else "in-process"


def delete_columns(workload: Workload) -> tuple[str, ...]:
    """Return what a delete carries: no ordering value, so that it always deletes, as the peer's."""
    return (*workload.record_key, *workload.partition_by)


if __name__ == "__main__":
    alone.main(Hoodie)
