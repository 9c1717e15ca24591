"""A storage that fails: before a call, after its effect, late, with a lost answer, or by a crash.

It stands between one process and a storage that does not fail. Every call is a step of the
schedule; calls that change something are mutations, and what happens at each is decided by a
`Faults`. Calls that Storage allows to be partial (`delete_all`, `delete_directory`) are taken
apart, so that a crash can come between any two deletions.
"""

import contextlib
import enum
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NoReturn, Protocol, TypeVar

import pyarrow as pa

from hoodie import errors
from hoodie.storage import new_files, paths
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.protocol import FileInfo, NewFile, Storage
from hoodie.timeline import epochs
from hoodie.transaction import layout
from support.simulation import schedule

Result = TypeVar("Result")
Listed = TypeVar("Listed")


class Fault(enum.StrEnum):
    """What goes wrong with one call."""

    NONE = "none"
    FAIL_BEFORE = "fails before"
    FAIL_AFTER = "fails after the effect"
    LOST_ANSWER = "the client repeats it after a lost answer"
    SLOW = "takes long"
    LATE = "fails, and takes effect later"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    LATE_CRASH = "crash, and takes effect later"


SLOW_MS_MAX = 2_000
"""What a slow call takes, and after how long a late one has its effect: less than a heartbeat's
expiry, which is what the protocol waits for (a request that is still on its way after that may
undo anything, on any storage)."""

LATE_EPOCH_MS_MAX = 60_000
"""After how long the creation of an epoch may take effect: no time is too late for a chain."""

_CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
_READ_FAILURES = (Fault.FAIL_BEFORE, Fault.SLOW)
_TIMELINE_FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER, Fault.SLOW)
_FAILURES = (*_TIMELINE_FAILURES, Fault.LATE)
# Files of the timeline that appear late have a rate of their own: what is published late may be
# passed by, which docs/simulation.md tells of as a limit.
_EPOCH = f"create {epochs.DIRECTORY}/"
_TIMELINE = ("create .hoodie/timeline/", _EPOCH)
NEXT_PAGE = ", next page"
_SLOW_PAGE_RATE = 0.1
"""How often a page keeps others waiting: most of what a listing can miss happens then."""
_BEAT = f"touch {layout.HEARTBEATS}/"


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
    """One fault, at the n-th mutation of one process, or at some from that on."""

    def __init__(self, process_name: str, number: int, fault: Fault, times: int = 1) -> None:
        self._process_name = process_name
        self._left = number
        self._fault = fault
        self._times = times

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del call
        if not is_mutation or process.name != self._process_name:
            return Fault.NONE
        self._left -= 1
        return self._fault if -self._times <= self._left < 0 else Fault.NONE


class HappeningAt:
    """Something else happens right before the n-th mutation of one process."""

    def __init__(self, process_name: str, number: int, happening: Callable[[], None]) -> None:
        self._process_name = process_name
        self._left = number
        self._happening = happening

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del call
        if is_mutation and process.name == self._process_name:
            self._left -= 1
            if self._left == -1:
                self._happening()
        return Fault.NONE


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


