"""Optimistic writers that overlap in time: the first to complete wins; T-O* of docs/tests.md."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.index import tables
from hoodie.model import commits, files, instants, results, settings, table_config
from hoodie.model.settings import ConflictStrategy as Strategy
from hoodie.timeline import active
from hoodie.write import conflicts, sessions, tasks
from hoodie.write import retries as retries_module
from support.peer.replacements import Replacements
from support.tables.tables import CONFIG, Rows, SmallTable

OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
WHOLE_ROWS = replace(CONFIG, has_partial_updates=False, bucket_count=1)
COPY_ON_WRITE = replace(WHOLE_ROWS, table_type=table_config.TableType.COPY_ON_WRITE)


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return SmallTable(tmp_path / "t", WHOLE_ROWS)


def row(key: str, part: str, a: int) -> dict[str, object]:
    return {"id": key, "part": part, "a": a, "b": None}


def begin(small: SmallTable, writer_id: str, **changes: object) -> sessions.WriteSession:
    options = small.options(writer_id=writer_id, concurrency=OPTIMISTIC, **changes)
    session = small.table.begin_write(options, ["id", "part", "a", "b"])
    assert isinstance(session, sessions.WriteSession)
    return session


def upsert(small: SmallTable, writer_id: str, rows: Rows) -> results.WriteResult:
    return small.upsert(rows, writer_id=writer_id, concurrency=OPTIMISTIC)


def values(small: SmallTable) -> dict[object, object]:
    return {found["id"]: found["a"] for found in small.rows()}


def test_writes_of_different_file_groups_both_commit(small: SmallTable) -> None:
    """T-O01."""
    slow = begin(small, "slow")
    upsert(small, "fast", [row("1", "p", 1)])
    slow.commit(small.write_files(slow, [row("2", "q", 2)]))
    assert values(small) == {"1": 1, "2": 2}


def test_slower_of_two_writes_of_a_file_group_loses(small: SmallTable) -> None:
    """T-O02, T-O04, T-O15: whoever began first; all that is to be known is told."""
    slow = begin(small, "slow")
    won = upsert(small, "fast", [row("1", "p", 1)])
    assert isinstance(won, results.CommitResult)
    stats = small.write_files(slow, [row("1", "p", 2), row("2", "q", 2)])
    with pytest.raises(errors.WriteConflictError) as caught:
        slow.commit(stats)
    for named in ("'slow'", "'fast'", slow.requested_time, str(won.instant), stats[0].file_id):
        assert named in str(caught.value)
    assert values(small) == {"1": 1}
    assert not small.table.timeline().pending
    assert small.problems() == []


@pytest.mark.parametrize("table_type", table_config.TableType)
def test_delete_of_an_empty_bucket_conflicts_with_an_insert_that_completed_first(
    tmp_path: Path, table_type: table_config.TableType
) -> None:
    """I3, S62: in the order of completion it would have deleted the row."""
    small = SmallTable(tmp_path / "t", replace(WHOLE_ROWS, table_type=table_type))
    delete = begin(small, "late", operation=commits.Operation.DELETE)
    found = small.run_task(delete, [{"id": "1", "part": "p"}])
    upsert(small, "fast", [row("1", "p", 1)])
    with pytest.raises(errors.WriteConflictError, match=r"'late'.*'fast'"):
        delete.commit(found)
    assert values(small) == {"1": 1}


def test_insert_is_no_conflict_for_having_begun_before_a_delete_of_its_empty_bucket(
    tmp_path: Path,
) -> None:
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    insert = begin(small, "late")
    assert isinstance(
        small.delete([{"id": "1", "part": "p"}], writer_id="fast", concurrency=OPTIMISTIC),
        results.CommitResult,
    )
    insert.commit(small.write_files(insert, [row("1", "p", 1)]))
    assert values(small) == {"1": 1}


def test_insert_that_left_out_all_of_its_rows_conflicts_with_their_deletion(tmp_path: Path) -> None:
    """I3: in the order of completion it would have added them."""
    small = SmallTable(tmp_path / "t", COPY_ON_WRITE)
    upsert(small, "first", [row("1", "p", 1)])
    insert = begin(small, "late", operation=commits.Operation.INSERT, drops_duplicates=True)
    found = small.run_task(insert, [row("1", "p", 2)])
    small.delete([{"id": "1", "part": "p"}], writer_id="fast", concurrency=OPTIMISTIC)
    with pytest.raises(errors.WriteConflictError, match=r"'late'.*'fast'"):
        insert.commit(found)
    assert values(small) == {}


def test_write_that_was_pending_at_the_begin_is_a_candidate(small: SmallTable) -> None:
    """T-O05."""
    first, second = begin(small, "first"), begin(small, "second")
    first.commit(small.write_files(first, [row("1", "p", 1)]))
    with pytest.raises(errors.WriteConflictError):
        second.commit(small.write_files(second, [row("1", "p", 2)]))
    assert values(small) == {"1": 1}


def test_write_that_completed_before_the_begin_is_none(small: SmallTable) -> None:
    upsert(small, "first", [row("1", "p", 1)])
    upsert(small, "second", [row("1", "p", 2)])
    assert values(small) == {"1": 2}


@pytest.mark.parametrize("strategy", Strategy)
def test_compaction_is_no_conflict(small: SmallTable, strategy: Strategy) -> None:
    """T-O07, O3: planned before, or meanwhile; finished or pending."""
    upsert(small, "w", [row("1", "p", 1)])
    slow = begin(small, "slow", conflict_strategy=strategy)
    small.compact()
    stats = small.write_files(slow, [row("1", "p", 2)])
    small.table.schedule_compaction(small.options().transaction)
    slow.commit(stats)
    assert values(small) == {"1": 2}
    small.compact()
    assert values(small) == {"1": 2}


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("strategy", Strategy)
def test_pending_clustering_gives_way_to_a_preferred_writer_only(
    small: SmallTable, strategy: Strategy, is_same: bool
) -> None:
    """T-O08: without its update strategy, and at the commit."""
    upsert(small, "w", [row("1", "p", 1)])
    slow = begin(small, "slow", conflict_strategy=strategy)
    stats = small.write_files(slow, [row("1", "p", 2)])
    planned = files.FileGroupId("p" if is_same else "q", stats[0].file_id)
    Replacements(small).plan_clustering([planned])
    is_conflict = is_same and strategy is not Strategy.PREFER_WRITER
    if is_conflict:
        with pytest.raises(errors.WriteConflictError, match="clustering requested is to retire"):
            slow.commit(stats)
    else:
        slow.commit(stats)
    assert values(small) == {"1": 1 if is_conflict else 2}


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("is_same", [True, False])
def test_write_to_a_file_group_that_was_retired_loses(
    small: SmallTable, strategy: Strategy, is_same: bool
) -> None:
    """T-O10: by a finished clustering, or an overwrite; whoever is preferred."""
    upsert(small, "w", [row("1", "p", 1), row("2", "q", 1)])
    slow = begin(small, "slow", conflict_strategy=strategy)
    stats = small.write_files(slow, [row("1", "p", 2)])
    retired = stats[0].file_id
    Replacements(small).retire([files.FileGroupId("p" if is_same else "q", retired)])
    if is_same:
        with pytest.raises(
            errors.WriteConflictError, match=f"both wrote to file group p/{retired}"
        ):
            slow.commit(stats)
    else:
        slow.commit(stats)


def test_two_groups_for_one_bucket_are_a_conflict() -> None:
    """T-O15: as writers of Apache Hudi name them, with a random part after the bucket's number."""
    mine, theirs = (
        files.FileGroupId("p", f"00000001-{part}-0") for part in ("aaaa-0-0-0", "bbbb-0-0-0")
    )
    other = files.FileGroupId("p", "00000002-aaaa-0-0-0-0")
    index = tables.index_of(CONFIG)
    assert conflicts.shared_groups(index, [mine, other], [theirs]) == (mine,)


