"""Files of every format become the same table, and what does not fit is named."""

import dataclasses
import datetime
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie import errors
from hoodie.contract import input_sources
from hoodie.model import schemas
from hoodie.sources import local_files

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("count", pa.int32()),
        pa.field("day", pa.date32()),
    ]
)
ROWS = {"id": ["a", "b"], "count": [1, None], "day": ["2013-01-01", None]}


def source(format_: str = "csv", *, columns: str = "", **options: object) -> input_sources.Source:
    mappings = tuple(
        input_sources.ColumnMapping(name=pair.split("=")[0], source=pair.split("=")[1])
        for pair in columns.split()
    )
    return input_sources.Source(
        format=input_sources.SourceFormat(format_), columns=mappings, **options
    )  # type: ignore[arg-type] # what a test varies


def read(
    folder: Path, content: str | bytes, source: input_sources.Source, name: str = "in"
) -> pa.Table:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_files([str(path)], source)


def read_files(files: list[str], source: input_sources.Source) -> pa.Table:
    """Return the rows; their columns are known from the files' heads alone."""
    result = local_files.read(files, source, SCHEMA)
    assert local_files.carried_columns(files, source, SCHEMA) == tuple(result.column_names)
    assert local_files.stream(files, source, SCHEMA).read_all() == result
    return result


def as_texts(table: pa.Table) -> dict[str, list[object]]:
    return {
        name: [
            None if value is None else str(value) if name == "day" else value for value in values
        ]
        for name, values in table.to_pydict().items()
    }


CSV = "id,count,day\na,1,2013-01-01\nb,NA,\n"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (CSV, {}),
        (CSV.replace(",", "|"), {"delimiter": "|"}),
        (CSV.partition("\n")[2], {"has_header": False, "columns": "id=_c0 count=_c1 day=_c2"}),
        ("x,day,count,id\n,2013-01-01, 1 ,a\n,,NA,b\n", {"columns": "id=id count=count day=day"}),
        ('"day","count","id"\n"2013-01-01","1","a"\n"","NA","b"\n', {}),
    ],
)
def test_csv_is_read(tmp_path: Path, content: str, options: dict[str, object]) -> None:
    result = read(tmp_path, content, source(null_text="NA", **options))  # type: ignore[arg-type] # what a test varies
    assert as_texts(result.select(["id", "count", "day"])) == ROWS
    assert result.schema.field("count").type == pa.int32()


def test_json_is_read(tmp_path: Path) -> None:
    content = '{"id": "a", "count": 1, "day": "2013-01-01"}\n{"id": "b"}\n'
    assert as_texts(read(tmp_path, content, source("json"))) == ROWS


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_rows_are_of_any_length(tmp_path: Path, format_: str) -> None:
    # Arrow reads blocks of 1 MiB, and wants a row to lie in one or two of them.
    texts = ["x" * 3_000_000, "y"]
    if format_ == "csv":
        content = "id,count\n" + "".join(f"{text},1\n" for text in texts)
    else:
        content = "".join(f'{{"id": "{text}", "count": 1}}\n' for text in texts)
    assert read(tmp_path, content, source(format_))["id"].to_pylist() == texts


def test_csv_values_have_any_number_of_lines(tmp_path: Path) -> None:
    # Of more than one block, so that some value lies across the cut.
    texts = [f'{number}, a\n"b"\r\nc' for number in range(100_000)]
    lines = [f'"{text.replace(chr(34), chr(34) * 2)}",1\n' for text in texts]
    content = '"the\nid",count\n' + "".join(lines)
    chosen = dataclasses.replace(
        source(),
        columns=(
            input_sources.ColumnMapping(name="id", source="the\nid"),
            input_sources.ColumnMapping(name="count", source="count"),
        ),
    )
    assert read(tmp_path, content, chosen)["id"].to_pylist() == texts


