"""What a table holds of a key is its history, one change after the other, read after every step.

Upserts, inserts and bulk inserts, rows that say they are deleted, and deletes with and without
ordering values go through the library's own writes, one after the other; compactions are planned
and executed anywhere among them. Inserts that do not look for their keys may leave a key several
times; each of its rows has its own history then.
All short histories of one key are in tests/unit/hoodie/filegroup/test_one_key.py.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import environment, errors, table
from hoodie.format import properties
from hoodie.model import commits, instants, schemas, table_config
from hoodie.model import settings as write_settings
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.tables import one_key

FLAG = "_hoodie_is_deleted"
KEYS = ("k1", "k2")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("at", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("op", pa.string()),
        (FLAG, pa.bool_()),
    ]
)
DELETED_BY: Mapping[str, Mapping[str, object]] = {"flag": {FLAG: True}, "marker": {"op": "D"}}
MARKER = {
    "hoodie.record.merge.property.hoodie.payload.delete.field": "op",
    "hoodie.record.merge.property.hoodie.payload.delete.marker": "D",
}
"""What a table says that Apache Hudi made for a stream of changes; ours never say it."""

PROPERTIES = ".hoodie/hoodie.properties"
NUMBERS = itertools.count()

Cells = Mapping[str, object]


INSERTS = (commits.Operation.INSERT, commits.Operation.BULK_INSERT)


@dataclass(frozen=True)
class Kind:
    """A table, and how its writer writes it.

    Attributes:
        config: The table's configuration.
        mode: The writer's.
        merges_inserts: Whether an insert into a copy-on-write table looks for its keys.
        has_flags: Whether there are columns that say that a row is deleted.
    """

    config: table_config.TableConfig
    mode: write_settings.ConcurrencyMode
    merges_inserts: bool
    has_flags: bool

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA if self.has_flags else pa.schema(list(SCHEMA)[:-2])

    @property
    def by_event_time(self) -> bool:
        return self.config.merge_mode is table_config.MergeMode.EVENT_TIME


@dataclass(frozen=True)
class Write:
    """One batch: of rows, or of deletes with or without ordering values.

    Attributes:
        rows: Of one key perhaps several.
        operation: What is done with them.
        combines: Whether an insert makes one row of those of one key.
        drops: Whether an insert leaves out rows whose keys are there; it combines, too.
    """

    rows: Sequence[Cells]
    operation: commits.Operation = commits.Operation.UPSERT
    combines: bool = False
    drops: bool = False

    def changes(self, kind: Kind) -> list[tuple[str, one_key.Change]]:
        """Return what the batch does, row by row."""
        return [(str(row["id"]), self._change(row, kind)) for row in self.rows]

    def _change(self, row: Cells, kind: Kind) -> one_key.Change:
        by_payload = kind.config.version == table_config.VERSION_WITH_PAYLOADS
        place = row.get("at") if kind.by_event_time else None
        if self.operation is commits.Operation.DELETE or _is_deleted(row, kind):
            is_ordered = not (by_payload and kind.config.has_partial_updates)
            return one_key.Remove(ordering=place if is_ordered else None)
        values = {name: row.get(name) for name in kind.schema.names}
        return one_key.Put(values=values, ordering=place)


def _is_deleted(row: Cells, kind: Kind) -> bool:
    is_marked = bool(kind.config.properties) and row.get("op") == "D"
    return kind.has_flags and (bool(row.get(FLAG)) or is_marked)


Step = Write | Literal["plan", "execute"]


@st.composite
def rows(draw: st.DrawFn, *names: str, is_unique: bool = True) -> list[Cells]:
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4, unique=is_unique))
    numbers = st.none() | st.integers(0, 9)
    found = []
    for key in keys:
        cells: dict[str, object] = {"id": key, "at": draw(st.integers(1, 6))}
        cells |= {name: draw(numbers) for name in "ab" if name in names}
        if FLAG in names:
            deleted_by = draw(st.sampled_from([None, None, *DELETED_BY]))
            cells |= {FLAG: None, "op": None}
            cells |= DELETED_BY.get(deleted_by or "", {})
        found.append({name: cells[name] for name in ("id", *names) if name in cells})
    return found


BATCHES = rows("at", "a", "b", FLAG, "op", is_unique=False)
UPSERTS = BATCHES.map(Write)
ADDED = st.builds(Write, BATCHES, st.sampled_from(INSERTS), st.booleans(), st.booleans())
DELETES = st.sampled_from([("at",), ()]).flatmap(
    lambda names: rows(*names).map(lambda found: Write(found, commits.Operation.DELETE))
)
SERVICES = st.sampled_from(["plan", "execute"])
# What the first write leaves, rows as they are above all, decides over much of what follows.
STEPS = st.tuples(
    st.one_of(ADDED, UPSERTS, DELETES),
    st.lists(st.one_of(UPSERTS, ADDED, DELETES, SERVICES, SERVICES), min_size=1, max_size=10),
).map(lambda found: [found[0], *found[1]])


FLAGGED = st.sampled_from([True, True, False])


@st.composite
def kinds(draw: st.DrawFn) -> Kind:
    by_event_time = draw(st.booleans())
    table_type = draw(st.sampled_from(table_config.TableType))
    modes = list(write_settings.ConcurrencyMode)
    if table_type is table_config.TableType.COPY_ON_WRITE:
        modes.remove(write_settings.ConcurrencyMode.NON_BLOCKING)
    merging = table_config.MergeMode
    config = table_config.TableConfig(
        name="one_key",
        table_type=table_type,
        record_key_fields=("id",),
        ordering_fields=("at",) if by_event_time else (),
        merge_mode=merging.EVENT_TIME if by_event_time else merging.COMMIT_TIME,
        has_partial_updates=draw(st.booleans()),
        bucket_count=1,
        version=draw(st.sampled_from([8, 9])),
        properties=draw(st.sampled_from([{}, MARKER])),
    )
    return Kind(config, draw(st.sampled_from(modes)), draw(st.booleans()), draw(FLAGGED))


@settings(max_examples=100, deadline=None)
@given(kinds(), STEPS)
def test_content_is_the_history_of_each_key(kind: Kind, steps: Sequence[Step]) -> None:
    there = Table(kind)
    model = Model(kind)
    for step in steps:
        if isinstance(step, Write) and model.refuses(step):
            with pytest.raises(errors.UnsupportedError, match="an empty bucket"):
                there.take(step)
        else:
            is_done = there.take(step)
            model.take(step, is_done=is_done)
        assert there.content() == model.content(), step


class Model:
    """What the table has to hold: of a key one row, or several that inserts have added.

    Of several rows of a key a merge changes the first alone, and deletes it alone, as that of
    Apache Hudi does. So it matters for these what is merged at once: a write of a copy-on-write
    table, the log of another up to a compaction.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._base: dict[str, tuple[one_key.State, ...]] = {}
        self._log: dict[str, list[one_key.Change]] = {}
        self._planned: dict[str, int] = {}
        self._has_files = False

    def refuses(self, write: Write) -> bool:
        """Return whether it is a bulk insert into a base file, whatever of it would be left."""
        is_bulk = write.operation is commits.Operation.BULK_INSERT
        return self._kind.config.is_copy_on_write and is_bulk and self._has_files

    def take(self, step: Step, *, is_done: bool) -> None:
        """Follow a step; a plan or execution that was done."""
        match step:
            case Write():
                self._write(step)
            case "plan" if is_done:
                self._planned = {key: len(changes) for key, changes in self._log.items()}
            case "execute" if is_done:
                for key, count in self._planned.items():
                    self._base[key] = self._merged(key, self._log[key][:count])
                    del self._log[key][:count]

    def content(self) -> list[Cells]:
        keys = {**self._base, **self._log}
        return _sorted(values for key in keys for values in self._values(key))

    def _values(self, key: str) -> list[Cells]:
        found = self._merged(key, self._log.get(key, []))
        return [each.values for each in found if each.values is not None]

    def _merged(self, key: str, changes: Iterable[one_key.Change]) -> tuple[one_key.State, ...]:
        first, *others = self._base.get(key) or (one_key.NOTHING,)
        fills = self._kind.config.has_partial_updates
        first = one_key.after_all(changes, fills_nulls=fills, state=first)
        return (first, *others) if first.values is not None or not others else tuple(others)

    def _write(self, write: Write) -> None:
        taken: dict[str, list[one_key.Change]] = {}
        drops = write.drops and write.operation in INSERTS
        for key, change in write.changes(self._kind):
            if not (drops and self._values(key)):
                taken.setdefault(key, []).append(change)
        is_delete = write.operation is commits.Operation.DELETE
        adds_rows = self._adds_rows(write, taken)
        for key, changes in taken.items():
            if adds_rows:
                self._add(key, changes, combines=write.combines or write.drops)
            elif self._kind.config.is_copy_on_write:
                # Nothing is left that would know of a delete.
                rows_left = [each for each in self._merged(key, changes) if each.values is not None]
                self._base[key] = tuple(rows_left)
            else:
                self._log.setdefault(key, []).extend(changes)
        writes_files = bool(taken) and not (self._kind.config.is_copy_on_write and is_delete)
        self._has_files = self._has_files or writes_files

    def _adds_rows(self, write: Write, taken: Mapping[str, Sequence[one_key.Change]]) -> bool:
        """Return whether the rows are added as they are, whatever the table holds of their keys."""
        is_bulk = write.operation is commits.Operation.BULK_INSERT
        if self._kind.config.is_copy_on_write:
            is_insert = write.operation is commits.Operation.INSERT
            return is_bulk or (is_insert and not self._kind.merges_inserts)
        has_deletes = any(
            isinstance(each, one_key.Remove) for changes in taken.values() for each in changes
        )
        return is_bulk and not self._has_files and not (self._kind.by_event_time and has_deletes)

    def _add(self, key: str, changes: Sequence[one_key.Change], *, combines: bool) -> None:
        fills = self._kind.config.has_partial_updates
        groups = [changes] if combines else [[each] for each in changes]
        added = (one_key.after_all(group, fills_nulls=fills) for group in groups)
        kept = [*self._base.get(key, ()), *added]
        self._base[key] = tuple(each for each in kept if each.values is not None)


