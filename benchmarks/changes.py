"""Measures time travel, increments and change data, beside Apache Hudi; writes CHANGES.md.

    .venv/bin/python benchmarks/changes.py [--commits N] [--rows N] [--batch N] [--repeat N]
        [--only TYPE]... [--step NAME]... [--keep] [--no-peer] [--results FILE]

Our engine makes a table of each type with many commits, which is compacted, cleaned and archived on
the way as the operator would; the last ones stay readable. Then both engines ask it the same
(`change_figures` tells what), Apache Hudi in a warm session, both with two threads. A step is
repeated, and the best is kept. With --keep tables stay, and a run of the same sizes goes on with
them, so that steps can be measured in several runs.

T-Q09: snapshots, time travel and changes of both types are on one page, what their reads cost.

The figures are kept in FILE, and the page beside it shows them: a run of one type, or of other
sizes, leaves the others as they are.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]  # `support` and our neighbours

import change_figures  # noqa: E402 (the path comes first)
import machine  # noqa: E402
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from rich.console import Console  # noqa: E402

from hoodie import environment, table  # noqa: E402
from hoodie.maintenance.archiving import planning as archive_planning  # noqa: E402
from hoodie.maintenance.cleaning import retention  # noqa: E402
from hoodie.model import commits, instants, schemas, settings, table_config  # noqa: E402
from hoodie.model.change_data import LoggingMode  # noqa: E402
from hoodie.transaction import authors, manager  # noqa: E402
from hoodie.transaction.locks import address_texts  # noqa: E402
from hoodie.write import sessions  # noqa: E402
from support.peer.judge import Judge, Query, QueryType, Settings, Sink  # noqa: E402

RESULTS = ROOT / "benchmarks" / "CHANGES.jsonl"
WORK = ROOT / "benchmarks" / "work" / "changes"
CORES = 2
PARTITIONS = 4
BUCKETS = 4
RANGE = 100
"""So many commits a longer step goes back."""
_COMPACTED = 20
_KEPT = RANGE + 2 * _COMPACTED
"""So many commits stay readable, compactions among them."""
_MAINTAINED = 100
"""After so many commits a table is cleaned and archived."""
_TYPES = {
    "copy-on-write": table_config.TableType.COPY_ON_WRITE,
    "merge-on-read": table_config.TableType.MERGE_ON_READ,
}
_COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.float64()),
        ("note", pa.string()),
    ]
)
_TRANSACTION = manager.TransactionOptions(
    settings=settings.WriteSettings(
        concurrency=settings.ConcurrencyMode.SINGLE_WRITER, clock_wait_ms=0
    ),
    lock=address_texts.parse("in-process"),
    author=authors.Author(writer_id="benchmark"),
)
_CDC = {"hoodie.datasource.query.incremental.format": "cdc"}
_TIMEOUT_S = 7200
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is asked.

    Attributes:
        name: As the page names it.
        ours: Asks our engine; returns how many rows there were.
        theirs: The same query of Apache Hudi; None if it has none.
    """

    name: str
    ours: Callable[[], int]
    theirs: Query | None


class Made:
    """A table with many commits."""

    def __init__(self, path: Path, table_type: str, options: argparse.Namespace) -> None:
        """Take its place and its sizes."""
        self.path = path
        self.options = options
        self._type = table_type
        self._env = environment.system(parallelism=CORES)

    def open(self) -> table.Table:
        """Open the table."""
        return table.open_table(str(self.path), self._env)

    def make(self) -> None:
        """Write it, unless it was kept."""
        kept = self.path.with_name(f"{self.path.name}.sizes")
        sizes = f"{self.options.commits} {self.options.rows} {self.options.batch}"
        if kept.exists() and kept.read_text() == sizes:
            return
        kept.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)
        self._write()
        kept.write_text(sizes)

    def _write(self) -> None:
        name = self._type.replace("-", "_")
        config = table_config.TableConfig(
            name=name,
            table_type=_TYPES[self._type],
            record_key_fields=("id",),
            partition_fields=("part",),
            ordering_fields=("ts",),
            merge_mode=table_config.MergeMode.EVENT_TIME,
            bucket_count=BUCKETS,
            change_data=LoggingMode.DATA_BEFORE_AFTER,
        )
        schema = schemas.from_arrow(_COLUMNS, name)
        made = table.create_table(str(self.path), config, schema, self._env)
        insert = sessions.WriteOptions(
            operation=commits.Operation.BULK_INSERT, transaction=_TRANSACTION
        )
        made.write(_rows(np.arange(self.options.rows), 0), insert)
        upsert = replace(insert, operation=commits.Operation.UPSERT)
        chance = np.random.default_rng(7)
        per_partition = self.options.rows // PARTITIONS
        for number in range(1, self.options.commits):
            chosen = chance.choice(per_partition, self.options.batch, replace=False)
            made.write(_rows(chosen * PARTITIONS + number % PARTITIONS, number), upsert)
            if not made.config.is_copy_on_write and number % _COMPACTED == 0:
                planned = made.schedule_compaction(_TRANSACTION)
                if planned is not None:
                    made.compact(planned, _TRANSACTION)
            if number % _MAINTAINED == 0:
                made.clean(retention.Retention(retained=_KEPT, grace_ms=0), _TRANSACTION)
                policy = archive_planning.Policy(
                    commits_min=_KEPT + 10, commits_max=_KEPT + 50, clean_retained=_KEPT
                )
                made.archive(_TRANSACTION, policy)
                CONSOLE.print(f"{self._type}: {number} commits")

    def steps(self) -> Iterator[Step]:
        """Yield what is asked of it, as far as it is wanted."""
        wanted = self.options.step
        return (each for each in self._all_steps() if not wanted or each.name in wanted)

    def _all_steps(self) -> Iterator[Step]:
        opened = self.open()
        timeline = opened.timeline()
        written = [
            each
            for each in timeline.completed_writes
            if each.action is not instants.Action.COMMIT or opened.config.is_copy_on_write
        ]
        before, first = written[-2], written[max(0, len(written) - RANGE - 1)]
        yield Step(name=change_figures.SNAPSHOT, ours=self._read, theirs=Query())
        yield Step(
            name=change_figures.TRAVEL,
            ours=partial(self._read, first.requested_time),
            theirs=Query(as_of=first.requested_time),
        )
        for name, since in ((change_figures.LAST, before), (change_figures.LAST_100, first)):
            query = Query(type=QueryType.INCREMENTAL, begin=since.completion_time)
            yield Step(name=name, ours=partial(self._increment, since), theirs=query)
        is_stored = opened.config.is_copy_on_write
        names = (
            (change_figures.STORED_LAST, change_figures.STORED)
            if is_stored
            else (change_figures.COMPUTED_LAST, change_figures.COMPUTED)
        )
        for name, since in zip(names, (before, first), strict=True):
            # Begin of such a query is a requested time.
            query = Query(type=QueryType.INCREMENTAL, begin=since.requested_time, options=_CDC)
            yield Step(name=name, ours=partial(self._changes, since), theirs=query)
        if is_stored:
            # Meta columns are in base files alone.
            more = ("_hoodie_commit_time",)
            yield Step(
                name=change_figures.COMPUTED_LAST,
                ours=partial(self._changes, before, more),
                theirs=None,
            )
            yield Step(
                name=change_figures.COMPUTED, ours=partial(self._changes, first, more), theirs=None
            )
        changed = opened.changes(before.requested_time, columns=["id", "part"]).read().read_all()
        row = changed.slice(0, 1).to_pylist()[0]
        of_one = partial(self._history, first, row["id"], row["part"])
        yield Step(name=change_figures.HISTORY, ours=of_one, theirs=None)

    def _read(self, as_of: str | None = None) -> int:
        return _count(self.open().read(as_of=as_of))

    def _increment(self, since: instants.Instant) -> int:
        # As Apache Hudi's, which has no deletes.
        found = self.open().changes(since.requested_time, has_deletes=False)
        assert not found.is_snapshot
        return _count(found.read())

    def _changes(self, since: instants.Instant, more: tuple[str, ...] = ()) -> int:
        opened = self.open()
        columns = [*more, *opened.schema.arrow.names]
        return _count(opened.change_data(since.requested_time, columns=columns).read())

    def _history(self, since: instants.Instant, key: str, partition: str) -> int:
        found = self.open().history(key, partition=partition, since=since.requested_time)
        return _count(found.read())


