"""Asking observers and lock providers at our own pace: what is at work often, what rests seldom.

Everything seen is held as facts by uid; who looks on is told whom a change concerns.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from hoodie import backoff, clock, identity
from hoodie_operator.api import kinds, objects
from hoodie_operator.cluster.control import (
    concurrency_limits,
    metrics,
    object_states,
    ports,
    snapshots,
)
from hoodie_operator.cluster.control.object_states import Look
from hoodie_operator.cluster.informer import store
from hoodie_operator.reconcile import dependents, effective, facts, observations, observed_times

logger = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_SPREAD: Final = 0.2
_FAILED_S: Final = 5.0
_PROGRESS_S: Final = 3.0
_BATCH_MAX: Final = 200
_AT_ONCE_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often what is looked at.

    Attributes:
        busy_s: Between two looks at a table with a run at work.
        idle_s: Between two looks at a table at rest.
        source_s: Between two looks at a source.
    """

    busy_s: float = 0.5
    idle_s: float = 30.0
    source_s: float = 10.0

    @property
    def periods(self) -> observations.Periods:
        """The same as decisions take it."""
        return observations.Periods(
            table_busy=int(self.busy_s * 1000),
            table_idle=int(self.idle_s * 1000),
            table_unreadable=5_000,
            source=int(self.source_s * 1000),
            lock_ready=15_000,
            lock_waiting=1_000,
            lock_starting=1_000,
            unanswered=1_000,
        )


