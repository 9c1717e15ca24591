"""Merging against a dumb oracle: one record at a time, in dictionaries.

How the oracle merges two records is `BufferedRecordMergerFactory`, `PartialUpdateHandler` and
`SparkRecordMergingUtils` of 1.2.0 written down in Python, method by method. Where Hudi fails with a
ClassCastException, because ordering values of two classes meet outside of a delete block, the later
record wins here.

It differs from Apache Hudi in two points, so that content does not depend on when compaction runs
(tests/unit/hoodie/filegroup/test_one_key.py): changes are applied to the base row in their order,
not to each other first; and a delete with an ordering value replaces one without.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.filegroup import changes, folding, merging, rewriting, writing
from hoodie.format import file_names
from hoodie.model import files, instants, schemas, table_config
from hoodie.model import settings as write_settings
from hoodie.storage import memory

Value = int | float | str | None

KEYS = ("k0", "k1", "é")
ORDERINGS: dict[str, tuple[pa.DataType, ...]] = {
    "none": (),
    "long": (pa.int64(),),
    "integer": (pa.int32(),),
    "double": (pa.float64(),),
    "string": (pa.string(),),
    "several": (pa.int64(), pa.string()),
}
VALUES: dict[pa.DataType, st.SearchStrategy[Value]] = {
    pa.int64(): st.integers(-1, 3),
    pa.int32(): st.integers(-1, 2),
    pa.float64(): st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]),
    pa.string(): st.sampled_from(["", "a", "b", "é", "\U0001f600"]),
}


@dataclass(frozen=True)
class Setting:
    """A table."""

    ordering: str
    fills_nulls: bool

    @property
    def ordering_types(self) -> tuple[pa.DataType, ...]:
        return ORDERINGS[self.ordering]

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        return tuple(f"o{number}" for number in range(len(self.ordering_types)))

    @property
    def schema(self) -> pa.Schema:
        ordering = zip(self.ordering_fields, self.ordering_types, strict=True)
        return pa.schema(
            [
                (schemas.RECORD_KEY, pa.string()),
                *ordering,
                ("a", pa.int64()),
                ("b", pa.string()),
                ("c", pa.bool_()),
            ]
        )


@dataclass(frozen=True)
class Row:
    """A row of a data block or base file: a value for every column it carries."""

    key: str
    values: dict[str, Value]
    is_deleted: bool = False


@dataclass(frozen=True)
class Delete:
    """An entry of a delete block; `ordering` is None for the default, a text for another class."""

    key: str
    ordering: tuple[Value, ...] | str | None


@dataclass(frozen=True)
class Block:
    """A log block."""

    changes: tuple[Row, ...] | tuple[Delete, ...]
    columns: frozenset[str]
    is_partial: bool = False
    is_deletes: bool = False


@dataclass(frozen=True)
class History:
    """A slice."""

    setting: Setting
    base: tuple[Row, ...]
    blocks: tuple[Block, ...]
    pieces: int = 1


# The oracle ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """A `BufferedRecord`."""

    key: str
    ordering: tuple[str, tuple[object, ...]]  # class, comparable value
    columns: dict[str, Value] = field(default_factory=dict)
    is_delete: bool = False

    @property
    def is_commit_time_delete(self) -> bool:
        return self.is_delete and self.ordering == DEFAULT


DEFAULT: tuple[str, tuple[object, ...]] = ("Integer", (0,))


@dataclass(frozen=True)
class Event:
    """A change, and whether a block up to its own was partial (enablePartialMerging)."""

    change: Row | Delete
    keeps_values: bool


class Oracle:
    """A `KeyBasedFileGroupRecordBuffer`, whose first records are those of the base file."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.events: dict[str, list[Event]] = {}
        self.keeps_values = False

    def add(self, block: Block) -> None:
        self.keeps_values = self.keeps_values or block.is_partial
        # Whole rows are read in the reader's schema, partial ones in their own.
        absent = {} if block.is_partial else dict.fromkeys(self.setting.schema.names)
        for each in block.changes:
            change = each
            if isinstance(change, Row):
                change = replace(change, values={**absent, **change.values})
            self.events.setdefault(change.key, []).append(Event(change, self.keeps_values))

    def read(self, base: Sequence[Row]) -> list[dict[str, Value]]:
        rest = dict(self.events)
        found = [
            self.merged(self.record_of(replace(row, is_deleted=False)), rest.pop(row.key, []))
            for row in base
        ]
        found += [self.merged(None, events) for events in rest.values()]
        names = self.setting.schema.names
        return [
            {name: each.columns.get(name) for name in names}
            for each in found
            if each is not None and not each.is_delete
        ]

    def merged(self, existing: Record | None, events: Sequence[Event]) -> Record | None:
        for event in events:
            match event.change:
                case Row():
                    new = self.record_of(event.change)
                    known = existing
                    existing = new if known is None else self.pair(known, new, event.keeps_values)
                case Delete():
                    existing = self.merge_delete(self.delete_of(event.change), existing)
        return existing

    def record_of(self, row: Row) -> Record:
        columns = {**row.values, schemas.RECORD_KEY: row.key}
        return Record(row.key, self.ordering_of(row), columns, row.is_deleted)

    def delete_of(self, delete: Delete) -> Record:
        match delete.ordering:
            case None:
                value = DEFAULT
            case str(text):
                value = ("Foreign", (text,))
            case values:
                value = self.ordering_value(values)
        return Record(delete.key, value, {}, is_delete=True)

    def ordering_of(self, row: Row) -> tuple[str, tuple[object, ...]]:
        if not self.setting.ordering_fields:
            return DEFAULT
        return self.ordering_value([row.values.get(name) for name in self.setting.ordering_fields])

    def ordering_value(self, values: Sequence[Value]) -> tuple[str, tuple[object, ...]]:
        types = self.setting.ordering_types
        if len(types) == 1 and (values[0] is None or types[0] == pa.int32()):
            # A null stands for the default; where nothing is deleted it is below all others.
            if types[0] == pa.int32() or values[0] is not None:
                return ("Integer", (values[0] or 0,))
            return DEFAULT
        return ("Values", tuple(comparable(value) for value in values))

    def merge_delete(self, delete: Record, existing: Record | None) -> Record:
        """`deltaMergeDeleteRecord`, or the newer one by commit time."""
        if existing is None or not self.setting.ordering_fields:
            return delete
        is_obsolete = (
            delete.ordering != DEFAULT
            and existing.ordering[0] == delete.ordering[0]
            and existing.ordering[1] > delete.ordering[1]
            and not existing.is_commit_time_delete
        )
        return existing if is_obsolete else delete

    def pair(self, older: Record, newer: Record, keeps_values: bool) -> Record:
        """`deltaMerge`."""
        newer_wins = self.should_keep_newer(older, newer)
        winner, loser = (newer, older) if newer_wins else (older, newer)
        if winner.is_delete or loser.is_delete:
            return winner
        if keeps_values:
            return replace(winner, columns={**loser.columns, **winner.columns})
        if self.setting.fills_nulls:
            names = {*loser.columns, *winner.columns}
            columns = {
                name: loser.columns.get(name)
                if winner.columns.get(name) is None
                else winner.columns[name]
                for name in names
            }
            return replace(winner, columns=columns)
        return winner

    def should_keep_newer(self, older: Record, newer: Record) -> bool:
        if not self.setting.ordering_fields:
            return True
        if newer.is_commit_time_delete or older.is_commit_time_delete:
            return True
        if "Foreign" in (older.ordering[0], newer.ordering[0]):
            return True
        if older.ordering[0] != newer.ordering[0]:  # A null, which is below all others.
            return older.ordering == DEFAULT
        return newer.ordering[1] >= older.ordering[1]


