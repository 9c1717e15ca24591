"""Connections as kubeconfigs describe them: programs and providers that give credentials included.

Against a real API server: tests/cluster/test_logins_on_server.py.
"""

import asyncio
import base64
import datetime
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes.aio.config import incluster_config

from hoodie import errors
from hoodie_operator import __main__ as program
from hoodie_operator.api import resources
from hoodie_operator.cluster.client import api, api_errors, logins
from support.kube import credentials
from support.operators.api_server import FAST, ApiServer
from support.servers import http_server

TOKEN = {"token": "secret-token"}
EXEC_VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def _of(user: dict[str, Any], **cluster: object) -> dict[str, Any]:
    """Return a kubeconfig of one user and one cluster."""
    return {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


def _tell(kubeconfig: Path, content: dict[str, Any]) -> None:
    kubeconfig.write_text(json.dumps(content))


def _authorization(login: logins.Login) -> str:
    async def ask() -> str:
        return await logins.authorization((await login()).configuration)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("user", "header"),
    [
        (TOKEN, "Bearer secret-token"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
    ],
)
def test_kubeconfig_is_a_way(kubeconfig: Path, user: dict[str, Any], header: str) -> None:
    kubeconfig.write_text(json.dumps(_of(user)))
    login = logins.Logins()
    assert asyncio.run(login()).configuration.host == "https://api:6443"
    assert _authorization(login) == header


def test_token_in_a_file_may_end_with_a_newline(kubeconfig: Path) -> None:
    kubeconfig.with_name("token").write_text("secret-token\n")
    kubeconfig.write_text(json.dumps(_of({"tokenFile": "token"})))
    assert _authorization(logins.Logins()) == "Bearer secret-token"


def test_proxy_on_this_machine_needs_no_credentials(kubeconfig: Path) -> None:
    kubeconfig.write_text(json.dumps(_of({}, server="http://127.0.0.1:8001")))
    assert asyncio.run(logins.Logins()()).configuration.host == "http://127.0.0.1:8001"


def _without(*path: str) -> dict[str, Any]:
    """Return a kubeconfig that lacks something."""
    found = _of(TOKEN)
    for key in path:
        del found[key]
    return found


def _exec(command: str, **more: object) -> dict[str, Any]:
    """Return a user whose credentials a program gives."""
    return {"exec": {"apiVersion": EXEC_VERSION, "command": command, **more}}


def _malformed() -> dict[str, Any]:
    """Return a kubeconfig of an OpenID Connect provider of which little is said."""
    provider = {"name": "oidc", "config": {"refresh-token": "secret-token"}}
    return _of({"auth-provider": provider})


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file"),
        ("{", "expected the node content"),
        ("[1, 2]", "kubeconfig cannot be used: it lacks"),
        (json.dumps(_without("current-context")), "Expected key current-context"),
        (json.dumps(_without("users")), "kubeconfig cannot be used: it lacks"),
        (json.dumps(_of({})), "no credentials for https://api:6443"),
        (json.dumps(_of({"exec": {"command": "aws"}})), "missing key 'apiVersion'"),
        (json.dumps(_of(_exec("/nowhere/aws"))), "no credentials for https://api.*No such file"),
        (json.dumps(_of(_exec("false"))), "no credentials for https://api.*returned 1"),
        (json.dumps(_of(_exec("true"))), "failed to decode"),
        (json.dumps(_of(_exec("true", env=[{"value": "secret-token"}]))), "Expected key name"),
        (json.dumps(_malformed()), "Expected key client-id"),
        (json.dumps(_of({"auth-provider": {"name": "oidc"}})), "oidc: missing configuration"),
        (json.dumps(_of(TOKEN, **{"certificate-authority-data": "eHl6"})), "kubeconfig cannot"),
        (json.dumps(_of(TOKEN, **{"certificate-authority": "/nowhere"})), "not exist.*/nowhere"),
    ],
)  # fmt: skip
def test_kubeconfig_that_leads_nowhere_is_refused_in_a_sentence(
    kubeconfig: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    content: str | None,
    told: str,
) -> None:
    if content is not None:
        kubeconfig.write_text(content)
    with pytest.raises(errors.InvalidInputError, match=told) as raised:
        asyncio.run(logins.Logins()())
    assert "secret-token" not in str(raised.value)
    config = kubeconfig.with_name("operator.yaml")
    config.write_text("dataRoots: [/data]\nimage: {name: hudi}")
    code = program.main(["run", "--config", str(config), "--port", "0"])
    assert code == errors.InvalidInputError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert "kubeconfig " in line
    assert "secret-token" not in line + caplog.text


def test_no_way_at_all_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(errors.InvalidInputError, match="no way to an API server is known"):
        asyncio.run(logins.Logins()())


