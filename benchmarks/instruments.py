"""What benchmarks look at inside a writer: its calls to storages, its lock, what it decides again.

All of it is put around our code from outside, for the length of a `with` block, and is of this
process alone. A call of a storage is one of the methods of `storage.protocol.Storage` or of a lock
file; what such a method calls of its own storage is not counted again. A call is made under the
lock if it begins after `acquire` has returned and before `release` is called.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from unittest import mock

from hoodie import environment, errors
from hoodie.storage.local import LocalStorage
from hoodie.storage.objects import ObjectStorage
from hoodie.storage.protocol import Storage
from hoodie.transaction import table_lock
from hoodie.transaction.locks import addresses, opening
from hoodie.transaction.locks.protocol import LockProvider
from support.contracts.lying_lock import LyingLock

_STORAGES = (LocalStorage, ObjectStorage)
_NAMES = {*vars(Storage), "create_volatile", "move"}

Decided = TypeVar("Decided")


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of a storage.

    Attributes:
        name: Of the method.
        path: What it is about.
        is_locked: Whether the table lock was held.
        requests: The HTTP requests that it made, and what came of it until the next call: a file
            that is streamed is put when it is closed.
    """

    name: str
    path: str
    is_locked: bool
    requests: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many of something there were, and how many of them under the table lock."""

    all: int
    locked: int

    def __str__(self) -> str:
        return f"{self.all} ({self.locked})"


class Trace:
    """The calls of one writer to its storages."""

    def __init__(self, asked: Callable[[], Sequence[str]] = tuple) -> None:
        """Take what returns the HTTP requests since it was last called."""
        self.calls: list[Call] = []
        self.is_locked = False
        self._asked = asked
        self._depth = threading.local()

    @property
    def call_counts(self) -> Counts:
        """Of calls."""
        return Counts(all=len(self.calls), locked=sum(each.is_locked for each in self.calls))

    @property
    def request_counts(self) -> Counts:
        """Of HTTP requests."""
        return Counts(
            all=sum(len(each.requests) for each in self.calls),
            locked=sum(len(each.requests) for each in self.calls if each.is_locked),
        )

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Trace for a while."""
        open_for = opening.open_for

        def watched(*arguments: object) -> LockProvider:
            return _WatchedLock(open_for(*arguments), self)

        with contextlib.ExitStack() as stack:
            for storage in _STORAGES:
                for name, call in vars(storage).items():
                    if name in _NAMES and name[0] != "_" and callable(call):
                        traced = self._traced(call)
                        stack.enter_context(mock.patch.object(storage, name, traced))
            stack.enter_context(mock.patch.object(opening, "open_for", watched))
            self._asked()
            yield
            self._attribute()

    def _attribute(self) -> None:
        """Give the requests since the last look to the call that came last."""
        requests = self._asked()
        if self.calls:
            self.calls[-1].requests += requests

    def _traced(self, call: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(call)
        def traced(storage: Storage, *arguments: object, **named: object) -> object:
            depth = getattr(self._depth, "value", 0)
            if depth == 0:
                self._attribute()
                path = arguments[0] if arguments and isinstance(arguments[0], str) else "..."
                self.calls.append(
                    Call(name=call.__name__, path=path or ".", is_locked=self.is_locked)
                )
            self._depth.value = depth + 1
            try:
                return call(storage, *arguments, **named)
            finally:
                self._depth.value = depth

        return traced


class _WatchedLock:
    """A provider that reports to a trace when it holds its lock."""

    def __init__(self, lock: LockProvider, trace: Trace) -> None:
        self._lock = lock
        self._trace = trace
        self.is_held = lock.is_held

    @property
    def description(self) -> str:
        return self._lock.description

    @property
    def fencing_token(self) -> int:
        return self._lock.fencing_token

    def acquire(self, wait_s: float) -> None:
        self._lock.acquire(wait_s)
        self._trace.is_locked = True

    def release(self) -> None:
        self._trace.is_locked = False
        self._lock.release()

    def close(self) -> None:
        self._trace.is_locked = False
        self._lock.close()


@contextlib.contextmanager
def without_lock() -> Iterator[None]:
    """Give every transaction a lock that says yes to everybody, whichever it asks for."""

    def open_for(
        _name: str, _lock: addresses.LockAddress, _storage: Storage, _env: environment.Environment
    ) -> LockProvider:
        return LyingLock()

    with mock.patch.object(opening, "open_for", open_for):
        yield


@dataclass(slots=True, kw_only=True)
class Overtaken:
    """How often a writer was overtaken.

    Attributes:
        decided_again: For whatever reason.
        numbers_lost: Those in which another had created the next epoch.
        refused: Whole writes that ended in a conflict; counted by who makes them.
    """

    decided_again: int = 0
    numbers_lost: int = 0
    refused: int = 0

    def __add__(self, other: "Overtaken") -> "Overtaken":
        return Overtaken(
            decided_again=self.decided_again + other.decided_again,
            numbers_lost=self.numbers_lost + other.numbers_lost,
            refused=self.refused + other.refused,
        )

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count for a while."""
        decide_always = table_lock.TableLock.decide

        def decide_counted(
            lock: table_lock.TableLock, decide: Callable[[table_lock.LockScope], Decided]
        ) -> Decided:
            def counted(scope: table_lock.LockScope) -> Decided:
                try:
                    return decide(scope)
                except errors.OvertakenError as overtaken:
                    self.decided_again += 1
                    self.numbers_lost += ": epoch " in str(overtaken)
                    raise

            return decide_always(lock, counted)

        with mock.patch.object(table_lock.TableLock, "decide", decide_counted):
            yield
