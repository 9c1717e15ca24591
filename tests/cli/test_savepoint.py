"""`hoodie savepoint` and `hoodie stats`."""

import re
from pathlib import Path

import pytest

from support.tables.command_line import Answer, Run


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


def test_savepoint_is_created_listed_and_deleted(hoodie: Run, table: Path, trips: Path) -> None:
    assert fine(hoodie("savepoint", "list", table)).out == "no savepoints\n"
    fine(hoodie("write", table, "--input", trips))
    created = fine(hoodie("savepoint", "create", table, "--comment", "before X"))
    assert re.fullmatch(r"created savepoint \d{17}, which keeps \d files?\n", created.out)
    again = fine(hoodie("savepoint", "create", table, "--comment", "before X"))
    assert again.out.endswith("exists with this comment, and keeps 2 files\n"), again.out
    other = hoodie("savepoint", "create", table, "--comment", "another")
    assert other.code == 23
    assert "with the comment 'before X'" in other.err
    (row,) = fine(hoodie("savepoint", "list", table, "--json")).document["savepoints"]
    assert (row["comment"], row["files"], row["is_new"]) == ("before X", 2, False)
    shown = fine(hoodie("savepoint", "list", table))
    assert re.search(rf"{row['instant']} +(just now|\d+ s ago) +2 +before X", shown.out)
    assert "savepoint" in fine(hoodie("timeline", table)).out
    assert fine(hoodie("savepoint", "delete", table, "--older-than", "7d")).out == (
        "no savepoint is that old\n"
    )
    deleted = fine(hoodie("savepoint", "delete", table, "--instant", row["instant"], "--json"))
    assert deleted.document["deleted"] == [row["instant"]]
    gone = hoodie("savepoint", "delete", table, "--instant", row["instant"])
    assert gone.code == 22
    assert "has no savepoint" in gone.err
    assert fine(hoodie("check", table)).out == ""
    changes = fine(hoodie("timeline", table, "--chain"))
    assert re.search(rf"{row['instant']}_\d+\.savepoint deleted", changes.out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "--older-than", "7d"), "--older-than is an option of delete only"),
        (("list", "--comment", "c"), "--comment is an option of create only"),
        (("list", "--instant", "20260101000000000"), "--instant is an option of create"),
        (("delete",), "expected one of --instant and --older-than"),
        (("delete", "--instant", "1", "--older-than", "7d"), "expected one of --instant"),
    ],
)
def test_options_that_do_not_fit_the_action_are_wrong_usage(
    arguments: tuple[str, ...], message: str, hoodie: Run, table: Path
) -> None:
    action, *options = arguments
    answer = hoodie("savepoint", action, table, *options)
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--older-than", "soon"), "'soon' is not a duration"),
        (("--older-than", "-1d"), "'-1d' is not a duration"),
        (("--instant", "yesterday"), "'yesterday' is not an instant time"),
    ],
)
def test_malformed_ages_and_instants_are_refused(
    options: tuple[str, ...], message: str, hoodie: Run, table: Path
) -> None:
    answer = hoodie("savepoint", "delete", table, *options)
    assert answer.code == 20, answer.err
    assert message in answer.err


def test_stats_of_files_and_of_the_next_compaction(hoodie: Run, table: Path, trips: Path) -> None:
    for _ in range(2):
        fine(hoodie("write", table, "--input", trips))
    text = fine(hoodie("stats", table)).out
    assert "compaction: would merge 2 log files" in text
    assert "clean: could free up to 0 B in 0 files" in text
    fine(hoodie("compact", table))
    fine(hoodie("savepoint", "create", table))
    found = fine(hoodie("stats", table, "--json")).document
    assert (found["total"]["base_files"], found["total"]["older_files"]) == (2, 4)
    assert found["total"]["small_files"] == 2
    assert found["compaction"]["reason"] == "no file group has log files to merge"
    none = fine(hoodie("stats", table, "--small-file-mib", "0", "--json")).document
    assert none["total"]["small_files"] == 0
    text = fine(hoodie("stats", table)).out
    assert "compaction: would do nothing: no file group has log files to merge" in text
    assert "in 4 files, less what 1 savepoint keeps" in text
