"""Identity and chance: who this process is, and where ids and jitter come from.

A process is known by host, boot id, pid and start time together: a pid alone is given to another
process sooner or later, and after a reboot all of them are.
"""

import enum
import os
import random
import socket
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


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
        pid_namespace: The namespace that `pid` counts in; a container has its own.
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
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=_boot_id(),
        pid_namespace=_pid_namespace(),
        pid=pid,
        start_ticks=_start_ticks(pid) or 0,
    )


class ProcessState(enum.Enum):
    """What can be known of a process."""

    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"


def state_of(process: ProcessIdentity) -> ProcessState:
    """Return what has become of a process.

    Only a process of this host, boot and process namespace can be proved alive or dead by looking;
    one of this host and an earlier boot is dead; nothing is known of any other.
    """
    boot_id = _boot_id()
    if process.host != socket.gethostname() or not boot_id or not process.boot_id:
        return ProcessState.UNKNOWN
    if process.boot_id != boot_id:
        return ProcessState.ENDED
    if process.pid_namespace != _pid_namespace():
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
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_ticks(pid: int) -> int | None:
    """Return the process's start in ticks since boot; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError:
        return 0
    # The command, in parentheses, may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
