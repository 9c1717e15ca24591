"""Tables with bucket counts by partition: filters on the key find all, writes are refused."""

import logging
import os
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.model import commits, predicates, settings, table_config
from hoodie.read import where
from hoodie.services import adoption
from hoodie.timeline import partition_buckets
from hoodie.transaction import manager
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, QUICK, SmallTable

ROWS = [
    {"id": str(number), "part": part, "a": number, "b": "x"}
    for part in ("p", "q")
    for number in range(20)
]
COUNTS = {"p": 7}
MODES = list(settings.ConcurrencyMode)
REFUSED = "bucket counts by partition"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    found = SmallTable(tmp_path / "t")
    found.upsert(ROWS)
    return found


def assert_filters_lose_nothing(small: SmallTable) -> None:
    for number in range(20):
        for text in (f"id = '{number}'", f"id in ('{number}', 'z') and part = 'p'"):
            predicate = where.parse(text)
            whole = small.table.read().read_all()
            wanted = whole.filter(predicates.to_expression(predicate, whole.schema))
            assert wanted.num_rows == (1 if "part" in text else 2)
            assert small.rows(where=predicate) == wanted.to_pylist()


@pytest.mark.parametrize("counts", [{"p": 7}, {"p": 1, "q": 3}])
def test_every_row_is_found_by_its_key(small: SmallTable, counts: dict[str, int]) -> None:
    Replacements(small).rescale(counts)
    assert_filters_lose_nothing(small)
    Replacements(small).rescale(counts | {"p": 5})
    assert_filters_lose_nothing(small)
    Replacements(small).clean()
    Replacements(small).archive()
    assert_filters_lose_nothing(small)


def test_filter_on_the_key_leaves_out_most_file_groups(small: SmallTable) -> None:
    Replacements(small).rescale({"p": 20})
    assert len(small.table.plan_read(where=where.parse("part = 'p'"))) > 8
    assert len(small.table.plan_read(where=where.parse("part = 'p' and id = '3'"))) <= 2


def test_buckets_of_such_a_partition_are_not_warned_of(
    small: SmallTable, caplog: pytest.LogCaptureFixture
) -> None:
    Replacements(small).rescale(COUNTS)
    with caplog.at_level(logging.WARNING, "hoodie"):
        small.rows()
        small.rows(where=where.parse("id = '3'"))
    assert not caplog.records


def test_rescale_that_has_not_completed_changes_nothing_for_readers(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS, is_completed=False)
    assert_filters_lose_nothing(small)


@pytest.mark.parametrize(
    "operation",
    [each for each in commits.Operation if each is not commits.Operation.DELETE_PARTITION],
)
@pytest.mark.parametrize("mode", MODES)
def test_writes_are_refused_before_they_begin(
    small: SmallTable, operation: commits.Operation, mode: settings.ConcurrencyMode
) -> None:
    Replacements(small).rescale(COUNTS)
    before = small.rows()
    files = small.table.timeline().files
    with pytest.raises(errors.UnsupportedError, match=REFUSED):
        small.upsert(ROWS, operation=operation, concurrency=mode)
    assert small.rows() == before
    assert small.table.timeline().files == files


def test_write_is_refused_while_counts_are_being_given(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS, is_completed=False)
    with pytest.raises(errors.UnsupportedError, match=REFUSED):
        small.upsert(ROWS)


def test_counts_are_taken_back_with_the_instant_that_gives_them(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS, is_completed=False)
    (requested,) = small.path.glob(".hoodie/timeline/*.replacecommit.requested")
    # Without a heartbeat it may be alive as long as it is young.
    os.utime(requested, (0, 0))
    small.table.roll_back_failed(small.options().transaction)
    assert not list(small.path.glob(f"{partition_buckets.DIRECTORY}/*"))
    small.upsert(ROWS)
    assert_filters_lose_nothing(small)


@pytest.mark.parametrize("mode", MODES)
def test_write_that_began_before_is_not_published(
    small: SmallTable, mode: settings.ConcurrencyMode
) -> None:
    options = small.options(concurrency=mode)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    new = [{"id": "new", "part": "r", "a": 1, "b": "y"}]
    stats = small.write_files(session, new)
    Replacements(small).rescale(COUNTS)
    with pytest.raises(errors.UnsupportedError, match=REFUSED):
        session.commit(stats)
    assert_filters_lose_nothing(small)
    assert len(small.rows()) == len(ROWS)


def test_write_that_begins_right_after_is_aborted(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts come between the first look and the begin."""
    looks: list[str] = []
    check_none = partition_buckets.check_none

    def look(storage: object) -> None:
        looks.append("")
        if len(looks) == 1:
            Replacements(small).rescale(COUNTS)
            return
        check_none(storage)  # type: ignore[arg-type] # as it is called

    monkeypatch.setattr(partition_buckets, "check_none", look)
    with pytest.raises(errors.UnsupportedError, match=REFUSED):
        small.upsert(ROWS)
    assert len(looks) == 2
    assert len(small.rows()) == len(ROWS)


def test_compaction_and_check_go_on(small: SmallTable) -> None:
    small.upsert([{"id": "3", "part": "q", "a": 70, "b": "y"}])
    Replacements(small).rescale(COUNTS)
    assert small.compact() is not None
    assert_filters_lose_nothing(small)
    assert small.problems() == []
    (note,) = [each for each in small.table.check(QUICK) if "hashing_config" in each.subject]
    assert "p,7" in note.message
    assert small.table.partition_bucket_counts() == "p,7"


def test_check_names_records_that_no_count_explains(small: SmallTable) -> None:
    Replacements(small).rescale({"p": 7})
    wrong = next(iter(sorted(small.path.glob("p/00000006-*.parquet"))))
    wrong.rename(wrong.with_name(wrong.name.replace("00000006", "00000050")))
    problems = small.problems()
    assert any("is of bucket 50, the table has 7" in each for each in problems)
    assert any("records belong to a bucket other than 50" in each for each in problems)


def test_check_reports_a_damaged_file_and_goes_on(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS)
    (stored,) = small.path.glob(f"{partition_buckets.DIRECTORY}/*")
    stored.write_text("{}")
    (problem,) = small.problems()
    assert stored.name in problem
    with pytest.raises(errors.FormatError, match=stored.name):
        small.rows(where=where.parse("id = '3'"))


def test_table_with_such_counts_is_not_adopted(small: SmallTable) -> None:
    Replacements(small).rescale(COUNTS)
    storage = small.env.open_storage(str(small.path))
    target = manager.Target(storage=storage, config=CONFIG, schema=small.table.schema)
    with pytest.raises(errors.UnsupportedError, match=REFUSED):
        adoption.check(target, [table_config.BUCKET_COUNT_KEY], small.env)
