"""Addresses of locks: text and back, Apache Hudi's options, the implicit path, what is refused."""

import pickle

import pytest

from hoodie import errors
from hoodie.transaction.locks import address_texts, addresses, hudi_options
from hoodie.transaction.locks.addresses import (
    CustomAddress,
    DynamoDbAddress,
    FileSystemAddress,
    HiveAddress,
    InProcessAddress,
    LockAddress,
    StorageAddress,
    ZooKeeperAddress,
)
from hoodie.transaction.locks.polling import Polling

PROVIDERS = "org.apache.hudi.client.transaction.lock"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("in-process", InProcessAddress()),
        ("filesystem", FileSystemAddress()),
        ("filesystem?expiry-s=600", FileSystemAddress(expiry_s=600)),
        (
            "filesystem?directory=/locks/a+b&expiry-s=0.5",
            FileSystemAddress(directory="/locks/a b", expiry_s=0.5),
        ),
        (
            "filesystem?retry-wait-s=1&retry-wait-max-s=16&retries=15",
            FileSystemAddress(polling=Polling(first_s=1, longest_s=16, retries_max=15)),
        ),
        ("storage", StorageAddress()),
        (
            "hive://a:9083,b:9083/lake/trips?heartbeat-s=5&timeout-s=2",
            HiveAddress(
                servers=("a:9083", "b:9083"),
                database="lake",
                table="trips",
                heartbeat_s=5,
                timeout_s=2,
            ),
        ),
        ("custom://etcd", CustomAddress(name="etcd")),
        ("custom://etcd/host:1/a?b=c", CustomAddress(name="etcd", text="host:1/a?b=c")),
        (
            "storage?validity-s=10&renew-interval-s=0.5&retries=3",
            StorageAddress(
                validity_s=10,
                renew_interval_s=0.5,
                polling=Polling(first_s=0.02, longest_s=0.25, retries_max=3),
            ),
        ),
        (
            "dynamodb://eu-west-1/locks/a%20trip",
            DynamoDbAddress(region="eu-west-1", table="locks", key="a trip"),
        ),
        (
            "dynamodb://r-1/locks?endpoint=http://host:1&lease-s=10&read-capacity=2&write-capacity=1",
            DynamoDbAddress(
                region="r-1",
                table="locks",
                key=None,
                endpoint="http://host:1",
                lease_s=10,
                capacity=(2, 1),
            ),
        ),
        (
            "zookeeper://host:2181/base/key",
            ZooKeeperAddress(servers=("host:2181",), path="/base/key"),
        ),
        (
            "zookeeper://a:1,b.c:2,[::1]:3/base/more/key",
            ZooKeeperAddress(servers=("a:1", "b.c:2", "[::1]:3"), path="/base/more/key"),
        ),
        (
            "zookeeper-implicit://host:2181",
            ZooKeeperAddress(servers=("host:2181",), path=None),
        ),
        (
            "zookeeper-implicit://host:2181?session-timeout-s=5&connection-timeout-s=2.5",
            ZooKeeperAddress(
                servers=("host:2181",), path=None, session_timeout_s=5, connection_timeout_s=2.5
            ),
        ),
    ],
)
def test_address_is_read_written_and_pickled(text: str, address: LockAddress) -> None:
    assert address_texts.parse(text) == address
    assert str(address) == text
    assert pickle.loads(pickle.dumps(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zookeeper",
        "in-process?x=1",
        "in-process://a",
        "filesystem?expiry-s=soon",
        "filesystem?expiry-s=0",
        "filesystem?expiry-s=nan",
        "filesystem?unknown=1",
        "filesystem?expiry-s",
        "filesystem?retries=-1",
        "filesystem?retry-wait-s=2&retry-wait-max-s=1",
        "storage?validity-s=10&renew-interval-s=6",
        "storage?renew-interval-s=0",
        "storage?validity-s=nan",
        "dynamodb://eu-west-1",
        "dynamodb://eu-west-1/no",
        "dynamodb://eu-west-1/locks/",
        "dynamodb:///locks/key",
        "dynamodb://eu-west-1/locks?lease-s=0",
        "dynamodb://eu-west-1/locks?endpoint=host:1",
        "dynamodb://eu-west-1/locks?read-capacity=1",
        "dynamodb://eu-west-1/locks?read-capacity=1&write-capacity=0",
        "zookeeper://host:2181",
        "zookeeper://host:2181/",
        "zookeeper://host:2181/key",
        "zookeeper://host:2181/base//key",
        "zookeeper://host:2181/base/../key",
        "zookeeper://host:2181/zookeeper/key",
        "zookeeper://host/base/key",
        "zookeeper://host:0/base/key",
        "zookeeper://host:99999/base/key",
        "zookeeper://host:2181,/base/key",
        "zookeeper://host:2181/base/key?session-timeout-s=-1",
        "zookeeper-implicit://",
        "zookeeper-implicit://host:2181/base",
        "hive://host:1/lake",
        "hive://host:1/lake/trips/more",
        "hive://host/lake/trips",
        "hive://host:1/lake/trips?heartbeat-s=0",
        "redis://host:1",
        "custom://",
        "custom:///a",
        "custom://a b",
    ],
)
def test_text_that_is_no_address_is_invalid_input(text: str) -> None:
    with pytest.raises(errors.InvalidInputError):
        address_texts.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "zookeeper://user:PASSWORD@host:2181/base/key",
        "zookeeper-implicit://user:PASSWORD@host:2181",
        "hive://user:PASSWORD@host:1/lake/trips",
        "etcd://user:PASSWORD@host:2181",
        "dynamodb://eu-west-1/locks?endpoint=http://user:PASSWORD@host",
    ],
)
def test_credentials_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(errors.InvalidInputError) as caught:
        address_texts.parse(text)
    assert "PASSWORD" not in str(caught.value)


