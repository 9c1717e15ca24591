"""HTTP client for pods of tenants: observers and runs, whose responses are not trusted.

Each chunk of a response is counted before it is kept. Responses are limited in bytes and in JSON
values, are not decompressed, and set no cookies. The number of open requests is limited by
namespace, and so is the number of large responses that are read at the same time, so that a tenant
cannot use up the memory or the connections that other tenants need.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Final

import aiohttp
from aiohttp import abc

from hoodie import errors
from hoodie_operator.cluster.adapters import names
from hoodie_operator.cluster.control import concurrency_limits
from hoodie_operator.observing import dialogue

_CHUNK_BYTES: Final = 64 << 10
_SHORT_BYTES: Final = 64 << 10
_LONG_S: Final = 10.0
_LONG_MAX: Final = 4
_AT_ONCE_MAX: Final = 32


class Answers:
    """Reads responses, with limits by namespace."""

    def __init__(self) -> None:
        """Start with all limits free."""
        self._open = concurrency_limits.KeyedSemaphore(_AT_ONCE_MAX)
        self._long = concurrency_limits.KeyedSemaphore(1)
        self._long_in_all = asyncio.Semaphore(_LONG_MAX)

    def turn(self, namespace: str) -> asyncio.Semaphore:
        """Return the semaphore to hold while a request to a namespace is open."""
        return self._open.at(namespace)

    async def read(self, answer: aiohttp.ClientResponse, namespace: str) -> bytes:
        """Return the whole body of a response.

        Raises:
            StorageError: It exceeds a limit.
            TimeoutError: A large one takes too long.
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
    """Return a session without proxies, cookies and decompression.

    Args:
        found: Resolves hosts.
        limit_s: Default timeout of a request.
    """
    return aiohttp.ClientSession(
        # The number of open requests is limited by namespace instead (`Answers.turn`).
        connector=aiohttp.TCPConnector(limit=0, resolver=_Resolver(found)),
        timeout=aiohttp.ClientTimeout(total=limit_s),
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
    )


class _Resolver(abc.AbstractResolver):
    """Resolves Services by `Names`: an edited Service can lead to any host."""

    def __init__(self, found: names.Names) -> None:
        self._names = found

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[abc.ResolveResult]:
        """Return the addresses of `name.namespace.svc`.

        Raises:
            OSError: It does not resolve, or to a refused address.
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
        """Do nothing: there is no cache."""
