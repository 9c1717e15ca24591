"""Peaks of memory: of resident memory, as Linux counts them, and of Arrow's in this process.

Mapped files are resident, too, as long as they are mapped; Arrow's memory has none of them.
"""

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

OWN = os.getpid()
_SAMPLES_S = 0.005
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


class ArrowPeak:
    """The peak of what Arrow has allocated in this process while the context is open, by samples.

    Arrow's own peak is that of the whole process, and cannot be set back.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self.bytes = max(self.bytes, pa.total_allocated_bytes())
            if self._is_over.wait(_SAMPLES_S):
                return
