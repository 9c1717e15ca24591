"""Tables are made of the files that people have, and written from them in one step."""

import csv
import io
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hoodie.cli import inputs
from support.tables.command_line import Answer, Run, put

PEOPLE = "id,name,born\n1,Ann,2001-02-03\n2,Bob,\n"


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def columns(hoodie: Run, table: Path) -> dict[str, str]:
    shown = fine(hoodie("describe", table, "--json")).document
    return {column["name"]: column["type"] for column in shown["columns"]}


@pytest.mark.parametrize("has_pieces", [False, True])
def test_file_becomes_a_table_in_one_step(
    hoodie: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_pieces: bool
) -> None:
    if has_pieces:
        monkeypatch.setattr(inputs, "_BYTES_AT_ONCE", 0)
    people, table = put(tmp_path / "people.csv", PEOPLE), tmp_path / "t"
    write = ("write", table, people, "--create", "--record-key", "id")
    fine(hoodie(*write))
    fine(hoodie(*write))  # As a job does each day.
    assert columns(hoodie, table) == {"id": "int64", "name": "string", "born": "date32[day]"}
    assert fine(hoodie("read", table)).out == '"id","name","born"\n1,"Ann",2001-02-03\n2,"Bob",\n'
    other = hoodie("write", table, people, "--create", "--record-key", "name")
    assert other.code == 24
    assert "is there, with --record-key id, not name" in other.err
    typed = hoodie(*write, "--columns", "id string")
    assert typed.code == 24
    assert "is there, with column id long, not string" in typed.err
    fine(hoodie(*write, "--columns", "id long"))
    assert "without a column zip" in hoodie(*write, "--columns", "zip string").err
    assert fine(hoodie("check", table)).code == 0


@pytest.mark.parametrize("has_pieces", [False, True])
def test_file_without_rows_makes_no_commit(
    hoodie: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_pieces: bool
) -> None:
    if has_pieces:
        monkeypatch.setattr(inputs, "_BYTES_AT_ONCE", 0)
    table, empty = tmp_path / "t", put(tmp_path / "empty.csv", "id,name,born\n")
    said = "the input has no rows, nothing was written\n"
    assert fine(hoodie("write", table, empty, "--create", "--record-key", "id")).out == said
    for operation in ("insert", "bulk_insert", "delete"):
        assert fine(hoodie("write", table, empty, "--operation", operation)).out == said
    nothing = fine(hoodie("write", table, empty, "--count", "--json")).document
    assert (nothing["is_written"], nothing["instant"], nothing["records"]) == (False, None, 0)
    bad = put(tmp_path / "bad.csv", "id,name,born\n,Ann,2001-02-03\n")
    rejected = hoodie("write", table, bad, "--reject-file", tmp_path / "rejected.csv")
    assert (fine(rejected).out, "1 row rejected" in rejected.err) == (said, True)
    assert fine(hoodie("timeline", table)).out == "the timeline is empty\n"
    # A batch is known by its commit, and an overwrite without rows leaves none.
    batch = ("--batch-id", "1", "--writer-id", "w")
    assert "upsert of no rows" in fine(hoodie("write", table, empty, *batch)).out
    assert "batch 1 is in the table" in fine(hoodie("write", table, empty, *batch)).out
    people = put(tmp_path / "people.csv", PEOPLE)
    fine(hoodie("write", table, people))
    fine(hoodie("write", table, empty, "--operation", "insert_overwrite_table"))
    assert fine(hoodie("count", table)).out == "0 rows\n"


def test_bad_file_makes_no_table(hoodie: Run, tmp_path: Path) -> None:
    rows = "".join(f"{number},\n" for number in range(2_000_000))
    late = put(tmp_path / "late.csv", f"id,n\n{rows}x,\n")  # Beyond what types are inferred from.
    answer = hoodie("write", tmp_path / "t", late, "--create", "--record-key", "id")
    assert answer.code == 20
    assert "column 'id' has the value 'x' in row 2000001, expected one of type int64" in answer.err
    assert not (tmp_path / "t").exists()
    answer = hoodie("write", tmp_path / "t", late, "--create")
    assert (answer.code, "expected --record-key as well" in answer.err) == (2, True)
    answer = hoodie("write", tmp_path / "t", late, "--record-key", "id")
    assert (answer.code, "--record-key is an option of --create only" in answer.err) == (2, True)
    assert hoodie("write", tmp_path / "t", late).code == 22


