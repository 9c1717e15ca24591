"""A deterministic world for tests: processes, their clocks, and a seeded choice of who goes on.

Each actor is played by a thread, and only one of them has the baton. At every call of a storage or
a lock it gives the baton to an actor that chance chooses; virtual time goes on by a few
milliseconds. So one seed is one interleaving, and a failing seed is a failing test.

    process  what crashes and pauses as a whole: an actor, its periodic calls, its clock
    crash    the process does nothing any more: each of its calls raises `Crash`, so that its
             `finally` blocks run as they must in Python but change nothing
    pause    the process does nothing for a while, and does not know

Periodic calls run when they are due, between two steps of the actors, without being interleaved
themselves. Outside of `run`, on the test's own thread, the same world is driven by `advance`.

A run has a bound: with more steps than that it never ends, which is a failure like any other. When
a run is over, however it ended, none of its threads is left; those of a troupe go on to the next.
"""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from hoodie import errors, identity
from hoodie.engine import local
from support.simulation import chance
from support.simulation.invariants import LockEvent

EPOCH_MS = 1_780_000_000_000
"""Virtual time begins here, in 2026, unless a run says otherwise."""

STEPS_MAX = 100_000
"""More steps than any run needs that ends."""

LOSS_MS_MAX = 60
"""A session that is lost is lost within this time, while its holder is at work."""

_LOCK_LOOK_MS = 100
_STUCK_S = 60.0


class Crash(BaseException):
    """The process of the running actor is dead."""


class EndlessError(AssertionError):
    """A run has not ended within its bound."""


class Process:
    """Something that crashes as a whole."""

    def __init__(
        self, schedule: "Schedule", name: str, *, offset_ms: int = 0, host: str = "host"
    ) -> None:
        self.schedule = schedule
        self.name = name
        self.is_dead = False
        self.is_spared = False  # Nothing befalls it but that others go on.
        self.died_ms = 0
        self.unanswered_until_ms = 0  # Its heartbeats reach no storage until then.
        self.paused_until_ms = 0
        self.paused_since_ms = 0
        self.steps = 0
        self.asked_ms = 0  # When it made its newest call of a storage.
        self.listed_ms = 0  # When it last listed file names, as it does of a timeline.
        self.failures = 0  # Of its calls, of those that it was told of.
        self.fate: str | None = None  # What its present call comes to, if that is settled.
        self.clock = VirtualClock(schedule, offset_ms)
        self.random = SeededRandom(random.Random(f"{schedule.seed} {name}"))
        self.background = VirtualBackground(self)
        self.engine = local.LocalEngine(1)
        self.process = identity.ProcessIdentity(
            host=host,
            boot_id="boot",
            pid_namespace="",
            pid=schedule.next_number(),
            start_ticks=1,
        )
        schedule.processes[self.process.pid] = self

    def check_alive(self) -> None:
        """Refuse any effect of a dead process."""
        if self.is_dead:
            raise Crash(self.name)

    def crash(self) -> None:
        """Kill it; the caller raises `Crash` if it is one of its actors."""
        if not self.is_dead:
            self.schedule.note(f"{self.name}: crash")
            self.is_dead = True
            self.died_ms = self.schedule.now_ms

    def pause(self, duration_ms: int) -> None:
        """Let it do nothing for a while."""
        self.schedule.note(f"{self.name}: paused for {duration_ms} ms")
        self.paused_since_ms = self.schedule.now_ms
        self.paused_until_ms = self.schedule.now_ms + duration_ms

    @property
    def is_paused(self) -> bool:
        return self.paused_until_ms > self.schedule.now_ms

    def silent_since_ms(self) -> int | None:
        """Since when others hear nothing of it; None while it runs."""
        if self.is_dead:
            return self.died_ms
        return self.paused_since_ms if self.is_paused else None


@dataclass(slots=True, eq=False)
class _Actor:
    name: str
    process: Process
    play: Callable[[], None]
    wake_ms: int = 0
    player: "_Player | None" = None  # From its first turn to its end.


@dataclass(slots=True, eq=False)
class _Periodic:
    process: Process
    interval_ms: int
    call: Callable[[], bool]
    due_ms: int
    is_stopped: bool = False

    def stop(self) -> None:
        self.is_stopped = True


