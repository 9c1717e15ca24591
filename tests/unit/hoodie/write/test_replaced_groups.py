"""Writes into buckets whose file group a replace commit of another engine retired.

A retired group is hidden by every reader for as long as the replace commit is on the timeline, and
its files go with the next cleaning: no acknowledged row may be in it.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.index import bucket
from hoodie.model import commits, files, results, settings, table_config
from hoodie.write import sessions
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, SmallTable

OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
SINGLE_WRITER = settings.ConcurrencyMode.SINGLE_WRITER
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
FIXED_ID = "00000000-0000-0000-0000-000000000000-0"
ROWS = [{"id": str(n), "part": "p", "a": n, "b": "old"} for n in range(6)]
LATER = [{"id": str(n), "part": "p", "a": n, "b": "new"} for n in range(3, 9)]
ELSEWHERE = [{"id": "else", "part": "q", "a": 0, "b": "where"}]
ONE_BUCKET = replace(CONFIG, bucket_count=1)


def table_of(path: Path, **changes: object) -> SmallTable:
    return SmallTable(path / "t", replace(ONE_BUCKET, **changes))


def begin(small: SmallTable, writer_id: str, **changes: object) -> sessions.WriteSession:
    session = small.table.begin_write(
        small.options(writer_id=writer_id, **changes), ["id", "part", "a", "b"]
    )
    assert isinstance(session, sessions.WriteSession)
    return session


@pytest.mark.parametrize("mode", settings.ConcurrencyMode)
@pytest.mark.parametrize("operation", [commits.Operation.UPSERT, commits.Operation.BULK_INSERT])
@pytest.mark.parametrize("is_cleaned", [True, False])
def test_rows_written_after_a_deleted_partition_are_read(
    tmp_path: Path,
    mode: settings.ConcurrencyMode,
    operation: commits.Operation,
    is_cleaned: bool,
) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS, concurrency=mode)
    others.delete_partition("p")
    if is_cleaned:
        others.clean()
    assert small.rows() == []
    small.upsert(LATER, concurrency=mode, operation=operation)
    assert small.rows() == LATER
    small.upsert(ROWS[:4], concurrency=mode)
    small.compact()
    assert [row["id"] for row in small.rows()] == [str(n) for n in range(9)]
    assert small.problems() == []


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_copy_on_write_table_goes_on_after_a_deleted_partition(
    tmp_path: Path, is_cleaned: bool
) -> None:
    small = table_of(tmp_path, table_type=COPY_ON_WRITE)
    others = Replacements(small)
    small.upsert(ROWS, concurrency=OPTIMISTIC)
    others.delete_partition("p")
    if is_cleaned:
        others.clean()
    small.upsert(LATER, concurrency=OPTIMISTIC, operation=commits.Operation.BULK_INSERT)
    small.upsert(LATER[:1], concurrency=OPTIMISTIC)
    assert small.rows() == LATER
    assert small.problems() == []


def test_new_group_is_named_by_its_bucket_and_by_what_retired_the_one_before(
    tmp_path: Path,
) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS)
    completed = others.delete_partition("p").completion_time
    small.upsert(LATER)
    small.upsert(ROWS)
    (group,) = others.live_groups("p")
    assert group.file_id == bucket.file_id(0, completed)
    assert bucket.bucket_of(group.file_id) == 0
    others.delete_partition("p")
    small.upsert(LATER)
    (third,) = others.live_groups("p")
    assert len({FIXED_ID, group.file_id, third.file_id}) == 3
    assert small.rows() == LATER


def test_group_of_an_overwrite_is_written_on(tmp_path: Path) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS)
    new_id = "00000000-3bda-48af-b1c1-20f87a742091-0"
    others.overwrite("p", ROWS[:2], {0: new_id})
    small.upsert(LATER)
    assert [row["id"] for row in small.rows()] == ["0", "1", *(row["id"] for row in LATER)]
    assert others.live_groups("p") == [files.FileGroupId("p", new_id)]


@pytest.mark.parametrize("mode", settings.ConcurrencyMode)
def test_write_whose_group_is_retired_meanwhile_is_not_acknowledged(
    tmp_path: Path, mode: settings.ConcurrencyMode
) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS, concurrency=mode)
    slow = begin(small, "slow", concurrency=mode)
    stats = small.write_files(slow, LATER)
    retired = others.delete_partition("p")
    with pytest.raises(errors.WriteConflictError, match=f"{retired.requested_time} replacecommit"):
        slow.commit(stats)
    assert small.rows() == []
    assert isinstance(small.upsert(LATER, writer_id="slow"), results.CommitResult)
    assert small.rows() == LATER


@pytest.mark.parametrize("mode", settings.ConcurrencyMode)
def test_write_into_a_group_that_a_clustering_is_about_to_retire_is_not_acknowledged(
    tmp_path: Path, mode: settings.ConcurrencyMode
) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS, concurrency=mode)
    slow = begin(small, "slow", concurrency=mode)
    stats = small.write_files(slow, LATER)
    others.plan_clustering(others.live_groups("p"))
    with pytest.raises(errors.WriteConflictError, match="clustering requested"):
        slow.commit(stats)
    assert small.rows() == ROWS


def test_write_into_an_empty_bucket_that_an_overwrite_fills_meanwhile_is_not_acknowledged(
    tmp_path: Path,
) -> None:
    small = table_of(tmp_path)
    slow = begin(small, "slow")
    stats = small.write_files(slow, LATER)
    Replacements(small).overwrite("p", ROWS[:2], {0: "00000000-3bda-48af-b1c1-20f87a742091-0"})
    with pytest.raises(errors.WriteConflictError, match="both wrote to"):
        slow.commit(stats)


def test_writers_before_and_after_the_archiving_of_a_replace_commit_share_a_group(
    tmp_path: Path,
) -> None:
    """An empty bucket's group is named after the replace commit while that is on the timeline."""
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS)
    others.delete_partition("p")
    small.upsert(ELSEWHERE)
    slow = begin(small, "slow", acknowledges_order_dependence=True)
    stats = small.write_files(slow, LATER)
    others.clean()
    others.archive()
    small.upsert(ROWS[:1], writer_id="quick", acknowledges_order_dependence=True)
    with pytest.raises(errors.WriteConflictError, match="archived"):
        slow.commit(stats)
    small.upsert(LATER, writer_id="slow")
    assert small.rows() == [ROWS[0], *LATER, *ELSEWHERE]
    assert small.problems() == []


