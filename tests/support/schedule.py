"""A deterministic world for tests: processes, their clocks, and a seeded choice of who goes on.

Each actor is a thread, and only one of them has the baton. At every call of a storage or a lock it
gives the baton to an actor that the seed chooses; virtual time goes on by a few milliseconds. So
one seed is one interleaving, and a failing seed is a failing test.

    process  what crashes and pauses as a whole: an actor, its periodic calls, its clock
    crash    the process does nothing any more: each of its calls raises `Crash`, so that its
             `finally` blocks run as they must in Python but change nothing
    pause    the process does nothing for a while, and does not know

Periodic calls run when they are due, between two steps of the actors, without being interleaved
themselves. Outside of `run`, on the test's own thread, the same world is driven by `advance`.

After conventions, appendix C.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from hoodie import errors, identity

EPOCH_MS = 1_780_000_000_000
"""Virtual time begins here, in 2026."""


class Crash(BaseException):
    """The process of the running actor is dead."""


class Process:
    """Something that crashes as a whole."""

    def __init__(
        self, schedule: "Schedule", name: str, *, offset_ms: int = 0, host: str = "host"
    ) -> None:
        self.schedule = schedule
        self.name = name
        self.is_dead = False
        self.died_ms = 0
        self.paused_until_ms = 0
        self.paused_since_ms = 0
        self.clock = VirtualClock(schedule, offset_ms)
        self.random = SeededRandom(schedule.random)
        self.background = VirtualBackground(self)
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


@dataclass(slots=True)
class _Actor:
    name: str
    process: Process
    turn: threading.Lock  # Taken while it is not the actor's turn.
    wake_ms: int = 0


@dataclass(slots=True)
class _Periodic:
    process: Process
    interval_ms: int
    call: Callable[[], bool]
    due_ms: int
    is_stopped: bool = False

    def stop(self) -> None:
        self.is_stopped = True


class Schedule:
    """Who goes on, and what time it is."""

    def __init__(self, seed: int = 0, *, step_ms_max: int = 3) -> None:
        self.random = random.Random(seed)
        self.now_ms = EPOCH_MS
        self.history: list[str] = []
        self.processes: dict[int, Process] = {}
        self.pause_rate = 0.0
        self.choose_pause_ms: Callable[[Process], int] = lambda process: 0
        self._step_ms_max = step_ms_max
        self._actors: list[_Actor] = []
        self._running: _Actor | None = None
        self._done = threading.Lock()
        self._done.acquire()
        self._failure: BaseException | None = None
        self._periodics: list[_Periodic] = []
        self._is_calling = False
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def note(self, event: str) -> None:
        """Put an event into the history that a failing seed prints."""
        self.history.append(f"{self.now_ms - EPOCH_MS:>8} {event}")

    def is_proved_dead(self, process: identity.ProcessIdentity) -> bool:
        """Tell of processes of the machine named `host`, as the system would."""
        known = self.processes.get(process.pid)
        return known is not None and known.is_dead and process.host == "host"

    def spawn(self, name: str, process: Process, body: Callable[[], None]) -> None:
        """Add an actor; it starts when the schedule runs, or at once if it does."""
        if self._failure is not None:
            return
        actor = _Actor(name, process, threading.Lock(), wake_ms=self.now_ms)
        actor.turn.acquire()

        def run() -> None:
            actor.turn.acquire()
            try:
                process.check_alive()
                body()
            except Crash:
                pass
            except BaseException as error:
                self._failure = self._failure or error
                for each in self.processes.values():
                    each.is_dead = True  # The rest of the run says nothing more.
            self._actors.remove(actor)
            self._pass_on()

        self._actors.append(actor)
        threading.Thread(target=run, name=name, daemon=True).start()

    def run(self) -> None:
        """Let the actors go on until all have ended; raise the first failure of one."""
        if self._actors:
            self._pass_on()
            self._done.acquire()
        self._running = None
        if self._failure is not None:
            raise self._failure

    def switch(self, process: Process) -> None:
        """Let somebody else go on, perhaps; a step of virtual time passes."""
        process.check_alive()
        actor = self._running
        if actor is None or self._is_calling:
            return
        self._elapse(self.random.randint(0, self._step_ms_max))
        if self.pause_rate and self.random.random() < self.pause_rate:
            process.pause(self.choose_pause_ms(process))
        self._yield(actor)
        process.check_alive()

    def sleep(self, process: Process, duration_ms: int) -> None:
        """Let virtual time pass for the running actor."""
        actor = self._running
        if actor is None or self._is_calling:
            self.advance(duration_ms)
            return
        process.check_alive()
        actor.wake_ms = self.now_ms + max(duration_ms, 1)
        self._yield(actor)
        process.check_alive()

    def advance(self, duration_ms: int) -> None:
        """Let time pass outside of `run`; periodic calls run when they are due."""
        until_ms = self.now_ms + duration_ms
        while (due := self._next_due()) is not None and due.due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due.due_ms)
            self._call(due)
        self.now_ms = max(self.now_ms, until_ms)

    def every(self, process: Process, interval_s: float, call: Callable[[], bool]) -> _Periodic:
        interval_ms = int(interval_s * 1000)
        periodic = _Periodic(process, interval_ms, call, self.now_ms + interval_ms)
        self._periodics.append(periodic)
        return periodic

    def _elapse(self, duration_ms: int) -> None:
        if self._periodics:
            self.advance(duration_ms)
        else:
            self.now_ms += duration_ms

    def _yield(self, actor: _Actor) -> None:
        chosen = self._choose()
        if chosen is not actor:
            self._running = chosen
            chosen.turn.release()
            actor.turn.acquire()

    def _pass_on(self) -> None:
        if not self._actors:
            self._running = None
            self._done.release()
            return
        self._running = self._choose()
        self._running.turn.release()

    def _choose(self) -> _Actor:
        while True:
            ready = [each for each in self._actors if self._ready_ms(each) <= self.now_ms]
            if ready:
                return ready[0] if len(ready) == 1 else self.random.choice(ready)
            self.advance(min(self._ready_ms(each) for each in self._actors) - self.now_ms)

    def _ready_ms(self, actor: _Actor) -> int:
        if actor.process.is_dead:
            return self.now_ms  # It has to end.
        return max(actor.wake_ms, actor.process.paused_until_ms)

    def _next_due(self) -> _Periodic | None:
        if self._is_calling:
            return None
        self._periodics = [
            each for each in self._periodics if not each.is_stopped and not each.process.is_dead
        ]
        for each in self._periodics:
            each.due_ms = max(each.due_ms, each.process.paused_until_ms)
        return min(self._periodics, key=lambda each: each.due_ms, default=None)

    def _call(self, periodic: _Periodic) -> None:
        periodic.due_ms = self.now_ms + periodic.interval_ms
        self._is_calling = True
        try:
            periodic.is_stopped = not periodic.call() or periodic.is_stopped
        except Crash:
            periodic.is_stopped = True
        finally:
            self._is_calling = False


class VirtualClock:
    """A process's clock: the world's, a little off."""

    def __init__(self, schedule: Schedule, offset_ms: int = 0) -> None:
        self._schedule = schedule
        self.offset_ms = offset_ms
        self.process: Process | None = None

    def now_ms(self) -> int:
        return self._schedule.now_ms + self.offset_ms

    def monotonic_s(self) -> float:
        return self._schedule.now_ms / 1000

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
        self.holder: SessionLockProvider | None = None
        self.tokens = 0

    def expire(self) -> None:
        """Give the lock of a silent holder away."""
        if self.holder is None:
            return
        since_ms = self.holder.process.silent_since_ms()
        if since_ms is not None and self._schedule.now_ms - since_ms > self.session_ms:
            self._schedule.note(f"{self.holder.process.name}: lock session expired")
            self.holder = None

    def lose(self) -> None:
        """End the holder's session now."""
        self.holder = None


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
        while True:
            schedule.switch(self.process)
            self._service.expire()
            if self._service.holder is None:
                break
            if schedule.now_ms >= deadline_ms:
                raise errors.LockTimeoutError(
                    f"lock held by {self._service.holder.process.name} for too long"
                )
            schedule.sleep(self.process, schedule.random.randint(1, 20))
        self._service.holder = self
        self._service.tokens += 1
        self._token = self._service.tokens
        schedule.note(f"{self.process.name}: lock")

    def release(self) -> None:
        self.process.schedule.switch(self.process)
        if self._token is None:
            raise errors.InvalidInputError(f"{self.description} is not taken")
        if self.is_held():
            self._service.holder = None
            self.process.schedule.note(f"{self.process.name}: unlock")
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
