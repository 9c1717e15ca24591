"""Deciding about one object at a time, while what was decided about others is being done.

    watch, listing, answer, observation -> store -> dependents -> work queue -> decide -> act

Nothing is decided before everything has been listed, nor while something may have been missed. A
run that is about to start counts as started before the API server is asked to start it. The status
of an object reports what was refused; the refused action is retried with back-off.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from hoodie import backoff, clock, errors, identity
from hoodie_operator.api import (
    conditions,
    hudi_table,
    kinds,
    objects,
    resources,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.resources import Manifest
from hoodie_operator.api.states import State
from hoodie_operator.cluster import health, logs
from hoodie_operator.cluster.client import api_errors
from hoodie_operator.cluster.control import (
    actor,
    concurrency_limits,
    event_handler,
    object_states,
    observation,
    snapshots,
)
from hoodie_operator.cluster.informer import resync, store
from hoodie_operator.reconcile import (
    admission,
    decide,
    dependents,
    effects,
    facts,
    own_runs,
    verdicts,
    world,
)

logger = logging.getLogger(__name__)

_SETTLED_S: Final = 120.0
"""When an object is decided about again though nothing happened: time passes."""

_AT_ONCE_MAX: Final = 16
"""Actions at once, of the objects of one lock."""

_PAUSE_S: Final = 0.5
_SPREAD: Final = 0.2
_SLICE_S: Final = 0.02
_SERVE_S: Final = 300.0
"""After so long a lock server is declared again: somebody may have taken it away."""

_QUEUE_S: Final = 0.2
"""Between two looks at all that waits for a slot."""

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
        creations_kept_s: How long an ended attempt to create a table is kept after the table is
            there, so that its logs can be read.
        listing_s: Between two listings of everything, where no watch was cut.
        late_s: See `health.Watches`.
        pace: How often what is looked at.
    """

    limits: world.Limits
    namespaces: Sequence[str] = ()
    runs_kept: int = 5
    creations_kept_s: float = 3600.0
    listing_s: float = resync.PERIOD_S
    late_s: float = health.LATE_S
    pace: observation.Pace = field(default_factory=observation.Pace)


