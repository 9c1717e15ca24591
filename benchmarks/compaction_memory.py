"""The memory and time of compacting one large file group: at once, and within a limit.

    PYTHONPATH=tests .venv/bin/python benchmarks/compaction_memory.py \
        --base-mib 4096 --log-mib 1024 --limits-mib 1024

Makes the group's files below a temporary folder by the library's own writers. Half of the changes
are of base rows all over the file, half are new keys, or as --inserts says; one in twenty deletes.
Each merge runs in a process of its own, whose peak of resident memory is what Linux counts; a
limit of 0 merges at once.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import memory
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.filegroup import placing, reading, writing
from hoodie.format import file_names
from hoodie.model import files, instants, schemas, table_config
from hoodie.model.settings import LogBlockFormat, WriteSettings
from hoodie.storage import local

GROUP = files.FileGroupId("p", "00000000-0000-0000-0000-000000000000-0")
SCHEMA = schemas.from_arrow(
    pa.schema(
        [
            ("id", pa.string()),
            ("ts", pa.int64()),
            *((f"amount_{number}", pa.float64()) for number in range(4)),
            ("city", pa.string()),
            ("note", pa.string()),
        ]
    ),
    "orders",
)
CONFIG = table_config.TableConfig(
    name="orders",
    record_key_fields=("id",),
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
)
COLUMNS = [*writing.BASE_FILE_META_COLUMNS, *SCHEMA.arrow.names]
CHUNK = 200_000
MIB = 1 << 20
CITIES = np.array(["Amsterdam", "Berlin", "Cairo", "Delhi", "Essen", "Fukuoka"])


def rows(keys: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Return rows of keys; about 110 bytes each in a file."""
    count = len(keys)
    texts = pc.binary_join_element_wise("order-", pa.array(keys).cast(pa.string()), "")
    notes = pa.array(random.integers(0, 1 << 60, count)).cast(pa.string())
    return pa.Table.from_arrays(
        [
            texts,
            pa.array(random.integers(0, 1 << 40, count)),
            *(pa.array(random.random(count)) for _ in range(4)),
            pa.array(CITIES[random.integers(0, len(CITIES), count)]),
            pc.binary_join_element_wise("note of a sale ", notes, ""),
        ],
        schema=SCHEMA.arrow,
    )