def test_columns_are_given_or_taken_from_rows(hoodie: Run, tmp_path: Path) -> None:
    given = "id long, born date, price decimal(10, 2)"
    fine(hoodie("create", tmp_path / "given", "--columns", given, "--record-key", "id"))
    assert columns(hoodie, tmp_path / "given") == {
        "id": "int64",
        "born": "date32[day]",
        "price": "decimal128(10, 2)",
    }
    zips = put(tmp_path / "zips.csv", "id,zip code\n1,01234\n")
    create = ("create", tmp_path / "zips", "--schema", zips, "--record-key", "id")
    assert "--rename 'zip_code=zip code'" in hoodie(*create).err
    fine(hoodie(*create, "--rename", "zip=zip code", "--columns", "zip string"))
    fine(hoodie("write", tmp_path / "zips", zips, "--rename", "zip=zip code"))
    assert fine(hoodie("read", tmp_path / "zips")).out == '"id","zip"\n1,"01234"\n'
    assert hoodie("create", tmp_path / "none", "--record-key", "id").code == 2
    wrong = hoodie("create", tmp_path / "none", "--columns", "id lnog", "--record-key", "id")
    assert (wrong.code, "did you mean long?" in wrong.err) == (20, True)
    assert not (tmp_path / "none").exists()


def test_types_of_pandas_are_taken_with_a_note(hoodie: Run, tmp_path: Path) -> None:
    path = tmp_path / "seen.parquet"
    seen = pa.array([1_577_836_800_000_000_001], pa.timestamp("ns"))
    parquet.write_table(pa.table({"id": ["a"], "seen": seen}), path)
    answer = fine(hoodie("write", tmp_path / "t", path, "--create", "--record-key", "id"))
    assert "column 'seen' is timestamp[ns], and becomes timestamp[us]" in answer.err
    assert fine(hoodie("read", tmp_path / "t", "--json")).rows[0]["seen"].startswith("2020-01-01")


def test_columns_that_the_input_lacks_are_null(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, trips))
    some = put(table.parent / "some.csv", "id,city\na,Bari\n")
    answer = fine(hoodie("write", table, some))
    assert "the input has no fare, seats, updated_at, day, at: null in all rows" in answer.err
    (row,) = fine(hoodie("read", table, "--json", "--where", "id = 'a'")).rows
    assert (row["city"], row["fare"]) == ("Bari", None)


def test_json_with_a_field_that_its_column_lacks_is_refused_by_name(
    hoodie: Run, tmp_path: Path
) -> None:
    table, some = tmp_path / "t", put(tmp_path / "a.json", '{"id": 1, "s": {"a": [{"b": 1}]}}')
    fine(hoodie("write", table, some, "--create", "--record-key", "id"))
    for text, complaint in (
        ('{"id": 1, "s": {"a": [], "z": 3}}', "column 's' has no field 'z'; its fields are a"),
        ('{"id": 1, "s": {"a": [{"bb": 1}]}}', "column 's.a' has no field 'bb'; its fields are b"),
    ):
        refused = hoodie("write", table, put(tmp_path / "b.json", text))
        assert (refused.code, complaint in refused.err) == (20, True), refused.err


def test_files_in_other_forms_are_refused_with_the_option_that_reads_them(
    hoodie: Run, tmp_path: Path
) -> None:
    table = tmp_path / "t"
    fine(hoodie("create", table, "--columns", "id long, fare double, day date", "--record-key=id"))
    for text, complaint in (
        ("id;fare\n1;2\n", "if ';' is the delimiter, say so by --delimiter ';'"),
        ("id;fare\n1;2,5\n", "Expected 1 columns, got 2: 1;2,5; if another character than a"),
        ('id,fare\n1,"2,5"\n', "has the value '2,5' in row 1, expected one of type double; of"),
        ("id,day\n1,31.12.1999\n", "other forms are read by --date-format, such as %d.%m.%Y"),
    ):
        refused = hoodie("write", table, put(tmp_path / "a.csv", text))
        assert (refused.code, complaint in refused.err) == (20, True), refused.err


