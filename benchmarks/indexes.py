"""Measures look-ups and writes by each index, beside Apache Hudi with the same; writes INDEXES.md.

    .venv/bin/python benchmarks/indexes.py [--rows N] [--batch N] [--repeat N] [--only INDEX]...
        [--results FILE]

Apache Hudi makes a table with random keys in four partitions, once for each index and table type;
all three go on with a copy of it, ours adopted: Apache Hudi, our engine on Spark and on local
threads, the first two in warm sessions, all with two threads. `index_figures` tells the steps. A
step is repeated, with other keys each time, and the best is kept. The input is a parquet file,
whose reading counts. In the end all three tables hold the same.

The figures are kept in FILE, and the page beside it shows them: a run of some indexes, or of other
sizes, leaves the others as they are.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import data  # noqa: E402 (the path comes first)
import index_figures  # noqa: E402
import machine  # noqa: E402
import numpy as np  # noqa: E402
import ours  # noqa: E402
import ours_on_spark  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.compute as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import steps  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.engine import protocol  # noqa: E402
from hoodie.filegroup import held_keys, snapshots  # noqa: E402
from hoodie.model import commits, table_config  # noqa: E402
from hoodie.write import tagging  # noqa: E402
from hoodie_jobs.spark import engine as spark_engine  # noqa: E402
from support.peer.judge import Judge, Query, Settings  # noqa: E402
from support.peer.peer_options import PeerTable, in_process_lock  # noqa: E402

RESULTS = ROOT / "benchmarks" / "INDEXES.jsonl"
WORK = ROOT / "benchmarks" / "work" / "indexes"
PARTITIONS = 4
BUCKETS = 4
CORES = 2
WRITER = data.PLAIN
"""What our writers have in common with Apache Hudi's: codec, log blocks, clock skew, lock."""
_SEED = 11
_UPDATED = 0.9
_MOVED = 10
"""One of so many rows changes its partition."""
_CHUNK = 500_000
_TIMEOUT_S = 7200