# Made by the Apache Hudi 1.1.1 bundle (ZookeeperBasedImplicitBasePathLockProvider.getLockBasePath).
@pytest.mark.parametrize(
    ("base_path", "lock_base_path"),
    [
        ("s3://bucket/table", "/tmp/4DCF035CB614089C"),
        ("s3a://bucket/table", "/tmp/4DCF035CB614089C"),
        ("file:///tmp/t", "/tmp/488FEFCCC7172A88"),
        ("/tmp/hudi/trips_table_name_that_is_longer_than_32_bytes", "/tmp/0A119570B904A8C6"),
        ("", "/tmp/0D6FDE68D55B45DA"),
    ],
)
def test_implicit_path_is_apache_hudis(base_path: str, lock_base_path: str) -> None:
    """T-L08."""
    assert addresses.implicit_path(base_path) == f"{lock_base_path}/lock_key"


def test_no_provider_among_hudis_options_is_no_address() -> None:
    assert hudi_options.from_options({"hoodie.base.path": "/t"}) is None


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"provider": "InProcessLockProvider"}, InProcessAddress()),
        ({"provider": "FileSystemBasedLockProvider"}, FileSystemAddress()),
        (
            {
                "provider": "FileSystemBasedLockProvider",
                "filesystem.path": "/locks",
                "filesystem.expire": "10",
            },
            FileSystemAddress(directory="/locks", expiry_s=600),
        ),
        (
            {
                "provider": "FileSystemBasedLockProvider",
                "num_retries": "15",
                "wait_time_ms_between_retry": "1000",
                "max_wait_time_ms_between_retry": "16000",
            },
            FileSystemAddress(polling=Polling(first_s=1, longest_s=16, retries_max=15)),
        ),
        ({"provider": "StorageBasedLockProvider"}, StorageAddress()),
        (
            {
                "provider": "StorageBasedLockProvider",
                "storage.validity.timeout.secs": "120",
                "storage.renew.interval.secs": "12",
                "storage.heartbeat.poll.secs": "3",
            },
            StorageAddress(validity_s=120, renew_interval_s=12),
        ),
        (
            {
                "provider": "StorageBasedLockProvider",
                "storage.validity.timeout.secs": "60",
                "storage.heartbeat.poll.secs": "3",
            },
            StorageAddress(validity_s=60, renew_interval_s=3),
        ),
        (
            {"provider": "DynamoDBBasedLockProvider", "dynamodb.table": "locks"},
            DynamoDbAddress(region="us-east-1", table="locks", key="trips"),
        ),
        (
            {
                "provider": "DynamoDBBasedLockProvider",
                "dynamodb.table": "locks",
                "dynamodb.partition_key": "other",
                "dynamodb.region": "eu-west-1",
                "dynamodb.endpoint_url": "host:1",
                "dynamodb.billing_mode": "PROVISIONED",
                "dynamodb.read_capacity": "3",
                "wait_time_ms": "9000",
            },
            DynamoDbAddress(
                region="eu-west-1",
                table="locks",
                key="other",
                endpoint="https://host:1",
                lease_s=9,
                capacity=(3, 10),
            ),
        ),
        (
            {
                "provider": "DynamoDBBasedImplicitPartitionKeyLockProvider",
                "dynamodb.table": "locks",
            },
            DynamoDbAddress(region="us-east-1", table="locks", key="488FEFCCC7172A88"),
        ),
        (
            {
                "provider": "HiveMetastoreBasedLockProvider",
                "hivemetastore.uris": "thrift://a:9083, thrift://b:9083",
                "hivemetastore.database": "lake",
                "hivemetastore.table": "trips",
                "heartbeat_interval_ms": "5000",
                "zookeeper.url": "of Hive's own clients",
            },
            HiveAddress(
                servers=("a:9083", "b:9083"), database="lake", table="trips", heartbeat_s=5
            ),
        ),
        (
            {
                "provider": "ZookeeperBasedLockProvider",
                "zookeeper.url": "a:1,b",
                "zookeeper.port": "2",
                "zookeeper.base_path": "/base/",
                "zookeeper.lock_key": "key",
                "zookeeper.session_timeout_ms": "5000",
                "zookeeper.connection_timeout_ms": "2500",
            },
            ZooKeeperAddress(
                servers=("a:1", "b:2"),
                path="/base/key",
                session_timeout_s=5,
                connection_timeout_s=2.5,
            ),
        ),
        (
            {
                "provider": "ZookeeperBasedLockProvider",
                "zookeeper.url": "host/root",
                "zookeeper.base_path": "/base",
            },
            ZooKeeperAddress(
                servers=("host:2181",),
                path="/root/base/trips",
                session_timeout_s=60,
                connection_timeout_s=15,
            ),
        ),
        (
            {
                "provider": "ZookeeperBasedImplicitBasePathLockProvider",
                "zookeeper.url": "host:2181",
            },
            ZooKeeperAddress(
                servers=("host:2181",),
                path="/tmp/488FEFCCC7172A88/lock_key",
                session_timeout_s=60,
                connection_timeout_s=15,
            ),
        ),
    ],
)
def test_hudis_options_make_an_address(options: dict[str, str], address: LockAddress) -> None:
    """T-L19."""
    given = {f"hoodie.write.lock.{name}": value for name, value in options.items()}
    given["hoodie.write.lock.provider"] = f"{PROVIDERS}.{options['provider']}"
    given["hoodie.base.path"] = "file:///tmp/t"
    assert hudi_options.from_options(given, table_name="trips") == address


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"zookeeper.base_path": "/base", "zookeeper.lock_key": "key"}, "zookeeper.url"),
        ({"zookeeper.url": "host:1"}, "zookeeper.base_path"),
        ({"zookeeper.url": "host:1", "zookeeper.base_path": "/base"}, "zookeeper.lock_key"),
        (
            {
                "zookeeper.url": "host",
                "zookeeper.base_path": "/base",
                "zookeeper.lock_key": "key",
                "zookeeper.port": "many",
            },
            "zookeeper.port",
        ),
    ],
)
def test_missing_option_is_named(options: dict[str, str], missing: str) -> None:
    given = {f"hoodie.write.lock.{name}": value for name, value in options.items()}
    given["hoodie.write.lock.provider"] = f"{PROVIDERS}.ZookeeperBasedLockProvider"
    with pytest.raises(errors.InvalidInputError, match=f"hoodie.write.lock.{missing}"):
        hudi_options.from_options(given)


