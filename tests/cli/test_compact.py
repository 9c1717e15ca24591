"""`hoodie compact` by triggers, strategies and bounds, and what it would do."""

import re
from pathlib import Path

import pytest

from hoodie.model import instants
from support.tables.command_line import Answer, Run, put

MANY = "".join(f"{key},{city}\n" for city in ("Oslo", "Rome") for key in "abcd")
INLINE = (
    *("--set", "hoodie.compact.schedule.inline=true"),
    *("--set", "hoodie.compact.inline.max.delta.commits=2"),
)


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


@pytest.fixture
def table(hoodie: Run, schema: Path, tmp_path: Path) -> Path:
    """Return a table of two partitions with one commit of log files."""
    path = tmp_path / "trips"
    keys = ("--record-key", "id", "--partition-by", "city", "--buckets", "1", "--partial-updates")
    fine(hoodie("create", path, "--schema", schema, *keys))
    write(hoodie, path)
    return path


def write(hoodie: Run, table: Path, *more: str) -> Answer:
    rows = put(table.parent / "rows.csv", f"id,city\n{MANY}")
    return fine(hoodie("write", table, "--input", rows, "--concurrency", "nbcc", *more))


def test_dry_run_shows_each_partition_and_why(hoodie: Run, table: Path) -> None:
    answer = fine(hoodie("compact", table, "--dry-run", "--max-file-groups", "1"))
    heading, _, first, second, line = answer.out.splitlines()
    assert heading.split("  ")[0] == "partition"
    assert "compact" in first
    assert "plan is full" in second
    assert {first.split()[0], second.split()[0]} == {"Oslo", "Rome"}
    assert line.startswith("would compact 1 file group: 1 log file, ")
    assert answer.err == "note: 1 file group is left for the next plan\n"
    shown = fine(hoodie("compact", table, "--dry-run", "--max-file-groups", "1", "--json")).document
    assert (shown["is_due"], shown["file_groups"], shown["left_out"]) == (True, 1, 1)
    assert [each["decision"] for each in shown["partitions"]] == ["compact", "plan is full"]
    assert fine(hoodie("timeline", table, "--json")).document["instants"][0]["state"] == "completed"
    assert len(fine(hoodie("timeline", table, "--json")).document["instants"]) == 1


def test_dry_run_of_what_is_not_due_says_how_far_it_is(hoodie: Run, table: Path) -> None:
    answer = fine(hoodie("compact", table, "--dry-run", "--trigger", "num-commits"))
    assert answer.out == "nothing would be planned: not due: 1 of 5 delta commits\n"
    done = fine(hoodie("compact", table, "--trigger", "NUM_COMMITS", "--json")).document
    assert (done["instant"], done["reason"]) == (None, "not due: 1 of 5 delta commits")


def test_strategy_and_bounds_are_those_of_the_plan(hoodie: Run, table: Path) -> None:
    regex = ("--set", "hoodie.compaction.partition.path.regex=^Os")
    only = ("--strategy", "PartitionRegexBasedCompactionStrategy", *regex)
    assert fine(hoodie("compact", table, *only)).out.split(":")[1].startswith(" 1 file group")
    assert "chose none of 1 file groups" in fine(hoodie("compact", table, *only)).out
    (pending,) = [each for each in slices(hoodie, table) if each["logs"]]
    assert pending["partition"] == "Rome"
    assert fine(hoodie("compact", table, "--max-bytes", "1")).err == ""
    assert not [each for each in slices(hoodie, table) if each["logs"]]


def slices(hoodie: Run, table: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = fine(hoodie("slices", table, "--json")).document["slices"]
    return found


def test_writer_plans_inline_and_says_so(hoodie: Run, table: Path) -> None:
    answer = write(hoodie, table, *INLINE)
    instant = instants.checked_time(answer.out.split()[-1])
    assert "; then planned compaction " in answer.out
    shown = fine(hoodie("compact", table, "--dry-run"))
    assert shown.out == "nothing to compact\n"
    assert shown.err == f"note: pending compactions, which run first: {instant}\n"
    limit = ("--set", "hoodie.operator.compaction.pending.max=1")
    assert "planned" not in (not_due := write(hoodie, table, *INLINE, *limit)).out
    assert not_due.err == ""
    held = write(hoodie, table, *INLINE, *limit)
    assert "note: no compaction is planned: too many pending compactions: 1 " in held.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "mine"), "--strategy: hoodie.compaction.strategy is 'mine', expected one"),
        (("--trigger", ""), "expected one of NUM_COMMITS"),
        (("--max-bytes", "10GiB"), "--max-bytes: .*expected a whole number of 1 or more"),
        (("--max-file-groups", "0"), "expected a whole number of 1 or more"),
        (
            ("--max-bytes", "1", "--set", "hoodie.operator.compaction.bytes.max=1"),
            "--max-bytes with --set hoodie.operator.compaction.bytes.max: expected one of them",
        ),
        (("--set", "hoodie.compaction.partition.path.regex=("), "expected a regular expression"),
        (("--dry-run", "--execute", "20260101000000000"), "at most one of --dry-run and --execute"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    arguments: tuple[str, ...], message: str, hoodie: Run, table: Path
) -> None:
    answer = hoodie("compact", table, *arguments)
    assert answer.code != 0
    assert re.search(message, answer.err), answer.err