def test_commit_is_a_compaction_only_where_updates_are_logged() -> None:
    own = instants.InstantTime("20260101000000001")
    commit = instants.Instant(
        requested_time=instants.InstantTime("20260101000000002"),
        action=instants.Action.COMMIT,
        state=instants.State.COMPLETED,
        completion_time=instants.InstantTime("20260101000000003"),
    )
    now = active.from_files([commit])
    found = {kind: conflicts.candidates((), now, own, kind) for kind in table_config.TableType}
    assert found == {
        table_config.TableType.MERGE_ON_READ: (),
        table_config.TableType.COPY_ON_WRITE: (commit,),
    }


def test_write_that_is_published_late_is_a_candidate_whatever_its_completion_time() -> None:
    """O2: it had taken that time before we began, and lost the lock before its file was there."""
    own = instants.InstantTime("20260101000000005")
    late = instants.Instant(
        requested_time=instants.InstantTime("20260101000000001"),
        action=instants.Action.DELTA_COMMIT,
        state=instants.State.COMPLETED,
        completion_time=instants.InstantTime("20260101000000003"),
    )
    now = active.from_files([late])
    merge_on_read = table_config.TableType.MERGE_ON_READ
    assert conflicts.candidates((), now, own, merge_on_read) == (late,)
    assert conflicts.candidates([late.requested_time], now, own, merge_on_read) == ()


@pytest.mark.parametrize(("retries", "is_written"), [(0, False), (1, False), (2, True)])
def test_batch_that_lost_is_written_again(
    small: SmallTable, monkeypatch: pytest.MonkeyPatch, retries: int, is_written: bool
) -> None:
    """T-O03: from its input, on fresh state, as often as the settings say."""
    faster = [10, 20]
    run_tasks = tasks.run

    def run_late(*arguments: object) -> object:
        if faster:
            value = faster.pop()
            with monkeypatch.context() as patched:
                patched.setattr(tasks, "run", run_tasks)
                upsert(small, "other", [row("1", "p", value)])
        return run_tasks(*arguments)  # type: ignore[arg-type] # passed on

    def write() -> results.WriteResult:
        return small.upsert(
            [row("2", "p", 1)],
            writer_id="w",
            concurrency=OPTIMISTIC,
            conflict_retries_max=retries,
        )

    monkeypatch.setattr(tasks, "run", run_late)
    monkeypatch.setattr(retries_module, "_WAIT_S", 0.01)
    if is_written:
        write()
        assert values(small) == {"1": 10, "2": 1}
    else:
        with pytest.raises(errors.WriteConflictError):
            write()
        assert "2" not in values(small)
    assert not small.table.timeline().pending
    assert small.problems() == []


def test_eager_clean_up_is_refused() -> None:
    """T-O20."""
    eager = settings.FailedWritesPolicy.EAGER
    chosen = settings.WriteSettings(concurrency=OPTIMISTIC, failed_writes_policy=eager)
    assert chosen.contradiction is not None
    assert re.search("EAGER with OPTIMISTIC_CONCURRENCY_CONTROL", chosen.contradiction)
