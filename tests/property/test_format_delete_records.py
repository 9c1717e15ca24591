"""Delete blocks of any keys and ordering values, alike and mixed, whole and broken."""

import contextlib
import io
import struct
from typing import Any, TypeAlias

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import delete_records, delete_rows
from hoodie.model.value_wrappers import Wrapper

Json: TypeAlias = Any
"""A record as fastavro takes it."""

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SHORT_TEXTS = st.text("\x00\x02\x04\x06ap", max_size=6)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
ARRAYS: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): INTS,
    pa.int64(): LONGS,
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): TEXTS,
    pa.binary(): st.binary(max_size=10),
    pa.decimal128(30, 15): st.decimals(-(10**15) + 1, 10**15 - 1, places=15),
}


@st.composite
def ordered_keys(draw: st.DrawFn) -> tuple[pa.Array, tuple[pa.Array, ...]]:
    """Draw keys and ordering values for one field or more."""
    keys = draw(st.lists(TEXTS | SHORT_TEXTS, max_size=10))
    fields = []
    for type_ in draw(st.lists(st.sampled_from(list(ARRAYS)), min_size=1, max_size=3)):
        values = draw(st.lists(ARRAYS[type_], min_size=len(keys), max_size=len(keys)))
        fields.append(pa.array(values, type_))
    return pa.array(keys, pa.string()), tuple(fields)


@settings(deadline=None)  # The machine is shared.
@given(ordered_keys(), TEXTS | SHORT_TEXTS)
def test_deletes_are_read_as_written(
    deletes: tuple[pa.Array, tuple[pa.Array, ...]], partition_path: str
) -> None:
    keys, fields = deletes
    one = delete_records.decode(
        pa.py_buffer(delete_records.encode(keys, partition_path, fields[0]))
    )
    assert one.keys.equals(keys)
    is_int = fields[0].type == pa.int32()
    assert one.is_default.tolist() == [is_int and each == 0 for each in fields[0].to_pylist()]
    expected = [None if is_int and each == 0 else each for each in fields[0].to_pylist()]
    assert [next(iter(values.values())).to_pylist() for values in one.ordering] in ([expected], [])
    several = delete_records.decode(
        pa.py_buffer(delete_records.encode(keys, partition_path, fields))
    )
    assert several.keys.equals(keys)
    if len(keys):
        assert [list(values.values()) for values in several.ordering] == [[each] for each in fields]


WRAPPED = st.none() | st.one_of(
    [
        st.tuples(st.just(f"org.apache.hudi.avro.model.{wrapper.value}"), values)
        for wrapper, values in (
            (Wrapper.INT, INTS),
            (Wrapper.LONG, LONGS),
            (Wrapper.STRING, SHORT_TEXTS),
            (Wrapper.DATE, INTS),
            (Wrapper.TIMESTAMP_MICROS, LONGS),
        )
    ]
).map(lambda pair: (pair[0], {"value": pair[1]}))
RECORDS = st.fixed_dictionaries(
    {
        "recordKey": SHORT_TEXTS,
        "partitionPath": st.none() | st.just("p") | SHORT_TEXTS,
        "orderingVal": WRAPPED,
    }
)


def by_fastavro(records: list[Json]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, delete_rows._LIST.parsed, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(stream.getvalue())) + stream.getvalue()


def read(content: bytes) -> list[tuple[str, bool, dict[str, object]]]:
    """Return key, default and ordering values by wrapper of each delete."""
    deletes = delete_records.decode(pa.py_buffer(content))
    columns = deletes.ordering[0] if deletes.ordering else {}
    return [
        (
            deletes.keys[row].as_py(),
            bool(deletes.is_default[row]),
            {
                wrapper.value: pa.array([values[row]]).view(_stored(values.type))[0].as_py()
                for wrapper, values in columns.items()
                if values[row].is_valid
            },
        )
        for row in range(len(deletes.keys))
    ]


def _stored(type_: pa.DataType) -> pa.DataType:
    """Return the type that dates and times are stored in: Python has fewer of them."""
    if pa.types.is_date32(type_):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(type_) else type_


def _expected(record: Json) -> tuple[str, bool, dict[str, object]]:
    value = record["orderingVal"]
    name = value[0].rpartition(".")[2] if value else ""
    is_default = value is None or (name == Wrapper.INT.value and value[1]["value"] == 0)
    return record["recordKey"], is_default, {} if is_default else {name: value[1]["value"]}


@settings(deadline=None)  # The machine is shared.
@given(st.lists(RECORDS, max_size=8))
def test_mixed_records_are_read_as_fastavro_writes_them(records: list[Json]) -> None:
    assert read(by_fastavro(records)) == [_expected(record) for record in records]


@settings(deadline=None)  # The machine is shared.
@given(st.lists(RECORDS, min_size=1, max_size=8))
def test_records_that_are_alike_are_read_as_fastavro_writes_them(records: list[Json]) -> None:
    first = records[0]
    alike = [record | {"partitionPath": first["partitionPath"]} for record in records]
    kind = first["orderingVal"] and first["orderingVal"][0]
    same = [each for each in alike if (each["orderingVal"] and each["orderingVal"][0]) == kind]
    assert read(by_fastavro(same)) == [_expected(record) for record in same]


@settings(deadline=None, max_examples=300)  # The machine is shared.
@given(st.lists(RECORDS, max_size=5), st.data())
def test_broken_block_is_deletes_or_a_format_error(
    records: list[Json], data: st.DataObject
) -> None:
    datum = by_fastavro(records)[8:]
    at = data.draw(st.integers(0, len(datum) - 1))
    change = data.draw(st.binary(min_size=1, max_size=11))
    broken = datum[:at] + change + datum[at + data.draw(st.integers(0, 11)) :]
    content = struct.pack(">ii", 3, len(broken)) + broken
    with contextlib.suppress(errors.FormatError):
        deletes = delete_records.decode(pa.py_buffer(content))
        deletes.keys.validate(full=True)
