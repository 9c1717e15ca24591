"""A storage that fails: before a call, after its effect, with a lost answer, or by a crash.

It stands between one process and a storage that does not fail. Every call is a step of the
schedule; calls that change something are mutations, and what happens at each is decided by a
`Faults`. Calls that Storage allows to be partial (`delete_all`, `delete_directory`) are taken
apart, so that a crash can come between any two deletions.
"""

import enum
import io
import random
from collections.abc import Callable, Iterable
from typing import BinaryIO, Protocol

import pyarrow as pa

from hoodie import errors
from hoodie.storage.protocol import FileInfo, Storage
from support import schedule


class Fault(enum.Enum):
    """What goes wrong with one call."""

    NONE = "none"
    FAIL_BEFORE = "fails before"
    FAIL_AFTER = "fails after the effect"
    LOST_ANSWER = "the client repeats it after a lost answer"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"


class Faults(Protocol):
    """Decides what goes wrong."""

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        """Return what happens at a call, such as `create .hoodie/timeline/...`."""
        ...


class NoFaults:
    """Nothing goes wrong; the mutations are recorded."""

    def __init__(self) -> None:
        self.mutations: list[str] = []

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del process
        if is_mutation:
            self.mutations.append(call)
        return Fault.NONE


class FaultAt:
    """One fault, at the n-th mutation of one process."""

    def __init__(self, process_name: str, number: int, fault: Fault) -> None:
        self._process_name = process_name
        self._left = number
        self._fault = fault

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del call
        if not is_mutation or process.name != self._process_name:
            return Fault.NONE
        self._left -= 1
        return self._fault if self._left == -1 else Fault.NONE


class Interruption:
    """Something else happens, once, right before one call of one process."""

    def __init__(self, process_name: str, call: str, happening: Callable[[], None]) -> None:
        self._process_name = process_name
        self._call = call
        self._happening: Callable[[], None] | None = happening

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del is_mutation
        is_now = process.name == self._process_name and call.startswith(self._call)
        if is_now and self._happening is not None:
            happening, self._happening = self._happening, None
            happening()
        return Fault.NONE


class RandomFaults:
    """Each call goes wrong at some rate."""

    def __init__(self, source: random.Random, *, crash_rate: float, failure_rate: float) -> None:
        self._random = source
        self._crash_rate = crash_rate
        self._failure_rate = failure_rate

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del process, call
        chance = self._random.random()
        if chance < self._crash_rate:
            return self._random.choice((Fault.CRASH_BEFORE, Fault.CRASH_AFTER))
        if chance < self._crash_rate + self._failure_rate:
            if not is_mutation:
                return Fault.FAIL_BEFORE
            return self._random.choice((Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER))
        return Fault.NONE


class FaultyStorage:
    """One process's view of a storage."""

    def __init__(self, inner: Storage, process: schedule.Process, faults: Faults) -> None:
        self._inner = inner
        self._process = process
        self._faults = faults
        self.calls: list[str] = []

    @property
    def uri(self) -> str:
        return self._inner.uri

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        self._read(f"list {directory}")
        return self._inner.list(directory, is_recursive=is_recursive)

    def stat(self, path: str) -> FileInfo:
        self._read(f"stat {path}")
        return self._inner.stat(path)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._read(f"read {path}")
        return self._inner.read(path, offset=offset, length=length)

    def open_input(self, path: str) -> pa.NativeFile:
        self._read(f"open {path}")
        return self._inner.open_input(path)

    def create(self, path: str, content: bytes) -> FileInfo:
        fault = self._before(f"create {path}")
        info = self._inner.create(path, content)
        self._after(fault, f"create {path}")
        if fault is Fault.LOST_ANSWER:
            return self._inner.create(path, content)
        return info

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        fault = self._before(f"replace {path}")
        info = self._inner.replace(path, content, if_match=if_match)
        self._after(fault, f"replace {path}")
        if fault is Fault.LOST_ANSWER:
            return self._inner.replace(path, content, if_match=if_match)
        return info

    def open_write(self, path: str) -> BinaryIO:
        fault = self._before(f"open_write {path}")
        self._after(fault, f"open_write {path}")
        return _FaultyWriter(self, path)

    def touch(self, path: str) -> FileInfo:
        fault = self._before(f"touch {path}")
        info = self._inner.touch(path)
        self._after(fault, f"touch {path}")
        return info

    def delete(self, path: str) -> bool:
        fault = self._before(f"delete {path}")
        was_there = self._inner.delete(path)
        self._after(fault, f"delete {path}")
        return self._inner.delete(path) if fault is Fault.LOST_ANSWER else was_there

    def delete_directory(self, directory: str) -> None:
        for info in self._inner.list(directory, is_recursive=True):
            self.delete(info.path)

    def delete_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def close_file(self, path: str, content: bytes) -> None:
        fault = self._before(f"close {path}")
        with self._inner.open_write(path) as file:
            file.write(content)
        self._after(fault, f"close {path}")

    def _read(self, call: str) -> None:
        self._step(call)
        match self._faults.at(self._process, call, is_mutation=False):
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER:
                self._crash(call)
            case Fault.NONE:
                pass
            case _:
                raise errors.StorageError(f"simulated: {call} failed")

    def _before(self, call: str) -> Fault:
        self._step(call)
        fault = self._faults.at(self._process, call, is_mutation=True)
        if fault is not Fault.NONE:
            self._process.schedule.note(f"{self._process.name}: {call}: {fault.value}")
        if fault is Fault.CRASH_BEFORE:
            self._crash(call)
        if fault is Fault.FAIL_BEFORE:
            raise errors.StorageError(f"simulated: {call} failed")
        return fault

    def _after(self, fault: Fault, call: str) -> None:
        if fault is Fault.CRASH_AFTER:
            self._crash(call)
        if fault is Fault.FAIL_AFTER:
            raise errors.StorageError(f"simulated: the answer to {call} was lost")

    def _step(self, call: str) -> None:
        self._process.schedule.switch(self._process)
        self._process.check_alive()
        self.calls.append(call)
        if not call.startswith(("list", "read", "stat", "open ")):
            self._process.schedule.note(f"{self._process.name}: {call}")

    def _crash(self, call: str) -> None:
        self._process.crash()
        raise schedule.Crash(call)


class _FaultyWriter(io.BytesIO):
    """A streamed file that appears when it is closed, if nothing goes wrong, and never later."""

    def __init__(self, storage: FaultyStorage, path: str) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._storage.close_file(self._path, self.getvalue())
        super().close()
