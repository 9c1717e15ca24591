"""Addresses of locks as text, where what is in brackets may be left out.

    in-process
    filesystem[?directory=PATH&expiry-s=SECONDS]
    storage[?validity-s=S&renew-interval-s=S]
    dynamodb://REGION/TABLE[/KEY][?endpoint=URL&lease-s=S&read-capacity=N&write-capacity=N]
    zookeeper://HOST:PORT[,HOST:PORT]/BASE/KEY[?session-timeout-s=S&connection-timeout-s=S]
    zookeeper-implicit://HOST:PORT[,HOST:PORT][?...]
    hive://HOST:PORT[,HOST:PORT]/DATABASE/TABLE[?heartbeat-s=S&timeout-s=S]
    custom://NAME[/TEXT]

A lock that must be looked at again and again also takes
`retry-wait-s=S&retry-wait-max-s=S&retries=COUNT`.
"""

import re
import urllib.parse

from hoodie import errors
from hoodie.transaction.locks import addresses, polling

_FORMS = (
    "in-process",
    "filesystem",
    "storage",
    "dynamodb://REGION/TABLE",
    "zookeeper://HOST:PORT/BASE/KEY",
    "zookeeper-implicit://HOST:PORT",
    "hive://HOST:PORT/DATABASE/TABLE",
    "custom://NAME/TEXT",
)
_CUSTOM = "custom://"
_EXPLICIT_PARTS_MIN = 2


def forms_text() -> str:
    """Return the forms of an address, without what may be left out."""
    return f"{', '.join(_FORMS[:-1])} or {_FORMS[-1]}"


def parse(text: str) -> addresses.LockAddress:
    """Take a lock's address from its text.

    Raises:
        InvalidInputError: It is none; what might be a credential is not repeated.
    """
    if text.startswith(_CUSTOM):
        name, _, rest = text.removeprefix(_CUSTOM).partition("/")
        return addresses.CustomAddress(name=name, text=rest)
    head, _, query = text.partition("?")
    kind, slashes, rest = head.partition("://")
    options = _Options(query, kind)
    match kind, slashes:
        case "in-process", "":
            address: addresses.LockAddress = addresses.InProcessAddress()
        case "filesystem", "":
            address = addresses.FileSystemAddress(
                directory=options.text("directory"),
                expiry_s=options.seconds("expiry-s"),
                polling=options.polling(addresses.FileSystemAddress().polling),
            )
        case "storage", "":
            address = addresses.StorageAddress(
                polling=options.polling(addresses.StorageAddress().polling),
                **options.all_seconds("validity_s", "renew_interval_s"),
            )
        case "dynamodb", "://":
            address = _dynamodb(rest, options)
        case "zookeeper", "://":
            servers, slash, path = rest.partition("/")
            address = _zookeeper(servers, slash + path, options)
        case "zookeeper-implicit", "://":
            address = _zookeeper(rest.removesuffix("/"), None, options)
        case "hive", "://":
            address = _hive(rest, options)
        case _:
            shown = re.sub(r"//[^/]*@", "//***@", text)
            raise errors.InvalidInputError(f"{shown!r} is not a lock: expected {forms_text()}")
    options.finish()
    return address


def _dynamodb(place: str, options: "_Options") -> addresses.DynamoDbAddress:
    region, _, rest = place.partition("/")
    table, slash, key = rest.partition("/")
    usual = addresses.DynamoDbAddress(region="any", table="any", key=None)
    read, write = options.count("read-capacity"), options.count("write-capacity")
    if (read is None) != (write is None):
        raise errors.InvalidInputError(
            "expected both of read-capacity and write-capacity, or neither"
        )
    return addresses.DynamoDbAddress(
        region=region,
        table=table,
        key=urllib.parse.unquote(key) if slash else None,
        endpoint=options.text("endpoint"),
        capacity=None if read is None or write is None else (read, write),
        polling=options.polling(usual.polling),
        **options.all_seconds("lease_s"),
    )


def _zookeeper(servers: str, path: str | None, options: "_Options") -> addresses.ZooKeeperAddress:
    if path is not None and len(path.split("/")) - 1 < _EXPLICIT_PARTS_MIN:
        raise errors.InvalidInputError(
            f"{path!r} is not a lock path: expected zookeeper://HOST:PORT/BASE/KEY"
        )
    return addresses.ZooKeeperAddress(
        servers=tuple(servers.split(",")),
        path=path,
        **options.all_seconds("session_timeout_s", "connection_timeout_s"),
    )


def _hive(place: str, options: "_Options") -> addresses.HiveAddress:
    servers, _, name = place.partition("/")
    database, _, table = name.partition("/")
    usual = addresses.HiveAddress(servers=("any:1",), database="any", table="any")
    return addresses.HiveAddress(
        servers=tuple(servers.split(",")),
        database=database,
        table=table,
        polling=options.polling(usual.polling),
        **options.all_seconds("heartbeat_s", "timeout_s"),
    )


class _Options:
    """What follows the question mark, each asked for once."""

    def __init__(self, query: str, kind: str) -> None:
        self._kind = kind
        try:
            pairs = urllib.parse.parse_qsl(
                query, keep_blank_values=True, strict_parsing=bool(query)
            )
        except ValueError as error:
            raise errors.InvalidInputError(f"{query!r} is not a list of NAME=VALUE") from error
        self._left: dict[str, str] = dict(pairs)

    def text(self, name: str) -> str | None:
        return self._left.pop(name, None)

    def seconds(self, name: str) -> float | None:
        value = self._left.pop(name, None)
        try:
            return None if value is None else float(value)
        except ValueError as error:
            raise errors.InvalidInputError(f"{name} is {value!r}: expected seconds") from error

    def all_seconds(self, *fields: str) -> dict[str, float]:
        """Return the fields that are given, by the options of their names."""
        given = {field: self.seconds(field.replace("_", "-")) for field in fields}
        return {field: seconds for field, seconds in given.items() if seconds is not None}

    def count(self, name: str) -> int | None:
        value = self._left.pop(name, None)
        if value is not None and not value.isdecimal():
            raise errors.InvalidInputError(f"{name} is {value!r}: expected a whole number")
        return None if value is None else int(value)

    def polling(self, usual: polling.Polling) -> polling.Polling:
        first_s, longest_s = self.seconds("retry-wait-s"), self.seconds("retry-wait-max-s")
        return polling.Polling(
            first_s=usual.first_s if first_s is None else first_s,
            longest_s=usual.longest_s if longest_s is None else longest_s,
            retries_max=self.count("retries"),
        )

    def finish(self) -> None:
        if self._left:
            raise errors.InvalidInputError(
                f"{self._kind} has no setting {', '.join(sorted(self._left))}"
            )