@pytest.mark.parametrize(("times", "is_found"), [(1, True), (FAST.tries, False)])
def test_way_that_is_lost_is_looked_for_again(times: int, *, is_found: bool) -> None:
    """A kubeconfig is written anew while the operator runs."""
    lost = iter([True] * times)

    async def ask(client: api.Api) -> object:
        async def sometimes(refused: logins.Connection | None = None) -> logins.Connection:
            if next(lost, False):
                raise errors.InvalidInputError("the kubeconfig cannot be used")
            return await client.login(refused)

        unlucky = api.Api(sometimes, patience=FAST)
        try:
            return await unlucky.get(resources.JOB, "n", "j")
        finally:
            await unlucky.close()

    if is_found:
        assert ApiServer().use(ask) is None
    else:
        with pytest.raises(api_errors.UnauthorizedError, match="kubeconfig"):
            ApiServer().use(ask)


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self._now_ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def sleep_s(self, seconds: float) -> None:
        self._now_ms += int(seconds * 1000)


class Plugin:
    """A program that gives credentials, `token-1` first, and counts how often it was run."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._clock = clock
        self._runs = folder / "runs"
        self._status = folder / "status.json"
        self.path = folder / "plugin"
        self.path.write_text(
            f"#!/bin/sh\nset -e\necho >>{self._runs}\n"
            f'sed "s/@/$(wc -l <{self._runs})/" {self._status}\n'
        )
        self.path.chmod(0o755)

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    def give(self, life_s: float | None) -> None:
        """Have it give tokens that live for so long from now on; None if it does not say."""
        status = {"token": "token-@"}
        if life_s is not None:
            expires = datetime.datetime.fromtimestamp(
                self._clock.now_ms() / 1000 + life_s, datetime.UTC
            )
            status["expirationTimestamp"] = expires.isoformat().replace("+00:00", "Z")
        self._say({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status})

    def fail(self) -> None:
        """Have it fail from now on."""
        self._status.unlink()

    def _say(self, answer: object) -> None:
        self._status.write_text(json.dumps(answer))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def plugin(kubeconfig: Path, clock: Clock) -> Plugin:
    made = Plugin(kubeconfig.parent, clock)
    kubeconfig.write_text(json.dumps(_of(_exec(str(made.path)))))
    return made


async def _token(connection: logins.Connection) -> str:
    return (await logins.authorization(connection.configuration)).removeprefix("Bearer ")


def test_program_is_run_once_for_all_who_ask(plugin: Plugin, clock: Clock) -> None:
    plugin.give(None)

    async def ask() -> None:
        login = logins.Logins(our_clock=clock)
        first, second = await asyncio.gather(login(), login())
        assert first is second is await login()
        assert await _token(first) == "token-1"

    asyncio.run(ask())
    assert plugin.runs == 1


def test_refused_credentials_are_replaced_once(plugin: Plugin, clock: Clock) -> None:
    plugin.give(None)

    async def ask() -> None:
        login = logins.Logins(our_clock=clock)
        refused = await login()
        found = await asyncio.gather(login(refused), login(refused))
        assert [await _token(each) for each in found] == ["token-2"] * 2
        # Who asked with the old ones learns of it late, and the new ones are not to blame.
        assert await login(refused) is found[0]

    asyncio.run(ask())
    assert plugin.runs == 2


def test_credentials_are_renewed_before_they_expire_and_nobody_waits(
    plugin: Plugin, clock: Clock
) -> None:
    plugin.give(100)

    async def ask() -> None:
        login = logins.Logins(our_clock=clock)
        first = await login()
        clock.sleep_s(79)
        assert await login() is first
        assert plugin.runs == 1
        clock.sleep_s(2)
        plugin.give(100)
        assert await login() is first
        await _until(login, "token-2")

    asyncio.run(ask())
    assert plugin.runs == 2


def test_expired_credentials_are_never_used(plugin: Plugin, clock: Clock) -> None:
    plugin.give(100)

    async def ask() -> None:
        login = logins.Logins(our_clock=clock)
        await login()
        clock.sleep_s(100)
        plugin.give(100)
        assert await _token(await login()) == "token-2"
        clock.sleep_s(100)
        plugin.fail()
        with pytest.raises(errors.InvalidInputError, match="no credentials"):
            await login()
        plugin.give(100)
        assert await _token(await login()) == "token-4"

    asyncio.run(ask())


def test_renewal_that_fails_is_tried_again_at_times(
    plugin: Plugin, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.give(100)

    async def ask() -> None:
        login = logins.Logins(our_clock=clock)
        await login()
        plugin.fail()
        clock.sleep_s(81)
        async with asyncio.timeout(30):
            while "could not be renewed" not in caplog.text:
                assert await _token(await login()) == "token-1"
                await asyncio.sleep(0.01)
        assert await _token(await login()) == "token-1"
        assert plugin.runs == 2
        clock.sleep_s(11)
        plugin.give(100)
        await _until(login, "token-3")

    asyncio.run(ask())


def test_credentials_that_are_old_when_they_are_given_are_used_until_refused(
    plugin: Plugin, clock: Clock
) -> None:
    plugin.give(-1)

    async def ask() -> None:
        login = logins.Logins(our_clock=clock)
        first = await login()
        assert first.expires is None
        assert await login() is first

    asyncio.run(ask())
    assert plugin.runs == 1


async def _until(login: logins.Login, token: str) -> None:
    async with asyncio.timeout(30):
        while await _token(await login()) != token:  # noqa: ASYNC110 - nothing says so
            await asyncio.sleep(0.01)


def test_program_that_hangs_is_not_run_twice(
    kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "_LOGIN_S", 0.5)
    runs, go_on = tmp_path / "runs", tmp_path / "go-on"
    script = tmp_path / "plugin"
    answer = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": {"token": "t"}}
    script.write_text(
        f"#!/bin/sh\necho >>{runs}\nwhile ! [ -e {go_on} ]; do sleep 0.1; done\n"
        f"echo '{json.dumps(answer)}'\n"
    )
    script.chmod(0o755)
    kubeconfig.write_text(json.dumps(_of(_exec(str(script)))))

    async def ask() -> None:
        login = logins.Logins()
        for _ in range(2):
            with pytest.raises(errors.InvalidInputError, match="gave no credentials within"):
                await login()
        go_on.touch()
        await _until(_patient(login), "t")

    asyncio.run(ask())
    assert len(runs.read_text().splitlines()) == 1


def _patient(login: logins.Login) -> logins.Login:
    async def wait(refused: logins.Connection | None = None) -> logins.Connection:
        while True:
            try:
                return await login(refused)
            except errors.InvalidInputError:
                await asyncio.sleep(0.01)

    return wait


def test_token_of_a_pod_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = credentials.make(tmp_path / "pod", ["127.0.0.1"])
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(made.ca))

    async def ask() -> None:
        login = logins.Logins({"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "6443"})
        first = await login()
        assert first.configuration.host == "https://[::1]:6443"
        assert await _token(first) == "bearer first"
        token.write_text("second")
        # As after a minute, and as after a refusal.
        assert await _token(await login(first)) == "bearer second"

    asyncio.run(ask())


class Provider:
    """An OpenID Connect provider over TLS: each refresh token is taken once."""

    def __init__(self, folder: Path) -> None:
        self._files = credentials.make(folder / "provider", ["127.0.0.1"])
        self.ca = base64.b64encode(self._files.ca.read_bytes()).decode()
        self.refresh_tokens: list[str] = []

    def serve(self, question: Callable[[str], Awaitable[None]]) -> None:
        """Serve, and ask with the URL."""

        async def run() -> None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(self._files.server, self._files.server_key)
            routes = (
                web.get("/.well-known/openid-configuration", self._configuration),
                web.post("/token", self._give),
            )
            async with http_server.serving(*routes, context=context) as self._url:
                await question(self._url)

        asyncio.run(run())

    async def _configuration(self, request: web.Request) -> web.Response:
        del request
        return web.json_response({"token_endpoint": f"{self._url}/token"})

    async def _give(self, request: web.Request) -> web.Response:
        self.refresh_tokens.append(str((await request.post())["refresh_token"]))
        number = len(self.refresh_tokens)
        answer = {"id_token": _id_token(number), "refresh_token": f"refresh-{number}"}
        return web.json_response(answer)


def _id_token(number: int, expires_s: int = 1) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_s, "n": number}).encode())
    return f"e30.{claims.decode().rstrip('=')}.sig"


def _of_provider(url: str, **config: str) -> dict[str, Any]:
    told = {
        "idp-issuer-url": url,
        "client-id": "us",
        "client-secret": "secret-token",
        "id-token": _id_token(0),
        "refresh-token": "refresh-0",
        **config,
    }
    return _of({"auth-provider": {"name": "oidc", "config": told}})


def test_expired_token_of_a_provider_is_renewed_and_its_next_refresh_token_kept(
    kubeconfig: Path, tmp_path: Path
) -> None:
    provider = Provider(tmp_path)

    async def ask(url: str) -> None:
        _tell(kubeconfig, _of_provider(url, **{"idp-certificate-authority-data": provider.ca}))
        login = logins.Logins()
        first = await login()
        assert await _token(first) == _id_token(1)
        assert await _token(await login(first)) == _id_token(2)

    provider.serve(ask)
    assert provider.refresh_tokens == ["refresh-0", "refresh-1"]
    kept = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert kept["refresh-token"] == "refresh-2"


def test_provider_of_an_unknown_authority_is_given_no_secret(
    kubeconfig: Path, tmp_path: Path
) -> None:
    provider = Provider(tmp_path)

    async def ask(url: str) -> None:
        _tell(kubeconfig, _of_provider(url))
        with pytest.raises(errors.InvalidInputError, match="certificate verify failed"):
            await logins.Logins()()

    provider.serve(ask)
    assert provider.refresh_tokens == []
