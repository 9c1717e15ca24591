"""Every provider of the table lock keeps the one contract, against the real thing."""

import itertools
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from kazoo.client import KazooClient
from thriftpy2.rpc import make_client

from hoodie.storage import locations
from hoodie.transaction.locks import addresses, storage_lock_file
from hoodie.transaction.locks.hive_thrift import types
from hoodie.transaction.locks.storage_lock_file import Lease
from support.contracts.lock_contract import (
    InspectableLockContract,
    LeasedLockContract,
    LockContract,
    SharedLockContract,
)

_NUMBERS = itertools.count()


class TestInProcessLock(LockContract):
    @pytest.fixture
    def address(self) -> str:
        return "in-process"


class TestFileSystemLock(InspectableLockContract):
    @pytest.fixture
    def address(self) -> str:
        return "filesystem"

    @pytest.fixture
    def lose(self, table: str) -> Callable[[], None]:
        return (Path(table) / ".hoodie" / "lock").unlink


class StorageLockContract(LeasedLockContract):
    @pytest.fixture
    def address(self) -> str:
        return "storage?validity-s=2&renew-interval-s=0.4"

    @pytest.fixture
    def lose(self, table: str) -> Callable[[], None]:
        def give_to_a_stranger() -> None:
            files = locations.open_storage(table)
            version = files.stat(storage_lock_file.PATH).version
            lease = Lease(is_expired=False, valid_until_ms=2**42, owner="a stranger")
            content = storage_lock_file.encode(lease)
            files.replace(storage_lock_file.PATH, content, if_match=version)

        return give_to_a_stranger


class TestStorageLockOnFiles(StorageLockContract):
    pass


class TestStorageLockOnS3(StorageLockContract):
    ROUNDS = 6

    @pytest.fixture
    def table(self, bucket: str) -> str:
        return f"s3://{bucket}/lake/table"


class TestDynamoDbLock(LeasedLockContract):
    """T-L19: what its options mean is tested where they are read."""

    ROUNDS = 4

    @pytest.fixture
    def address(self, aws: str, lock_table: str) -> str:
        return f"dynamodb://us-east-1/{lock_table}/trips?endpoint={aws}&lease-s=2"

    @pytest.fixture
    def lose(self, aws: str, lock_table: str) -> Callable[[], None]:
        client = boto3.client("dynamodb", endpoint_url=aws, region_name="us-east-1")
        item = {
            "key": {"S": "trips"},
            "ownerName": {"S": "a stranger"},
            "leaseDuration": {"S": "60000"},
            "recordVersionNumber": {"S": "5f9c"},
        }
        return lambda: client.put_item(TableName=lock_table, Item=item)


class TestZooKeeperLock(LeasedLockContract):
    @pytest.fixture
    def address(self, zookeeper: str, lock_path: str) -> str:
        return f"zookeeper://{zookeeper}{lock_path}?session-timeout-s=2"

    @pytest.fixture
    def lose(self, zookeeper: str, lock_path: str) -> Callable[[], None]:
        return lambda: _delete_children(zookeeper, lock_path)


class TestImplicitZooKeeperLock(LeasedLockContract):
    @pytest.fixture
    def address(self, zookeeper: str) -> str:
        return f"zookeeper-implicit://{zookeeper}?session-timeout-s=2"

    @pytest.fixture
    def lose(self, zookeeper: str, table: str) -> Callable[[], None]:
        path = addresses.implicit_path(Path(table).as_uri())
        return lambda: _delete_children(zookeeper, path)


class TestHiveMetastoreLock(LeasedLockContract):
    """T-L19, as above."""

    ROUNDS = 3

    @pytest.fixture
    def address(self, hive_metastore: str) -> str:
        return f"hive://{hive_metastore}/lake/trips_{next(_NUMBERS)}?heartbeat-s=0.5"

    @pytest.fixture
    def lose(self, address: str) -> Callable[[], None]:
        table = address.partition("?")[0].rpartition("/")[2]
        host, _, port = address.removeprefix("hive://").partition("/")[0].partition(":")

        def unlock() -> None:
            client = make_client(types.ThriftHiveMetastore, host, int(port))
            request = types.ShowLocksRequest(dbname="lake", tablename=table)
            for lock in client.show_locks(request).locks:
                client.unlock(types.UnlockRequest(lockid=lock.lockid))
            client.close()

        return unlock


class TestLockOfAnEntryPoint(SharedLockContract):
    """T-L20."""

    @pytest.fixture
    def address(self, installed: str, tmp_path: Path) -> str:
        return f"custom://{installed}{tmp_path}/flock"

    @pytest.fixture
    def lose(self, tmp_path: Path) -> Callable[[], None]:
        return (tmp_path / "flock").unlink


def _delete_children(servers: str, path: str) -> None:
    client = KazooClient(servers)
    client.start()
    for name in client.get_children(path):
        client.delete(f"{path}/{name}")
    client.stop()
    client.close()
