"""The in-process lock: owned by a thread, first come first served, by any clock."""

import threading

import pytest

from hoodie import errors, identity
from hoodie.clock import SystemClock
from hoodie.transaction.locks.in_process import InProcessLock
from hoodie.transaction.locks.protocol import LockOwner
from support.contracts.lock_contract import in_thread


class VirtualClock:
    """Time goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now_ms(self) -> int:
        return int(self.time_s * 1000)

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep_s(self, seconds: float) -> None:
        self.time_s += seconds


def _lock(name: str, table: str = "memory://a", clock: VirtualClock | None = None) -> InProcessLock:
    owner = LockOwner(id=name, name=name, process=identity.current_process())
    return InProcessLock(table, owner, clock or SystemClock())


def test_second_taking_by_one_thread_is_an_error_and_no_dead_lock() -> None:
    """T-L13."""
    first, second = _lock("first"), _lock("second")
    first.acquire(0)
    with pytest.raises(errors.InvalidInputError, match="already held by this thread, for first"):
        second.acquire(3600)
    first.release()
    second.acquire(0)
    second.release()


def test_other_thread_cannot_give_the_lock_back() -> None:
    lock = _lock("first")
    lock.acquire(0)
    with pytest.raises(errors.InvalidInputError, match=r"does not hold .* in this thread"):
        in_thread(lock.release)
    assert lock.is_held()
    lock.release()


def test_other_table_is_another_lock() -> None:
    """T-L13."""
    first, other = _lock("first", "memory://a"), _lock("other", "memory://b")
    first.acquire(0)
    other.acquire(0)
    assert first.is_held()
    assert other.is_held()
    first.close()
    other.close()


def test_waiting_is_by_the_clock_that_is_passed_in() -> None:
    first = _lock("first", "memory://virtual")
    first.acquire(0)
    clock = VirtualClock()
    late = _lock("late", "memory://virtual", clock)
    with pytest.raises(errors.LockTimeoutError, match=r"after 600 s waiting for .*: held by first"):
        in_thread(lambda: late.acquire(600))
    assert clock.time_s == pytest.approx(600)
    first.close()


def test_who_waits_longer_is_served_first() -> None:
    first = _lock("first", "memory://fifo")
    first.acquire(0)
    served: list[str] = []

    def take(lock: InProcessLock, name: str) -> None:
        lock.acquire(30)
        served.append(name)
        lock.release()

    threads = []
    for name in ("second", "third", "fourth"):
        lock = _lock(name, "memory://fifo")
        threads.append(threading.Thread(target=take, args=(lock, name)))
        threads[-1].start()
        while lock not in lock._mutex.waiting:
            pass
    first.release()
    for thread in threads:
        thread.join(timeout=30)
    assert served == ["second", "third", "fourth"]
