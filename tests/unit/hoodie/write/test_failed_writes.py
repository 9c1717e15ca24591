"""When writers take failed writes back: eagerly, lazily, never, and their own at once."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hoodie import errors
from hoodie.maintenance.rollback import failed_writes
from hoodie.model import settings
from hoodie.model.instants import Action, Instant
from hoodie.transaction import lifecycle
from hoodie.write import sessions, tasks
from support.tables.tables import NON_BLOCKING, QUICK, SmallTable

SINGLE = settings.ConcurrencyMode.SINGLE_WRITER
LAZY, EAGER, NEVER = (
    settings.FailedWritesPolicy.LAZY,
    settings.FailedWritesPolicy.EAGER,
    settings.FailedWritesPolicy.NEVER,
)
ROW = {"id": "1", "part": "p", "a": 1}


def open_write(small: SmallTable, **options: object) -> sessions.WriteSession:
    """Return a write whose data files are there."""
    session = small.table.begin_write(small.options(**options), ["id", "part", "a"])
    assert isinstance(session, sessions.WriteSession)
    small.write_files(session, [{"id": "2", "part": "p", "a": 2}])
    return session


def fail(small: SmallTable, monkeypatch: pytest.MonkeyPatch, **options: object) -> str:
    """Return the instant of a write that gave up, and could not take itself back."""
    session = open_write(small, writer_id="failing", **options)
    with monkeypatch.context() as patched:
        patched.setattr(sessions.failed_writes, "roll_back_aborted", lambda *_: None)
        session.abort(has_tasks_left=False)
    return session.requested_time


def actions(small: SmallTable) -> list[Action]:
    return [each.action for each in small.table.timeline().instants]


def pending(small: SmallTable) -> tuple[Instant, ...]:
    return small.table.timeline().pending


@pytest.mark.parametrize("policy", [None, EAGER])
def test_single_writer_takes_back_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: settings.FailedWritesPolicy | None
) -> None:
    """T-H10: nothing that failed is pending any more when its first data file is written."""
    small = SmallTable(tmp_path / "t")
    fail(small, monkeypatch, concurrency=SINGLE)
    seen = []
    run = tasks.run

    def look_and_run(*arguments: object) -> object:
        seen.append(actions(small))
        return run(*arguments)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(tasks, "run", look_and_run)
    small.upsert([ROW], concurrency=SINGLE, failed_writes_policy=policy)
    assert seen == [[Action.DELTA_COMMIT, Action.ROLLBACK]]
    assert not pending(small)
    assert len(small.rows()) == 1
    assert small.problems() == []


@pytest.mark.parametrize("policy", [None, LAZY])
def test_one_of_several_writers_takes_back_once_it_has_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: settings.FailedWritesPolicy | None
) -> None:
    small = SmallTable(tmp_path / "t")
    fail(small, monkeypatch)
    small.upsert([ROW], failed_writes_policy=policy)
    assert actions(small) == [Action.DELTA_COMMIT, Action.ROLLBACK]
    assert not pending(small)
    assert small.problems() == []


def test_writer_takes_back_two_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others left is not to keep it from telling that it has committed."""
    small = SmallTable(tmp_path / "t")
    times = [fail(small, monkeypatch) for _ in range(3)]
    small.upsert([ROW])
    assert [each.requested_time for each in pending(small)] == times[:1]
    small.upsert([ROW])
    assert not pending(small)
    assert small.problems() == []


@pytest.mark.parametrize("mode", [SINGLE, NON_BLOCKING])
def test_never_is_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: settings.ConcurrencyMode
) -> None:
    """T-H11: readers are unaffected; a rollback that is asked for works."""
    small = SmallTable(tmp_path / "t")
    time = fail(small, monkeypatch, concurrency=mode)
    small.upsert([ROW], concurrency=mode, failed_writes_policy=NEVER)
    open_write(small, concurrency=mode, failed_writes_policy=NEVER).abort(has_tasks_left=False)
    first, _ = pending(small)
    assert first.requested_time == time
    assert len(small.rows()) == 1
    done = small.table.roll_back_failed(small.options().transaction).done
    assert [each.target for each in done][1] == time
    assert not pending(small)


