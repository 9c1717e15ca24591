"""Which lock a table has: values that can be written, configured, pickled and sent to a job.

As text, where what is in brackets may be left out:

    in-process
    filesystem[?directory=PATH&expiry-s=SECONDS]
    zookeeper://HOST:PORT[,HOST:PORT]/BASE/KEY[?session-timeout-s=S&connection-timeout-s=S]
    zookeeper-implicit://HOST:PORT[,HOST:PORT][?...]

and from Apache Hudi's own keys, `hoodie.write.lock.*`, so that one configuration serves writers of
both kinds. Source: `LockConfiguration.java`, `ZookeeperBasedImplicitBasePathLockProvider.java`.
"""

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import java_hash

_SERVER = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_DEFAULT_PORT = 2181
_PORT_MAX = 65_535
_IMPLICIT_KEY = "lock_key"
_EXPLICIT_PARTS_MIN = 2


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
    """

    directory: str | None = None
    expiry_s: float | None = None

    def __post_init__(self) -> None:
        if self.expiry_s is not None and not self.expiry_s > 0:
            raise errors.InvalidInputError(f"a lock cannot expire after {self.expiry_s} s")

    def __str__(self) -> str:
        return "filesystem" + _query({"directory": self.directory, "expiry-s": self.expiry_s})


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
        for server in self.servers or ("",):
            port = server.rpartition(":")[2]
            if _SERVER.fullmatch(server) is None or not 0 < int(port) <= _PORT_MAX:
                shown = re.sub(r".*@", "***@", server)
                raise errors.InvalidInputError(f"{shown!r} is no lock server: expected HOST:PORT")
        if self.path is not None:
            _check_path(self.path)
        for name, seconds in (
            ("session", self.session_timeout_s),
            ("connection", self.connection_timeout_s),
        ):
            if not seconds > 0:
                raise errors.InvalidInputError(f"a {name} cannot time out after {seconds} s")

    def __str__(self) -> str:
        default = ZooKeeperAddress(servers=self.servers, path=None)
        options = _query(
            {
                name: seconds if seconds != usual else None
                for name, seconds, usual in (
                    ("session-timeout-s", self.session_timeout_s, default.session_timeout_s),
                    (
                        "connection-timeout-s",
                        self.connection_timeout_s,
                        default.connection_timeout_s,
                    ),
                )
            }
        )
        servers = ",".join(self.servers)
        if self.path is None:
            return f"zookeeper-implicit://{servers}{options}"
        return f"zookeeper://{servers}{self.path}{options}"


LockAddress = InProcessAddress | FileSystemAddress | ZooKeeperAddress


def implicit_path(base_path: str) -> str:
    """Return the path of the lock that Apache Hudi makes of a table's base path.

    The text counts as it is: a trailing slash or another scheme makes another lock.
    """
    text = f"s3:{base_path[4:]}" if base_path.startswith("s3a:") else base_path
    return f"/tmp/{java_hash.xxhash64(text.encode()):016X}/{_IMPLICIT_KEY}"  # noqa: S108 - no file


def parse(text: str) -> LockAddress:
    """Take a lock's address from its text.

    Raises:
        InvalidInputError: It is none; what might be a credential is not repeated.
    """
    head, _, query = text.partition("?")
    options = _Options(query, head.partition(":")[0])
    match head.partition("://"):
        case ("in-process", "", ""):
            options.finish()
            return InProcessAddress()
        case ("filesystem", "", ""):
            directory, expiry_s = options.text("directory"), options.seconds("expiry-s")
            options.finish()
            return FileSystemAddress(directory=directory, expiry_s=expiry_s)
        case ("zookeeper", "://", rest):
            servers, slash, path = rest.partition("/")
            return _zookeeper(servers, slash + path, options)
        case ("zookeeper-implicit", "://", rest):
            return _zookeeper(rest.removesuffix("/"), None, options)
    shown = re.sub(r"//[^/]*@", "//***@", text)
    raise errors.InvalidInputError(
        f"{shown!r} is no lock: expected in-process, filesystem, "
        "zookeeper://HOST:PORT/BASE/KEY or zookeeper-implicit://HOST:PORT"
    )


def from_hudi(options: Mapping[str, str], *, table_name: str | None = None) -> LockAddress | None:
    """Take a lock's address from Apache Hudi's options; None when they name no provider.

    Args:
        options: Of a writer; only `hoodie.write.lock.*` and `hoodie.base.path` are read.
        table_name: The lock key where none is given, as Apache Hudi has it.

    Raises:
        UnsupportedError: The provider is one that we do not have.
        InvalidInputError: An option is missing or malformed.
    """
    provider = options.get("hoodie.write.lock.provider")
    if provider is None:
        return None
    match provider.rpartition(".")[2]:
        case "InProcessLockProvider":
            return InProcessAddress()
        case "FileSystemBasedLockProvider":
            minutes = _number(options, "hoodie.write.lock.filesystem.expire", 0)
            return FileSystemAddress(
                directory=options.get("hoodie.write.lock.filesystem.path") or None,
                expiry_s=minutes * 60 or None,
            )
        case "ZookeeperBasedLockProvider":
            base = _required(options, "hoodie.write.lock.zookeeper.base_path")
            key = options.get("hoodie.write.lock.zookeeper.lock_key") or table_name
            if not key:
                raise errors.InvalidInputError("hoodie.write.lock.zookeeper.lock_key is not set")
            return _zookeeper_of_hudi(options, f"{base.rstrip('/')}/{key}")
        case "ZookeeperBasedImplicitBasePathLockProvider":
            base_path = options.get("hoodie.base.path")
            return _zookeeper_of_hudi(options, implicit_path(base_path) if base_path else None)
    raise errors.UnsupportedError(
        f"hoodie.write.lock.provider is {provider}: supported are InProcessLockProvider, "
        "FileSystemBasedLockProvider, ZookeeperBasedLockProvider and "
        "ZookeeperBasedImplicitBasePathLockProvider"
    )


def _zookeeper(servers: str, path: str | None, options: "_Options") -> ZooKeeperAddress:
    if path is not None and len(path.split("/")) - 1 < _EXPLICIT_PARTS_MIN:
        raise errors.InvalidInputError(
            f"{path!r} is no lock's path: expected zookeeper://HOST:PORT/BASE/KEY"
        )
    timeouts = {
        name.replace("-", "_"): seconds
        for name in ("session-timeout-s", "connection-timeout-s")
        if (seconds := options.seconds(name)) is not None
    }
    options.finish()
    return ZooKeeperAddress(servers=tuple(servers.split(",")), path=path, **timeouts)


def _zookeeper_of_hudi(options: Mapping[str, str], path: str | None) -> ZooKeeperAddress:
    # The connect string of a client may end in a path that all others are below.
    url = _required(options, "hoodie.write.lock.zookeeper.url")
    hosts, slash, root = url.partition("/")
    port = _number(options, "hoodie.write.lock.zookeeper.port", _DEFAULT_PORT)
    servers = tuple(
        host if _SERVER.fullmatch(host) else f"{host}:{port}" for host in hosts.split(",")
    )
    if root and path is None:
        raise errors.InvalidInputError("an implicit lock path below another needs hoodie.base.path")
    prefix = "zookeeper.session_timeout_ms", "zookeeper.connection_timeout_ms"
    session_ms, connection_ms = (
        _number(options, f"hoodie.write.lock.{name}", usual)
        for name, usual in zip(prefix, (60_000, 15_000), strict=True)
    )
    return ZooKeeperAddress(
        servers=servers,
        path=path if path is None else f"{(slash + root).rstrip('/')}{path}",
        session_timeout_s=session_ms / 1000,
        connection_timeout_s=connection_ms / 1000,
    )


def _check_path(path: str) -> None:
    if (
        not path.startswith("/")
        or any(part in {"", ".", ".."} for part in path[1:].split("/"))
        or not path.isprintable()
        or "?" in path
        or path.startswith("/zookeeper/")
    ):
        raise errors.InvalidInputError(f"{path!r} is no path of a lock in ZooKeeper")


def _required(options: Mapping[str, str], key: str) -> str:
    value = options.get(key)
    if not value:
        raise errors.InvalidInputError(f"{key} is not set")
    return value


def _number(options: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(options.get(key, default))
    except ValueError as error:
        raise errors.InvalidInputError(f"{key} is {options[key]!r}: expected a number") from error


def _query(options: Mapping[str, str | float | None]) -> str:
    given = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in options.items()
        if value is not None
    }
    return f"?{urllib.parse.urlencode(given, safe='/:')}" if given else ""


class _Options:
    """What follows the question mark, each asked for once."""

    def __init__(self, query: str, kind: str) -> None:
        self._kind = kind
        try:
            pairs = urllib.parse.parse_qsl(
                query, keep_blank_values=True, strict_parsing=bool(query)
            )
        except ValueError as error:
            raise errors.InvalidInputError(f"{query!r} is no list of NAME=VALUE") from error
        self._left: dict[str, str] = dict(pairs)

    def text(self, name: str) -> str | None:
        return self._left.pop(name, None)

    def seconds(self, name: str) -> float | None:
        value = self._left.pop(name, None)
        try:
            return None if value is None else float(value)
        except ValueError as error:
            raise errors.InvalidInputError(f"{name} is {value!r}: expected seconds") from error

    def finish(self) -> None:
        if self._left:
            raise errors.InvalidInputError(f"{self._kind} knows no {', '.join(sorted(self._left))}")
