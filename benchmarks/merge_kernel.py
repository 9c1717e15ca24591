"""The reading, merging and writing of file slices alone: no timeline, no lock, no commit.

    .venv/bin/python benchmarks/merge_kernel.py [--merge event-time] [--partial] [--blocks avro] ...

Makes one table's data files below a temporary folder, by the library's own writers, from the orders
of `data.py`; then times each step over all file groups: best and median of the repetitions, and the
processor time, for machines that have other work to do.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import data
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.engine import local as local_engine
from hoodie.filegroup import reading, writing
from hoodie.format import file_names
from hoodie.index import bucket
from hoodie.model import commits, files, instants, predicates, schemas, table_config
from hoodie.model.settings import LogBlockFormat, WriteSettings
from hoodie.storage import local


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows, and where they go."""

    rows: pa.Table
    keys: pa.Array
    groups: Sequence[np.ndarray]


class Bench:
    """The files of one table, and the steps that are timed."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        """Take the options; nothing is written yet."""
        self.options = options
        self.storage = local.LocalStorage(str(folder))
        self.engine = local_engine.LocalEngine(options.threads)
        self.schema = schemas.from_arrow(data.SCHEMA, "orders")
        by_event_time = options.merge == "event-time"
        mode = table_config.MergeMode
        self.config = table_config.TableConfig(
            name="orders",
            record_key_fields=("id",),
            ordering_fields=("ts",) if by_event_time else (),
            merge_mode=mode.EVENT_TIME if by_event_time else mode.COMMIT_TIME,
            has_partial_updates=options.partial,
            bucket_count=options.groups,
        )
        self.settings = WriteSettings(
            parquet_codec=options.codec, log_block_format=LogBlockFormat(options.blocks)
        )
        self.logs: dict[int, list[files.LogFile]] = {}
        self.bases: dict[int, files.BaseFile] = {}
        self._compactions = 0

    def batch(self, path: Path) -> Batch:
        """Return an input file's rows, split by file group."""
        rows = pq.read_table(path)
        if rows.num_columns < len(data.SCHEMA):
            rows = schemas.conform(rows, self.schema)
        keys = rows.column("id").combine_chunks()
        numbers = bucket.buckets_of_keys(keys, self.config)
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=self.options.groups)
        return Batch(rows.combine_chunks(), keys, np.split(order, np.cumsum(counts)[:-1]))

    def write_base(self, batch: Batch) -> None:
        """Write a base file of each group's rows."""

        def write(number: int) -> commits.WriteStat:
            rows = batch.rows.take(pa.array(batch.groups[number]))
            keys = rows.column("id").combine_chunks()
            target = self._target(number, 0)
            with_meta = writing.with_meta_columns(rows, keys, target, 0, "")
            return writing.write_base_file(target, [with_meta], self.schema, self.settings)

        for number, stat in enumerate(self._each(write)):
            parsed = file_names.parse(stat.path, stat.size_bytes)
            assert isinstance(parsed, files.BaseFile)
            self.bases[number] = parsed

    def write_log(self, batch: Batch, commit: int, *, deletes: bool = False) -> None:
        """Write one log file to each group."""

        def write(number: int) -> tuple[commits.WriteStat, ...]:
            rows = batch.rows.take(pa.array(batch.groups[number]))
            if self.options.partial:
                rows = self._blank(rows, commit)
            keys = rows.column("id").combine_chunks()
            content = writing.LogRows(data=rows, record_keys=keys)
            if deletes:
                ordering = (
                    rows.column("ts").combine_chunks() if self.config.ordering_fields else None
                )
                content = writing.LogRows(
                    data=rows.slice(0, 0),
                    record_keys=keys.slice(0, 0),
                    deleted_keys=keys,
                    deleted_ordering=ordering,
                )
            return writing.write_log_files(
                self._target(number, commit), [content], self.schema, self.settings
            )

        for number, stats in enumerate(self._each(write)):
            for stat in stats:
                parsed = file_names.parse(stat.path, stat.size_bytes)
                assert isinstance(parsed, files.LogFile)
                self.logs.setdefault(number, []).append(parsed)

    def scan(
        self, columns: Sequence[str], where: predicates.Predicate | None = None
    ) -> list[pa.Table]:
        """Read all slices."""
        reader = self._reader()
        return self._each(lambda number: reader.read(self._slice(number), columns, where))

    def aggregate(self, columns: Sequence[str]) -> float:
        """Sum columns over all slices."""
        reader = self._reader()

        def total(number: int) -> float:
            table = reader.read(self._slice(number), columns)
            return sum(pc.sum(column).as_py() or 0.0 for column in table.columns)

        return sum(self._each(total))

    def compact(self) -> int:
        """Merge every slice into a new base file; return the rows written."""
        reader = self._reader()
        columns = [*writing.BASE_FILE_META_COLUMNS, *self.schema.arrow.names]
        self._compactions += 1

        def compact(number: int) -> int:
            rows = reader.stream(self._slice(number), columns)
            # A file is never overwritten.
            target = self._target(number, 99, stage=self._compactions)
            return writing.write_base_file(target, rows, self.schema, self.settings).records

        return sum(self._each(compact))

    def _each(self, task: Callable) -> list:
        return self.engine.map(task, range(self.options.groups))

    def _blank(self, rows: pa.Table, commit: int) -> pa.Table:
        """Leave every other data column to the writers of other commits."""
        kept = {"id", "ts", *data.SCHEMA.names[1 + commit % 2 :: 2]}
        return schemas.conform(
            rows.select([n for n in rows.column_names if n in kept]), self.schema
        )

    def _reader(self) -> reading.SliceReader:
        return reading.SliceReader(self.storage, self.config, self.schema, lambda _: True)

    def _target(self, number: int, commit: int, stage: int = 0) -> writing.FileTarget:
        return writing.FileTarget(
            storage=self.storage,
            group=files.FileGroupId("", bucket.file_id(number)),
            instant_time=instants.InstantTime(f"20260101{commit:09}"),
            write_token=f"{number}-{stage}-0",
            before_file=lambda _: None,
        )

    def _slice(self, number: int) -> files.FileSlice:
        return files.FileSlice(
            group=self.bases[number].group,
            base_instant_time=self.bases[number].instant_time,
            base_file=self.bases[number],
            log_files=tuple(sorted(self.logs.get(number, ()), key=lambda log: log.merge_order)),
        )


