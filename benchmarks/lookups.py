"""Finding the file groups of keys, by our look-up beside Apache Hudi's indexes, on one table.

    PYTHONPATH=tests .venv/bin/python benchmarks/lookups.py [--rows N] [--keys N] [--files N]

Apache Hudi makes a copy-on-write table of N rows with random keys in some file groups of one
partition, whose key ranges overlap, and it is adopted. Then both look up the keys of a batch, half
of which are in the table, with the simple and with the bloom index; the best of some repetitions,
the JVM warm, its table opened before. Ours takes a new snapshot each time. Both find the same
number of file groups, and ours as many keys as there are.

On 2 cores of an AMD EPYC, Python 3.11, Java 17, 100,000 keys and 1,000,000 rows in 12 file groups,
in seconds:

    index     ours     Apache Hudi    ratio
    simple    0.28     9.3            34
    bloom     0.40     7.2            18

Other work ran on the machine, on both sides.
"""

import argparse
import shutil
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from hoodie import environment, table
from hoodie.filegroup import held_keys, snapshots
from hoodie.model import table_config
from hoodie.write import tagging
from support.peer.judge import Judge, Settings
from support.peer.peer_options import PeerTable

_REPETITIONS = 5
_SEED = 7
_PARTITION = "p"


def main() -> None:
    """Print a line for each index."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=12)
    options = parser.parse_args()
    shown = Table("index", "ours, s", "Apache Hudi, s", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        rows = rows_of(options.rows)
        wanted = keys_of(rows, options.keys)
        settings = Settings(name="lookups", cores=2, memory_mb=4096, jvm_options=())
        with Judge(Path(folder) / "judge", settings) as judge:
            path = Path(folder) / "table"
            peer = PeerTable(
                name="lookups",
                partition_by=("part",),
                buckets=None,
                merge_on_read=False,
                bloom_filter=True,
            )
            made = {
                "hoodie.bulkinsert.sort.mode": "NONE",
                "hoodie.bulkinsert.shuffle.parallelism": str(options.files),
            }
            judge.write(
                path, rows, peer.write_options() | made, operation="bulk_insert", timeout_s=900
            )
            for kind in (table_config.IndexKind.SIMPLE, table_config.IndexKind.BLOOM):
                named = peer.write_options() | {"hoodie.index.type": kind.value}
                spent, groups = judge.tag(path, wanted, named, repetitions=_REPETITIONS)
                ours_s, holders = looked_up(path, kind, wanted)
                assert groups == holders + 1, f"{groups - 1} file groups, ours {holders}"
                ratio = f"{min(spent) / ours_s:.1f}"
                shown.add_row(kind.value, f"{ours_s:.3f}", f"{min(spent):.3f}", ratio)
        shutil.rmtree(path)
    Console().print(f"{options.keys:,} keys, {options.rows:,} rows", shown)


def rows_of(count: int) -> pa.Table:
    """Return rows with random keys, and some columns beside them."""
    chance = np.random.default_rng(_SEED)
    raw = chance.bytes(16 * count)
    keys = [str(uuid.UUID(bytes=raw[at : at + 16])) for at in range(0, len(raw), 16)]
    return pa.table(
        {
            "id": keys,
            "part": pa.array([_PARTITION] * count),
            "amount": chance.random(count),
            "quantity": pa.array(chance.integers(0, 1000, count), pa.int32()),
            "note": pa.array([f"note {number % 5000}" for number in range(count)]),
        }
    )


def keys_of(rows: pa.Table, count: int) -> pa.Table:
    """Return keys, of which half are those of rows."""
    step = max(1, rows.num_rows // (count // 2))
    known = rows.column("id").take(pa.array(np.arange(count // 2) * step))
    keys = pa.concat_arrays(
        [
            known.combine_chunks(),
            pa.array([str(uuid.UUID(int=number)) for number in range(count - len(known))]),
        ]
    )
    return pa.table({"key": keys, "partition": pa.array([_PARTITION] * len(keys))})


def looked_up(path: Path, kind: table_config.IndexKind, wanted: pa.Table) -> tuple[float, int]:
    """Return the seconds of our look-up, and how many file groups hold keys."""
    env = environment.system(parallelism=2)
    opened = table.open_table(str(path), env)
    storage = env.open_storage(str(path))
    config = replace(opened.config, index=kind)
    keys = {_PARTITION: wanted.column("key").combine_chunks()}
    spent = []
    holders = 0
    for _ in range(_REPETITIONS):
        begin = time.perf_counter()
        snapshot = snapshots.take(storage, config, has_committed_only=True)
        source = held_keys.KeySource(
            storage, config, opened.schema, snapshot.committed.is_committed
        )
        slices = {_PARTITION: snapshot.view.latest_slices(_PARTITION)}
        tags = tagging.look_up(source, keys, slices, env.engine)[_PARTITION]
        spent.append(time.perf_counter() - begin)
        holders = len(tags.holders)
        found = int((tags.first() != tagging.NOWHERE).sum())
        assert found == wanted.num_rows // 2, found
    return min(spent), holders


if __name__ == "__main__":
    main()
