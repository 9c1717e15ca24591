"""Watching by Kopf: event handlers that only pass on what they hear.

So nothing is put on objects, and Kopf lists, watches, reconnects and logs in. It runs in a thread
of its own, since it takes an event loop for its own and ends every task in it when it ends. What a
watch misses while it is cut, an end above all, is found by `listings`.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, cast

import kopf

from hoodie_operator.api import resources
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster import logs
from hoodie_operator.cluster.client import logins, sessions

Heard = Callable[[str | None, Manifest], None]
"""Hears of every change: ADDED, MODIFIED, DELETED or None, if it was listed, and the object."""

_CONNECT_S: Final = 10.0
_LISTING_S: Final = 60.0
_CHUNK: Final = 50
_IDLE_S: Final = 0.1
_REFUSED_S: Final = 5.0


class EndedError(Exception):
    """The watch ended by itself: nothing would be heard any more."""


async def watch(heard: Heard, login: logins.Login, namespaces: Sequence[str]) -> None:
    """Watch what the operator needs to know, until cancelled.

    Args:
        heard: Hears of every change, in the event loop of the caller.
        login: Gives the connection.
        namespaces: Which; none for all.

    Raises:
        EndedError: Kopf ended, which it never should.
    """
    # It warns that it handles no signals in a thread, and of what is not there yet.
    refusals = logs.Refusals("kopf")
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    ended = asyncio.Event()

    def hear(change: str | None, manifest: Manifest) -> None:
        if not stop.is_set():
            loop.call_soon_threadsafe(heard, change, manifest)

    def end() -> None:
        loop.call_soon_threadsafe(ended.set)

    def ask(refused: logins.Connection | None = None) -> Awaitable[sessions.Credentials]:
        # In the loop of the other clients, which share the login.
        asked = asyncio.run_coroutine_threadsafe(sessions.credentials(login, refused), loop)
        return asyncio.wrap_future(asked)

    def run() -> None:
        kopf.run(
            registry=_registry(hear, end, ask),
            settings=_settings(),
            standalone=True,
            clusterwide=not namespaces,
            namespaces=list(namespaces),
            stop_flag=stop,
        )

    running = asyncio.create_task(asyncio.to_thread(run))
    # Where one watch failed for good Kopf begins to end, and may wait for the others for ever.
    ending = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait((running, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.set()
        ending.cancel()
    raise EndedError(f"the watch ended: {refusals.first or 'Kopf does not say why'}")


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # Which resources and namespaces there are is known, and not ours to watch.
    settings.scanning.disabled = True
    # Little at once, and nothing for long: it is memory for each object.
    settings.watching.chunk_size = _CHUNK
    settings.queueing.idle_timeout = _IDLE_S
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.networking.trust_env = True
    settings.networking.connect_timeout = _CONNECT_S
    settings.networking.request_timeout = _LISTING_S
    settings.networking.enforce_retry_after = True
    selectors = settings.watching.label_selectors
    for resource in (resources.JOB, resources.POD):
        place = (resource.group, resource.version, resource.plural)
        selectors[place] = resources.MANAGED_SELECTOR
    return settings


class _NoDiffs(kopf.DiffBaseStorage):
    """Tells no difference: Kopf looks for one at every event, though nobody asks for it.

    It would copy all of the object for that, twice, which takes it longer than everything else.
    """

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None
    ) -> kopf.BodyEssence:
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        del body
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        del body, patch, essence


def _registry(heard: Heard, ended: Callable[[], None], ask: sessions.Ask) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    is_opened = False

    @kopf.on.login(registry=registry)
    async def log_in(**_: object) -> kopf.AiohttpSession:
        nonlocal is_opened
        if is_opened:
            # What was refused although it had just been renewed: not as fast as can be.
            await asyncio.sleep(_REFUSED_S)
        server, session = await sessions.open_session(ask)
        is_opened = True
        return kopf.AiohttpSession(server=server, aiohttp_session=session)

    @kopf.on.cleanup(registry=registry)
    async def clean_up(**_: object) -> None:
        ended()

    for resource in resources.WATCHED:
        _hear(registry, resource, heard)
    return registry


def _hear(registry: kopf.OperatorRegistry, resource: Resource, heard: Heard) -> None:
    # Items of a listing name no type of their own.
    named = {"apiVersion": resource.api_version, "kind": resource.kind}

    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
    async def handle(event: kopf.RawEvent, **_: object) -> None:
        heard(event["type"], {**named, **cast("Manifest", event["object"])})
