"""A fleet on one table: writers, compactors, rollback services and readers, and what befalls them.

A `Plan` says who there is and how often what goes wrong; a seed draws it from its scenario, and
everything that happens from the plan. So a failing run can be told as a smaller one that fails,
too: `schedule_shrinking` looks for it.
"""

import enum
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.model import instants, settings, table_config
from hoodie.timeline import active
from hoodie.transaction import authors
from hoodie.transaction.client import Client
from support import (
    chance,
    faulty_storage,
    invariants,
    schedule,
    schedule_rollback,
    schedule_rows,
)
from support.schedule_world import CONFIG, COPY_ON_WRITE, SETTINGS, World

CONFIGS = {each.table_type: each for each in (CONFIG, COPY_ON_WRITE)}
ATTEMPTS_MAX = 60
SKEW_MS = SETTINGS.clock_skew_ms_max // 2
WRONG_CLOCK_MS = 5 * SETTINGS.clock_skew_ms_max
DRIFT_PPM_MAX = 1_000
SHORT_PAUSE_MS = 3_000
SUSPICIOUS_PAUSE_MS = 500
LONG_PAUSE_MS = 2 * SETTINGS.heartbeat_expiry_ms
TRANSIENT = (
    errors.ConfigurationError,  # Another writer of the same column is at work.
    errors.ConflictError,
    errors.ClockSkewError,
    errors.HeartbeatExpiredError,
    errors.LockLostError,
    errors.LockTimeoutError,
    errors.OutcomeUnknownError,
    errors.StorageError,
)


