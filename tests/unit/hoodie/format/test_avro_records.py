"""The content of Avro data blocks: format.md: Log files; a block by Apache Hudi 1.2.0."""

import io
import json
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.format import avro_records
from hoodie.model import schemas

# Of the table mor_avro_log: one record, with the meta columns.
HUDI = bytes.fromhex(
    "000000030000000100000072022232303236313132313037313233323135350"
    "22a32303236313132313037313233323135355f305f3102086b30303102046575024c31613166336161642d343635"
    "632d343333662d613137302d3264326132646238636366352d3002086b30303102086e312d6102ca0102a01f0204"
    "6575"
)
HUDI_COLUMNS = {"id": "string", "name": "string", "qty": "int", "ts": "long", "region": "string"}


def schema(**columns: object) -> str:
    fields = [{"name": name, "type": type_} for name, type_ in columns.items()]
    return json.dumps(
        {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": fields}
    )


def nullable(**columns: object) -> str:
    return schema(**{name: ["null", type_] for name, type_ in columns.items()})


def decoded(content: bytes, avro_json: str, columns: list[str] | None = None) -> pa.Table:
    table = avro_records.decode(pa.py_buffer(content), avro_json, columns)
    table.validate(full=True)
    return table


def by_fastavro(avro_json: str, rows: list[dict[str, object]]) -> bytes:
    """Return the content that fastavro makes of rows."""
    parsed = fastavro.parse_schema(json.loads(avro_json))
    content = struct.pack(">ii", 3, len(rows))
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        content += struct.pack(">i", len(stream.getvalue())) + stream.getvalue()
    return content


def test_block_of_hudi_is_read_and_written_again() -> None:
    avro_json = schemas.with_meta(nullable(**HUDI_COLUMNS))
    table = decoded(HUDI, avro_json)
    assert table.to_pylist() == [
        {
            "_hoodie_commit_time": "20261121071232155",
            "_hoodie_commit_seqno": "20261121071232155_0_1",
            "_hoodie_record_key": "k001",
            "_hoodie_partition_path": "eu",
            "_hoodie_file_name": "1a1f3aad-465c-433f-a170-2d2a2db8ccf5-0",
            "id": "k001",
            "name": "n1-a",
            "qty": 101,
            "ts": 2000,
            "region": "eu",
        }
    ]
    assert avro_records.encode(table, avro_json) == HUDI


TYPES: dict[str, tuple[object, list[object]]] = {
    "boolean": ("boolean", [True, None, False]),
    "int": ("int", [0, None, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)]),
    "long": ("long", [0, None, 2**63 - 1, -(2**63), *(1 << bits for bits in range(63))]),
    "float": ("float", [0.0, None, -1.5, float("inf"), 2.0**-149]),
    "double": ("double", [0.0, None, -1.5, float("-inf"), 5e-324]),
    "bytes": ("bytes", [b"", None, b"\x00\xff", b"x" * 1000]),
    "string": ("string", ["", None, "é€😀", "x" * 63, "x" * 64, "x" * 10_000]),
    "date": ({"type": "int", "logicalType": "date"}, [date(1970, 1, 1), None, date(1, 1, 1)]),
    "timestamp-millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        [datetime(2024, 2, 29, 1, 2, 3, 4000, UTC), None, datetime(1960, 1, 1, tzinfo=UTC)],
    ),
    "timestamp-micros": (
        {"type": "long", "logicalType": "timestamp-micros"},
        [datetime(2024, 2, 29, 1, 2, 3, 4, UTC), None, datetime(1960, 1, 1, tzinfo=UTC)],
    ),
    "local-timestamp-micros": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        [datetime(2024, 2, 29, 1, 2, 3, 4), None],  # noqa: DTZ001 - local time
    ),
    "decimal": (
        {
            "type": "fixed",
            "name": "fixed",
            "namespace": "hoodie.t.t_record.a",
            "size": 5,
            "logicalType": "decimal",
            "precision": 10,
            "scale": 2,
        },
        [Decimal("0.00"), None, Decimal("-0.01"), Decimal("99999999.99"), Decimal("-99999999.99")],
    ),
    "decimal-bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
        [Decimal("0E-15"), None, Decimal("12.345000000000000"), Decimal("-0.500000000000000")],
    ),
    "decimal-wide": (
        {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 0},
        [Decimal(10**59), None, Decimal(-(10**59)), Decimal(255), Decimal(-256)],
    ),
    "fixed": ({"type": "fixed", "name": "f", "size": 3}, [b"abc", None, b"\x00\x00\xff"]),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("order", ["null first", "null last", "no null", "union of one"])
