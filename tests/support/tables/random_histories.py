"""Random histories of a small table: writes of some keys, also late ones, and table services."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import retention
from hoodie.model import commits, table_config
from hoodie.model.settings import ConcurrencyMode
from hoodie.transaction import authors
from support.tables.tables import CONFIG, SmallTable

PARTITIONS = ("p", "q")
KEYS = ("1", "2", "3", "4", "5")
COW = replace(CONFIG, table_type=table_config.TableType.COPY_ON_WRITE, has_partial_updates=False)
EVENT_TIME = replace(
    CONFIG,
    has_partial_updates=False,
    ordering_fields=("ts",),
    merge_mode=table_config.MergeMode.EVENT_TIME,
)
LOOKED_UP = replace(COW, bucket_count=None, index=table_config.IndexKind.SIMPLE)
KINDS = {
    "mor, partial updates": CONFIG,
    "mor, commit time": replace(CONFIG, has_partial_updates=False),
    "mor, event time": EVENT_TIME,
    "cow": COW,
    "cow, partial updates": replace(COW, has_partial_updates=True),
    "cow, keys looked up": LOOKED_UP,
    "cow, global index": replace(LOOKED_UP, index=table_config.IndexKind.GLOBAL_SIMPLE),
}
"""Tables whose changes are pulled."""

NOW = retention.Retention(retained=1, grace_ms=0)
Keys = list[tuple[str, str]]
"""Record keys with their partitions."""


class RandomHistory:
    """A table that random steps change."""

    def __init__(self, path: Path, config: table_config.TableConfig) -> None:
        self.small = SmallTable(path, config, ts="int64")
        self.config = config
        mode = ConcurrencyMode.OPTIMISTIC if self.is_alone else ConcurrencyMode.NON_BLOCKING
        self.more: dict[str, object] = {"concurrency": mode, "acknowledges_order_dependence": True}
        self.late: list[Callable[[], object]] = []
        self.number = 0

    @property
    def is_alone(self) -> bool:
        return self.config.is_copy_on_write

    def wrote(self, keys: Keys) -> None:
        """Called with what a write is about to change."""

    def row(self, key: str, part: str, ts: int) -> dict[str, object]:
        self.number += 1
        b = None if self.config.has_partial_updates and self.number % 2 else f"v{self.number}"
        return {"id": key, "part": part, "a": self.number, "b": b, "ts": ts * 100 + self.number}

    def upsert(self, keys: Keys, ts: int, *, is_late: bool) -> None:
        rows = [self.row(key, part, ts) for key, part in keys]
        if not is_late or self.is_alone:
            self.wrote(keys)
            self.small.upsert(rows, **self.more)
            return
        options = self.small.options(f"late{self.number}", **self.more)
        session = self.small.table.begin_write(options, list(rows[0]))
        written = self.small.write_files(session, rows)
        self.late.append(lambda: (self.wrote(keys), session.commit(written)))

    def delete(self, keys: Keys, ts: int) -> None:
        self.wrote(keys)
        names = ("id", "part", *self.config.ordering_fields)
        rows = [{name: self.row(key, part, ts)[name] for name in names} for key, part in keys]
        self.small.delete(rows, **self.more)

    def overwrite(self, keys: Keys, ts: int) -> None:
        # It looks for no keys: a global index would have them twice.
        if not self.is_alone or self.config.has_global_index:
            return
        parts = {part for _, part in keys}
        self.wrote([(key, part) for key in KEYS for part in parts])
        rows = [self.row(key, part, ts) for key, part in keys]
        self.small.upsert(rows, operation=commits.Operation.INSERT_OVERWRITE, **self.more)

    def come_back(self, keys: Keys, ts: int) -> None:
        """Delete keys, and write them to new file groups, where the index lets them be in any."""
        if self.config.bucket_count is not None:
            return
        self.delete(keys, ts)
        rows = [self.row(key, part, ts) for key, part in keys]
        self.small.upsert(rows, operation=commits.Operation.BULK_INSERT, **self.more)

    def finish_late(self) -> None:
        if self.late:
            self.late.pop(0)()

    def compact(self) -> None:
        if not self.is_alone:
            self.small.compact()

    def plan_compaction(self) -> None:
        if not self.is_alone:
            service = self.small.options().transaction
            self.small.table.schedule_compaction(replace(service, author=authors.Author()))

    def clean(self) -> None:
        self.small.table.clean(NOW, self.small.options(**self.more).transaction)

    def archive(self) -> None:
        policy = archive_planning.Policy(commits_min=1, commits_max=2)
        self.small.table.archive(self.small.options(**self.more).transaction, policy)

    def take(self, step: tuple[object, ...]) -> None:
        """Take a step that was drawn."""
        match step:
            case ("upsert", keys, ts, is_late):
                self.upsert(keys, ts, is_late=is_late)
            case ("delete", keys, ts):
                self.delete(keys, ts)
            case ("overwrite", keys, ts):
                self.overwrite(keys, ts)
            case ("come_back", keys, ts):
                self.come_back(keys, ts)
            case (name,):
                getattr(self, str(name))()


_keys = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(PARTITIONS)),
    min_size=1,
    max_size=4,
    unique_by=lambda pair: pair[0],
)
STEPS: tuple[st.SearchStrategy[tuple[object, ...]], ...] = (
    st.tuples(st.just("upsert"), _keys, st.integers(1, 3), st.booleans()),
    st.tuples(st.just("upsert"), _keys, st.integers(1, 3), st.just(False)),
    st.tuples(st.just("delete"), _keys, st.integers(1, 3)),
    st.tuples(st.just("overwrite"), _keys, st.integers(1, 3)),
    st.tuples(st.just("come_back"), _keys, st.integers(1, 3)),
    st.tuples(st.sampled_from(["finish_late", "compact", "plan_compaction", "clean", "archive"])),
)
"""Of a `RandomHistory`."""
