"""Which process is which, and when one is proved dead: never without evidence of that very one."""

import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie import identity
from hoodie.identity import ProcessState
from support.processes import identified_process

ZOMBIE_LEADER = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""

FORKED = """
import os
from hoodie import identity
parent = identity.current_process()
if os.fork() == 0:
    now = identity.as_of_now(parent)
    print(now.pid == os.getpid(), identity.state_of(now) is identity.ProcessState.RUNNING)
else:
    os.wait()
"""


def running_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def waited(is_so: Callable[[], bool]) -> None:
    while not is_so():
        os.sched_yield()


def test_process_that_runs_or_is_paused_is_running() -> None:
    assert identity.state_of(identity.current_process()) is ProcessState.RUNNING
    with identified_process.started() as other:
        assert identity.state_of(other.process) is ProcessState.RUNNING
        other.child.send_signal(signal.SIGSTOP)
        assert identity.state_of(other.process) is ProcessState.RUNNING


def test_process_that_was_killed_has_ended_waited_for_or_not() -> None:
    with identified_process.started() as other:
        os.kill(other.process.pid, signal.SIGKILL)
        waited(lambda: running_state(other.process.pid) == "Z")
        assert identity.state_of(other.process) is ProcessState.ENDED
        other.child.wait()
        assert identity.state_of(other.process) is ProcessState.ENDED


def test_process_whose_first_thread_ended_before_the_others_has_not() -> None:
    command = [sys.executable, "-c", ZOMBIE_LEADER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            waited(lambda: running_state(child.pid) == "Z")
            start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
            process = dataclasses.replace(
                identity.current_process(), pid=child.pid, start_ticks=int(start)
            )
            assert identity.state_of(process) is ProcessState.RUNNING
        finally:
            child.kill()


def test_pid_that_was_given_to_another_proves_that_the_first_has_ended() -> None:
    with identified_process.started() as other:
        earlier = dataclasses.replace(other.process, start_ticks=1)
        assert identity.state_of(earlier) is ProcessState.ENDED


@pytest.mark.parametrize(
    "changes",
    [
        {"boot_id": "0f0f0f0f-0000-4000-8000-000000000000"},
        {"boot_id": ""},
        {"host": "elsewhere"},
        {"pid_namespace": "pid:[1]"},
        {"pid_namespace": ""},
        {"pid": 0},
        {"pid": -1},
        {"pid": 1 << 40},
    ],
    ids=str,
)
def test_nothing_is_known_of_a_process_that_cannot_be_looked_at(changes: dict[str, object]) -> None:
    """R-A, L1: with another boot id it may run on another machine of the same name."""
    gone = {"pid": 4_000_000, **changes}
    process = dataclasses.replace(identity.current_process(), **gone)  # type: ignore[arg-type] # its fields
    assert identity.state_of(process) is ProcessState.UNKNOWN


def test_process_of_an_earlier_boot_has_ended_only_where_no_other_machine_has_the_name() -> None:
    process = dataclasses.replace(identity.current_process(), boot_id="another")
    assert identity.state_of(process, is_host_unique=True) is ProcessState.ENDED
    elsewhere = dataclasses.replace(process, host="elsewhere")
    assert identity.state_of(elsewhere, is_host_unique=True) is ProcessState.UNKNOWN


def test_forked_process_is_another_than_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.split() == ["True", "True"]
    here = identity.current_process()
    assert identity.as_of_now(here) == here
    pretended = dataclasses.replace(here, boot_id="another")
    assert identity.as_of_now(pretended) == pretended
