"""What a state folder keeps: the newest attempts of objects, and nothing of those that are gone."""

import dataclasses
import json
import signal
from collections.abc import Iterable
from pathlib import Path

from hoodie import clock, identity
from hoodie_operator.api import objects
from hoodie_operator.reconcile import effects, facts
from hoodie_operator.standalone.lock_servers import LockServers
from hoodie_operator.standalone.processes import Processes
from support.processes import identified_process


def _ended(state: Path, uid: str, attempt: int) -> None:
    """Put the folder of an ended attempt, and its object's fence."""
    folder = state / "runs" / f"writer.left.{uid}.{attempt}"
    folder.mkdir(parents=True)
    run_id = {"kind": "Writer", "name": "left", "uid": uid, "attempt": attempt}
    record = {"id": run_id, "protocol_hash": "", "started_ms": attempt}
    for name, content in (
        ("run", record),
        ("process", None),
        ("end", {"ended_ms": attempt, "exit_code": 0}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    (state / "fences").mkdir(exist_ok=True)
    (state / "fences" / f"{uid}.json").write_text("{}")


def _left(state: Path) -> set[str]:
    return {path.name for path in (*state.glob("runs/*"), *state.glob("fences/*"))}


def _forget(state: Path, owners: Iterable[str]) -> None:
    processes = Processes(state, clock.SystemClock())
    processes.forget(processes.observe(), set(owners))


def test_newest_attempts_of_an_object_are_kept(tmp_path: Path) -> None:
    for attempt in range(1, 13):
        _ended(tmp_path, "aaaaaaaa", attempt)
    _forget(tmp_path, ["aaaaaaaa"])
    newest = {f"writer.left.aaaaaaaa.{attempt}" for attempt in range(8, 13)}
    assert _left(tmp_path) == newest | {"aaaaaaaa.json"}


def test_nothing_is_kept_of_an_object_that_is_gone(tmp_path: Path) -> None:
    _ended(tmp_path, "aaaaaaaa", 1)
    _ended(tmp_path, "bbbbbbbb", 1)
    _forget(tmp_path, ["aaaaaaaa"])
    assert _left(tmp_path) == {"writer.left.aaaaaaaa.1", "aaaaaaaa.json"}


def test_fence_of_a_run_that_may_be_at_work_stays(tmp_path: Path) -> None:
    _ended(tmp_path, "aaaaaaaa", 1)
    _ended(tmp_path, "aaaaaaaa", 2)
    (tmp_path / "runs" / "writer.left.aaaaaaaa.2" / "end.json").unlink()
    process = dataclasses.replace(identity.current_process(), host="elsewhere")
    path = tmp_path / "runs" / "writer.left.aaaaaaaa.2" / "process.json"
    path.write_text(json.dumps(dataclasses.asdict(process)))
    _forget(tmp_path, [])
    assert _left(tmp_path) == {"writer.left.aaaaaaaa.2", "aaaaaaaa.json"}


def test_process_that_may_be_another_is_not_stopped(tmp_path: Path) -> None:
    """Its pid, on this machine, is that of a process that has nothing to do with the run."""
    _ended(tmp_path, "aaaaaaaa", 1)
    run_id = facts.RunId(
        kind="Writer", name="left", uid="aaaaaaaa", attempt=1, namespace=objects.DEFAULT_NAMESPACE
    )
    path = tmp_path / "runs" / "writer.left.aaaaaaaa.1" / "process.json"
    stop = effects.StopRun(id=run_id, is_killed=True, reason="suspended")
    with identified_process.started() as other:
        for changes in ({"host": "elsewhere"}, {"start_ticks": 1}, {"boot_id": "another"}):
            process = dataclasses.replace(other.process, **changes)  # type: ignore[arg-type] # its fields
            path.write_text(json.dumps(dataclasses.asdict(process)))
            Processes(tmp_path, clock.SystemClock()).stop(stop)
        assert identity.state_of(other.process) is identity.ProcessState.RUNNING
        path.write_text(json.dumps(dataclasses.asdict(other.process)))
        Processes(tmp_path, clock.SystemClock()).stop(stop)
        assert other.child.wait() == -signal.SIGKILL


def test_nothing_is_kept_of_a_lock_server_that_is_gone(tmp_path: Path) -> None:
    data = tmp_path / "locks" / "aaaaaaaa" / "data"
    data.mkdir(parents=True)
    LockServers(tmp_path, clock.SystemClock()).remove("aaaaaaaa")
    assert not data.parent.exists()
