"""Avro as Hudi stores schemas, Arrow as we move data, and what fits into what."""

import json

import fastavro
import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import avro_types, schemas

META = [
    {"name": name, "type": ["null", "string"], "doc": "", "default": None}
    for name in schemas.META_COLUMNS
]


def record(*fields: object, name: str = "t_record", namespace: str = "hoodie.t") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


def column(type_: object, name: str = "a") -> dict[str, object]:
    return {"name": name, "type": type_, "default": None}


def arrow_of(type_: object) -> pa.DataType:
    return schemas.from_avro(record(column(["null", type_]))).arrow.field("a").type


def test_new_table_has_the_schema_that_hudi_gives_it() -> None:
    # Names and forms: format.md: Base files; Apache Hudi 1.2.0 wrote this shape.
    schema = schemas.from_arrow(pa.schema([("id", pa.string()), ("qty", pa.int32())]), "orders")
    assert schema.avro == (
        '{"type":"record","name":"orders_record","namespace":"hoodie.orders","fields":['
        '{"name":"id","type":["null","string"],"default":null},'
        '{"name":"qty","type":["null","int"],"default":null}]}'
    )
    assert schema.arrow == pa.schema([("id", pa.string()), ("qty", pa.int32())])


def test_decimal_is_a_fixed_in_a_namespace_of_its_own() -> None:
    schema = schemas.from_arrow(pa.schema([("d", pa.decimal128(10, 2))]), "t")
    assert json.loads(schema.avro)["fields"][0]["type"][1] == {
        "type": "fixed",
        "name": "fixed",
        "namespace": "hoodie.t.t_record.d",
        "size": 5,
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
    }
    assert schema.arrow.field("d").type == pa.decimal128(10, 2)


@pytest.mark.parametrize(
    ("data", "table"),
    [
        (pa.bool_(), pa.bool_()),
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.int64(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.float64(), pa.float64()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("s", "Europe/Berlin"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ms"), pa.timestamp("ms")),
        (pa.timestamp("us"), pa.timestamp("us")),
        (pa.decimal128(38, 10), pa.decimal128(38, 10)),
        (pa.decimal256(20, 2), pa.decimal128(20, 2)),
    ],
)
def test_arrow_type_becomes_the_tables(data: pa.DataType, table: pa.DataType) -> None:
    schema = schemas.from_arrow(pa.schema([("a", data)]), "t")
    assert schema.arrow.field("a").type == table
    schemas.check_fits(pa.schema([("a", data)]), schema)


@pytest.mark.parametrize(
    "type_",
    [
        pa.null(),
        pa.uint64(),
        pa.timestamp("ns"),
        pa.time64("us"),
        pa.duration("ms"),
        pa.decimal256(40, 2),
        pa.decimal128(10, -2),
        pa.list_(pa.duration("ms")),
    ],
)
def test_type_that_no_table_holds_is_refused_by_name(type_: pa.DataType) -> None:
    with pytest.raises(errors.UnsupportedError, match="column 'a' is "):
        schemas.from_arrow(pa.schema([("ok", pa.string()), ("a", type_)]), "t")


@pytest.mark.parametrize(
    ("table", "record_name", "namespace"),
    [
        ("trips", "trips_record", "hoodie.trips"),
        ("my-table.v1", "my__table__v1_record", "hoodie.my__table__v1"),
        ("1st", "__st_record", "hoodie.__st"),
        ("é", "___record", "hoodie.__"),
    ],
)
def test_tables_name_is_made_an_avro_name(table: str, record_name: str, namespace: str) -> None:
    parsed = json.loads(schemas.from_arrow(pa.schema([("a", pa.string())]), table).avro)
    assert (parsed["name"], parsed["namespace"]) == (record_name, namespace)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one column"),
        (["a", "A"], "2 columns are named 'a'"),
        (["_hoodie_record_key"], "'_hoodie_record_key' is reserved"),
        (["a b"], "column 'a b' is not a valid name"),
        (["1a"], "column '1a'"),
        (['a","type":"int'], "is not a valid name"),
    ],
)
def test_column_name_that_hudi_cannot_have_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=message):
        schemas.from_arrow(pa.schema([(name, pa.string()) for name in names]), "t")


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("bytes", pa.binary()),
        ("string", pa.string()),
        ({"type": "string", "avro.java.string": "String"}, pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "something-new"}, pa.int64()),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
            pa.decimal128(30, 15),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40}, pa.decimal256(40, 0)),
        ({"type": "fixed", "name": "f", "size": 3}, pa.binary(3)),
        ({"type": "enum", "name": "e", "symbols": ["X"]}, pa.string()),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.int32())),
        (
            {"type": "map", "values": "long"},
            pa.map_(pa.string(), pa.field("value", pa.int64(), False)),
        ),
        (
            {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]},
            pa.struct([pa.field("x", pa.int32(), nullable=False)]),
        ),
    ],
)
def test_avro_type_has_its_arrow_type(avro: object, arrow: pa.DataType) -> None:
    assert arrow_of(avro) == arrow


