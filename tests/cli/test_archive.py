"""`hoodie archive`, and `hoodie timeline --archived`."""

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.maintenance.archiving import planning
from hoodie.model import commits, settings
from hoodie.table import open_table
from hoodie.transaction import authors, manager
from hoodie.transaction.locks import address_texts
from hoodie.write import sessions
from support.tables import earlier
from support.tables.command_line import Answer, Run

KEEP = ("--keep-min", "2", "--keep-max", "3", "--set", "hoodie.compact.inline.max.delta.commits=1")


def fine(answer: Answer) -> Answer:
    assert answer.code == 0, answer.err
    return answer


@pytest.fixture
def written(hoodie: Run, table: Path, trips: Path) -> Path:
    """A table with five commits."""
    for _ in range(5):
        fine(hoodie("write", table, "--input", trips))
    return table


def times(hoodie: Run, table: Path, *options: str) -> list[str]:
    document = fine(hoodie("timeline", table, *options, "--json")).document
    return [each["requested_time"] for each in document["instants"]]


def test_old_commits_leave_the_timeline_and_are_found_in_the_archive(
    hoodie: Run, written: Path
) -> None:
    before, rows = times(hoodie, written), fine(hoodie("read", written)).out
    dry = fine(hoodie("archive", written, *KEEP, "--dry-run"))
    assert dry.out == f"would archive 3 instants, {before[0]} to {before[2]}\n"
    assert times(hoodie, written) == before
    done = fine(hoodie("archive", written, *KEEP))
    assert done.out == f"archived 3 instants, {before[0]} to {before[2]}\n"
    assert times(hoodie, written) == before[3:]
    assert times(hoodie, written, "--archived") == before[2::-1]
    assert fine(hoodie("read", written)).out == rows
    fine(hoodie("check", written))


def test_archive_is_shown_by_pages(hoodie: Run, written: Path) -> None:
    before = times(hoodie, written)
    fine(hoodie("archive", written, *KEEP))
    page = fine(hoodie("timeline", written, "--archived", "--limit", "2"))
    assert before[2] in page.out
    assert before[0] not in page.out
    assert f"hint: show earlier instants with --before {before[1]}" in page.err
    assert "upsert" in page.out
    assert times(hoodie, written, "--archived", "--before", before[1]) == before[:1]
    last = fine(hoodie("timeline", written, "--archived", "--before", before[0]))
    assert last.out == f"no instant is archived before {before[0]}\n"


def test_what_holds_instants_back_is_said(hoodie: Run, written: Path) -> None:
    text = "the timeline has 5 commits, and up to 30 may stay"
    assert fine(hoodie("archive", written)).out == f"nothing to archive\nheld back: {text}\n"
    document = fine(hoodie("archive", written, "--dry-run", "--json")).document
    assert document == {
        "table": document["table"],
        "is_dry_run": True,
        "archived": [],
        "trimmed": [],
        "held_back": [text],
        "leftovers": 0,
    }
    shown = fine(hoodie("timeline", written, "--archived"))
    assert shown.out == "no instant is archived\n"


def test_document_names_what_was_archived(hoodie: Run, written: Path) -> None:
    before = times(hoodie, written)
    document = fine(hoodie("archive", written, *KEEP, "--json")).document
    assert [each["instant"] for each in document["archived"]] == before[:3]
    assert {each["action"] for each in document["archived"]} == {"deltacommit"}
    assert all(each["completion_time"] > each["instant"] for each in document["archived"])


@pytest.fixture
def old(table: Path) -> Path:
    """A table with commits of a month ago, most of them archived."""
    opened = open_table(str(table), earlier.system(days=30))
    options = sessions.WriteOptions(
        operation=commits.Operation.UPSERT,
        transaction=manager.TransactionOptions(
            settings=settings.WriteSettings(),
            lock=address_texts.parse("filesystem"),
            author=authors.Author(),
        ),
    )
    policy = planning.Policy(commits_min=2, commits_max=3, compaction_delta_commits=1)
    for _ in range(6):
        opened.write(pa.Table.from_pylist([{"id": "a"}], opened.schema.arrow), options)
    opened.archive(options.transaction, policy)
    return table


def test_history_that_is_old_is_deleted_once_nothing_needs_it(
    hoodie: Run, old: Path, trips: Path
) -> None:
    before = times(hoodie, old, "--archived")
    assert len(before) == 4
    fine(hoodie("write", old, "--input", trips))
    held = fine(hoodie("archive", old, "--keep-history", "7"))
    assert "held back: log file" in held.out
    fine(hoodie("compact", old))
    fine(hoodie("write", old, "--input", trips))
    fine(hoodie("clean", old, "--keep-versions", "1", "--grace", "0"))
    keep = (*KEEP, "--keep-history", "7")
    dry = fine(hoodie("archive", old, *keep, "--dry-run"))
    deleted = f"4 instants of the history, {before[-1]} to {before[0]}"
    assert f"would delete {deleted}\n" in dry.out
    assert times(hoodie, old, "--archived") == before
    rows = fine(hoodie("read", old)).out
    done = fine(hoodie("archive", old, *keep, "--json")).document
    assert sum(each["instants"] for each in done["trimmed"]) >= 4
    assert not set(before) & set(times(hoodie, old, "--archived"))
    assert fine(hoodie("read", old)).out == rows
    fine(hoodie("check", old))


def test_history_of_a_few_days_is_refused(hoodie: Run, table: Path) -> None:
    answer = hoodie("archive", table, "--keep-history", "6")
    assert answer.code == 2
    assert "--keep-history" in answer.err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--keep-min", "3", "--keep-max", "3"), 24, "hoodie.keep.min.commits=3"),
        (("--keep-min", "40"), 24, "hoodie.keep.max.commits=30"),
        (("--set", "hoodie.keep.min.commits=x"), 24, "expected a whole number"),
        (
            ("--keep-min", "3", "--set", "hoodie.keep.min.commits=4"),
            24,
            "--keep-min 3 with --set hoodie.keep.min.commits=4",
        ),
        (("--set", "hoodie.clean.commits.retained=20"), 24, "hoodie.clean.commits.retained=20"),
        (("--set", "hoodie.unknown=1"), 24, "unknown setting"),
        (("--lock", "in-process"), 24, "excludes no other process"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    hoodie: Run, table: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    answer = hoodie("archive", table, *options)
    assert answer.code == code
    assert message in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--archived", "--chain"), "expected at most one of --archived and --chain"),
        (("--before", "20260101000000000"), "expected --archived with --before"),
    ],
)
def test_options_of_timeline_that_do_not_go_together_are_refused(
    hoodie: Run, table: Path, options: tuple[str, ...], message: str
) -> None:
    answer = hoodie("timeline", table, *options)
    assert answer.code == 2
    assert message in answer.err


def test_before_must_be_a_time(hoodie: Run, table: Path) -> None:
    answer = hoodie("timeline", table, "--archived", "--before", "yesterday")
    assert answer.code == 20
    assert "'yesterday' is not an instant time" in answer.err
