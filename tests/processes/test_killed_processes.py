"""Real processes on one table, killed, paused and cut off at random: see `endure.py`.

Invariants I1 to I5, I8 to I11 and WR1 of protocol.md.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from processes import trouble
from processes.worker import ModeName

ENDURE = Path(__file__).with_name("endure.py")
SECONDS = 7
SECONDS_WITHOUT_LOCK = 3


@pytest.mark.parametrize(
    ("lock", "mode"),
    [("filesystem", ModeName.NON_BLOCKING), *(("zookeeper", mode) for mode in ModeName)],
)
def test_nothing_acknowledged_is_lost(lock: str, mode: ModeName) -> None:
    """T-P01, T-P02."""
    more = ("--indexed",) if lock == "filesystem" else ()
    endure("--mode", mode.value, "--lock", lock, "--seconds", str(SECONDS), *more)


@pytest.mark.parametrize(
    ("storage", "mode"), [("local", ModeName.COPY_ON_WRITE), ("s3", ModeName.NON_BLOCKING)]
)
def test_nothing_is_lost_where_every_lock_says_yes(storage: str, mode: ModeName) -> None:
    """T-P01, T-P02; E1 to E9 of protocol.md: in a table of ours alone no lock is needed."""
    place = ("--lock", "lying", "--storage", storage)
    # Of S3 one thing after the other: its emulator is slow.
    more = ("--indexed",) if storage == "local" else ()
    done = endure("--mode", mode.value, *place, "--seconds", str(SECONDS_WITHOUT_LOCK), *more)
    assert "0 published after their lock was lost" in done


def endure(*arguments: str) -> str:
    """Run a fleet, and return what is said of it."""
    done = subprocess.run(
        [sys.executable, ENDURE, *arguments, "--seed", "1"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "every invariant held" in done.stdout
    return done.stdout


def test_password_of_a_session_is_the_servers(zookeeper: str) -> None:
    client = KazooClient(zookeeper)
    client.start()
    session_id, password = client.client_id
    client.stop()
    client.close()
    assert trouble.session_password(session_id) == password
