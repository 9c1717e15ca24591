"""`hoodie clean`, as it is typed."""

from pathlib import Path

import pytest

from support.tables.command_line import Answer, Run


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


@pytest.fixture
def compacted(hoodie: Run, table: Path, trips: Path) -> Path:
    """A table of three commits and as many compactions."""
    for _ in range(3):
        fine(hoodie("write", table, "--input", trips))
        fine(hoodie("compact", table))
    return table


def test_dry_run_shows_what_the_clean_then_deletes(hoodie: Run, compacted: Path) -> None:
    arguments = ("clean", compacted, "--keep-commits", "1", "--grace", "0")
    proposed = fine(hoodie(*arguments, "--dry-run", "--json")).document
    shown = fine(hoodie(*arguments, "--dry-run")).out
    assert f"would delete {proposed['files']} files" in shown
    assert "older versions stay because the newest commit is kept" in shown
    done = fine(hoodie(*arguments, "--json")).document
    assert (done["files"], len(done["instants"])) == (proposed["files"], 1)
    assert proposed["bytes"] > 0
    assert "nothing to delete" in fine(hoodie(*arguments)).out
    fine(hoodie("check", compacted))
    assert "clean" in fine(hoodie("timeline", compacted)).out


def test_readers_are_given_an_hour(hoodie: Run, compacted: Path) -> None:
    shown = fine(hoodie("clean", compacted, "--keep-versions", "1")).out
    assert "nothing to delete" in shown
    assert "a reader may take 3600 s (grace)" in shown


@pytest.mark.parametrize(
    "options",
    [
        ("--keep-commits", "1", "--keep-versions", "1"),
        ("--keep-commits", "0"),
        ("--grace", "-1"),
        ("--max-files", "0"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_wrong_usage(
    hoodie: Run, table: Path, options: tuple[str, ...]
) -> None:
    answer = hoodie("clean", table, *options)
    assert answer.code == 2
    assert "hint: run `hoodie clean --help` for usage" in answer.err