class ChanceFaults:
    """Each call goes wrong by chance, at some rate."""

    def __init__(
        self,
        *,
        crash_rate: float,
        failure_rate: float,
        late_rate: float = 0.0,
        slow_beat_rate: float = 0.0,
    ) -> None:
        self._crash_rate = crash_rate
        self._failure_rate = failure_rate
        self._late_rate = late_rate
        self._slow_beat_rate = slow_beat_rate

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        if process.is_spared:
            return Fault.NONE
        if process.schedule.is_calling and process.unanswered_until_ms > process.schedule.now_ms:
            return Fault.FAIL_BEFORE
        if process.fate is not None and not process.schedule.is_calling:
            fate, process.fate = process.fate, None
            return Fault(fate)
        is_timeline = call.startswith(_TIMELINE)
        is_beat = bool(self._slow_beat_rate) and call.startswith(_BEAT)

        def sample(source: random.Random) -> str:
            if is_timeline and self._late_rate and source.random() < self._late_rate:
                return Fault.LATE
            if call.endswith(NEXT_PAGE):
                # It is the same request to who lists, which may fail once.
                return Fault.SLOW if source.random() < _SLOW_PAGE_RATE else Fault.NONE
            if is_beat and source.random() < self._slow_beat_rate:
                return Fault.SLOW
            if not is_mutation:
                return self._sample(source, _READ_FAILURES)
            return self._sample(source, _TIMELINE_FAILURES if is_timeline else _FAILURES)

        # A periodic call is made at the same step as a call of the process itself.
        question = "fault of a periodic call" if process.schedule.is_calling else "fault"
        fault = process.schedule.chances.draw(process, question, Fault.NONE, sample)
        return fault if isinstance(fault, Fault) else Fault(fault)

    def _sample(self, source: random.Random, kinds: Sequence[Fault]) -> str:
        drawn = source.random()
        if drawn < self._crash_rate:
            return source.choice(_CRASHES)
        if drawn < self._crash_rate + self._failure_rate:
            return source.choice(kinds)
        return Fault.NONE