def test_aborted_write_that_another_process_rolls_back_first_is_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small = SmallTable(tmp_path / "t")
    session = open_write(small)
    roll_back = failed_writes.roll_back_aborted

    def roll_back_second(*arguments: Any) -> None:  # noqa: ANN401 - passed on
        assert small.table.roll_back_failed(small.options().transaction).done
        roll_back(*arguments)

    monkeypatch.setattr(sessions.failed_writes, "roll_back_aborted", roll_back_second)
    session.abort(has_tasks_left=False)
    assert not pending(small)
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_live_writer_is_left_alone_by_all_policies(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    alive = open_write(small, writer_id="alive")
    small.upsert([ROW], failed_writes_policy=LAZY, acknowledges_order_dependence=True)
    with pytest.raises(errors.ConflictError, match="active"):
        small.upsert([ROW], writer_id="alone", concurrency=SINGLE)
    with pytest.raises(errors.ConflictError, match="sign of life"):
        small.table.roll_back(alive.requested_time, small.options().transaction)
    assert small.table.roll_back_failed(small.options().transaction).done == ()
    alive.abort(has_tasks_left=False)


def raise_conflict(*_: object, **__: object) -> None:
    raise errors.ConflictError("simulated")


def test_aborted_write_is_taken_back_at_once(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    open_write(small).abort(has_tasks_left=False)
    assert actions(small) == [Action.ROLLBACK]
    assert not pending(small)
    assert not list((small.path / ".hoodie/.temp").glob("*/*"))
    assert not list((small.path / ".hoodie/.heartbeat").iterdir())


def test_write_that_fails_before_its_tasks_is_taken_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A requested instant without a heartbeat would stay until nothing tells that it is alive."""
    small = SmallTable(tmp_path / "t")

    def fail_to_look(*_: object) -> None:
        raise errors.StorageError("simulated")

    with monkeypatch.context() as patched:
        patched.setattr(sessions.snapshots, "replaced_groups", fail_to_look)
        with pytest.raises(errors.StorageError, match="simulated"):
            small.upsert([ROW])
    assert actions(small) == [Action.ROLLBACK]
    assert not pending(small)
    assert not list((small.path / ".hoodie/.heartbeat").iterdir())


def test_write_with_tasks_left_is_not_taken_back_yet(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    open_write(small).abort(has_tasks_left=True)
    assert actions(small) == [Action.DELTA_COMMIT]


def test_refused_commit_is_taken_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SmallTable(tmp_path / "t")
    monkeypatch.setattr(lifecycle, "commit", raise_conflict)
    with pytest.raises(errors.ConflictError, match="simulated"):
        small.upsert([ROW])
    assert actions(small) == [Action.ROLLBACK]


def raise_unforeseen(*_: object) -> None:
    raise ValueError("our own bug")


@pytest.mark.parametrize("failure", [raise_conflict, raise_unforeseen])
def test_failing_to_take_back_lazily_is_a_finding_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Callable[..., None]
) -> None:
    """C3: the write has taken effect."""
    small = SmallTable(tmp_path / "t")
    fail(small, monkeypatch)
    monkeypatch.setattr(sessions.failed_writes, "roll_back_all", failure)
    result = small.upsert([ROW])
    assert "stay pending" in str(getattr(result, "findings", None))
    assert len(small.rows()) == 1


def test_eager_among_several_writers_is_refused() -> None:
    contradicting = replace(QUICK, failed_writes_policy=EAGER)
    assert "EAGER" in str(contradicting.contradiction)
    assert replace(QUICK, failed_writes_policy=LAZY).contradiction is None


def test_eager_among_several_writers_begins_nothing(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "t")
    with pytest.raises(errors.ConfigurationError, match="EAGER"):
        small.upsert([ROW], failed_writes_policy=EAGER)
    assert actions(small) == []
