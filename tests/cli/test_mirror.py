"""`hoodie mirror`, as it is typed."""

from pathlib import Path

from support.tables import mirrors
from support.tables.command_line import Answer, Run


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def test_a_mirror_is_made_shown_and_read(hoodie: Run, table: Path, trips: Path) -> None:
    fine(hoodie("write", table, "--input", trips))
    proposed = fine(hoodie("mirror", table, "--dry-run", "--json")).document
    assert (proposed["is_dry_run"], proposed["metadata"]) == (True, None)
    assert "the mirror would name" in fine(hoodie("mirror", table, "--dry-run")).out
    done = fine(hoodie("mirror", table, "--json")).document
    assert (done["added"], done["is_new"]) == (proposed["added"], True)
    assert len(mirrors.opened(table).snapshots()) == done["snapshots"] == 1
    shown = fine(hoodie("mirror", table, "--keep-snapshots", "3", "--limit", "2d")).out
    assert f"metadata: {done['metadata']}" in shown
    (consumer,) = fine(hoodie("consumer", "list", table, "--json")).document["consumers"]
    assert (consumer["name"], consumer["limit_ms"]) == ("iceberg-mirror", 2 * 86_400_000)
    fine(hoodie("check", table))


def test_rows_in_logs_are_noted(hoodie: Run, table: Path, trips: Path) -> None:
    for _ in range(2):
        fine(hoodie("write", table, "--input", trips))
    answer = fine(hoodie("mirror", table))
    assert "rows in log files alone" in answer.err
    fine(hoodie("compact", table))
    assert "log files alone" not in fine(hoodie("mirror", table)).err


def test_what_cannot_be_meant_is_wrong_usage(hoodie: Run, table: Path) -> None:
    assert hoodie("mirror", table, "--catalog-option", "key").code == 2
    assert hoodie("mirror", table, "--keep-snapshots", "0").code == 2
    assert hoodie("mirror", table, "--catalog", "x").code == 20
    assert hoodie("mirror", table, "--limit", "long").code == 20
    assert hoodie("mirror", table).code == 22
