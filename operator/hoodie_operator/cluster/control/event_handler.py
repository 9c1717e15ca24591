"""From a change in the cluster to the keys that are decided about: the event handlers.

A change comes from a watch, from a listing or with the API server's answer to a request of ours.
The store takes it; the objects that depend on it (`dependents`, the map functions) are enqueued.
A policy only sums up what its tables report: it is decided about a moment later, once for all that
changes until then, which of many tables is much.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from hoodie import clock
from hoodie_operator.api import kinds, objects, resources
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster import health
from hoodie_operator.cluster.client import api
from hoodie_operator.cluster.control import object_states, work_queue
from hoodie_operator.cluster.informer import resync, store
from hoodie_operator.reconcile import dependents

_SUMMARY_S: Final = 1.0
"""After a change of a table, until its policies sum up."""

_SUMS_UP: Final = frozenset(kind.name for kind in kinds.POLICIES)


class EventHandler:
    """Takes changes, and fills the work queue."""

    def __init__(
        self,
        server: api.Api,
        known: store.Store,
        states: object_states.ObjectStates,
        scope: resync.Scope,
        *,
        probes: health.Health,
        our_clock: clock.Clock,
    ) -> None:
        """Enqueue nothing yet.

        Args:
            server: The API server.
            known: The store.
            states: The records of objects: removed with their object.
            scope: What is listed, and how often.
            probes: Gets how far the watches are.
            our_clock: The operator's.
        """
        self.queue = work_queue.WorkQueue()
        self.listings = resync.Resync(server, known, probes, scope, self.on_listing)
        self.is_enqueued = asyncio.Event()
        self.is_table_changed = asyncio.Event()
        self.are_slots_changed = asyncio.Event()
        self._store = known
        self._states = states
        self._health = probes
        self._clock = our_clock

    def on_watch_event(self, change: str | None, manifest: Manifest) -> None:
        """Take one event of a watch (see `watching.Heard`)."""
        resource = resources.of(manifest)
        metadata = manifest["metadata"]
        is_gone = change == "DELETED"
        self._health.watches.heard(manifest, is_gone=is_gone)
        if is_gone:
            self.on_gone(resource, metadata["namespace"], metadata["name"], metadata["uid"])
            return
        self.listings.heard(change, resource, metadata)
        self._enqueue_dependents(self._store.take(manifest), manifest)

    def on_answer(self, manifest: Manifest) -> None:
        """Take what the API server answered; the watch is expected to bring it as well."""
        if resources.of(manifest) in resources.WATCHED and self._store.is_news(manifest):
            self._health.watches.expect(manifest)
            self._enqueue_dependents(self._store.take(manifest), manifest)

    def on_listing(
        self, changed: set[objects.ObjectKey], gone: Sequence[objects.AnyObject]
    ) -> None:
        """Take what a listing changed in the store."""
        for found in gone:
            self._note_slots(found.key)
            self.enqueue(dependents.of(self._store.by_key, found))
        self._enqueue_dependents(changed)

    def on_gone(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Take that an object no longer exists."""
        key = objects.ObjectKey(kind=resource.kind, namespace=namespace, name=name)
        before = self._store.by_key.get(key)
        changed = self._store.drop(resource, namespace, name, uid)
        if before is not None and key in changed:
            self._note_slots(key)
            self.enqueue(dependents.of(self._store.by_key, before))
        self._enqueue_dependents(changed)

    def enqueue(
        self, keys: Iterable[objects.ObjectKey], changed: Collection[objects.ObjectKey] = ()
    ) -> None:
        """Have objects decided about soon.

        Args:
            keys: Of the objects.
            changed: Those of them that have changed themselves: no policy among them waits.
        """
        now_s = self._clock.monotonic_s()
        for key in keys:
            sums_up = key.kind in _SUMS_UP and key not in changed
            self.queue.add(key, now_s + _SUMMARY_S if sums_up else now_s)
        self.is_enqueued.set()

    def enqueue_later(self, key: objects.ObjectKey, pause_s: float) -> None:
        """Requeue an object: have it decided about again after a pause."""
        self.queue.add(key, self._clock.monotonic_s() + pause_s)

    async def relist_jobs(self) -> None:
        """Return when all Jobs were listed again."""
        self.listings.relist(resources.JOB)
        await self.listings.wait_until_certain()

    def _enqueue_dependents(
        self, keys: set[objects.ObjectKey], manifest: Manifest | None = None
    ) -> None:
        """Enqueue all objects that a change affects."""
        affected: set[objects.ObjectKey] = set()
        for key in keys:
            if key.kind == kinds.HUDI_TABLE.name:
                self.is_table_changed.set()
            self._note_slots(key)
            if key not in self._store.stored:
                self._states.forget(key)
            found = self._store.by_key.get(key)
            if found is None:
                affected.add(key)
                continue
            affected.update(dependents.of(self._store.by_key, found))
            self._list_missing_pods(found)
        if manifest is not None and resources.of(manifest) == resources.JOB:
            for key in affected:
                table = self._store.by_key.get(key)
                if table is not None and key.kind == kinds.HUDI_TABLE.name:
                    self._states.of(key, table.uid).look.make_due()
        self.enqueue(affected, changed=keys)

    def _note_slots(self, key: objects.ObjectKey) -> None:
        """Note that runs of others may start by a change: a slot may be free, or a limit higher."""
        if key.kind == kinds.TABLE_ACTION.name or key.kind in _SUMS_UP:
            self.are_slots_changed.set()

    def _list_missing_pods(self, found: objects.AnyObject) -> None:
        """List Pods once where a Job has ended and its Pod, which has the result, was not seen.

        The watch of Pods may be behind that of Jobs. A Pod that the listing lacks is gone.
        """
        missing = frozenset(self._store.ends_without_pod(found.uid))
        state = self._states.of(found.key, found.uid)
        if missing - state.missing_pods:
            state.missing_pods = missing
            self.listings.relist(resources.POD)
