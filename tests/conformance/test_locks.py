"""Our locks and Apache Hudi's own providers exclude each other, in both directions.

Without that no table can have writers of both kinds: protocol.md, L1 and L4.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.transaction.locks import storage_lock_file
from hoodie.transaction.locks.protocol import LockProvider
from hoodie.transaction.locks.storage_lock_file import Lease
from support.contracts.lock_process import open_lock
from support.peer.judge import Judge
from support.peer.peer_options import (
    filesystem_lock,
    hive_lock,
    implicit_zookeeper_lock,
    zookeeper_lock,
)

BASE_PATH, LOCK_KEY = "/hudi/locks", "trips"
WAITS_S = 1.0
"""How long one that waits is seen to wait."""


class SharedLock:
    """One lock of one table, as both sides know it."""

    def __init__(self, judge: Judge, table: Path, address: str, options: dict[str, str]) -> None:
        self._judge = judge
        self._table = table
        self._address = address
        self._options = options

    def ours(self, name: str) -> LockProvider:
        return open_lock(self._address, str(self._table), name)

    def take_theirs(self, wait_s: int = 1) -> bool:
        return self._judge.lock(self._table, self._options, wait_s=wait_s)

    def give_theirs_back(self) -> None:
        self._judge.unlock(self._table)


@pytest.fixture(params=["filesystem", "zookeeper", "implicit", "hive"])
def lock(request: pytest.FixtureRequest, judge: Judge, tmp_path: Path) -> SharedLock:
    table = tmp_path / "table"
    (table / ".hoodie").mkdir(parents=True)
    match request.param:
        case "filesystem":
            address = "filesystem"
            # A write client would fill these in.
            options = filesystem_lock() | {
                "hoodie.write.lock.filesystem.path": str(table / ".hoodie"),
                "hoodie.write.lock.filesystem.expire": "0",
            }
        case "hive":
            servers = request.getfixturevalue("hive_metastore")
            address = f"hive://{servers}/lake/{LOCK_KEY}?heartbeat-s=1"
            options = hive_lock(servers, database="lake", table=LOCK_KEY)
        case "zookeeper":
            zookeeper = request.getfixturevalue("zookeeper")
            address = f"zookeeper://{zookeeper}{BASE_PATH}/{LOCK_KEY}"
            options = zookeeper_lock(zookeeper, base_path=BASE_PATH, lock_key=LOCK_KEY)
        case _:
            zookeeper = request.getfixturevalue("zookeeper")
            address = f"zookeeper-implicit://{zookeeper}"
            # Hudi hashes the table's path as its user wrote it (`/t`, `file:/t` and `file:///t`
            # are three locks); we take it for a full URI.
            options = implicit_zookeeper_lock(zookeeper) | {"hoodie.base.path": table.as_uri()}
    return SharedLock(judge, table, address, options)


def test_apache_hudi_waits_for_our_lock(lock: SharedLock) -> None:
    ours = lock.ours("ours")
    ours.acquire(10)
    assert not lock.take_theirs()
    assert ours.is_held()
    ours.release()
    assert lock.take_theirs(10)
    lock.give_theirs_back()
    ours.close()


def test_we_wait_for_the_lock_of_apache_hudi(lock: SharedLock) -> None:
    ours = lock.ours("ours")
    assert lock.take_theirs(10)
    with pytest.raises(errors.LockTimeoutError):
        ours.acquire(1)
    lock.give_theirs_back()
    ours.acquire(10)
    assert ours.is_held()
    ours.close()


# Apache Hudi's provider of a Hive Metastore's lock does not wait.
@pytest.mark.parametrize("lock", ["filesystem", "zookeeper", "implicit"], indirect=True)
def test_waiting_apache_hudi_gets_our_lock_when_we_give_it_back(lock: SharedLock) -> None:
    ours = lock.ours("ours")
    ours.acquire(10)
    with ThreadPoolExecutor() as threads:
        theirs = threads.submit(lock.take_theirs, 30)
        with pytest.raises(TimeoutError):
            theirs.result(timeout=WAITS_S)
        ours.release()
        assert theirs.result()
    with pytest.raises(errors.LockTimeoutError):
        ours.acquire(0)
    # A lock provider of Hudi's ZooKeeper recipe belongs to the thread that took it, so the judge
    # serves every request from one.
    lock.give_theirs_back()
    ours.close()


@pytest.mark.parametrize("is_expired", [False, True])
def test_lease_of_a_storage_lock_has_the_bytes_of_apache_hudi(
    judge: Judge, is_expired: bool
) -> None:
    lease = Lease(
        is_expired=is_expired,
        valid_until_ms=1_764_000_000_123,
        owner='wr\u00efter "a" \\ (pid 1 on h) 5f9c',
    )
    content = storage_lock_file.encode(lease)
    assert judge.storage_lease(content.decode()) == {
        "expired": lease.is_expired,
        "valid_until_ms": lease.valid_until_ms,
        "owner": lease.owner,
        "text": content.decode(),
    }
