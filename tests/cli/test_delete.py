"""`hoodie delete`."""

import re
from pathlib import Path

from support.tables.command_line import Run


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
    assert hoodie("delete", table).code == 2
    assert hoodie("delete", table, "--where", "city =").code == 20
    refused = hoodie("delete", table, "--where", "fare > 1", "--concurrency", "nbcc")
    assert refused.code == 24
    assert "would be lost" in refused.err


def _rows(hoodie: Run, table: Path) -> list[str]:
    output = table.parent / "rows.csv"
    assert hoodie("read", table, "--output", output).code == 0
    return output.read_text().splitlines()[1:]
