"""Whether the process is of use: what its probes ask, and its metrics, by HTTP.

Alive is who sees what happens. The watch of a kind is dead when the API server told of a version of
an object, in a listing or an answer, that the watch has still not brought long after: only then
does starting anew help. While the API server does not do what it is asked nothing is proved, and
nothing fails: neither a standby nor a leader that may not list is better off after a new start. A
loop that hangs answers no probe.
"""

import logging
from collections.abc import Mapping
from typing import Final

import prometheus_client
from aiohttp import web

from hoodie import clock
from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest, Resource

logger = logging.getLogger(__name__)

LATE_S: Final = 180.0
"""A watch may be this late: longer than it takes to notice by itself that it was cut."""

_SILENCE_S: Final = 30.0
"""An API server that did nothing for this long is taken for down."""

_OK: Final = 200
_NOT_OK: Final = 300


class Watches:
    """How far the watch of each kind is behind what the API server has told."""

    def __init__(self, our_clock: clock.Clock, late_s: float = LATE_S) -> None:
        """Know of nothing that is awaited.

        Args:
            our_clock: The operator's.
            late_s: A watch may be this late.
        """
        self._clock = our_clock
        self._late_s = late_s
        self._answered_s = our_clock.monotonic_s()
        self._awaited: dict[Resource, dict[str, tuple[int, float]]] = {
            resource: {} for resource in resources.WATCHED
        }

    def answered(self, status: int) -> None:
        """Know that the API server answered; after a silence the watches have time anew.

        Args:
            status: Of the HTTP answer. A refusal or a failure proves nothing: the watches may meet
                with the same.
        """
        if not _OK <= status < _NOT_OK:
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._answered_s > _SILENCE_S:
            for awaited in self._awaited.values():
                awaited.update({uid: (version, now_s) for uid, (version, _) in awaited.items()})
        self._answered_s = now_s

    def expect(self, manifest: Manifest) -> None:
        """Know that the API server has this version of an object: the watch is to bring it."""
        resource = resources.of(manifest)
        version = resources.version_of(manifest)
        awaited = self._awaited[resource]
        known = awaited.get(manifest["metadata"]["uid"])
        # The first that is awaited counts: what changes all the time is no excuse.
        since_s = self._clock.monotonic_s() if known is None else known[1]
        awaited[manifest["metadata"]["uid"]] = (version, since_s)

    def heard(self, manifest: Manifest, *, is_gone: bool) -> None:
        """Know that the watch has brought a version of an object, or its end."""
        awaited = self._awaited[resources.of(manifest)]
        uid = manifest["metadata"]["uid"]
        known = awaited.get(uid)
        if known is None:
            return
        if is_gone or known[0] <= resources.version_of(manifest):
            del awaited[uid]
        else:
            # It advances, and is only busy.
            awaited[uid] = (known[0], self._clock.monotonic_s())

    def forget(self, resource: Resource, uid: str) -> None:
        """Know that an object is gone."""
        self._awaited[resource].pop(uid, None)

    def late(self) -> list[str]:
        """Return why a watch is taken for dead, for each that is."""
        now_s = self._clock.monotonic_s()
        found: list[str] = []
        if now_s - self._answered_s > _SILENCE_S:
            return found
        for resource, awaited in self._awaited.items():
            oldest_s = min((since_s for _, since_s in awaited.values()), default=now_s)
            if now_s - oldest_s > self._late_s:
                found.append(
                    f"the watch of {resource} is {now_s - oldest_s:.0f} s behind the API server"
                )
        return found


class Health:
    """What the probes are answered."""

    def __init__(self, our_clock: clock.Clock, late_s: float = LATE_S) -> None:
        """Be alive, and ready for nothing yet; for the arguments see `Watches`."""
        self.watches = Watches(our_clock, late_s)
        self.problem = "it has not begun"


async def serve(
    health: Health, registry: prometheus_client.CollectorRegistry, *, host: str, port: int
) -> web.AppRunner:
    """Answer `/healthz`, `/readyz` and `/metrics`, until the runner is cleaned up.

    Args:
        health: What the probes are answered.
        registry: Of the metrics.
        host: Where to listen.
        port: At which port; 0 for any.

    Raises:
        OSError: The port cannot be had.
    """

    async def healthz(request: web.Request) -> web.Response:
        del request
        return _answer("; ".join(health.watches.late()))

    async def readyz(request: web.Request) -> web.Response:
        del request
        return _answer(health.problem)

    async def metrics(request: web.Request) -> web.Response:
        del request
        content = prometheus_client.generate_latest(registry)
        return web.Response(body=content, headers=_METRICS_HEADERS)

    application = web.Application()
    application.router.add_get("/healthz", healthz)
    application.router.add_get("/readyz", readyz)
    application.router.add_get("/metrics", metrics)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner


_METRICS_HEADERS: Mapping[str, str] = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
_UNAVAILABLE: Final = 503


def _answer(problem: str) -> web.Response:
    if problem:
        logger.warning("a probe is answered: %s", problem)
        return web.Response(text=f"{problem}\n", status=_UNAVAILABLE)
    return web.Response(text="ok\n")