def test_standard_input_patterns_and_tabs(
    hoodie: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipe(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    pipe(json.dumps({"id": "a", "city": "Rome"}))
    fine(hoodie("write", table, "-", "--format", "json"))
    pipe("id\nb\n")
    refused = hoodie("write", table, "-")
    assert (refused.code, "expected --format as well" in refused.err) == (20, True)
    pipe("id,fair\nb,1\n")
    refused = hoodie("write", table, "-", "--format", "csv")
    assert refused.err.startswith("error: standard input: the table has no column 'fair'")
    pipe("id,fare\na,1\nb,x\n")
    rejects = table.parent / "rejects.csv"
    fine(hoodie("write", table, "-", "--format", "csv", "--reject-file", rejects))
    assert rejects.read_text().splitlines()[1].startswith("standard input,2,fare,")
    put(table.parent / "day1.tsv", "id\tcity\nc\tOslo\n")
    put(table.parent / "day2.tsv", "id\tcity\nd\tBari\n")
    fine(hoodie("write", table, table.parent / "day*.tsv"))
    rows = fine(hoodie("read", table, "--json")).rows
    assert {row["id"]: row["city"] for row in rows} == {
        "a": None,
        "c": "Oslo",
        "d": "Bari",
    }
    nothing = hoodie("write", table, table.parent / "night*.tsv")
    assert (nothing.code, "no file matches" in nothing.err) == (20, True)
    folder = hoodie("write", table, table.parent)
    assert (folder.code, "is a folder, expected files, such as '" in folder.err) == (20, True)


BAD = """id,n,day
1,2,2020-01-01
x,3,
4
5,y,2020-13-01
6,7,
,1,
8,9,2020-02-30
9,10,2020-03-01
"""


def test_rows_that_do_not_fit_go_to_a_file(hoodie: Run, tmp_path: Path) -> None:
    table, bad, rejects = tmp_path / "t", put(tmp_path / "bad.csv", BAD), tmp_path / "rejects.csv"
    columns = ("--columns", "id long, n int, day date")
    write = ("write", table, bad, "--create", "--record-key", "id", *columns)
    refused = hoodie(*write)
    assert (refused.code, "bad.csv: " in refused.err) == (20, True)
    assert not table.exists()
    done = fine(hoodie(*write, "--reject-file", rejects, "--json"))
    assert (done.document["rejected"], done.document["records"]) == (5, 3)
    assert sorted(row["id"] for row in fine(hoodie("read", table, "--json")).rows) == [1, 6, 9]
    with rejects.open(newline="") as stream:
        told = {int(row["row"]): row for row in csv.DictReader(stream)}
    assert {number: row["column"] for number, row in told.items()} == {
        2: "id",
        3: "",
        4: "n",
        6: "id",
        7: "day",
    }
    assert told[3]["line"] == "4"
    assert json.loads(told[4]["line"]) == {"id": "5", "n": "y", "day": "2020-13-01"}
    assert told[6]["problem"] == "is null, expected a value"
    again = hoodie(*write, "--reject-file", rejects)
    assert (again.code, "is there already" in again.err) == (20, True)
    other = hoodie("write", table, put(tmp_path / "a.parquet", ""), "--reject-file", tmp_path / "r")
    assert (other.code, "--reject-file is an option of CSV and JSON" in other.err) == (20, True)


BAD_OBJECTS = [
    ('{"id": 1, "n": 1, "tags": ["a"]}', None),
    ('{"id": 2, "n": "x"}', "n"),
    ('{"id": 3, "n"', ""),
    ('{"id": "y", "n": 1.5}', "id"),
    ("", "no row"),
    ('{"id": 5, "m": 1}', ""),
    ("[7]", ""),
    ('{"n": 1}', "id"),
    ('{"id": 6, "id": 6}', ""),
    ('{"id": 7, "tags": [1, {}]}', "tags"),
    ('{"id": 8, "day": "2020-02-30"}', "day"),
    ('{"id": 9, "n": null, "day": "2020-02-29"}', None),
]


@pytest.mark.parametrize("is_array", [False, True], ids=["lines", "array"])
def test_objects_that_do_not_fit_go_to_a_file(
    hoodie: Run, tmp_path: Path, *, is_array: bool
) -> None:
    rows = [row for row in BAD_OBJECTS if not is_array or row[0] not in ("", BAD_OBJECTS[2][0])]
    texts = [text for text, _ in rows]
    content = "[" + ",\n".join(texts) + "]" if is_array else "\n".join(texts)
    table, bad, rejects = tmp_path / "t", put(tmp_path / "bad.json", content), tmp_path / "rejects"
    good = put(tmp_path / "good.json", '{"id": 0, "n": 0, "tags": ["a"], "day": "2020-01-01"}')
    create = ("--create", "--record-key", "id", "--columns", "n int, day date")
    fine(hoodie("write", table, good, *create))
    write = ("write", table, bad)
    refused = hoodie(*write)
    assert (refused.code, "bad.json: " in refused.err) == (20, True)
    done = fine(hoodie(*write, "--reject-file", rejects, "--json"))
    told = [row for row in rows if row[1] != "no row"]
    expected = {number: column for number, (_, column) in enumerate(told, 1) if column is not None}
    assert (done.document["rejected"], done.document["records"]) == (len(expected), 2)
    assert sorted(row["id"] for row in fine(hoodie("read", table, "--json")).rows) == [0, 1, 9]
    with rejects.open(newline="") as stream:
        found = {int(row["row"]): row for row in csv.DictReader(stream)}
    assert {number: row["column"] for number, row in found.items()} == expected
    assert found[2]["problem"].startswith("has the value 'x', expected one of type int32")
    assert json.loads(found[2]["line"])["n"] == "x"
    assert (
        "'m'" in found[next(n for n, (text, _) in enumerate(told, 1) if '"m"' in text)]["problem"]
    )


def test_array_that_breaks_off_is_refused(hoodie: Run, tmp_path: Path) -> None:
    bad = put(tmp_path / "bad.json", '[{"id": 1}, {"id": 2, "n}, {"id": 3}]')
    answer = hoodie(
        *("write", tmp_path / "t", bad, "--create", "--record-key", "id"),
        *("--columns", "id long", "--reject-file", tmp_path / "rejects"),
    )
    assert (answer.code, "row 2 is not JSON: " in answer.err) == (20, True)


def test_json_column_of_several_types_is_one_of_texts(hoodie: Run, tmp_path: Path) -> None:
    lines = '{"id": 1, "zip": 12345, "n": 1}\n{"id": 2, "zip": "01234", "n": 2}\n{"id": 3}\n'
    more = '{"id": 4, "zip": 1.50}\n{"id": 5, "zip": {"a": [true]}}\n{"id": 6, "zip": false}\n'
    table = tmp_path / "t"
    first = put(tmp_path / "a.json", lines)
    fine(hoodie("write", table, first, "--create", "--record-key", "id"))
    fine(hoodie("write", table, put(tmp_path / "b.json", more)))
    rows = fine(hoodie("read", table, "--json")).rows
    assert {row["id"]: row["zip"] for row in rows} == {
        1: "12345",
        2: "01234",
        3: None,
        4: "1.50",
        5: '{"a": [true]}',
        6: "false",
    }
    assert {row["id"]: row["n"] for row in rows if row["n"]} == {1: 1, 2: 2}


def test_what_all_rows_fit_makes_no_file_of_rejects(hoodie: Run, tmp_path: Path) -> None:
    people = put(tmp_path / "people.csv", PEOPLE)
    fine(
        hoodie(
            *("write", tmp_path / "t", people, "--create", "--record-key", "id"),
            *("--reject-file", tmp_path / "rejects.csv"),
        )
    )
    assert not (tmp_path / "rejects.csv").exists()


def test_text_of_other_countries(hoodie: Run, tmp_path: Path) -> None:
    path = tmp_path / "preise.csv"
    path.write_bytes("id;Größe;Tag\n1;1.234,5;31.01.2000\n".encode("cp1252"))
    forms = ("--encoding", "cp1252", "--delimiter", ";", "--decimal", ",", "--date-format")
    fine(
        hoodie(
            *("write", tmp_path / "t", path, *forms, "%d.%m.%Y", "--rename", "size=Größe"),
            *("--create", "--record-key", "id", "--columns", "size double"),
        )
    )
    (row,) = fine(hoodie("read", tmp_path / "t", "--json")).rows
    assert row == {"id": 1, "size": 1234.5, "Tag": "2000-01-31"}
    for options, complaint in (
        (("--encoding", "klingon"), "expected one that Python has"),
        (("--decimal", ";"), "expected . or ,"),
        (("--date-format", "dd.mm"), "expected a form such as %d.%m.%Y"),
    ):
        refused = hoodie("write", tmp_path / "t", path, *options)
        assert (refused.code, complaint in refused.err) == (20, True)


def test_json_array_is_read(hoodie: Run, tmp_path: Path) -> None:
    path = put(tmp_path / "a.json", '[\n {"id": 1, "t": "a,]"},\n {"id": 2,\n  "t": "{"}\n]\n')
    fine(hoodie("write", tmp_path / "t", path, "--create", "--record-key", "id"))
    rows = fine(hoodie("read", tmp_path / "t", "--json")).rows
    assert sorted((row["id"], row["t"]) for row in rows) == [(1, "a,]"), (2, "{")]


def test_text_in_another_encoding_is_refused_in_a_sentence_alone(
    program_path: Path, tmp_path: Path
) -> None:
    """Arrow prints a traceback where it hands such a row to us."""
    path = tmp_path / "preise.csv"
    path.write_bytes("id;ort\n1;1,5;München\n".encode("latin-1"))
    answer = subprocess.run(
        [program_path, "write", tmp_path / "t", path, "--create", "--record-key", "id"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 20
    assert answer.stderr == (
        f"error: {path}: byte 14 (0xfc) is not UTF-8, expected UTF-8, or another encoding that is "
        "named, such as latin-1\n"
    )


def test_delimiter_that_is_another_is_suspected(hoodie: Run, tmp_path: Path) -> None:
    path = put(tmp_path / "preise.csv", "id;ort\n1;1,5;Rome\n")
    answer = hoodie("write", tmp_path / "t", path, "--create", "--record-key", "id")
    assert (answer.code, "say so by --delimiter ';'" in answer.err) == (20, True)


@pytest.mark.parametrize("name", ["tsv", "jsonl", "ndjson"])
def test_formats_have_the_names_that_files_end_with(hoodie: Run, tmp_path: Path, name: str) -> None:
    text = "id\tcity\n1\tRome\n" if name == "tsv" else '{"id": 1, "city": "Rome"}\n'
    path = put(tmp_path / "rows", text)
    options = ("--format", name, "--create", "--record-key", "id")
    fine(hoodie("write", tmp_path / "t", path, *options))
    assert fine(hoodie("read", tmp_path / "t", "--json")).rows == [{"id": 1, "city": "Rome"}]


def test_maps_are_objects_of_json(hoodie: Run, tmp_path: Path) -> None:
    made = pa.table(
        {
            "id": [1],
            "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            "note": ["old"],
        }
    )
    parquet.write_table(made, tmp_path / "made.parquet")
    table = tmp_path / "table"
    fine(hoodie("write", table, tmp_path / "made.parquet", "--create", "--record-key", "id"))
    shown = hoodie("read", table, "--json").out
    assert shown == '{"id":1,"m":{"a": 1},"note":"old"}\n'
    assert hoodie("read", table).out == '"id","m","note"\n1,"{""a"": 1}","old"\n'
    rows = '{"id":2,"m":{"b":null,"c":3}}\n{"id":3}\n{"id":4,"m":[["d",4]],"note":5}\n'
    fine(hoodie("write", table, put(tmp_path / "rows.json", shown + rows)))
    assert sorted(hoodie("read", table, "--json").rows, key=lambda row: row["id"]) == [
        {"id": 1, "m": {"a": 1}, "note": "old"},
        {"id": 2, "m": {"b": None, "c": 3}, "note": None},
        {"id": 3, "m": None, "note": None},
        {"id": 4, "m": {"d": 4}, "note": "5"},
    ]
    wrong = put(tmp_path / "wrong.json", '{"id":5,"m":{"e":"x"}}\n{"id":6,"m":7}\n{"id":7}\n')
    refused = hoodie("write", table, wrong)
    assert refused.code == 20
    assert "column 'm' has a value that is not a map<string, int64>" in refused.err
    rejects = tmp_path / "rejects.csv"
    fine(hoodie("write", table, wrong, "--reject-file", rejects))
    assert [line.split(",")[1:3] for line in rejects.read_text().splitlines()[1:]] == [
        ["1", "m"],
        ["2", "m"],
    ]
