"""Tables with a metadata table whose indexes are built beside writers."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hoodie import table
from hoodie.filegroup import metadata_table
from hoodie.format import instant_names, metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.maintenance.cleaning import retention
from hoodie.model import instants, results, settings, table_config
from hoodie.model.file_statistics import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_STATS,
    ColumnStatistics,
)
from hoodie.read import where as filters
from hoodie.timeline import active
from support.tables.tables import CONFIG, SmallTable

CHAINED = replace(CONFIG, chain=table_config.ChainName(id="c"), has_foreign_writers=False)
KINDS = {
    "mor": CHAINED,
    "cow": replace(CHAINED, table_type=table_config.TableType.COPY_ON_WRITE),
    "version 8": replace(CHAINED, version=8),
    "without partitions": replace(CHAINED, partition_fields=()),
    "shared": CONFIG,
    "shared, cow": replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE),
    "shared, version 8": replace(CONFIG, version=8),
    "shared, with a chain": replace(CHAINED, has_foreign_writers=True),
}
BESIDE = {"acknowledges_order_dependence": True}
ALL = (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS)


class Indexed:
    """A table with a metadata table that has `files` alone."""

    def __init__(self, path: Path, config: table_config.TableConfig = CHAINED) -> None:
        self.small = SmallTable(path, config)
        self.more: dict[str, object] = {}
        if config.is_copy_on_write:
            self.more = {"concurrency": settings.ConcurrencyMode.OPTIMISTIC}
        self.names = ALL if config.partition_fields else (COLUMN_STATS, BLOOM_FILTERS)
        self.upsert(0, 9)
        self.compact()
        transaction = self.small.options().transaction
        self.small.table = self.small.table.initialise_metadata(transaction, has_statistics=False)

    def upsert(self, first: int, last: int, a: int = 0) -> None:
        self.small.upsert(rows_of(first, last, a), **self.more)

    def compact(self) -> None:
        if not self.small.table.config.is_copy_on_write:
            self.small.compact()

    def clean(self) -> results.CleanResults:
        transaction = self.small.options().transaction
        how = retention.Retention(retained=1, grace_ms=0)
        return self.small.table.clean(how, transaction)

    def build(
        self, *names: str, hear: Callable[[str], object] = lambda what: None
    ) -> results.IndexResult:
        transaction = self.small.options().transaction
        return self.small.table.build_index(names or self.names, transaction, hear)

    def drop(self, *names: str) -> tuple[str, ...]:
        return self.opened().drop_index(names, self.small.options().transaction)

    def begin(self, writer_id: str, rows: Sequence[Mapping[str, object]]) -> Callable[[], None]:
        """Write the files of a write, and return what completes it."""
        small = self.small
        more = {**self.more, **BESIDE}
        session = small.table.begin_write(small.options(writer_id, **more), list(rows[0]))
        written = small.write_files(session, rows)
        return lambda: session.commit(written) and None

    def opened(self) -> table.Table:
        return table.open_table(str(self.small.path), self.small.env)

    def records(self) -> Mapping[tuple[str, bytes], str]:
        """Return what the indexes say of files and partitions, by index and key."""
        storage = self.small.env.open_storage(str(self.small.path))
        beside = metadata_table.MetadataTable(storage, active.load(storage))
        found = {}
        for name in self.names:
            for key, values in beside.partition(name).with_prefixes([""]).items():
                shown: object
                if name == BLOOM_FILTERS:
                    shown = metadata_avro.decode_bloom_filter(values[-1], name)
                elif name == COLUMN_STATS:
                    shown = metadata_avro.decode_statistics(
                        values[-1], name, RecordType.COLUMN_STATS
                    )
                else:
                    continue  # It may be wider than one that is made again: `validate` compares it.
                if shown is not None:
                    found[name, key] = repr(shown)
        return found

    def check(self) -> None:
        """Check that the indexes are used, right, and those that are made again."""
        opened = self.opened()
        assert set(self.names) < set(opened.config.metadata_partitions)
        assert not opened.config.metadata_partitions_inflight
        assert not opened.pending_indexes()
        assert opened.explain_read(where=filters.parse("a > 100000")).steps[-1].left == 0
        validated = opened.validate_metadata()
        assert validated.is_right, validated
        assert not self.small.problems()
        kept_up = self.records()
        assert {name for name, _ in kept_up} == {COLUMN_STATS, BLOOM_FILTERS}
        self.small.table = opened
        self.drop(*self.names)
        self.small.table = self.opened()
        self.build()
        assert self.records() == kept_up


def put_indexing(small: SmallTable) -> instants.InstantTime:
    """Put a completed indexing action of another engine on the timeline; return its time."""
    timeline = active.listed(small.env.open_storage(str(small.path)))
    after_ms = instants.parse_time(str(timeline.greatest_time)) + 1
    time = instants.format_time(after_ms)
    for state in instants.State:
        is_completed = state is instants.State.COMPLETED
        instant = instants.Instant(
            requested_time=time,
            action=instants.Action.INDEXING,
            state=state,
            completion_time=instants.format_time(after_ms + 1) if is_completed else None,
        )
        name = instant_names.file_name(instant)
        (small.path / active.DIRECTORY / name).write_bytes(b"")
    return time


def rows_of(first: int, last: int, a: int = 0) -> list[dict[str, object]]:
    return [
        {"id": str(n), "part": f"p{n % 3}", "a": a + n, "b": f"x{n}"} for n in range(first, last)
    ]


def can_be_merged_by_apache_hudi(records: Sequence[ColumnStatistics]) -> bool:
    """Return whether each record of a key replaces those before it, or is of their type."""
    return all(
        newer.is_tight
        or (
            newer.value_type == older.value_type
            and (None in (older.kind, newer.kind) or older.kind is newer.kind)
        )
        for older, newer in itertools.pairwise(records)
    )
