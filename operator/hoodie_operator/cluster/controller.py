"""Deciding about one object at a time, while what was decided about others is being done.

    watch, listing, answer, look -> what changed -> whom it concerns -> queue -> decide -> act

Nothing is decided before everything has been listed, nor while something may have been missed. What
is about to be started is known before the API server is asked to start it. What is refused is told
on the object, and tried again later and later.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from hoodie import clock, errors, identity
from hoodie_operator.api import (
    conditions,
    hudi_table,
    kinds,
    objects,
    resources,
    table_action,
    writer,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.resources import Manifest, Resource
from hoodie_operator.cluster import (
    acting,
    admission,
    api_errors,
    health,
    listings,
    logs,
    observation,
    queues,
    store,
    turns,
)
from hoodie_operator.reconcile import (
    decide,
    dependents,
    effective,
    effects,
    facts,
    gates,
    hudi_tables,
    verdicts,
    world,
)

logger = logging.getLogger(__name__)

_SETTLED_S: Final = 120.0
_UNSETTLED_S: Final = 1.0
_UNSETTLED_MAX_S: Final = 5.0
"""When an object is decided about again though nothing happened: time passes.

One that waits is looked at soon after something was done about it, then less often.
"""

_AT_ONCE_MAX: Final = 16
_AGAIN_MAX: Final = 5
"""So often in a row something may be done about an object at once; then it waits, ever longer."""

_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 120.0
_SLICE_S: Final = 0.02
_SERVE_S: Final = 300.0
"""After so long a lock server is declared again: somebody may have taken it away."""

_OBSERVERS_S: Final = 60.0
_UNKEPT_S: Final = 5.0
_FIRST_LOOKS_S: Final = 60.0
_NOT_YET: Final = frozenset({Reason.NOT_OBSERVED.value, Reason.LOCK_NOT_READY.value})
"""What a leader that has just begun is not to tell of objects that were told more of before."""

_Acting: TypeAlias = Coroutine[Any, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the controller works.

    Attributes:
        limits: As decisions take them.
        namespaces: Which are watched; none for all.
        runs_kept: Ended attempts that are kept of each object.
        listing_s: Between two listings of everything, where no watch was cut.
        late_s: See `health.Watches`.
        pace: How often what is looked at.
    """

    limits: world.Limits
    namespaces: Sequence[str] = ()
    runs_kept: int = 5
    listing_s: float = listings.PERIOD_S
    late_s: float = health.LATE_S
    pace: observation.Pace = field(default_factory=observation.Pace)


