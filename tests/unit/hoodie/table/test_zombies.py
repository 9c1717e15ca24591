"""What executors leave that were taken for dead and go on: it is not read, named, and removed."""

from dataclasses import replace
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.maintenance.compaction import tasks
from hoodie.model import results, settings, table_config
from hoodie.storage import paths
from hoodie.transaction import authors, heartbeats, markers
from hoodie.write import sessions
from support.tables.tables import CONFIG, SmallTable

OPTIMISTIC = settings.ConcurrencyMode.OPTIMISTIC
COPY_ON_WRITE = table_config.TableType.COPY_ON_WRITE
MERGE_ON_READ = table_config.TableType.MERGE_ON_READ
ROW = {"id": "1", "part": "p", "a": 1, "b": None}
LATER = "9-999999999-9"
"""A write token above all others: what decides where nothing else does."""


@pytest.fixture(params=[COPY_ON_WRITE, MERGE_ON_READ])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> SmallTable:
    """Return a table whose newest base file is of a write, or of a compaction."""
    config = replace(CONFIG, has_partial_updates=False, bucket_count=1, table_type=request.param)
    small = SmallTable(tmp_path / "t", config)
    small.upsert([ROW], concurrency=OPTIMISTIC)
    if request.param is MERGE_ON_READ:
        small.compact()
    return small


def base_file(small: SmallTable) -> Path:
    (found,) = (small.path / "p").glob("*.parquet")
    return found


def leave_orphan(small: SmallTable, content: bytes) -> Path:
    """Leave a second base file of the newest instant, as its late executor does."""
    file_id, _, rest = base_file(small).name.split("_")
    orphan = small.path / "p" / f"{file_id}_{LATER}_{rest}"
    orphan.write_bytes(content)
    return orphan


def mark(small: SmallTable, orphan: Path) -> None:
    instant = small.table.timeline().completed_writes[-1]
    storage = small.env.open_storage(str(small.path))
    markers.mark(storage, instant.requested_time, f"p/{orphan.name}")


def sweep(small: SmallTable) -> results.RollbackResults:
    return small.table.roll_back_failed(small.options().transaction)


def test_task_of_a_write_that_was_judged_dead_opens_no_file(small: SmallTable) -> None:
    """P1: what it would have written is marked, and the marker is all that is left."""
    session = small.table.begin_write(
        small.options(writer_id="zombie", concurrency=OPTIMISTIC), list(ROW)
    )
    assert isinstance(session, sessions.WriteSession)
    storage = small.env.open_storage(str(small.path))
    storage.delete(heartbeats.path_of(session.requested_time))
    before = sorted((small.path / "p").iterdir())
    with pytest.raises(errors.HeartbeatExpiredError, match="no further file is written"):
        small.write_files(session, [ROW])
    assert sorted((small.path / "p").iterdir()) == before
    assert len(markers.marked_files(storage, session.requested_time)) == 1
    session.abort(has_tasks_left=False)