@pytest.mark.parametrize("format_", ["csv", "json"])
@pytest.mark.parametrize("zone", ["Z", "", "+02:00"])
def test_time_without_zone_is_of_utc(tmp_path: Path, format_: str, zone: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us"))])
    path = tmp_path / "in"

    def times(at: str, local: str) -> list[datetime.datetime]:
        content = f"at,local\n{at},{local}\n"
        if format_ == "json":
            content = f'{{"at": "{at}", "local": "{local}"}}\n'
        path.write_text(content)
        (row,) = local_files.read([str(path)], source(format_), schema).to_pylist()
        return [row["at"], row["local"]]

    hour = 10 if zone == "+02:00" else 12
    noon = datetime.datetime(2013, 1, 31, hour, tzinfo=datetime.UTC)
    local = datetime.datetime(2013, 1, 31)  # noqa: DTZ001 - it has no zone
    assert times(f"2013-01-31 12:00:00{zone}", "2013-01-31") == [noon, local]
    if zone:
        with pytest.raises(
            errors.InvalidInputError, match=r"'local' .*such as 2013-01-31 12:00:00$"
        ):
            times("2013-01-31T12:00:00Z", f"2013-01-31 12:00:00{zone}")
    with pytest.raises(errors.InvalidInputError, match=r"'at' .*such as 2013-01-31 12:00:00Z;"):
        times("31.1.2013", "2013-01-31")


FLOATS = pa.schema([("id", pa.string()), ("single", pa.float32()), ("double", pa.float64())])
INFINITE = [float("inf"), float("-inf"), None]


def write_floats(folder: Path, format_: str, single: list[object], double: list[object]) -> str:
    path = folder / "in"
    ids = [str(row) for row in range(len(single))]
    table = pa.table({"id": ids, "single": single, "double": double})
    if format_ == "parquet":
        parquet.write_table(table, path)
    elif format_ == "json":
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        lines = [
            ",".join("" if cell is None else str(cell) for cell in row.values())
            for row in table.to_pylist()
        ]
        path.write_text("\n".join(["id,single,double", *lines]))
    return str(path)


@pytest.mark.parametrize("format_", ["csv", "parquet"])
def test_infinity_stays_what_it_is(tmp_path: Path, format_: str) -> None:
    path = write_floats(tmp_path, format_, INFINITE, INFINITE)
    result = local_files.read([path], source(format_), FLOATS)
    assert result["single"].to_pylist() == INFINITE
    assert result["double"].to_pylist() == INFINITE


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_number_that_is_too_great_for_its_type_is_refused(tmp_path: Path, format_: str) -> None:
    path = write_floats(tmp_path, format_, [0.5, 1e40], [1.0, 2.0])
    message = r"column 'single' has the value '?1e\+40'? in row 2, expected one of type float"
    with pytest.raises(errors.InvalidInputError, match=message):
        local_files.read([path], source(format_), FLOATS)


def test_text_of_a_number_that_is_too_great_for_a_double_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("id,single,double\na,inf,-1e400\n")
    message = "column 'double' has the value '-1e400' in row 1, expected one of type double"
    with pytest.raises(errors.InvalidInputError, match=message):
        local_files.read([str(path)], source("csv"), FLOATS)


def test_bytes_are_base64_in_json(tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('{"raw": "AP8="}\n{"raw": null}\n{"raw": ""}\n')
    schema = pa.schema([("raw", pa.binary())])
    result = local_files.read([str(path)], source("json"), schema)
    assert result["raw"].to_pylist() == [b"\x00\xff", None, b""]
    path.write_text('{"raw": "no base64!"}\n')
    with pytest.raises(errors.InvalidInputError, match=r"column 'raw' .* not base64"):
        local_files.read([str(path)], source("json"), schema)


def test_parquet_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    days = pa.array(ROWS["day"]).cast(pa.date32())
    parquet.write_table(pa.table({"key": ROWS["id"], "count": ROWS["count"], "day": days}), path)
    chosen = source("parquet", columns="id=key count=count day=day")
    assert as_texts(local_files.read([str(path)], chosen, SCHEMA)) == ROWS


def test_gzipped_file_and_file_uri_are_read(tmp_path: Path) -> None:
    path = tmp_path / "in put.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode()))
    result = local_files.read([path.as_uri()], source(null_text="NA"), SCHEMA)
    assert as_texts(result) == ROWS


def test_files_are_read_in_the_order_given_and_lacking_columns_are_null(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("count,id\n1,z\n")
    (tmp_path / "2").write_text("id\na\n")
    result = read_files([str(tmp_path / name) for name in "12"], source())
    assert result.to_pydict() == {"count": [1, None], "id": ["z", "a"]}


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "Empty CSV"),
        ("id,id\na,b\n", {}, "column 'id' is given twice"),
        (
            "id,colour\na,b\n",
            {},
            "the table has no column 'colour'; its columns are id, count, day",
        ),
        ("id,count\na,1\n", {"columns": "id=key"}, "there is no column 'key'; the columns are id"),
        ("id,count\na\n", {}, "Expected 2 columns, got 1"),
        ("id,count\na,1\nb,NA\n", {}, "column 'count' has the value 'NA' in row 2"),
        ("id,count\na,1\n,2\n", {}, "column 'id' is null in row 2"),
        ('count,id\n1,a\n2,"b\n3,c\n', {}, "the quotes that open in line 3 are not closed"),
        ("{", {"format_": "json"}, "JSON parse error"),
        ('{"id": ' + "[" * 100_000, {"format_": "json"}, "nested more than 100 levels deep"),
        ('{"id": "a", "colour": 1}', {"format_": "json"}, "the table has no column 'colour'"),
        ('{"id": "a", "count": 1.5}', {"format_": "json"}, "column 'count' has the value 1.5 in"),
        ("null", {"format_": "json"}, "found null, expected objects: one a line"),
        (' [{"id": "a"},\n\n null]', {"format_": "json"}, "found null, expected objects"),
        ('{"count": "a"}', {"format_": "json"}, "column 'count' has the value 'a' in row 1"),
        ('{"id": 7, "x": 1}', {"format_": "json"}, "row 1: the table has no column 'x'"),
        ('{"id": 7, "count": [1]}', {"format_": "json"}, "column 'count' is of type list"),
        ("[1, 2]", {"format_": "json"}, "found number, expected objects: one a line"),
        ('{"id": "a"}\n[1]', {"format_": "json"}, "expected objects: one a line, or in one array"),
        (b"PAR1", {"format_": "parquet"}, "Parquet"),
    ],
)
def test_bad_file_is_refused_with_its_name(
    tmp_path: Path, content: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(errors.InvalidInputError, match=message) as caught:
        read(tmp_path, content, source(**options), "bad.txt")
    assert str(caught.value).startswith(f"{tmp_path}/bad.txt: ")


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_missing_file_is_named(format_: str) -> None:
    with pytest.raises(errors.NotFoundError, match="/nowhere/x: there is no such file"):
        local_files.read(["/nowhere/x"], source(format_), SCHEMA)


TABLE = schemas.from_arrow(SCHEMA, "t")


def grown(folder: Path, *files: dict[str, pa.Array], columns: str = "") -> pa.Schema:
    paths = []
    for number, found in enumerate(files):
        paths.append(str(folder / f"{number}.parquet"))
        parquet.write_table(pa.table(found), paths[-1])
    return local_files.grown(paths, source("parquet", columns=columns), TABLE).arrow


def test_parquet_of_many_row_groups_is_never_held_as_a_whole(tmp_path: Path) -> None:
    rows_per_group, groups = 50_000, 40
    columns = pa.schema([("n", pa.int64()), ("x", pa.float64())])
    numbers = np.random.default_rng(1)
    with parquet.ParquetWriter(tmp_path / "in.parquet", columns) as writer:
        for _ in range(groups):
            arrays = [pa.array(numbers.random(rows_per_group) * 1e9) for _ in columns]
            writer.write_table(
                pa.table([arrays[0].cast(pa.int64(), safe=False), arrays[1]], columns)
            )
    size_bytes = (tmp_path / "in.parquet").stat().st_size
    before_bytes, peak_bytes, count = pa.total_allocated_bytes(), 0, 0
    for batch in local_files.stream([str(tmp_path / "in.parquet")], source("parquet"), columns):
        count += batch.num_rows
        peak_bytes = max(peak_bytes, pa.total_allocated_bytes() - before_bytes)
    assert count == rows_per_group * groups
    assert peak_bytes < size_bytes / 4


def test_parquet_files_add_columns_and_widen_types(tmp_path: Path) -> None:
    first = {"count": pa.array([1 << 40]), "new": pa.array([1], pa.int16())}
    second = {"other": pa.array(["x"]), "new": pa.array([1 << 40])}
    found = grown(tmp_path, first, second)
    assert [(each.name, each.type) for each in found] == [
        ("id", pa.string()),
        ("count", pa.int64()),
        ("day", pa.date32()),
        ("new", pa.int64()),
        ("other", pa.string()),
    ]


def test_type_that_is_cast_for_the_table_changes_nothing(tmp_path: Path) -> None:
    """Such as texts that are numbers: reading decides whether they fit."""
    cast = {"count": pa.array(["1"]), "day": pa.array(["2013-01-01"])}
    assert grown(tmp_path, cast).equals(TABLE.arrow)


def test_only_columns_that_are_taken_are_added_and_under_their_new_names(tmp_path: Path) -> None:
    found = grown(tmp_path, {"a": pa.array([1.5]), "b": pa.array([1])}, columns="id=b new=a")
    assert found.names == [*SCHEMA.names, "new"]
    assert found.field("new").type == pa.float64()


@pytest.mark.parametrize("name", ["Count", "_hoodie_record_key", "a b"])
def test_column_that_no_table_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=r"column|columns"):
        grown(tmp_path, {name: pa.array([1])})