def comparable(value: Value) -> object:
    match value:
        case None:
            return (0,)
        case float():
            bits = struct.unpack(">q", struct.pack(">d", value))[0]
            order = bits if bits >= 0 else bits ^ (2**63 - 1)
            return (1, 2**63 - 1 if math.isnan(value) else order)
        case str():
            return (1, value.encode())
        case _:
            return (1, value)


# The thing itself -------------------------------------------------------------------------------


def merged(history: History) -> list[dict[str, Value]]:
    setting = history.setting
    rules = folding.Rules(ordering_fields=setting.ordering_fields, fills_nulls=setting.fills_nulls)
    merge = merging.SliceMerge(
        [change_of(block, setting) for block in history.blocks],
        rules,
        setting.schema,
        setting.schema.names,
    )
    base = table_of(history.base, setting)
    size = max(1, -(-base.num_rows // history.pieces))
    parts = [merge.over(base.slice(at, size)) for at in range(0, base.num_rows, size)]
    result = pa.concat_tables([*parts, merge.inserts()])
    assert result.schema == setting.schema
    result.validate(full=True)
    rows: list[dict[str, Value]] = result.to_pylist()
    return rows


def table_of(rows: Sequence[Row], setting: Setting) -> pa.Table:
    values = [{schemas.RECORD_KEY: row.key, **row.values} for row in rows]
    return pa.Table.from_pylist(values, setting.schema)


def change_of(block: Block, setting: Setting) -> changes.Change:
    keys = pa.chunked_array([[change.key for change in block.changes]], pa.string())
    if not block.is_deletes:
        rows = [row for row in block.changes if isinstance(row, Row)]
        flags = np.array([row.is_deleted for row in rows], np.bool_)
        return changes.ChangedRows(
            keys=keys,
            rows=table_of(rows, setting),
            partial_columns=block.columns if block.is_partial else None,
            is_deleted=flags if flags.any() else None,
        )
    orderings = [each.ordering for each in block.changes if isinstance(each, Delete)]
    values = [each if isinstance(each, tuple) else None for each in orderings]
    columns = tuple(
        pa.chunked_array([[each[number] if each else None for each in values]], kind)
        for number, kind in enumerate(setting.ordering_types)
    )
    is_integer = setting.ordering_types == (pa.int32(),)
    return changes.DeletedKeys(
        keys=keys,
        ordering=columns if any(values) else None,
        is_default=np.array(
            [each is None or (is_integer and each == (0,)) for each in orderings], np.bool_
        ),
        is_foreign=np.array([isinstance(each, str) for each in orderings], np.bool_),
    )


# Copy-on-write ---------------------------------------------------------------------------------

FLAG = "_hoodie_is_deleted"


def rewritten(history: History) -> tuple[list[dict[str, Value]], list[dict[str, Value]]]:
    """Return a group whose every block was a write of its own, and what the oracle makes of it."""
    setting = history.setting
    config, schema = table_of_copy_on_write(setting)
    storage = memory.MemoryStorage()
    rows, base_file = history.base, None
    for number, block in enumerate((Block(rows, frozenset()), *history.blocks)):
        target = writing.FileTarget(
            storage=storage,
            group=files.FileGroupId("", "00000000-0000-0000-0000-000000000000-0"),
            instant_time=instants.format_time(number),
            write_token="0-0-0",
            before_file=lambda _: None,
        )
        batch = replace(batch_of(block, setting, schema), is_insert=number == 0)
        stat = rewriting.rewrite(
            target, base_file, [[batch]], config, schema, write_settings.WriteSettings()
        )
        found = file_names.parse(stat.path, stat.size_bytes)
        assert isinstance(found, files.BaseFile)
        base_file = found
        if number:
            oracle = Oracle(setting)
            oracle.add(block)
            rows = tuple(Row(str(each.pop(schemas.RECORD_KEY)), each) for each in oracle.read(rows))
    assert base_file is not None
    content = pq.read_table(storage.open_input(base_file.path)).select(setting.schema.names)
    return content.to_pylist(), [{schemas.RECORD_KEY: row.key, **row.values} for row in rows]


def table_of_copy_on_write(
    setting: Setting,
) -> tuple[table_config.TableConfig, schemas.TableSchema]:
    own = [field for field in setting.schema if field.name != schemas.RECORD_KEY]
    mode = table_config.MergeMode
    config = table_config.TableConfig(
        name="t",
        table_type=table_config.TableType.COPY_ON_WRITE,
        record_key_fields=("a",),
        ordering_fields=setting.ordering_fields,
        merge_mode=mode.EVENT_TIME if setting.ordering_fields else mode.COMMIT_TIME,
        has_partial_updates=setting.fills_nulls,
    )
    return config, schemas.from_arrow(pa.schema([*own, (FLAG, pa.bool_())]), "t")


def batch_of(block: Block, setting: Setting, schema: schemas.TableSchema) -> writing.LogRows:
    """Return a block as a batch; its deletes all have an ordering value, or none has."""
    keys = pa.array([change.key for change in block.changes], pa.string())
    if not block.is_deletes:
        rows = [row for row in block.changes if isinstance(row, Row)]
        values = [{**row.values, FLAG: row.is_deleted} for row in rows]
        return writing.LogRows(
            data=pa.Table.from_pylist(values, schema.arrow).combine_chunks(), record_keys=keys
        )
    orderings = [each.ordering for each in block.changes if isinstance(each, Delete)]
    columns = None
    if orderings and isinstance(orderings[0], tuple):
        columns = tuple(
            pa.array([each[number] for each in orderings if isinstance(each, tuple)], kind)
            for number, kind in enumerate(setting.ordering_types)
        )
    return writing.LogRows(
        data=schema.arrow.empty_table(),
        record_keys=keys.slice(0, 0),
        deleted_keys=keys,
        deleted_ordering=columns,
    )


# Histories --------------------------------------------------------------------------------------


def plain(rows: Sequence[dict[str, Value]]) -> list[dict[str, Value]]:
    """Make NaN equal itself and -0.0 differ from 0.0."""
    return [
        {name: repr(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]


def row_values(
    draw: st.DrawFn, setting: Setting, columns: frozenset[str], nulls: bool
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, kind in zip(setting.ordering_fields, setting.ordering_types, strict=True):
        if name in columns:
            strategy = VALUES[kind]
            values[name] = draw(st.one_of(st.none(), strategy) if nulls else strategy)
    for name, strategy in (("a", st.integers(0, 99)), ("b", VALUES[pa.string()])):
        if name in columns:
            values[name] = draw(st.one_of(st.none(), strategy))
    if "c" in columns:
        values["c"] = draw(st.one_of(st.none(), st.booleans()))
    return values


@st.composite
def histories(draw: st.DrawFn, *, fills_nulls: bool, has_partial_blocks: bool) -> History:
    setting = Setting(draw(st.sampled_from(sorted(ORDERINGS))), fills_nulls)
    everything = frozenset(setting.schema.names)
    nulls = draw(st.booleans())
    base = tuple(
        Row(key, row_values(draw, setting, everything, nulls))
        for key in draw(st.lists(st.sampled_from(KEYS), max_size=6))
    )
    blocks = []
    for _ in range(draw(st.integers(0, 6))):
        keys = draw(st.lists(st.sampled_from(KEYS), max_size=6))
        if draw(st.integers(0, 3)) == 0:
            blocks.append(
                Block(
                    tuple(Delete(key, draw(delete_orderings(setting))) for key in keys),
                    frozenset(),
                    is_deletes=True,
                )
            )
            continue
        is_partial = has_partial_blocks and draw(st.booleans())
        columns = everything
        if is_partial or draw(st.integers(0, 4)) == 0:
            columns = draw(st.sets(st.sampled_from(["a", "b", "c"]))) | frozenset(
                (schemas.RECORD_KEY, *setting.ordering_fields)
            )
        rows = tuple(
            Row(
                key,
                row_values(draw, setting, frozenset(columns), nulls),
                draw(st.integers(0, 5)) == 0,
            )
            for key in keys
        )
        blocks.append(Block(rows, frozenset(columns), is_partial))
    return History(setting, base, tuple(blocks), draw(st.integers(1, 4)))


def delete_orderings(setting: Setting) -> st.SearchStrategy[tuple[Value, ...] | str | None]:
    kinds: list[st.SearchStrategy[tuple[Value, ...] | str | None]] = [st.none()]
    if setting.ordering_fields:
        kinds.append(st.sampled_from(["x", "y"]))
        real = st.tuples(*(VALUES[kind] for kind in setting.ordering_types))
        kinds += [real, real]
    return st.one_of(kinds)


def with_like_deletes(history: History) -> History:
    """Return a history whose delete blocks carry an ordering value for each key, or for none."""

    def alike(block: Block) -> Block:
        deletes = [each for each in block.changes if isinstance(each, Delete)]
        if not block.is_deletes or not deletes:
            return block
        first = deletes[0].ordering
        has_values = isinstance(first, tuple)
        changed = tuple(
            replace(each, ordering=each.ordering if isinstance(each.ordering, tuple) else first)
            if has_values
            else replace(each, ordering=None)
            for each in deletes
        )
        return replace(block, changes=changed)

    return replace(history, blocks=tuple(alike(block) for block in history.blocks))


def check(history: History) -> None:
    oracle = Oracle(history.setting)
    for block in history.blocks:
        oracle.add(block)
    assert plain(merged(history)) == plain(oracle.read(history.base))


@settings(max_examples=200, deadline=None)
@given(st.booleans().flatmap(lambda fills: histories(fills_nulls=fills, has_partial_blocks=False)))
def test_copy_on_write_merges_each_write_as_the_oracle_does(history: History) -> None:
    content, expected = rewritten(with_like_deletes(history))
    assert plain(content) == plain(expected)


@settings(max_examples=200, deadline=None)
@given(histories(fills_nulls=False, has_partial_blocks=False))
def test_whole_rows_are_merged_as_the_oracle_does(history: History) -> None:
    check(history)


@settings(max_examples=250, deadline=None)
@given(histories(fills_nulls=True, has_partial_blocks=False))
def test_partial_updates_are_merged_as_the_oracle_does(history: History) -> None:
    check(history)


@settings(max_examples=250, deadline=None)
@given(st.booleans().flatmap(lambda fills: histories(fills_nulls=fills, has_partial_blocks=True)))
def test_partial_blocks_are_merged_as_the_oracle_does(history: History) -> None:
    check(history)
