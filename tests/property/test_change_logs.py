"""Logs of change data that are read together hold what each of them holds, in their order."""

import contextlib
import itertools
import json
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.filegroup import change_logs
from hoodie.format import avro_records, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import avro_types, change_data, commits, schemas
from hoodie.model.change_data import LoggingMode
from hoodie.storage import memory

OLD = pa.schema([("id", pa.string()), ("a", pa.int32())])
NEW = OLD.append(pa.field("tags", pa.list_(pa.string())))
"""Columns as they were and became; texts in a list are read row by row."""

SCHEMAS = [
    change_data.record_schema(mode, schemas.from_arrow(columns, "t").avro)
    for mode in LoggingMode
    for columns in (OLD, NEW)
]
KEYS = st.text("kéy", min_size=1, max_size=9)
IMAGES = st.fixed_dictionaries(
    {"id": KEYS, "a": st.none() | st.integers(0, 300), "tags": st.lists(KEYS, max_size=2)}
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from("iud"),
            "ts_ms": st.just("20260101000000000"),
            "record_key": KEYS,
            "before": st.none() | IMAGES,
            "after": st.none() | IMAGES,
        }
    ),
    max_size=4,
)
LOGS = st.lists(
    st.lists(st.tuples(st.sampled_from(SCHEMAS), ROWS), min_size=1, max_size=3), max_size=6
)
Rows = list[dict[str, object]]
Logs = list[list[tuple[str, Rows]]]
BOUNDS = st.sampled_from([1, 40, 200, 1 << 20])


def encoded(rows: Rows, schema: str) -> bytes:
    arrow = pa.schema([column.arrow for column in avro_types.columns(schema)])
    content = avro_records.encode(pa.Table.from_pylist(rows, arrow), schema)
    parts = log_blocks.encode(BlockType.CDC_DATA, {HeaderKey.SCHEMA: schema}, content)
    return b"".join(map(bytes, parts))


def shown(rows: Rows, schema: str) -> Rows:
    """Return what is read of rows: without columns that the schema lacks, and without times."""
    arrow = pa.schema([column.arrow for column in avro_types.columns(schema)])
    table = pa.Table.from_pylist(rows, arrow)
    return table.drop_columns([n for n in ("ts_ms",) if n in table.column_names]).to_pylist()


def stored(logs: Logs) -> tuple[memory.MemoryStorage, list[commits.ChangeDataLog]]:
    storage, found = memory.MemoryStorage(), []
    for place, blocks in enumerate(logs):
        content = b"".join(encoded(rows, schema) for schema, rows in blocks)
        path = f"p/log-{place}-end"
        storage.create(path, content)
        found.append(commits.ChangeDataLog(path=path, size_bytes=len(content)))
    return storage, found


@settings(deadline=None)  # The machine is shared.
@given(LOGS, BOUNDS)
def test_records_are_those_of_each_log(logs: Logs, bytes_max: int) -> None:
    storage, named = stored(logs)
    with bounded(bytes_max):
        found = list(change_logs.read(storage, named))
    rows = [row for each in found for row in each.rows.to_pylist()]
    places = [place for each in found for place in each.places.tolist()]
    expected = [
        (place, row)
        for place, blocks in enumerate(logs)
        for schema, of_block in blocks
        for row in shown(of_block, schema)
    ]
    assert list(zip(places, rows, strict=True)) == expected
    if bytes_max == 1:
        assert len(found) == sum(map(len, logs))


@settings(deadline=None)  # The machine is shared.
@given(LOGS.filter(bool), BOUNDS, st.data())
def test_errors_name_the_broken_log(logs: Logs, bytes_max: int, data: st.DataObject) -> None:
    storage, named = stored(logs)
    broken = data.draw(st.sampled_from(named))
    content = storage.read(broken.path)
    at = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.binary(min_size=1, max_size=3))
    storage.delete(broken.path)
    storage.create(broken.path, content[:at] + change + content[at + len(change) :])
    found = None
    with (
        bounded(bytes_max),
        contextlib.suppress(errors.FormatError, errors.UnsupportedError),
    ):
        found = list(change_logs.read(storage, named))
    if found is None:
        with bounded(bytes_max), pytest.raises(errors.HoodieError, match=f"^{broken.path}: "):
            list(change_logs.read(storage, named))


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_items_together_are_small_but_for_single_ones(sizes: list[int], bytes_max: int) -> None:
    with bounded(bytes_max):
        found = list(change_logs.together(sizes, lambda size: size))
    assert [size for some in found for size in some] == sizes
    counted = [[max(size, 1) for size in some] for some in found]
    assert all(len(some) == 1 or sum(some) <= bytes_max for some in counted)
    for some, following in itertools.pairwise(counted):
        assert sum(some) + following[0] > bytes_max


def bounded(bytes_max: int) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.object(change_logs, "_TOGETHER_BYTES_MAX", bytes_max))
    stack.enter_context(mock.patch.object(change_logs, "_ITEM_BYTES_MIN", 1))
    return stack


def test_other_records_are_refused() -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]})
    storage, named = stored([[(SCHEMAS[0], [])], [(schema, [{"x": 1}])]])
    with pytest.raises(errors.FormatError, match=r"p/log-1-end: it has the columns \[\]"):
        list(change_logs.read(storage, named))