def test_named_type_may_be_used_again_by_its_name() -> None:
    fixed = {"type": "fixed", "name": "f", "size": 3}
    inner = {
        "type": "record",
        "name": "other.ns.r",
        "fields": [{"name": "x", "type": fixed}, {"name": "y", "type": "f"}],
    }
    schema = schemas.from_avro(
        record(
            column(fixed, "a"),
            column(["null", "f"], "b"),
            column("hoodie.t.f", "c"),
            column(inner, "d"),
        )
    )
    assert schema.arrow.field("b").type == pa.binary(3)
    assert schema.arrow.field("c").type == pa.binary(3)
    assert schema.arrow.field("d").type.num_fields == 2


@pytest.mark.parametrize(
    ("type_", "null_branch", "is_union"),
    [
        (["null", "int"], 0, True),
        (["int", "null"], 1, True),
        (["int"], None, True),
        ("int", None, False),
    ],
)
def test_order_of_a_union_is_kept(type_: object, null_branch: int | None, is_union: bool) -> None:
    (parsed,) = avro_types.columns(record(column(type_)))
    assert (parsed.null_branch, parsed.is_union) == (null_branch, is_union)
    assert parsed.arrow.nullable == (null_branch is not None)
    assert parsed.wire is avro_types.Wire.INT


@pytest.mark.parametrize("type_", [["null"], "null", {"type": "null"}])
def test_column_of_nothing_is_null(type_: object) -> None:
    (parsed,) = avro_types.columns(record(column(type_)))
    assert parsed.type == pa.null()
    assert parsed.arrow.nullable


@pytest.mark.parametrize(
    "type_",
    [
        ["null", "int", "string"],
        ["int", "string"],
        [],
        {"type": "record", "name": "t_record", "fields": []},
    ],
)
def test_union_of_several_types_is_refused_by_column(type_: object) -> None:
    if isinstance(type_, dict):
        type_ = ["null", "t_record"]
    with pytest.raises(errors.UnsupportedError, match="column 'a'"):
        schemas.from_avro(record(column(type_)))


def test_recursive_type_is_refused() -> None:
    node = {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}
    with pytest.raises(errors.UnsupportedError, match=r"column 'a\.next' has the recursive"):
        schemas.from_avro(record(column(["null", node])))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"string"',
        "{",
        "[" * 100_000,
        '{"type":"record","name":"t"}',
        '{"type":"record","name":"t","fields":[{"type":"int"}]}',
        '{"type":"record","name":"t","fields":[{"name":"a"}]}',
        '{"type":"record","name":"t","fields":[{"name":"a","type":7}]}',
        '{"type":"record","name":"t","fields":[{"name":"a","type":"unknown"}]}',
        '{"type":"record","fields":[{"name":"a","type":"int"}]}',
        record(column("int"), column("int")),
        record(column({"type": "fixed", "name": "f", "size": -1})),
        record(column({"type": "fixed", "name": "f"})),
        record(column({"type": "bytes", "logicalType": "decimal"})),
    ],
)
def test_broken_schema_is_a_format_error(text: str) -> None:
    with pytest.raises(errors.FormatError):
        schemas.from_avro(text)


def test_meta_columns_are_put_first_once_and_taken_off() -> None:
    data = column(["null", "int"])
    plain = schemas.with_meta(record(data))
    assert json.loads(plain)["fields"] == [*META, data]
    assert schemas.with_meta(plain) == plain
    assert schemas.from_avro(plain).arrow == pa.schema([("a", pa.int32())])
    assert json.loads(schemas.from_avro(plain).avro) == json.loads(record(data))
    assert [field.name for field in schemas.meta_fields()] == list(schemas.META_COLUMNS)