class Scenario(enum.Enum):
    """What kind of fleet."""

    NON_BLOCKING = "non-blocking"  # Writers that never conflict.
    OPTIMISTIC = "optimistic"  # Writers that do.
    FAILING = "failing"  # Most of what happens are deaths, pauses and rollbacks.
    CLOCKS = "clocks"  # Clocks that differ by far more than they may.
    LATE = "late"  # Files of the timeline that appear after their creation has failed.
    COPY_ON_WRITE = "copy-on-write"  # Base files alone; writers that conflict, or one at a time.
    LATE_COPY_ON_WRITE = "late-copy-on-write"  # Both.
    DELETES = "deletes"  # Data files hold rows, and deletes of them; of several modes.
    # Of tables and modes of all kinds:
    IN_PLACE = "in-place"  # Data files show under their names while they are written.
    HELD_UP = "held-up"  # Who has the lock is paused until lock and heartbeat are lost.
    MISJUDGED = "misjudged"  # Living processes are proved dead.
    RESTARTED = "restarted"  # Successors run as the same attempt; tasks, plans and locks fail.
    UNRELIABLE = "unreliable"  # Most of what happens are failures of the storage, and late answers.


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run, before anything has happened.

    Attributes:
        seed: Of ids, times and chance.
        table_type: Of the table.
        rows: The configuration of a table whose data files hold rows; None where they hold lines.
        mode: Of the writers.
        writers: How many.
        batches: How many each writes.
        compactors: How many.
        janitors: Rollback services.
        readers: How many.
        has_shared_columns: Whether all writers write one column, and so wait for each other.
        switch_rate: How often somebody else goes on, of all calls.
        crash_rate: How often a process dies, of all calls.
        failure_rate: How often the storage fails.
        late_rate: How often a file of the timeline appears later, and its creation fails.
        pause_rate: How often a process is paused.
        loss_rate: How often the lock's session is lost, of all times that it is acquired.
        step_rate: How often a clock is set.
        step_ms_max: By how much it is then wrong.
        misjudgement_rate: How often a living process is proved dead, of all times that it is asked.
        is_in_place: Whether data files show under their names while they are written.
        slow_beat_rate: How often the answer to a heartbeat takes long.
        failed_task_rate: How often a task of a write fails after its file, and is run again.
        kept_attempt_rate: How often a process is followed by another of the same attempt.
        plans_beside_rate: How often a compaction is planned while one is pending.
        takes_compactions_back: Whether janitors take back what dead compactors have begun.
        pause_with_lock_ms_max: How long who has the lock is paused at most.
        page_names: How many names a page of a listing has; None for listings that are atomic.
    """

    seed: int
    table_type: table_config.TableType = table_config.TableType.MERGE_ON_READ
    rows: table_config.TableConfig | None = None
    mode: settings.ConcurrencyMode = settings.ConcurrencyMode.NON_BLOCKING
    writers: int = 2
    batches: int = 2
    compactors: int = 1
    janitors: int = 1
    readers: int = 1
    has_shared_columns: bool = False
    switch_rate: float = 1.0
    crash_rate: float = 0.002
    failure_rate: float = 0.01
    late_rate: float = 0.0
    pause_rate: float = 0.003
    loss_rate: float = 0.02
    step_rate: float = 0.002
    step_ms_max: int = SKEW_MS
    misjudgement_rate: float = 0.0
    is_in_place: bool = False
    slow_beat_rate: float = 0.0
    failed_task_rate: float = 0.0
    kept_attempt_rate: float = 0.0
    plans_beside_rate: float = 0.0
    takes_compactions_back: bool = False
    pause_with_lock_ms_max: int = SHORT_PAUSE_MS
    page_names: int | None = None


KINDS = (
    *((table_config.TableType.MERGE_ON_READ, mode) for mode in settings.ConcurrencyMode),
    (table_config.TableType.COPY_ON_WRITE, settings.ConcurrencyMode.OPTIMISTIC),
    (table_config.TableType.COPY_ON_WRITE, settings.ConcurrencyMode.SINGLE_WRITER),
)
"""Tables, and modes in which they can be written."""

KINDS_OF_ROWS = (
    # Whole rows by event time, ordered deletes: what writers do may be merged in any order.
    *[(settings.ConcurrencyMode.NON_BLOCKING, table_config.MergeMode.EVENT_TIME, False)] * 4,
    # The others are merged in the order of their writes, deletes without ordering values, too.
    *[(settings.ConcurrencyMode.OPTIMISTIC, table_config.MergeMode.EVENT_TIME, False)] * 2,
    (settings.ConcurrencyMode.OPTIMISTIC, table_config.MergeMode.EVENT_TIME, True),
    (settings.ConcurrencyMode.OPTIMISTIC, table_config.MergeMode.COMMIT_TIME, False),
    (settings.ConcurrencyMode.OPTIMISTIC, table_config.MergeMode.COMMIT_TIME, True),
    (settings.ConcurrencyMode.SINGLE_WRITER, table_config.MergeMode.EVENT_TIME, True),
)
"""Modes of writers, how rows are merged, and whether partial updates fill nulls."""


def plan_of(scenario: Scenario, seed: int) -> Plan:
    """Return the run that a seed stands for."""
    source = random.Random(f"{scenario.value} {seed}")
    plan = Plan(
        seed=seed,
        # Few of each: many small runs meet more interleavings than few large ones.
        writers=source.choice((2, 2, 2, 3)),
        batches=source.choice((1, 1, 2)),
        compactors=source.choice((1, 1, 1, 2)),
        janitors=source.choice((1, 1, 1, 2)),
        readers=source.choice((1, 1, 1, 2)),
        has_shared_columns=scenario is Scenario.NON_BLOCKING and source.random() < 0.3,
        switch_rate=source.choice((0.1, 0.3, 1.0)),
        page_names=source.choice((None, 6, 24)),
    )
    match scenario:
        case Scenario.OPTIMISTIC:
            plan = replace(plan, mode=settings.ConcurrencyMode.OPTIMISTIC)
        case Scenario.FAILING:
            # With small pages each try takes so many steps that hardly one survives its crashes.
            plan = replace(plan, crash_rate=0.007, pause_rate=0.012, page_names=24)
        case Scenario.CLOCKS:
            plan = replace(plan, step_rate=0.008, step_ms_max=WRONG_CLOCK_MS)
        case Scenario.LATE:
            modes = (settings.ConcurrencyMode.NON_BLOCKING, settings.ConcurrencyMode.OPTIMISTIC)
            plan = replace(plan, mode=source.choice(modes), late_rate=0.2, loss_rate=0.0)
        case Scenario.COPY_ON_WRITE | Scenario.LATE_COPY_ON_WRITE:
            is_late = scenario is Scenario.LATE_COPY_ON_WRITE
            plan = replace(
                plan,
                late_rate=0.2 if is_late else 0.0,
                loss_rate=0.0 if is_late else plan.loss_rate,
                table_type=table_config.TableType.COPY_ON_WRITE,
                mode=source.choice(
                    (settings.ConcurrencyMode.OPTIMISTIC, settings.ConcurrencyMode.SINGLE_WRITER)
                ),
                compactors=0,
                crash_rate=0.004,
                pause_rate=0.006,
            )
        case Scenario.DELETES:
            mode, merge_mode, fills_nulls = source.choice(KINDS_OF_ROWS)
            plan = replace(
                plan,
                rows=schedule_rows.config_of(merge_mode, fills_nulls=fills_nulls),
                mode=mode,
                batches=source.choice((2, 3, 4)),
                takes_compactions_back=source.random() < 0.3,
                # With smaller pages runs of so many batches take more steps than a run may.
                page_names=source.choice((None, 24)),
            )
        case Scenario.NON_BLOCKING:
            pass
        case _:
            plan = _of_any_kind(_disturbed(plan, scenario, source), source)
    return plan


def _disturbed(plan: Plan, scenario: Scenario, source: random.Random) -> Plan:
    """Return a plan with what a scenario of all kinds of tables and modes is about."""
    match scenario:
        case Scenario.MISJUDGED:
            return replace(
                plan,
                janitors=source.choice((1, 2, 3)),
                crash_rate=0.004,
                pause_rate=0.004,
                misjudgement_rate=source.choice((0.05, 0.3, 0.8)),
            )
        case Scenario.IN_PLACE:
            return replace(plan, crash_rate=0.007, pause_rate=0.012, is_in_place=True)
        case Scenario.HELD_UP:
            return replace(plan, pause_rate=0.012, pause_with_lock_ms_max=LONG_PAUSE_MS)
        case Scenario.RESTARTED:
            return replace(
                plan,
                compactors=source.choice((1, 2)),
                crash_rate=0.006,
                pause_rate=0.006,
                loss_rate=source.choice((0.02, 0.3)),
                failed_task_rate=0.2,
                kept_attempt_rate=source.choice((0.0, 0.7)),
                plans_beside_rate=source.choice((0.0, 0.5)),
                takes_compactions_back=source.random() < 0.5,
            )
        case Scenario.UNRELIABLE:
            return replace(
                plan,
                crash_rate=0.003,
                pause_rate=0.006,
                failure_rate=0.03,
                late_rate=source.choice((0.0, 0.2)),
                loss_rate=0.0,
                slow_beat_rate=0.3,
            )
        case _:
            raise AssertionError(f"{scenario.value} is for some tables and modes only")


def _of_any_kind(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table and a mode that chance chooses."""
    table_type, mode = source.choice(KINDS)
    is_cow = table_type is table_config.TableType.COPY_ON_WRITE
    compactors = 0 if is_cow else plan.compactors
    return replace(plan, table_type=table_type, mode=mode, compactors=compactors)


