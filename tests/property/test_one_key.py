"""What a table holds of a key is its history, one change after the other, read after every step.

Upserts, rows that say they are deleted, and deletes with and without ordering values go through the
library's own writes, one after the other; compactions are planned and executed anywhere among them.
All short histories of one key are in tests/unit/hoodie/filegroup/test_one_key.py.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import environment, table
from hoodie.format import properties
from hoodie.model import commits, instants, schemas, table_config
from hoodie.model import settings as write_settings
from hoodie.transaction import authors
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support import one_key

FLAG = "_hoodie_is_deleted"
KEYS = ("k1", "k2", "k3", "k4")
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


@dataclass(frozen=True)
class Write:
    """One batch: an upsert, or a delete with or without ordering values."""

    rows: Sequence[Cells]
    operation: commits.Operation = commits.Operation.UPSERT

    def change(self, row: Cells, config: table_config.TableConfig) -> one_key.Change:
        by_event_time = config.merge_mode is table_config.MergeMode.EVENT_TIME
        by_payload = config.version == table_config.VERSION_WITH_PAYLOADS
        place = row.get("at") if by_event_time else None
        if (
            self.operation is commits.Operation.DELETE
            or row.get(FLAG)
            or (config.properties and row.get("op") == "D")
        ):
            is_ordered = not (by_payload and config.has_partial_updates)
            return one_key.Remove(ordering=place if is_ordered else None)
        return one_key.Put(values={**dict.fromkeys(SCHEMA.names), **row}, ordering=place)


Step = Write | Literal["plan", "execute"]


@st.composite
def rows(draw: st.DrawFn, *names: str) -> list[Cells]:
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True))
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


UPSERTS = rows("at", "a", "b", FLAG, "op").map(Write)
DELETES = st.sampled_from([("at",), ()]).flatmap(
    lambda names: rows(*names).map(lambda found: Write(found, commits.Operation.DELETE))
)
STEPS = st.lists(
    st.one_of(UPSERTS, UPSERTS, DELETES, st.sampled_from(["plan", "execute"])),
    min_size=2,
    max_size=12,
)


@st.composite
def configs(draw: st.DrawFn) -> table_config.TableConfig:
    by_event_time = draw(st.booleans())
    modes, types = table_config.MergeMode, table_config.TableType
    return table_config.TableConfig(
        name="one_key",
        table_type=draw(st.sampled_from([types.MERGE_ON_READ] * 3 + [types.COPY_ON_WRITE])),
        record_key_fields=("id",),
        ordering_fields=("at",) if by_event_time else (),
        merge_mode=modes.EVENT_TIME if by_event_time else modes.COMMIT_TIME,
        has_partial_updates=draw(st.booleans()),
        bucket_count=1,
        version=draw(st.sampled_from([8, 9])),
        properties=draw(st.sampled_from([{}, MARKER])),
    )


@settings(max_examples=60, deadline=None)
@given(configs(), STEPS)
def test_content_is_the_history_of_each_key(
    config: table_config.TableConfig, steps: Sequence[Step]
) -> None:
    there = Table(config)
    states = dict.fromkeys(KEYS, one_key.NOTHING)
    for step in steps:
        if isinstance(step, Write):
            for row in step.rows:
                key = str(row["id"])
                change = step.change(row, config)
                fills = config.has_partial_updates
                states[key] = one_key.after(states[key], change, fills_nulls=fills)
                if config.is_copy_on_write and states[key].values is None:
                    # Nothing is left that would know of the delete.
                    states[key] = one_key.NOTHING
        there.take(step)
        right = {key: dict(each.values) for key, each in states.items() if each.values is not None}
        assert there.content() == right, step


class Table:
    """A table that one writer writes."""

    def __init__(self, config: table_config.TableConfig) -> None:
        schema = schemas.from_arrow(SCHEMA, config.name)
        uri = f"memory://one_key{next(NUMBERS)}/t"
        outside = environment.system(parallelism=1)
        made = table.create_table(uri, config, schema, outside)
        storage = outside.open_storage(uri)
        stated = properties.decode(storage.read(PROPERTIES)) | dict(config.properties)
        storage.replace(
            PROPERTIES, properties.encode(stated), if_match=storage.stat(PROPERTIES).version
        )
        self._opened = table.open_table(made.uri, outside)
        self._planned: instants.InstantTime | None = None
        self._transaction = sessions.TransactionOptions(
            settings=write_settings.WriteSettings(
                concurrency=write_settings.ConcurrencyMode.OPTIMISTIC, clock_wait_ms=0
            ),
            lock=address_texts.parse("in-process"),
            author=authors.Author(writer_id="w"),
        )

    def take(self, step: Step) -> None:
        match step:
            case Write():
                names = list(dict.fromkeys(name for row in step.rows for name in row))
                columns = pa.schema([SCHEMA.field(name) for name in names])
                data = pa.Table.from_pylist([dict(row) for row in step.rows], columns)
                options = sessions.WriteOptions(
                    operation=step.operation, transaction=self._transaction
                )
                self._opened.write(data, options)
            case _ if self._opened.config.is_copy_on_write:
                pass
            case "plan" if self._planned is None:
                self._planned = self._opened.schedule_compaction(self._transaction)
            case "execute" if self._planned is not None:
                self._opened.compact(self._planned, self._transaction)
                self._planned = None

    def content(self) -> dict[str, Cells]:
        return {row["id"]: row for row in self._opened.read().read_all().to_pylist()}
