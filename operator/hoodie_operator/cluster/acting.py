"""Carrying out what was decided about one object, by the API server and by the ports.

Everything that the API server answers is known at once, before the watch tells. Whatever is done
twice comes to the same: objects and runs have the names that were decided on.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
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
from hoodie_operator.cluster import (
    api,
    api_errors,
    events,
    logs,
    metrics,
    ports,
    statuses,
    store,
)
from hoodie_operator.reconcile import effective, effects, facts, hearing, verdicts
from hoodie_operator.reconcile.verdicts import Verdict

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """Who does what.

    Attributes:
        api: Makes and removes objects.
        statuses: Writes statuses.
        runs: Starts and stops runs.
        locks: Serves locks.
        observers: Are kept.
        recorder: Tells of events.
        counted: Counts what is done.
        clock: The operator's.
    """

    api: api.Api
    statuses: statuses.Statuses
    runs: ports.Runs
    locks: ports.Locks
    observers: ports.Observers
    recorder: events.Recorder
    counted: metrics.Metrics
    clock: clock.Clock


class Actor:
    """Carries out effects, one object's one after the other."""

    def __init__(
        self,
        hands: Hands,
        known: store.Store,
        *,
        answered: Callable[[Manifest], None],
        effective_table: Callable[[objects.AnyObject], effective.EffectiveTable | None],
        look_for_jobs: Callable[[], Awaitable[None]],
    ) -> None:
        """Take what acts.

        Args:
            hands: Who does what.
            known: What is known of the cluster.
            answered: Told of every object that the API server answered with.
            effective_table: Tells what runs of an object are told of their table now.
            look_for_jobs: Returns when all Jobs were listed anew.
        """
        self._hands = hands
        self._store = known
        self._answered = answered
        self._effective_table = effective_table
        self._look_for_jobs = look_for_jobs

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
        is_wanted = statuses.is_finalizer_wanted(found)
        if not found.is_deleting and is_wanted != (resources.FINALIZER in stored.finalizers):
            # On a table whose data is to go with it before it has any.
            answer = await self._hands.statuses.keep_finalizer(
                found.key, stored, is_wanted=is_wanted
            )
            self._answered(answer)
            stored = self._store.stored.get(found.key, stored)
        for effect in todo:
            result = "Done"
            try:
                await self._do(found, stored, effect)
            except errors.HoodieError as error:
                result = error.kind
                raise
            finally:
                self._hands.counted.acts.labels(type(effect).__name__, result).inc()

    async def forget_runs(
        self, found: objects.AnyObject, attempts: Sequence[store.Attempt]
    ) -> None:
        """Remove ended attempts of an object.

        Raises:
            HoodieError: One of them was refused.
        """
        for attempt in attempts:
            if attempt.job is not None:
                await self._hands.runs.forget(attempt.id, self._owner(found), attempt.job)

    def _owner(self, found: objects.AnyObject) -> ports.RunOwner:
        return ports.RunOwner(found=found, table=self._effective_table(found))

    async def tell_of_unreadable(self, key: objects.ObjectKey, stored: store.Stored) -> None:
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
        now = hearing.Now(
            wall_ms=self._hands.clock.now_ms(), monotonic_ms=clock.monotonic_ms(self._hands.clock)
        )
        status = verdicts.stated(kind.status(), unreadable, verdict, now)
        told = stored.raw_status.get("observedGeneration"), stored.raw_status.get("state")
        if told != (status.observed_generation, status.state):
            answer = await self._hands.statuses.tell_of_unreadable(key, stored, status)
            self._answered(answer)

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
            case effects.CreateObject():
                await self._create(effect)
            case effects.RemoveObject():
                await self._remove(effect)
            case effects.ServeLock():
                await self._hands.locks.serve(cast("objects.Lock", found), effect.users)

    async def _set_status(
        self, found: objects.AnyObject, stored: store.Stored, effect: effects.SetStatus
    ) -> None:
        answer = await self._hands.statuses.apply(effect.key, stored, effect.status)
        self._answered(answer)
        after = documents.from_document(answer)
        runs = facts.of_owner(self._store.runs, after)
        self._hands.counted.changed(found.status, after, runs, self._hands.clock.now_ms())
        happened = events.of_change(found.status, after)
        if happened is None:
            return
        self._hands.recorder.tell(happened)
        ready = after.status.condition(conditions.Type.READY)
        message = ready.message if ready else ""
        told = self._about(found, happened.reason, getattr(after.status, "instant", None))
        logger.info("%s: %s: %s", found.key, after.status.state, message, extra=told)

    async def _start(self, found: objects.AnyObject, effect: effects.StartRun) -> None:
        table = self._table_of(found)
        if table is None:
            return
        try:
            made = await self._hands.runs.start(effect, found, table)
        except errors.HoodieError as error:
            if isinstance(error, api_errors.ApiError) and not error.is_outcome_known:
                # Its Job may be there: until it was looked for, it counts as started.
                await self._look_for_jobs()
            raise
        for manifest in made:
            self._answered(manifest)
        logger.info("%s: started", effect.id, extra=self._about(found, Reason.STARTING.value))

    async def _stop(self, found: objects.AnyObject, effect: effects.StopRun) -> None:
        attempt = self._store.attempt(effect.id)
        if attempt is None:
            return
        owner = self._owner(found)
        for manifest in await self._hands.runs.stop(effect, owner, attempt.job, attempt.pods):
            self._answered(manifest)
        told = self._about(found, Reason.STOPPING.value)
        logger.info("%s: told to stop: %s", effect.id, effect.reason, extra=told)

    async def _create(self, effect: effects.CreateObject) -> None:
        key = effect.key
        try:
            answer = await self._hands.api.create(_declared(effect))
        except api_errors.AlreadyExistsError:
            known = await self._hands.api.get(resources.BY_KIND[key.kind], key.namespace, key.name)
            if known is None:
                return
            answer = known
        self._answered(answer)

    async def _remove(self, effect: effects.RemoveObject) -> None:
        key = effect.key
        held = self._store.stored.get(key)
        found = self._store.by_key.get(key)
        if held is None or found is None or held.uid != effect.uid:
            return
        if not found.is_deleting:
            await self._hands.api.delete(
                resources.BY_KIND[key.kind],
                key.namespace,
                key.name,
                uid=effect.uid,
                propagation="Background",
            )
        if resources.FINALIZER in held.finalizers:
            await self._hands.statuses.keep_finalizer(key, held, is_wanted=False)

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
