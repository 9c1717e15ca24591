"""Random histories: chains of increments from any position are the snapshot, whatever ran between.

Each reader begins at a random moment and reads at random ones. What it holds after an increment is
what a read as of its position returns; no key comes twice; every upserted key was written in the
range, and every deleted one was there. With a filter those of the changes come that meet it.
"""

import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.maintenance.consumers import Progress
from hoodie.model import predicates
from hoodie.read import changes, where
from hoodie.read.changed_rows import CHANGE, DELETE
from support.tables.random_histories import KEYS, KINDS, PARTITIONS, STEPS, Keys, RandomHistory

Key = tuple[str, str]
FILTERS = [
    *map(where.parse, ("id in ('1', '4')", "part = 'p'", "b is null", "not a > 6", "a > 4")),
    *map(where.parse, ("b is null or part = 'p'", "id < '3' and a is null", "ts > 205")),
]


@dataclass
class Reader:
    """A reader of increments, and what it holds."""

    name: str
    position: str | None
    held: dict[Key, dict[str, object]]
    written: set[Key]


class History(RandomHistory):
    """A table, its readers, and which keys were written."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path, KINDS[kind])
        self.readers: list[Reader] = []

    def wrote(self, keys: Keys) -> None:
        for reader in self.readers:
            reader.written.update(keys)

    def take(self, step: tuple[object, ...]) -> None:
        match step:
            case ("begin", is_declared):
                self.begin(is_declared=is_declared)
            case ("read", number, is_ordered):
                self.read(number, is_ordered=is_ordered)
            case _:
                super().take(step)

    def begin(self, *, is_declared: bool) -> None:
        name = f"r{len(self.readers)}"
        found = self.small.table.changes()
        assert found.is_snapshot
        reader = Reader(name, None, {}, set())
        self.receive(reader, found)
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
        since = reader.position
        try:
            found = self.small.table.changes(since, is_ordered=is_ordered)
        except errors.GoneError:
            event("a range was gone")
            found = self.small.table.changes(reader.position, falls_back=True)
            assert found.is_snapshot
            reader.held, reader.written = {}, set(self.all_keys())
        self.receive(reader, found)
        self.check_filter(since, found)
        if not is_ordered:
            reader.written = set()

    def check_filter(self, since: str | None, found: changes.Changes) -> None:
        rows = found.read().read_all()
        wanted = FILTERS[self.number % len(FILTERS)]
        expected = predicates.kept(wanted, rows, rows.column_names).to_pylist()
        columns = [*rows.column_names[1:]][self.number % 2 :]
        filtered = self.small.table.changes(
            since, until=found.position, where=wanted, columns=columns, falls_back=True
        )
        shown = [{name: row[name] for name in (CHANGE, *columns)} for row in expected]
        read = filtered.read().read_all().to_pylist()
        assert sorted(map(repr, read)) == sorted(map(repr, shown)), (wanted, rows.to_pylist())
        assert sorted(map(repr, parts_of(filtered))) == sorted(map(repr, read))
        event(f"filtered: {bool(expected)}, deletes: {DELETE in map(change_of, expected)}")

    def all_keys(self) -> Iterator[Key]:
        yield from ((key, part) for key in KEYS for part in PARTITIONS)

    def receive(self, reader: Reader, found: changes.Changes) -> None:
        rows = found.read().read_all().to_pylist()
        assert sorted(map(repr, parts_of(found))) == sorted(map(repr, rows))
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


def change_of(row: dict[str, object]) -> object:
    return row[CHANGE]


def parts_of(found: changes.Changes) -> list[dict[str, object]]:
    """Return changes as processes of their own read them, the last part first."""
    parts = pickle.loads(pickle.dumps(found.parts()))
    return [row for part in reversed(parts) for batch in part.read() for row in batch.to_pylist()]


steps = st.one_of(
    *STEPS,
    st.tuples(st.just("begin"), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 3), st.just(False)),
)


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
            history.take(step)
        while history.late:
            history.finish_late()
        for number in range(len(history.readers)):
            history.read(number, is_ordered=False)
        event(kind)
