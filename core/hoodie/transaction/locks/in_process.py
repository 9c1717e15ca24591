"""A lock among the threads of one process, as Apache Hudi's `InProcessLockProvider`.

It says nothing to other processes: only for tables that one process alone writes. Waiting is
polling by the clock that is passed in, first come first served, so that a simulation can run it.
"""

import collections
import itertools
import logging
import threading  # noqa: TID251 - this is the lock that knows threads
import weakref

from hoodie import clock, errors
from hoodie.transaction.locks.protocol import LockOwner

logger = logging.getLogger(__name__)

_POLL_S = 0.001
_TOKENS = itertools.count(1)  # One sequence for all tables: tokens grow whoever comes and goes.


class _Mutex:
    """Who has the lock of one table, and who waits for it."""

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self.holder: InProcessLock | None = None
        self.thread: int | None = None
        self.waiting: collections.deque[InProcessLock] = collections.deque()


_MUTEXES: "weakref.WeakValueDictionary[str, _Mutex]" = weakref.WeakValueDictionary()
_MUTEXES_GUARD = threading.Lock()


class InProcessLock:
    """One transaction's access; a thread takes it and the same thread gives it back."""

    def __init__(self, table_uri: str, owner: LockOwner, waiting_clock: clock.Clock) -> None:
        """Take the table's normalised URI: equal ones are one lock."""
        self._table_uri = table_uri
        self._owner = owner
        self._clock = waiting_clock
        self._token: int | None = None
        with _MUTEXES_GUARD:
            self._mutex = _MUTEXES.setdefault(table_uri, _Mutex())

    @property
    def description(self) -> str:
        """The lock in words."""
        return f"in-process lock of {self._table_uri}"

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting no longer than that for other threads."""
        deadline_s = self._clock.monotonic_s() + wait_s
        self._line_up()
        try:
            while not self._take():
                left_s = deadline_s - self._clock.monotonic_s()
                if left_s <= 0:
                    raise errors.LockTimeoutError(self._refusal(wait_s))
                self._clock.sleep_s(min(_POLL_S, left_s))
        finally:
            with self._mutex.guard:
                self._mutex.waiting.remove(self)

    def _line_up(self) -> None:
        with self._mutex.guard:
            if self._mutex.holder is not None and self._mutex.thread == threading.get_ident():
                raise errors.InvalidInputError(
                    f"the {self.description} is already held by this thread, for "
                    f"{self._mutex.holder._owner}: it is not re-entrant"
                )
            if self in self._mutex.waiting or self._mutex.holder is self:
                raise errors.InvalidInputError(
                    f"{self._owner} acquires the {self.description} in two threads at once"
                )
            self._mutex.waiting.append(self)

    def _take(self) -> bool:
        with self._mutex.guard:
            if self._mutex.holder is not None or self._mutex.waiting[0] is not self:
                return False
            self._mutex.holder = self
            self._mutex.thread = threading.get_ident()
            self._token = next(_TOKENS)
            return True

    def _refusal(self, wait_s: float) -> str:
        with self._mutex.guard:
            holder = self._mutex.holder
            held = f"held by {holder._owner}" if holder else "other threads are ahead in the queue"
        return (
            f"{self._owner} timed out after {wait_s:g} s waiting for the {self.description}: {held}"
        )

    def release(self) -> None:
        """Give the lock back."""
        with self._mutex.guard:
            if self._mutex.holder is not self or self._mutex.thread != threading.get_ident():
                raise errors.InvalidInputError(
                    f"{self._owner} does not hold the {self.description} in this thread"
                )
            self._give_back()

    def _give_back(self) -> None:
        self._mutex.holder = self._mutex.thread = self._token = None

    def is_held(self) -> bool:
        """Return whether the lock is ours."""
        return self._mutex.holder is self

    @property
    def fencing_token(self) -> int:
        """The number of this holding."""
        if self._token is None:
            raise errors.LockLostError(f"{self._owner} does not hold the {self.description}")
        return self._token

    def close(self) -> None:
        """Give the lock back if it is taken, whichever thread took it."""
        with self._mutex.guard:
            if self._mutex.holder is self:
                self._give_back()