def test_column_is_written_and_read_as_fastavro_does(name: str, order: str) -> None:
    type_, values = TYPES[name]
    union = {
        "null first": ["null", type_],
        "null last": [type_, "null"],
        "no null": type_,
        "union of one": [type_],
    }[order]
    if "null " not in order:
        values = [value for value in values if value is not None]
    avro_json = schema(before="string", a=union, after="int")
    rows = [{"before": f"b{row}", "a": value, "after": row} for row, value in enumerate(values)]
    expected = by_fastavro(avro_json, rows)
    table = decoded(expected, avro_json)
    assert table.column("a").to_pylist() == values
    assert table.column("after").to_pylist() == list(range(len(values)))
    assert avro_records.encode(table, avro_json) == expected
    # A slice has other offsets, and its first row may be one without nulls.
    assert avro_records.encode(table.slice(1), avro_json) == by_fastavro(avro_json, rows[1:])


def test_columns_are_matched_by_name_and_cast() -> None:
    avro_json = nullable(a="string", b="long")
    table = pa.table(
        {
            "b": pa.array([1, 2], pa.int8()),
            "x": [0, 0],
            "a": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    assert decoded(avro_records.encode(table, avro_json), avro_json).to_pydict() == {
        "a": ["u", "v"],
        "b": [1, 2],
    }


def test_chunked_rows_are_written_as_one_block() -> None:
    avro_json = nullable(a="string")
    chunks = pa.chunked_array([["a"], ["b", None], []], pa.string())
    content = avro_records.encode(pa.table({"a": chunks}), avro_json)
    assert decoded(content, avro_json).column("a").to_pylist() == ["a", "b", None]


def test_no_rows_are_a_block_too() -> None:
    avro_json = nullable(**{name.replace("-", "_"): type_ for name, (type_, _) in TYPES.items()})
    empty = schemas.from_avro(avro_json).arrow.empty_table()
    content = avro_records.encode(empty, avro_json)
    assert content == struct.pack(">ii", 3, 0)
    assert decoded(content, avro_json) == empty


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["a"], ["a"]),
        (["c", "a"], ["a", "c"]),
        (["d"], ["d"]),
        (["b", "unknown"], ["b"]),
        (None, ["a", "b", "c", "d"]),
    ],
)
def test_columns_may_be_chosen(columns: list[str] | None, expected: list[str]) -> None:
    avro_json = nullable(a="string", b="int", c="bytes", d="boolean")
    rows: list[dict[str, object]] = [
        {"a": "x", "b": 7, "c": b"\x01", "d": True},
        {"a": None, "b": None, "c": None, "d": None},
    ]
    table = decoded(by_fastavro(avro_json, rows), avro_json, columns)
    assert table.to_pylist() == [{name: row[name] for name in expected} for row in rows]


NESTED = {
    "a": "string",
    "tags": {"type": "array", "items": ["null", "string"]},
    "when": {"type": "long", "logicalType": "timestamp-micros"},
    "counts": {"type": "map", "values": "long"},
    "kind": {"type": "enum", "name": "k", "symbols": ["X", "Y"]},
    "inner": {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "d", "type": ["null", {"type": "int", "logicalType": "date"}]},
            {
                "name": "m",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            },
        ],
    },
}


def test_nested_columns_are_read_as_they_were_written() -> None:
    avro_json = nullable(**NESTED)
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    rows: list[dict[str, object]] = [
        {
            "a": "x",
            "tags": ["u", None],
            "when": moment,
            "counts": {"one": 1},
            "kind": "Y",
            "inner": {"d": date(2024, 1, 1), "m": Decimal("1.5")},
        },
        dict.fromkeys(NESTED),
    ]
    content = by_fastavro(avro_json, rows)
    table = decoded(content, avro_json)
    assert table.schema == schemas.from_avro(avro_json).arrow
    assert table.to_pylist(maps_as_pydicts="strict") == rows
    assert decoded(content, avro_json, ["when", "kind"]).to_pylist() == [
        {"when": moment, "kind": "Y"},
        {"when": None, "kind": None},
    ]
    # What stands before the first nested column needs no walk through it.
    assert decoded(content, avro_json, ["a"]).to_pydict() == {"a": ["x", None]}


def test_records_are_read_by_column(monkeypatch: pytest.MonkeyPatch) -> None:
    # Fields without null are in records that some rows lack, as in the images of change data.
    point = {"type": "record", "name": "p", "fields": [{"name": "x", "type": "long"}]}
    image = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "flag", "type": "boolean"},
            {"name": "at", "type": ["null", point]},
            {"name": "size", "type": {"type": "fixed", "name": "f", "size": 2}},
        ],
    }
    avro_json = nullable(before=image, after="hoodie.t.r", op="string")
    rows: list[dict[str, object]] = [
        {"before": None, "after": _image("b", None), "op": "i"},
        {"before": _image("c", 2), "after": _image("d" * 70, 3 * 2**40), "op": "u"},
        {"before": _image("", -1), "after": None, "op": None},
    ]
    content = by_fastavro(avro_json, rows)
    monkeypatch.delattr(avro_records, "avro_rows")
    table = avro_records.decode(pa.py_buffer(content), avro_json)
    assert table.to_pylist() == rows
    some = decoded(content, avro_json, ["after"])
    assert some.to_pylist() == [{"after": row["after"]} for row in rows]
    for image_array in table.select(["before", "after"]).itercolumns():
        assert image_array.combine_chunks().flatten()[0].null_count == 1