class Fleet:
    """The actors of a plan; each that crashes is followed by another.

    So is one that is paused for long, by somebody who takes it for dead: then there are two.
    Long pauses come with the lock in one scenario only. What is paused between the last look at its
    lock and the creation of its completed file, for longer than lock and heartbeat last, publishes
    what others have taken back by then: no storage of files can prevent it, so it is found out and
    reported as an outcome that is not known (L2; `test_publication` has it).
    """

    def __init__(
        self,
        plan: Plan,
        chances: chance.Chance | None = None,
        troupe: schedule.Troupe | None = None,
    ) -> None:
        self.plan = plan
        self.chances = chances or chance.SeededChance(plan.seed, switch_rate=plan.switch_rate)
        self.time = schedule.Schedule(plan.seed, chances=self.chances, troupe=troupe)
        self.time.disturb = self._disturb
        make_world = World if plan.rows is None else schedule_rows.RowsWorld
        self.world = make_world(
            self.time,
            faults=faulty_storage.ChanceFaults(
                crash_rate=plan.crash_rate,
                failure_rate=plan.failure_rate,
                late_rate=plan.late_rate,
                slow_beat_rate=plan.slow_beat_rate,
            ),
            write_settings=replace(SETTINGS, concurrency=plan.mode),
            config=plan.rows or CONFIGS[plan.table_type],
            is_in_place=plan.is_in_place,
        )
        self.world.page_names = plan.page_names
        self.world.lock.loss_rate = plan.loss_rate
        self.world.keeps_attempts = plan.kept_attempt_rate > 0
        self.world.failed_task_rate = plan.failed_task_rate
        self.world.plans_beside_rate = plan.plans_beside_rate
        self.world.misjudgement_rate = plan.misjudgement_rate
        self.world.witness.may_misjudge = plan.misjudgement_rate > 0
        self.world.has_partial_writes = plan.mode is not settings.ConcurrencyMode.NON_BLOCKING
        self.finished: set[str] = set()
        self.newest: dict[str, tuple[int, int, Callable[[Client], None]]] = {}
        for kind, count, work in (
            ("w", plan.writers, self._write_batches),
            ("compactor", plan.compactors, self._compact_until_done),
            ("janitor", plan.janitors, self._roll_back_until_done),
            ("reader", plan.readers, self._read_until_done),
        ):
            for number in range(count):
                self._start(f"{kind}{number}", work)

    def run(self) -> None:
        """Let all of it happen, and check every invariant.

        Raises:
            AssertionError: One does not hold, or an actor never ended, or failed.
        """
        self.time.run()
        completed = self.world.timeline.completed_writes
        assert len(completed) >= self.plan.writers * self.plan.batches, "batches are missing"
        self._settle()

    def _start(
        self, name: str, work: Callable[[Client], None], number: int = 1, attempt: int = 1
    ) -> None:
        """Start a process of an actor, the n-th of it."""
        process = self._process(name, number)
        author = authors.Author(writer_id=name, attempt=attempt)
        self.newest[name] = (number, attempt, work)

        def body() -> None:
            try:
                work(self.world.client(process, author, columns=self._columns(name)))
                self.finished.add(name)
            except errors.FencedError as error:
                self.time.note(f"{process.name} gives up: {error}")
            except schedule.Crash:
                self._follow(name, number)
                raise

        self.time.spawn(process.name, process, body)

    def _columns(self, writer: str) -> tuple[str, ...] | None:
        """Return what a writer claims to write; nothing where claims are not looked at."""
        if self.plan.mode is not settings.ConcurrencyMode.NON_BLOCKING or writer[0] != "w":
            return None
        return ("shared",) if self.plan.has_shared_columns else (writer,)

    def _follow(self, name: str, number: int) -> None:
        newest, attempt, work = self.newest[name]
        if newest == number:
            is_kept = bool(self.plan.kept_attempt_rate) and (
                random.Random(f"{self.plan.seed} {name} {number}").random()
                < self.plan.kept_attempt_rate
            )
            self._start(name, work, number + 1, attempt if is_kept else attempt + 1)

    def _process(self, name: str, number: int) -> schedule.Process:
        source = random.Random(f"{self.plan.seed} {name} {number}")
        process = self.world.process(
            f"{name}.{number}",
            offset_ms=source.randint(-SKEW_MS, SKEW_MS) if self.plan.step_rate else 0,
            host=source.choice(("host", "another")),
        )
        if self.plan.step_rate:
            process.clock.drift_ppm = source.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)
        return process

    def _disturb(self, process: schedule.Process) -> None:
        """Pause the process, or set its clock, perhaps."""
        disturbance = self.chances.draw(process, "disturbance", "", self._sample_disturbance)
        if not isinstance(disturbance, tuple):
            return
        what, amount_ms = disturbance
        if what == "clock":
            self.time.note(f"{process.name}: clock is off by {amount_ms} ms")
            process.clock.offset_ms = amount_ms
            return
        holder = self.world.lock.holder
        if holder is not None and holder.process is process:
            amount_ms = min(amount_ms, self.plan.pause_with_lock_ms_max)
        process.pause(amount_ms)
        if what == "pause that looks like death" and amount_ms > SUSPICIOUS_PAUSE_MS:
            name, _, number = process.name.partition(".")
            self._follow(name, int(number))

    def _sample_disturbance(self, source: random.Random) -> chance.Answer:
        drawn = source.random()
        if drawn < self.plan.pause_rate:
            what = source.choice(("pause", "pause that looks like death"))
            return what, source.randint(1, LONG_PAUSE_MS)
        if drawn < self.plan.pause_rate + self.plan.step_rate:
            return "clock", source.randint(-self.plan.step_ms_max, self.plan.step_ms_max)
        return ""

    def _write_batches(self, writer: Client) -> None:
        for number in range(self.plan.batches):
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
        while True:
            try:
                is_last = self._are_writers_done
                timeline = self.world.timeline
                pending = timeline.pending_compactions
                if pending and service.random.uniform() >= self.plan.plans_beside_rate:
                    self.world.compact(service, pending[0].requested_time)
                elif _has_changes(timeline):
                    self.world.schedule_compaction(service)
                    continue
                elif is_last:
                    return
            # A plan that others had overtaken may be taken back before it is executed.
            except (*TRANSIENT, errors.NotFoundError) as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(1.0)

    def _roll_back_until_done(self, service: Client) -> None:
        while True:
            try:
                count = schedule_rollback.roll_back_dead(self.world, service)
                if self.plan.takes_compactions_back:
                    schedule_rollback.roll_back_compactions(self.world, service)
                if self._are_writers_done and not count:
                    return
            except TRANSIENT as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(3.0)

    def _read_until_done(self, reader: Client) -> None:
        while True:
            is_last = self._are_writers_done
            try:
                read = self.world.read(reader)
                self.time.note(f"{reader.author}: saw {sorted(read.writes)}")
                if is_last:
                    return
            except errors.StorageError as error:
                self.time.note(f"{reader.author}: {error.kind}: {error}")
            reader.clock.sleep_s(3 * reader.random.uniform())

    @property
    def _are_writers_done(self) -> bool:
        return all(f"w{number}" in self.finished for number in range(self.plan.writers))

    def _settle(self) -> None:
        """Let all the dead be known as such, and a last service clean up (I8, I10)."""
        self.world.faults = faulty_storage.NoFaults()
        self.world.lock.loss_rate = self.world.misjudgement_rate = 0.0
        for number in range(2):
            self.time.advance(SETTINGS.heartbeat_expiry_ms + self.world.lock.session_ms)
            service = self.world.writer(f"last{number}")
            schedule_rollback.roll_back_dead(self.world, service)
            # One that lost the lock while it planned may have done so after all had ended.
            for planned in self.world.timeline.pending_compactions:
                self.world.compact(service, planned.requested_time)
        read = self.world.read(self.world.writer("last reader"))
        timeline = self.world.check()
        if self.plan.has_shared_columns:
            invariants.check_merged_in_order(self.world.reads, self.world.excused)
        invariants.check_quiescence(self.world.storage, timeline)
        invariants.check_everything_is_read(self.world.storage, timeline, read, self.world.excused)


def _has_changes(timeline: active.ActiveTimeline) -> bool:
    """Return whether a write has completed that no compaction can have merged."""
    last = max((each.requested_time for each in _compactions(timeline)), default="")
    return any(
        each.action is instants.Action.DELTA_COMMIT and str(each.completion_time) > last
        for each in timeline.completed_writes
    )


def _compactions(timeline: active.ActiveTimeline) -> Iterator[instants.Instant]:
    return (each for each in timeline.completed_writes if each.action is instants.Action.COMMIT)
