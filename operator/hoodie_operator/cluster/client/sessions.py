"""Sessions of aiohttp whose every request has good credentials, for Kopf.

Kopf renews credentials by closing its session, and a watch that is just being begun in it fails for
good. So it gets a session that it never has to renew: credentials are added to each request, and
those that are refused are replaced before Kopf sees it.
"""

import asyncio
import contextlib
import http
import socket
import ssl
import weakref
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp
from kubernetes.aio import client

from hoodie import errors
from hoodie_operator.cluster.client import logins

_HEADER: Final = "Authorization"
_END_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A connection, and what its requests are authorized by at this moment.

    Attributes:
        connection: The connection.
        authorization: The header; empty if there is none.
    """

    connection: logins.Connection
    authorization: str


class Ask(Protocol):
    """Returns credentials; may be asked in any event loop."""

    def __call__(self, refused: logins.Connection | None = None) -> Awaitable[Credentials]:
        """Return credentials; see `logins.Login`."""
        ...


async def credentials(login: logins.Login, refused: logins.Connection | None = None) -> Credentials:
    """Return the credentials of a login; see there."""
    connection = await login(refused)
    return Credentials(
        connection=connection, authorization=await logins.authorization(connection.configuration)
    )


async def open_session(ask: Ask) -> tuple[str, aiohttp.ClientSession]:
    """Return the URL of the API server, and a session for it, of the event loop that runs.

    Its TLS is that of now: a client certificate is not replaced.

    Raises:
        InvalidInputError: There is no way to the API server.
    """
    configuration = (await ask()).connection.configuration
    session = aiohttp.ClientSession(
        connector=_Connector(client.ApiClient(configuration).rest_client.ssl_context),
        middlewares=(_authorizing(ask, configuration.tls_server_name),),
        proxy=configuration.proxy,
        trust_env=True,
    )
    return configuration.host, session


class _Connector(aiohttp.TCPConnector):
    """Leaves no connection open when it is closed.

    A watch that ends says so to the server, by TLS, and its connection waits for the answer. The
    event loop of a Kopf that ends does not wait for that, and would leave it open.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        super().__init__(limit=0, ssl=context, socket_factory=self._socket)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        # Their transports close them as soon as they see that.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                while any(each.fileno() >= 0 for each in self._sockets):  # noqa: ASYNC110 - sockets announce nothing
                    await asyncio.sleep(0)


def _authorizing(ask: Ask, tls_server_name: str | None) -> aiohttp.ClientMiddlewareType:
    async def send(
        request: aiohttp.ClientRequest, handle: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        request.server_hostname = tls_server_name
        used = await _authorize(request, ask)
        response = await handle(request)
        if response.status == http.HTTPStatus.UNAUTHORIZED:
            response.release()
            await _authorize(request, ask, used.connection)
            response = await handle(request)
        return response

    return send


async def _authorize(
    request: aiohttp.ClientRequest, ask: Ask, refused: logins.Connection | None = None
) -> Credentials:
    try:
        found = await ask(refused)
    except errors.InvalidInputError as error:
        # Kopf tries again after this one.
        raise aiohttp.ClientConnectionError(str(error)) from error
    if found.authorization:
        request.headers[_HEADER] = found.authorization
    return found
