"""The standalone operator: rounds of reading manifests, looking, deciding and acting.

One object is decided about at a time, and each decision sees what the one before did. Nothing that
matters is held in memory alone: an operator that is killed anywhere and started again goes on.
"""

import dataclasses
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hoodie import clock, environment, errors, identity
from hoodie_operator.api import configuration, kinds, manifests, objects
from hoodie_operator.api.conditions import Type
from hoodie_operator.observing.inputs import InputObserver
from hoodie_operator.observing.tables import TableObserver, TableTarget
from hoodie_operator.reconcile import (
    decide,
    effective,
    effects,
    facts,
    observations,
    verdicts,
    world,
)
from hoodie_operator.standalone import applying, retry_requests
from hoodie_operator.standalone.folder import Folder, FolderState
from hoodie_operator.standalone.lock_servers import LockServers
from hoodie_operator.standalone.processes import Processes
from hoodie_operator.standalone.reporting import Reporter
from hoodie_operator.standalone.store import Store

logger = logging.getLogger(__name__)

PAUSE_BUSY_S = 0.2
PAUSE_IDLE_S = 1.0
_FOLDER_PERIOD_MS = 1_000
_PERIODS = observations.Periods(
    table_busy=500,
    table_idle=5_000,
    table_unreadable=0,
    source=3_000,
    lock_ready=2_000,
    lock_waiting=2_000,
    # An embedded server that starts costs nothing to look at, and everything waits for it.
    lock_starting=0,
    unanswered=0,
)
_ATTEMPTS_AT_ROUND_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the operator runs.

    Attributes:
        state: The state folder.
        data_root: What every table and input lies below.
        may_prune: Whether an object whose manifest vanished is removed.
    """

    state: Path
    data_root: Path
    may_prune: bool = False


@dataclass(slots=True)
class _Seen:
    """What was looked at, and when."""

    tables: dict[str, facts.TableFacts] = field(default_factory=dict)
    sources: dict[str, facts.SourceFacts] = field(default_factory=dict)
    locks: dict[str, facts.LockFacts] = field(default_factory=dict)
    runs: dict[str, list[facts.Run]] = field(default_factory=dict)
    looks: dict[str, observations.LastLook] = field(default_factory=dict)


class Operator:
    """Everything that one state folder's operator holds."""

    def __init__(
        self,
        options: Options,
        folder: Folder,
        env: environment.Environment,
        reporter: Reporter,
        processes: Processes | None = None,
    ) -> None:
        """Take the state folder, which the caller owns.

        Raises:
            FormatError: A stored object cannot be read.
            StorageError: The state folder cannot be read.
        """
        self.problems: tuple[manifests.Problem, ...] | None = None
        self.limits = world.Limits(
            data_roots=(str(options.data_root),),
            services=configuration.ServiceDefaults(),
            slots=configuration.Slots(),
        )
        self._options = options
        self._folder = folder
        self._clock: clock.Clock = env.clock
        self._random: identity.Random = env.random
        self._reporter = reporter
        locate = effective.locator(self.limits.data_roots)
        self._store = Store(options.state, locate, self._clock)
        self._processes = processes or Processes(
            options.state, self._clock, allowed_roots=(str(options.data_root),)
        )
        self._tables = TableObserver(env)
        self._inputs = InputObserver((str(options.data_root),), self._clock)
        self._locks = LockServers(options.state, self._clock)
        self._seen = _Seen()
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inputs")
        self._looking: dict[str, Future[facts.SourceFacts]] = {}
        self._is_last_look = False
        self._folder_ms = -_FOLDER_PERIOD_MS
        self._complete_digest: str | None = None
        self._vanished: tuple[objects.ObjectKey, ...] = ()
        self._protected: tuple[objects.ObjectKey, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether any attempt is at work."""
        return any(run.is_running for runs in self._seen.runs.values() for run in runs)

    def round(self) -> bool:
        """Read, look, decide and act once; return whether anything was done."""
        self._read_folder()
        has_acted = self._take_retry_requests()
        self._seen.runs = self._processes.observe()
        owners = {found.uid for found in self._store.by_key.values()}
        self._processes.forget(self._seen.runs, owners)
        for key in self._keys():
            self._look(key)
            has_acted |= self._reconcile(key)
        self._reporter.round_ended(self._store.by_key)
        return has_acted

    @property
    def is_quiet(self) -> bool:
        """Whether every object was last found Ready or Stalled, and no attempt is at work."""
        return not self.is_busy and all(
            verdicts.is_settled(found) for found in self._store.by_key.values()
        )

    def is_settled(self) -> bool:
        """Return whether nothing runs or is due, looking at everything anew."""
        if not decide.is_settled(self._world()):
            return False
        self._folder_ms = self._clock.now_ms() - _FOLDER_PERIOD_MS
        self._seen.tables.clear()
        self._is_last_look = True
        has_acted = self.round()
        self._is_last_look = False
        return not has_acted and decide.is_settled(self._world())

    def stalled(self) -> list[objects.AnyObject]:
        """Return the objects that a user has to mend something for."""
        return [
            found for found in self._store.by_key.values() if not found.status.is_true(Type.READY)
        ]

    def stop_runs(self, reason: str, wait_s: float) -> bool:
        """Ask all attempts to stop, and wait; return whether all have ended."""
        deadline_s = self._clock.monotonic_s() + wait_s
        while True:
            self._seen.runs = self._processes.observe()
            running = [run for runs in self._seen.runs.values() for run in runs if run.is_running]
            if not running or self._clock.monotonic_s() > deadline_s:
                return not running
            for run in running:
                if run.stop_requested_ms is None:
                    stop = effects.StopRun(id=run.id, is_killed=False, reason=reason)
                    self._processes.stop(stop)
            self._clock.sleep_s(PAUSE_BUSY_S)

    def stop_locks(self) -> None:
        """Stop the lock servers that run here."""
        for found in self._store.by_key.values():
            if found.key.kind == kinds.LOCK_PROVIDER.name:
                self._locks.stop(found.uid)

    def _keys(self) -> list[objects.ObjectKey]:
        keys = list(self._store.by_key)
        return sorted(keys, key=lambda key: (decide.ORDER.index(key.kind), key))

    def _read_folder(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._folder_ms < _FOLDER_PERIOD_MS:
            return
        self._folder_ms = now_ms
        state = self._folder.read()
        was_seen = state.is_complete and state.digest == self._complete_digest
        changes = applying.apply(
            self._store.by_key,
            state,
            may_prune=self._options.may_prune and was_seen,
            now_ms=now_ms,
            new_uid=self._random.uuid,
        )
        self._complete_digest = state.digest if state.is_complete else None
        for found in changes.put:
            self._store.put(found)
        self._tell_problems((*state.problems, *changes.problems), now_ms)
        # What could not be read is told of already, and may be what seems to have vanished.
        vanished = tuple(key for key in changes.vanished if not state.may_declare(key))
        if vanished != self._vanished:
            self._vanished = vanished
            self._tell_kept(
                self._vanished, _why_kept(state, may_prune=self._options.may_prune), now_ms
            )
        if changes.protected != self._protected:
            self._protected = tuple(changes.protected)
            self._tell_kept(self._protected, "because deletionProtection is on", now_ms)

    def _take_retry_requests(self) -> bool:
        """Note who has asked for another attempt; return whether anybody has."""
        has_any = False
        for key, request in retry_requests.take(self._options.state):
            found = self._store.by_key.get(key)
            if found is not None:
                self._store.put(dataclasses.replace(found, retry_request=request))
                self._reporter.told(f"{key}: another attempt is asked for", self._clock.now_ms())
                has_any = True
        return has_any

    def _tell_kept(self, keys: tuple[objects.ObjectKey, ...], why: str, now_ms: int) -> None:
        if keys and why:
            names = ", ".join(str(key) for key in keys)
            self._reporter.told(f"no manifest declares {names} any longer; kept, {why}", now_ms)

    def _tell_problems(self, problems: tuple[manifests.Problem, ...], now_ms: int) -> None:
        if problems == self.problems:
            return
        for problem in problems:
            if problem not in (self.problems or ()):
                self._reporter.told(f"refused: {problem}", now_ms)
        self.problems = problems
        self._store.refuse(problems)

    def _world(self) -> world.World:
        return world.World(
            now_ms=self._clock.now_ms(),
            monotonic_ms=clock.monotonic_ms(self._clock),
            limits=self.limits,
            by_key=self._store.by_key,
            seen=facts.Facts(
                tables=self._seen.tables,
                sources=self._seen.sources,
                locks=self._seen.locks,
                runs=self._seen.runs,
                waits=self._store.waits,
            ),
        )

    def _look(self, key: objects.ObjectKey) -> None:
        """Look at what an object is about, if it was not looked at lately."""
        now_ms = clock.monotonic_ms(self._clock)
        here = self._world()
        if key.kind == kinds.LOCK_PROVIDER.name:
            lock = here.lock(key.namespace, key.name)
            if lock is not None:
                self._look_at_lock(here, lock, now_ms)
        elif key.kind == kinds.HUDI_TABLE.name:
            table = here.table(key.namespace, key.name)
            if table is not None:
                self._look_at_table(here, table, now_ms)
        elif key.kind == kinds.WRITER.name:
            writer = here.writer(key)
            if writer is not None:
                self._look_at_source(here, writer, now_ms)

    def _look_at_lock(self, here: world.World, lock: objects.Lock, now_ms: int) -> None:
        due_ms = observations.next_ms(here, lock, self._seen.looks.get(lock.uid), _PERIODS)
        if due_ms is None or due_ms > now_ms:
            return
        before = self._seen.locks.get(lock.uid)
        self._seen.locks[lock.uid] = self._locks.look(lock, before)
        self._seen.looks[lock.uid] = observations.LastLook(
            at_ms=clock.monotonic_ms(self._clock), generation=lock.generation
        )

    def _look_at_table(self, here: world.World, table: objects.Table, now_ms: int) -> None:
        uri = effective.location(table.spec, self.limits.data_roots)
        if isinstance(uri, effective.Refusal):
            return
        due_ms = observations.next_ms(here, table, self._seen.looks.get(table.uid), _PERIODS)
        if due_ms is None or due_ms > now_ms:
            return
        target = TableTarget(
            uri=uri,
            settings=effective.write_settings(table.spec, None),
            mirror=table.spec.mirror.consumer,
        )
        seen = self._seen.tables[table.uid] = self._tables.look(target)
        self._seen.looks[table.uid] = observations.LastLook(
            at_ms=seen.observed_ms, generation=table.generation
        )

    def _look_at_source(self, here: world.World, writer: objects.Writer, now_ms: int) -> None:
        looking = self._looking.get(writer.uid)
        if looking is not None:
            if not (looking.done() or self._is_last_look):
                return
            del self._looking[writer.uid]
            self._seen.sources[writer.uid] = looking.result()
        before = self._seen.sources.get(writer.uid)
        last = None
        if before is not None:
            last = observations.LastLook(at_ms=before.observed_ms, generation=before.generation)
        due_ms = observations.next_ms(here, writer, last, _PERIODS)
        if due_ms is None or (due_ms > now_ms and not self._is_last_look):
            return
        # Beside the rounds: telling large files apart means reading them.
        source = writer.spec.source
        looking = self._threads.submit(self._inputs.look, writer.generation, source)
        if self._is_last_look:
            self._seen.sources[writer.uid] = looking.result()
        else:
            self._looking[writer.uid] = looking

    def _reconcile(self, key: objects.ObjectKey) -> bool:
        """Decide about one object until there is nothing more to do now."""
        has_acted = False
        for _ in range(_ATTEMPTS_AT_ROUND_MAX):
            todo = decide.decide(self._world(), key)
            if not todo:
                break
            has_acted |= any(not isinstance(effect, effects.ServeLock) for effect in todo)
            for effect in todo:
                self._act(effect)
            if not any(isinstance(effect, effects.SetStatus) for effect in todo):
                break
        return has_acted

    def _act(self, effect: effects.Effect) -> None:
        try:
            self._carry_out(effect)
        except errors.HoodieError as error:
            # The next round decides anew on what is then there.
            logger.warning("%s: %s", type(effect).__name__, error)
            self._reporter.told(f"{error.kind}: {error}", self._clock.now_ms())

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.SetStatus():
                self._set_status(effect)
            case effects.StartRun():
                self._processes.start(effect)
                self._seen.runs = self._processes.observe()
            case effects.StopRun():
                self._processes.stop(effect)
                self._seen.runs = self._processes.observe()
            case effects.GiveBatchSettings():
                self._processes.give_batch_settings(effect)
                self._seen.runs = self._processes.observe()
            case effects.CreateObject():
                self._create(effect)
            case effects.RemoveObject():
                self._remove(effect.key, effect.uid)
            case effects.ServeLock():
                self._locks.serve(effect.uid)

    def _set_status(self, effect: effects.SetStatus) -> None:
        found = self._store.by_key.get(effect.key)
        if found is None or found.uid != effect.uid:
            return
        changed = dataclasses.replace(found, status=effect.status)
        self._store.put(changed)
        self._reporter.changed(found.status, changed, self._clock.now_ms())

    def _create(self, effect: effects.CreateObject) -> None:
        if effect.key in self._store.by_key:
            return
        self._store.put(
            objects.Object(
                key=effect.key,
                uid=self._random.uuid(),
                generation=1,
                created_ms=self._clock.now_ms(),
                owner=effect.owner,
                spec=effect.spec,
                status=kinds.BY_NAME[effect.key.kind].status(),
            )
        )

    def _remove(self, key: objects.ObjectKey, uid: str) -> None:
        found = self._store.by_key.get(key)
        if found is None or found.uid != uid:
            return
        if key.kind == kinds.LOCK_PROVIDER.name:
            self._locks.remove(uid)
        for owned in list(self._store.by_key.values()):
            if owned.owner is not None and owned.owner.uid == uid and not owned.is_deleting:
                self._store.put(dataclasses.replace(owned, deletion_ms=self._clock.now_ms()))
        self._store.remove(key)
        self._reporter.told(f"{key}: removed", self._clock.now_ms())


def _why_kept(state: FolderState, *, may_prune: bool) -> str:
    """Return why nothing is pruned; empty when it will be, as soon as it is seen again."""
    if not may_prune:
        return "because --prune is not set"
    if not state.is_complete:
        return "because not all manifests could be read"
    return "" if state.declared else "because an empty folder prunes nothing"


def run(
    operator: Operator,
    run_clock: clock.Clock,
    *,
    is_until_settled: bool,
    is_interrupted: Callable[[], bool],
) -> int:
    """Run rounds until settled, or interrupted; return the exit code.

    Args:
        operator: The operator.
        run_clock: For pauses.
        is_until_settled: Whether to end when nothing runs or is due.
        is_interrupted: Asked between rounds.
    """
    while not is_interrupted():
        has_acted = operator.round()
        if is_until_settled and not has_acted and operator.is_quiet and operator.is_settled():
            return exit_code(operator)
        if not has_acted:
            run_clock.sleep_s(PAUSE_IDLE_S if operator.is_quiet else PAUSE_BUSY_S)
    return errors.EXIT_DONE


def exit_code(operator: Operator) -> int:
    """Return 0 when everything is Ready, otherwise what tells why not."""
    if operator.problems:
        return errors.InvalidInputError.exit_code
    return errors.EXIT_FINDINGS if operator.stalled() else errors.EXIT_DONE
