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

import kopf
from aiohttp import web

from hoodie_operator.cluster import api

T = TypeVar("T")
FAST = api.Patience(timeout_s=2.0, tries=4, pause_s=0.01, pause_max_s=0.05)


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
        """Serve, ask, and end; each login has a token of its own: `token-1`, `token-2`."""

        async def run() -> T:
            application = web.Application()
            application.router.add_route("*", "/{path:.*}", self.handle)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0]
            numbers = itertools.count(1)

            def login() -> kopf.ConnectionInfo:
                token = f"token-{next(numbers)}"
                return kopf.ConnectionInfo(server=f"http://{host}:{port}", token=token)

            client = api.Api(login, patience=patience, change_s=change_s)
            try:
                return await question(client)
            finally:
                await client.close()
                await runner.cleanup()

        return asyncio.run(run())


class ApiServer(Served):
    """Objects by path, as `/api/v1/namespaces/default/secrets/name`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.refused: Callable[[str, str], bool] = lambda method, path: False
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
        if self.refused(request.method, path):
            return _refusal(403, "Forbidden")
        there = path in self.objects
        match request.method:
            case "GET" if path.split("/")[-2].startswith("v"):
                items = self.of(path.split("/")[-1])
                answer = web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
            case "GET" if there:
                answer = web.json_response(self.objects[path])
            case "POST" if there:
                answer = _refusal(409, "AlreadyExists")
            case "POST" | "PATCH":
                answer = web.json_response(self._put(path, body))
            case "DELETE" if there:
                answer = self._delete(path, body)
            case _:
                answer = _refusal(404, "NotFound")
        return answer

    def _put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        there = self.objects.get(path, {"metadata": {}})
        self._made += 1
        uid = there["metadata"].get("uid", f"uid-{self._made}")
        made = {**there, **body, "metadata": {**there["metadata"], **body["metadata"], "uid": uid}}
        told = made.pop("stringData", None)
        if told is not None:
            made["data"] = {
                name: base64.b64encode(value.encode()).decode() for name, value in told.items()
            }
        self.objects[path] = made
        return made

    def _delete(self, path: str, options: dict[str, Any]) -> web.Response:
        uid = (options.get("preconditions") or {}).get("uid")
        if uid is not None and uid != self.objects[path]["metadata"]["uid"]:
            return _refusal(409, "Conflict")
        self.deletions.append((path, options))
        return web.json_response(self.objects.pop(path))


def _refusal(status: int, reason: str) -> web.Response:
    document = {"kind": "Status", "reason": reason, "message": f"{reason}, in this test"}
    return web.json_response(document, status=status)
