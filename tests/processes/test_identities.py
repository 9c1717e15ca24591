"""What processes in namespaces of their own find of each other: never that a live one has ended."""

import dataclasses
import os
import signal
from pathlib import Path

import pytest

from hoodie import identity
from hoodie.identity import ProcessState
from support.processes import identified_process

CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
WITH_PROC_OF_THE_MACHINE = ("unshare", "--pid", "--fork", "--kill-child")
WITH_A_NAME_OF_ITS_OWN = ("unshare", "--uts", "sh", "-c", 'hostname other && exec "$@"', "sh")
WITH_A_CLOCK_OF_ITS_OWN = ("unshare", "--time", "--boottime", "100000", "--fork", "--kill-child")
HIDING = ("unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"')
NOBODY = ("--uid", "65534")

PLACES = {
    "machine": (),
    "container": CONTAINER,
    "container with the machine's /proc": WITH_PROC_OF_THE_MACHINE,
    "host name of its own": WITH_A_NAME_OF_ITS_OWN,
    "clock of its own": WITH_A_CLOCK_OF_ITS_OWN,
}


@pytest.mark.parametrize("judge", PLACES)
@pytest.mark.parametrize("place", PLACES)
def test_live_process_is_never_found_to_have_ended(place: str, judge: str) -> None:
    """R-A: in whatever namespaces it runs, and in whatever others it is looked at from."""
    with identified_process.started(*PLACES[place]) as other:
        seen = identified_process.state_seen_by(PLACES[judge], other.process)
        is_shared = place == judge and place in {"machine", "host name of its own"}
        assert seen is (ProcessState.RUNNING if is_shared else ProcessState.UNKNOWN)


@pytest.mark.parametrize("place", [place for place in PLACES if place != "machine"])
def test_process_elsewhere_that_has_ended_is_not_known_to_have(place: str) -> None:
    with identified_process.started(*PLACES[place]) as other:
        other.end()
        assert identity.state_of(other.process) is ProcessState.UNKNOWN


def test_process_is_seen_from_within_its_own_container() -> None:
    with identified_process.started(*CONTAINER) as other:
        (inside,) = _children(other.child.pid)
        enter = ("nsenter", "--target", str(inside), "--pid", "--mount")
        assert identified_process.state_seen_by(enter, other.process) is ProcessState.RUNNING
        # The machine's /proc has another process by that pid.
        enter = ("nsenter", "--target", str(inside), "--pid")
        assert identified_process.state_seen_by(enter, other.process) is ProcessState.UNKNOWN
        gone = dataclasses.replace(other.process, pid=30_000)
        assert identified_process.state_seen_by(enter, gone) is ProcessState.UNKNOWN


def test_process_that_proc_hides_is_not_taken_for_ended() -> None:
    """/proc mounted with hidepid=2 does not show other users' processes."""
    with identified_process.started() as other:
        seen = identified_process.state_seen_by((*HIDING, "sh"), other.process, *NOBODY)
        assert seen is ProcessState.UNKNOWN
        os.kill(other.process.pid, signal.SIGKILL)
        other.child.wait()
        seen = identified_process.state_seen_by((*HIDING, "sh"), other.process, *NOBODY)
        assert seen is ProcessState.ENDED


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]
