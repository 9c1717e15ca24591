"""Addresses of hosts that tenants name: looked up once, and connected to as they were found.

A look-up may hang for as long as a name server likes, and cannot be ended: each namespace has some
at a time, so that others' names are found beside them. A name that leads to an address that the
operator does not connect to is refused; and since the address is what is connected to, it cannot be
another one by then.
"""

import functools
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from hoodie import errors
from hoodie_operator.cluster import turns
from hoodie_operator.reconcile import allowances

_THREADS_MAX: Final = 512
_OF_NAMESPACE_MAX: Final = 32
_AT_ONCE_MAX: Final = 4
_ANSWER_S: Final = 3.0
_ADDRESSES_MAX: Final = 4


class RefusedError(errors.ConfigurationError):
    """A host is at an address that the operator does not connect to."""


class Names:
    """Looks up hosts."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        """Look up nothing yet.

        Args:
            allowed: Hosts and addresses that may be connected to, as in the configuration.
        """
        self._allowed = allowed
        self._threads = turns.Threads(
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
            RefusedError: One of them is none to connect to.
            StorageError: There are none to be had now.
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
