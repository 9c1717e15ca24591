"""What the operator's configuration lets objects name: Secrets, claims, variables, hosts.

Who declares tables has pods made that take what is named, and has the operator connect to hosts,
with or without a right to any of it. So nothing is taken that the configuration of the operator
does not name, by a name or by a pattern with `*`.
"""

import contextlib
import fnmatch
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hoodie_operator.api import configuration, hudi_table

_OWN_SECRETS: Final = ("hudi-observer-*", "hudi-lock-*")
"""By these the operator and what it has started know each other: they are nobody's to take."""

REFUSED_ADDRESS: Final = "is an address that the operator does not connect to"

_LOCAL_NAMES: Final = ("localhost", ".localhost")


def refused_storage(storage: hudi_table.Storage, allowed: configuration.Allowed) -> str | None:
    """Return what of a storage is not allowed, and by which key; None where all of it is."""
    secrets = list(storage.secrets or ())
    refused = [name for name in secrets if name not in others(secrets, _OWN_SECRETS)]
    if refused:
        return f"storage.secrets has {', '.join(refused)}, which is the operator's own"
    claims = [volume.persistent_volume_claim for volume in storage.volumes or ()]
    for field, names, patterns, key in (
        ("storage.secrets", secrets, allowed.secrets, "secrets"),
        ("storage.volumes", claims, allowed.claims, "claims"),
    ):
        if found := others(names, patterns):
            return _refusal(field, found, key, patterns)
    return refused_variables("storage.env", storage.env, allowed)


def refused_variables(
    field: str, variables: Mapping[str, str] | None, allowed: configuration.Allowed
) -> str | None:
    """Return which environment variables are not allowed; None where all of them are."""
    found = others(variables or (), allowed.variables)
    return _refusal(field, found, "variables", allowed.variables) if found else None


def _refusal(field: str, found: Sequence[str], key: str, patterns: Sequence[str]) -> str:
    return (
        f"{field} has {', '.join(found)}, expected what allowed.{key} of the operator's "
        f"configuration names: {', '.join(patterns) or 'nothing'}"
    )


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
