"""Rows are counted, and queried by DuckDB."""

from pathlib import Path

import pytest

from hoodie.cli.commands import sql
from support.tables.command_line import Answer, Run, put


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def test_rows_are_counted(hoodie: Run, table: Path, trips: Path) -> None:
    assert fine(hoodie("count", table)).out == "0 rows\n"
    fine(hoodie("write", table, trips))
    first = fine(hoodie("timeline", table, "--json")).document["instants"][0]["requested_time"]
    gone = put(table.parent / "gone.csv", "id\nb\n")
    fine(hoodie("write", table, gone, "--operation", "delete"))
    assert fine(hoodie("count", table)).out == "2 rows\n"
    assert fine(hoodie("count", table, "--where", "city = 'Rome'", "--json")).document["rows"] == 2
    assert fine(hoodie("count", table, "--as-of", first)).out == "3 rows\n"
    assert fine(hoodie("count", table, "--read-optimized")).out == "3 rows\n"
    wrong = hoodie("count", table, "--where", "ctiy = 'Rome'")
    assert (wrong.code, "did you mean 'city'?" in wrong.err) == (22, True)


def test_tables_are_queried(hoodie: Run, table: Path, trips: Path, tmp_path: Path) -> None:
    fine(hoodie("write", table, trips))
    cities = put(tmp_path / "cities.csv", "city,country\nRome,Italy\nOslo,Norway\n")
    fine(hoodie("write", tmp_path / "c", cities, "--create", "--record-key", "city"))
    grouped = "SELECT city, count(*) AS n FROM t GROUP BY city ORDER BY city"
    assert fine(hoodie("sql", table, grouped, "--json")).rows == [
        {"city": "Oslo", "n": 1},
        {"city": "Rome", "n": 2},
    ]
    joined = "SELECT country FROM \"table\" JOIN c USING (city) WHERE id = 'b'"
    answer = fine(hoodie("sql", table, joined, "--table", f"c={tmp_path / 'c'}"))
    assert answer.out == '"country"\n"Norway"\n'
    named = ("write", tmp_path / "T", cities, "--create", "--record-key", "city")
    fine(hoodie(*named))
    assert fine(hoodie("sql", tmp_path / "T", "SELECT count(*) AS n FROM T", "--json")).rows == [
        {"n": 2}
    ]
    path = tmp_path / "out.parquet"
    assert "3 rows" in fine(hoodie("sql", table, "FROM t", "--output", path)).out
    assert path.exists()
    for query, complaint in (
        ("SELCT 1", "DuckDB: Parser Error"),
        ("SELECT fair FROM t", "DuckDB: Binder Error"),
        ("SELECT CAST(id AS INTEGER) FROM t", "DuckDB: Conversion Error"),
        ("", "expected a query"),
    ):
        refused = hoodie("sql", table, query)
        assert (refused.code, complaint in refused.err) == (20, True), query


def test_missing_duckdb_is_named(hoodie: Run, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(sql.importlib, "import_module", missing)
    with pytest.raises(Exception, match="needs the package duckdb"):
        sql._duckdb()
    monkeypatch.undo()
    assert fine(hoodie("sql", table, "SELECT count(*) AS n FROM t", "--json")).rows == [{"n": 0}]