def test_provider_that_we_do_not_have_is_named() -> None:
    provider = "org.apache.hudi.gcp.transaction.lock.SpannerLockProvider"
    with pytest.raises(errors.UnsupportedError, match=provider):
        hudi_options.from_options({"hoodie.write.lock.provider": provider})


def test_key_of_another_provider_is_refused() -> None:
    given = {
        "hoodie.write.lock.provider": f"{PROVIDERS}.InProcessLockProvider",
        "hoodie.write.lock.client.num_retries": "3",
        "hoodie.write.lock.zookeeper.url": "zk",
    }
    with pytest.raises(
        errors.ConfigurationError,
        match=r"lock\.zookeeper\.url is not a setting "
        r"of",
    ):
        hudi_options.from_options(given)


@pytest.mark.parametrize(("validity", "renewal"), [(9, 0), (9, 1), (99, 10), (100, 0)])
def test_lease_that_apache_hudi_refuses_is_refused(validity: int, renewal: int) -> None:
    """T-L18."""
    given = {
        "hoodie.write.lock.provider": f"{PROVIDERS}.StorageBasedLockProvider",
        "hoodie.write.lock.storage.validity.timeout.secs": str(validity),
        "hoodie.write.lock.storage.renew.interval.secs": str(renewal),
    }
    with pytest.raises(errors.InvalidInputError, match=r"validity\.timeout\.secs is \d+: expected"):
        hudi_options.from_options(given)