class Controller:
    """One leader's work."""

    def __init__(
        self,
        known: store.Store,
        services: actor.Services,
        settings: Settings,
        *,
        probes: health.Health,
        random: identity.Random,
    ) -> None:
        """Decide nothing yet.

        Args:
            known: What is known of the cluster.
            services: What actions go through.
            settings: How to work.
            probes: Told of how far the watches are.
            random: For jitter.
        """
        scope = resync.Scope(namespaces=settings.namespaces, period_s=settings.listing_s)
        our_clock = services.clock
        self.states = object_states.ObjectStates()
        self.handler = event_handler.EventHandler(
            services.api, known, self.states, scope, probes=probes, our_clock=our_clock
        )
        self._snapshots = snapshots.Snapshots(known, self.states, settings.limits, our_clock)
        self._observation = observation.Observation(
            known,
            self.states,
            self._snapshots,
            services.adapters,
            self.handler.enqueue,
            pace=settings.pace,
            counted=services.counted,
            our_clock=our_clock,
            random=random,
        )
        self._actor = actor.Actor(services, known, self._snapshots, self.handler)
        self._store = known
        self._services = services
        self._settings = settings
        self._health = probes
        self._clock: clock.Clock = our_clock
        self._random = random
        self._turns = concurrency_limits.KeyedSemaphore(_AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._began_s = our_clock.monotonic_s()

    async def run(self) -> None:
        """List, look, decide and act, for ever; whatever ends ends all."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.handler.listings.run())
            await self.handler.listings.is_synced.wait()
            await self._withdraw_unstarted()
            self.handler.enqueue([*self._store.by_key, *self._store.stored])
            tasks.create_task(self._observation.run())
            tasks.create_task(self._keep_observers())
            tasks.create_task(self._keep_queue())
            tasks.create_task(self._decide())

    async def _withdraw_unstarted(self) -> None:
        """Have nothing start that an earlier leader has asked for, and that is still under way."""
        for job in self._store.unstarted_jobs():
            metadata = job["metadata"]
            namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
            started = await self._withdrawn(job)
            if started is None:
                self.handler.on_gone(resources.JOB, namespace, name, uid)
            else:
                self.handler.on_answer(started)

    async def _withdrawn(self, job: Manifest) -> Manifest | None:
        """Withdraw a Job, however long that takes; return it if it was started after all."""
        while True:
            try:
                return await self._services.adapters.runs.withdraw(job)
            except api_errors.ApiError as error:
                self._health.problem = f"a Job of an earlier leader stays: {error}"
                logger.warning("nothing is decided yet: %s", self._health.problem)
                await asyncio.sleep(_PAUSE_S)
                self._health.problem = ""

    async def finish(self) -> None:
        """Wait for what is being done."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _keep_observers(self) -> None:
        """Have observers kept for what is declared, when that has changed and every now and then.

        A status tells them nothing; of many tables at work there is always one that has changed.
        """
        kept: list[tuple[str, hudi_table.HudiTableSpec]] | None = None
        kept_s = 0.0
        while True:
            self.handler.is_table_changed.clear()
            tables = cast("list[objects.Table]", self._store.by_key.all_of(kinds.HUDI_TABLE))
            observed = [each for each in tables if self._snapshots.may_be_observed(each)]
            declared = [(each.uid, each.spec) for each in observed]
            now_s = self._clock.monotonic_s()
            if declared != kept or now_s - kept_s >= _OBSERVERS_S:
                try:
                    await self._services.adapters.observers.keep(observed)
                except errors.HoodieError as error:
                    logger.warning("observers: %s", error)
                    await asyncio.sleep(_UNKEPT_S)
                    continue
                kept, kept_s = declared, now_s
            try:
                async with asyncio.timeout(_OBSERVERS_S):
                    await self.handler.is_table_changed.wait()
                # What comes together is seen to together.
                await asyncio.sleep(_PAUSE_S)
            except TimeoutError:
                continue

    async def _keep_queue(self) -> None:
        """Have TableActions decided about that wait for a slot, when there may be one for them."""
        while True:
            await self.handler.are_slots_changed.wait()
            self.handler.are_slots_changed.clear()
            self.handler.enqueue(admission.to_decide(self._snapshots.take()))
            await asyncio.sleep(_QUEUE_S)

    # Deciding

    async def _decide(self) -> None:
        while True:
            # Else it is not known whether something is at work.
            await self.handler.listings.wait_until_certain()
            began_s = self._clock.monotonic_s()
            while (
                self.handler.listings.is_certain and self._clock.monotonic_s() - began_s < _SLICE_S
            ):
                due = self.handler.queue.pop(self._clock.monotonic_s())
                if due is None:
                    break
                key, due_s = due
                self._services.counted.waited_s.observe(self._clock.monotonic_s() - due_s)
                self._decide_about(key)
            await self._rest()

    async def _rest(self) -> None:
        """Wait for the next key that is due; let others work in any case."""
        due_s = self.handler.queue.next_due_s()
        now_s = self._clock.monotonic_s()
        if due_s is not None and due_s <= now_s:
            await asyncio.sleep(0)
            return
        self.handler.is_enqueued.clear()
        try:
            async with asyncio.timeout(1.0 if due_s is None else due_s - now_s):
                await self.handler.is_enqueued.wait()
        except TimeoutError:
            return

    def _decide_about(self, key: objects.ObjectKey) -> None:
        stored = self._store.stored.get(key)
        if stored is None:
            return
        if stored.problem is not None:
            self._begin(key, stored, self._actor.report_unreadable(key, stored))
            return
        found = self._store.by_key[key]
        try:
            with self._services.counted.decision_s.labels(key.kind).time():
                todo = self._todo(found, stored)
        except Exception as error:
            # A bug of ours about one object must not end the work on all others.
            logger.exception("%s: cannot be decided about", key, extra=logs.about(key))
            pause_s = self._failed(key, stored, error, is_reported=False)
            self.handler.enqueue_later(key, pause_s)
            return
        self._services.counted.decisions.labels(key.kind, "act" if todo else "rest").inc()
        if todo:
            self._begin_all(found, stored, todo)
        else:
            self._settle(found, stored)

    def _todo(self, found: objects.AnyObject, stored: store.Stored) -> list[effects.Effect]:
        """Return what is to be done about an object, without what would come to nothing."""
        return [
            effect
            for effect in decide.decide(self._snapshots.take(), found.key)
            if not self._is_noop(found, stored, effect)
        ]

    def _is_noop(
        self, found: objects.AnyObject, stored: store.Stored, effect: effects.Effect
    ) -> bool:
        match effect:
            case effects.ServeLock():
                served = self._state(found).last_served
                return (
                    served is not None
                    and (served.generation, served.effect) == (found.generation, effect)
                    and self._clock.monotonic_s() - served.at_s <= _SERVE_S
                )
            case effects.SetStatus():
                is_told = self._services.statuses.are_same(
                    effect.key.kind, found.status, effect.status
                )
                return is_told or self._is_too_early(found, effect.status)
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

    def _settle(self, found: objects.AnyObject, stored: store.Stored) -> None:
        """Remove old attempts, or decide about an object again later: time passes."""
        past = self._past(found)
        if past:
            # An act like any other: where it changes nothing the streak makes the next one wait.
            self._begin(found.key, stored, self._actor.forget_runs(found, past))
            return
        state = self._state(found)
        # What is queued comes up when there is a slot for it.
        is_settled = verdicts.is_settled(found) or found.status.state == State.QUEUED.value
        idle_s = state.note_idle_round(is_settled=is_settled)
        pause_s = _SETTLED_S if idle_s is None else idle_s
        if state.refusal is not None and self._is_retry_pending(found):
            # A settled object may wait for a retry, too: a lock answers, but the API server refused
            # a change of its server.
            wait_ms = state.refusal.due_ms - self._clock.now_ms()
            pause_s = max(wait_ms, 0) / 1000 + _PAUSE_S
        self.handler.enqueue_later(found.key, self._jittered(pause_s))

    def _past(self, found: objects.AnyObject) -> list[store.Attempt]:
        """Return the ended attempts to remove: recorded in the status, and not needed there."""
        told = getattr(found.status, "runs", None)
        if told is None:
            return []
        ended = [
            run
            for run in facts.of_owner(self._store.runs, found)
            if not run.is_running
            and run.id.attempt <= told.attempts
            and (told.current is None or told.current.number != run.id.attempt)
        ]
        kept = ended[-self._settings.runs_kept :]
        past = [
            self._store.attempt(run.id)
            for run in ended
            if run not in kept or self._is_past_creation(found, run)
        ]
        # A Job that something else keeps from going was asked to go already.
        return [
            attempt
            for attempt in past
            if attempt is not None
            and attempt.job is not None
            and attempt.job["metadata"].get("deletionTimestamp") is None
        ]

    def _is_past_creation(self, found: objects.AnyObject, run: facts.Run) -> bool:
        if not isinstance(found.spec, hudi_table.HudiTableSpec) or run.ended_ms is None:
            return False
        kept_ms = int(self._settings.creations_kept_s * 1000)
        is_old = self._clock.now_ms() - run.ended_ms >= kept_ms
        return is_old and own_runs.is_recorded(cast("objects.Table", found), run)

    # Acting

    def _begin_all(
        self, found: objects.AnyObject, stored: store.Stored, todo: Sequence[effects.Effect]
    ) -> None:
        for effect in todo:
            match effect:
                case effects.StartRun():
                    self._store.mark_started(effect)
                case effects.ServeLock():
                    self._state(found).last_served = object_states.Served(
                        generation=found.generation,
                        effect=effect,
                        at_s=self._clock.monotonic_s(),
                    )
        self._begin(found.key, stored, self._actor.carry_out(found, stored, todo))

    def _begin(self, key: objects.ObjectKey, stored: store.Stored, acts: _Acting) -> None:
        self.handler.queue.begin(key)
        task = asyncio.create_task(self._act(key, stored, acts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _act(self, key: objects.ObjectKey, stored: store.Stored, acts: _Acting) -> None:
        """Do what was decided; then the object is decided about again, sooner or later.

        Args:
            key: The object.
            stored: Its version that was decided about. It may be gone, made again or edited by the
                time the acts end: what they come to concerns that version alone.
            acts: What was decided.
        """
        pause_s = 0.0
        try:
            async with self._turns.at(self._place(key)):
                await acts
        except (api_errors.ConflictError, api_errors.NotFoundError) as error:
            # It has moved on; what is there now is on its way to us.
            logger.debug("%s: %s", key, error)
            pause_s = self._failed(key, stored, error, is_reported=False)
            state = self._current(key, stored)
            if state is not None and state.fails_repeatedly:
                self.handler.listings.relist(resources.BY_KIND[key.kind])
        except api_errors.NotLeadingError as error:
            # No author's affair: another leads, or the lease is renewed in a moment.
            logger.info("%s: %s", key, error)
            pause_s = self._failed(key, stored, error, is_reported=False)
        except errors.HoodieError as error:
            pause_s = self._failed(key, stored, error, is_reported=True)
        except Exception as error:
            logger.exception("%s: what was decided could not be done", key, extra=logs.about(key))
            pause_s = self._failed(key, stored, error, is_reported=False)
        else:
            pause_s = self._succeeded(key, stored)
        finally:
            self.handler.queue.end(key)
            self.handler.enqueue_later(key, pause_s)
            self.handler.is_enqueued.set()

    def _place(self, key: objects.ObjectKey) -> str:
        """Return what acts about an object may wait for: the lock of its table, for a fence."""
        found = self._store.by_key.get(key)
        lock = None if found is None else dependents.lock_of(self._store.by_key, found)
        return key.namespace if lock is None else str(lock)

    def _succeeded(self, key: objects.ObjectKey, stored: store.Stored) -> float:
        """Return for how long to wait before the next decision: after many in a row, longer."""
        state = self._current(key, stored)
        if state is None:
            return 0.0
        found = self._store.by_key.get(key)
        is_retry_pending = found is not None and self._is_retry_pending(found)
        return state.note_success(is_retry_pending=is_retry_pending)

    def _failed(
        self, key: objects.ObjectKey, stored: store.Stored, error: Exception, *, is_reported: bool
    ) -> float:
        """Return for how long to wait before the next decision; a refusal is reported at once.

        Args:
            key: The object.
            stored: Its version that was decided about.
            error: What went wrong.
            is_reported: Whether the object's status reports it to its author.
        """
        state = self._current(key, stored)
        if state is None:
            return 0.0
        pause_s = self._jittered(state.note_failure())
        found = self._store.by_key.get(key)
        if not is_reported or found is None or self._is_retry_pending(found):
            # Where the API server refuses the report as well, the report waits.
            return pause_s
        logger.warning("%s: %s", key, error, extra=logs.about(key, type(error).__name__))
        state.refusal = facts.Refusal(
            generation=stored.generation,
            message=str(error),
            due_ms=self._clock.now_ms() + int(pause_s * 1000),
            is_namespace_ending=isinstance(error, api_errors.NamespaceEndingError),
            is_fenced_off=isinstance(error, errors.FencedError),
        )
        return 0.0

    def _current(
        self, key: objects.ObjectKey, stored: store.Stored
    ) -> object_states.ObjectState | None:
        """Return the record of the object that was decided about, edited or not; None if gone."""
        now = self._store.stored.get(key)
        is_there = now is not None and now.uid == stored.uid
        return self.states.of(key, stored.uid) if is_there else None

    def _state(self, found: objects.AnyObject) -> object_states.ObjectState:
        return self.states.of(found.key, found.uid)

    def _is_retry_pending(self, found: objects.AnyObject) -> bool:
        return self._state(found).is_retry_pending(found.generation, self._clock.now_ms())

    def _jittered(self, pause_s: float) -> float:
        return backoff.jittered(pause_s, self._random.uniform(), _SPREAD)