@pytest.mark.parametrize(
    ("format_", "content"), [("csv", "id,new\na,1\n"), ("json", '{"id": "a", "new": 1}\n')]
)
def test_text_adds_no_column_and_says_what_does(tmp_path: Path, format_: str, content: str) -> None:
    path = tmp_path / "in"
    path.write_text(content)
    how = source(format_)
    assert local_files.grown([str(path)], how, TABLE) is TABLE
    told = "no column 'new'; .* only parquet input, which carries types, adds columns"
    with pytest.raises(errors.InvalidInputError, match=told):
        local_files.read([str(path)], how, SCHEMA)


FORMS = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def forms(**options: object) -> input_sources.Source:
    return source(delimiter=";", **{"decimal_point": ",", "date_format": "%d.%m.%Y", **options})


def test_numbers_and_dates_of_other_countries(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_text("id;price;day;at\n1;1.234,5;31.01.2000;01.02.2000\n2;;;\n3; -7 ;;\n", "utf-8")
    rows = local_files.read([str(path)], forms(), FORMS)
    assert rows.column("price").to_pylist() == [1234.5, None, -7.0]
    assert [str(day) for day in rows.column("day").to_pylist()] == ["2000-01-31", "None", "None"]
    assert str(rows.column("at")[0].as_py()) == "2000-02-01 00:00:00+00:00"
    assert local_files.stream([str(path)], forms(), FORMS).read_all() == rows


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("1;1.5;;", "'price' has the value '1.5' in row 2, expected a number with a decimal comma"),
        ("1;1.23,5;;", "'price' has the value '1.23,5' in row 2"),
        (
            "1;;2000-01-31;",
            "'day' has the value '2000-01-31' in row 2, expected one of",
        ),
        ("1;;;31.02.2000", "'at' has the value '31.02.2000' in row 2"),
    ],
)
def test_other_forms_than_those_that_are_named_are_refused(
    tmp_path: Path, row: str, complaint: str
) -> None:
    path = tmp_path / "in"
    path.write_text(f"id;price;day;at\n0;0,5;;\n{row}\n", "utf-8")
    for read_all in (
        lambda: local_files.read([str(path)], forms(), FORMS),
        lambda: local_files.stream([str(path)], forms(), FORMS).read_all(),
    ):
        with pytest.raises(errors.InvalidInputError, match=complaint):
            read_all()


@pytest.mark.parametrize("encoding", ["iso8859-1", "utf-16", "cp1252"])
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_text_of_other_encodings(tmp_path: Path, encoding: str, format_: str) -> None:
    text = "id,count,day\né,1,\n" if format_ == "csv" else '{"id": "é", "count": 1}\n'
    path = tmp_path / "in"
    path.write_bytes(text.encode(encoding))
    rows = local_files.read([str(path)], source(format_, encoding=encoding), SCHEMA)
    assert rows.select(["id", "count"]).to_pylist() == [{"id": "é", "count": 1}]
    with pytest.raises(errors.InvalidInputError, match=r"UTF-?8|JSON parse error"):
        local_files.read([str(path)], source(format_), SCHEMA)
