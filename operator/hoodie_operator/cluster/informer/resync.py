"""Listing everything: before the first decision, when a watch may have missed something, at times.

A watch that was cut does not tell what ended meanwhile; a listing does. It is the canary, too: what
it shows and the watch does not bring is how a dead watch is known (`health`).
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import objects, resources
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster import health
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.informer import store

logger = logging.getLogger(__name__)

PERIOD_S: Final = 120.0
_PAUSE_S: Final = 0.5
_GONE_TRIES: Final = 20
"""An API server that has just begun may not know all kinds yet."""

Listed = Callable[[set[objects.ObjectKey], Sequence[objects.AnyObject]], None]
"""Hears which keys changed by a listing, and which objects are gone by it."""


class KindGoneError(Exception):
    """The CustomResourceDefinition of a kind is gone: its watch is dead and stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is listed, and how often.

    Attributes:
        namespaces: Which; none for all.
        period_s: Between two listings of everything.
    """

    namespaces: Sequence[str] = ()
    period_s: float = PERIOD_S


class Resync:
    """Keeps the store true to what the API server lists."""

    def __init__(
        self,
        server: api.Api,
        known: store.Store,
        probes: health.Health,
        scope: Scope,
        listed: Listed,
    ) -> None:
        """Have listed nothing yet.

        Args:
            server: The API server.
            known: What is kept true.
            probes: Told what the watches have to bring.
            scope: What is listed, and how often.
            listed: Told what a listing changed.
        """
        self.is_synced = asyncio.Event()
        self._api = server
        self._store = known
        self._health = probes
        self._namespaces = scope.namespaces
        self._period_s = scope.period_s
        self._listed = listed
        self._stale: set[Resource] = set(resources.WATCHED)
        self._uncertain: set[Resource] = set(resources.WATCHED)
        self._heard: dict[tuple[Resource, str], set[str]] = {}
        self._missing: dict[Resource, int] = {}
        self._problems: dict[Resource, str] = {}
        self._gone = asyncio.Event()
        self._asked = asyncio.Event()
        self._certain = asyncio.Event()

    @property
    def is_certain(self) -> bool:
        """Whether nothing is known to be missed: only then may be decided."""
        return not self._uncertain

    def heard(self, change: str | None, resource: Resource, metadata: Manifest) -> None:
        """Hear what a watch brings: one that begins anew does not tell what ended meanwhile.

        Args:
            change: As in `watching.Heard`.
            resource: Of what.
            metadata: Of the object.
        """
        # Where namespaces are named, each has a watch of its own.
        place = (resource, metadata["namespace"] if self._namespaces else "")
        heard = self._heard.setdefault(place, set())
        uid = metadata["uid"]
        if change == "DELETED":
            heard.discard(uid)
            return
        if change is None and uid in heard:
            # It lists what it knew: it began anew.
            heard.clear()
            self.relist(resource)
        heard.add(uid)

    def relist(self, resource: Resource) -> None:
        """Have a kind listed before anything more is decided."""
        self._uncertain.add(resource)
        self._stale.add(resource)
        self._certain.clear()
        self._asked.set()

    async def wait_until_certain(self) -> None:
        """Wait until everything was listed that had to be."""
        await self._certain.wait()

    async def await_end_of_a_kind(self) -> None:
        """Wait until the API server no longer knows one of our kinds.

        Raises:
            KindGoneError: It does not.
        """
        await self._gone.wait()
        raise KindGoneError(self._health.problem)

    async def run(self) -> None:
        """List what is to be listed, for ever."""
        while True:
            self._asked.clear()
            for resource in list(self._stale):
                await self._list(resource)
            if self._stale:
                await asyncio.sleep(_PAUSE_S)
                continue
            if not self.is_synced.is_set():
                logger.info("everything is listed: %s objects", len(self._store.by_key))
                self.is_synced.set()
            try:
                async with asyncio.timeout(self._period_s):
                    await self._asked.wait()
            except TimeoutError:
                self._stale.update(resources.WATCHED)

    async def _list(self, resource: Resource) -> None:
        labels = "" if resource in resources.OURS else resources.MANAGED_SELECTOR
        self._stale.discard(resource)
        try:
            for namespace in self._namespaces or (None,):
                await self._resync(resource, namespace, labels)
        except api_errors.ApiError as error:
            self._stale.add(resource)
            self._tell_problem(resource, f"{resource} cannot be listed: {error}")
            is_missing = resource in resources.OURS and isinstance(error, api_errors.NotFoundError)
            self._missing[resource] = self._missing.get(resource, 0) + 1 if is_missing else 0
            if self._missing[resource] >= _GONE_TRIES:
                self._gone.set()
            return
        self._missing.pop(resource, None)
        self._problems.pop(resource, None)
        if resource not in self._stale:
            self._uncertain.discard(resource)
        if not self._uncertain:
            self._health.problem = ""
            self._certain.set()

    def _tell_problem(self, resource: Resource, problem: str) -> None:
        """Tell why a kind cannot be listed, once for as long as that is the same."""
        if self._problems.get(resource) != problem:
            logger.warning("%s", problem)
        self._problems[resource] = problem
        self._health.problem = problem

    async def _resync(self, resource: Resource, namespace: str | None, labels: str) -> None:
        """Hold exactly what a listing has, part by part: all of it at once is much memory."""
        listed: set[str] = set()
        version = 0
        async for page in self._api.pages(resource, namespace, labels):
            version = page.version
            listed.update(manifest["metadata"]["uid"] for manifest in page.items)
            self._tell(resource, functools.partial(self._take, page))
        self._tell(
            resource,
            functools.partial(self._store.drop_unlisted, resource, listed, version, namespace),
        )

    def _take(self, page: api.Listing) -> set[objects.ObjectKey]:
        changed: set[objects.ObjectKey] = set()
        for manifest in page.items:
            if self.is_synced.is_set() and self._store.is_news(manifest):
                self._health.watches.expect(manifest)
            changed |= self._store.take(manifest)
        return changed

    def _tell(self, resource: Resource, change: Callable[[], set[objects.ObjectKey]]) -> None:
        """Change the store, and tell what changed by it: the next page may never come."""
        before = [found for key, found in self._store.by_key.items() if key.kind == resource.kind]
        changed = change()
        gone = [found for found in before if self._store.is_gone(found.uid)]
        for found in gone:
            self._health.watches.forget(resource, found.uid)
        self._listed(changed, gone)