def parsed_options() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--upserts", type=int, default=5)
    parser.add_argument("--upsert-rows", type=int, default=100_000)
    parser.add_argument("--delete-rows", type=int, default=0)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--merge", choices=["event-time", "commit-time"], default="event-time")
    parser.add_argument("--partial", action="store_true", help="blank every other column")
    parser.add_argument("--blocks", choices=["parquet", "avro"], default="parquet")
    parser.add_argument("--codec", default="snappy")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--inputs", type=Path, default=Path(__file__).parent / "work" / "inputs")
    return parser.parse_args()


def timed(options: argparse.Namespace, name: str, step: Callable[[], object]) -> None:
    """Print the best and the median time of a step, and the least processor time."""
    seconds, processor = [], []
    for _ in range(options.repeat):
        start, processor_start = time.perf_counter(), time.process_time()
        step()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    best, median = min(seconds), statistics.median(seconds)
    print(f"{name:32} {best:8.3f} s {median:8.3f} s {min(processor):8.3f} s")


def main() -> None:
    """Run all steps."""
    options = parsed_options()
    sizes = data.Sizes(
        rows=options.rows,
        upserts=options.upserts,
        upsert_rows=options.upsert_rows,
        delete_rows=max(options.delete_rows, 1),
    )
    inputs = data.generate(options.inputs, sizes)
    once = argparse.Namespace(repeat=1)
    pa.set_cpu_count(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        base = bench.batch(inputs.rows)
        logs = [bench.batch(path) for path in inputs.upserts]
        print(f"{'step':32} {'best':>10} {'median':>10} {'processor':>10}")
        timed(once, "write base files", lambda: bench.write_base(base))
        for commit, batch in enumerate(logs, start=1):
            write = called(bench.write_log, batch, commit)
            timed(once, f"write log files {commit}", write)
        if options.delete_rows:
            gone = bench.batch(inputs.deletes)
            commit = len(logs) + 1
            write = called(bench.write_log, gone, commit, deletes=True)
            timed(once, "write delete blocks", write)
        columns = data.SCHEMA.names
        one = predicates.Compare("id", predicates.Comparator.EQ, "order-0000000007")
        some = predicates.Compare("amount", predicates.Comparator.GT, 400)
        timed(options, "full scan", lambda: bench.scan(columns))
        timed(options, "aggregate of one column", lambda: bench.aggregate(["amount"]))
        timed(options, "filter on a column", lambda: bench.scan(columns, some))
        timed(options, "filter on the key", lambda: bench.scan(columns, one))
        timed(options, "compaction", bench.compact)
        rows = sum(table.num_rows for table in bench.scan(["id"]))
        size = sum(info.size_bytes for info in bench.storage.list(""))
        print(f"{rows:,} rows, {size / 1e6:.1f} MB in all files, {options}")


def called(function: Callable, *values: object, **named: object) -> Callable[[], object]:
    """Return a call with these values."""
    return lambda: function(*values, **named)


if __name__ == "__main__":
    main()
