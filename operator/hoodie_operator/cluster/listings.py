"""Listing everything: before the first decision, when a watch may have missed something, at times.

A watch that was cut does not tell what ended meanwhile; a listing does. It is the canary, too: what
it shows and the watch does not bring is how a dead watch is known (`health`).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import objects, resources
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster import api, api_errors, health, store

logger = logging.getLogger(__name__)

PERIOD_S: Final = 120.0
_PAUSE_S: Final = 0.5

Listed = Callable[[set[objects.ObjectKey], Sequence[objects.AnyObject]], None]
"""Hears which keys changed by a listing, and which objects are gone by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is listed, and how often.

    Attributes:
        namespaces: Which; none for all.
        period_s: Between two listings of everything.
    """

    namespaces: Sequence[str] = ()
    period_s: float = PERIOD_S


class Listings:
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
                listing = await self._api.list(resource, namespace, labels)
                self._take(resource, namespace, listing)
        except api_errors.ApiError as error:
            self._stale.add(resource)
            self._health.problem = f"{resource} cannot be listed: {error}"
            logger.warning("%s", self._health.problem)
            return
        if resource not in self._stale:
            self._uncertain.discard(resource)
        if not self._uncertain:
            self._health.problem = ""
            self._certain.set()

    def _take(self, resource: Resource, namespace: str | None, listing: api.Listing) -> None:
        for manifest in listing.items:
            if self.is_synced.is_set() and self._store.is_news(manifest):
                self._health.watches.expect(manifest)
        before = [found for key, found in self._store.by_key.items() if key.kind == resource.kind]
        changed = self._store.resync(resource, listing, namespace)
        gone = [found for found in before if self._store.is_gone(found.uid)]
        for found in gone:
            self._health.watches.forget(resource, found.uid)
        self._listed(changed, gone)
