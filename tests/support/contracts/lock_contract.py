"""What every provider of the table lock promises, as tests: a subclass says how to open one.

`LockContract` is for all; `SharedLockContract` adds what those promise that processes share, and
`LeasedLockContract` what those do that renew a lease: a holder that is silent loses the lock.
"""

import dataclasses
import functools
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from hoodie import errors, identity
from hoodie.clock import SystemClock
from hoodie.storage.memory import MemoryStorage
from hoodie.transaction import table_lock
from hoodie.transaction.locks import inspection
from hoodie.transaction.locks.protocol import LockProvider
from support.contracts import lock_process

Open = Callable[[str], LockProvider]
LONG_S = 30.0
LEASES_S = 3.7
"""Longer than the lease of any address that a contract is run with."""


class LockFixtures(ABC):
    """`open_lock(name)` gives another access to one lock, closed when the test ends."""

    @pytest.fixture
    @abstractmethod
    def address(self) -> str:
        """The lock's address."""

    @pytest.fixture
    def table(self, tmp_path: Path) -> str:
        return str(tmp_path / "table")

    @pytest.fixture
    def open_lock(self, address: str, table: str) -> Iterator[Open]:
        opened: list[LockProvider] = []

        def open_another(name: str) -> LockProvider:
            opened.append(lock_process.open_lock(address, table, name))
            return opened[-1]

        yield open_another
        for lock in opened:
            lock.close()


