"""Peaks of resident memory, as Linux counts them."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

OWN = os.getpid()
_PROCESSES = Path("/proc")


def family(root: int) -> set[int]:
    """Return a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for path in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):  # It has ended.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found, pending = set[int](), [root]
    while pending:
        found.add(process := pending.pop())
        pending += children.get(process, [])
    return found


def forget_peaks(processes: Iterable[int]) -> None:
    """Begin to count anew."""
    for process in processes:
        with suppress(OSError):
            (_PROCESSES / str(process) / "clear_refs").write_text("5")


def peak_bytes(processes: Iterable[int]) -> int:
    """Return the peaks of the processes, summed: no less than the peak of their sum."""
    return sum(_peak_bytes(process) for process in processes)


def _peak_bytes(process: int) -> int:
    with suppress(OSError):
        for line in (_PROCESSES / str(process) / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
