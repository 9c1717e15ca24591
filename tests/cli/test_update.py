"""`hoodie update`."""

import re
from pathlib import Path

import pytest

from support.tables.command_line import Run

WHERE = ("--where", "city = 'Rome'")


@pytest.fixture
def filled(hoodie: Run, table: Path, trips: Path) -> Path:
    assert hoodie("write", table, "--input", trips).code == 0
    return table


def test_columns_of_rows_that_match_are_set_after_a_dry_run(hoodie: Run, filled: Path) -> None:
    values = ("fare = 1.5, seats = null", "day = '2026-11-20'")
    shown = hoodie("update", filled, *values, *WHERE, "--dry-run")
    assert (shown.code, shown.out) == (0, "2 rows would be updated\n"), shown.err
    done = hoodie("update", filled, *values, *WHERE)
    assert re.match(r"committed \d{17}: updated 2 rows, \d files?, ", done.out), done.err
    rows = {row["id"]: row for row in hoodie("read", filled, "--json").rows}
    assert [(rows[key]["fare"], rows[key]["seats"]) for key in "abc"] == [
        (1.5, None),
        (None, 2),
        (1.5, None),
    ]
    assert [rows[key]["day"] for key in "abc"] == ["2026-11-20", "2013-01-02", "2026-11-20"]
    nothing = hoodie("update", filled, "fare = 1", "--where", "city = 'Bonn'")
    assert nothing.out == "no rows match, nothing was updated\n"
    all_of_them = hoodie("update", filled, "fare = 2", "--json").document
    assert (all_of_them["rows"], all_of_them["is_dry_run"]) == (3, False)


@pytest.mark.parametrize(
    ("values", "code", "complaint"),
    [
        (("fare",), 20, "assignment 'fare', character 5: found the end, expected ="),
        (("fare = seats",), 20, "found 'seats', expected a number, a 'text', true or false"),
        (("fare = 1 * 2",), 20, "'*' begins nothing that an assignment holds"),
        (("fare = 1 seats = 2",), 20, "expected a comma or the end"),
        (("fare = 1, fare = 2",), 20, "sets column 'fare' twice"),
        (("fare = 1", "fare = 2"), 20, "column 'fare' is set twice"),
        (("fair = 1",), 22, "there is no column 'fair'"),
        (("id = 'x'",), 20, "is part of the record key or of the partition"),
        (("day = 5",), 20, "column 'day' is date32[day], and 5 is not one"),
        (("seats = 1.5",), 20, "column 'seats' is int32"),
        (("seats = 'many'",), 20, "column 'seats' is int32, and 'many' is not one"),
        (("fare = 'x'", "--concurrency", "nbcc"), 20, "column 'fare' is double"),
        (("fare = 1", "--concurrency", "nbcc"), 24, "cannot be updated by a filter in mode"),
    ],
)
def test_what_does_not_fit_is_refused(
    hoodie: Run, filled: Path, values: tuple[str, ...], code: int, complaint: str
) -> None:
    refused = hoodie("update", filled, *values)
    assert refused.code == code, refused.err
    assert complaint in " ".join(refused.err.split())
    if code != 24:
        assert hoodie("update", filled, *values, "--dry-run").code == code


def test_rows_of_a_table_without_key_fields_are_updated(
    hoodie: Run, tmp_path: Path, schema: Path, trips: Path
) -> None:
    path = tmp_path / "keyless"
    made = ("--index", "simple", "--partition-by", "city")
    needed = hoodie("create", path, "--schema", schema)
    assert needed.code == 20
    assert "or --index simple or bloom, with which keys are generated" in needed.err
    assert hoodie("create", path, "--schema", schema, *made).code == 0
    for _ in range(2):
        assert hoodie("write", path, "--input", trips, "--operation", "insert").code == 0
    refused = hoodie("write", path, "--input", trips)
    assert refused.code == 21
    assert "hoodie update --where" in refused.err
    keys = {row["_hoodie_record_key"] for row in _rows(hoodie, path)}
    assert hoodie("update", path, "fare = 9", "--where", "id = 'a'").code == 0
    rows = _rows(hoodie, path)
    assert {row["_hoodie_record_key"] for row in rows} == keys
    assert sorted(row["id"] for row in rows if row["fare"] == 9) == ["a", "a"]
    assert len(rows) == 6
    (changed, *_) = (row["_hoodie_record_key"] for row in rows if row["fare"] == 9)
    history = hoodie("history", path, "--key", changed, "--json").rows
    assert [row["event"] for row in history] == ["insert", "update"]
    kept = tmp_path / "kept"
    first = hoodie("changes", path, "--position", kept, "--json").rows
    assert {row["_hoodie_record_key"] for row in first} == keys
    assert hoodie("delete", path, "--where", "id = 'a'").code == 0
    deleted = hoodie("changes", path, "--position", kept, "--json").rows
    gone = {row["_hoodie_record_key"] for row in rows if row["id"] == "a"}
    assert {(row["_change"], row["_hoodie_record_key"]) for row in deleted} == {
        ("delete", key) for key in gone
    }


def _rows(hoodie: Run, path: Path) -> list[dict[str, object]]:
    names = "_hoodie_record_key,_hoodie_partition_path,id,fare"
    return hoodie("read", path, "--json", "--columns", names).rows
