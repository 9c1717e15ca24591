"""Addresses of locks from Apache Hudi's own keys, `hoodie.write.lock.*`, and back.

So one configuration serves writers of both kinds. Source: `LockConfiguration.java`,
`HoodieLockConfig.java`, `StorageBasedLockConfig.java`,
`DynamoDbBasedLockConfig.java`, `ZookeeperBasedImplicitBasePathLockProvider.java`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import settings
from hoodie.transaction.locks import addresses, polling

PREFIX = "hoodie.write.lock."
_CLASSES = "org.apache.hudi.client.transaction.lock"
_PAGE_DEFAULT = "ZookeeperBasedLockProvider"
_DEFAULT_PORT = 2181

Options = Mapping[str, str]


def from_options(
    options: Options, *, table_name: str | None = None
) -> addresses.LockAddress | None:
    """Take a lock's address from Apache Hudi's options; None when they name no provider.

    Keys of ZooKeeper alone name one, too: its page on concurrency control has it as the default.

    Args:
        options: Of a writer; only `hoodie.write.lock.*` and `hoodie.base.path` are read.
        table_name: The lock key where none is given, as Apache Hudi has it.

    Raises:
        UnsupportedError: The provider is one that we do not have.
        InvalidInputError: An option is missing or malformed.
        ConfigurationError: An option is none of the provider's.
    """
    provider = options.get(f"{PREFIX}provider")
    if provider is None and any(key.startswith(f"{PREFIX}zookeeper.") for key in options):
        provider = _PAGE_DEFAULT
    if provider is None:
        return None
    name = provider.rpartition(".")[2]
    if name not in _PROVIDERS:
        raise errors.UnsupportedError(
            f"hoodie.write.lock.provider is {provider}: supported are {', '.join(_PROVIDERS)}"
        )
    known = _SETTINGS_OF_WRITERS | {
        key.name for key in KEYS if not key.providers or name in key.providers
    }
    for key in options:
        if key.startswith(PREFIX) and key not in known:
            raise errors.ConfigurationError(f"{key} is not a setting of {name}")
    return _PROVIDERS[name](options, table_name)


def to_options(address: addresses.LockAddress) -> dict[str, str]:
    """Return the options by which a writer of Apache Hudi has the lock at an address.

    Raises:
        UnsupportedError: Apache Hudi has no such lock.
    """
    match address:
        case addresses.InProcessAddress():
            return _rendered(f"{_CLASSES}.InProcessLockProvider", {})
        case addresses.FileSystemAddress():
            expiry = None if address.expiry_s is None else max(1, round(address.expiry_s / 60))
            return _rendered(
                f"{_CLASSES}.FileSystemBasedLockProvider",
                {"filesystem.path": address.directory, "filesystem.expire": expiry},
            )
        case addresses.StorageAddress():
            return _rendered(
                f"{_CLASSES}.StorageBasedLockProvider",
                {
                    "storage.validity.timeout.secs": round(address.validity_s),
                    "storage.renew.interval.secs": round(address.renew_interval_s),
                },
            )
        case addresses.DynamoDbAddress():
            name = "ImplicitPartitionKeyLockProvider" if address.key is None else "LockProvider"
            return _rendered(
                f"org.apache.hudi.aws.transaction.lock.DynamoDBBased{name}",
                {
                    "dynamodb.region": address.region,
                    "dynamodb.table": address.table,
                    "dynamodb.partition_key": address.key,
                    "dynamodb.endpoint_url": address.endpoint,
                    "wait_time_ms": round(address.lease_s * 1000),
                },
            )
        case addresses.ZooKeeperAddress():
            name = "ImplicitBasePathLockProvider" if address.path is None else "LockProvider"
            base, _, key = (address.path or "").rpartition("/")
            return _rendered(
                f"{_CLASSES}.ZookeeperBased{name}",
                {
                    "zookeeper.url": ",".join(address.servers),
                    # Apache Hudi asks for it, and takes the ports of the servers.
                    "zookeeper.port": address.servers[0].rpartition(":")[2],
                    "zookeeper.base_path": (base or "/") if key else None,
                    "zookeeper.lock_key": key or None,
                    "zookeeper.session_timeout_ms": round(address.session_timeout_s * 1000),
                    "zookeeper.connection_timeout_ms": round(address.connection_timeout_s * 1000),
                },
            )
        case addresses.HiveAddress():
            return _rendered(
                "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
                {
                    "hivemetastore.uris": ",".join(f"thrift://{each}" for each in address.servers),
                    "hivemetastore.database": address.database,
                    "hivemetastore.table": address.table,
                    "heartbeat_interval_ms": round(address.heartbeat_s * 1000),
                },
            )
        case addresses.CustomAddress():
            raise errors.UnsupportedError(
                f"lock custom://{address.name} is a custom lock: Apache Hudi needs a provider of "
                "the "
                "same lock, expected a lock that both support"
            )


def _rendered(provider: str, values: Mapping[str, str | int | None]) -> dict[str, str]:
    given = {PREFIX + key: str(value) for key, value in values.items() if value is not None}
    return {f"{PREFIX}provider": provider, **given}


def _in_process(_: Options, __: str | None) -> addresses.InProcessAddress:
    return addresses.InProcessAddress()


def _file_system(options: Options, _: str | None) -> addresses.FileSystemAddress:
    minutes = _number(options, "filesystem.expire", 0)
    return addresses.FileSystemAddress(
        directory=options.get(f"{PREFIX}filesystem.path") or None,
        expiry_s=minutes * 60 or None,
        polling=_polling(options, addresses.FileSystemAddress().polling),
    )


def _storage(options: Options, _: str | None) -> addresses.StorageAddress:
    validity_s = _number(options, "storage.validity.timeout.secs", 300)
    renewals_s = _number(options, "storage.heartbeat.poll.secs", 30)
    renewals_s = _number(options, "storage.renew.interval.secs", renewals_s)
    if renewals_s < 1 or validity_s < max(10, 10 * renewals_s):
        raise errors.InvalidInputError(
            f"{PREFIX}storage.validity.timeout.secs is {validity_s}: expected 10 or more, and ten "
            f"times {PREFIX}storage.renew.interval.secs or more, which is {renewals_s}"
        )
    return addresses.StorageAddress(
        validity_s=validity_s,
        renew_interval_s=renewals_s,
        polling=_polling(options, addresses.StorageAddress().polling),
    )


def _dynamodb(options: Options, table_name: str | None) -> addresses.DynamoDbAddress:
    key = options.get(f"{PREFIX}dynamodb.partition_key") or table_name
    if not key:
        raise errors.InvalidInputError(f"{PREFIX}dynamodb.partition_key is not set")
    return _dynamodb_at(options, key)


def _implicit_dynamodb(options: Options, _: str | None) -> addresses.DynamoDbAddress:
    base_path = options.get("hoodie.base.path")
    return _dynamodb_at(options, addresses.implicit_key(base_path) if base_path else None)


def _dynamodb_at(options: Options, key: str | None) -> addresses.DynamoDbAddress:
    endpoint = options.get(f"{PREFIX}dynamodb.endpoint_url") or None
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    billing = options.get(f"{PREFIX}dynamodb.billing_mode", "PAY_PER_REQUEST")
    if billing not in {"PAY_PER_REQUEST", "PROVISIONED"}:
        raise errors.InvalidInputError(
            f"{PREFIX}dynamodb.billing_mode is {billing}: expected PAY_PER_REQUEST or PROVISIONED"
        )
    capacity = (
        _number(options, "dynamodb.read_capacity", 20),
        _number(options, "dynamodb.write_capacity", 10),
    )
    return addresses.DynamoDbAddress(
        region=options.get(f"{PREFIX}dynamodb.region") or "us-east-1",
        table=_required(options, "dynamodb.table"),
        key=key,
        endpoint=endpoint,
        # Apache Hudi's lease is as long as it waits for the lock.
        lease_s=_number(options, "wait_time_ms", 60_000) / 1000,
        capacity=capacity if billing == "PROVISIONED" else None,
        polling=_polling(options, addresses.StorageAddress().polling),
    )


def _zookeeper(options: Options, table_name: str | None) -> addresses.ZooKeeperAddress:
    base = _required(options, "zookeeper.base_path")
    key = options.get(f"{PREFIX}zookeeper.lock_key") or table_name
    if not key:
        raise errors.InvalidInputError(f"{PREFIX}zookeeper.lock_key is not set")
    return _zookeeper_at(options, f"{base.rstrip('/')}/{key}")


def _implicit_zookeeper(options: Options, _: str | None) -> addresses.ZooKeeperAddress:
    base_path = options.get("hoodie.base.path")
    return _zookeeper_at(options, addresses.implicit_path(base_path) if base_path else None)


def _zookeeper_at(options: Options, path: str | None) -> addresses.ZooKeeperAddress:
    # The connect string of a client may end in a path that all others are below.
    url = _required(options, "zookeeper.url")
    hosts, slash, root = url.partition("/")
    port = _number(options, "zookeeper.port", _DEFAULT_PORT)
    servers = tuple(
        host if addresses.SERVER.fullmatch(host) else f"{host}:{port}" for host in hosts.split(",")
    )
    if root and path is None:
        raise errors.InvalidInputError("an implicit lock path below another needs hoodie.base.path")
    return addresses.ZooKeeperAddress(
        servers=servers,
        path=path if path is None else f"{(slash + root).rstrip('/')}{path}",
        session_timeout_s=_number(options, "zookeeper.session_timeout_ms", 60_000) / 1000,
        connection_timeout_s=_number(options, "zookeeper.connection_timeout_ms", 15_000) / 1000,
    )


def _hive(options: Options, _: str | None) -> addresses.HiveAddress:
    uris = _required(options, "hivemetastore.uris")
    return addresses.HiveAddress(
        servers=tuple(uri.strip().removeprefix("thrift://") for uri in uris.split(",")),
        database=_required(options, "hivemetastore.database"),
        table=_required(options, "hivemetastore.table"),
        heartbeat_s=_number(options, "heartbeat_interval_ms", 60_000) / 1000,
        polling=_polling(options, addresses.StorageAddress().polling),
    )


# By the last part of the class's name: what makes the address, of the options and the table's name.
_PROVIDERS: Mapping[str, Callable[[Options, str | None], addresses.LockAddress]] = {
    "InProcessLockProvider": _in_process,
    "FileSystemBasedLockProvider": _file_system,
    "StorageBasedLockProvider": _storage,
    "DynamoDBBasedLockProvider": _dynamodb,
    "DynamoDBBasedImplicitPartitionKeyLockProvider": _implicit_dynamodb,
    "ZookeeperBasedLockProvider": _zookeeper,
    "ZookeeperBasedImplicitBasePathLockProvider": _implicit_zookeeper,
    "HiveMetastoreBasedLockProvider": _hive,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LockKey:
    """One of Apache Hudi's keys that say which lock it is.

    Attributes:
        name: The key.
        default: As text; empty for none.
        meaning: For the documentation.
        providers: That have it, by the last part of the class's name; empty for all.
    """

    name: str
    default: str
    meaning: str
    providers: tuple[str, ...] = ()


def _keys(providers: tuple[str, ...], rows: Mapping[str, tuple[str, str]]) -> tuple[LockKey, ...]:
    return tuple(
        LockKey(name=PREFIX + name, default=default, meaning=meaning, providers=providers)
        for name, (default, meaning) in rows.items()
    )


_HIVE = ("HiveMetastoreBasedLockProvider",)
_FILES = ("FileSystemBasedLockProvider",)
_STORAGE = ("StorageBasedLockProvider",)
_DYNAMODB = ("DynamoDBBasedLockProvider", "DynamoDBBasedImplicitPartitionKeyLockProvider")
_ZOOKEEPER = ("ZookeeperBasedLockProvider", "ZookeeperBasedImplicitBasePathLockProvider")

KEYS = (
    *_keys(
        (),
        {
            "provider": (
                f"{_PAGE_DEFAULT}, where there are keys of it",
                "the lock, by the class of Apache Hudi",
            ),
            "wait_time_ms_between_retry": (
                "2 (files), 20 (servers)",
                "first pause between two checks of a lock that another process holds",
            ),
            "max_wait_time_ms_between_retry": (
                "100 (files), 250 (servers)",
                "maximum of these pauses",
            ),
            "num_retries": ("as many as fit into the wait", "checks after the first"),
            "heartbeat_interval_ms": ("60000", "heartbeats of a lock in a Hive Metastore"),
            "app_id": ("", "ignored: hoodie's locks name the writer and its process"),
        },
    ),
    *_keys(
        _FILES,
        {
            "filesystem.path": ("the table's .hoodie", "directory of the lock file"),
            "filesystem.expire": (
                "0, never",
                "minutes after which another process takes the file over",
            ),
        },
    ),
    *_keys(
        _STORAGE,
        {
            "storage.validity.timeout.secs": ("300", "length of a lease that is not renewed"),
            "storage.renew.interval.secs": ("30", "between two renewals"),
            "storage.heartbeat.poll.secs": ("30", "the same, by its older name"),
        },
    ),
    *_keys(
        _DYNAMODB,
        {
            "dynamodb.region": ("us-east-1", "AWS region"),
            "dynamodb.table": ("", "table of the locks; created if it does not exist"),
            "dynamodb.partition_key": ("the table's name", "the lock's key in it"),
            "dynamodb.endpoint_url": ("the region's", "URL of the service"),
            "dynamodb.billing_mode": (
                "PAY_PER_REQUEST",
                "of a table that is created; or PROVISIONED",
            ),
            "dynamodb.read_capacity": ("20", "of a provisioned table"),
            "dynamodb.write_capacity": ("10", "of a provisioned table"),
            "dynamodb.table_creation_timeout": ("120 s", "ignored: the time is fixed"),
        },
    ),
    *_keys(
        # Apache Hudi reads over them with a Hive Metastore: they are Hive's own clients'.
        (*_ZOOKEEPER, *_HIVE),
        {
            "zookeeper.url": ("", "HOST:PORT,… of the ensemble"),
            "zookeeper.port": ("2181", "of hosts without a port"),
            "zookeeper.base_path": (
                "",
                "parent of the path of the lock; not for the implicit provider",
            ),
            "zookeeper.lock_key": ("the table's name", "last part of the path of the lock"),
            "zookeeper.session_timeout_ms": ("60000", "silence after which a session ends"),
            "zookeeper.connection_timeout_ms": ("15000", "for a connection, and for one answer"),
        },
    ),
    *_keys(
        _HIVE,
        {
            "hivemetastore.uris": ("", "thrift://HOST:PORT,… of the metastore"),
            "hivemetastore.database": ("", "database of the table that is locked"),
            "hivemetastore.table": ("", "its name"),
        },
    ),
    LockKey(
        name="hoodie.base.path",
        default="the table's location",
        meaning="location from which the path or key of an implicit lock is derived",
    ),
)
"""Every key that says which lock it is; settings of writers that begin alike are in `settings`."""

_SETTINGS_OF_WRITERS = frozenset(
    name for key in settings.KEYS for name in (key.name, *key.aliases) if name.startswith(PREFIX)
)


def _polling(options: Options, usual: polling.Polling) -> polling.Polling:
    """Return how often to look: as usual, but for what the options say."""
    first_s = _number(options, "wait_time_ms_between_retry", round(usual.first_s * 1000)) / 1000
    longest_ms = max(round(usual.longest_s * 1000), round(first_s * 1000))
    retries = options.get(f"{PREFIX}num_retries")
    return polling.Polling(
        first_s=first_s,
        longest_s=_number(options, "max_wait_time_ms_between_retry", longest_ms) / 1000,
        retries_max=None if retries is None else _number(options, "num_retries", 0),
    )


def _required(options: Options, key: str) -> str:
    value = options.get(PREFIX + key)
    if not value:
        raise errors.InvalidInputError(f"{PREFIX}{key} is not set")
    return value


def _number(options: Options, key: str, default: int) -> int:
    try:
        return int(options.get(PREFIX + key, default))
    except ValueError as error:
        raise errors.InvalidInputError(
            f"{PREFIX}{key} is {options[PREFIX + key]!r}: expected a number"
        ) from error
