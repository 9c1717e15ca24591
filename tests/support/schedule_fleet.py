"""A fleet on one table: writers, compactors and rollback services, with faults drawn by a seed."""

import random
from collections.abc import Callable
from dataclasses import replace

from hoodie import errors
from hoodie.model import settings
from hoodie.transaction import authors
from hoodie.transaction.client import Client
from support import faulty_storage, invariants, schedule, schedule_rollback
from support.schedule_world import SETTINGS, World

WRITERS = 3
BATCHES = 3
ATTEMPTS_MAX = 60
SKEW_MS = SETTINGS.clock_skew_ms_max // 2
SHORT_PAUSE_MS = 3_000
SUSPICIOUS_PAUSE_MS = 500
LONG_PAUSE_MS = 2 * SETTINGS.heartbeat_expiry_ms
TRANSIENT = (
    errors.ConflictError,
    errors.ClockSkewError,
    errors.HeartbeatExpiredError,
    errors.LockLostError,
    errors.LockTimeoutError,
    errors.OutcomeUnknownError,
    errors.StorageError,
)


class Fleet:
    """Writers, two compactors and two rollback services; each that crashes is followed by another.

    So is a writer that is paused for long, by somebody who takes it for dead: then there are two.
    Long pauses come only without the lock. What is paused between the last look at its lock and the
    creation of its completed file, for longer than lock and heartbeat last, publishes what others
    have taken back by then: no storage of files can prevent it, so it is found out and reported as
    an outcome that is not known (L2; `test_publication` has it).
    """

    crash_rate = 0.002
    pause_rate = 0.003
    janitors = 2
    mode = settings.ConcurrencyMode.NON_BLOCKING

    def __init__(self, seed: int) -> None:
        self.time = schedule.Schedule(seed)
        self.time.pause_rate = self.pause_rate
        self.time.choose_pause_ms = self._pause
        source = random.Random(seed + 1_000_000)
        self.world = World(
            self.time,
            faults=faulty_storage.RandomFaults(
                source, crash_rate=self.crash_rate, failure_rate=0.01
            ),
            write_settings=replace(SETTINGS, concurrency=self.mode),
        )
        self.world.has_partial_writes = self.mode is settings.ConcurrencyMode.OPTIMISTIC
        self.finished: set[str] = set()
        self.newest: dict[str, tuple[int, Callable[[Client], None]]] = {}
        for number in range(WRITERS):
            self._start(f"w{number}", self._write_batches)
        for number in range(2):
            self._start(f"compactor{number}", self._compact_until_done)
        for number in range(self.janitors):
            self._start(f"janitor{number}", self._roll_back_until_done)

    def _start(self, name: str, work: Callable[[Client], None], attempt: int = 1) -> None:
        process = self._process(name, attempt)
        author = authors.Author(writer_id=name, attempt=attempt)
        self.newest[name] = (attempt, work)

        def body() -> None:
            try:
                work(self.world.client(process, author))
                self.finished.add(name)
            except errors.FencedError as error:
                self.time.note(f"{process.name} gives up: {error}")
            except schedule.Crash:
                self._follow(name, attempt)
                raise

        self.time.spawn(process.name, process, body)

    def _follow(self, name: str, attempt: int) -> None:
        newest, work = self.newest[name]
        if newest == attempt:
            self._start(name, work, attempt + 1)

    def _pause(self, process: schedule.Process) -> int:
        holder = self.world.lock.holder
        if holder is not None and holder.process is process:
            return self.time.random.randint(1, SHORT_PAUSE_MS)
        duration_ms = self.time.random.randint(1, LONG_PAUSE_MS)
        name, _, attempt = process.name.partition(".")
        if duration_ms > SUSPICIOUS_PAUSE_MS and self.time.random.random() < 0.5:
            self._follow(name, int(attempt))
        return duration_ms

    def _process(self, name: str, attempt: int) -> schedule.Process:
        offset_ms = self.time.random.randint(-SKEW_MS, SKEW_MS)
        host = self.time.random.choice(("host", "another"))
        return self.world.process(f"{name}.{attempt}", offset_ms=offset_ms, host=host)

    def _write_batches(self, writer: Client) -> None:
        for number in range(BATCHES):
            for _ in range(ATTEMPTS_MAX):
                try:
                    self.world.write(writer, f"b{number}")
                    break
                except TRANSIENT as error:
                    self.time.note(f"{writer.author}: {error.kind}: {error}")
                    writer.clock.sleep_s(0.5)
            else:
                raise AssertionError(f"{writer.author} never wrote b{number}")

    def _compact_until_done(self, service: Client) -> None:
        for _ in range(ATTEMPTS_MAX * 20):
            try:
                pending = self.world.timeline.pending_compactions
                planned = pending[0] if pending else self.world.schedule_compaction(service)
                if planned is not None:
                    self.world.compact(service, planned.requested_time)
                elif self._are_writers_done and not self.world.timeline.pending_compactions:
                    return  # Another may have planned one since we looked.
            except TRANSIENT as error:
                self.time.note(f"compactor: {error.kind}: {error}")
            service.clock.sleep_s(0.5)
        raise AssertionError("the compactor never ended")

    def _roll_back_until_done(self, service: Client) -> None:
        for _ in range(ATTEMPTS_MAX * 20):
            try:
                count = schedule_rollback.roll_back_dead(self.world, service)
                if self._are_writers_done and not count:
                    return
            except TRANSIENT as error:
                self.time.note(f"janitor: {error.kind}: {error}")
            service.clock.sleep_s(1.0)
        raise AssertionError("the janitor never ended")

    @property
    def _are_writers_done(self) -> bool:
        return all(f"w{number}" in self.finished for number in range(WRITERS))

    def _settle(self) -> None:
        """Let all the dead be known as such, and a last service clean up (I8, I10)."""
        self.time.pause_rate = 0.0
        self.world.faults = faulty_storage.NoFaults()
        for number in range(2):
            self.time.advance(SETTINGS.heartbeat_expiry_ms + self.world.lock.session_ms)
            schedule_rollback.roll_back_dead(self.world, self.world.writer(f"last{number}"))
        invariants.check_quiescence(self.world.storage, self.world.check())

    def run(self) -> None:
        try:
            self.time.run()
            timeline = self.world.check()
            assert len(timeline.completed_writes) >= WRITERS * BATCHES
            assert not timeline.pending_compactions
            self._settle()
        except BaseException as error:
            history = "\n".join(self.time.history)
            raise AssertionError(f"{error!r}\n{history}") from error


class FailingFleet(Fleet):
    """A fleet that dies and is paused often, so that most of what happens are rollbacks."""

    crash_rate = 0.008
    pause_rate = 0.015
    janitors = 3


class OptimisticFleet(Fleet):
    """A fleet whose writers conflict."""

    mode = settings.ConcurrencyMode.OPTIMISTIC