RECORD_INDEX = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
PARTITIONED_RECORD_INDEX = {
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.embed.timeline.server": "true",
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
    "partitioned record index": PeerTable(
        name="indexed", buckets=None, metadata_table=True, extra=PARTITIONED_RECORD_INDEX
    ),
    "global simple": PeerTable(
        name="indexed", buckets=None, extra={"hoodie.index.type": "GLOBAL_SIMPLE"}
    ),
    "global bloom": PeerTable(
        name="indexed", buckets=None, bloom_filter=True, extra={"hoodie.index.type": "GLOBAL_BLOOM"}
    ),
}
KINDS = {
    "bucket": table_config.IndexKind.BUCKET,
    "consistent hashing": table_config.IndexKind.CONSISTENT_HASHING,
    "simple": table_config.IndexKind.SIMPLE,
    "bloom": table_config.IndexKind.BLOOM,
    "record index": table_config.IndexKind.SIMPLE,
    "partitioned record index": table_config.IndexKind.SIMPLE,
    "global simple": table_config.IndexKind.GLOBAL_SIMPLE,
    "global bloom": table_config.IndexKind.GLOBAL_BLOOM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A step that writes.

    Attributes:
        name: As the page names it.
        operation: What is done.
        updated: The share of keys that are in the table.
        moves: Whether rows change their partition.
    """

    name: str
    operation: commits.Operation = commits.Operation.UPSERT
    updated: float = _UPDATED
    moves: bool = False


# Of a merge-on-read table only file groups without log files are small: inserts come first.
WRITES = (
    Write(name="insert", operation=commits.Operation.INSERT, updated=0),
    Write(name="upsert"),
    Write(name="upsert of new rows", updated=0),
    Write(name="move", moves=True),
)


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


def write_rows(path: Path, numbers: np.ndarray, ts: int, *, moves: bool = False) -> Path:
    """Write the rows of these numbers to a parquet file; return its path."""
    chunks = (numbers[first : first + _CHUNK] for first in range(0, len(numbers), _CHUNK))
    schema = rows_of(numbers[:1], ts).schema
    with pq.ParquetWriter(path, schema, compression="snappy", store_schema=False) as writer:
        for chunk in chunks:
            writer.write_table(rows_of(chunk, ts, moves=moves))
    return path


_TOTALS = "SELECT part, count(*), sum(ts), sum(quantity), sum(amount) FROM scanned GROUP BY part"


class Local:
    """Our table on local threads."""

    def __init__(self, path: Path) -> None:
        self._env = environment.system(parallelism=CORES)
        self._path = path

    def open(self) -> table.Table:
        """Open the table."""
        return table.open_table(str(self._path), self._env)

    def adopt(self, index: str) -> None:
        """Have the table state its index."""
        opened = self.open()
        declared = replace(opened.config, index=KINDS[index], bucket_count=INDEXES[index].buckets)
        opened.adopt(declared, ours.transaction(WRITER))

    def write(self, rows: Path, operation: commits.Operation) -> object:
        """Write a file."""
        return ours.write(self.open(), rows, operation, ours.transaction(WRITER))

    def look_up(self, wanted: pa.Table, engine: protocol.Engine | None = None) -> int:
        """Find the keys of rows, by local threads or an engine; return how many the table has."""
        opened = self.open()
        storage = self._env.open_storage(str(self._path))
        snapshot = snapshots.take(storage, opened.config, has_committed_only=True)
        slices = {path: snapshot.view.latest_slices(path) for path in snapshot.view.partitions()}
        source = held_keys.KeySource(
            storage, opened.config, opened.schema, snapshot.committed.is_committed
        )
        keys = {
            part: wanted.filter(pc.equal(wanted.column("part"), part)).column("id").combine_chunks()
            for part in slices
        }
        if opened.config.has_global_index:
            everything = [each for found in slices.values() for each in found]
            slices = {tagging.EVERYWHERE: everything}
            keys = {tagging.EVERYWHERE: wanted.column("id").combine_chunks()}
        # The table has no log files yet, which would be looked into beside a record index.
        indexed = tagging.by_record_index(snapshot, keys, slices, CORES)
        if indexed is None:
            tags = tagging.look_up(source, keys, slices, engine or self._env.engine)
        else:
            tags = indexed.tags
        return sum(int((each.first() != tagging.NOWHERE).sum()) for each in tags.values())

    def totals(self) -> steps.Totals:
        """Return what the rows of each partition come to."""
        rows = self.open().read(columns=["part", "ts", "quantity", "amount"]).read_all()
        sums = [([], "count_all"), ("ts", "sum"), ("quantity", "sum"), ("amount", "sum")]
        return totals_of(rows.group_by("part").aggregate(sums))


def totals_of(rows: pa.Table) -> steps.Totals:
    """Return totals by partition."""
    return [list(row.values()) for row in rows.sort_by("part").to_pylist()]


def best_s(work: Callable[[], object], before: float) -> float:
    """Do work; return its seconds, or those of before where they were fewer."""
    begin = time.perf_counter()
    work()
    return min(before, time.perf_counter() - begin)


class Bench:
    """The tables of one index, and the engines that write to them."""

    def __init__(
        self, judge: Judge, spark: ours_on_spark.HoodieOnSpark, options: argparse.Namespace
    ) -> None:
        self._judge = judge
        self._spark = spark
        self._options = options
        self._run = (
            f"{datetime.now(UTC):%Y-%m-%d}, {machine.circumstances()}; Apache Hudi "
            f"{judge.versions().hudi} on Spark 3.5, ours on Spark {spark.version}; the best of "
            f"{options.repeat}"
        )

    def warm_up(self) -> None:
        """Have both Sparks write small tables: their first writes are slow."""
        keys = Keys(1000)
        for merge_on_read in (False, True):
            peer = peer_table("simple", merge_on_read=merge_on_read)
            self._make(peer, keys)
            jobs = self._jobs()
            for number in range(3):
                batch = write_rows(WORK / "batch.parquet", keys.batch(100, _UPDATED), 2 + number)
                self._written_by_peer(peer, batch, commits.Operation.UPSERT)
                jobs.write(batch, commits.Operation.UPSERT)

    def figures(self, index: str, *, merge_on_read: bool) -> Iterator[index_figures.Figure]:
        """Yield what each step takes with an index."""
        peer = peer_table(index, merge_on_read=merge_on_read)
        keys = Keys(self._options.rows)
        self._make(peer, keys, index)
        kind = KINDS[index]
        figure = partial(
            index_figures.Figure,
            rows=self._options.rows,
            batch=self._options.batch,
            table_type="merge-on-read" if merge_on_read else "copy-on-write",
            index=index,
            run=self._run,
        )
        if not kind.has_buckets:
            peer_s, spark_s, local_s = self._looked_up(peer, keys)
            yield figure(
                step=index_figures.LOOK_UP, peer_s=peer_s, spark_s=spark_s, local_s=local_s
            )
        local, jobs, ts = Local(WORK / "local"), self._jobs(), 1
        for step in WRITES:
            if step.moves and not kind.is_global:
                continue
            peer_s = spark_s = local_s = float("inf")
            for _ in range(self._options.repeat):
                ts += 1
                numbers = keys.batch(self._options.batch, step.updated)
                batch = write_rows(WORK / "batch.parquet", numbers, ts, moves=step.moves)
                peer_s = min(peer_s, self._written_by_peer(peer, batch, step.operation))
                spark_s = best_s(partial(jobs.write, batch, step.operation), spark_s)
                local_s = best_s(partial(local.write, batch, step.operation), local_s)
            yield figure(step=step.name, peer_s=peer_s, spark_s=spark_s, local_s=local_s)
        query = Query(select=_TOTALS, use_metadata_table=peer.metadata_table)
        theirs = totals_of(self._judge.read(WORK / "theirs", query, timeout_s=_TIMEOUT_S))
        for name in ("local", "on_spark"):
            totals = Local(WORK / name).totals()
            assert steps.are_same(totals, theirs), f"{index}: {name} {totals}, theirs {theirs}"

    def _make(self, peer: PeerTable, keys: Keys, index: str = "simple") -> None:
        """Have Apache Hudi make the table, three times over."""
        shutil.rmtree(WORK / "theirs", ignore_errors=True)
        rows = write_rows(WORK / "rows.parquet", keys.all(), 1)
        self._written_by_peer(peer, rows, _MAKING[peer.buckets is None])
        for name in ("local", "on_spark"):
            shutil.rmtree(WORK / name, ignore_errors=True)
            shutil.copytree(WORK / "theirs", WORK / name)
            Local(WORK / name).adopt(index)

    def _written_by_peer(self, peer: PeerTable, rows: Path, operation: commits.Operation) -> float:
        return self._judge.write(
            WORK / "theirs",
            rows,
            peer.write_options() | in_process_lock(skew_ms=1),
            operation=operation.value.lower(),
            timeout_s=_TIMEOUT_S,
        )

    def _looked_up(self, peer: PeerTable, keys: Keys) -> tuple[float, float, float]:
        """Return the seconds of a look-up by all three, which find the same."""
        rows = rows_of(keys.batch(self._options.batch, _UPDATED), 2)
        wanted = pa.table({"key": rows.column("id"), "partition": rows.column("part")})
        peer_s, found = self._judge.tag(
            WORK / "theirs",
            wanted,
            peer.write_options(),
            repetitions=self._options.repeat,
            timeout_s=_TIMEOUT_S,
        )
        local, local_s, spark_s = Local(WORK / "local"), float("inf"), float("inf")
        on_spark = spark_engine.LookupEngine(self._jobs().runtime.engine)
        for _ in range(self._options.repeat):
            spark_s = best_s(partial(local.look_up, rows, on_spark), spark_s)
            local_s = best_s(partial(local.look_up, rows), local_s)
        for engine in (None, on_spark):
            ours_found = local.look_up(rows, engine)
            assert ours_found == found, f"ours finds {ours_found} keys, Apache Hudi {found}"
        return min(peer_s), spark_s, local_s

    def _jobs(self) -> ours_on_spark.Jobs:
        return self._spark.jobs(WRITER, WORK / "on_spark")


_MAKING = {True: commits.Operation.INSERT, False: commits.Operation.UPSERT}


def peer_table(index: str, *, merge_on_read: bool) -> PeerTable:
    """Return the table of an index as Apache Hudi is told to make it."""
    kind = INDEXES[index]
    return replace(kind, merge_on_read=merge_on_read, ordering="ts", partition_by=("part",))


def main() -> None:
    """Run all, keep the figures, and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", action="append", choices=INDEXES)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    settings = Settings(name="indexes", cores=CORES, memory_mb=4096, jvm_options=())
    with (
        Judge(WORK / "judge", settings) as judge,
        ours_on_spark.HoodieOnSpark(WORK) as spark,
    ):
        bench = Bench(judge, spark, options)
        bench.warm_up()
        for merge_on_read in (False, True):
            for index in options.only or INDEXES:
                if index == "consistent hashing" and not merge_on_read:
                    continue  # Apache Hudi refuses it.
                keep(options.results, bench.figures(index, merge_on_read=merge_on_read))
    shutil.rmtree(WORK)


def keep(results: Path, measured: Iterator[index_figures.Figure]) -> None:
    """Keep figures as they come: a whole run takes hours, and may be interrupted."""
    for figure in measured:
        print(figure, flush=True)
        figures = index_figures.replaced(index_figures.read(results), [figure])
        index_figures.write(results, figures)
        results.with_suffix(".md").write_text(index_figures.page(figures, list(INDEXES)))


if __name__ == "__main__":
    main()