class _Player(threading.Thread):
    """A thread that plays one actor after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.turn = threading.Lock()  # Taken while it is not the turn of what it plays.
        self.turn.acquire()
        self.play: Callable[[], None] | None = None  # To end, if there is nothing to play.

    def run(self) -> None:
        self.turn.acquire()
        while self.play is not None:
            self.play()
            self.turn.acquire()


class Troupe:
    """Threads for one run after the other: to start one takes longer than most actors play."""

    def __init__(self) -> None:
        self._idle: list[_Player] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.dismiss()

    def cast(self, name: str, play: Callable[[], None]) -> _Player:
        """Return a player who plays an actor once it has its turn."""
        if self._idle:
            player = self._idle.pop()
        else:
            player = _Player()
            player.start()
        player.name = name
        player.play = play
        return player

    def release(self, player: _Player) -> None:
        """Let a player go who has nothing to do any more but to hand on the baton."""
        self._idle.append(player)

    def dismiss(self) -> None:
        """End all threads but those that play for ever."""
        for player in self._idle:
            player.play = None
            player.turn.release()
        for player in self._idle:
            player.join()
        self._idle.clear()


class Schedule:
    """Who goes on, and what time it is."""

    def __init__(
        self,
        seed: int = 0,
        *,
        begins_ms: int = EPOCH_MS,
        chances: chance.Chance | None = None,
        step_ms_max: int = 3,
        steps_max: int = STEPS_MAX,
        troupe: Troupe | None = None,
    ) -> None:
        """Begin a world.

        Args:
            seed: Of ids, of the time that steps take, and of chance if that is not given.
            begins_ms: When virtual time begins.
            chances: Answers what is left open.
            step_ms_max: What a step may take.
            steps_max: The bound of a run.
            troupe: Threads to play it, which are ended by who gives them; one for this run if none
                is given.
        """
        self.seed = seed
        self.random = random.Random(seed)
        self.chances = chances or chance.SeededChance(seed)
        self.begins_ms = self.now_ms = begins_ms
        self.history: list[str] = []
        self.processes: dict[int, Process] = {}
        self.disturb: Callable[[Process], None] = lambda process: None
        self.meet: Callable[[Process, str], None] = lambda process, call: None
        self.steps = 0
        self._step_ms_max = step_ms_max
        self._steps_max = steps_max
        self._actors: list[_Actor] = []
        self._troupe = troupe or Troupe()
        self._is_own_troupe = troupe is None
        self._running: _Actor | None = None
        self._done = threading.Lock()
        self._done.acquire()
        self._failure: BaseException | None = None
        self._periodics: list[_Periodic] = []
        self._due_ms = 0  # No periodic call is due before.
        self.is_calling = False
        """Whether a periodic call is being made, which nobody interrupts."""
        self._number = 0
        self._network: Process | None = None

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def note(self, event: str) -> None:
        """Put an event into the history that a failing seed prints."""
        self.history.append(f"{self.now_ms - self.begins_ms:>8} {event}")

    def is_proved_dead(self, process: identity.ProcessIdentity) -> bool:
        """Tell of processes of the machine named `host`, as the system would."""
        known = self.processes.get(process.pid)
        return known is not None and known.is_dead and process.host == "host"

    def spawn(self, name: str, process: Process, body: Callable[[], None]) -> None:
        """Add an actor; it starts when the schedule runs, or at once if it does."""
        if self._failure is not None:
            return

        def play() -> None:
            try:
                process.check_alive()
                body()
            except Crash:
                pass
            except BaseException as error:
                self._fail(error)
            self._end(actor)

        actor = _Actor(name, process, play, wake_ms=self.now_ms)
        self._actors.append(actor)

    def run(self) -> None:
        """Let the actors go on until all have ended; raise the first failure of one.

        Raises:
            EndlessError: They have not ended within the bound.
        """
        if self._actors:
            self._give_turn(self._choose(None))
            try:
                if not self._done.acquire(timeout=_STUCK_S):
                    self._fail(EndlessError(f"{self._running} waits where nobody simulates it"))
            except BaseException as error:  # Interrupted: let the threads end before going on.
                self._fail(error)
                self._done.acquire(timeout=_STUCK_S)
        if self._is_own_troupe:
            self._troupe.dismiss()
        self._running = None
        if self._failure is not None:
            raise self._failure

    @property
    def is_running(self) -> bool:
        """Whether actors play; else the test drives the world itself."""
        return self._running is not None

    def stop(self, reason: BaseException) -> None:
        """End the run now; `run` raises the reason."""
        self._fail(reason)

    def approach(self, process: Process, call: str) -> None:
        """Let a process come to a call; what waits for it there befalls it before the call."""
        process.check_alive()
        if self._running is not None and not self.is_calling:
            self.meet(process, call)

    def switch(self, process: Process) -> None:
        """Let somebody else go on, perhaps; a step of virtual time passes."""
        process.check_alive()
        actor = self._running
        if actor is None or self.is_calling:
            process.steps += 1
            return
        self._count(process)
        self._elapse(int(self.random.random() * (self._step_ms_max + 1)))
        self.disturb(process)
        self._yield(actor)
        process.check_alive()

    def sleep(self, process: Process, duration_ms: int) -> None:
        """Let virtual time pass for the running actor."""
        actor = self._running
        if actor is None or self.is_calling:
            self.advance(duration_ms)
            return
        process.check_alive()
        self._count(process)
        actor.wake_ms = self.now_ms + max(duration_ms, 1)
        self._yield(actor)
        process.check_alive()

    def wake(self, process: Process) -> None:
        """End the sleep of a process's actors."""
        for actor in self._actors:
            if actor.process is process:
                actor.wake_ms = self.now_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass outside of `run`; periodic calls run when they are due."""
        until_ms = self.now_ms + duration_ms
        while (due := self._next_due()) is not None and due.due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due.due_ms)
            self._call(due)
        self.now_ms = max(self.now_ms, until_ms)
        if not self.is_calling:
            self._due_ms = until_ms if due is None else due.due_ms

    def every(self, process: Process, interval_s: float, call: Callable[[], bool]) -> _Periodic:
        interval_ms = int(interval_s * 1000)
        periodic = _Periodic(process, interval_ms, call, self.now_ms + interval_ms)
        self._periodics.append(periodic)
        self._due_ms = min(self._due_ms, periodic.due_ms)
        return periodic

    def later(self, delay_ms: int, effect: Callable[[], object]) -> None:
        """Let something take effect after a delay, whoever is dead or paused by then."""

        def once() -> bool:
            effect()
            return False

        if self._network is None:
            self._network = Process(self, "network")
        self.every(self._network, delay_ms / 1000, once)

    def _give_turn(self, actor: _Actor) -> None:
        self._running = actor
        if actor.player is None:
            actor.player = self._troupe.cast(actor.name, actor.play)
        actor.player.turn.release()

    def _fail(self, error: BaseException) -> None:
        """Remember the first failure; what is left of the run only ends."""
        self._failure = self._failure or error
        for each in self.processes.values():
            each.is_dead = True

    def _end(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        assert actor.player is not None
        self._troupe.release(actor.player)
        if self._actors:
            self._give_turn(self._choose(None))
        else:
            self._running = None
            self._done.release()

    def _count(self, process: Process) -> None:
        process.steps += 1
        self.steps += 1
        if self.steps > self._steps_max:
            at_work = ", ".join(sorted(each.name for each in self._actors))
            self._fail(EndlessError(f"not ended after {self._steps_max} steps: {at_work}"))
            raise Crash(process.name)

    def _elapse(self, duration_ms: int) -> None:
        if self._periodics and self.now_ms + duration_ms >= self._due_ms:
            self.advance(duration_ms)
        else:
            self.now_ms += duration_ms

    def _yield(self, actor: _Actor) -> None:
        chosen = self._choose(actor)
        if chosen is not actor:
            assert actor.player is not None
            self._give_turn(chosen)
            actor.player.turn.acquire()

    def _choose(self, current: _Actor | None) -> _Actor:
        """Return who goes on; time passes until somebody can."""
        ready = self._ready()
        while not ready:
            self.advance(min(map(self._ready_ms, self._actors)) - self.now_ms)
            ready = self._ready()
        if len(ready) == 1:
            return ready[0]
        calm = current if current is not None and current in ready else ready[0]
        asking = calm.process if current is None else current.process
        # Whoever is first in line may not have moved when several end.
        question = "next" if current else f"after an end, {len(self._actors)} left"
        names = [each.name for each in ready]
        return ready[names.index(self.chances.choose(asking, question, calm.name, names))]

    def _ready(self) -> Sequence[_Actor]:
        now_ms = self.now_ms
        return [
            each
            for each in self._actors
            if (each.wake_ms <= now_ms and each.process.paused_until_ms <= now_ms)
            or each.process.is_dead
        ]

    def _ready_ms(self, actor: _Actor) -> int:
        return max(actor.wake_ms, actor.process.paused_until_ms)

    def _next_due(self) -> _Periodic | None:
        if self.is_calling:
            return None
        self._periodics = [
            each for each in self._periodics if not each.is_stopped and not each.process.is_dead
        ]
        for each in self._periodics:
            each.due_ms = max(each.due_ms, each.process.paused_until_ms)
        return min(self._periodics, key=lambda each: each.due_ms, default=None)

    def _call(self, periodic: _Periodic) -> None:
        periodic.due_ms = self.now_ms + periodic.interval_ms
        self.is_calling = True
        try:
            periodic.is_stopped = not periodic.call() or periodic.is_stopped
        except Crash:
            periodic.is_stopped = True
        finally:
            self.is_calling = False
            periodic.process.clock.answer_ms = 0


class VirtualClock:
    """A process's clock: the world's, a little off, too fast or slow, and set at times."""

    def __init__(self, schedule: Schedule, offset_ms: int = 0, drift_ppm: int = 0) -> None:
        self._schedule = schedule
        self.offset_ms = offset_ms
        self.drift_ppm = drift_ppm
        self.answer_ms = 0  # How long a periodic call has waited for an answer.

    def now_ms(self) -> int:
        return self._schedule.now_ms + self.offset_ms + self._drift_ms

    def monotonic_s(self) -> float:
        return (self._schedule.now_ms + self._drift_ms + self.answer_ms) / 1000

    @property
    def _drift_ms(self) -> int:
        return (self._schedule.now_ms - self._schedule.begins_ms) * self.drift_ppm // 1_000_000

    def sleep_s(self, seconds: float) -> None:
        if seconds <= 0:
            return
        running = self._schedule._running
        if running is None:
            self._schedule.advance(round(seconds * 1000))
        else:
            self._schedule.sleep(running.process, round(seconds * 1000))


class SeededRandom:
    """Ids and chance from the schedule's seed."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def uuid(self) -> str:
        digits = f"{self._source.getrandbits(128):032x}"
        return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))

    def uniform(self) -> float:
        return self._source.random()


