"""Identity and chance: who this process is, and where ids and jitter come from.

A process is identified by host, boot, process namespace, pid and start time together: a pid alone
is given to another process sooner or later.

What another process may do to a process that it judges dead cannot be undone, so a verdict is
`ENDED` only with evidence of this very process, and `UNKNOWN` wherever that cannot be had:

- Only processes of the same boot and namespace can be looked at. Another boot id proves nothing:
  two machines may have one host name, and clones of a machine share every id that is not of a boot.
- A process that `/proc` does not show may be hidden (`hidepid`). It is gone only if a signal to it
  finds no such process either.
- `/proc` may have been mounted for another namespace, where pids mean other processes.

Machines that are restored from one memory snapshot share even their boot id; nothing here can tell
them apart.
"""

import enum
import os
import random
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_MACHINE_TIME_NAMESPACE = "time:[4026531834]"
"""The kernel's fixed number of the first time namespace (`PROC_TIME_INIT_INO`)."""

_PID_MAX = 1 << 22
_STATE, _THREADS, _START = 0, 17, 19
"""Positions in `/proc/PID/stat` behind the command (proc_pid_stat(5), from field 3 on)."""


class Random(Protocol):
    """A source of ids and of chance."""

    def uuid(self) -> str:
        """Return a fresh random UUID in its usual text form."""
        ...

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        ...


class SystemRandom:
    """The machine's randomness."""

    def uuid(self) -> str:
        """Return a version 4 UUID."""
        return str(uuid.uuid4())

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()  # noqa: S311 - jitter, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Which process this is, for lock files, run records and messages.

    Attributes:
        host: The machine's host name.
        boot_id: The kernel's id of this boot; empty where there is none.
        pid_namespace: The namespace that `pid` counts in, a container has its own; and the one that
            `start_ticks` counts in, if that is not the machine's. Empty where it is not known.
        pid: The process id.
        start_ticks: Start of the process in clock ticks since boot; 0 where unknown.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    start_ticks: int

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


def current_process() -> ProcessIdentity:
    """Return the identity of the running process."""
    pid = os.getpid()
    namespace = _pid_namespace()
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=_boot_id(),
        pid_namespace=namespace,
        pid=pid,
        start_ticks=(_start_ticks(pid) or 0) if namespace else 0,
    )


def as_of_now(process: ProcessIdentity) -> ProcessIdentity:
    """Return the identity of the running process, given what it was when last asked.

    A process that was forked since is another one: the identity that it inherited is that of its
    parent, which may be dead. An identity of another boot is returned as it is: only tests have it.
    """
    current = current_process()
    return current if process.boot_id == current.boot_id else process


def process_id() -> int:
    """Return the id of the running process, by which it knows whether it was forked since."""
    return os.getpid()


class ProcessState(enum.Enum):
    """What can be known of a process."""

    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


def state_of(process: ProcessIdentity, *, is_host_unique: bool = False) -> ProcessState:
    """Return what has become of a process.

    Args:
        process: The process.
        is_host_unique: Whether its host name is known to name this machine and no other: what ran
            there before the machine was started has then ended.
    """
    boot_id = _boot_id()
    if process.host != socket.gethostname() or not boot_id or not process.boot_id:
        return ProcessState.UNKNOWN
    if process.boot_id != boot_id:
        return ProcessState.ENDED if is_host_unique else ProcessState.UNKNOWN
    namespace = _pid_namespace()
    if not namespace or process.pid_namespace != namespace:
        return ProcessState.UNKNOWN
    start_ticks = _start_ticks(process.pid)
    if start_ticks is None:
        return ProcessState.ENDED
    if 0 in (start_ticks, process.start_ticks):
        return ProcessState.UNKNOWN
    is_same = start_ticks == process.start_ticks
    return ProcessState.RUNNING if is_same else ProcessState.ENDED


def is_proved_dead(process: ProcessIdentity) -> bool:
    """Return whether that process has certainly ended."""
    return state_of(process) is ProcessState.ENDED


def _pid_namespace() -> str:
    """Return the namespace of the running process; empty where `/proc` shows another's."""
    try:
        if Path("/proc/self").readlink() != Path(str(os.getpid())):
            return ""
        namespace = str(Path("/proc/self/ns/pid").readlink())
        times = _time_namespace()
    except OSError:
        return ""
    return namespace if times == _MACHINE_TIME_NAMESPACE else f"{namespace} {times}"


def _time_namespace() -> str:
    """Return the namespace that start times are told in: by whom `/proc` is read."""
    try:
        return str(Path("/proc/self/ns/time").readlink())
    except FileNotFoundError:
        return _MACHINE_TIME_NAMESPACE  # Before Linux 5.6 there is only one.


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_ticks(pid: int) -> int | None:
    """Return a process's start in ticks since boot; None when it has ended, 0 where unknown."""
    if not 0 < pid <= _PID_MAX:
        return 0
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if _has_no_process(pid) else 0
    except OSError:
        return 0
    # The command, in parentheses, may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    # A zombie with threads is a process whose first thread has ended before the others.
    is_zombie = fields[_STATE] in {"Z", "X"} and int(fields[_THREADS]) <= 1
    return None if is_zombie else int(fields[_START])


def _has_no_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # Somebody else's, which `/proc` hides from us.
    return False
