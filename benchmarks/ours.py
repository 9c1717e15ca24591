"""Our side of the side-by-side benchmark: the steps of `peer.py`, on the core with local threads.

Runs as a process of its own, so that its memory is its own; each step is timed inside it, commit
protocol, locks, markers and fsync included.

Run alone: `.venv/bin/python benchmarks/ours.py --workload plain --output ours.json`.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]  # our neighbours

import pyarrow as pa  # noqa: E402 (the path comes first)
import pyarrow.parquet as pq  # noqa: E402
from data import WARM_UP, WORKLOADS, Inputs, Workload, generate, stored_bytes  # noqa: E402
from steps import Run, Step  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import commits, schemas, settings, table_config  # noqa: E402
from hoodie.transaction import authors  # noqa: E402
from hoodie.transaction.locks import addresses  # noqa: E402
from hoodie.write import sessions  # noqa: E402

SIDE = "hoodie"
THREADS = 2
_STATUS = Path("/proc/self/status")


class Hoodie:
    """Our library, warm after `warm_up`."""

    def __init__(self, folder: Path, *, threads: int = THREADS) -> None:
        self._folder = folder
        self._environment = environment.system(parallelism=threads)

    def warm_up(self, workload: Workload, inputs_folder: Path) -> None:
        """Take a small table through all steps of the workload."""
        small = replace(workload, sizes=WARM_UP)
        self.run(small, generate(inputs_folder, small.sizes))

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        """Make the table anew, take it through all steps, and delete it."""
        path = self._folder / "tables" / workload.name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        steps = tuple(self._steps(workload, inputs, path))
        rows = sum(batch.num_rows for batch in self._table(path).read(columns=["id"]))
        expected = inputs.rows_after_deletes if workload.deletes else inputs.rows_after_upserts
        assert rows == expected, f"{rows} rows instead of {expected} in {workload.name}"
        shutil.rmtree(path)
        return Run(side=SIDE, workload=workload.name, steps=steps, rows=rows)

    def _steps(self, workload: Workload, inputs: Inputs, path: Path) -> Iterator[Step]:
        self._create(workload, inputs, path)
        yield self._measured("bulk_insert", path, lambda: self._write(workload, path, inputs.rows))
        for number, upsert in enumerate(inputs.upserts, start=1):
            yield self._measured(
                f"upsert_{number}", path, lambda source=upsert: self._write(workload, path, source)
            )
        if workload.deletes:
            yield self._measured(
                "delete",
                path,
                lambda: self._write(workload, path, inputs.deletes, commits.Operation.DELETE),
            )
        yield from self._scans(path, "logs")
        transaction = _transaction(workload)
        yield self._measured(
            "schedule_compaction",
            path,
            lambda: self._table(path).schedule_compaction(transaction),
        )
        yield self._measured("compaction", path, lambda: self._compact(workload, path))
        yield from self._scans(path, "compacted")

    def _scans(self, path: Path, state: str) -> Iterator[Step]:
        yield self._measured(f"aggregate_{state}", path, lambda: self._aggregate(path))
        yield self._measured(f"full_scan_noop_{state}", path, lambda: self._scan(path))
        yield self._measured(f"full_scan_arrow_{state}", path, lambda: self._collect(path))
        yield self._measured(f"full_scan_parquet_{state}", path, lambda: self._copy(path))

    def _measured(self, name: str, path: Path, work: Callable[[], object]) -> Step:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        begin = time.perf_counter()
        work()
        seconds = time.perf_counter() - begin
        return Step(
            name=name, seconds=seconds, peak_bytes=_peak_bytes(), stored_bytes=stored_bytes(path)
        )

    def _create(self, workload: Workload, inputs: Inputs, path: Path) -> None:
        schema = schemas.from_arrow(pq.read_schema(inputs.rows), workload.name)
        config = table_config.TableConfig(
            name=workload.name,
            record_key_fields=workload.record_key,
            partition_fields=workload.partition_by,
            ordering_fields=(workload.ordering,),
            merge_mode=table_config.MergeMode.EVENT_TIME,
            create_schema=schema.avro,
            bucket_count=workload.buckets,
        )
        table.create_table(str(path), config, schema, self._environment)

    def _table(self, path: Path) -> table.Table:
        return table.open_table(str(path), self._environment)

    def _write(
        self,
        workload: Workload,
        path: Path,
        source: Path,
        operation: commits.Operation = commits.Operation.UPSERT,
    ) -> None:
        data = pq.read_table(source)
        if operation is commits.Operation.DELETE:
            # Like the peer's delete, which leaves the ordering value out: it always deletes.
            data = data.select([*workload.record_key, *workload.partition_by])
        options = sessions.WriteOptions(operation=operation, transaction=_transaction(workload))
        self._table(path).write(data, options)

    def _compact(self, workload: Workload, path: Path) -> None:
        opened = self._table(path)
        (pending,) = opened.timeline().pending_compactions
        opened.compact(pending.requested_time, _transaction(workload))

    def _aggregate(self, path: Path) -> None:
        rows = self._table(path).read(columns=["region", "amount", "ts", "score"]).read_all()
        rows.group_by("region").aggregate(
            [("amount", "count"), ("amount", "sum"), ("ts", "max"), ("score", "mean")]
        ).sort_by("region")

    def _scan(self, path: Path) -> None:
        for batch in self._table(path).read():
            assert batch.num_rows >= 0

    def _collect(self, path: Path) -> pa.Table:
        return self._table(path).read().read_all()

    def _copy(self, path: Path) -> None:
        target = self._folder / "copy.parquet"
        reader = self._table(path).read()
        with pq.ParquetWriter(target, reader.schema, compression="snappy") as writer:
            for batch in reader:
                writer.write_batch(batch)
        target.unlink()


def _transaction(workload: Workload) -> sessions.TransactionOptions:
    """Return what equals what the peer is told: 1 ms of skew, the same codec, the same lock."""
    mode = settings.ConcurrencyMode
    log_format = settings.LogBlockFormat
    return sessions.TransactionOptions(
        settings=settings.WriteSettings(
            concurrency=mode.NON_BLOCKING if workload.non_blocking else mode.SINGLE_WRITER,
            log_block_format=log_format.PARQUET if workload.parquet_logs else log_format.AVRO,
            parquet_codec=workload.codec,
            clock_skew_ms_max=1,
            clock_wait_ms=1,
        ),
        lock=addresses.parse("filesystem" if workload.non_blocking else "in-process"),
        author=authors.Author(writer_id="benchmark"),
    )


def _peak_bytes() -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Run one workload on our side alone and write the results as JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--workload", choices=[*WORKLOADS], default="plain")
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmarks" / "work")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    workload = WORKLOADS[arguments.workload]
    inputs = generate(arguments.folder / "inputs", workload.sizes)
    ours = Hoodie(arguments.folder / "ours")
    ours.warm_up(workload, arguments.folder / "inputs")
    run = ours.run(workload, inputs)
    for step in run.steps:
        print(step, flush=True)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(asdict(run), indent=1))


if __name__ == "__main__":
    main()
