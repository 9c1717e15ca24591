"""The ZooKeeper lock on a real server: its line, what ends a session, a server that goes."""

import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_digest_acl

from hoodie import errors
from hoodie.clock import SystemClock
from hoodie.transaction.locks import addresses
from hoodie.transaction.locks.zookeeper import ZooKeeperLock
from hoodie_operator.standalone.embedded_zookeeper import EmbeddedZooKeeper
from support.contracts import lock_process
from support.contracts.lock_contract import LONG_S, LockFixtures, Open

CLOCK = SystemClock()
PATH = "/base/key"
SLACK_S = 5
"""What a busy machine may add to a wait."""


class TestZooKeeperLock(LockFixtures):
    @pytest.fixture
    def address(self, zookeeper: str, lock_path: str) -> str:
        return f"zookeeper://{zookeeper}{lock_path}?session-timeout-s=2"

    def test_eight_processes_exclude_each_other(
        self, address: str, table: str, tmp_path: Path
    ) -> None:
        tokens = lock_process.contend(address, table, tmp_path, processes=8, rounds=25)
        assert tokens == sorted(set(tokens))

    def test_waiting_time_does_not_begin_anew_when_the_line_changes(self, open_lock: Open) -> None:
        open_lock("holder").acquire(LONG_S)

        def give_up_after(wait_s: float) -> None:
            with pytest.raises(errors.LockTimeoutError):
                open_lock(f"waits {wait_s}").acquire(wait_s)

        before_us = [threading.Thread(target=give_up_after, args=(wait_s,)) for wait_s in (1, 3, 5)]
        for thread in before_us:
            thread.start()
        CLOCK.sleep_s(0.5)  # They stand in line by then.
        start_s = CLOCK.monotonic_s()
        give_up_after(5)
        assert CLOCK.monotonic_s() - start_s < 8  # One that begins anew takes 9.
        for thread in before_us:
            thread.join()

    def test_line_is_told_to_who_gives_up(self, open_lock: Open) -> None:
        holder, second, third = open_lock("holder"), open_lock("second"), open_lock("third")
        holder.acquire(LONG_S)
        waiter = threading.Thread(target=second.acquire, args=(LONG_S,))
        waiter.start()
        _await(lambda: isinstance(second, ZooKeeperLock) and "held by" in second._seen)
        with pytest.raises(errors.LockTimeoutError, match=r"held by holder .*, and 1 more are"):
            third.acquire(0.3)
        holder.release()
        waiter.join(timeout=LONG_S)
        assert second.is_held()

    def test_expired_session_is_a_lost_lock_for_good(
        self, zookeeper: str, open_lock: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        """T-L04."""
        lock, heir = open_lock("first"), open_lock("heir")
        lock.acquire(LONG_S)
        _expire(lock, zookeeper)
        heir.acquire(LONG_S)
        assert not lock.is_held()
        _await_connection(lock)  # With another session.
        assert not lock.is_held()
        lock.release()
        assert "had lost the ZooKeeper lock" in caplog.text
        assert heir.is_held()
        heir.release()
        lock.acquire(LONG_S)
        assert lock.is_held()

    def test_session_that_expires_while_waiting_stands_in_line_again(
        self, zookeeper: str, open_lock: Open
    ) -> None:
        first, second = open_lock("first"), open_lock("second")
        first.acquire(LONG_S)
        waiter = threading.Thread(target=second.acquire, args=(LONG_S,))
        waiter.start()
        _await(lambda: isinstance(second, ZooKeeperLock) and "held by" in second._seen)
        _expire(second, zookeeper)
        first.release()
        waiter.join(timeout=LONG_S)
        assert second.is_held()

    def test_lock_without_permission_is_a_configuration_error(
        self, zookeeper: str, lock_path: str, open_lock: Open
    ) -> None:
        with _client(zookeeper) as client:
            # Parents of a node made with it get its ACL: those of the other tests' locks.
            client.ensure_path(lock_path.rpartition("/")[0])
            client.create(lock_path, acl=[make_digest_acl("a", "b", all=True)])
        with pytest.raises(errors.ConfigurationError, match=f"may not take .*{lock_path}"):
            open_lock("first").acquire(LONG_S)

    def test_implicit_path_is_made_of_the_tables_location(
        self, zookeeper: str, tmp_path: Path
    ) -> None:
        """T-L08."""
        table = f"file://{tmp_path}/a table"
        lock = lock_process.open_lock(f"zookeeper-implicit://{zookeeper}", f"{table}/", "first")
        with ExitStack() as stack:
            stack.callback(lock.close)
            lock.acquire(LONG_S)
            client = stack.enter_context(_client(zookeeper))
            (node,) = client.get_children(addresses.implicit_path(table))
            content, _ = client.get(f"{addresses.implicit_path(table)}/{node}")
        assert content.decode() == f"first (pid {os.getpid()} on {socket.gethostname()})"


class TestServerThatGoes:
    @pytest.fixture
    def servers(self, own_zookeeper: EmbeddedZooKeeper) -> str:
        return own_zookeeper.start()

    @pytest.fixture
    def open_lock(self, servers: str) -> Iterator[Open]:
        with ExitStack() as stack:

            def open_another(name: str) -> ZooKeeperLock:
                address = f"zookeeper://{servers}{PATH}?session-timeout-s=4&connection-timeout-s=2"
                lock = lock_process.open_lock(address, "memory://table", name)
                assert isinstance(lock, ZooKeeperLock)
                stack.callback(lock.close)
                return lock

            yield open_another

    def test_lock_outlives_a_restart_of_the_server(
        self, own_zookeeper: EmbeddedZooKeeper, open_lock: Open
    ) -> None:
        """T-L05, T-L06."""
        lock, other = open_lock("first"), open_lock("other")
        lock.acquire(LONG_S)
        token = lock.fencing_token
        own_zookeeper.stop()
        assert not lock.is_held()
        own_zookeeper.start()
        _await(lock.is_held)
        assert lock.fencing_token == token
        with pytest.raises(errors.LockTimeoutError, match="held by first"):
            other.acquire(0.2)
        lock.release()
        other.acquire(LONG_S)
        assert other.fencing_token > token

    def test_killed_server_keeps_nobodys_promise_until_it_is_back(
        self, own_zookeeper: EmbeddedZooKeeper, open_lock: Open
    ) -> None:
        lock = open_lock("first")
        lock.acquire(LONG_S)
        os.kill(_pid(own_zookeeper), signal.SIGKILL)
        assert not lock.is_held()
        own_zookeeper.start()
        _await(lock.is_held)

    def test_server_that_hangs_is_answered_in_time(
        self, own_zookeeper: EmbeddedZooKeeper, open_lock: Open
    ) -> None:
        lock, other = open_lock("first"), open_lock("other")
        lock.acquire(LONG_S)
        _stop(_pid(own_zookeeper))
        try:
            start_s = CLOCK.monotonic_s()
            assert not lock.is_held()
            with pytest.raises(
                errors.LockTimeoutError, match=r"after 1 s waiting for .*: no connection within 2 s"
            ):
                other.acquire(1)
            lock.release()
            assert CLOCK.monotonic_s() - start_s < 2 + 2 + 5 + SLACK_S
        finally:
            os.kill(_pid(own_zookeeper), signal.SIGCONT)
        other.acquire(LONG_S)

    def test_server_that_comes_while_we_wait_is_used(
        self, own_zookeeper: EmbeddedZooKeeper, servers: str
    ) -> None:
        """T-L03."""
        own_zookeeper.stop()
        lock = lock_process.open_lock(f"zookeeper://{servers}{PATH}", "memory://table", "first")
        waiter = threading.Thread(target=lock.acquire, args=(LONG_S,))
        waiter.start()
        waiter.join(timeout=0.5)
        assert not lock.is_held()
        own_zookeeper.start()
        waiter.join(timeout=LONG_S)
        assert lock.is_held()
        lock.close()


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def silent_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("servers", ["closed_port", "silent_port", "no-such-host.invalid:2181"])
def test_server_that_is_not_there_is_named_within_the_wait(
    request: pytest.FixtureRequest, servers: str
) -> None:
    address = request.getfixturevalue(servers) if servers.endswith("_port") else servers
    lock = lock_process.open_lock(f"zookeeper://{address}{PATH}", "memory://table", "first")
    start_s = CLOCK.monotonic_s()
    with pytest.raises(errors.LockTimeoutError) as caught:
        lock.acquire(2)
    assert CLOCK.monotonic_s() - start_s < 2 + SLACK_S
    assert f"{PATH} at {address}: no connection within 2 s" in str(caught.value)
    lock.close()


def test_connection_has_a_time_of_its_own(closed_port: str) -> None:
    address = f"zookeeper://{closed_port}{PATH}?connection-timeout-s=0.5"
    lock = lock_process.open_lock(address, "memory://table", "first")
    start_s = CLOCK.monotonic_s()
    with pytest.raises(errors.LockTimeoutError, match=r"no connection within 0\.5 s"):
        lock.acquire(LONG_S)
    assert CLOCK.monotonic_s() - start_s < 0.5 + SLACK_S < LONG_S


@contextmanager
def _client(servers: str) -> Iterator[KazooClient]:
    client = KazooClient(servers)
    client.start()
    yield client
    client.stop()
    client.close()


def _expire(lock: object, servers: str) -> None:
    """End a lock's session, as the servers do when they hear nothing for too long."""
    assert isinstance(lock, ZooKeeperLock)
    session = lock._session
    assert session is not None
    client_id, number = session._client.client_id, session.number
    while session.number == number:
        # Server and session are had by one of the two alone, and our client wants both back.
        twin = KazooClient(servers, client_id=client_id)
        with contextlib.suppress(KazooTimeoutError, KazooException):
            twin.start(timeout=2)
            twin.stop()
        twin.close()
        CLOCK.sleep_s(0.1)


def _await_connection(lock: object) -> None:
    assert isinstance(lock, ZooKeeperLock)
    session = lock._session
    assert session is not None
    _await(lambda: session.number > 0 and session.is_connected)


def _await(condition: Callable[[], bool]) -> None:
    deadline_s = CLOCK.monotonic_s() + LONG_S
    while not condition():
        assert CLOCK.monotonic_s() < deadline_s
        CLOCK.sleep_s(0.01)


def _stop(pid: int) -> None:
    """Stop a process, and wait until no thread of it runs any more."""
    os.kill(pid, signal.SIGSTOP)
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    for thread in threads:
        _await(lambda stat=thread / "stat": stat.read_text().rpartition(")")[2].split()[0] == "T")


def _pid(server: EmbeddedZooKeeper) -> int:
    pid: int = json.loads((server.directory / "server.json").read_text())["pid"]
    return pid
