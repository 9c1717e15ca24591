"""Avro records with nested columns, as fastavro reads them."""

import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.format import avro_records
from hoodie.model import schemas

POINT = pa.struct([("x", pa.int32()), ("label", pa.string())])
TYPES: dict[str, pa.DataType] = {
    "point": POINT,
    "deep": pa.struct([("at", POINT), ("price", pa.decimal128(9, 2)), ("tags", pa.list_(POINT))]),
    "numbers": pa.list_(pa.int64()),
    "tables": pa.list_(pa.list_(pa.string())),
    "by_name": pa.map_(pa.string(), POINT),
    "lists": pa.map_(pa.string(), pa.list_(pa.float64())),
    "times": pa.list_(pa.timestamp("us", "UTC")),
    "amounts": pa.list_(pa.decimal128(20, 3)),
    "flag": pa.bool_(),
}
SCHEMA = schemas.from_arrow(pa.schema(list(TYPES.items())), "nested")


def values_of(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        found = st.fixed_dictionaries({each.name: values_of(each.type) for each in type_})
    elif pa.types.is_map(type_):
        texts = st.text(max_size=3)
        found = st.dictionaries(texts, values_of(type_.item_type), max_size=3).map(
            lambda entries: list(entries.items())
        )
    elif pa.types.is_list(type_):
        found = st.lists(values_of(type_.value_type), max_size=3)
    else:
        found = FLAT[type_]
    return st.none() | found


FLAT: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    pa.decimal128(9, 2): st.decimals(-9999999, 9999999, places=2),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3),
    pa.timestamp("us", "UTC"): st.timedeltas(timedelta(-30_000), timedelta(30_000)).map(
        lambda age: datetime(2026, 1, 1, tzinfo=UTC) + age
    ),
}
ROWS = st.lists(st.fixed_dictionaries({name: values_of(each) for name, each in TYPES.items()}))


def read_by_fastavro(content: bytes) -> list[dict[str, Any]]:
    stream, schema = io.BytesIO(content[8:]), fastavro.parse_schema(json.loads(SCHEMA.avro))
    rows = []
    while length := stream.read(4):
        record = io.BytesIO(stream.read(int.from_bytes(length, "big")))
        row = fastavro.schemaless_reader(record, schema, None)
        assert isinstance(row, dict)
        assert not record.read()
        rows.append(row)
    return rows


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return a value with maps as fastavro has them."""
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


@given(ROWS, st.integers(0, 2))
def test_rows_are_what_fastavro_reads(rows: list[dict[str, Any]], skipped: int) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA.arrow).slice(skipped)
    content = avro_records.encode(table, SCHEMA.avro)
    read = read_by_fastavro(content)
    wanted = [plain(row) for row in table.to_pylist()]
    for row in (*read, *wanted):  # An empty list is an empty map of `to_pylist`.
        for name in ("by_name", "lists"):
            row[name] = row[name] or None
    assert read == wanted
    assert avro_records.decode(pa.py_buffer(content), SCHEMA.avro).equals(table.combine_chunks())


def test_null_where_a_type_has_none_is_refused() -> None:
    record = json.loads(SCHEMA.avro)
    record["fields"] = [{"name": "ids", "type": {"type": "array", "items": "long"}}]
    schema = schemas.from_avro(json.dumps(record))
    for ids in ([1, None], None):
        rows = pa.table({"ids": pa.array([[1], ids], pa.list_(pa.int64()))})
        with pytest.raises(errors.InvalidInputError, match="ids"):
            schemas.conform(rows, schema)
        with pytest.raises(errors.InvalidInputError, match="'ids' is null in 1 of"):
            avro_records.encode(rows, schema.avro)


def test_values_of_nested_columns_fit_by_the_names_of_their_fields() -> None:
    given_type = pa.struct([("label", pa.large_string()), ("x", pa.int16())])
    rows = pa.table(
        {
            "point": pa.array([{"label": "a", "x": 1}], given_type),
            **{name: pa.nulls(1, each) for name, each in TYPES.items() if name != "point"},
        }
    )
    schemas.check_fits(rows.schema, SCHEMA)
    assert schemas.conform(rows, SCHEMA).column("point").to_pylist() == [{"x": 1, "label": "a"}]
    for wrong in (
        pa.struct([("x", pa.int32())]),
        pa.struct([("x", pa.int32()), ("label", pa.string()), ("more", pa.string())]),
        pa.struct([("x", pa.int64()), ("label", pa.string())]),
        pa.list_(POINT),
    ):
        with pytest.raises(errors.InvalidInputError, match="column 'point' is"):
            schemas.check_fits(rows.schema.set(0, pa.field("point", wrong)), SCHEMA)


def test_decimals_inside_keep_their_digits() -> None:
    prices = [[Decimal("-1.005"), None, Decimal("99999999999999999.999")]]
    rows = pa.Table.from_pylist(
        [dict.fromkeys(TYPES) | {"amounts": each} for each in prices], SCHEMA.arrow
    )
    (read,) = read_by_fastavro(avro_records.encode(rows, SCHEMA.avro))
    assert [read["amounts"]] == prices