def _image(key: str, x: int | None) -> dict[str, object]:
    return {"key": key, "flag": True, "at": None if x is None else {"x": x}, "size": b"ab"}


def test_enums_are_not_written() -> None:
    avro_json = nullable(a={"type": "enum", "name": "suit", "symbols": ["hearts"]})
    with pytest.raises(errors.UnsupportedError, match="column 'a' is an enum"):
        avro_records.encode(pa.table({"a": ["hearts"]}), avro_json)


def test_column_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(errors.InvalidInputError, match="column 'a' is missing"):
        avro_records.encode(pa.table({"b": [1]}), nullable(a="int"))
    with pytest.raises(errors.InvalidInputError, match="column 'a' does not fit int32"):
        avro_records.encode(pa.table({"a": [2**40]}), nullable(a="int"))
    with pytest.raises(errors.InvalidInputError, match="column 'a' is null in 1 of 2 rows"):
        avro_records.encode(pa.table({"a": [1, None]}), schema(a="long"))


def test_decimal_wider_than_its_fixed_is_refused() -> None:
    narrow = {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 3}
    fits = pa.table({"a": pa.array([Decimal(127), Decimal(-128)], pa.decimal128(3, 0))})
    content = avro_records.encode(fits, schema(a=narrow))
    assert decoded(content, schema(a=narrow)).column("a") == fits.column("a")
    for number in (128, -129):
        table = pa.table({"a": pa.array([Decimal(number)], pa.decimal128(3, 0))})
        with pytest.raises(errors.InvalidInputError, match=f"the value {number}, which"):
            avro_records.encode(table, schema(a=narrow))


def test_older_versions_of_the_block_are_read_and_later_ones_refused() -> None:
    avro_json = schema(a="int")
    content = by_fastavro(avro_json, [{"a": 1}])
    for version in (1, 2):
        assert decoded(struct.pack(">i", version) + content[4:], avro_json).num_rows == 1
    with pytest.raises(errors.UnsupportedError, match="version 4 is not read, expected 3"):
        decoded(struct.pack(">i", 4) + content[4:], avro_json)


def test_every_truncation_is_a_format_error() -> None:
    avro_json = schemas.with_meta(nullable(**HUDI_COLUMNS))
    for length in range(len(HUDI)):
        with pytest.raises(errors.FormatError):
            decoded(HUDI[:length], avro_json)
    with pytest.raises(errors.FormatError):
        decoded(HUDI + b"x", avro_json)


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # The varint of 2**63 - 1.


@pytest.mark.parametrize(
    ("type_", "body", "message"),
    [
        ("int", HUGE, "beyond 32 bits"),
        ("long", b"\xff" * 11, "more than 10 bytes"),
        ("long", b"", "ends within a field"),
        ("long", b"\x02\x02", "bytes after its last field"),
        ("double", b"\x00" * 7, "ends within a field"),
        ("string", HUGE, "a text of 9223372036854775807 bytes"),
        ("string", b"\x01", "a text of -1 bytes"),
        ("string", b"\x04a", "a text of 2 bytes, 1 are left"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("bytes", b"\x04a", "a text of 2 bytes"),
        ("boolean", b"\x02", "byte 2 for a boolean"),
        (["null", "int"], b"\x04\x02", "byte 4 for a union's branch"),
        (["int"], b"\x02\x02", "byte 2 for a union's branch"),
        (["null"], b"\x02", "byte 2 for a union's branch"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, b"\x00", "no bytes"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9},
            b"\x22\x01" + b"\x00" * 16,
            "more than 16 bytes",
        ),
        ({"type": "array", "items": "int"}, HUGE, "broken"),
        ({"type": "array", "items": "null"}, HUGE, "broken"),
    ],
)
def test_broken_record_is_a_format_error(type_: object, body: bytes, message: str) -> None:
    framed = struct.pack(">iii", 3, 1, len(body)) + body
    with pytest.raises(errors.FormatError, match=message):
        decoded(framed, schema(a=type_))


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1])
def test_claimed_number_of_records_allocates_nothing(count: int) -> None:
    content = by_fastavro(schema(a="int"), [{"a": 1}])
    with pytest.raises(errors.FormatError):
        decoded(content[:4] + struct.pack(">i", count) + content[8:], schema(a="int"))


@pytest.mark.parametrize("length", [-5, -1, 2**31 - 1])
def test_claimed_length_of_a_record_is_checked(length: int) -> None:
    content = by_fastavro(schema(a="int"), [{"a": 1}, {"a": 2}])
    with pytest.raises(errors.FormatError):
        decoded(content[:8] + struct.pack(">i", length) + content[12:], schema(a="int"))


def test_decimal_of_needless_bytes_is_read() -> None:
    avro_json = schema(a={"type": "bytes", "logicalType": "decimal", "precision": 9})
    body = b"\x28" + b"\xff" * 20
    content = struct.pack(">iii", 3, 1, len(body)) + body
    assert decoded(content, avro_json).to_pylist() == [{"a": Decimal(-1)}]