class LockContract(LockFixtures):
    """The tests of every lock."""

    ROUNDS: ClassVar[int] = 12
    """How often each of those who contend takes it; fewer for a server that is slow."""

    def test_taken_lock_is_held_until_given_back(self, open_lock: Open) -> None:
        lock = open_lock("first")
        assert not lock.is_held()
        lock.acquire(LONG_S)
        assert lock.is_held()
        lock.release()
        assert not lock.is_held()

    def test_second_taker_is_refused_in_time_and_told_the_owner(self, open_lock: Open) -> None:
        """T-L02."""
        open_lock("first").acquire(LONG_S)
        second = open_lock("second")
        clock = SystemClock()
        for wait_s in (0.0, 0.3):
            start_s = clock.monotonic_s()
            with pytest.raises(errors.LockTimeoutError, match=r"second.*held by first \(pid"):
                in_thread(functools.partial(second.acquire, wait_s))
            assert clock.monotonic_s() - start_s < wait_s + 5
        assert not second.is_held()

    def test_client_tries_again_as_often_as_configured(self, open_lock: Open) -> None:
        """`hoodie.write.lock.client.num_retries` and `.wait_time_ms_between_retry`."""
        first = open_lock("first")
        first.acquire(LONG_S)
        clock = SystemClock()
        patience = table_lock.Patience(wait_ms=50, retries_max=2, retry_wait_ms=150)
        provider = open_lock("second")

        def take(patience: table_lock.Patience) -> None:
            second = table_lock.TableLock(provider, MemoryStorage(), clock, patience)
            with second.scope() as scope:
                assert scope.is_held()

        start_s = clock.monotonic_s()
        with pytest.raises(errors.LockTimeoutError, match="held by first"):
            in_thread(functools.partial(take, patience))
        assert 3 * 0.05 + 2 * 0.15 <= clock.monotonic_s() - start_s < 5
        # Enough of it, however long the lock is on its way.
        patience = dataclasses.replace(patience, retries_max=200)
        waiter = threading.Thread(target=take, args=(patience,))
        waiter.start()
        clock.sleep_s(0.1)  # Its first try is over by then, or about to be.
        first.release()
        waiter.join(timeout=LONG_S)
        assert not waiter.is_alive()

    def test_waiting_taker_gets_the_lock_when_it_is_given_back(self, open_lock: Open) -> None:
        first, second = open_lock("first"), open_lock("second")
        first.acquire(LONG_S)
        waiter = threading.Thread(target=second.acquire, args=(LONG_S,))
        waiter.start()
        waiter.join(timeout=0.1)
        assert not second.is_held()
        first.release()
        waiter.join(timeout=LONG_S)
        assert second.is_held()
        assert not first.is_held()

    def test_lock_is_not_re_entrant(self, open_lock: Open) -> None:
        lock = open_lock("first")
        lock.acquire(LONG_S)
        with pytest.raises(errors.InvalidInputError, match="already"):
            lock.acquire(LONG_S)
        assert lock.is_held()

    def test_only_the_owner_gives_the_lock_back(self, open_lock: Open) -> None:
        first, second = open_lock("first"), open_lock("second")
        first.acquire(LONG_S)
        with pytest.raises(errors.InvalidInputError, match=r"second .*does not hold"):
            in_thread(second.release)
        second.close()
        assert first.is_held()

    def test_token_grows_from_holding_to_holding(self, open_lock: Open) -> None:
        first, second = open_lock("first"), open_lock("second")
        tokens = []
        for lock in (first, second, first, first, second, open_lock("third")):
            lock.acquire(LONG_S)
            tokens.append(lock.fencing_token)
            assert lock.fencing_token == tokens[-1]
            lock.release()
        assert tokens == sorted(set(tokens))

    def test_token_of_a_lock_that_is_not_held_is_refused(self, open_lock: Open) -> None:
        lock = open_lock("first")
        with pytest.raises(errors.LockLostError, match=r"first .*does not hold"):
            _ = lock.fencing_token
        lock.acquire(LONG_S)
        lock.release()
        with pytest.raises(errors.LockLostError):
            _ = lock.fencing_token

    def test_close_gives_the_lock_back_and_may_be_repeated(self, open_lock: Open) -> None:
        first = open_lock("first")
        first.acquire(LONG_S)
        first.close()
        first.close()
        assert not first.is_held()
        second = open_lock("second")
        second.acquire(LONG_S)
        assert second.is_held()

    def test_threads_exclude_each_other(self, open_lock: Open) -> None:
        """T-L01, T-L15."""
        inside, most, count, tokens = 0, 0, 0, list[int]()

        def contend(lock: LockProvider) -> None:
            nonlocal inside, most, count
            for _ in range(self.ROUNDS):
                lock.acquire(LONG_S)
                inside += 1
                most = max(most, inside)
                tokens.append(lock.fencing_token)
                seen = count
                assert lock.is_held()
                count = seen + 1
                inside -= 1
                lock.release()

        threads = [
            threading.Thread(target=contend, args=(open_lock(f"thread {n}"),)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=LONG_S)
        assert (most, count) == (1, 4 * self.ROUNDS)
        assert tokens == sorted(set(tokens))


class SharedLockContract(LockContract):
    """What a lock promises that several processes take."""

    def test_processes_exclude_each_other(self, address: str, table: str, tmp_path: Path) -> None:
        """T-L01."""
        tokens = lock_process.contend(address, table, tmp_path, processes=4, rounds=self.ROUNDS)
        assert tokens == sorted(set(tokens))

    def test_other_process_is_named_to_who_waits(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        with lock_process.Process(address, table, "hold", "writer a") as process:
            process.holding()
            with pytest.raises(errors.LockTimeoutError, match=rf"writer a \(pid {process.pid} on "):
                open_lock("writer b").acquire(0.2)
            assert process.ask("held") == "True"
            assert process.ask("release") == "released"
            open_lock("writer b").acquire(LONG_S)

    def test_lock_of_a_killed_process_is_taken_over(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        with lock_process.Process(address, table, "hold", "victim") as process:
            token = process.holding().token
            process.kill()
            heir = open_lock("heir")
            heir.acquire(LONG_S)
            assert heir.is_held()
            assert heir.fencing_token > token

    @pytest.fixture
    @abstractmethod
    def lose(self, address: str, table: str) -> Callable[[], None]:
        """Take the lock from its holder behind its back, and leave it to nobody or a stranger."""

    def test_loss_is_noticed_and_giving_back_touches_nothing(
        self, open_lock: Open, lose: Callable[[], None], caplog: pytest.LogCaptureFixture
    ) -> None:
        # A command that ran in this process may have raised the level of what is not `hoodie`.
        caplog.set_level(logging.WARNING)
        lock = open_lock("first")
        lock.acquire(LONG_S)
        lose()
        assert not lock.is_held()
        lock.release()
        assert f"had lost the {lock.description}" in caplog.text


class InspectableLockContract(SharedLockContract):
    """What a lock promises that can be looked at from outside, and taken from its holder."""

    def test_nobody_has_a_free_lock(self, open_lock: Open) -> None:
        first, watcher = open_lock("first"), _inspected(open_lock("watcher"))
        assert watcher.holding() is None
        first.acquire(LONG_S)
        assert watcher.holding() is not None
        first.release()
        assert watcher.holding() is None

    def test_holder_is_told_and_left_alone_while_it_may_be_alive(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        watcher = _inspected(open_lock("watcher"))
        with lock_process.Process(address, table, "hold", "writer a") as process:
            process.holding()
            found = watcher.holding()
            assert found is not None
            assert found.liveness is not inspection.Liveness.DEAD
            holder = found.holder
            assert (holder.name, holder.pid, holder.host) == (
                "writer a",
                process.pid,
                identity.current_process().host,
            )
            if found.since_ms is not None:
                assert abs(found.since_ms - SystemClock().now_ms()) < 60_000
            for insisted in (None, "somebody else"):
                refusal = inspection.break_refusal(found, insisted)
                assert isinstance(refusal, errors.ConflictError)
                assert f"writer a (pid {process.pid} on " in str(refusal)
            assert inspection.break_refusal(found, holder.id) is None
            assert process.ask("held") == "True"

    def test_holder_whose_lock_was_taken_away_learns_of_it(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        watcher, heir = _inspected(open_lock("watcher")), open_lock("heir")
        with lock_process.Process(address, table, "hold", "broken") as process:
            token = process.holding().token
            # Between look and deed it may give a sign of life, which the deed must heed.
            while (found := watcher.holding()) is not None:
                watcher.take_away(found)
            assert process.ask("held") == "False"
            heir.acquire(LONG_S)
            assert heir.fencing_token > token
            assert process.ask("release") == "released"
            assert heir.is_held()

    def test_lock_that_changed_hands_is_not_taken_away(self, open_lock: Open) -> None:
        first, second = open_lock("first"), open_lock("second")
        watcher = _inspected(open_lock("watcher"))
        first.acquire(LONG_S)
        found = watcher.holding()
        assert found is not None
        first.release()
        assert not watcher.take_away(found)
        second.acquire(LONG_S)
        assert not watcher.take_away(found)
        assert second.is_held()

    def test_killed_holder_is_proved_dead_or_gone_by_watching(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        watcher = _inspected(open_lock("watcher"))
        with lock_process.Process(address, table, "hold", "victim") as process:
            process.holding()
            process.kill()
            found = inspection.watched(watcher, LONG_S, SystemClock())
            if found is not None:
                assert inspection.break_refusal(found, None) is None, found
                assert watcher.take_away(found)
        assert watcher.holding() is None


def _inspected(lock: LockProvider) -> inspection.Inspectable:
    assert isinstance(lock, inspection.Inspectable)
    return lock


class LeasedLockContract(InspectableLockContract):
    """What a lock with a lease promises; that of the address is to end within `LEASES_S`."""

    def test_paused_process_learns_of_its_loss_before_anything_else(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        with lock_process.Process(address, table, "hold", "paused") as process:
            token = process.holding().token
            process.pause()
            heir = open_lock("heir")
            heir.acquire(LONG_S)  # The paused one's lease has ended by then.
            assert heir.fencing_token > token
            process.resume()
            assert process.ask("held") == "False"
            assert process.ask("release") == "released"
            assert heir.is_held()

    def test_lease_is_renewed_for_as_long_as_the_holder_lives(
        self, address: str, table: str, open_lock: Open
    ) -> None:
        with lock_process.Process(address, table, "hold", "alive") as process:
            process.holding()
            with pytest.raises(errors.LockTimeoutError, match="held by alive"):
                open_lock("other").acquire(LEASES_S)
            assert process.ask("held") == "True"


def in_thread(call: Callable[[], object]) -> None:
    """Run a call in another thread, and raise here what it raises."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