def test_schema_without_meta_columns_keeps_its_text() -> None:
    text = record(column(["null", "int"]) | {"doc": "how many"})
    assert schemas.from_avro(text).avro == text


def table(*columns: tuple[str, pa.DataType]) -> schemas.TableSchema:
    return schemas.from_arrow(pa.schema(columns), "t")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pa.int64(), pa.int32()),
        (pa.uint32(), pa.int32()),
        (pa.int32(), pa.float32()),
        (pa.int64(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.string(), pa.int32()),
        (pa.int32(), pa.string()),
        (pa.string(), pa.binary()),
        (pa.binary(), pa.string()),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("s"), pa.date32()),
        (pa.decimal128(10, 3), pa.decimal128(10, 2)),
        (pa.decimal128(10, 1), pa.decimal128(10, 2)),
        (pa.bool_(), pa.int32()),
    ],
)
def test_lossy_type_is_refused_with_both_types(data: pa.DataType, expected: pa.DataType) -> None:
    with pytest.raises(errors.InvalidInputError) as raised:
        schemas.check_fits(pa.schema([("a", data)]), table(("a", expected)))
    assert f"column 'a' is {data}, expected {expected}" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pa.null(), pa.int32()),
        (pa.int32(), pa.int64()),
        (pa.uint8(), pa.float32()),
        (pa.uint32(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "Europe/Berlin")),
        (pa.decimal128(9, 2), pa.decimal128(20, 4)),
    ],
)
def test_wider_type_is_accepted(data: pa.DataType, expected: pa.DataType) -> None:
    schemas.check_fits(pa.schema([("a", data)]), table(("a", expected)))


def test_all_misfits_are_named_at_once() -> None:
    data = pa.schema([("a", pa.string()), ("x", pa.int32()), ("a", pa.string())])
    with pytest.raises(errors.InvalidInputError) as raised:
        schemas.check_fits(data, table(("a", pa.string()), ("b", pa.int32()), ("c", pa.int64())))
    assert str(raised.value) == (
        "the data does not fit the table: column 'a' is there 2 times, expected once; column 'x' "
        "is not in the table; column 'b' (int32) is missing; column 'c' (int64) is missing; "
        "hoodie.datasource.write.reconcile.schema=true adds columns, and widens types"
    )


def test_all_types_that_do_not_fit_are_named_with_what_helps() -> None:
    data = pa.schema([("a", pa.timestamp("us")), ("b", pa.decimal128(2, 1))])
    with pytest.raises(errors.InvalidInputError) as raised:
        schemas.check_fits(data, table(("a", pa.timestamp("us", "UTC")), ("b", pa.float64())))
    assert str(raised.value) == (
        "the data does not fit the table: column 'a' is timestamp[us], expected timestamp[us, "
        "tz=UTC] (give the times a zone, such as UTC); column 'b' is decimal128(2, 1), expected "
        "double"
    )
    with pytest.raises(errors.InvalidInputError, match="true adds columns, and widens types"):
        schemas.check_fits(pa.schema([("a", pa.int64())]), table(("a", pa.int32())))


def test_setting_by_which_columns_may_be_missing_is_named() -> None:
    target = table(("id", pa.string()), ("a", pa.int32()), ("b", pa.int32()))
    by_setting = r"=true has null for columns that are missing$"
    data = pa.schema([("id", pa.string()), ("a", pa.int32())])
    with pytest.raises(
        errors.InvalidInputError, match=rf"'b' \(int32\) is missing; .*{by_setting}"
    ):
        schemas.check_fits(data, target, could_miss={"a", "b"})
    with pytest.raises(errors.InvalidInputError, match=r"'b' \(int32\) is missing$"):
        schemas.check_fits(data, target, could_miss={"a"})
    more = pa.schema([("id", pa.string()), ("a", pa.string()), ("x", pa.string())])
    with pytest.raises(
        errors.InvalidInputError,
        match=r"=true adds columns, widens types, and has null for columns that are missing$",
    ):
        schemas.check_fits(more, target, could_miss={"b"})


def test_similar_column_is_named_where_one_is_not_there() -> None:
    data = pa.schema([("id", pa.string()), ("ID", pa.string())])
    with pytest.raises(
        errors.InvalidInputError, match="'ID' is not in the table; did you mean 'id'"
    ):
        schemas.check_fits(data, table(("id", pa.string())))


