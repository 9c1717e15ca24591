"""Record keys and partition paths: what Apache Hudi 1.2.0 makes of the same values."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.model import table_config
from hoodie.write import keys

DEFAULT = "__HIVE_DEFAULT_PARTITION__"


def config(
    key: str = "id",
    partition: str = "",
    hashed: str = "",
    *,
    is_hive_style: bool = False,
    is_url_encoded: bool = False,
    properties: Mapping[str, str] | None = None,
) -> table_config.TableConfig:
    return table_config.TableConfig(
        name="t",
        record_key_fields=tuple(key.split(",")),
        partition_fields=tuple(name for name in partition.split(",") if name),
        hash_fields=tuple(name for name in hashed.split(",") if name),
        is_hive_style=is_hive_style,
        is_url_encoded=is_url_encoded,
        properties=properties or {},
    )


def paths(table: pa.Table, table_settings: table_config.TableConfig) -> list[str]:
    encoded = keys.partition_paths(table, table_settings)
    different = encoded.dictionary.to_pylist()
    assert len(set(different)) == len(different)
    return [str(path) for path in encoded.to_pylist()]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            pa.array(["k1", "a/b c", "é\x7f😀", "x,y", "x:y"]),
            ["k1", "a/b c", "é\x7f😀", "x,y", "x:y"],
        ),
        (pa.array([-7, 2**31 - 1], pa.int32()), ["-7", "2147483647"]),
        (pa.array([7, -(2**63)], pa.int64()), ["7", "-9223372036854775808"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        (pa.array([], pa.string()), []),
        # Measured with Apache Hudi 1.2.0: bulk inserts by rows and by records, inserts, upserts.
        (pa.array([-31, 19_783], pa.date32()), ["1969-12-01", "2024-03-01"]),
        (
            pa.array([-60_000_000, 1_709_289_000_123_456], pa.timestamp("us")),
            ["-60000000", "1709289000123456"],
        ),
        (
            pa.array([Decimal("-1.500"), Decimal("0.000")], pa.decimal128(12, 3)),
            ["-1.500", "0.000"],
        ),
        (
            pa.array([Decimal("0E-10"), Decimal("2.00001")], pa.decimal128(20, 10)),
            ["0E-10", "2.0000100000"],
        ),
        # But for bulk inserts by rows, see `has_instants`.
        (pa.array([1_709_289_000_005_000], pa.timestamp("us", "UTC")), ["1709289000005000"]),
    ],
)
def test_single_field_is_the_key_as_java_prints_it(values: pa.Array, expected: list[str]) -> None:
    record_keys = keys.record_keys(pa.table({"id": values}), config())
    assert record_keys.type == pa.string()
    assert record_keys.to_pylist() == expected


def test_several_fields_are_named_in_the_key() -> None:
    table = pa.table({"b": [1, 2, 3, None], "a": ["x", None, "", "p q"]})
    # As ComplexAvroKeyGenerator.getRecordKey of the bundle.
    assert keys.record_keys(table, config("a,b")).to_pylist() == [
        "a:x,b:1",
        "a:__null__,b:2",
        "a:__empty__,b:3",
        "a:p q,b:__null__",
    ]


@pytest.mark.parametrize(
    "type_",
    [
        pa.float32(),
        pa.float64(),
        pa.timestamp("ms", "UTC"),
        pa.time64("us"),
        pa.binary(),
        pa.list_(pa.string()),
    ],
)
def test_type_with_several_texts_is_no_key(type_: pa.DataType) -> None:
    table = pa.table({"id": pa.nulls(3, type_)})
    with pytest.raises(errors.InvalidInputError) as raised:
        keys.record_keys(table, config())
    assert f"record key column 'id' is {type_} in 3 rows" in str(raised.value)


def test_refusal_gives_column_count_and_example() -> None:
    with pytest.raises(errors.InvalidInputError) as raised:
        keys.record_keys(pa.table({"id": pa.array([1.5, 2.5])}), config())
    assert str(raised.value) == (
        "record key column 'id' is double in 2 rows, for example 1.5: Hudi prints such values "
        "differently from one operation to the next, expected text, whole numbers, booleans, "
        "dates, decimals or times in microseconds"
    )
    with pytest.raises(errors.InvalidInputError) as raised:
        keys.record_keys(pa.table({"id": ["a", None, ""]}), config())
    assert str(raised.value) == (
        "column 'id' has null or empty, which is not a record key, in 2 of 3 rows, for example "
        "None: expected a value in each row"
    )


def test_single_key_that_hudi_takes_for_a_list_is_refused() -> None:
    with pytest.raises(
        errors.InvalidInputError,
        match=r"a comma and a colon.* in 1 of 2 rows.*'a:1,b': .* an index without buckets",
    ):
        keys.record_keys(pa.table({"id": ["a", "a:1,b"]}), config())


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("x,y", "column 'b' has a comma"),
        ("__null__", "column 'b' has a text that stands for null or empty"),
        ("__empty__", "column 'b' has a text that stands for null or empty"),
    ],
)
def test_value_that_makes_a_key_ambiguous_is_refused(value: str, problem: str) -> None:
    table = pa.table({"a": ["1", "2"], "b": ["ok", value]})
    with pytest.raises(errors.InvalidInputError, match=f"{problem}.*in 1 of 2 rows"):
        keys.record_keys(table, config("a,b"))


@pytest.mark.parametrize(
    ("key", "row", "expected"),
    [
        ("id", {"id": "a,b:c"}, "a,b:c"),
        ("a,b", {"a": "x,y", "b": "1,2"}, "a:x,y,b:1,2"),
        ("a,b", {"a": "__null__", "b": "z"}, "a:__null__,b:z"),
        ("a,b", {"a": "1,b:2", "b": "3"}, "a:1,b:2,b:3"),
    ],
)
def test_rows_of_a_table_have_keys_that_no_write_here_would_make(
    key: str, row: dict[str, str], expected: str
) -> None:
    """Of a table whose index nothing states, or that Apache Hudi has written all the same."""
    rows = pa.Table.from_pylist([row])
    make = keys.maker(config(key), rows.schema)
    assert make is not None
    assert make(rows).to_pylist() == [expected]
    assert keys.of_values(row, config(key), rows.schema) == expected
    with pytest.raises(errors.InvalidInputError):
        keys.record_keys(rows, config(key))


def test_colon_is_refused_where_hudi_would_loop_forever() -> None:
    # Measured: BucketIdentifier of 1.2.0 hangs on a:1,b:x:y with the hash field a.
    table = pa.table({"a": ["1"], "b": ["x:y"]})
    assert keys.record_keys(table, config("a,b")).to_pylist() == ["a:1,b:x:y"]
    with pytest.raises(errors.InvalidInputError, match="column 'b' has a colon"):
        keys.record_keys(table, config("a,b", hashed="a"))


def without_buckets(key: str, **options: str) -> table_config.TableConfig:
    return replace(config(key, **options), index=table_config.IndexKind.SIMPLE)


def test_single_key_that_is_not_hashed_is_any_text() -> None:
    values = ["a", "a:1,b", "id:1,b:2", "__null__", ",", ":,"]
    table = pa.table({"id": values})
    assert keys.record_keys(table, without_buckets("id")).to_pylist() == values
    named = without_buckets("id", partition="p,q")
    assert keys.record_keys(table.slice(0, 3), named).to_pylist() == [
        "id:a",
        "id:a:1,b",
        "id:id:1,b:2",
    ]


def test_values_of_fields_that_are_not_hashed_are_any_text_that_no_other_key_has() -> None:
    table = pa.table({"a": ["x,y:z", "a:1", ",b", ",c:1"], "b": ["1,2", "3:4", ",a:1", "b:"]})
    settings = without_buckets("a,b")
    assert keys.record_keys(table, settings).to_pylist() == [
        "a:x,y:z,b:1,2",
        "a:a:1,b:3:4",
        "a:,b,b:,a:1",
        "a:,c:1,b:b:",
    ]
    # As of the values 1 and 2,b:3.
    ambiguous = pa.table({"a": ["1", "1,b:2"], "b": ["2", "3"]})
    with pytest.raises(
        errors.InvalidInputError,
        match=r"column 'a' has a comma and b:, with which the next key field begins, in 1 of 2",
    ):
        keys.record_keys(ambiguous, settings)


@pytest.mark.parametrize("value", ["__null__", "__empty__"])
def test_text_that_stands_for_another_value_is_refused_without_buckets_too(value: str) -> None:
    table = pa.table({"a": ["1", "2"], "b": ["ok", value]})
    with pytest.raises(errors.InvalidInputError, match="stands for null or empty, in 1 of 2 rows"):
        keys.record_keys(table, without_buckets("a,b"))


def test_times_at_an_instant_alone_are_printed_by_rows_in_another_way() -> None:
    schema = pa.schema(
        [("at", pa.timestamp("us", "UTC")), ("on", pa.timestamp("us")), ("day", pa.date32())]
    )
    assert keys.has_instants(schema, config("day,at"))
    assert not keys.has_instants(schema, config("day,on"))


def test_key_of_nothing_is_refused() -> None:
    table = pa.table({"a": ["1", None, "", None], "b": [None, "", None, "2"]})
    with pytest.raises(errors.InvalidInputError, match=r"column 'a, b' has null.* in 2 of 4 rows"):
        keys.record_keys(table, config("a,b"))


def test_missing_column_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="record key column 'id' is missing"):
        keys.record_keys(pa.table({"a": ["1"]}), config())
    with pytest.raises(errors.InvalidInputError, match="partition column 'p' is missing"):
        keys.partition_paths(pa.table({"a": ["1"]}), config(partition="p"))


def test_field_within_a_column_is_refused() -> None:
    table = pa.table({"a": [{"b": "1"}]})
    with pytest.raises(errors.InvalidInputError, match=r"'a\.b' is within column 'a', expected"):
        keys.record_keys(table, config("a.b"))


def test_table_without_partitions_has_one_empty_path() -> None:
    assert paths(pa.table({"id": ["1", "2"]}), config()) == ["", ""]
    assert paths(pa.table({"id": pa.array([], pa.string())}), config()) == []


@pytest.mark.parametrize(
    ("values", "plain", "encoded"),
    [
        # SimpleKeyGenerator.getPartitionPath of the bundle, from rows and from Avro records.
        (pa.array(["a b", "é😀", "a=b%c"]), ["a b", "é😀", "a=b%c"], ["a b", "é😀", "a%3Db%25c"]),
        (pa.array(["", None, DEFAULT]), [DEFAULT] * 3, [DEFAULT] * 3),
        (pa.array(["default"]), ["default"], ["default"]),
        (pa.array([-7, 7], pa.int32()), ["-7", "7"], ["-7", "7"]),
        (pa.array([True]), ["true"], ["true"]),
        (pa.array([19_000], pa.date32()), ["2022-01-08"], ["2022-01-08"]),
        (
            pa.array([-719_162, 2_932_896], pa.date32()),
            ["0001-01-01", "9999-12-31"],
            ["0001-01-01", "9999-12-31"],
        ),
    ],
)
def test_value_is_the_path(values: pa.Array, plain: list[str], encoded: list[str]) -> None:
    table = pa.table({"p": values})
    assert paths(table, config(partition="p")) == plain
    assert paths(table, config(partition="p", is_url_encoded=True)) == encoded
    assert paths(table, config(partition="p", is_hive_style=True)) == [
        f"p={each}" for each in plain
    ]


def test_every_character_that_hudi_escapes_is_escaped() -> None:
    # PartitionPathEncodeUtils.escapePathName of the bundle over all of Latin-1.
    escaped = (
        "%00%01%02%03%04%05%06%07%08%09%0A%0B%0C%0D%0E%0F%10%11%12%13%14%15%16%17%18%19%1A%1B%1C%1D"
        "%1E%1F%22%23%25%27%2A%2F%3A%3D%3F%5B%5C%5D%5E%7B%7F"
    )
    values = [f"a{chr(code)}" for code in range(256) if not 0x80 <= code <= 0x9F]
    found = paths(pa.table({"p": values}), config(partition="p", is_url_encoded=True))
    assert "".join(path[1:] for path in found if len(path) > 2) == escaped


def test_several_fields_are_joined() -> None:
    table = pa.table(
        {"id": ["1"] * 5, "n": ["2"] * 5, "p": ["a", "b", "a", None, "a"], "q": [1, 1, 2, 1, 1]}
    )
    settings = config("id,n", "p,q", is_hive_style=True)
    assert paths(table, settings) == [
        "p=a/q=1",
        "p=b/q=1",
        "p=a/q=2",
        f"p={DEFAULT}/q=1",
        "p=a/q=1",
    ]


def test_null_empty_and_the_defaults_name_are_one_path() -> None:
    table = pa.table({"p": [None, "", DEFAULT, "x"], "q": ["", None, "y", "y"]})
    encoded = keys.partition_paths(table, config("a,b", "p,q"))
    assert encoded.dictionary.to_pylist() == [f"{DEFAULT}/{DEFAULT}", f"{DEFAULT}/y", "x/y"]
    assert encoded.indices.to_pylist() == [0, 0, 1, 2]


@pytest.mark.parametrize("is_url_encoded", [False, True])
@pytest.mark.parametrize(
    "value",
    [".", "..", ".hoodie", "\x85", "a/../b", "..\\x", "/", "a/b", "\x00", "a\n"],
)
def test_value_that_leads_elsewhere_is_refused(value: str, is_url_encoded: bool) -> None:
    table = pa.table({"p": ["ok", value, "ok", value]})
    settings = config(partition="p", is_url_encoded=is_url_encoded)
    is_neutralised = is_url_encoded and any(each in value for each in "/\x00\n\\")
    if is_neutralised:
        assert "/" not in paths(table, settings)[1]
        return
    way_out = "other values$" if is_url_encoded else "other values, or a table that encodes them"
    with pytest.raises(
        errors.InvalidInputError,
        match=rf"(?s)column 'p' has .*in 2 of 4 rows, for example .*: expected {way_out}",
    ):
        keys.partition_paths(table, settings)


@pytest.mark.parametrize("value", [".hoodie", "x.hoodie.y", ".hoodie_x"])
def test_only_a_folder_of_that_name_is_the_metadata_folder(value: str) -> None:
    table = pa.table({"p": [value], "q": ["x"]})
    assert paths(table, config(partition="p", is_hive_style=True)) == [f"p={value}"]
    if value != ".hoodie":
        assert paths(table, config("a,b", "p,q")) == [f"{value}/x"]
        return
    for fields in ("p,q", "q,p"):
        with pytest.raises(errors.InvalidInputError, match="folder of the table's metadata"):
            keys.partition_paths(table, config("a,b", fields))


def test_colon_is_refused_where_hadoop_finds_no_folder() -> None:
    # FSUtils.constructAbsolutePath of the bundle throws for a:b, or leaves the table.
    table = pa.table({"p": ["10:30"], "q": ["x"]})
    with pytest.raises(errors.InvalidInputError, match="column 'p' has a colon"):
        keys.partition_paths(table, config(partition="p"))
    assert paths(table, config(partition="p", is_url_encoded=True)) == ["10%3A30"]
    assert paths(table, config("a,b", "q,p")) == ["x/10:30"]


@pytest.mark.parametrize(
    "type_", [pa.float64(), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.binary()]
)
def test_type_with_several_texts_is_no_partition(type_: pa.DataType) -> None:
    with pytest.raises(errors.InvalidInputError, match="partition column 'p' is "):
        keys.partition_paths(pa.table({"p": pa.nulls(1, type_)}), config(partition="p"))


def test_date_that_is_printed_in_several_ways_is_refused() -> None:
    table = pa.table({"p": pa.array([-719_163, 0, 2_932_897], pa.date32())})
    with pytest.raises(errors.InvalidInputError, match="a year before 1 or after 9999, in 2 of 3"):
        keys.partition_paths(table, config(partition="p"))


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.keygenerator.type": "USER_PROVIDED"},
        {"hoodie.table.keygenerator.class": "com.example.MyKeyGenerator"},
    ],
)
def test_generator_that_is_not_known_is_refused(properties: dict[str, str]) -> None:
    table = pa.table({"id": ["1"], "p": ["x"]})
    settings = config(partition="p", properties=properties)
    with pytest.raises(errors.UnsupportedError, match="key generator"):
        keys.record_keys(table, settings)
    with pytest.raises(errors.UnsupportedError, match="key generator"):
        keys.partition_paths(table, settings)


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.keygenerator.type": "COMPLEX"},
        {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"},
        # Of a table that was upgraded.
        {"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.initial.version": "8"},
    ],
)
def test_encoding_of_a_single_key_that_is_not_known_is_refused(properties: dict[str, str]) -> None:
    table = pa.table({"id": ["1"], "p": ["x"]})
    settings = config(partition="p", properties=properties)
    with pytest.raises(errors.UnsupportedError, match="hoodie adopt"):
        keys.record_keys(table, settings)
    assert paths(table, settings) == ["x"]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"hoodie.table.initial.version": "9"}, "id:x"),
        ({"hoodie.table.complex.keygen.encoding": "field_prefixed"}, "id:x"),
        ({"hoodie.table.complex.keygen.encoding": "VALUE_ONLY"}, "x"),
        (
            {
                "hoodie.table.complex.keygen.encoding": "VALUE_ONLY",
                "hoodie.table.initial.version": "9",
            },
            "x",
        ),
    ],
)
def test_single_key_of_complex_is_encoded_as_the_table_says(
    properties: dict[str, str], expected: str
) -> None:
    settings = config(partition="p,q", properties=properties)
    assert keys.record_keys(pa.table({"id": ["x"]}), settings).to_pylist() == [expected]


def test_keys_that_are_generated_are_not_those_of_rows() -> None:
    keyless = table_config.TableConfig(name="t", record_key_fields=())
    with pytest.raises(errors.UnsupportedError, match="has no record key"):
        keys.record_keys(pa.table({"id": ["x"]}), keyless)


def test_encoding_that_there_is_not_is_a_damage() -> None:
    settings = config(partition="p,q", properties={"hoodie.table.complex.keygen.encoding": "BOTH"})
    with pytest.raises(errors.FormatError, match="expected FIELD_PREFIXED or VALUE_ONLY"):
        keys.record_keys(pa.table({"id": ["x"]}), settings)


SLASHES = {"hoodie.datasource.write.slash.separated.date.partitioning": "true"}


@pytest.mark.parametrize(
    "properties",
    [
        SLASHES,
        {
            "hoodie.table.partition_extractor_class": (
                "org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor"
            )
        },
    ],
)
def test_dates_with_slashes_are_folders(properties: dict[str, str]) -> None:
    table = pa.table({"p": ["2024-03-15", "2024-03", None]})
    settings = config(partition="p", properties=properties)
    assert paths(table, settings) == ["2024/03/15", "2024/03", DEFAULT]


@pytest.mark.parametrize("value", ["-5", "a--b", "a-..-b", "a-.hoodie", "a/b"])
def test_slashes_that_lead_elsewhere_are_refused(value: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="'p'"):
        paths(pa.table({"p": [value]}), config(partition="p", properties=SLASHES))


def test_slashes_of_several_fields_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="slashes"):
        paths(pa.table({"p": ["a"], "q": ["b"]}), config(partition="p,q", properties=SLASHES))


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.keygenerator.type": "SIMPLE_AVRO"},
        {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator"},
        {"hoodie.table.keygenerator.type": "CUSTOM", "hoodie.table.partition.fields": "p:SIMPLE"},
    ],
)
def test_generator_that_makes_the_same_keys_is_accepted(properties: dict[str, str]) -> None:
    settings = config(partition="p", properties=properties)
    assert keys.record_keys(pa.table({"id": ["1"]}), settings).to_pylist() == ["1"]
