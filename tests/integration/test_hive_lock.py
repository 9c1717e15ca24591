"""The Hive Metastore lock on a real metastore: its line, its connection, who else has it."""

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import pytest
from thriftpy2.rpc import make_client

from hoodie import errors
from hoodie.clock import SystemClock
from hoodie.transaction.locks.hive_thrift import types
from support.contracts import lock_process
from support.contracts.lock_contract import LONG_S, LockFixtures, Open

CLOCK = SystemClock()
DATABASE = "lake"
Client = Any
"""thriftpy2 has no types."""
_TABLES = (f"flights_{n}" for n in itertools.count())


@pytest.fixture
def name() -> str:
    return next(_TABLES)


@pytest.fixture
def client(hive_metastore: str) -> Iterator[Client]:
    host, _, port = hive_metastore.partition(":")
    client = make_client(types.ThriftHiveMetastore, host, int(port))
    yield client
    client.close()


@pytest.fixture
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _requests(client: Client, table: str) -> list[Any]:
    request = types.ShowLocksRequest(dbname=DATABASE, tablename=table)
    found: list[Any] = client.show_locks(request).locks
    return found


def _lock_as_a_jvm(client: Client, table: str, user: str) -> int:
    component = types.LockComponent(
        type=types.LockType.EXCLUSIVE,
        level=types.LockLevel.TABLE,
        dbname=DATABASE,
        tablename=table,
    )
    request = types.LockRequest(component=[component], user=user, hostname="node-1")
    return int(client.lock(request).lockid)


class Relay:
    """A port in front of a server, whose connections can be cut."""

    def __init__(self, server: str) -> None:
        host, _, port = server.partition(":")
        self._server = (host, int(port))
        self._ends: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def cut(self) -> None:
        while self._ends:
            end = self._ends.pop()
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.create_connection(self._server)
                self._ends += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(4096):
            target.sendall(content)


class TestHiveLock(LockFixtures):
    @pytest.fixture
    def address(self, hive_metastore: str, name: str) -> str:
        return f"hive://{hive_metastore}/{DATABASE}/{name}?heartbeat-s=0.5"

    def test_request_says_who(self, open_lock: Open, client: Client, name: str) -> None:
        lock = open_lock("writer schedules")
        lock.acquire(LONG_S)
        (request,) = _requests(client, name)
        assert request.agentInfo.startswith("writer schedules (pid ")
        assert request.lockid == lock.fencing_token
        lock.release()
        assert _requests(client, name) == []

    def test_request_whose_waiting_is_over_is_undone(
        self, open_lock: Open, client: Client, name: str
    ) -> None:
        open_lock("first").acquire(LONG_S)
        with pytest.raises(errors.LockTimeoutError):
            open_lock("second").acquire(0.2)
        assert len(_requests(client, name)) == 1

    def test_holder_that_left_no_name_is_told_by_user_and_host(
        self, open_lock: Open, client: Client, name: str
    ) -> None:
        lock_id = _lock_as_a_jvm(client, name, "spark")
        with pytest.raises(errors.LockTimeoutError, match="held by spark on node-1"):
            open_lock("we").acquire(0)
        client.unlock(types.UnlockRequest(lockid=lock_id))
        open_lock("we").acquire(0)

    def test_second_server_is_asked_where_the_first_is_down(
        self, hive_metastore: str, closed_port: str, name: str
    ) -> None:
        address = f"hive://{closed_port},{hive_metastore}/{DATABASE}/{name}"
        lock = lock_process.open_lock(address, "memory://table", "we")
        lock.acquire(0)
        assert lock.is_held()
        lock.close()


def test_connection_that_broke_is_made_anew_and_the_lock_stays(
    hive_metastore: str, name: str
) -> None:
    with Relay(hive_metastore) as relay:
        address = f"hive://{relay.address}/{DATABASE}/{name}?heartbeat-s=60"
        lock = lock_process.open_lock(address, "memory://table", "we")
        lock.acquire(LONG_S)
        token = lock.fencing_token
        relay.cut()
        assert not lock.is_held()  # Nothing is known by a connection that broke.
        assert lock.is_held()
        assert lock.fencing_token == token
        relay.cut()
        lock.release()
        other = lock_process.open_lock(address, "memory://table", "other")
        other.acquire(0)
        other.close()
        lock.close()


def test_metastore_that_is_not_there_is_named(closed_port: str) -> None:
    address = f"hive://{closed_port}/lake/trips"
    lock = lock_process.open_lock(address, "memory://table", "we")
    with pytest.raises(errors.StorageError, match=rf"lake\.trips at {closed_port} does not answer"):
        lock.acquire(0)
    lock.close()


def test_metastore_that_is_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"hive://127.0.0.1:{silent.getsockname()[1]}/lake/trips?timeout-s=0.3"
        lock = lock_process.open_lock(address, "memory://table", "we")
        start_s = CLOCK.monotonic_s()
        with pytest.raises(errors.StorageError, match="does not answer we"):
            lock.acquire(0)
        assert CLOCK.monotonic_s() - start_s < 3
        lock.close()
