"""Random histories: chains of increments from any position are the snapshot, whatever ran between.

Each reader begins at a random moment and reads at random ones. What it holds after an increment is
what a read as of its position returns; no key comes twice; every upserted key was written in the
range, and every deleted one was there.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.maintenance.archiving import planning as archive_planning
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.consumers import Progress
from hoodie.model import commits, table_config
from hoodie.model.settings import ConcurrencyMode
from hoodie.read import changes
from hoodie.read.changed_rows import CHANGE, DELETE
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
NOW = retention.Retention(retained=1, grace_ms=0)
Key = tuple[str, str]


@dataclass
class Reader:
    """A reader of increments, and what it holds."""

    name: str
    position: str | None
    held: dict[Key, dict[str, object]]
    written: set[Key]


class History:
    """A table, its readers, and which keys were written."""

    def __init__(self, path: Path, kind: str) -> None:
        config = KINDS[kind]
        self.small = SmallTable(path, config, ts="int64")
        self.config = config
        mode = ConcurrencyMode.OPTIMISTIC if self.is_alone else ConcurrencyMode.NON_BLOCKING
        self.more: dict[str, object] = {"concurrency": mode, "acknowledges_order_dependence": True}
        self.readers: list[Reader] = []
        self.late: list[Callable[[], object]] = []
        self.number = 0

    @property
    def is_alone(self) -> bool:
        return self.config.is_copy_on_write

    def row(self, key: str, part: str, ts: int) -> dict[str, object]:
        self.number += 1
        b = None if self.config.has_partial_updates and self.number % 2 else f"v{self.number}"
        return {"id": key, "part": part, "a": self.number, "b": b, "ts": ts * 100 + self.number}

    def wrote(self, keys: list[tuple[str, str]]) -> None:
        for reader in self.readers:
            reader.written.update(keys)

    def upsert(self, keys: list[tuple[str, str]], ts: int, *, is_late: bool) -> None:
        rows = [self.row(key, part, ts) for key, part in keys]
        if not is_late or self.is_alone:
            self.wrote(keys)
            self.small.upsert(rows, **self.more)
            return
        options = self.small.options(f"late{self.number}", **self.more)
        session = self.small.table.begin_write(options, list(rows[0]))
        written = self.small.write_files(session, rows)
        self.late.append(lambda: (self.wrote(keys), session.commit(written)))

    def delete(self, keys: list[tuple[str, str]], ts: int) -> None:
        self.wrote(keys)
        names = ("id", "part", *self.config.ordering_fields)
        rows = [{name: self.row(key, part, ts)[name] for name in names} for key, part in keys]
        self.small.delete(rows, **self.more)

    def overwrite(self, keys: list[tuple[str, str]], ts: int) -> None:
        # It looks for no keys: a global index would have them twice.
        if not self.is_alone or self.config.has_global_index:
            return
        parts = {part for _, part in keys}
        self.wrote([(key, part) for key in KEYS for part in parts])
        rows = [self.row(key, part, ts) for key, part in keys]
        self.small.upsert(rows, operation=commits.Operation.INSERT_OVERWRITE, **self.more)

    def finish_late(self) -> None:
        if self.late:
            self.late.pop(0)()

    def compact(self) -> None:
        if not self.is_alone:
            self.small.compact()

    def plan_compaction(self) -> None:
        if not self.is_alone:
            service = self.small.options().transaction
            self.small.table.schedule_compaction(replace(service, author=NOBODY))

    def clean(self) -> None:
        self.small.table.clean(NOW, self.small.options(**self.more).transaction)

    def archive(self) -> None:
        policy = archive_planning.Policy(commits_min=1, commits_max=2)
        self.small.table.archive(self.small.options(**self.more).transaction, policy)

    def begin(self, *, is_declared: bool) -> None:
        name = f"r{len(self.readers)}"
        found = self.small.table.changes()
        assert found.is_snapshot
        reader = Reader(name, None, {}, set())
        self.take(reader, found)
        self.readers.append(reader)
        if is_declared:
            self.declare(reader)

    def declare(self, reader: Reader) -> None:
        assert reader.position is not None
        to = self.small.table.changes(reader.position).position
        if str(to) == reader.position:
            progress = Progress(to=to.time, position=str(to))
            self.small.table.advance_consumer(reader.name, progress)

    def read(self, number: int, *, is_ordered: bool) -> None:
        if not self.readers:
            return
        reader = self.readers[number % len(self.readers)]
        try:
            found = self.small.table.changes(reader.position, is_ordered=is_ordered)
        except errors.GoneError:
            event("a range was gone")
            found = self.small.table.changes(reader.position, falls_back=True)
            assert found.is_snapshot
            reader.held, reader.written = {}, set(self.all_keys())
        self.take(reader, found)
        if not is_ordered:
            reader.written = set()

    def all_keys(self) -> Iterator[Key]:
        yield from ((key, part) for key in KEYS for part in PARTITIONS)

    def take(self, reader: Reader, found: changes.Changes) -> None:
        rows = found.read().read_all().to_pylist()
        seen: set[Key] = set()
        for row in rows:
            change = row.pop(CHANGE)
            key = row["id"], row["part"]
            name = key[0] if self.config.has_global_index else key
            assert name not in seen, (name, rows)
            seen.add(name)
            if not found.is_snapshot:
                written = reader.written
                if self.config.has_global_index:  # Of a row that is elsewhere the partition stays.
                    written = {(id_, key[1]) for id_, _ in written}
                assert key in written, (key, reader.written)
            if change == DELETE:
                assert key in reader.held, (key, reader.held)
                del reader.held[key]
                continue
            if self.config.has_global_index:
                for other in [each for each in reader.held if each[0] == key[0]]:
                    del reader.held[other]
            reader.held[key] = row
        reader.position = str(found.position)
        as_of = self.small.table.read(as_of=found.position.time).read_all().to_pylist()
        expected = {(row["id"], row["part"]): row for row in as_of}
        assert reader.held == expected, (reader.held, expected)


NOBODY = authors.Author()

keys = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(PARTITIONS)),
    min_size=1,
    max_size=4,
    unique_by=lambda pair: pair[0],
)
steps = st.one_of(
    st.tuples(st.just("upsert"), keys, st.integers(1, 3), st.booleans()),
    st.tuples(st.just("upsert"), keys, st.integers(1, 3), st.just(False)),
    st.tuples(st.just("delete"), keys, st.integers(1, 3)),
    st.tuples(st.just("overwrite"), keys, st.integers(1, 3)),
    st.tuples(st.sampled_from(["finish_late", "compact", "plan_compaction", "clean", "archive"])),
    st.tuples(st.just("begin"), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 3), st.just(False)),
)


def run(history: History, step: tuple[object, ...]) -> None:
    match step:
        case ("upsert", found, ts, is_late):
            history.upsert(found, ts, is_late=is_late)
        case ("delete", found, ts):
            history.delete(found, ts)
        case ("overwrite", found, ts):
            history.overwrite(found, ts)
        case ("begin", is_declared):
            history.begin(is_declared=is_declared)
        case ("read", number, is_ordered):
            history.read(number, is_ordered=is_ordered)
        case (name,):
            getattr(history, str(name))()


@settings(
    max_examples=25,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # A history is short enough to be read as it is.
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.sampled_from(sorted(KINDS)), st.lists(steps, min_size=6, max_size=24))
def test_chain_of_increments_is_the_snapshot(kind: str, found: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder) / "t", kind)
        history.begin(is_declared=False)
        for step in found:
            run(history, step)
        while history.late:
            history.finish_late()
        for number in range(len(history.readers)):
            history.read(number, is_ordered=False)
        event(kind)
