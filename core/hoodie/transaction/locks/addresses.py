"""Which lock a table has: values that can be written, configured, pickled and sent to a job.

`str` gives the text that `address_texts.parse` reads; `hudi_options` makes them of the options of
Apache Hudi's writers.
"""

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import java_hash
from hoodie.transaction.locks.polling import Polling

SERVER = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_REGION = re.compile(r"[a-z0-9-]+")
_DYNAMODB_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_ENDPOINT = re.compile(r"https?://[^@?#\s]+")
_HIVE_NAME = re.compile(r"\w+")
_HIVE_SILENCE_S = 300.0  # hive.txn.timeout, unless the metastore has another.
_PORT_MAX = 65_535
_IMPLICIT_KEY = "lock_key"

_FILES_POLLING = Polling(first_s=0.002, longest_s=0.1)
_SERVER_POLLING = Polling(first_s=0.02, longest_s=0.25)
_RENEWALS_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessAddress:
    """A lock among the threads of one process."""

    def __str__(self) -> str:
        return "in-process"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemAddress:
    """A file named `lock` in a directory that all writers see.

    Attributes:
        directory: A path or `file:` URI; None is the table's own `.hoodie`.
        expiry_s: A lock file older than this may be taken over; None is never, but for one whose
            holder is proved dead.
        polling: How often to look while another has it.
    """

    directory: str | None = None
    expiry_s: float | None = None
    polling: Polling = _FILES_POLLING

    def __post_init__(self) -> None:
        if self.expiry_s is not None and not self.expiry_s > 0:
            raise errors.InvalidInputError(f"a lock cannot expire after {self.expiry_s} s")

    def __str__(self) -> str:
        options = {"directory": self.directory, "expiry-s": self.expiry_s}
        return "filesystem" + _query(options | _polling(self.polling, _FILES_POLLING))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAddress:
    """A lease in the table's own storage.

    Attributes:
        validity_s: Of a lease that is not renewed.
        renew_interval_s: Between two renewals.
        polling: How often to look while another has it.
    """

    validity_s: float = 300.0
    renew_interval_s: float = 30.0
    polling: Polling = _SERVER_POLLING

    def __post_init__(self) -> None:
        _check_lease(self.validity_s, self.renew_interval_s)

    def __str__(self) -> str:
        usual = StorageAddress()
        options: dict[str, Option] = {
            "validity-s": _unless(self.validity_s, usual.validity_s),
            "renew-interval-s": _unless(self.renew_interval_s, usual.renew_interval_s),
        }
        return "storage" + _query(options | _polling(self.polling, usual.polling))


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoDbAddress:
    """An item of a DynamoDB table.

    Attributes:
        region: Of Amazon's.
        table: Its name; made where it is not there.
        key: Of the item; None is made of the Hudi table's location.
        endpoint: The URL of the service; None is the region's own.
        lease_s: How long the lock holds without being renewed.
        capacity: Read and write units of a table that is made; None is paid for by request.
        polling: How often to look while another has it.
    """

    region: str
    table: str
    key: str | None
    endpoint: str | None = None
    lease_s: float = 60.0
    capacity: tuple[int, int] | None = None
    polling: Polling = _SERVER_POLLING

    def __post_init__(self) -> None:
        if _REGION.fullmatch(self.region) is None:
            raise errors.InvalidInputError(f"{self.region!r} is not a region of DynamoDB")
        if _DYNAMODB_TABLE.fullmatch(self.table) is None:
            raise errors.InvalidInputError(
                f"{self.table!r} is not a name of a DynamoDB table: expected 3 to 255 letters, "
                "digits, `_`, `-` and `.`"
            )
        if self.key is not None and not (self.key and self.key.isprintable()):
            raise errors.InvalidInputError(f"{self.key!r} is not a key of a lock in DynamoDB")
        if self.endpoint is not None and _ENDPOINT.fullmatch(self.endpoint) is None:
            shown = re.sub(r"//.*@", "//***@", self.endpoint)
            raise errors.InvalidInputError(f"{shown!r} is not an endpoint: expected http(s)://HOST")
        _check_seconds("a lease cannot end after", self.lease_s)
        if self.capacity is not None and min(self.capacity) < 1:
            raise errors.InvalidInputError(f"a table cannot have a capacity of {self.capacity}")

    def __str__(self) -> str:
        usual = DynamoDbAddress(region=self.region, table=self.table, key=None)
        read, write = self.capacity or (None, None)
        options: dict[str, Option] = {
            "endpoint": self.endpoint,
            "lease-s": _unless(self.lease_s, usual.lease_s),
            "read-capacity": read,
            "write-capacity": write,
        }
        key = "" if self.key is None else f"/{urllib.parse.quote(self.key, safe='/:')}"
        query = _query(options | _polling(self.polling, usual.polling))
        return f"dynamodb://{self.region}/{self.table}{key}{query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAddress:
    """A path of a ZooKeeper ensemble.

    Attributes:
        servers: `HOST:PORT` each.
        path: Of the lock; None is made of the table's location.
        session_timeout_s: Silence after which the servers give the lock of a dead holder away; they
            may bound it.
        connection_timeout_s: How long to wait for a connection, and for one answer.
    """

    servers: tuple[str, ...]
    path: str | None
    session_timeout_s: float = 20.0
    connection_timeout_s: float = 15.0

    def __post_init__(self) -> None:
        _check_servers(self.servers)
        if self.path is not None:
            _check_path(self.path)
        _check_seconds("a session cannot time out after", self.session_timeout_s)
        _check_seconds("a connection cannot time out after", self.connection_timeout_s)

    def __str__(self) -> str:
        usual = ZooKeeperAddress(servers=self.servers, path=None)
        options = _query(
            {
                "session-timeout-s": _unless(self.session_timeout_s, usual.session_timeout_s),
                "connection-timeout-s": _unless(
                    self.connection_timeout_s, usual.connection_timeout_s
                ),
            }
        )
        servers = ",".join(self.servers)
        if self.path is None:
            return f"zookeeper-implicit://{servers}{options}"
        return f"zookeeper://{servers}{self.path}{options}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveAddress:
    """A table's lock in a Hive Metastore, which need not have the table.

    Attributes:
        servers: `HOST:PORT` each; the first that answers is asked.
        database: The table's database.
        table: Its name.
        heartbeat_s: How often a holder says that it lives.
        timeout_s: How long to wait for a connection, and for one answer.
        polling: How often to look while another has it.
    """

    servers: tuple[str, ...]
    database: str
    table: str
    heartbeat_s: float = 60.0
    timeout_s: float = 15.0
    polling: Polling = _SERVER_POLLING

    def __post_init__(self) -> None:
        _check_servers(self.servers)
        for name in (self.database, self.table):
            if _HIVE_NAME.fullmatch(name) is None:
                raise errors.InvalidInputError(f"{name!r} is not a name of a database or table")
        _check_seconds("a heartbeat cannot be sent every", self.heartbeat_s)
        _check_seconds("a metastore cannot answer within", self.timeout_s)

    def __str__(self) -> str:
        usual = HiveAddress(servers=self.servers, database=self.database, table=self.table)
        options: dict[str, Option] = {
            "heartbeat-s": _unless(self.heartbeat_s, usual.heartbeat_s),
            "timeout-s": _unless(self.timeout_s, usual.timeout_s),
        }
        query = _query(options | _polling(self.polling, usual.polling))
        return f"hive://{','.join(self.servers)}/{self.database}/{self.table}{query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomAddress:
    """A lock of a user's own.

    Attributes:
        name: Of the entry point.
        text: For it to read.
    """

    name: str
    text: str = ""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise errors.InvalidInputError(f"{self.name!r} is not a name of a lock provider")

    def __str__(self) -> str:
        return f"custom://{self.name}" + (f"/{self.text}" if self.text else "")


