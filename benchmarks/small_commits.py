"""Small commits: the tables, the batches and the writers that commits.py and contention.py measure.

A table's kind says who writes it. Beside other engines a writer waits under the lock for as long as
their clocks may lag (`clock_wait_ms` of ours, `hoodie.time.generator.max_expected_clock_skew_ms` of
Apache Hudi's). Where all writers are ours nobody has to; without a chain the writers must say so.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hoodie import environment, table
from hoodie.index import bucket
from hoodie.model import commits, results, schemas, settings, table_config
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions

BUCKETS = 32
BATCH_ROWS = 10
CLOCK_WAIT_MS = 20
MODES = {
    "non-blocking": settings.ConcurrencyMode.NON_BLOCKING,
    "optimistic": settings.ConcurrencyMode.OPTIMISTIC,
}
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("value", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Who writes a table, and whether a chain orders it.

    Attributes:
        title: For reports.
        has_chain: Whether it has one.
        has_foreign_writers: Whether other engines may write it.
    """

    title: str
    has_chain: bool
    has_foreign_writers: bool

    @property
    def clock_wait_ms(self) -> int:
        """How long writers wait for others' clocks."""
        return CLOCK_WAIT_MS if self.has_foreign_writers else 0


KINDS: Mapping[str, Kind] = {
    "ours": Kind(title="no chain, ours alone", has_chain=False, has_foreign_writers=False),
    "foreign": Kind(title="no chain, foreign writers", has_chain=False, has_foreign_writers=True),
    "chain-ours": Kind(title="chain, ours alone", has_chain=True, has_foreign_writers=False),
    "chain-foreign": Kind(title="chain, foreign writers", has_chain=True, has_foreign_writers=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit; milliseconds. The lock's are those of the completion; None where unknown."""

    latency_ms: float
    wait_ms: float | None = None
    hold_ms: float | None = None


def batches_of(writer: int, count: int) -> list[pa.Table]:
    """Return a writer's batches: keys of its own bucket, ordering values that nobody shares."""
    numbers = [f"w{writer}-{number}" for number in range(BUCKETS * BATCH_ROWS * 4)]
    places = bucket.buckets([pa.array(numbers)], BUCKETS)
    keys = [key for key, place in zip(numbers, places, strict=True) if place == writer % BUCKETS]
    keys = keys[:BATCH_ROWS]
    return [
        pa.table(
            {
                "id": keys,
                "ts": [
                    (batch * len(keys) + place) * BUCKETS + writer for place in range(len(keys))
                ],
                "value": [batch] * len(keys),
            },
            schema=SCHEMA,
        )
        for batch in range(1, count + 1)
    ]


def create(uri: str | Path, kind: Kind, buckets: int = BUCKETS) -> table.Table:
    """Create an empty table."""
    config = table_config.TableConfig(
        name="commits",
        record_key_fields=("id",),
        ordering_fields=("ts",),
        merge_mode=table_config.MergeMode.EVENT_TIME,
        bucket_count=buckets,
        chain=table_config.ChainName(id="bench") if kind.has_chain else None,
        has_foreign_writers=kind.has_foreign_writers or not kind.has_chain,
    )
    schema = schemas.from_arrow(SCHEMA, config.name)
    return table.create_table(str(uri), config, schema, environment.system(parallelism=1))


def transaction(
    mode: str, kind: Kind, writer: str | None = None, lock: str = "filesystem"
) -> manager.TransactionOptions:
    """Return how a writer of a table writes; None is a table service."""
    return manager.TransactionOptions(
        settings=settings.WriteSettings(
            concurrency=MODES[mode], clock_wait_ms=kind.clock_wait_ms, lock_wait_ms=300_000
        ),
        lock=address_texts.parse(lock),
        author=authors.Author(writer_id=writer),
    )


def commit(opened: table.Table, data: pa.Table, made_by: manager.TransactionOptions) -> Commit:
    """Write one batch."""
    options = sessions.WriteOptions(operation=commits.Operation.UPSERT, transaction=made_by)
    begin = time.perf_counter()
    result = opened.write(data, options)
    latency_ms = (time.perf_counter() - begin) * 1000
    assert isinstance(result, results.CommitResult)
    return Commit(latency_ms=latency_ms, wait_ms=result.lock_wait_ms, hold_ms=result.lock_hold_ms)


def median(made: Sequence[Commit]) -> Commit:
    """Return the medians of some commits."""

    def of(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    latency_ms = of([each.latency_ms for each in made])
    assert latency_ms is not None
    return Commit(
        latency_ms=latency_ms,
        wait_ms=of([each.wait_ms for each in made]),
        hold_ms=of([each.hold_ms for each in made]),
    )


def slowest_ms(made: Sequence[Commit]) -> float:
    """Return the latency that 95 % of some commits do not exceed."""
    return sorted(each.latency_ms for each in made)[int(len(made) * 0.95)]