def _sorted(found: Iterable[Cells]) -> list[Cells]:
    return sorted((dict(each) for each in found), key=lambda row: str(list(row.items())))


class Table:
    """A table that one writer writes."""

    def __init__(self, kind: Kind) -> None:
        config = kind.config
        schema = schemas.from_arrow(kind.schema, config.name)
        uri = f"memory://one_key{next(NUMBERS)}/t"
        env = environment.system(parallelism=1)
        made = table.create_table(uri, config, schema, env)
        storage = env.open_storage(uri)
        stated = properties.decode(storage.read(PROPERTIES)) | dict(config.properties)
        storage.replace(
            PROPERTIES, properties.encode(stated), if_match=storage.stat(PROPERTIES).version
        )
        self._opened = table.open_table(made.uri, env)
        self._schema = kind.schema
        self._planned: instants.InstantTime | None = None
        self._transaction = manager.TransactionOptions(
            settings=write_settings.WriteSettings(
                concurrency=kind.mode, clock_wait_ms=0, merges_inserts=kind.merges_inserts
            ),
            lock=address_texts.parse("in-process"),
            author=authors.Author(writer_id="w"),
        )

    def take(self, step: Step) -> bool:
        """Do a step; return whether there was anything to do."""
        match step:
            case Write():
                names = {name for row in step.rows for name in row}
                columns = pa.schema([each for each in self._schema if each.name in names])
                data = pa.Table.from_pylist([dict(row) for row in step.rows], columns)
                chosen = replace(
                    self._transaction.settings,
                    combines_inserts=step.combines,
                    drops_duplicates=step.drops,
                )
                transaction = replace(self._transaction, settings=chosen)
                options = sessions.WriteOptions(operation=step.operation, transaction=transaction)
                self._opened.write(data, options)
                return True
            case _ if self._opened.config.is_copy_on_write:
                return False
            case "plan" if self._planned is None:
                self._planned = self._opened.schedule_compaction(self._transaction)
                return self._planned is not None
            case "execute" if self._planned is not None:
                self._opened.compact(self._planned, self._transaction)
                self._planned = None
                return True
        return False

    def content(self) -> list[Cells]:
        return _sorted(self._opened.read().read_all().to_pylist())
