"""DNS resolution of hosts that tenants name.

A lookup can hang for as long as a name server likes, and cannot be cancelled. Each namespace has a
limited number of lookups at a time, so that it cannot block the lookups of other namespaces. A name
that resolves to a refused address is refused. The caller connects to the returned address, not to
the name, so that a second resolution cannot return another address (DNS rebinding).
"""

import functools
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from hoodie import errors
from hoodie_operator.cluster.control import concurrency_limits
from hoodie_operator.reconcile import allowances

_THREADS_MAX: Final = 512
_OF_NAMESPACE_MAX: Final = 32
_AT_ONCE_MAX: Final = 4
_ANSWER_S: Final = 3.0
_ADDRESSES_MAX: Final = 4


class RefusedError(errors.ConfigurationError):
    """A host resolves to an address that the operator does not connect to."""


class Names:
    """Resolves hosts."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        """Start no lookup.

        Args:
            allowed: Addresses that are exempt from the refusal, as in `lockServers.allowed`.
        """
        self._allowed = allowed
        self._threads = concurrency_limits.BoundedThreadPool(
            "names",
            in_all=_THREADS_MAX,
            of_share=_OF_NAMESPACE_MAX,
            at_once=_AT_ONCE_MAX,
            limit_s=_ANSWER_S,
        )

    async def addresses(self, namespace: str, server: str) -> tuple[str, ...]:
        """Return the addresses of a server, as `address:port`.

        Args:
            namespace: On whose behalf.
            server: Its `host:port`.

        Raises:
            RefusedError: The operator does not connect to one of them.
            StorageError: The host does not resolve now.
        """
        host, _, port = server.rpartition(":")
        addresses = [host] if _is_address(host) else await self._looked_up(namespace, host)
        for address in addresses:
            refused = allowances.refused_address(address.partition("%")[0], self._allowed)
            if refused is not None:
                raise RefusedError(f"{server} {refused}")
        return tuple(f"[{each}]:{port}" if ":" in each else f"{each}:{port}" for each in addresses)

    async def _looked_up(self, namespace: str, host: str) -> list[str]:
        look_up = functools.partial(socket.getaddrinfo, host, None, 0, socket.SOCK_STREAM)
        try:
            found = await self._threads.call(namespace, host, look_up)
        except TimeoutError as error:
            raise errors.StorageError(f"{host} was not looked up in time") from error
        except (OSError, UnicodeError) as error:
            raise errors.StorageError(f"{host} has no address") from error
        return list(dict.fromkeys(str(each[4][0]) for each in found))[:_ADDRESSES_MAX]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
