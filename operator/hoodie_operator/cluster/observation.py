"""Asking observers and lock providers at our own pace: what is at work often, what rests seldom.

Everything seen is held as facts by uid; who looks on is told whom a change concerns.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from hoodie import clock, identity
from hoodie_operator.api import kinds, objects
from hoodie_operator.cluster import metrics, ports, store, turns
from hoodie_operator.reconcile import dependents, effective, facts, hearing

logger = logging.getLogger(__name__)

_TICK_S: Final = 0.25
_UNREADABLE_S: Final = 5.0
_LOCK_READY_S: Final = 15.0
_LOCK_WAITING_S: Final = 1.0
_PROGRESS_S: Final = 3.0
_FORGET_S: Final = 60.0
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


@dataclass(slots=True)
class Seen:
    """Facts by uid, as decisions take them."""

    tables: dict[str, facts.TableFacts] = field(default_factory=dict)
    sources: dict[str, facts.SourceFacts] = field(default_factory=dict)
    locks: dict[str, facts.LockFacts] = field(default_factory=dict)

    def forget(self, uid: str) -> None:
        """Hold nothing of an object that is gone."""
        self.tables.pop(uid, None)
        self.sources.pop(uid, None)
        self.locks.pop(uid, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eyes:
    """Who looks.

    Attributes:
        observers: At tables and sources.
        locks: At lock providers.
        runs: At runs at work.
    """

    observers: ports.Observers
    locks: ports.Locks
    runs: ports.Runs


class Observation:
    """Looks at everything for as long as it runs."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        known: store.Store,
        eyes: Eyes,
        changed: Callable[[Iterable[objects.ObjectKey]], None],
        *,
        may_look: Callable[[objects.Table], bool],
        pace: Pace,
        counted: metrics.Metrics,
        our_clock: clock.Clock,
        random: identity.Random,
    ) -> None:
        """Have seen nothing yet.

        Args:
            known: The objects.
            eyes: Who looks.
            changed: Told whom something new concerns.
            may_look: Whether a table and its Writers' sources may be looked at.
            pace: How often what is looked at.
            counted: Counts looks.
            our_clock: The operator's.
            random: For jitter.
        """
        self.seen = Seen()
        self._store = known
        self._eyes = eyes
        self._changed = changed
        self._may_look = may_look
        self._pace = pace
        self._metrics = counted
        self._clock = our_clock
        self._random = random
        self._due_s: dict[str, float] = {}
        self._forgot_s = our_clock.monotonic_s()
        self._generations: dict[str, int] = {}
        self._looking: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = turns.Turns(_AT_ONCE_MAX)

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            self._forget_what_is_gone()
            self._look_at_tables()
            self._look_at_locks()
            self._look_at_sources()
            self._look_at_runs()
            await asyncio.sleep(_TICK_S)

    def look_soon(self, table: objects.ObjectKey) -> None:
        """Look at a table at the next tick: something about it has changed."""
        found = self._store.by_key.get(table)
        if found is not None:
            self._due_s.pop(found.uid, None)

    def forget(self, uid: str) -> None:
        """Hold nothing of an object that is gone."""
        self.seen.forget(uid)
        self._due_s.pop(uid, None)
        self._generations.pop(uid, None)

    def _forget_what_is_gone(self) -> None:
        """Hold no times of objects and attempts that ended while they were looked at."""
        now_s = self._clock.monotonic_s()
        if now_s - self._forgot_s < _FORGET_S:
            return
        self._forgot_s = now_s
        known = {found.uid for _, found in self._store.by_key.items()}
        known.update(_name(attempt.id) for attempt in self._store.attempts())
        self._due_s = {name: due_s for name, due_s in self._due_s.items() if name in known}

    def _look_at_tables(self) -> None:
        groups: dict[str, list[ports.TableLook]] = {}
        # By namespace, so that a crowd in one is never ahead of what there is in others.
        counts: Counter[str] = Counter()
        now_s = self._clock.monotonic_s()
        for found in self._store.by_key.all_of(kinds.HUDI_TABLE):
            if self._is_due(found, now_s) and counts[found.key.namespace] < _BATCH_MAX:
                table = cast("objects.Table", found)
                uri = self._store.by_key.place(table)
                if uri is None or not self._may_look(table):
                    continue
                look = ports.TableLook(
                    table=table, uri=uri, settings=effective.write_settings(table.spec, None)
                )
                groups.setdefault(self._eyes.observers.observer_of(table), []).append(look)
                counts[found.key.namespace] += 1
        for observer, looks in groups.items():
            uids = [look.table.uid for look in looks]
            self._begin(uids, self._tables_seen(looks), observer)

    async def _tables_seen(self, looks: list[ports.TableLook]) -> None:
        with self._metrics.observed_s.time():
            seen = await self._eyes.observers.look_at_tables(looks)
        concerned: set[objects.ObjectKey] = set()
        for look in looks:
            uid = look.table.uid
            found = seen.get(uid)
            if found is None or self._store.is_gone(uid):
                self._later(uid, _LOCK_WAITING_S)
                continue
            before = self.seen.tables.get(uid)
            self.seen.tables[uid] = found
            ended_ms = hearing.last_end_ms(self._runs(look.table))
            if found.problem is not None:
                self._metrics.unobserved.labels(found.problem.kind).inc()
                self._later(uid, _UNREADABLE_S)
            else:
                is_busy = self._is_busy(look.table)
                self._later(uid, self._pace.busy_s if is_busy else self._pace.idle_s)
            # The first look after an end counts, even where it tells nothing new.
            if (
                before is None
                or not _is_same(before, found)
                or (ended_ms is not None and before.observed_ms <= ended_ms)
            ):
                concerned.update(dependents.of(self._store.by_key, look.table))
        self._changed(concerned)

    def _is_busy(self, table: objects.Table) -> bool:
        return table.is_deleting or any(run.is_running for run in self._runs(table))

    def _runs(self, table: objects.Table) -> Iterable[facts.Run]:
        yield from facts.of_owner(self._store.runs, table)
        for kind in (kinds.WRITER, kinds.TABLE_ACTION):
            for each in self._store.by_key.of_table(kind, table.key.namespace, table.name):
                yield from facts.of_owner(self._store.runs, each)

    def _look_at_locks(self) -> None:
        now_s = self._clock.monotonic_s()
        for found in self._store.by_key.all_of(kinds.LOCK_PROVIDER):
            if self._is_due(found, now_s):
                lock = cast("objects.Lock", found)
                self._begin([lock.uid], self._lock_seen(lock), f"lock {lock.uid}")

    async def _lock_seen(self, lock: objects.Lock) -> None:
        before = self.seen.locks.get(lock.uid)
        found = await self._eyes.locks.look(lock, before)
        if self._store.is_gone(lock.uid):
            return
        self.seen.locks[lock.uid] = found
        self._later(lock.uid, _LOCK_READY_S if found.is_ready else _LOCK_WAITING_S)
        if before != found:
            self._changed(dependents.of(self._store.by_key, lock))

    def _look_at_sources(self) -> None:
        now_s = self._clock.monotonic_s()
        for found in self._store.by_key.all_of(kinds.WRITER):
            if not self._is_due(found, now_s):
                continue
            writer = cast("objects.Writer", found)
            is_known = writer.uid in self.seen.sources
            runs = facts.of_owner(self._store.runs, writer)
            is_at_work = any(run.is_running for run in runs)
            found_table = self._store.by_key.get(
                objects.ObjectKey(
                    kind=kinds.HUDI_TABLE.name,
                    namespace=writer.key.namespace,
                    name=writer.spec.table_ref.name,
                )
            )
            table = cast("objects.Table | None", found_table)
            # What a run reads does not matter before it has ended.
            if table is None or (is_known and is_at_work) or not self._may_look(table):
                continue
            observer = self._eyes.observers.observer_of(table)
            self._begin([writer.uid], self._source_seen(writer, table), observer)

    async def _source_seen(self, writer: objects.Writer, table: objects.Table) -> None:
        found = await self._eyes.observers.look_at_source(writer, table)
        if found is None or self._store.is_gone(writer.uid):
            self._later(writer.uid, _LOCK_WAITING_S)
            return
        before = self.seen.sources.get(writer.uid)
        self.seen.sources[writer.uid] = found
        self._later(writer.uid, self._pace.source_s)
        if before is None or replace(before, observed_ms=found.observed_ms) != found:
            self._changed(dependents.of(self._store.by_key, writer))

    def _look_at_runs(self) -> None:
        now_s = self._clock.monotonic_s()
        for attempt in self._store.attempts_at_work():
            name = _name(attempt.id)
            if attempt.job is not None and self._is_time(name, now_s):
                place = f"runs of {attempt.id.namespace}"
                self._begin([name], self._progress_seen(attempt, name), place)

    async def _progress_seen(self, attempt: store.Attempt, name: str) -> None:
        assert attempt.job is not None
        told = await self._eyes.runs.progress(attempt.job, attempt.pods)
        self._later(name, _PROGRESS_S)
        if told is not None:
            self._changed(self._store.note_progress(attempt.id, told))
        # Some of what a run's Pods mean depends on the time.
        self._changed(self._store.reread(attempt.id))

    def _is_due(self, found: objects.AnyObject, now_s: float) -> bool:
        """Return whether an object is to be looked at; one that was edited is at once."""
        if self._generations.get(found.uid) != found.generation:
            self._generations[found.uid] = found.generation
            self._due_s.pop(found.uid, None)
        return self._is_time(found.uid, now_s)

    def _is_time(self, name: str, now_s: float) -> bool:
        return self._due_s.get(name, 0.0) <= now_s and name not in self._looking

    def _later(self, name: str, pause_s: float) -> None:
        jittered_s = pause_s * (0.8 + 0.4 * self._random.uniform())
        self._due_s[name] = self._clock.monotonic_s() + jittered_s

    def _begin(self, names: list[str], looking: Coroutine[Any, Any, None], place: str) -> None:
        """Begin a look, one of some at once at a place: one that hangs blinds no other."""
        self._looking.update(names)
        task = asyncio.create_task(self._looked(names, looking, self._turns.at(place)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _looked(
        self, names: list[str], looking: Coroutine[Any, Any, None], at_once: asyncio.Semaphore
    ) -> None:
        try:
            async with at_once:
                await looking
        except Exception:
            # A bug of ours about one object must not blind us to all others.
            logger.exception("looking at %s failed", ", ".join(names[:3]))
            for name in names:
                self._later(name, _UNREADABLE_S)
        finally:
            looking.close()  # It was not begun where the wait for others was cancelled.
            self._looking.difference_update(names)


def _is_same(before: facts.TableFacts, after: facts.TableFacts) -> bool:
    return replace(before, observed_ms=after.observed_ms) == after


def _name(run: facts.RunId) -> str:
    """Return by what the times of looks at an attempt are held."""
    return f"{run.namespace}/{run}"
