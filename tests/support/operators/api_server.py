"""API servers in memory, served over HTTP: one with objects by path, or whatever a test answers.

The one with objects knows no kinds, no schemas and no watches; what it keeps to are names, uids and
preconditions, and it refuses at a test's will.
"""

import abc
import asyncio
import base64
import itertools
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiohttp import web
from kubernetes.aio import client as kubernetes

from hoodie_operator.cluster.client import api, logins
from support.servers import http_server

T = TypeVar("T")
FAST = api.Patience(timeout_s=2.0, tries=4, pause_s=0.01, pause_max_s=0.05)


class Login:
    """Gives another token for each that was refused: `token-1`, `token-2`."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._given: logins.Connection | None = None

    async def __call__(self, refused: logins.Connection | None = None) -> logins.Connection:
        if self._given is None or self._given is refused:
            key = {logins.TOKEN: f"Bearer token-{next(self._numbers)}"}
            configuration = kubernetes.Configuration(host=self._server, api_key=key)
            self._given = logins.Connection(configuration=configuration)
        return self._given


class Served(abc.ABC):
    """What answers as an API server."""

    @abc.abstractmethod
    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""

    def use(
        self,
        question: Callable[[api.Api], Awaitable[T]],
        *,
        change_s: Callable[[], float] = lambda: math.inf,
        patience: api.Patience = FAST,
    ) -> T:
        """Serve, ask, and end."""

        async def run() -> T:
            async with http_server.serving(
                web.route("*", http_server.ANY_PATH, self.handle)
            ) as url:
                client = api.Api(Login(url), patience=patience, change_s=change_s)
                try:
                    return await question(client)
                finally:
                    await client.close()

        return asyncio.run(run())


class ApiServer(Served):
    """Objects by path, as `/api/v1/namespaces/default/secrets/name`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.refused: Callable[[str, str], bool] = lambda method, path: False
        self.heard: Callable[[str, str], None] = lambda method, path: None
        self.deletions: list[tuple[str, dict[str, Any]]] = []
        self._made = 0

    def of(self, plural: str) -> list[dict[str, Any]]:
        """Return all objects of a resource."""
        return [each for path, each in self.objects.items() if path.split("/")[-2] == plural]

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request, as an API server does."""
        text = await request.text()
        body: dict[str, Any] = json.loads(text) if text else {}
        path = request.path
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        self.heard(request.method, path)
        if self.refused(request.method, path):
            return _refusal(403, "Forbidden")
        there = path in self.objects
        match request.method:
            case "GET" if path.split("/")[-2].startswith("v"):
                answer = _listing(self.of(path.split("/")[-1]))
            case "GET" if path.split("/")[-3] == "namespaces":
                inside = f"{path}/"
                answer = _listing(
                    [each for at, each in self.objects.items() if at.startswith(inside)]
                )
            case "GET" if there:
                answer = web.json_response(self.objects[path])
            case "POST" if there:
                answer = _refusal(409, "AlreadyExists")
            case "POST":
                answer = web.json_response(self._put(path, {}, body))
            case "PATCH":
                answer = self._patch(path, body)
            case "DELETE" if there:
                answer = self._delete(path, body)
            case _:
                answer = _refusal(404, "NotFound")
        return answer

    def change(self, path: str, patch: dict[str, Any] | None = None) -> None:
        """Have an object changed by somebody else: its version at least."""
        self._put(path, self.objects[path], patch or {})

    def _patch(self, path: str, body: dict[str, Any]) -> web.Response:
        there = self.objects.get(path, {})
        meant = body["metadata"].get("uid")
        if there and meant not in (None, there["metadata"]["uid"]):
            return _refusal(409, "Conflict")
        if not there and meant is not None:
            return _refusal(404, "NotFound")
        return web.json_response(self._put(path, there, body))

    def _put(self, path: str, there: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        self._made += 1
        made = _merged(there, body)
        made["metadata"].setdefault("uid", f"uid-{self._made}")
        made["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        made["metadata"]["resourceVersion"] = str(self._made)
        told = made.pop("stringData", None)
        if told is not None:
            made["data"] = {
                name: base64.b64encode(value.encode()).decode() for name, value in told.items()
            }
        self.objects[path] = made
        return made

    def _delete(self, path: str, options: dict[str, Any]) -> web.Response:
        metadata = self.objects[path]["metadata"]
        preconditions = options.get("preconditions") or {}
        if any(metadata[name] != meant for name, meant in preconditions.items()):
            return _refusal(409, "Conflict")
        self.deletions.append((path, options))
        return web.json_response(self.objects.pop(path))


def _merged(there: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Return an object after a merge patch."""
    found = dict(there)
    for name, value in body.items():
        before = found.get(name)
        is_deep = isinstance(before, dict) and isinstance(value, dict)
        found[name] = _merged(before, value) if is_deep else value
    return found


def _listing(items: list[dict[str, Any]]) -> web.Response:
    return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})


def _refusal(status: int, reason: str) -> web.Response:
    document = {"kind": "Status", "reason": reason, "message": f"{reason}, in this test"}
    return web.json_response(document, status=status)
