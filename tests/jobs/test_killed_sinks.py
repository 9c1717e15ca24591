"""A driver that writes a DataFrame, killed with its JVM and workers at once."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie import errors
from hoodie_jobs import staging
from support.kube.programs import wait_until

PROGRAM = Path(__file__).parents[1] / "support/processes/frame_writer.py"
WAIT_S = 180
ROWS = 400_000


def start(table: Path) -> subprocess.Popen[bytes]:
    with (table.parent / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), str(table), str(ROWS)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def is_staged(table: Path) -> bool:
    """Whether a task has put rows aside, and others, or the commit, are at work."""
    return any((table / staging.FOLDER).rglob("*.arrow"))


def is_begun(table: Path) -> bool:
    """Whether the write is on the timeline."""
    return any((table / ".hoodie/timeline").glob("*.inflight"))


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a driver, its JVM and Spark's workers, which have process groups of their own."""

    def is_gone() -> bool:
        members = living(process.pid)
        for each in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        return not members

    # A process that gets SIGKILL is not gone at once.
    wait_until(is_gone, "the driver and all that it has started are gone", WAIT_S)
    process.wait(WAIT_S)


def living(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(of_session) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


@pytest.mark.sample(1)  # `tests/unit/hoodie_jobs` has the other moments.
@pytest.mark.parametrize("moment", [is_begun, is_staged])
def test_killed_driver_publishes_nothing(tmp_path: Path, moment: Callable[[Path], bool]) -> None:
    table = tmp_path / "numbers"
    process = start(table)
    try:
        wait_until(lambda: moment(table), "the write is at work", WAIT_S)
    finally:
        kill_all(process)
    try:
        opened = hoodie.open_table(table)
    except errors.NotFoundError:
        assert moment is is_staged
        opened = hoodie.create_table(table, {"id": "string", "twice": "int64"}, "id")
    assert opened.scan().count() == 0
    # What it has left is in the way of no other write.
    opened.insert([{"id": "a", "twice": 1}])
    assert opened.scan().to_arrow().to_pylist() == [{"id": "a", "twice": 1}]
    assert is_staged(table)
