"""Carrying out what was decided about one object, by the API server and by the ports.

Everything that the API server answers is known at once, before the watch tells. Whatever is done
twice comes to the same: objects and runs have the names that were decided on.
"""

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from hoodie import clock, errors
from hoodie_operator.api import (
    conditions,
    documents,
    fields,
    kinds,
    objects,
    resources,
    table_action,
    writer,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.resources import Manifest
from hoodie_operator.cluster import logs
from hoodie_operator.cluster.client import api, api_errors
from hoodie_operator.cluster.control import (
    event_handler,
    events,
    metrics,
    ports,
    snapshots,
    statuses,
)
from hoodie_operator.cluster.informer import store
from hoodie_operator.reconcile import effects, facts, observed_times, verdicts
from hoodie_operator.reconcile.verdicts import Verdict

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What actions go through.

    Attributes:
        api: Makes and removes objects.
        statuses: Writes statuses.
        adapters: Runs, lock servers and observers.
        recorder: Records events.
        counted: Metrics of actions.
        clock: The operator's.
    """

    api: api.Api
    statuses: statuses.Statuses
    adapters: ports.Adapters
    recorder: events.Recorder
    counted: metrics.Metrics
    clock: clock.Clock


class Actor:
    """Carries out effects, one object's one after the other."""

    def __init__(
        self,
        services: Services,
        known: store.Store,
        current: snapshots.Snapshots,
        handler: event_handler.EventHandler,
    ) -> None:
        """Take what acts.

        Args:
            services: What actions go through.
            known: The store.
            current: Gives the table configuration of runs.
            handler: Takes every object that the API server answers with.
        """
        self._services = services
        self._store = known
        self._snapshots = current
        self._handler = handler

    async def carry_out(
        self, found: objects.AnyObject, stored: store.Stored, todo: Sequence[effects.Effect]
    ) -> None:
        """Do what was decided about an object, in its order.

        Args:
            found: The object as it was decided about.
            stored: Its version and finalizers.
            todo: What to do.

        Raises:
            HoodieError: Something was refused; what comes after it was not begun.
        """
        try:
            await self._carry_out(found, stored, todo)
        finally:
            # What was started is known by its Job; the rest was not started after all.
            for effect in todo:
                if isinstance(effect, effects.StartRun):
                    self._store.unmark_started(effect.id)

    async def _carry_out(
        self, found: objects.AnyObject, stored: store.Stored, todo: Sequence[effects.Effect]
    ) -> None:
        is_wanted = statuses.is_finalizer_wanted(_decided(found, todo))
        if not found.is_deleting and is_wanted != (resources.FINALIZER in stored.finalizers):
            # On a table whose data is to go with it before it has any.
            answer = await self._services.statuses.keep_finalizer(
                found.key, stored, is_wanted=is_wanted
            )
            self._handler.on_answer(answer)
            stored = self._store.stored.get(found.key, stored)
        for effect in todo:
            result = "Done"
            try:
                await self._do(found, stored, effect)
            except errors.HoodieError as error:
                result = error.kind
                raise
            finally:
                self._services.counted.acts.labels(type(effect).__name__, result).inc()

    async def forget_runs(
        self, found: objects.AnyObject, attempts: Sequence[store.Attempt]
    ) -> None:
        """Remove ended attempts of an object.

        Raises:
            HoodieError: One of them was refused.
        """
        for attempt in attempts:
            if attempt.job is not None:
                await self._services.adapters.runs.forget(
                    attempt.id, self._owner(found), attempt.job
                )

    def _owner(self, found: objects.AnyObject) -> ports.RunOwner:
        return ports.RunOwner(found=found, table=self._snapshots.effective_table(found))

    async def report_unreadable(self, key: objects.ObjectKey, stored: store.Stored) -> None:
        """Tell on an object that its content cannot be read, unless it says so already.

        Raises:
            HoodieError: It was refused.
        """
        kind = kinds.BY_NAME[key.kind]
        unreadable = objects.Object(
            key=key,
            uid=stored.uid,
            generation=stored.generation,
            created_ms=0,
            spec=fields.Block(),
            status=kind.status(),
        )
        verdict = Verdict(
            state=verdicts.stalled_state(unreadable),
            reason=Reason.INVALID_SPEC,
            message=f"it cannot be read by this version of the operator: {stored.problem}",
        )
        now = observed_times.Now(
            wall_ms=self._services.clock.now_ms(),
            monotonic_ms=clock.monotonic_ms(self._services.clock),
        )
        status = verdicts.stated(kind.status(), unreadable, verdict, now)
        told = stored.raw_status.get("observedGeneration"), stored.raw_status.get("state")
        if told != (status.observed_generation, status.state):
            answer = await self._services.statuses.report_unreadable(key, stored, status)
            self._handler.on_answer(answer)

    async def _do(
        self, found: objects.AnyObject, stored: store.Stored, effect: effects.Effect
    ) -> None:
        match effect:
            case effects.SetStatus():
                await self._set_status(found, stored, effect)
            case effects.StartRun():
                await self._start(found, effect)
            case effects.StopRun():
                await self._stop(found, effect)
            case effects.GiveBatchSettings():
                await self._give_batch_settings(found, effect)
            case effects.CreateObject():
                await self._create(effect)
            case effects.RemoveObject():
                await self._remove(effect)
            case effects.ServeLock():
                await self._services.adapters.locks.serve(cast("objects.Lock", found), effect.users)

    async def _set_status(
        self, found: objects.AnyObject, stored: store.Stored, effect: effects.SetStatus
    ) -> None:
        answer = await self._services.statuses.apply(effect.key, stored, effect.status)
        self._handler.on_answer(answer)
        after = documents.from_document(answer)
        runs = facts.of_owner(self._store.runs, after)
        self._services.counted.changed(found.status, after, runs, self._services.clock.now_ms())
        happened = events.of_change(found.status, after)
        if happened is None:
            return
        self._services.recorder.record(happened)
        ready = after.status.condition(conditions.Type.READY)
        message = ready.message if ready else ""
        told = self._about(found, happened.reason, getattr(after.status, "instant", None))
        logger.info("%s: %s: %s", found.key, after.status.state, message, extra=told)

    async def _start(self, found: objects.AnyObject, effect: effects.StartRun) -> None:
        table = self._table_of(found)
        if table is None:
            return
        try:
            made = await self._services.adapters.runs.start(effect, found, table)
        except errors.HoodieError as error:
            if isinstance(error, api_errors.ApiError) and not error.is_outcome_known:
                # Its Job may be there: until it was looked for, it counts as started.
                await self._handler.relist_jobs()
            raise
        for manifest in made:
            self._handler.on_answer(manifest)
        logger.info("%s: started", effect.id, extra=self._about(found, Reason.STARTING.value))

    async def _stop(self, found: objects.AnyObject, effect: effects.StopRun) -> None:
        attempt = self._store.attempt(effect.id)
        if attempt is None:
            return
        owner = self._owner(found)
        for manifest in await self._services.adapters.runs.stop(
            effect, owner, attempt.job, attempt.pods
        ):
            self._handler.on_answer(manifest)
        told = self._about(found, Reason.STOPPING.value)
        logger.info("%s: stop requested: %s", effect.id, effect.reason, extra=told)

    async def _give_batch_settings(
        self, found: objects.AnyObject, effect: effects.GiveBatchSettings
    ) -> None:
        attempt = self._store.attempt(effect.id)
        if attempt is None or attempt.job is None:
            return
        runs = self._services.adapters.runs
        self._handler.on_answer(await runs.give_batch_settings(effect, found, attempt.job))

    async def _create(self, effect: effects.CreateObject) -> None:
        key = effect.key
        try:
            answer = await self._services.api.create(_declared(effect))
        except api_errors.AlreadyExistsError:
            known = await self._services.api.get(
                resources.BY_KIND[key.kind], key.namespace, key.name
            )
            if known is None:
                return
            answer = known
        self._handler.on_answer(answer)

    async def _remove(self, effect: effects.RemoveObject) -> None:
        key = effect.key
        held = self._store.stored.get(key)
        found = self._store.by_key.get(key)
        if held is None or found is None or held.uid != effect.uid:
            return
        if not found.is_deleting:
            await self._services.api.delete(
                resources.BY_KIND[key.kind],
                key.namespace,
                key.name,
                uid=effect.uid,
                propagation="Background",
            )
        if resources.FINALIZER in held.finalizers:
            await self._services.statuses.keep_finalizer(key, held, is_wanted=False)

    def _table_of(self, found: objects.AnyObject) -> objects.Table | None:
        if found.key.kind == kinds.HUDI_TABLE.name:
            return cast("objects.Table", found)
        if not isinstance(found.spec, writer.WriterSpec | table_action.TableActionSpec):
            return None
        key = objects.ObjectKey(
            kind=kinds.HUDI_TABLE.name,
            namespace=found.key.namespace,
            name=found.spec.table_ref.name,
        )
        return cast("objects.Table | None", self._store.by_key.get(key))

    def _about(
        self, found: objects.AnyObject, reason: str, instant: str | None = None
    ) -> dict[str, str | None]:
        table = self._table_of(found)
        spec = found.spec
        return logs.about(
            found.key,
            reason,
            table=None if table is None else self._store.by_key.place(table),
            instant=instant,
            action=spec.type.value if isinstance(spec, table_action.TableActionSpec) else None,
        )


def _decided(found: objects.AnyObject, todo: Sequence[effects.Effect]) -> objects.AnyObject:
    """Return an object with the status that was decided on."""
    for effect in todo:
        if isinstance(effect, effects.SetStatus) and effect.key == found.key:
            return dataclasses.replace(found, status=effect.status)
    return found


def _declared(effect: effects.CreateObject) -> Manifest:
    """Return the manifest of an object that is to be made."""
    spec = effect.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "apiVersion": resources.BY_KIND[effect.key.kind].api_version,
        "kind": effect.key.kind,
        "metadata": {
            "name": effect.key.name,
            "namespace": effect.key.namespace,
            "labels": {resources.MANAGED_BY: resources.MANAGER},
            "ownerReferences": [documents.owner_reference(effect.owner)],
        },
        "spec": spec,
    }