class Controller:
    """One leader's work."""

    def __init__(
        self,
        known: store.Store,
        hands: acting.Hands,
        settings: Settings,
        *,
        probes: health.Health,
        random: identity.Random,
    ) -> None:
        """Decide nothing yet.

        Args:
            known: What is known of the cluster.
            hands: What acts.
            settings: How to work.
            probes: Told of how far the watches are.
            random: For jitter.
        """
        self.queue = queues.Queue()
        self.observation = observation.Observation(
            known,
            observation.Eyes(observers=hands.observers, locks=hands.locks, runs=hands.runs),
            self.changed,
            may_look=self._may_look,
            pace=settings.pace,
            counted=hands.counted,
            our_clock=hands.clock,
            random=random,
        )
        self.listings = listings.Listings(
            hands.api,
            known,
            probes,
            listings.Scope(namespaces=settings.namespaces, period_s=settings.listing_s),
            self._listed,
        )
        self._actor = acting.Actor(
            hands,
            known,
            answered=self._answered,
            effective_table=self._effective_table,
            look_for_jobs=self._look_for_jobs,
        )
        self._store = known
        self._hands = hands
        self._settings = settings
        self._health = probes
        self._clock: clock.Clock = hands.clock
        self._random = random
        self._wake = asyncio.Event()
        self._turns = turns.Turns(_AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[str, facts.Refusal] = {}
        self._failures: dict[objects.ObjectKey, int] = {}
        self._streaks: dict[objects.ObjectKey, int] = {}
        self._rests: dict[objects.ObjectKey, int] = {}
        self._served: dict[str, tuple[tuple[int, effects.ServeLock], float]] = {}
        self._looked_for: dict[str, set[facts.RunId]] = {}
        self._tables_changed = asyncio.Event()
        self._began_s = hands.clock.monotonic_s()

    def hear(self, change: str | None, manifest: Manifest) -> None:
        """Hear from a watch of a change of an object (see `watching.Heard`)."""
        resource = resources.of(manifest)
        metadata = manifest["metadata"]
        is_gone = change == "DELETED"
        self._health.watches.heard(manifest, is_gone=is_gone)
        if is_gone:
            self._drop(resource, metadata["namespace"], metadata["name"], metadata["uid"])
            return
        self.listings.heard(change, resource, metadata)
        self._told(self._store.take(manifest), manifest)

    def changed(self, keys: Iterable[objects.ObjectKey]) -> None:
        """Decide soon about objects that something new concerns."""
        now_s = self._clock.monotonic_s()
        for key in keys:
            self.queue.add(key, now_s)
        self._wake.set()

    async def run(self) -> None:
        """List, look, decide and act, for ever; whatever ends ends all."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.listings.run())
            await self.listings.is_synced.wait()
            await self._withdraw_unstarted()
            self.changed([*self._store.by_key, *self._store.stored])
            tasks.create_task(self.observation.run())
            tasks.create_task(self._keep_observers())
            tasks.create_task(self._decide())

    async def _withdraw_unstarted(self) -> None:
        """Have nothing start that an earlier leader has asked for, and that is still under way."""
        for job in self._store.unstarted_jobs():
            metadata = job["metadata"]
            namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
            started = await self._withdrawn(job)
            if started is None:
                self._drop(resources.JOB, namespace, name, uid)
            else:
                self._answered(started)

    async def _withdrawn(self, job: Manifest) -> Manifest | None:
        """Withdraw a Job, however long that takes; return it if it was started after all."""
        while True:
            try:
                return await self._hands.runs.withdraw(job)
            except api_errors.ApiError as error:
                self._health.problem = f"a Job of an earlier leader stays: {error}"
                logger.warning("nothing is decided yet: %s", self._health.problem)
                await asyncio.sleep(_PAUSE_S)
                self._health.problem = ""

    async def finish(self) -> None:
        """Wait for what is being done."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    # What is known

    def _answered(self, manifest: Manifest) -> None:
        """Know what the API server answered; the watch has to bring it, too, if it has not yet."""
        if resources.of(manifest) in resources.WATCHED and self._store.is_news(manifest):
            self._health.watches.expect(manifest)
            self._told(self._store.take(manifest), manifest)

    def _listed(self, changed: set[objects.ObjectKey], gone: Sequence[objects.AnyObject]) -> None:
        for found in gone:
            self._forget(found)
        self._told(changed)

    def _drop(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        key = objects.ObjectKey(kind=resource.kind, namespace=namespace, name=name)
        before = self._store.by_key.get(key)
        changed = self._store.drop(resource, namespace, name, uid)
        if before is not None and key in changed:
            self._forget(before)
        self._told(changed)

    def _forget(self, gone: objects.AnyObject) -> None:
        self.observation.forget(gone.uid)
        self._refusals.pop(gone.uid, None)
        self._served.pop(gone.uid, None)
        self._looked_for.pop(gone.uid, None)
        self._failures.pop(gone.key, None)
        self._streaks.pop(gone.key, None)
        self._rests.pop(gone.key, None)
        self.changed(dependents.of(self._store.by_key, gone))

    def _told(self, keys: set[objects.ObjectKey], manifest: Manifest | None = None) -> None:
        """Have everybody decided about whom a change concerns."""
        concerned: set[objects.ObjectKey] = set()
        for key in keys:
            if key.kind == kinds.HUDI_TABLE.name:
                self._tables_changed.set()
            found = self._store.by_key.get(key)
            if found is None:
                concerned.add(key)
                continue
            concerned.update(dependents.of(self._store.by_key, found))
            self._look_for_pods(found)
        if manifest is not None and resources.of(manifest) == resources.JOB:
            for key in concerned:
                if key.kind == kinds.HUDI_TABLE.name:
                    self.observation.look_soon(key)
        self.changed(concerned)

    def _look_for_pods(self, found: objects.AnyObject) -> None:
        """Have Pods listed once where a Job has ended and its pod, which tells how, was not seen.

        Its watch may be behind that of Jobs. What is not there then is gone.
        """
        missing = set(self._store.ends_without_pod(found.uid))
        looked_for = self._looked_for.get(found.uid, set())
        if missing - looked_for:
            self._looked_for[found.uid] = missing
            self.listings.relist(resources.POD)

    async def _look_for_jobs(self) -> None:
        self.listings.relist(resources.JOB)
        await self.listings.wait_until_certain()

    async def _keep_observers(self) -> None:
        """Have observers kept for what is declared, when that has changed and every now and then.

        A status tells them nothing; of many tables at work there is always one that has changed.
        """
        kept: list[tuple[str, hudi_table.HudiTableSpec]] | None = None
        kept_s = 0.0
        while True:
            self._tables_changed.clear()
            tables = cast("list[objects.Table]", self._store.by_key.all_of(kinds.HUDI_TABLE))
            observed = [each for each in tables if self._may_look(each)]
            declared = [(each.uid, each.spec) for each in observed]
            now_s = self._clock.monotonic_s()
            if declared != kept or now_s - kept_s >= _OBSERVERS_S:
                try:
                    await self._hands.observers.keep(observed)
                except errors.HoodieError as error:
                    logger.warning("observers: %s", error)
                    await asyncio.sleep(_UNKEPT_S)
                    continue
                kept, kept_s = declared, now_s
            try:
                async with asyncio.timeout(_OBSERVERS_S):
                    await self._tables_changed.wait()
                # What comes together is seen to together.
                await asyncio.sleep(_PAUSE_S)
            except TimeoutError:
                continue

    def _may_look(self, table: objects.Table) -> bool:
        return admission.may_be_observed(self._world(), table)

    # Deciding

    async def _decide(self) -> None:
        while True:
            # Else it is not known whether something is at work.
            await self.listings.wait_until_certain()
            began_s = self._clock.monotonic_s()
            while self.listings.is_certain and self._clock.monotonic_s() - began_s < _SLICE_S:
                due = self.queue.pop(self._clock.monotonic_s())
                if due is None:
                    break
                key, due_s = due
                self._hands.counted.waited_s.observe(self._clock.monotonic_s() - due_s)
                self._decide_about(key)
            await self._rest()

    async def _rest(self) -> None:
        """Wait for the next key that is due; let others work in any case."""
        due_s = self.queue.next_due_s()
        now_s = self._clock.monotonic_s()
        if due_s is not None and due_s <= now_s:
            await asyncio.sleep(0)
            return
        self._wake.clear()
        try:
            async with asyncio.timeout(1.0 if due_s is None else due_s - now_s):
                await self._wake.wait()
        except TimeoutError:
            return

    def _decide_about(self, key: objects.ObjectKey) -> None:
        stored = self._store.stored.get(key)
        if stored is None:
            return
        if stored.problem is not None:
            self._begin(key, self._actor.tell_of_unreadable(key, stored))
            return
        found = self._store.by_key[key]
        try:
            with self._hands.counted.decision_s.labels(key.kind).time():
                todo = self._todo(found, stored)
        except Exception as error:
            # A bug of ours about one object must not end the work on all others.
            logger.exception("%s: cannot be decided about", key, extra=logs.about(key))
            self._again(key, self._failed(key, error, is_told=False))
            return
        self._hands.counted.decisions.labels(key.kind, "act" if todo else "rest").inc()
        if todo:
            self._begin_all(found, stored, todo)
        else:
            self._settle(found)

    def _todo(self, found: objects.AnyObject, stored: store.Stored) -> list[effects.Effect]:
        """Return what is to be done about an object, without what would come to nothing."""
        return [
            effect
            for effect in decide.decide(self._world(), found.key)
            if not self._is_in_vain(found, stored, effect)
        ]

    def _is_in_vain(
        self, found: objects.AnyObject, stored: store.Stored, effect: effects.Effect
    ) -> bool:
        match effect:
            case effects.ServeLock():
                served, served_s = self._served.get(found.uid, (None, 0.0))
                is_late = self._clock.monotonic_s() - served_s > _SERVE_S
                return served == (found.generation, effect) and not is_late
            case effects.SetStatus():
                return self._is_too_early(found, effect.status)
            case effects.RemoveObject():
                # What is going goes with its last finalizer, and we may take ours alone.
                is_ours = resources.FINALIZER in stored.finalizers
                return effect.key == found.key and found.is_deleting and not is_ours
        return False

    def _is_too_early(self, found: objects.AnyObject, status: conditions.Status) -> bool:
        """Return whether a status only says that we have just begun, and the one before more."""
        ready = status.condition(conditions.Type.READY)
        was_told = found.status.observed_generation == found.generation
        is_new = self._clock.monotonic_s() - self._began_s < _FIRST_LOOKS_S
        return was_told and is_new and ready is not None and ready.reason in _NOT_YET

    def _world(self) -> world.World:
        seen = self.observation.seen
        return world.World(
            now_ms=self._clock.now_ms(),
            monotonic_ms=clock.monotonic_ms(self._clock),
            limits=self._settings.limits,
            by_key=self._store.by_key,
            seen=facts.Facts(
                tables=seen.tables,
                sources=seen.sources,
                locks=seen.locks,
                runs=self._store.runs,
                at_work=self._store.runs_at_work,
                refusals=self._refusals,
                waits=self._store.waits,
            ),
        )

    def _settle(self, found: objects.AnyObject) -> None:
        """Decide about an object again though nothing happens: time passes."""
        self._streaks.pop(found.key, None)
        if self._is_refused(found.key):
            # What is settled may wait for a next try, too: a lock answers whose server was refused.
            wait_ms = self._refusals[found.uid].due_ms - self._clock.now_ms()
            pause_s = max(wait_ms, 0) / 1000 + _PAUSE_S
        elif verdicts.is_settled(found):
            self._rests.pop(found.key, None)
            pause_s = _SETTLED_S
        else:
            rests = self._rests[found.key] = self._rests.get(found.key, 0) + 1
            pause_s = min(_UNSETTLED_S * rests, _UNSETTLED_MAX_S)
        self._again(found.key, pause_s * (0.8 + 0.4 * self._random.uniform()))
        past = self._past(found)
        if past:
            self._begin(found.key, self._actor.forget_runs(found, past))

    def _effective_table(self, found: objects.AnyObject) -> effective.EffectiveTable | None:
        """Return what runs of an object are told of their table now; None where that is nothing."""
        wanted: effective.EffectiveTable | verdicts.Verdict | None = None
        if isinstance(found.spec, hudi_table.HudiTableSpec):
            wanted = hudi_tables.resolve(self._world(), cast("objects.Table", found))
        elif isinstance(found.spec, writer.WriterSpec | table_action.TableActionSpec):
            wanted = gates.target(self._world(), cast("gates.Runner", found)).wanted
        return wanted if isinstance(wanted, effective.EffectiveTable) else None

    def _past(self, found: objects.AnyObject) -> list[store.Attempt]:
        """Return the attempts that nobody needs: ended, told of, and older than what is kept."""
        told = getattr(found.status, "runs", None)
        if told is None:
            return []
        past = [
            attempt
            for run in facts.of_owner(self._store.runs, found)
            if not run.is_running
            and run.id.attempt <= told.attempts
            and (told.current is None or told.current.number != run.id.attempt)
            and (attempt := self._store.attempt(run.id)) is not None
            and attempt.job is not None
        ]
        return past[: -self._settings.runs_kept]

    def _again(self, key: objects.ObjectKey, pause_s: float) -> None:
        self.queue.add(key, self._clock.monotonic_s() + pause_s)

    # Acting

    def _begin_all(
        self, found: objects.AnyObject, stored: store.Stored, todo: Sequence[effects.Effect]
    ) -> None:
        for effect in todo:
            match effect:
                case effects.StartRun():
                    self._store.mark_started(effect)
                case effects.ServeLock():
                    served = (found.generation, effect)
                    self._served[found.uid] = (served, self._clock.monotonic_s())
        self._begin(found.key, self._actor.carry_out(found, stored, todo))

    def _begin(self, key: objects.ObjectKey, acts: _Acting) -> None:
        self.queue.begin(key)
        task = asyncio.create_task(self._act(key, acts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _act(self, key: objects.ObjectKey, acts: _Acting) -> None:
        """Do what was decided; then the object is decided about again, sooner or later."""
        pause_s = 0.0
        try:
            async with self._turns.at(self._place(key)):
                await acts
        except (api_errors.ConflictError, api_errors.NotFoundError) as error:
            # It has moved on; what is there now is on its way to us.
            logger.debug("%s: %s", key, error)
            pause_s = self._failed(key, error, is_told=False)
            if self._failures[key] > _AGAIN_MAX:
                self.listings.relist(resources.BY_KIND[key.kind])
        except api_errors.NotLeadingError as error:
            # No author's affair: another leads, or the lease is renewed in a moment.
            logger.info("%s: %s", key, error)
            pause_s = self._failed(key, error, is_told=False)
        except errors.HoodieError as error:
            pause_s = self._failed(key, error, is_told=True)
        except Exception as error:
            logger.exception("%s: what was decided could not be done", key, extra=logs.about(key))
            pause_s = self._failed(key, error, is_told=False)
        else:
            pause_s = self._succeeded(key)
        finally:
            self.queue.end(key)
            self._again(key, pause_s)
            self._wake.set()

    def _place(self, key: objects.ObjectKey) -> str:
        """Return what acts about an object may wait for: the lock of its table, for a fence."""
        found = self._store.by_key.get(key)
        lock = None if found is None else dependents.lock_of(self._store.by_key, found)
        return key.namespace if lock is None else str(lock)

    def _succeeded(self, key: objects.ObjectKey) -> float:
        """Return for how long to wait before the next decision: after many in a row, longer."""
        if not self._is_refused(key):
            self._failures.pop(key, None)
            found = self._store.by_key.get(key)
            if found is not None:
                self._refusals.pop(found.uid, None)
        self._rests.pop(key, None)
        streak = self._streaks[key] = self._streaks.get(key, 0) + 1
        if streak <= _AGAIN_MAX:
            return 0.0
        return min(_PAUSE_S * 2.0 ** (streak - _AGAIN_MAX - 1), _PAUSE_MAX_S)

    def _failed(self, key: objects.ObjectKey, error: Exception, *, is_told: bool) -> float:
        """Return for how long to wait before the next decision; what was refused is told at once.

        Args:
            key: The object.
            error: What went wrong.
            is_told: Whether that is for the object's author to know.
        """
        count = self._failures[key] = self._failures.get(key, 0) + 1
        pause_s = min(_PAUSE_S * 2.0 ** (count - 1), _PAUSE_MAX_S)
        pause_s *= 0.8 + 0.4 * self._random.uniform()
        found = self._store.by_key.get(key)
        if found is not None:
            # What it was to be served with may be what was not done.
            self._served.pop(found.uid, None)
        if not is_told or found is None or self._is_refused(key):
            # Where telling of a refusal is refused as well, that waits.
            return pause_s
        logger.warning("%s: %s", key, error, extra=logs.about(key, type(error).__name__))
        self._refusals[found.uid] = facts.Refusal(
            generation=found.generation,
            message=str(error),
            due_ms=self._clock.now_ms() + int(pause_s * 1000),
            is_namespace_ending=isinstance(error, api_errors.NamespaceEndingError),
            is_fenced_off=isinstance(error, errors.FencedError),
        )
        return 0.0

    def _is_refused(self, key: objects.ObjectKey) -> bool:
        """Return whether an object waits for the next try of what was refused."""
        found = self._store.by_key.get(key)
        refusal = None if found is None else self._refusals.get(found.uid)
        return refusal is not None and refusal.due_ms > self._clock.now_ms()
