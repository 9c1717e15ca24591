"""HTTP with what belongs to tenants: observers and runs, whose answers are not to be trusted.

What is read is counted before it is kept: no answer is longer than it may be, none is unpacked, no
cookie is remembered, no redirect followed. One namespace has some questions open at a time, one
long answer among them, and all namespaces together have few long ones: what one tenant sends takes
neither the memory nor the connections of others.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
from aiohttp import abc

from hoodie import errors
from hoodie_operator.cluster import names, turns
from hoodie_operator.observing import dialogue

_CHUNK_BYTES: Final = 64 << 10
_SHORT_BYTES: Final = 64 << 10
_LONG_S: Final = 10.0
_LONG_MAX: Final = 4
_AT_ONCE_MAX: Final = 32


class Answers:
    """Reads answers, a bounded number of them at a time."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._open = turns.Turns(_AT_ONCE_MAX)
        self._long = turns.Turns(1)
        self._long_in_all = asyncio.Semaphore(_LONG_MAX)

    def turn(self, namespace: str) -> asyncio.Semaphore:
        """Return what to hold while a question to a namespace is open."""
        return self._open.at(namespace)

    async def read(self, answer: aiohttp.ClientResponse, namespace: str) -> bytes:
        """Return a whole answer.

        Raises:
            StorageError: It is longer than one may be, or takes too long.
        """
        content = bytearray()
        values = 0
        async with contextlib.AsyncExitStack() as held:
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                is_long = len(content) > _SHORT_BYTES
                content += chunk
                values += dialogue.count_values(chunk)
                if len(content) > dialogue.BODY_BYTES_MAX or values > dialogue.VALUES_MAX:
                    raise errors.StorageError(
                        f"its answer is too long, expected {dialogue.BODY_BYTES_MAX} bytes and "
                        f"{dialogue.VALUES_MAX} values at most"
                    )
                if len(content) > _SHORT_BYTES and not is_long:
                    await held.enter_async_context(self._turn_for_long(namespace))
        return bytes(content)

    @contextlib.asynccontextmanager
    async def _turn_for_long(self, namespace: str) -> AsyncIterator[None]:
        async with self._long.at(namespace), self._long_in_all, asyncio.timeout(_LONG_S):
            yield


def session(found: names.Names, limit_s: float | None = None) -> aiohttp.ClientSession:
    """Return what asks: directly, and keeping nothing of what is answered.

    Args:
        found: Looks up hosts.
        limit_s: For one question, where none is told with it.
    """
    return aiohttp.ClientSession(
        # How many questions are open is bounded by namespace: no tenant takes the places of others.
        connector=aiohttp.TCPConnector(limit=0, resolver=_Resolver(found)),
        timeout=aiohttp.ClientTimeout(total=limit_s),
        # Within the cluster: no proxy has anything to do with it.
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
    )


class _Resolver(abc.AbstractResolver):
    """Looks up Services as the hosts that tenants name: who may edit one says where it leads."""

    def __init__(self, found: names.Names) -> None:
        self._names = found

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[abc.ResolveResult]:
        """Return the addresses of `name.namespace.svc`.

        Raises:
            OSError: There are none to be had, or none to connect to.
        """
        del family
        namespace = host.split(".")[1] if "." in host else ""
        try:
            addresses = await self._names.addresses(namespace, f"{host}:{port}")
        except errors.HoodieError as error:
            raise socket.gaierror(socket.EAI_FAIL, str(error)) from error
        return [
            abc.ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in (each.rpartition(":")[0].strip("[]") for each in addresses)
        ]

    async def close(self) -> None:
        """Keep nothing."""
