"""Measures writes by each index, beside Apache Hudi with the same one; writes INDEXES.md.

    .venv/bin/python benchmarks/indexes.py [--rows N] [--batch N] [--repeat N] [--only INDEX]...
        [--results FILE]

Apache Hudi makes a table of a million rows with random keys in four partitions, once for each index
and table type; both go on with a copy of it, ours adopted. Then, in turn: upserts of a batch of
which nine of ten keys are in the table, spread over all of it; and inserts of new rows, by upsert,
which fill small files first; with a global index also upserts in which a tenth of the rows change
their partition. Each is written some times, with other keys each time, and the best
is kept; Apache Hudi runs in a warm session on as many threads. Ours is the local engine, with
bloom filters where Apache Hudi makes some.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import machine  # noqa: E402 (the path comes first)
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.model import commits, settings, table_config  # noqa: E402
from hoodie.transaction import authors, manager  # noqa: E402
from hoodie.transaction.locks import address_texts  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from support.peer.judge import Judge, Settings  # noqa: E402
from support.peer.peer_options import PeerTable  # noqa: E402

RESULTS = ROOT / "benchmarks" / "INDEXES.md"
WORK = ROOT / "benchmarks" / "work" / "indexes"
CONSOLE = Console()
PARTITIONS = 4
BUCKETS = 4
CORES = 2
_SEED = 11
_UPDATED = 0.9
_MOVED = 10
"""One of so many rows changes its partition."""

RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
INDEXES: Mapping[str, PeerTable] = {
    "bucket": PeerTable(name="indexed", buckets=BUCKETS),
    "consistent hashing": PeerTable(
        name="indexed",
        buckets=BUCKETS,
        extra={"hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
    ),
    "simple": PeerTable(name="indexed", buckets=None, extra={"hoodie.index.type": "SIMPLE"}),
    "bloom": PeerTable(
        name="indexed", buckets=None, bloom_filter=True, extra={"hoodie.index.type": "BLOOM"}
    ),
    "record index": PeerTable(
        name="indexed", buckets=None, metadata_table=True, extra=RECORD_INDEX
    ),
    "global simple": PeerTable(
        name="indexed", buckets=None, extra={"hoodie.index.type": "GLOBAL_SIMPLE"}
    ),
    "global bloom": PeerTable(
        name="indexed", buckets=None, bloom_filter=True, extra={"hoodie.index.type": "GLOBAL_BLOOM"}
    ),
}
KINDS = {
    "consistent hashing": table_config.IndexKind.CONSISTENT_HASHING,
    "simple": table_config.IndexKind.SIMPLE,
    "bloom": table_config.IndexKind.BLOOM,
    "record index": table_config.IndexKind.SIMPLE,
    "global simple": table_config.IndexKind.GLOBAL_SIMPLE,
    "global bloom": table_config.IndexKind.GLOBAL_BLOOM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one kind of write took, at best."""

    table_type: str
    index: str
    what: str
    ours_s: float
    theirs_s: float


class Keys:
    """Keys of a table, and of batches: some that it has, some that nobody has."""

    def __init__(self, rows: int) -> None:
        """Make those of a table."""
        self._chance = np.random.default_rng(_SEED)
        self._rows = rows
        self._next = rows

    def all(self) -> np.ndarray:
        """Return the numbers of the table's rows."""
        return np.arange(self._rows)

    def batch(self, count: int, updated: float) -> np.ndarray:
        """Return the numbers of some rows, a part of which are in the table."""
        known = self._chance.choice(self._rows, int(count * updated), replace=False)
        new = np.arange(self._next, self._next + count - len(known))
        self._next += len(new)
        return np.concatenate([known, new])


def rows_of(numbers: np.ndarray, ts: int, *, moves: bool = False) -> pa.Table:
    """Return rows with keys like UUIDs, the partition of each by its number, or another one."""
    shift = numbers // PARTITIONS % _MOVED == 0 if moves else np.zeros(len(numbers), np.int64)
    parts = ((numbers + shift * ts) % PARTITIONS).tolist()
    # Multiplied by an odd constant, numbers are spread over all of 64 bits.
    spread = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).tolist()
    chance = np.random.default_rng(ts)
    return pa.table(
        {
            "id": pa.array([f"{each:016x}-{each >> 32:08x}" for each in spread]),
            "part": pa.array([f"p{part}" for part in parts]),
            "ts": pa.array(np.full(len(numbers), ts, np.int64)),
            "amount": chance.random(len(numbers)),
            "quantity": pa.array(chance.integers(0, 1000, len(numbers)), pa.int32()),
            "note": pa.array([f"note {number % 5000}" for number in numbers.tolist()]),
        }
    )


