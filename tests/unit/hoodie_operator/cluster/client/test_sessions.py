"""Sessions whose credentials are renewed behind the back of who uses them."""

import asyncio
import functools
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from kubernetes.aio import client as kubernetes

from hoodie import errors
from hoodie_operator.cluster.client import api, logins, sessions
from support.kube import credentials
from support.operators.api_server import Served
from support.servers import http_server


class Server(Served):
    """Answers by a status after the other, and remembers the tokens that it was shown."""

    def __init__(self, *statuses: int) -> None:
        self._statuses: Iterator[int] = iter(statuses)
        self.tokens: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.tokens.append(request.headers["Authorization"].removeprefix("Bearer "))
        return web.Response(status=next(self._statuses), text="answer")


async def _get(login: logins.Login, times: int = 1) -> list[int]:
    server, session = await sessions.open_session(functools.partial(sessions.credentials, login))
    async with session:
        found = []
        for _ in range(times):
            async with session.get(f"{server}/path") as answer:
                assert await answer.text() == "answer"
                found.append(answer.status)
        return found


def test_refused_credentials_are_replaced_before_the_user_sees_it() -> None:
    server = Server(200, 401, 200, 200)
    assert server.use(lambda client: _get(client.login, 3)) == [200, 200, 200]
    assert server.tokens == ["token-1", "token-1", "token-2", "token-2"]


def test_refusal_of_what_was_just_renewed_is_passed_on() -> None:
    server = Server(401, 401)
    assert server.use(lambda client: _get(client.login)) == [401]
    assert server.tokens == ["token-1", "token-2"]


def test_login_that_fails_is_as_a_connection_that_does() -> None:
    async def ask(client: api.Api) -> None:
        given: list[logins.Connection] = []

        async def login(refused: logins.Connection | None = None) -> logins.Connection:
            if given:
                raise errors.InvalidInputError("the kubeconfig is gone")
            given.append(await client.login(refused))
            return given[0]

        with pytest.raises(aiohttp.ClientConnectionError, match="the kubeconfig is gone"):
            await _get(login)

    Server().use(ask)


@pytest.mark.parametrize("name", ["kubernetes", None])
def test_server_is_known_by_the_name_that_is_configured(tmp_path: Path, name: str | None) -> None:
    files = credentials.make(tmp_path / "server", ["192.0.2.1"])

    async def ask() -> list[int]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.server, files.server_key)
        async with http_server.serving(web.get("/path", _answer), context=context) as url:
            configuration = kubernetes.Configuration(
                host=url, ssl_ca_cert=str(files.ca), tls_server_name=name
            )
            connection = logins.Connection(configuration=configuration)

            async def login(refused: logins.Connection | None = None) -> logins.Connection:
                assert refused is None
                return connection

            return await _get(login)

    if name is None:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            asyncio.run(ask())
    else:
        assert asyncio.run(ask()) == [200]


def test_no_connection_is_left_open_though_the_server_never_says_goodbye(tmp_path: Path) -> None:
    files = credentials.make(tmp_path / "server", ["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    listener = socket.create_server(("127.0.0.1", 0))
    served: list[ssl.SSLSocket] = []

    def serve() -> None:
        """Begin an answer, and hear nothing more."""
        accepted, _ = listener.accept()
        served.append(context.wrap_socket(accepted, server_side=True))
        served[0].recv(4096)
        served[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    async def watch() -> None:
        configuration = kubernetes.Configuration(
            host=f"https://127.0.0.1:{listener.getsockname()[1]}", ssl_ca_cert=str(files.ca)
        )
        connection = logins.Connection(configuration=configuration)

        async def ask(refused: logins.Connection | None = None) -> sessions.Credentials:
            del refused
            return sessions.Credentials(connection=connection, authorization="")

        url, session = await sessions.open_session(ask)
        response = await session.get(url)
        # As Kopf ends a watch.
        response.close()
        await session.close()

    serving = threading.Thread(target=serve)
    serving.start()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(watch())
        gc.collect()
    serving.join()
    served[0].close()
    listener.close()
    assert [str(each.message) for each in told] == []


async def _answer(request: web.Request) -> web.Response:
    del request
    return web.Response(text="answer")