class Slice:
    """The files of one file group."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        """Take the options; nothing is written yet."""
        self.storage = local.LocalStorage(str(folder))
        self.settings = WriteSettings(log_block_format=LogBlockFormat(options.blocks))
        self.options = options
        self.random = np.random.default_rng(7)
        self.base_rows = 0

    def target(self, tick: int) -> writing.FileTarget:
        """Return where a write goes."""
        return writing.FileTarget(
            storage=self.storage,
            group=GROUP,
            instant_time=instants.format_time(tick),
            write_token="0-0-0",
            before_file=lambda _: None,
        )

    def make(self) -> None:
        """Write base file and log files."""
        if self.options.base_mib:
            writing.write_base_file(self.target(0), self._base(), SCHEMA, self.settings)
        written, tick = 0, 0
        while written < self.options.log_mib * MIB:
            tick += 1
            chunk = CHUNK * 5
            known = 1 - self.options.inserts if self.base_rows else 0
            is_known = self.random.random(chunk) < known
            keys = np.unique(
                np.where(
                    is_known,
                    self.random.integers(0, max(1, self.base_rows), chunk),
                    self.random.integers(self.base_rows, self.base_rows + chunk * 20, chunk),
                )
            )
            self.random.shuffle(keys)
            deletes = len(keys) // 20
            data = rows(keys[deletes:], self.random)
            gone = pc.binary_join_element_wise(
                "order-", pa.array(keys[:deletes]).cast(pa.string()), ""
            )
            batch = writing.LogRows(
                data=data,
                record_keys=data.column("id").combine_chunks(),
                deleted_keys=gone,
                deleted_ordering=pa.array(self.random.integers(0, 1 << 40, deletes)),
            )
            stats = writing.write_log_files(self.target(tick), [batch], SCHEMA, self.settings)
            written += sum(each.size_bytes for each in stats)

    def _base(self) -> Iterator[pa.Table]:
        path = Path(self.storage.uri.removeprefix("file:").replace("//", "/"))
        while True:
            data = rows(np.arange(self.base_rows, self.base_rows + CHUNK), self.random)
            keys = data.column("id").combine_chunks()
            yield writing.with_meta_columns(data, keys, self.target(0), self.base_rows, "")
            self.base_rows += CHUNK
            size = sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
            if size >= self.options.base_mib * MIB:
                return

    def found(self) -> files.FileSlice:
        """Return the slice as it lies there."""
        parsed = [file_names.parse(each.path, each.size_bytes) for each in self.storage.list("p")]
        logs = [each for each in parsed if isinstance(each, files.LogFile)]
        base = [each for each in parsed if isinstance(each, files.BaseFile)]
        start = instants.format_time(0)
        return files.FileSlice(
            group=GROUP,
            base_instant_time=start,
            base_file=base[0] if base else None,
            log_files=files.in_merge_order(logs, start),
        )


def merge(options: argparse.Namespace) -> None:
    """Merge the slice in a folder; print what it took."""
    made = Slice(Path(options.folder), options)
    file_slice = made.found()
    reader = reading.SliceReader(made.storage, CONFIG, SCHEMA, lambda _: True)
    target = made.target(10**9 + options.limit_mib)
    before = memory.peak_bytes([memory.OWN])
    start = time.perf_counter(), time.process_time()
    if options.limit_mib:
        allowed = placing.Memory(bytes_max=options.limit_mib * MIB, scratch_folder=options.scratch)
        with reader.stream_bounded(file_slice, COLUMNS, allowed) as bounded:
            stat = writing.write_base_file(target, bounded, SCHEMA, made.settings)
            counts = bounded.counts
    else:
        whole = reader.stream(file_slice, COLUMNS)
        stat = writing.write_base_file(target, whole, SCHEMA, made.settings)
        counts = whole.counts
    print(
        json.dumps(
            {
                "limit_mib": options.limit_mib,
                "seconds": round(time.perf_counter() - start[0], 1),
                "cpu_seconds": round(time.process_time() - start[1], 1),
                "begun_with_mib": before // MIB,
                "peak_mib": memory.peak_bytes([memory.OWN]) // MIB,
                "counts": repr(counts),
                "path": stat.path,
            }
        )
    )


def are_equal(folder: Path, first: str, second: str) -> bool:
    """Return whether two base files hold the same rows, but for their own names."""
    one, other = (pq.ParquetFile(folder / path, memory_map=True) for path in (first, second))
    pairs = zip(one.iter_batches(columns=COLUMNS), other.iter_batches(columns=COLUMNS), strict=True)
    return all(mine.equals(theirs) for mine, theirs in pairs)


def main() -> None:
    """Make the slice, and merge it with each limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base-mib", type=int, default=256)
    parser.add_argument("--log-mib", type=int, default=64)
    parser.add_argument("--limits-mib", type=int, nargs="+", default=[0, 1024])
    parser.add_argument("--inserts", type=float, default=0.5)
    parser.add_argument("--blocks", choices=["parquet", "avro"], default="parquet")
    parser.add_argument("--scratch", default="/tmp")
    parser.add_argument("--folder")
    parser.add_argument("--limit-mib", type=int)
    options = parser.parse_args()
    if options.folder:
        merge(options)
        return
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        made = Slice(Path(folder), options)
        made.make()
        found = made.found()
        base_bytes = found.base_file.size_bytes if found.base_file else 0
        print(f"base {base_bytes // MIB} MiB, logs {found.log_bytes // MIB} MiB")
        paths = []
        for limit in options.limits_mib:
            command = [sys.executable, __file__, *sys.argv[1:], "--folder", folder]
            done = subprocess.run(
                [*command, "--limit-mib", str(limit)], check=True, capture_output=True, text=True
            )
            print(done.stdout, end="", flush=True)
            paths.append(json.loads(done.stdout)["path"])
        for other in paths[1:]:
            print("equal:", are_equal(Path(folder), paths[0], other))


if __name__ == "__main__":
    main()