def adopted(path: Path, index: str) -> table.Table:
    """Return a table of Apache Hudi's that states its index."""
    opened = table.open_table(str(path), environment.system(parallelism=CORES))
    count = INDEXES[index].buckets
    declared = replace(opened.config, index=KINDS.get(index), bucket_count=count)
    opened.adopt(declared, transaction())
    return table.open_table(str(path), environment.system(parallelism=CORES))


def transaction() -> manager.TransactionOptions:
    """Return the options of a single writer."""
    return manager.TransactionOptions(
        lock=address_texts.parse("filesystem"),
        author=authors.Author(writer_id="bench"),
        settings=settings.WriteSettings(),
    )


def ours_s(opened: table.Table, rows: pa.Table) -> float:
    """Return the seconds of an upsert by our local engine."""
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=transaction())
    begin = time.perf_counter()
    opened.write(rows, options)
    return time.perf_counter() - begin


def figures(
    judge: Judge, indexes: Sequence[str], rows: int, batch: int, repeat: int
) -> Iterator[Figure]:
    """Yield what each kind of write takes, with some indexes."""
    for merge_on_read in (False, True):
        for index in indexes:
            kind = INDEXES[index]
            if index == "consistent hashing" and not merge_on_read:
                continue  # Apache Hudi refuses it.
            peer = replace(kind, merge_on_read=merge_on_read, ordering="ts", partition_by=("part",))
            keys = Keys(rows)
            made, ours, theirs = (WORK / name for name in ("made", "ours", "theirs"))
            for path in (made, ours, theirs):
                shutil.rmtree(path, ignore_errors=True)
            judge.write(
                made,
                rows_of(keys.all(), 1),
                peer.write_options(),
                operation="insert" if kind.buckets is None else "upsert",
                timeout_s=1800,
            )
            shutil.copytree(made, ours)
            made.rename(theirs)
            opened = adopted(ours, index)
            name = "merge-on-read" if merge_on_read else "copy-on-write"
            kinds = {"upsert": _UPDATED, "insert": 0.0}
            if KINDS.get(index, table_config.IndexKind.BUCKET).is_global:
                kinds["move"] = _UPDATED
            for what, updated in kinds.items():
                best: dict[str, float] = {}
                for turn in range(repeat):
                    numbers = keys.batch(batch, updated)
                    wanted = rows_of(numbers, 2 + turn, moves=what == "move")
                    spent = {
                        "ours": ours_s(opened, wanted),
                        "theirs": judge.write(theirs, wanted, peer.write_options(), timeout_s=1800),
                    }
                    best = {side: min(s, best.get(side, s)) for side, s in spent.items()}
                found = Figure(
                    table_type=name,
                    index=index,
                    what=what,
                    ours_s=best["ours"],
                    theirs_s=best["theirs"],
                )
                CONSOLE.print(
                    f"{name}, {index}, {what}: ours {found.ours_s:.2f} s, Apache Hudi "
                    f"{found.theirs_s:.2f} s"
                )
                yield found


def page(found: list[Figure], rows: int, batch: int, hudi: str, where: str) -> str:
    """Return the page of figures."""
    text = f"""# Writes by each index

Made by `benchmarks/indexes.py` on {datetime.now(UTC):%Y-%m-%d}: {where}.
Peer: Apache Hudi {hudi} on Spark 3.5, warm, {CORES} threads.

A batch of {batch:,} rows into {rows:,} in {PARTITIONS} partitions; the bucket index has {BUCKETS}
buckets a partition. `upsert`: nine of ten keys are in the table; `insert`: an upsert of keys of
which none is; `move`: as `upsert`, and one of {_MOVED} rows changes its partition. Seconds, the
best of some repetitions.

| table | index | write | ours | Apache Hudi | ratio |
|---|---|---|---:|---:|---:|
"""
    lines = [
        f"| {each.table_type} | {each.index} | {each.what} | {each.ours_s:.2f} | "
        f"{each.theirs_s:.2f} | {each.theirs_s / each.ours_s:.1f} |"
        for each in found
    ]
    return text + "\n".join(lines) + "\n"


def main() -> None:
    """Run all, and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", action="append", choices=INDEXES)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    where = machine.circumstances()
    with Judge(
        WORK / "judge", Settings(name="indexes", cores=CORES, memory_mb=4096, jvm_options=())
    ) as judge:
        hudi = judge.versions().hudi
        # The first writes of a JVM are slow.
        warm = Keys(1000)
        for number in range(3):
            judge.write(
                WORK / "warm",
                rows_of(warm.all(), number),
                replace(INDEXES["simple"], ordering="ts", partition_by=("part",)).write_options(),
            )
        indexes = options.only or list(INDEXES)
        found = list(figures(judge, indexes, options.rows, options.batch, options.repeat))
    options.results.write_text(page(found, options.rows, options.batch, hudi, where))
    CONSOLE.print(f"wrote {options.results}")
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