def test_columns_may_be_missing_where_the_caller_says() -> None:
    target = table(("a", pa.string()), ("b", pa.int32()), ("c", pa.int32()))
    schemas.check_fits(pa.schema([("a", pa.string())]), target, may_miss={"b", "c"})
    with pytest.raises(errors.InvalidInputError, match=r"column 'c' \(int32\) is missing"):
        schemas.check_fits(pa.schema([("a", pa.string())]), target, may_miss={"b"})


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (pa.struct([("a b", pa.int32())]), "'a b' is not a valid name"),
        (pa.struct([("a", pa.int32()), ("A", pa.int32())]), "2 columns are named 'a'"),
        (pa.struct([]), "needs at least one"),
        (pa.list_(pa.struct([("1", pa.int32())])), "'1' is not a valid name"),
        (pa.map_(pa.int32(), pa.string()), "whose keys are texts"),
        (pa.list_(pa.time32("s")), "not supported"),
    ],
)
def test_nested_columns_that_no_table_has_are_refused(type_: pa.DataType, message: str) -> None:
    with pytest.raises((errors.InvalidInputError, errors.UnsupportedError), match=message):
        table(("c", type_))


def test_data_is_brought_into_the_tables_form() -> None:
    target = table(("a", pa.string()), ("b", pa.int64()), ("c", pa.timestamp("us", "UTC")))
    data = pa.table(
        {"b": pa.array([1, None], pa.int8()), "a": pa.array(["x", "y"]).dictionary_encode()}
    )
    assert schemas.conform(data, target) == pa.table(
        {
            "a": ["x", "y"],
            "b": pa.array([1, None], pa.int64()),
            "c": pa.nulls(2, pa.timestamp("us", "UTC")),
        }
    )


def test_value_out_of_range_is_refused_by_column() -> None:
    target = table(("c", pa.timestamp("us", "UTC")))
    data = pa.table({"c": pa.array([2**62], pa.timestamp("s", "UTC"))})
    schemas.check_fits(data.schema, target)
    with pytest.raises(errors.InvalidInputError, match="column 'c'"):
        schemas.conform(data, target)


def test_null_in_a_column_without_nulls_is_refused() -> None:
    target = schemas.from_avro(record({"name": "a", "type": "int"}))
    with pytest.raises(errors.InvalidInputError, match="column 'a' is null in 1 rows"):
        schemas.conform(pa.table({"a": pa.array([1, None], pa.int32())}), target)


def test_missing_column_is_null_even_where_the_table_has_no_nulls() -> None:
    target = schemas.from_avro(record({"name": "a", "type": "int"}, {"name": "b", "type": "int"}))
    conformed = schemas.conform(pa.table({"a": pa.array([1], pa.int32())}), target)
    assert conformed.column("b").to_pylist() == [None]
    assert [field.nullable for field in conformed.schema] == [False, True]


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize(
    ("default", "fixed_default"),
    [(None, None), ("\u0001", "\0\0\0\0\0\u0001"), ("\u00ff", "\u00ff" * 6)],
)
def test_decimal_of_bytes_becomes_a_fixed_of_equal_meaning(
    default: str | None, fixed_default: str | None, nullable: bool
) -> None:
    """Spark cannot read what Apache Hudi writes into base files for decimals of bytes."""
    decimal: object = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
    if nullable:
        decimal = ["null", decimal] if default is None else [decimal, "null"]
    given: dict[str, object] = {"name": "d", "type": decimal, "doc": "kept"}
    if default is not None or nullable:
        given["default"] = default
    text = json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": [given]})
    found = schemas.with_fixed_decimals(schemas.from_avro(text))
    (field,) = json.loads(found.avro)["fields"]
    branches = field["type"] if nullable else [field["type"]]
    (kind,) = [each for each in branches if each != "null"]
    assert (kind["type"], kind["size"], kind["logicalType"]) == ("fixed", 6, "decimal")
    assert field.get("default") == fixed_default
    assert field["doc"] == "kept"
    assert found.arrow == schemas.from_avro(text).arrow
    assert schemas.with_fixed_decimals(found) == found
    fastavro.parse_schema(json.loads(found.avro))


def test_schema_without_decimals_stays_as_it_is() -> None:
    schema = schemas.from_arrow(pa.schema([("a", pa.int64()), ("b", pa.string())]), "t")
    assert schemas.with_fixed_decimals(schema) is schema