def test_group_stays_when_what_retired_the_one_before_is_archived(tmp_path: Path) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    small.upsert(ROWS)
    others.delete_partition("p")
    small.upsert(LATER)
    slow = begin(small, "slow", acknowledges_order_dependence=True)
    stats = small.write_files(slow, ROWS[:1])
    others.clean()
    others.archive()
    small.upsert(ROWS[1:2], writer_id="quick", acknowledges_order_dependence=True)
    with pytest.raises(errors.WriteConflictError, match="archived"):
        slow.commit(stats)  # Once: nothing tells it from a write that founds the group.
    small.upsert(ROWS[:1], writer_id="slow")
    assert small.rows() == [ROWS[0], ROWS[1], *LATER]
    assert small.problems() == []


def write_into_the_retired_group(small: SmallTable, others: Replacements) -> None:
    """Do what Apache Hudi's non-blocking writers do, which name a bucket's group once for all."""
    small.upsert(ROWS)
    away = others.small.path / ".hoodie" / "timeline"
    completed = others.delete_partition("p")
    small.upsert(ELSEWHERE)
    name = f"{completed.requested_time}_{completed.completion_time}.replacecommit"
    content = (away / name).read_bytes()
    others.clean()
    others.archive()
    small.upsert(LATER)
    (away / name).write_bytes(content)


def test_rows_that_others_wrote_into_a_retired_group_are_read_and_found(tmp_path: Path) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    write_into_the_retired_group(small, others)
    assert small.rows() == [*LATER, *ELSEWHERE]
    (problem,) = small.problems()
    assert problem.startswith(f"p/{FIXED_ID}: ")
    assert "was retired" in problem


def test_bucket_whose_retired_group_holds_later_rows_is_not_written(tmp_path: Path) -> None:
    small = table_of(tmp_path)
    others = Replacements(small)
    write_into_the_retired_group(small, others)
    with pytest.raises(errors.UnsupportedError, match=f"{FIXED_ID}.*insert_overwrite"):
        small.upsert(ROWS)
    assert small.rows() == [*LATER, *ELSEWHERE]