class Witness(Protocol):
    """Sees what a process changes, and whether that takes effect later than it was asked for."""

    def see_creation(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Look at a file that was just created."""
        ...

    def see_replacement(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Look at a file that is about to be replaced."""
        ...

    def see_touch(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Look at a file that is about to be touched."""
        ...

    def see_deletion(self, process: schedule.Process, path: str, is_late: bool) -> None:
        """Look at a file that is about to be deleted."""
        ...


class LateStorage(MemoryStorage):
    """A storage that may carry out calls of a process that is dead."""

    @property
    def request_time_ms(self) -> int:
        return SLOW_MS_MAX


class FaultyStorage:
    """One process's view of a storage."""

    def __init__(
        self,
        inner: Storage,
        process: schedule.Process,
        faults: Faults,
        witness: Witness | None = None,
        *,
        is_in_place: bool = False,
        page_names: int | None = None,
    ) -> None:
        """Stand before a storage.

        Args:
            inner: What does not fail.
            process: Whose view this is.
            faults: What goes wrong.
            witness: Sees what is done.
            is_in_place: Streamed files show under their names while they are written.
            page_names: How many names a page of a listing has. Pages come in the order of their
                names, and others go on between two of them. Where sizes are listed, too, a page
                has ten times as many, so that a sweep takes no more steps than a read. None for
                listings that are atomic.
        """
        self._inner = inner
        self._process = process
        self._faults = faults
        self._witness = witness
        self._is_in_place = is_in_place
        self._page_names = page_names
        self._is_late = False
        self.calls: list[str] = []

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def has_atomic_listings(self) -> bool:
        return self._page_names is None and self._inner.has_atomic_listings

    @property
    def request_time_ms(self) -> int:
        return self._inner.request_time_ms

    def list(self, directory: str, *, is_recursive: bool = False) -> "list[FileInfo]":
        def everything() -> Sequence[FileInfo]:
            return self._inner.list(directory, is_recursive=is_recursive)

        self._read(f"list {directory}")
        return self._paged(f"list {directory}", everything, lambda info: info.path, 10)

    def names(self, directory: str) -> Sequence[str]:
        def everything() -> Sequence[str]:
            return sorted(self._inner.names(directory))

        self._read(f"list {directory}")
        self._process.listed_ms = self._process.schedule.now_ms
        return self._paged(f"list {directory}", everything, str, 1)

    def names_by_directory(
        self, directory: str, *, is_recursive: bool = False
    ) -> Mapping[str, Sequence[str]]:
        found = self.list(directory, is_recursive=is_recursive)
        return paths.by_directory(info.path for info in found)

    def _paged(
        self,
        call: str,
        everything: Callable[[], Sequence[Listed]],
        name: Callable[[Listed], str],
        factor: int,
    ) -> "list[Listed]":
        if self._page_names is None:
            return [*everything()]
        size = factor * self._page_names
        found: list[Listed] = []
        while True:
            last = name(found[-1]) if found else ""
            rest = [each for each in everything() if name(each) > last]
            found += rest[:size]
            if len(rest) <= size:
                return found
            self._read(f"{call}{NEXT_PAGE}")

    def stat(self, path: str) -> FileInfo:
        self._read(f"stat {path}")
        return self._inner.stat(path)

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        self._read(f"read {path}")
        return self._inner.read(path, offset=offset, length=length)

    def read_all(self, paths: Iterable[str]) -> Iterator[bytes]:
        return map(self.read, paths)

    def fetch(self, path: str) -> tuple[bytes, str]:
        # Others may act between the two: it promises no more.
        version = self.stat(path).version
        return self.read(path), version

    def read_buffers(self, paths: Sequence[str]) -> Sequence[pa.Buffer]:
        return [self.open_input(path).read_buffer() for path in paths]

    def open_input(self, path: str, *, is_mapped: bool = True) -> pa.NativeFile:
        self._read(f"open {path}")
        return self._inner.open_input(path, is_mapped=is_mapped)

    def create(self, path: str, content: bytes) -> FileInfo:
        return self._mutate(f"create {path}", lambda: self._create(path, content))

    def replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        return self._mutate(
            f"replace {path}", lambda: self._replace(path, content, if_match=if_match)
        )

    def open_write(self, path: str) -> NewFile:
        if self._is_in_place:
            self._mutate(f"open_write {path}", lambda: self._put(path, b""))
            return _InPlaceWriter(self, path)
        self._mutate(f"open_write {path}", lambda: None)
        return _FaultyWriter(self, path)

    def touch(self, path: str) -> FileInfo:
        return self._mutate(f"touch {path}", lambda: self._touch(path))

    def delete(self, path: str) -> bool:
        return self._mutate(f"delete {path}", lambda: self._delete(path))

    def delete_directory(self, directory: str) -> None:
        for info in self._inner.list(directory, is_recursive=True):
            self.delete(info.path)

    def delete_all(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_ordered(self, paths: Iterable[str]) -> None:
        self.delete_all(paths)

    def delete_unordered(self, paths: Iterable[str]) -> None:
        self.delete_all(paths)

    def close_file(self, path: str, content: bytes) -> None:
        self._mutate(f"close {path}", lambda: self._put(path, content))

    def write_part(self, path: str, content: bytes, call: str) -> None:
        """Put what is written so far of a file in place; one that was deleted stays away."""
        self._mutate(f"{call} {path}", lambda: self._put_again(path, content))

    def _create(self, path: str, content: bytes) -> FileInfo:
        info = self._inner.create(path, content)
        if self._witness is not None:
            self._witness.see_creation(self._process, path, self._is_late)
        return info

    def _replace(self, path: str, content: bytes, *, if_match: str) -> FileInfo:
        if self._witness is not None and self._inner.stat(path).version == if_match:
            self._witness.see_replacement(self._process, path, self._is_late)
        return self._inner.replace(path, content, if_match=if_match)

    def _touch(self, path: str) -> FileInfo:
        if self._witness is not None:
            self._witness.see_touch(self._process, path, self._is_late)
        return self._inner.touch(path)

    def _delete(self, path: str) -> bool:
        if self._witness is not None:
            self._witness.see_deletion(self._process, path, self._is_late)
        return self._inner.delete(path)

    def _put(self, path: str, content: bytes) -> None:
        with self._inner.open_write(path) as file:
            file.write(content)

    def _put_again(self, path: str, content: bytes) -> None:
        with contextlib.suppress(errors.NotFoundError):
            self._inner.stat(path)
            self._put(path, content)

    def _read(self, call: str) -> None:
        self._step(call)
        match self._faults.at(self._process, call, is_mutation=False):
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER | Fault.LATE_CRASH:
                self._crash(call)
            case Fault.SLOW:
                self._wait(call)
            case Fault.NONE:
                pass
            case _:
                self._note(call, "fails")
                self._process.failures += 1
                raise errors.StorageError(f"simulated: {call} failed")

    def _mutate(self, call: str, effect: Callable[[], Result]) -> Result:
        """Let a call have its effect, as far as its fault lets it."""
        self._step(call)
        fault = self._faults.at(self._process, call, is_mutation=True)
        self._note(call, "" if fault is Fault.NONE else fault.value)
        match fault:
            case Fault.CRASH_BEFORE:
                self._crash(call)
            case Fault.FAIL_BEFORE:
                self._process.failures += 1
                raise errors.StorageError(f"simulated: {call} failed")
            case Fault.SLOW:
                self._wait(call)
            case Fault.LATE_CRASH:
                self._process.schedule.later(self._late_ms(call), lambda: self._late(call, effect))
                self._crash(call)
            case Fault.LATE:
                self._process.failures += 1
                self._process.schedule.later(self._late_ms(call), lambda: self._late(call, effect))
                raise errors.UnansweredError(f"simulated: no answer to {call} in time")
            case _:
                pass
        if fault is Fault.CRASH_AFTER:
            with contextlib.suppress(errors.HoodieError):
                effect()
            self._crash(call)
        result = effect()
        match fault:
            case Fault.FAIL_AFTER:
                self._process.failures += 1
                raise errors.UnansweredError(f"simulated: the answer to {call} was lost")
            case Fault.LOST_ANSWER:
                result = effect()
            case _:
                pass
        return result

    def _late(self, call: str, effect: Callable[[], object]) -> None:
        self._note(call, "takes effect")
        self._is_late = True
        with contextlib.suppress(errors.HoodieError):
            effect()
        self._is_late = False

    def _wait(self, call: str) -> None:
        if self._process.schedule.is_calling:
            # The whole world would wait: only its own process feels how long the answer takes.
            self._process.clock.answer_ms = self._delay_ms()
            return
        duration_ms = self._delay_ms()
        self._note(call, f"takes {duration_ms} ms")
        self._process.schedule.sleep(self._process, duration_ms)

    def _late_ms(self, call: str) -> int:
        if not call.startswith(_EPOCH):
            return self._delay_ms()
        return 1 + int(self._process.random.uniform() * LATE_EPOCH_MS_MAX)

    def _delay_ms(self) -> int:
        return 1 + int(self._process.random.uniform() * SLOW_MS_MAX)

    def _step(self, call: str) -> None:
        if not self._process.schedule.is_calling:  # A beat is no look of its process's.
            self._process.asked_ms = self._process.schedule.now_ms
        self._process.schedule.approach(self._process, call)
        self._process.schedule.switch(self._process)
        self._process.check_alive()
        self.calls.append(call)

    def _note(self, call: str, what: str) -> None:
        note = f"{self._process.name}: {call}"
        self._process.schedule.note(f"{note}: {what}" if what else note)

    def _crash(self, call: str) -> NoReturn:
        self._process.crash()
        raise schedule.Crash(call)


class _FaultyWriter(new_files.StreamedFile):
    """A streamed file that appears when it is closed, if nothing goes wrong, and never later."""

    def __init__(self, storage: FaultyStorage, path: str) -> None:
        super().__init__(path)
        self._storage = storage
        self._path = path
        self._content = bytearray()

    def _append(self, content: memoryview) -> None:
        self._content += content

    def _publish(self) -> None:
        self._storage.close_file(self._path, bytes(self._content))

    def _drop(self) -> None:
        self._content.clear()


class _InPlaceWriter(_FaultyWriter):
    """A streamed file that anybody sees empty first, then half of it, then all."""

    def _publish(self) -> None:
        content = bytes(self._content)
        self._storage.write_part(self._path, content[: len(content) // 2], "write")
        self._storage.write_part(self._path, content, "close")
