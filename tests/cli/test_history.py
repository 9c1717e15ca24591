"""`hoodie history`."""

import re
from pathlib import Path

from support.tables.command_line import TRIPS, Answer, Run, put


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def test_what_became_of_a_row(hoodie: Run, table: Path, trips: Path, tmp_path: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    again = put(tmp_path / "again.csv", TRIPS.splitlines()[0] + "\na,Oslo,11,1,1,,\n")
    fine(hoodie("write", table, "--input", again))
    fine(hoodie("delete", table, "--where", "id = 'a'"))
    shown = fine(hoodie("history", table, "--key", "a", "--columns", "city,fare"))
    lines = shown.out.splitlines()[1:]
    instants = [re.search(r"\b\d{17}\b", line) for line in lines[1:]]
    assert [each and each[0] for each in instants] == sorted(each[0] for each in instants if each)
    assert all(" ago" in line or "just now" in line for line in lines[1:])
    assert "inserted  city: Rome, fare: 10.5" in lines[1]
    assert "updated   city: Rome → Oslo, fare: 10.5 → 11.0" in lines[2]
    assert "delete " in lines[3]
    assert "deleted   city: Oslo, fare: 11.0" in lines[3]
    assert "3 changes" in shown.err
    rows = fine(hoodie("history", table, "--key", "a", "--json")).rows
    assert [row["event"] for row in rows] == ["insert", "update", "delete"]
    assert (rows[1]["before"]["city"], rows[1]["after"]["city"]) == ("Rome", "Oslo")
    later = fine(hoodie("history", table, "--key", "a", "--since", rows[0]["instant"], "--json"))
    assert later.rows == rows[1:]
    nothing = fine(hoodie("history", table, "--key", "zz"))
    assert nothing.out == "no write that is known has changed a row of key zz\n"


def test_what_was_cleaned_is_said(hoodie: Run, table: Path, trips: Path) -> None:
    for _ in range(3):
        fine(hoodie("write", table, "--input", trips))
        fine(hoodie("compact", table))
    fine(hoodie("clean", table, "--keep-commits", "1", "--grace", "0"))
    shown = fine(hoodie("history", table, "--key", "a", "--columns", "city"))
    assert "not known any more: " in shown.err
    assert "as of then" in shown.out


def test_keys_that_are_none(hoodie: Run, tmp_path: Path, schema: Path) -> None:
    path = tmp_path / "two"
    asked = ("--schema", schema, "--record-key", "id,seats", "--buckets", "1")
    fine(hoodie("create", path, *asked))
    rows = put(tmp_path / "rows.csv", TRIPS.splitlines()[0] + "\nx,Rome,7,1,1,,\n")
    fine(hoodie("write", path, "--input", rows))
    found = fine(hoodie("history", path, "--key", "x,1", "--json")).rows
    assert [row["record_key"] for row in found] == ["id:x,seats:1"]
    for wrong in ("a", "a,b,1", "a,x"):
        answer = hoodie("history", path, "--key", wrong)
        assert answer.code == 20, answer.err
        assert "id" in answer.err or "seats" in answer.err
    assert hoodie("history", path).code == 2