class VirtualBackground:
    """Periodic calls of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def every(self, interval_s: float, call: Callable[[], bool], *, name: str) -> _Periodic:
        del name
        return self._process.schedule.every(self._process, interval_s, call)


class SessionLock:
    """A lock service with sessions: a holder that is silent for too long has lost the lock."""

    def __init__(self, schedule: Schedule, session_ms: int = 1_000) -> None:
        self._schedule = schedule
        self.session_ms = session_ms
        self.loss_rate = 0.0
        self.is_lying = False  # Whether everybody who asks for it is told to have it.
        self.holder: SessionLockProvider | None = None
        self.tokens = 0
        self.history: list[tuple[LockEvent, str, str]] = []
        self.taken_ms: dict[str, int] = {}  # When each process took the lock the last time,
        self.lost_ms: dict[str, int] = {}  # and when it lost it again, or gave it back.
        self._waiting: list[Process] = []

    def expire(self) -> None:
        """Give the lock of a silent holder away."""
        if self.holder is None:
            return
        since_ms = self.holder.process.silent_since_ms()
        if since_ms is not None and self._schedule.now_ms - since_ms > self.session_ms:
            self._schedule.note(f"{self.holder.process.name}: lock session expired")
            self.lose()

    def lose(self, event: LockEvent = LockEvent.LOST) -> None:
        """End the holder's session now."""
        if self.holder is not None:
            self.record(event, self.holder.process)
            self.lost_ms[self.holder.process.name] = self._schedule.now_ms
        self.holder = None
        for process in self._waiting:
            self._schedule.wake(process)

    def lose_of(self, process: Process) -> None:
        """End a process's session now, if it is the holder."""
        if self.holder is not None and self.holder.process is process:
            self._schedule.note(f"{process.name}: lock session lost")
            self.lose()

    def record(self, event: LockEvent, process: Process, what: str = "") -> None:
        """Put an event into the history of the lock."""
        self.history.append((event, process.name, what))

    def was_lost(self, process: Process) -> bool:
        """Return whether a process has lost the lock since it took it the last time."""
        for event, name, _ in reversed(self.history):
            if name == process.name and event in (LockEvent.TAKEN, LockEvent.LOST):
                return event is LockEvent.LOST
        return False

    def is_overtaken(self, process: Process) -> bool:
        """Return whether another has taken the lock since a process did."""
        takers = (each for event, each, _ in reversed(self.history) if event is LockEvent.TAKEN)
        return next(takers, process.name) != process.name

    def sample_loss(self, source: random.Random) -> int:
        """Return after how long a session just begun is lost though its holder lives, or 0."""
        return source.randint(1, LOSS_MS_MAX) if source.random() < self.loss_rate else 0

    @contextlib.contextmanager
    def ignored(self) -> Iterator[None]:
        """Let others have the lock as well, and the holder not know."""
        holder, tokens = self.holder, self.tokens
        self.is_lying = True
        try:
            yield
        finally:
            self.is_lying, self.holder, self.tokens = False, holder, tokens

    @contextlib.contextmanager
    def waiting(self, process: Process) -> Iterator[None]:
        """Wake a process as soon as the lock is free."""
        self._waiting.append(process)
        try:
            yield
        finally:
            self._waiting.remove(process)