LockAddress = (
    InProcessAddress
    | FileSystemAddress
    | StorageAddress
    | DynamoDbAddress
    | ZooKeeperAddress
    | HiveAddress
    | CustomAddress
)


def session_s(address: LockAddress) -> float:
    """Return the silence after which others may have a holder's lock; 0 for none."""
    match address:
        case ZooKeeperAddress():
            return address.session_timeout_s
        case StorageAddress():
            return address.validity_s
        case DynamoDbAddress():
            return address.lease_s
        case HiveAddress():
            return _HIVE_SILENCE_S
        case InProcessAddress() | FileSystemAddress() | CustomAddress():
            return 0.0


def implicit_path(base_path: str) -> str:
    """Return the path of the ZooKeeper lock that Apache Hudi makes of a table's base path.

    The text counts as it is: a trailing slash or another scheme makes another lock.
    """
    return f"/tmp/{implicit_key(base_path)}/{_IMPLICIT_KEY}"  # noqa: S108 - no file


def implicit_key(base_path: str) -> str:
    """Return the hash of a table's base path that Apache Hudi names implicit locks by."""
    text = f"s3:{base_path[4:]}" if base_path.startswith("s3a:") else base_path
    return f"{java_hash.xxhash64(text.encode()):016X}"


def _check_servers(servers: tuple[str, ...]) -> None:
    for server in servers or ("",):
        port = server.rpartition(":")[2]
        if SERVER.fullmatch(server) is None or not 0 < int(port) <= _PORT_MAX:
            shown = re.sub(r".*@", "***@", server)
            raise errors.InvalidInputError(f"{shown!r} is not a lock server: expected HOST:PORT")


def _check_path(path: str) -> None:
    if (
        not path.startswith("/")
        or any(part in {"", ".", ".."} for part in path[1:].split("/"))
        or not path.isprintable()
        or "?" in path
        or path.startswith("/zookeeper/")
    ):
        raise errors.InvalidInputError(f"{path!r} is not a path of a lock in ZooKeeper")


def _check_lease(lease_s: float, renew_interval_s: float) -> None:
    _check_seconds("a lease cannot be renewed every", renew_interval_s)
    if not lease_s >= _RENEWALS_MIN * renew_interval_s:
        raise errors.InvalidInputError(
            f"a lease of {lease_s:g} s cannot be renewed every {renew_interval_s:g} s: "
            "expected at least two renewals within the lease"
        )


def _check_seconds(complaint: str, seconds: float) -> None:
    if not seconds > 0:
        raise errors.InvalidInputError(f"{complaint} {seconds} s")


Option = str | float | None


def _query(options: Mapping[str, Option]) -> str:
    given = {
        name: value if isinstance(value, str) else f"{value:g}"
        for name, value in options.items()
        if value is not None
    }
    return f"?{urllib.parse.urlencode(given, safe='/:')}" if given else ""


def _polling(polling: Polling, usual: Polling) -> dict[str, Option]:
    return {
        "retry-wait-s": _unless(polling.first_s, usual.first_s),
        "retry-wait-max-s": _unless(polling.longest_s, usual.longest_s),
        "retries": polling.retries_max,
    }


def _unless(value: float, usual: float) -> float | None:
    return None if value == usual else value
