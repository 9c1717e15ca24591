"""Allow-lists of the operator's configuration: Secrets, claims, variables and lock hosts.

A user who may create tables can make pods mount claims and read Secrets, and the operator connect
to hosts, without having those rights. Objects may therefore name only what the configuration
allows, by name or by a pattern with `*`.
"""

import contextlib
import fnmatch
import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hoodie_operator.api import configuration, hudi_table

_OWN_SECRETS: Final = ("hudi-observer-*", "hudi-lock-*")
"""Secrets of the operator itself: no table may name them."""

REFUSED_ADDRESS: Final = "is an address that the operator does not connect to"

_LOCAL_NAMES: Final = ("localhost", ".localhost")


def refused_storage(storage: hudi_table.Storage, allowed: configuration.Allowed) -> str | None:
    """Return which names of a storage are not allowed, or None."""
    secrets = list(storage.secrets or ())
    refused = [name for name in secrets if name not in others(secrets, _OWN_SECRETS)]
    if refused:
        return f"storage.secrets has {', '.join(refused)}, which is reserved for the operator"
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
    """Return which environment variables are not allowed, or None."""
    found = others(variables or (), allowed.variables)
    return _refusal(field, found, "variables", allowed.variables) if found else None


def _refusal(field: str, found: Sequence[str], key: str, patterns: Sequence[str]) -> str:
    return (
        f"{field} has {', '.join(found)}, expected names that allowed.{key} of the operator's "
        f"configuration lists: {', '.join(patterns) or 'none'}"
    )


def others(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match no pattern."""
    return [
        name
        for name in names
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]


def refused_host(server: str, patterns: Sequence[str]) -> str | None:
    """Return why the operator does not connect to a `host:port`, or None."""
    host = host_of(server)
    if others((host,), patterns):
        return "is not a lock host that the operator's configuration allows"
    return refused_address(host, patterns)


def refused_address(host: str, patterns: Sequence[str]) -> str | None:
    """Return why the operator does not connect to an address; None for a name.

    Services on loopback and link-local addresses trust local clients. The configuration can allow
    such an address by its exact text, not by a pattern.
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
