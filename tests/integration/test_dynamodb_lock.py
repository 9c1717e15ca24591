"""The DynamoDB lock against moto: items of the Java client, its table, what is refused."""

import re
import threading
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from hoodie import errors, identity
from hoodie.background.threads import ThreadBackground
from hoodie.storage.memory import MemoryStorage
from hoodie.transaction.locks import address_texts, addresses, opening
from hoodie.transaction.locks.protocol import LockOwner, LockProvider
from support.contracts import lock_process
from support.contracts.lock_contract import LONG_S, LockFixtures, Open
from support.simulation.moved_clock import MovedClock

REGION = "us-east-1"
Client = Any
"""boto3 has no types."""
Item = Callable[[], dict[str, dict[str, str]]]


@pytest.fixture
def client(aws: str) -> Client:
    return boto3.client("dynamodb", endpoint_url=aws, region_name=REGION)


def _java_item(key: str, version: str, lease_ms: int) -> dict[str, dict[str, str]]:
    """Return an item as the lock client for Java puts it."""
    return {
        "key": {"S": key},
        "ownerName": {"S": "a JVM"},
        "leaseDuration": {"S": str(lease_ms)},
        "recordVersionNumber": {"S": version},
    }


class _SleptClock(MovedClock):
    """Goes on only when somebody sleeps: no request takes any time."""

    def sleep_s(self, seconds: float) -> None:
        self.now_s += seconds


class TestDynamoDbLock(LockFixtures):
    @pytest.fixture
    def address(self, aws: str, lock_table: str) -> str:
        return f"dynamodb://{REGION}/{lock_table}/trips?endpoint={aws}&lease-s=60"

    @pytest.fixture
    def item(self, client: Client, lock_table: str) -> Item:
        key = {"key": {"S": "trips"}}
        return lambda: client.get_item(TableName=lock_table, Key=key)["Item"]

    @pytest.fixture
    def table_made(self, open_lock: Open) -> None:
        lock = open_lock("maker")
        lock.acquire(LONG_S)
        lock.release()

    def test_table_is_made_as_apache_hudi_makes_it(
        self, open_lock: Open, client: Client, lock_table: str
    ) -> None:
        open_lock("first").acquire(LONG_S)
        table = client.describe_table(TableName=lock_table)["Table"]
        assert table["KeySchema"] == [{"AttributeName": "key", "KeyType": "HASH"}]
        assert table["AttributeDefinitions"] == [{"AttributeName": "key", "AttributeType": "S"}]
        assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"

    def test_table_that_many_make_at_once_is_one(self, open_lock: Open) -> None:
        locks = [open_lock(f"taker {n}") for n in range(4)]
        had = []

        def take(lock: LockProvider) -> None:
            lock.acquire(LONG_S)
            had.append(lock.fencing_token)
            lock.release()

        threads = [threading.Thread(target=take, args=(lock,)) for lock in locks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(had)) == 4

    def test_item_has_the_attributes_of_the_java_client(self, open_lock: Open, item: Item) -> None:
        lock = open_lock("writer schedules")
        lock.acquire(LONG_S)
        taken = item()
        assert taken.keys() == {
            *_java_item("trips", "", 0),
            "fencingToken",
        }
        assert taken["key"] == {"S": "trips"}
        assert taken["leaseDuration"] == {"S": "60000"}
        assert taken["fencingToken"] == {"N": str(lock.fencing_token)}
        assert re.fullmatch(
            r"writer schedules \(pid \d+ on .*\) [0-9a-f-]{36}", taken["ownerName"]["S"]
        )
        lock.release()
        assert item()["isReleased"] == {"S": "1"}

    @pytest.mark.usefixtures("table_made")
    def test_item_of_java_is_respected_until_it_stays_the_same_for_its_lease(
        self, address: str, client: Client, lock_table: str
    ) -> None:
        client.put_item(TableName=lock_table, Item=_java_item("trips", "1", 1_000))
        lock = opening.open_lock(
            address_texts.parse(address),
            MemoryStorage(),
            LockOwner(id="we", name="we", process=identity.current_process()),
            waiting_clock=_SleptClock(),
            random=identity.SystemRandom(),
            background=ThreadBackground(),
        )
        # The time is counted over tries that wait for less than the lease.
        with pytest.raises(errors.LockTimeoutError, match=r"held by a JVM, .* lease of 1 s"):
            lock.acquire(0.6)
        client.put_item(TableName=lock_table, Item=_java_item("trips", "2", 1_000))
        with pytest.raises(errors.LockTimeoutError, match="held by a JVM"):
            lock.acquire(0.6)
        lock.acquire(0.6)
        assert lock.is_held()
        lock.close()

    @pytest.mark.usefixtures("table_made")
    def test_token_grows_though_a_jvm_deleted_the_item(
        self, open_lock: Open, client: Client, lock_table: str
    ) -> None:
        lock = open_lock("we")
        lock.acquire(LONG_S)
        before = lock.fencing_token
        lock.release()
        client.delete_item(TableName=lock_table, Key={"key": {"S": "trips"}})
        lock.acquire(LONG_S)
        assert lock.fencing_token > before

    @pytest.mark.usefixtures("table_made")
    def test_item_that_is_no_lock_is_a_format_error(
        self, open_lock: Open, client: Client, lock_table: str
    ) -> None:
        client.put_item(TableName=lock_table, Item={"key": {"S": "trips"}})
        with pytest.raises(errors.FormatError, match="is not a lock item: 'recordVersionNumber'"):
            open_lock("we").acquire(0)

    def test_table_of_another_key_is_a_configuration_error(
        self, open_lock: Open, client: Client, lock_table: str
    ) -> None:
        client.create_table(
            TableName=lock_table,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        with pytest.raises(errors.ConfigurationError, match=f"table {lock_table} .*Validation"):
            open_lock("we").acquire(0)


def test_key_is_made_of_the_tables_location(aws: str, client: Client, lock_table: str) -> None:
    address = f"dynamodb://{REGION}/{lock_table}?endpoint={aws}"
    lock = lock_process.open_lock(address, "s3a://bucket/table", "we")
    lock.acquire(LONG_S)
    key = addresses.implicit_key("s3://bucket/table")
    assert "Item" in client.get_item(TableName=lock_table, Key={"key": {"S": key}})
    lock.close()


def test_service_that_is_not_there_is_named(lock_table: str, aws: str) -> None:
    address = f"dynamodb://{REGION}/{lock_table}/trips?endpoint=http://127.0.0.1:1"
    lock = lock_process.open_lock(address, "memory://table", "we")
    with pytest.raises(errors.StorageError, match=r"http://127\.0\.0\.1:1 does not answer"):
        lock.acquire(0)
