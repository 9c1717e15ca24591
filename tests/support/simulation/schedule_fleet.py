"""A fleet on one table: writers, compactors, rollback services and readers, and what befalls them.

A `Plan` says who there is and how often what goes wrong; a seed draws it from its scenario, and
everything that happens from the plan. So a failing run can be told as a smaller one that fails,
too: `schedule_shrinking` looks for it.
"""

import collections
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from hoodie import errors
from hoodie.maintenance.cleaning import retention
from hoodie.model import instants, settings, table_config, time_zones
from hoodie.timeline import active
from hoodie.transaction import authors
from hoodie.transaction.client import Client
from support.simulation import (
    ambushes,
    chance,
    faulty_storage,
    invariants,
    schedule,
    schedule_consumers,
    schedule_engine,
    schedule_files,
    schedule_history,
    schedule_lookups,
    schedule_pulls,
    schedule_rollback,
    schedule_rows,
    schedule_savepoints,
    schedule_streaming,
    schedule_wall,
)
from support.simulation.schedule_plans import KEYS_BUILT, LONG_PAUSE_MS, SKEW_MS, Plan
from support.simulation.schedule_world import ARCHIVE, CONFIG, COPY_ON_WRITE, SETTINGS, World

CONFIGS = {each.table_type: each for each in (CONFIG, COPY_ON_WRITE)}
ATTEMPTS_MAX = 60
COMMITS_AFTER = 3
DROP_RATE = 0.4
BATCHES_MAX = 6
"""So many a writer writes at most that writes until an index is ready."""
BUILDS_MAX = 100
"""More builds than any run completes."""
DRIFT_PPM_MAX = 1_000
SUSPICIOUS_PAUSE_MS = 500
WRITERS = ("w", "jvm")
BETWEEN_BATCHES_S = 12.0
FAILURES = (faulty_storage.Fault.FAIL_BEFORE, faulty_storage.Fault.FAIL_AFTER)
CRASHES = (faulty_storage.Fault.CRASH_BEFORE, faulty_storage.Fault.CRASH_AFTER)
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
        self.time = schedule.Schedule(
            plan.seed, begins_ms=plan.begins_ms, chances=self.chances, troupe=troupe
        )
        self.time.disturb = self._disturb
        self.time.meet = self._meet
        self._waiting = {each: each.times for each in plan.in_wait}
        self.world = _kind_of_world(plan)(
            self.time,
            faults=faulty_storage.ChanceFaults(
                crash_rate=plan.crash_rate,
                failure_rate=plan.failure_rate,
                late_rate=plan.late_rate,
                slow_beat_rate=plan.slow_beat_rate,
            ),
            write_settings=_settings(plan),
            config=_config(plan),
            is_in_place=plan.is_in_place,
            is_lying=plan.is_lying,
            has_chain=plan.has_chain,
            has_metadata=plan.has_metadata,
            has_bloom_filters=plan.has_bloom_filters,
            has_record_index=plan.has_record_index,
            has_partitioned_record_index=plan.has_partitioned_record_index,
            has_statistics=plan.has_statistics,
        )
        self.world.replacement_rate = plan.replacement_rate
        self.world.selection_rate = plan.selection_rate
        self.world.builds_partitioned = plan.builds_partitioned
        self.world.changes_columns = plan.indexes_statistics
        self.world.page_names = plan.page_names
        self.world.lock.loss_rate = plan.loss_rate
        self.world.keeps_attempts = plan.kept_attempt_rate > 0
        self.world.failed_task_rate = plan.failed_task_rate
        self.world.repeats_tasks = plan.repeats_tasks
        self.world.names_groups = plan.names_groups
        self.world.plans_beside_rate = plan.plans_beside_rate
        self.world.lingers_s = plan.lingers_s
        self.world.streams_keys = plan.seed in KEYS_BUILT
        self.world.misjudgement_rate = plan.misjudgement_rate
        self.world.witness.may_misjudge = plan.misjudgement_rate > 0 or any(
            each.trouble is ambushes.Trouble.WRONG_VERDICT for each in plan.in_wait
        )
        self.world.has_partial_writes = plan.mode is not settings.ConcurrencyMode.NON_BLOCKING
        self.transient = TRANSIENT
        self.world.is_cleaned = plan.cleaners > 0
        if plan.cleaners:
            # A write that was rolled back while it was paused holds no clean back any more.
            self.transient = (*self.transient, errors.NotFoundError)
        self.world.is_archived = plan.archivers > 0
        if plan.archivers:
            # What it was about to archive was archived by another after its lock was lost.
            self.transient = (*self.transient, errors.NotFoundError)
        self.world.has_engines = plan.engines + plan.jvms + plan.streamers > 0
        self.world.keepers.is_ordered = self.world.is_ordered and plan.rows is None
        if plan.level_files:
            self.world.archive_policy = replace(ARCHIVE, merged_files=plan.level_files)
        if plan.engines:
            # It may have made what we do not maintain, and remove it later.
            self.transient = (*TRANSIENT, errors.UnsupportedError)
        if plan.has_record_index:
            # A key that it brings may be in another file group.
            self.transient = (*self.transient, errors.InvalidInputError)
        if self._may_lack_changes:
            self.transient = (*self.transient, errors.FormatError)
        self.builds = 0  # How often bloom filters were built.
        self.finished: set[str] = set()
        self.at_work: dict[str, set[int]] = collections.defaultdict(set)
        self.newest: dict[str, tuple[int, int, Callable[[Client], None]]] = {}
        for kind, count, work in (
            ("w", plan.writers, self._write_batches),
            ("compactor", plan.compactors, self._compact_until_done),
            ("janitor", plan.janitors, self._roll_back_until_done),
            ("reader", plan.readers, self._read_until_done),
            ("engine", plan.engines, self._act_as_another_engine),
            ("jvm", plan.jvms, self._write_batches),
            (schedule_streaming.PREFIX, plan.streamers, self._write_batches),
            ("calendar", int(plan.clock_change is not None), self._follow_calendar),
            ("cleaner", plan.cleaners, self._clean_until_done),
            ("archiver", plan.archivers, self._archive_until_done),
            ("upkeeper", plan.upkeepers, self._keep_up_metadata_until_done),
            ("indexer", plan.indexers, self._build_indexes_until_done),
            ("remaker", self._may_lack_changes, self._remake_metadata_until_done),
            ("saver", plan.savers, self._save_until_done),
            ("consumer", plan.consumers, self._consume_until_done),
            ("historian", plan.historians, self._look_back_until_done),
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
        writers = self.plan.writers + self.plan.jvms + self.plan.streamers
        assert len(completed) >= writers * self.plan.batches, "batches are missing"
        self._settle()

    def _start(
        self, name: str, work: Callable[[Client], None], number: int = 1, attempt: int = 1
    ) -> None:
        """Start a process of an actor, the n-th of it."""
        process = self._process(name, number)
        author = authors.Author(writer_id=name, attempt=attempt)
        self.newest[name] = (number, attempt, work)
        self.at_work[name].add(number)

        def body() -> None:
            try:
                work(self.world.client(process, author, columns=self._columns(name)))
                self.at_work[name].remove(number)
                self.finished.add(name)
            except errors.FencedError as error:
                self.time.note(f"{process.name} gives up: {error}")
                self.at_work[name].remove(number)
                # The one that fenced it off may have died before.
                if name not in self.finished and not self.at_work[name]:
                    self._follow(name, number)
            except schedule.Crash:
                self.at_work[name].remove(number)
                self._follow(name, number)
                raise

        self.time.spawn(process.name, process, body)

    def _columns(self, writer: str) -> tuple[str, ...] | None:
        """Return what a writer claims to write; nothing where claims are not looked at."""
        is_writer = writer.startswith(WRITERS)
        if self.plan.mode is not settings.ConcurrencyMode.NON_BLOCKING or not is_writer:
            return None
        return ("shared",) if self.plan.has_shared_columns else (writer,)

    def _follow(self, name: str, number: int) -> None:
        newest, attempt, work = self.newest[name]
        # One that was only paused may die after its successor has ended.
        if newest == number or not self.at_work[name]:
            is_kept = bool(self.plan.kept_attempt_rate) and (
                random.Random(f"{self.plan.seed} {name} {number}").random()
                < self.plan.kept_attempt_rate
            )
            self._start(name, work, newest + 1, attempt if is_kept else attempt + 1)

    def _process(self, name: str, number: int) -> schedule.Process:
        source = random.Random(f"{self.plan.seed} {name} {number}")
        process = self.world.process(
            f"{name}.{number}",
            offset_ms=source.randint(-SKEW_MS, SKEW_MS) if self.plan.step_rate else 0,
            host=source.choice(("host", "another")),
        )
        process.is_spared = name.startswith(("engine", "remaker", "calendar"))
        # Within an hour they would drift apart by more than they may.
        if self.plan.step_rate and self.plan.clock_change is None:
            process.clock.drift_ppm = source.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)
        return process

    def _disturb(self, process: schedule.Process) -> None:
        """Pause the process, or set its clock, perhaps."""
        if process.is_spared:
            return
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

    def _meet(self, process: schedule.Process, call: str) -> None:
        """Let what waits for a process at a call befall it, perhaps."""
        for number, each in enumerate(self.plan.in_wait):
            if not process.is_spared and self._waiting[each] and each.is_met_by(process, call):
                question = f"ambush {number}"
                amount_ms = self.chances.draw(process, question, 0, each.sample)
                if amount_ms:
                    self._waiting[each] -= 1
                    self._befall(process, each.trouble, int(str(amount_ms)))

    def _befall(self, process: schedule.Process, what: ambushes.Trouble, amount_ms: int) -> None:
        self.time.note(f"{process.name}: {what.value}")
        match what:
            case ambushes.Trouble.FAILURE:
                process.fate = FAILURES[amount_ms % 2]
            case ambushes.Trouble.CRASH:
                process.fate = CRASHES[amount_ms % 2]
            case ambushes.Trouble.LATE_FAILURE:
                process.fate = faulty_storage.Fault.LATE
            case ambushes.Trouble.LATE_CRASH:
                process.fate = faulty_storage.Fault.LATE_CRASH
            case ambushes.Trouble.CUT_OFF:
                process.unanswered_until_ms = self.time.now_ms + amount_ms
                self.time.sleep(process, amount_ms)
            case _:
                if what is not ambushes.Trouble.LONG_PAUSE:
                    self.world.lock.lose_of(process)
                process.pause(amount_ms)
                if what is ambushes.Trouble.WRONG_VERDICT:
                    self.world.misjudged.add(process.name)
                    name, _, number = process.name.partition(".")
                    if amount_ms % 2:
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
        is_endless = self.plan.lingers_s > 0 and schedule_streaming.is_one(writer.storage)
        # A writer that must be alone waits for all batches of one that is endless.
        attempts_max = ATTEMPTS_MAX * (BATCHES_MAX if self.plan.lingers_s > 0 else 1)
        for number in itertools.count():
            is_over = not is_endless or self.builds > 0 or number >= BATCHES_MAX
            if number >= self.plan.batches and is_over:
                return
            for _ in range(attempts_max):
                if self.plan.clock_change is not None:
                    writer.clock.sleep_s(BETWEEN_BATCHES_S * writer.random.uniform())
                try:
                    self.world.write(writer, f"b{number}")
                    break
                except self.transient as error:
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
                elif _has_changes(timeline) and self.world.schedule_compaction(service):
                    continue
                elif is_last and not self.world.timeline.pending_compactions:
                    return
            # A plan that others had overtaken may be taken back before it is executed.
            except (*self.transient, errors.NotFoundError) as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
                if self._are_writers_done and self._is_rollback_left:
                    return
            service.clock.sleep_s(1.0)

    def _roll_back_until_done(self, service: Client) -> None:
        while True:
            try:
                count = schedule_rollback.roll_back_dead(self.world, service)
                if self.plan.takes_compactions_back:
                    schedule_rollback.roll_back_compactions(self.world, service)
                # Nobody else finishes a rollback whose executor has died.
                is_pending = bool(self.world.timeline.pending_of(instants.Action.ROLLBACK))
                is_over = self._are_writers_done and not self._is_build_waiting
                if is_over and not count and not is_pending:
                    return
            except self.transient as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(3.0)

    def _clean_until_done(self, service: Client) -> None:
        while True:
            is_last = self._are_writers_done
            try:
                self.world.clean(service, self._retention)
                if is_last and not self.world.timeline.pending_of(instants.Action.CLEAN):
                    return
            except self.transient as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(2.0)

    def _archive_until_done(self, service: Client) -> None:
        while True:
            is_last = self._are_writers_done
            try:
                self.world.archive(service)
                if is_last:
                    return
            except self.transient as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(2.0)

    def _keep_up_metadata_until_done(self, service: Client) -> None:
        while True:
            is_last = self._are_writers_done
            try:
                self.world.keep_up_metadata(service)
                if is_last:
                    return
            # It may be made again meanwhile.
            except (*self.transient, errors.NotFoundError) as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(2.0)

    def _build_indexes_until_done(self, service: Client) -> None:
        while True:
            is_last = self._are_writers_done
            try:
                self.builds += self.world.build_index(service)
                if is_last:
                    return
                if service.random.uniform() < DROP_RATE:
                    self.world.drop_index(service)
            except errors.InvalidInputError as error:
                self._check_repeated(service, error)
                if is_last:
                    return
            except self.transient as error:
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(2.0)

    def _check_repeated(self, service: Client, error: errors.InvalidInputError) -> None:
        """A key is in two file groups: nothing is promised of what came after the lock was lost."""
        assert self.world.late, error
        self.time.note(f"{service.author}: {error.kind}: {error}")

    @property
    def _may_lack_changes(self) -> bool:
        """Whether the metadata table may lack what was published after the lock was lost."""
        return self.plan.has_metadata and not self.world.is_ordered

    def _remake_metadata_until_done(self, service: Client) -> None:
        others = {name for name in self.newest if not name.startswith("remaker")}
        while not others <= self.finished:
            try:
                self._remake_metadata(service)
            except errors.ConflictError as error:  # The table changes faster than it is listed.
                self.time.note(f"{service.author}: {error.kind}: {error}")
            service.clock.sleep_s(2.0)

    def _remake_metadata(self, service: Client) -> None:
        if self._may_lack_changes and self.world.is_metadata_doubtful:
            self.world.remake_metadata(service)

    @property
    def _retention(self) -> retention.Retention:
        """How much of the past stays: as little as may be, so that much goes."""
        kinds = (
            (retention.Policy.COMMITS, 1),
            (retention.Policy.COMMITS, 2),
            (retention.Policy.VERSIONS, 1),
            (retention.Policy.VERSIONS, 2),
        )
        policy, retained = kinds[self.plan.seed % len(kinds)]
        return retention.Retention(
            policy=policy, retained=retained, grace_ms=self.plan.grace_ms, files_max=5
        )

    def _act_as_another_engine(self, engine: Client) -> None:
        schedule_engine.act(self.world, engine, lambda: self._are_writers_done)

    def _follow_calendar(self, calendar: Client) -> None:
        assert self.plan.clock_change is not None
        schedule_wall.follow_calendar(self.time, self.world.lock, calendar, self.plan.clock_change)

    def _save_until_done(self, saver: Client) -> None:
        schedule_savepoints.act(self.world, saver, self.transient, lambda: self._are_writers_done)

    def _consume_until_done(self, client: Client) -> None:
        consumption = schedule_consumers.Consumption(self.world, client)
        consumption.act(self.transient, lambda: self._are_writers_done)

    def _look_back_until_done(self, reader: Client) -> None:
        looking = schedule_history.LookingBack(self.world, reader)
        looking.act(self.transient, lambda: self._are_writers_done)

    def _read_until_done(self, reader: Client) -> None:
        pulling = schedule_pulls.Pulling(self.world, reader)
        while True:
            is_last = self._are_writers_done
            begun_ms = self.time.now_ms
            try:
                read = self.world.read(reader)
                self.time.note(f"{reader.author}: saw {sorted(read.writes)}")
                if self.plan.indexers and self.plan.rows is None:
                    self.world.check_index_of_all()
                if self.plan.pulls:
                    pulling.pull()
                if is_last:
                    return
            except errors.StorageError as error:
                self.time.note(f"{reader.author}: {error.kind}: {error}")
            except errors.NotFoundError as error:
                if self.world.doubt_metadata():
                    self.time.note(f"{reader.author}: {error.kind}: {error}")
                    reader.clock.sleep_s(1.0)
                    continue
                # What it needs was cleaned: it has taken longer than cleaners leave it.
                if not self.plan.cleaners or self.time.now_ms - begun_ms <= self.plan.grace_ms:
                    raise
                self.time.note(f"{reader.author}: {error.kind}: {error}")
            reader.clock.sleep_s(3 * reader.random.uniform())

    @property
    def _are_writers_done(self) -> bool:
        writers = {name for name in self.newest if name.startswith(WRITERS)}
        return writers <= self.finished

    @property
    def _is_build_waiting(self) -> bool:
        """Whether a build may wait for what seems a write of another engine, to be taken back."""
        indexers = (name for name in self.newest if name.startswith("indexer"))
        # One that was only paused may still build after its successor has ended.
        return not self.plan.is_lying and any(self.at_work[name] for name in indexers)

    @property
    def _is_rollback_left(self) -> bool:
        """Whether a rollback took effect after all who carry rollbacks out had ended."""
        janitors = (f"janitor{number}" for number in range(self.plan.janitors))
        return all(each in self.finished for each in janitors) and bool(
            self.world.timeline.pending_of(instants.Action.ROLLBACK)
        )

    def _settle(self) -> None:
        """Let all the dead be known as such, and a last service clean up (I8, I10)."""
        self.world.faults = faulty_storage.NoFaults()
        self.world.lock.loss_rate = self.world.misjudgement_rate = 0.0
        self.world.misjudged.clear()
        self.world.keys.has_roaming = False
        self.world.keepers.check(self.world.whole)
        for number in range(2):
            self.time.advance(SETTINGS.heartbeat_expiry_ms + self.world.lock.session_ms)
            self.world.doubt_metadata()
            self._remake_metadata(self.world.writer(f"last remaker{number}"))
            service = self.world.writer(f"last{number}")
            # A change whose author does not know that it was made is published by the next one.
            with service.lock.scope():
                pass
            schedule_rollback.roll_back_dead(self.world, service)
            # One that lost the lock while it planned may have done so after all had ended.
            for planned in self.world.timeline.pending_compactions:
                self.world.compact(service, planned.requested_time)
            if self.plan.savers:
                schedule_savepoints.delete_all(self.world, service)
            if self.plan.consumers:
                schedule_consumers.remove_all(self.world)
            if self.plan.cleaners:
                self._clean_all(service)
        if self.plan.historians:
            self._go_on(COMMITS_AFTER)
            unlisted = schedule_history.unlisted(self.world.storage)
            self._go_on(COMMITS_AFTER)
            left = unlisted & schedule_history.unlisted(self.world.storage)
            assert not left, f"no manifest lists {sorted(left)}, and no run has deleted it"
        if self.plan.archivers:
            self.world.archive(self.world.writer("last archiver"))
            self.world.check_archived()
        if self.plan.cleaners:
            self.world.check_cleaned(replace(self._retention, grace_ms=0))
        self._end_builds()
        read = self.world.read(self.world.writer("last reader"))
        timeline = self.world.check()
        if self.plan.has_shared_columns:
            invariants.check_merged_in_order(self.world.reads, self.world.excused)
        invariants.check_quiescence(self.world.whole, timeline, self.world.strays)
        self.world.check_last(timeline, read)
        self.world.check_metadata()

    def _end_builds(self) -> None:
        if self.plan.indexers:
            service = self.world.writer("last indexer")
            try:
                self.world.build_index(service)
            except errors.InvalidInputError as error:
                self._check_repeated(service, error)
                return
            # Beside other engines it may be ready, and its action given up.
            self.world.check_index(builds_min=int(self.plan.is_lying), builds_max=BUILDS_MAX)

    def _go_on(self, commits: int) -> None:
        """Let the table be written on, so that what died with archivers goes."""
        for _ in range(commits):
            self.time.advance(1_000)
            service = self.world.writer(f"last writer{len(self.world.told)}")
            self.world.write(service)
            if not self.world.config.is_copy_on_write:
                planned = self.world.schedule_compaction(service)
                assert planned is not None, "nothing to compact after a write"
                self.world.compact(service, planned.requested_time)
            if self.plan.cleaners:
                self._clean_all(service)
            self.world.archive(service)

    def _clean_all(self, service: Client) -> None:
        self.world.clean(service, replace(self._retention, grace_ms=0, files_max=1_000))