class SessionLockProvider:
    """One client's access to a `SessionLock`."""

    def __init__(self, service: SessionLock, process: Process) -> None:
        self._service = service
        self.process = process
        self._token: int | None = None

    @property
    def description(self) -> str:
        return f"simulated lock of {self.process.name}"

    def acquire(self, wait_s: float) -> None:
        schedule = self.process.schedule
        if self._token is not None:
            raise errors.InvalidInputError(f"{self.description} is taken already")
        deadline_ms = schedule.now_ms + round(wait_s * 1000)
        with self._service.waiting(self.process):
            while (holder := self._holder()) is not None:
                if schedule.now_ms >= deadline_ms:
                    raise errors.LockTimeoutError(
                        f"lock held by {holder.process.name} for too long"
                    )
                # Nobody tells of a holder that is silent: it has to be looked for.
                schedule.sleep(self.process, _LOCK_LOOK_MS)
        self._service.record(LockEvent.TAKEN, self.process)
        self._service.taken_ms[self.process.name] = schedule.now_ms
        self._service.lost_ms.pop(self.process.name, None)
        self._service.holder = self
        self._service.tokens += 1
        self._token = self._service.tokens
        schedule.note(f"{self.process.name}: lock")
        self._draw_loss()

    def _holder(self) -> "SessionLockProvider | None":
        self.process.schedule.switch(self.process)
        self._service.expire()
        return None if self._service.is_lying else self._service.holder

    def _draw_loss(self) -> None:
        """Let the lock service end this session by itself soon, perhaps."""
        schedule = self.process.schedule
        if self.process.is_spared:
            return
        delay_ms = schedule.chances.draw(self.process, "lock session", 0, self._service.sample_loss)
        if delay_ms:
            token = self._token
            schedule.later(int(str(delay_ms)), lambda: self._lose(token))

    def _lose(self, token: int | None) -> None:
        if self._service.holder is self and self._token == token:
            self.process.schedule.note(f"{self.process.name}: lock session lost")
            self._service.lose()

    def release(self) -> None:
        self.process.schedule.switch(self.process)
        if self._token is None:
            raise errors.InvalidInputError(f"{self.description} is not taken")
        if self.is_held():
            self.process.schedule.note(f"{self.process.name}: unlock")
            self._service.lose(LockEvent.GIVEN_BACK)
        else:
            self._service.record(LockEvent.GIVEN_BACK, self.process)
        self._token = None

    def is_held(self) -> bool:
        self.process.check_alive()
        return self._service.holder is self and self._token == self._service.tokens

    @property
    def fencing_token(self) -> int:
        if self._token is None:
            raise errors.LockLostError(f"{self.description} is not held")
        return self._token

    def close(self) -> None:
        if self._token is not None:
            self.release()
