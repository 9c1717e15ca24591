"""`hoodie delete`."""

import re
from pathlib import Path

import pytest

from support.tables.command_line import Run, put


def test_rows_that_match_are_deleted_after_a_dry_run(hoodie: Run, table: Path, trips: Path) -> None:
    assert hoodie("write", table, "--input", trips).code == 0
    where = ("--where", "city = 'Rome'")
    shown = hoodie("delete", table, *where, "--dry-run")
    assert (shown.code, shown.out) == (0, "2 rows would be deleted\n"), shown.err
    done = hoodie("delete", table, *where)
    assert re.match(r"committed \d{17}: deleted 2 rows, \d files?, ", done.out), done.err
    again = hoodie("delete", table, *where, "--json")
    assert (again.document["instant"], again.document["rows"]) == (None, 0)
    assert hoodie("delete", table, *where).out == "no rows match, nothing was deleted\n"
    (row,) = _rows(hoodie, table)
    assert row.startswith('"b","Oslo"')


def test_filter_is_needed_and_has_to_be_right(hoodie: Run, table: Path) -> None:
    assert hoodie("delete", table).code == 20
    assert hoodie("delete", table, "--where", "fare > 1", "--partition", "Rome").code == 20
    assert hoodie("delete", table, "--where", "city =").code == 20
    refused = hoodie("delete", table, "--where", "fare > 1", "--concurrency", "nbcc")
    assert refused.code == 24
    assert "would be lost" in refused.err


def test_partition_of_a_variable_that_is_not_set_is_refused(
    hoodie: Run, table: Path, trips: Path
) -> None:
    """An empty path is that of all rows in a table without partitions, which `.` names."""
    assert hoodie("write", table, "--input", trips).code == 0
    refused = hoodie("delete", table, "--partition", "")
    assert (refused.code, "or . of a table without partitions" in refused.err) == (20, True)
    assert len(_rows(hoodie, table)) == 3
    assert hoodie("delete", table, "--partition", ".").code == 0
    assert _rows(hoodie, table) == []


@pytest.fixture
def by_city(hoodie: Run, tmp_path: Path, schema: Path, trips: Path) -> Path:
    path = tmp_path / "by_city"
    keys = ("--record-key", "id", "--partition-by", "city", "--buckets", "2")
    assert hoodie("create", path, "--schema", schema, *keys).code == 0
    assert hoodie("write", path, "--input", trips).code == 0
    return path


def test_partitions_are_deleted_after_a_dry_run(hoodie: Run, by_city: Path) -> None:
    paths = ("--partition", "Rome/")
    shown = hoodie("delete", by_city, *paths, "--dry-run")
    assert shown.out == "1 partition with 1 file group would be deleted\n", shown.err
    unknown = hoodie("delete", by_city, "--partition", "Bonn", "--dry-run")
    assert (unknown.code, "no rows in partition Bonn" in unknown.err) == (22, True)
    done = hoodie("delete", by_city, *paths, "--json")
    document = done.document
    assert (document["rows"], document["partitions"]) == (None, ["Rome"])
    assert (document["replaced"], document["files"]) == (1, 0)
    (row,) = _rows(hoodie, by_city)
    assert row.startswith('"b","Oslo"')
    instants = sorted((by_city / ".hoodie" / "timeline").iterdir())
    again = hoodie("delete", by_city, *paths)
    assert (again.code, "has no rows in partition Rome" in again.err) == (22, True)
    assert "similar" not in again.err
    close = hoodie("delete", by_city, "--partition", "Osl")
    assert "similar: partition Oslo" in close.err
    for hostile in ("..", "../..", ".hoodie", "Oslo/..", "/etc", "."):
        refused = hoodie("delete", by_city, "--partition", hostile)
        assert (refused.code, "has no rows in partition" in refused.err) == (22, True), hostile
    assert sorted((by_city / ".hoodie" / "timeline").iterdir()) == instants
    refused = hoodie("delete", by_city, "--partition", "Oslo", "--concurrency", "nbcc")
    assert (refused.code, "is refused in mode" in refused.err) == (24, True)


def test_partitions_are_overwritten(hoodie: Run, by_city: Path) -> None:
    columns = "id,city,fare,seats,updated_at,day,at\n"
    new = put(by_city.parent / "new.csv", f"{columns}z,Rome,1,1,2,,\n")
    done = hoodie("write", by_city, "--input", new, "--operation", "insert_overwrite")
    assert re.search(r"insert_overwrite of 1 row, 1 file, .*, 1 file group replaced, in", done.out)
    assert len(_rows(hoodie, by_city)) == 2
    wrong = ("--operation", "insert_overwrite", "--partition", "Oslo")
    refused = hoodie("write", by_city, "--input", new, *wrong)
    assert (refused.code, "rows are of partition Rome" in refused.err) == (20, True)
    done = hoodie(
        "write", by_city, "--input", new, "--operation", "insert_overwrite_table", "--json"
    )
    assert done.document["replaced"] == 2
    (row,) = _rows(hoodie, by_city)
    assert row.startswith('"z","Rome"')
    assert hoodie("check", by_city).code == 0


def _rows(hoodie: Run, table: Path) -> list[str]:
    output = table.parent / "rows.csv"
    assert hoodie("read", table, "--output", output).code == 0
    return output.read_text().splitlines()[1:]