def _settings(plan: Plan) -> settings.WriteSettings:
    found = replace(SETTINGS, concurrency=plan.mode)
    # JVMs read their clocks only, so that clocks are waited for.
    has_others = plan.jvms + plan.streamers > 0
    return replace(found, clock_wait_ms=found.clock_skew_ms_max) if has_others else found


def _config(plan: Plan) -> table_config.TableConfig:
    found = plan.rows or CONFIGS[plan.table_type]
    if plan.indexers:
        found = replace(found, properties={schedule_files.FILTERED_KEY: "true"})
    if plan.clock_change is None:
        return found
    return replace(found, time_zone=time_zones.TimeZone(plan.clock_change.zone))


def _kind_of_world(plan: Plan) -> type[World]:
    if plan.rows is None:
        return World
    if plan.indexes_values:
        return schedule_lookups.ValueWorld
    if plan.indexes_statistics:
        return schedule_lookups.StatisticsWorld
    draws_operations = plan.replacement_rate > 0 or plan.selection_rate > 0
    has_lookups = plan.rows.looks_keys_up or draws_operations
    return schedule_lookups.LookupWorld if has_lookups else schedule_rows.RowsWorld


def _has_changes(timeline: active.ActiveTimeline) -> bool:
    """Return whether a write has completed that no compaction can have merged."""
    last = max((each.requested_time for each in _compactions(timeline)), default="")
    return any(
        each.action is instants.Action.DELTA_COMMIT and str(each.completion_time) > last
        for each in timeline.completed_writes
    )


def _compactions(timeline: active.ActiveTimeline) -> Iterator[instants.Instant]:
    return (each for each in timeline.completed_writes if each.action is instants.Action.COMMIT)
