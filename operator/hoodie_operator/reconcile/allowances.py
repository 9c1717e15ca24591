"""What the operator's configuration lets objects name: Secrets, claims, variables, hosts.

Who declares tables has pods made that take what is named, and has the operator connect to hosts,
with or without a right to any of it. So nothing is taken that the configuration of the operator
does not name, by a name or by a pattern with `*`.
"""

import contextlib
import fnmatch
import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

REFUSED_ADDRESS: Final = "is an address that the operator does not connect to"

_LOCAL_NAMES: Final = ("localhost", ".localhost")


def others(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that no pattern allows."""
    return [
        name
        for name in names
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def refused_host(server: str, patterns: Sequence[str]) -> str | None:
    """Return why nobody connects to a lock server, by its `host:port`; None where he may."""
    host = host_of(server)
    if others((host,), patterns):
        return "is none of the hosts that the operator's configuration allows as lock servers"
    return refused_address(host, patterns)


def refused_address(host: str, patterns: Sequence[str]) -> str | None:
    """Return why nobody connects to an address; None where he may, and of a name.

    What answers only on the operator's own machine answers it with more trust than others. Whoever
    configures the operator may name such an address itself; a pattern does not reach it.
    """
    is_local = host == _LOCAL_NAMES[0] or host.endswith(_LOCAL_NAMES[1])
    with contextlib.suppress(ValueError):  # It is a name.
        is_local = is_local or _is_special(ipaddress.ip_address(host))
    if is_local and host not in patterns:
        return REFUSED_ADDRESS
    return None


def host_of(server: str) -> str:
    """Return the host of a `host:port`."""
    return server.rpartition(":")[0].strip("[]").lower()


def _is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
    )