class Observation:
    """Looks at everything for as long as it runs."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        known: store.Store,
        states: object_states.ObjectStates,
        current: snapshots.Snapshots,
        adapters: ports.Adapters,
        enqueue: Callable[[Iterable[objects.ObjectKey]], None],
        *,
        pace: Pace,
        counted: metrics.Metrics,
        our_clock: clock.Clock,
        random: identity.Random,
    ) -> None:
        """Have observed nothing yet.

        Args:
            known: The objects.
            states: Hold what is observed, and when it is observed next.
            current: Says which tables may be observed.
            adapters: Observe.
            enqueue: Takes the objects that a new observation affects.
            pace: How often what is observed.
            counted: Metrics of observations.
            our_clock: The operator's.
            random: For jitter.
        """
        self._store = known
        self._states = states
        self._snapshots = current
        self._adapters = adapters
        self._enqueue = enqueue
        self._periods = pace.periods
        self._metrics = counted
        self._clock = our_clock
        self._random = random
        self._attempt_looks: dict[facts.RunId, Look] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = concurrency_limits.KeyedSemaphore(_AT_ONCE_MAX)

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            self._look_at_tables()
            self._look_at_locks()
            self._look_at_sources()
            self._look_at_runs()
            await asyncio.sleep(_TICK_S)

    def _look_at_tables(self) -> None:
        groups: dict[str, list[ports.TableLook]] = {}
        # By namespace, so that a crowd in one is never ahead of what there is in others.
        counts: Counter[str] = Counter()
        now_s = self._clock.monotonic_s()
        for found in self._store.by_key.all_of(kinds.HUDI_TABLE):
            if self._is_due(found, now_s) and counts[found.key.namespace] < _BATCH_MAX:
                table = cast("objects.Table", found)
                uri = self._store.by_key.place(table)
                if uri is None or not self._snapshots.may_be_observed(table):
                    continue
                look = ports.TableLook(
                    table=table, uri=uri, settings=effective.write_settings(table.spec, None)
                )
                groups.setdefault(self._adapters.observers.observer_of(table), []).append(look)
                counts[found.key.namespace] += 1
        for observer, looks in groups.items():
            states = [self._state(each.table) for each in looks]
            self._begin([each.look for each in states], self._tables_seen(looks), observer)

    async def _tables_seen(self, looks: list[ports.TableLook]) -> None:
        with self._metrics.observed_s.time():
            seen = await self._adapters.observers.look_at_tables(looks)
        concerned: set[objects.ObjectKey] = set()
        for look in looks:
            uid = look.table.uid
            if self._store.is_gone(uid):
                continue
            state, found = self._state(look.table), seen.get(uid)
            if found is None:
                self._schedule(look.table, is_answered=False)
                continue
            before, state.table = state.table, found
            self._schedule(look.table)
            if found.problem is not None:
                self._metrics.unobserved.labels(found.problem.kind).inc()
            ended_ms = observed_times.last_end_ms(
                observations.runs_of_table(self._snapshots.take(), look.table)
            )
            # The first look after an end counts, even where it tells nothing new.
            if (
                before is None
                or not _is_same(before, found)
                or (ended_ms is not None and before.observed_ms <= ended_ms)
            ):
                concerned.update(dependents.of(self._store.by_key, look.table))
        self._enqueue(concerned)

    def _look_at_locks(self) -> None:
        now_s = self._clock.monotonic_s()
        for found in self._store.by_key.all_of(kinds.LOCK_PROVIDER):
            if self._is_due(found, now_s):
                lock = cast("objects.Lock", found)
                look = self._state(lock).look
                self._begin([look], self._lock_seen(lock), f"lock {lock.uid}")

    async def _lock_seen(self, lock: objects.Lock) -> None:
        before = self._state(lock).lock
        found = await self._adapters.locks.look(lock, before)
        if self._store.is_gone(lock.uid):
            return
        state = self._state(lock)
        state.lock = found
        self._schedule(lock)
        if before != found:
            self._enqueue(dependents.of(self._store.by_key, lock))

    def _look_at_sources(self) -> None:
        now_s = self._clock.monotonic_s()
        for found in self._store.by_key.all_of(kinds.WRITER):
            if not self._is_due(found, now_s):
                continue
            writer = cast("objects.Writer", found)
            found_table = self._store.by_key.get(
                objects.ObjectKey(
                    kind=kinds.HUDI_TABLE.name,
                    namespace=writer.key.namespace,
                    name=writer.spec.table_ref.name,
                )
            )
            table = cast("objects.Table | None", found_table)
            if table is None or not self._snapshots.may_be_observed(table):
                continue
            observer = self._adapters.observers.observer_of(table)
            look = self._state(writer).look
            self._begin([look], self._source_seen(writer, table), observer)

    async def _source_seen(self, writer: objects.Writer, table: objects.Table) -> None:
        found = await self._adapters.observers.look_at_source(writer, table)
        if self._store.is_gone(writer.uid):
            return
        state = self._state(writer)
        if found is None:
            self._schedule(writer, is_answered=False)
            return
        before, state.source = state.source, found
        self._schedule(writer)
        if before is None or replace(before, observed_ms=found.observed_ms) != found:
            self._enqueue(dependents.of(self._store.by_key, writer))

    def _look_at_runs(self) -> None:
        now_s = self._clock.monotonic_s()
        at_work = [each for each in self._store.attempts_at_work() if each.job is not None]
        self._attempt_looks = {
            each.id: self._attempt_looks.get(each.id) or Look() for each in at_work
        }
        for attempt in at_work:
            look = self._attempt_looks[attempt.id]
            if look.is_due(now_s):
                place = f"runs of {attempt.id.namespace}"
                self._begin([look], self._progress_seen(attempt, look), place)

    async def _progress_seen(self, attempt: store.Attempt, look: Look) -> None:
        assert attempt.job is not None
        told = await self._adapters.runs.progress(attempt.job, attempt.pods)
        self._later(look, _PROGRESS_S)
        if told is not None:
            self._enqueue(self._store.note_progress(attempt.id, told))
        # Some of what a run's Pods mean depends on the time.
        self._enqueue(self._store.reread(attempt.id))

    def _state(self, found: objects.AnyObject) -> object_states.ObjectState:
        """Return the record of an object that is in the store."""
        return self._states.of(found.key, found.uid)

    def _is_due(self, found: objects.AnyObject, now_s: float) -> bool:
        """Return whether an object is to be looked at; one that was edited is at once."""
        look = self._state(found).look
        if look.generation != found.generation:
            look.generation = found.generation
            look.make_due()
        if not look.is_due(now_s):
            return False
        # When is settled already; a decision that it is not to be observed is as of now.
        return self._next_ms(found, look.last) is not None

    def _next_ms(self, found: objects.AnyObject, last: observations.LastLook | None) -> int | None:
        return observations.next_ms(self._snapshots.take(), found, last, self._periods)

    def _schedule(self, found: objects.AnyObject, *, is_answered: bool = True) -> None:
        """Hold when an object that was just observed is observed next."""
        look = self._state(found).look
        at_ms = clock.monotonic_ms(self._clock)
        look.last = observations.LastLook(
            at_ms=at_ms, generation=found.generation, is_answered=is_answered
        )
        due_ms = self._next_ms(found, look.last)
        self._later(look, 0.0 if due_ms is None else max(due_ms - at_ms, 0) / 1000)

    def _later(self, look: Look, pause_s: float) -> None:
        jittered_s = backoff.jittered(pause_s, self._random.uniform(), _SPREAD)
        look.due_s = self._clock.monotonic_s() + jittered_s

    def _begin(self, looks: list[Look], looking: Coroutine[Any, Any, None], place: str) -> None:
        """Begin a look, one of some at once at a place: one that hangs blinds no other."""
        for look in looks:
            look.begin()
        task = asyncio.create_task(self._looked(looks, place, looking))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _looked(
        self, looks: list[Look], place: str, looking: Coroutine[Any, Any, None]
    ) -> None:
        try:
            async with self._turns.at(place):
                await looking
        except Exception:
            # A bug of ours about one object must not blind us to all others.
            logger.exception("observing at %s failed", place)
            for look in looks:
                self._later(look, _FAILED_S)
        finally:
            looking.close()  # It was not begun where the wait for others was cancelled.
            for look in looks:
                look.end()


def _is_same(before: facts.TableFacts, after: facts.TableFacts) -> bool:
    return replace(before, observed_ms=after.observed_ms) == after