def _count(rows: pa.RecordBatchReader) -> int:
    return sum(batch.num_rows for batch in rows)


def _keys(numbers: np.ndarray) -> list[str]:
    # Multiplied by an odd constant, numbers are spread over all of 64 bits.
    spread = (numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).tolist()
    return [f"{each:016x}" for each in spread]


def _rows(numbers: np.ndarray, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(_keys(numbers)),
            "part": pa.array([f"p{each}" for each in (numbers % PARTITIONS).tolist()]),
            "ts": pa.array(np.full(len(numbers), ts, np.int64)),
            "amount": np.random.default_rng(ts).random(len(numbers)),
            "note": pa.array([f"note {each % 5000}" for each in numbers.tolist()]),
        },
        schema=_COLUMNS,
    )


def measured(
    made: Made, judge: Judge | None, table_type: str, run: str
) -> Iterator[change_figures.Figure]:
    """Yield what each step takes."""
    options = made.options
    for step in made.steps():
        local_s, found = float("inf"), 0
        for _ in range(options.repeat):
            begin = time.perf_counter()
            found = step.ours()
            local_s = min(local_s, time.perf_counter() - begin)
        peer_s = None
        if judge is not None and step.theirs is not None:
            count = judge.read(made.path, step.theirs, timeout_s=_TIMEOUT_S).num_rows
            assert count == found, f"{step.name}: Apache Hudi finds {count} rows, ours {found}"
            peer_s = min(
                judge.scan(made.path, Sink.NOOP, step.theirs, timeout_s=_TIMEOUT_S)
                for _ in range(options.repeat)
            )
        yield change_figures.Figure(
            commits=options.commits,
            rows=options.rows,
            batch=options.batch,
            table_type=table_type,
            step=step.name,
            found=found,
            peer_s=peer_s,
            local_s=local_s,
            run=run,
        )


def main() -> None:
    """Make the tables, run all, keep the figures, and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", action="append", choices=_TYPES)
    parser.add_argument("--step", action="append", choices=change_figures.STEPS)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if not options.keep:
        shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    tables = {name: Made(WORK / name, name, options) for name in options.only or _TYPES}
    for made in tables.values():
        made.make()
    if options.no_peer:
        _run_all(tables, None, options.results)
    else:
        judged = Settings(name="changes", cores=CORES, memory_mb=4096, jvm_options=())
        with Judge(WORK / "judge", judged) as judge:
            _run_all(tables, judge, options.results)
    if not options.keep:
        shutil.rmtree(WORK)


def _run_all(tables: dict[str, Made], judge: Judge | None, results: Path) -> None:
    repeat = next(iter(tables.values())).options.repeat
    peer = "" if judge is None else f"; Apache Hudi {judge.versions().hudi} on Spark 3.5"
    run = f"{datetime.now(UTC):%Y-%m-%d}, {machine.circumstances()}{peer}; the best of {repeat}"
    for name, made in tables.items():
        for figure in measured(made, judge, name, run):
            print(figure, flush=True)
            change_figures.keep(results, [figure])


if __name__ == "__main__":
    main()