def test_execution_that_was_taken_over_opens_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: the executor was paused before its first file, and is judged dead."""
    small = SmallTable(tmp_path / "t")
    small.upsert([ROW])
    service = replace(small.options().transaction, author=authors.Author())
    planned = small.table.schedule_compaction(service)
    assert planned is not None
    run_task = tasks.run

    def run_after_the_successor(task: object) -> object:
        monkeypatch.setattr(tasks, "run", run_task)
        storage = small.env.open_storage(str(small.path))
        storage.delete(heartbeats.path_of(planned))
        small.table.compact(planned, service)
        return run_task(task)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(tasks, "run", run_after_the_successor)
    with pytest.raises(errors.HeartbeatExpiredError):
        small.table.compact(planned, service)
    assert len(list((small.path / "p").glob("*.parquet"))) == 1
    sweep(small)
    assert small.problems() == []


@pytest.mark.parametrize("is_marked", [True, False])
def test_base_file_that_the_commit_names_is_read(small: SmallTable, is_marked: bool) -> None:
    """I8, I9: not the one with the greater token, which is broken."""
    orphan = leave_orphan(small, base_file(small).read_bytes()[:-100])
    if is_marked:
        mark(small, orphan)
    assert [row["a"] for row in small.rows()] == [1]
    (problem,) = small.problems()
    assert problem.startswith(f"p/{orphan.name}: ")
    assert "does not name it" in problem
    small.upsert([{**ROW, "a": 2}], concurrency=OPTIMISTIC)
    assert [row["a"] for row in small.rows()] == [2]
    assert sweep(small).leftovers == 1 + is_marked
    assert not orphan.exists()
    assert [row["a"] for row in small.rows()] == [2]
    assert small.problems() == []


def test_change_is_made_of_the_base_file_that_the_commit_names(tmp_path: Path) -> None:
    config = replace(CONFIG, has_partial_updates=False, bucket_count=1, table_type=COPY_ON_WRITE)
    small = SmallTable(tmp_path / "t", config)
    small.upsert([ROW], concurrency=OPTIMISTIC)
    other = SmallTable(tmp_path / "other", config)
    other.upsert([{**ROW, "id": "of the orphan"}], concurrency=OPTIMISTIC)
    leave_orphan(small, base_file(other).read_bytes())
    small.upsert([{**ROW, "id": "2"}], concurrency=OPTIMISTIC)
    assert [row["id"] for row in small.rows()] == ["1", "2"]


def test_sweep_leaves_all_that_commits_name(small: SmallTable) -> None:
    before = sorted(small.path.rglob("*.parquet"))
    mark(small, base_file(small))
    assert sweep(small).leftovers == 1
    assert sorted(small.path.rglob("*.parquet")) == before


def test_file_that_was_never_finished_is_not_read_but_named_and_removed(small: SmallTable) -> None:
    completed = base_file(small)
    left = completed.with_name(paths.unfinished(completed.name.replace("_0-", "_1-")))
    left.write_bytes(b"PAR1")
    assert [row["a"] for row in small.rows()] == [1]
    (problem,) = small.table.check(small.options().transaction.settings)
    assert (problem.subject, problem.remedy) == (f"p/{left.name}", results.Remedy.ROLL_BACK)
    assert "never finished" in problem.message
    assert sweep(small).leftovers == 1
    assert not left.exists()
    assert small.problems() == []


def test_unfinished_file_of_a_write_that_is_taken_back_goes_with_it(small: SmallTable) -> None:
    session = small.table.begin_write(
        small.options(writer_id="dead", concurrency=OPTIMISTIC), list(ROW)
    )
    small.write_files(session, [ROW])
    (written,) = [
        path for path in (small.path / "p").iterdir() if session.requested_time in path.name
    ]
    left = written.with_name(paths.unfinished(written.name))
    written.rename(left)
    assert small.table.check(small.options().transaction.settings)
    session.abort(has_tasks_left=False)
    assert not left.exists()
    assert small.problems() == []


def test_log_file_of_another_instant_under_a_writes_time_counts(tmp_path: Path) -> None:
    """`DELETE` of Apache Hudi's SQL puts the time of the row's commit into the name."""
    config = replace(CONFIG, has_partial_updates=False, bucket_count=1)
    small = SmallTable(tmp_path / "t", config)
    small.upsert([ROW], concurrency=OPTIMISTIC)
    small.delete([ROW], concurrency=OPTIMISTIC)
    written, deleted = (each.requested_time for each in small.table.timeline().completed_writes)
    (log_file,) = (small.path / "p").glob(f"*{deleted}*")
    name = log_file.name.replace(deleted, written).rpartition("_")[0]
    renamed = log_file.rename(log_file.with_name(f"{name}_7-7-7"))
    assert small.rows() == []
    assert sweep(small).leftovers == 0
    assert renamed.exists()
    small.compact()
    assert small.rows() == []
    small.upsert([ROW], concurrency=OPTIMISTIC)
    assert len(small.rows()) == 1
