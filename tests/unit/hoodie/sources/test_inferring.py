"""The columns of a new table are those of the files that people have."""

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.model import schemas
from hoodie.sources import inferring, local_files

CSV = input_sources.Source(format=input_sources.SourceFormat.CSV)
JSON = input_sources.Source(format=input_sources.SourceFormat.JSON)
PARQUET = input_sources.Source(format=input_sources.SourceFormat.PARQUET)
INSTANT = pa.timestamp("us", tz="UTC")
ODD = pa.table(
    {
        "ns": pa.array([1001, -1], pa.timestamp("ns")),
        "zoned": pa.array([1001, None], pa.timestamp("ns", tz="Europe/Oslo")),
        "inner": pa.array([[1001], [-1]], pa.list_(pa.timestamp("ns"))),
        "unsigned": pa.array([2**64 - 1, 0], pa.uint64()),
        "span": pa.array([5, None], pa.duration("ms")),
        "clock": pa.array([datetime.time(1, 2, 3), None]),
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "wide": pa.array([1, None], pa.decimal256(30, 0)),
        "none": pa.nulls(2),
    }
)


def put(folder: Path, content: str, name: str = "in") -> str:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_types_of_csv_are_those_of_its_first_rows(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        "id,name,born,seen,zoned,score,late,none\n"
        "1,Ann,2001-02-03,2020-01-01 10:00:00,2020-01-01T10:00:00+02:00,1.5,10:00:00,\n"
        "2,,,2020-01-01 10:00:00.5,,2,,\n",
    )
    found = inferring.columns_of([path], CSV, {})
    assert found.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("born", pa.date32()),
            ("seen", INSTANT),
            ("zoned", INSTANT),
            ("score", pa.float64()),
            ("late", pa.string()),
            ("none", pa.string()),
        ]
    )
    assert found.notes == ("column 'none' has no values, and becomes string",)
    row = local_files.read([path], CSV, found.schema).to_pylist()[0]
    assert row["zoned"] == datetime.datetime(2020, 1, 1, 8, tzinfo=datetime.UTC)
    assert row["late"] == "10:00:00"


def test_types_that_are_given_are_not_inferred(tmp_path: Path) -> None:
    path = put(tmp_path, "zip,n\n01234,1\n")
    found = inferring.columns_of([path], CSV, {"zip": pa.string(), "n": pa.float64()})
    assert found.schema == pa.schema([("zip", pa.string()), ("n", pa.float64())])
    assert local_files.read([path], CSV, found.schema).to_pylist() == [{"zip": "01234", "n": 1.0}]
    with pytest.raises(
        errors.InvalidInputError,
        match="given types: there is no column 'zap'; the columns are zip, n; did you mean 'zip'",
    ):
        inferring.columns_of([path], CSV, {"zap": pa.string()})


def test_types_of_json_may_be_nested(tmp_path: Path) -> None:
    lines = '{"id": 1, "s": {"a": [1, 2]}}\n{"id": 2, "s": {"b": "2020-01-01T00:00:00Z"}}\n'
    found = inferring.columns_of([put(tmp_path, lines)], JSON, {})
    inner = pa.struct([("a", pa.list_(pa.int64())), ("b", INSTANT)])
    assert found.schema == pa.schema([("id", pa.int64()), ("s", inner)])
    rows = local_files.read([str(tmp_path / "in")], JSON, found.schema)
    assert rows.to_pylist()[1]["s"]["b"] == datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def test_files_are_joined_by_the_wider_types(tmp_path: Path) -> None:
    files = [put(tmp_path, "id,a\n1,1\n", "one"), put(tmp_path, "id,b\n1.5,x\n", "two")]
    assert inferring.columns_of(files, CSV, {}).schema == pa.schema(
        [("id", pa.float64()), ("a", pa.int64()), ("b", pa.string())]
    )
    files.append(put(tmp_path, "id\nx\n", "three"))
    with pytest.raises(errors.InvalidInputError, match="give the column a type by --columns"):
        inferring.columns_of(files, CSV, {})


def test_values_of_types_that_no_table_has_are_kept_in_others(tmp_path: Path) -> None:
    path = str(tmp_path / "odd.parquet")
    parquet.write_table(ODD, path)
    found = inferring.columns_of([path], PARQUET, {})
    assert [note.split("'")[1] for note in found.notes] == [
        name for name in ODD.column_names if name != "kind"
    ]
    schemas.from_arrow(found.schema, "odd")  # All of these are columns of a table.
    first, second = local_files.read([path], PARQUET, found.schema).to_pylist()
    assert str(first["ns"]) == str(first["inner"][0]) == "1970-01-01 00:00:00.000001"
    assert str(second["ns"]) == "1969-12-31 23:59:59.999999"
    assert (first["unsigned"], first["span"], first["clock"]) == (2**64 - 1, 5, "01:02:03.000000")
    assert (first["kind"], first["wide"], first["none"]) == ("a", 1, None)
    streamed = local_files.stream([path], PARQUET, found.schema).read_all().to_pylist()
    assert streamed == [first, second]


def test_name_that_no_column_can_have_is_refused_with_a_way_out(tmp_path: Path) -> None:
    path = put(tmp_path, "id,Preis in €,2nd\n1,2,3\n")
    with pytest.raises(errors.InvalidInputError) as caught:
        inferring.columns_of([path], CSV, {})
    assert "--rename 'Preis_in=Preis in €' --rename '_2nd=2nd'" in str(caught.value)
    renames = tuple(
        input_sources.ColumnMapping(name=name, source=old)
        for name, old in (("price", "Preis in €"), ("second", "2nd"))
    )
    source = input_sources.Source(format=input_sources.SourceFormat.CSV, renames=renames)
    found = inferring.columns_of([path], source, {}).schema
    assert found.names == ["id", "price", "second"]
    rows = [{"id": 1, "price": 2, "second": 3}]
    assert local_files.read([path], source, found).to_pylist() == rows
    assert local_files.stream([path], source, found).read_all().to_pylist() == rows


def test_renamed_keys_of_json(tmp_path: Path) -> None:
    path = put(tmp_path, '{"id": 1, "a b": 2}\n')
    renames = (input_sources.ColumnMapping(name="ab", source="a b"),)
    source = input_sources.Source(format=input_sources.SourceFormat.JSON, renames=renames)
    found = inferring.columns_of([path], source, {}).schema
    assert local_files.read([path], source, found).to_pylist() == [{"id": 1, "ab": 2}]


@pytest.mark.parametrize(
    ("name", "old", "complaint"),
    [
        ("b", "a", "column 'b' of the table is given both 'a' and 'b'"),
        ("c", "aa", "there is no column 'aa'; the columns are a, b; did you mean 'a'"),
    ],
)
def test_no_column_is_lost_by_a_rename(tmp_path: Path, name: str, old: str, complaint: str) -> None:
    path = put(tmp_path, "a,b\n1,2\n")
    renames = (input_sources.ColumnMapping(name=name, source=old),)
    source = input_sources.Source(format=input_sources.SourceFormat.CSV, renames=renames)
    with pytest.raises(errors.InvalidInputError, match=complaint):
        inferring.columns_of([path], source, {})
    with pytest.raises(errors.InvalidInputError, match=complaint):
        local_files.read([path], source, pa.schema([("a", pa.int64()), ("b", pa.int64())]))
