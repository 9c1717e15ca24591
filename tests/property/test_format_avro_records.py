"""Avro data blocks of any columns and rows, against fastavro in both directions."""

import contextlib
import io
import json
import struct
from typing import Any, TypeAlias

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import avro_records

Json: TypeAlias = Any
"""A schema or row as fastavro takes it."""

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=80),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
}
RECORD = "record"
DEPTH_MAX = 3


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Json, list[Json]]:
    """Draw a schema and rows of it."""
    schema, rows = draw(records("t_record"))
    return {"namespace": "hoodie.t", **schema}, draw(st.lists(rows, max_size=12))


@st.composite
def records(draw: st.DrawFn, name: str) -> tuple[Json, st.SearchStrategy[Json]]:
    """Draw a record schema, in which there may be others, and say how its values are drawn."""
    kinds = [*VALUES, *([RECORD] if name.count("_") < DEPTH_MAX else [])]
    fields, strategies = [], {}
    for position, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=6))):
        type_: Json = kind
        if kind == RECORD:
            type_, values = draw(records(f"{name}_{position}"))
        else:
            values = VALUES[kind]
        union = draw(st.sampled_from([type_, ["null", type_], [type_, "null"], [type_]]))
        fields.append({"name": f"c{position}", "type": union})
        is_nullable = isinstance(union, list) and "null" in union
        strategies[f"c{position}"] = st.none() | values if is_nullable else values
    return {"type": RECORD, "name": name, "fields": fields}, st.fixed_dictionaries(strategies)


def by_fastavro(schema: Json, rows: list[Json]) -> bytes:
    parsed = fastavro.parse_schema(schema)
    content = struct.pack(">ii", 3, len(rows))
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        content += struct.pack(">i", len(stream.getvalue())) + stream.getvalue()
    return content


@settings(deadline=None)  # The machine is shared.
@given(blocks())
def test_rows_are_written_and_read_as_fastavro_does(block: tuple[Json, list[Json]]) -> None:
    schema, rows = block
    expected = by_fastavro(schema, rows)
    table = avro_records.decode(pa.py_buffer(expected), json.dumps(schema))
    table.validate(full=True)
    if schema["fields"]:
        assert table.to_pylist() == rows
        assert avro_records.encode(table, json.dumps(schema)) == expected


@settings(deadline=None)  # The machine is shared.
@given(blocks(), st.sets(st.integers(0, 5)))
def test_chosen_columns_are_those_of_all(block: tuple[Json, list[Json]], chosen: set[int]) -> None:
    schema, rows = block
    content = pa.py_buffer(by_fastavro(schema, rows))
    everything = avro_records.decode(content, json.dumps(schema))
    names = [f"c{position}" for position in sorted(chosen) if position < len(schema["fields"])]
    some = avro_records.decode(content, json.dumps(schema), names)
    assert some.column_names == names
    assert all(some.column(name) == everything.column(name) for name in names)


@settings(deadline=None, max_examples=300)  # The machine is shared.
@given(blocks(), st.data())
def test_broken_block_is_rows_or_a_format_error(
    block: tuple[Json, list[Json]], data: st.DataObject
) -> None:
    schema, rows = block
    content = by_fastavro(schema, rows)
    at = data.draw(st.integers(0, len(content) - 1))
    change = data.draw(st.binary(min_size=1, max_size=11))
    broken = content[:at] + change + content[at + data.draw(st.integers(0, 11)) :]
    with contextlib.suppress(errors.FormatError, errors.UnsupportedError):
        avro_records.decode(pa.py_buffer(broken), json.dumps(schema)).validate(full=True)


@st.composite
def several(draw: st.DrawFn) -> tuple[Json, list[list[Json]]]:
    """Draw a schema, and rows of it for each of some blocks."""
    schema, rows = draw(records("t_record"))
    of_blocks = st.lists(st.lists(rows, max_size=4), min_size=1, max_size=5)
    return {"namespace": "hoodie.t", **schema}, draw(of_blocks)


@settings(deadline=None)  # The machine is shared.
@given(several(), st.sets(st.integers(0, 5)))
def test_blocks_together_have_the_rows_of_each(
    found: tuple[Json, list[list[Json]]], chosen: set[int]
) -> None:
    schema, of_blocks = found
    names = [f"c{position}" for position in sorted(chosen) if position < len(schema["fields"])]
    contents = [pa.py_buffer(by_fastavro(schema, rows)) for rows in of_blocks]
    for wanted in (None, names):
        each = [avro_records.decode(content, json.dumps(schema), wanted) for content in contents]
        table, counts = avro_records.decode_together(contents, json.dumps(schema), wanted)
        table.validate(full=True)
        assert table.equals(pa.concat_tables(each).combine_chunks())
        assert counts == [len(rows) for rows in of_blocks]


@settings(deadline=None, max_examples=300)  # The machine is shared.
@given(several(), st.data())
def test_blocks_together_are_broken_where_one_is(
    found: tuple[Json, list[list[Json]]], data: st.DataObject
) -> None:
    """Not even records that a neighbour lacks make up for those that one has too many."""
    schema, of_blocks = found
    contents = [by_fastavro(schema, rows) for rows in of_blocks]
    for place in data.draw(st.sets(st.integers(0, len(contents) - 1), min_size=1)):
        content = contents[place]
        at = data.draw(st.integers(0, len(content) - 1))
        change = data.draw(st.binary(min_size=1, max_size=5))
        contents[place] = content[:at] + change + content[at + data.draw(st.integers(0, 5)) :]
    buffers = [pa.py_buffer(content) for content in contents]
    try:
        each = [avro_records.decode(content, json.dumps(schema)) for content in buffers]
    except (errors.FormatError, errors.UnsupportedError):
        with pytest.raises((errors.FormatError, errors.UnsupportedError)):
            avro_records.decode_together(buffers, json.dumps(schema))
    else:
        table, counts = avro_records.decode_together(buffers, json.dumps(schema))
        table.validate(full=True)
        # Numbers that are none equal no others, but look like them.
        assert repr(table.to_pylist()) == repr(pa.concat_tables(each).to_pylist())
        assert not schema["fields"] or counts == [one.num_rows for one in each]
