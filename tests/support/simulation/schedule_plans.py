"""What simulated runs there are: a seed stands for one, by the scenario that it is drawn from."""

import enum
import random
from dataclasses import dataclass, replace

from hoodie.model import settings, table_config
from support.simulation import (
    ambushes,
    schedule,
    schedule_lookups,
    schedule_rows,
    schedule_wall,
    traps,
)
from support.simulation.schedule_world import SETTINGS

SKEW_MS = SETTINGS.clock_skew_ms_max // 2
WRONG_CLOCK_MS = 5 * SETTINGS.clock_skew_ms_max
SHORT_PAUSE_MS = 3_000
LONG_PAUSE_MS = 2 * SETTINGS.heartbeat_expiry_ms
BEFORE_CHANGE_MS = 8_000


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
    LOOKED_UP = "looked-up"  # A table without buckets, whose optimistic writers look keys up.
    EVERYWHERE = "everywhere"  # The same with a global index, and records that change partitions.
    REPLACED = "replaced"  # Writers that replace all rows, beside such writers and cleaners.
    SELECTED = "selected"  # Writers that delete by a filter what they have read, beside others.
    # Of tables and modes of all kinds:
    IN_PLACE = "in-place"  # Data files show under their names while they are written.
    HELD_UP = "held-up"  # Who has the lock is paused until lock and heartbeat are lost.
    MISJUDGED = "misjudged"  # Living processes are proved dead.
    RESTARTED = "restarted"  # Successors run as the same attempt; tasks, plans and locks fail.
    UNRELIABLE = "unreliable"  # Most of what happens are failures of the storage, and late answers.
    AMBUSHED = "ambushed"  # Trouble strikes at the calls before which the protocol looks.
    FOREIGN = "foreign"  # Another engine changes the table beside ours.
    TRAPPED = "trapped"  # As ambushed, by ambushes that are chosen to go together.
    CHAINED = "chained"  # Another engine, or other troubles, in a table with a chain.
    LYING = "lying"  # Everybody has the lock at once, and all of these troubles come together.
    CLEANED = "cleaned"  # Cleaners beside all of them, whatever the lock says.
    RETAINED = "retained"  # Archivers beside cleaners, and a chain.
    KEPT = "kept"  # Savepoints and consumers beside cleaners and archivers.
    ARCHIVED = "archived"  # Archivers beside each kind of trouble, with a chain and without.
    INDEXED = "indexed"  # A metadata table, under a lock that may be lost.
    INDEXED_LYING = "indexed-lying"  # The same where everybody has the lock at once.
    BUILT = "built"  # Indexes that are built and dropped beside all of them, by a lying lock.
    BUILT_BESIDE = (
        "built-beside"  # The same where other engines may write, by a lock they may lose.
    )
    AUTUMN = "autumn"  # A table in local time, beside JVMs, while clocks are put back or forward.
    STORMY = "stormy"  # Several of these troubles at once, each at a rate that chance chooses.


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run, before anything has happened.

    Attributes:
        seed: Of ids, times and chance.
        table_type: Of the table.
        rows: The configuration of a table whose data files hold rows; None where they hold lines.
        replacement_rate: How many of the batches replace all rows; of tables with rows.
        selection_rate: How many of the batches delete rows by a filter; of tables with rows.
        mode: Of the writers.
        writers: How many.
        batches: How many each writes.
        compactors: How many.
        janitors: Rollback services.
        readers: How many.
        engines: Processes of another engine.
        jvms: Writers that take their times from their own clocks.
        streamers: Writers of another engine that stream into the metadata table.
        lingers_s: How long a write of theirs takes at most.
        clock_change: During which the run takes place, of a table in local time.
        cleaners: Cleaning services.
        archivers: Archiving services.
        upkeepers: Services that compact the metadata table.
        indexers: Who builds bloom filters, which the metadata table has not, and drops them.
        builds_partitioned: Whether they build a record index of each partition.
        indexes_values: Whether they build a secondary index with a record index.
        indexes_statistics: Whether they build statistics instead, of columns that change.
        savers: Who creates and deletes savepoints.
        consumers: Consumers of increments, for which cleaning and archiving wait.
        historians: Readers of the archived timeline.
        level_files: So many files of a level of the archive are merged; 0 for the default.
        grace_ms: How long cleaners leave a reader.
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
        has_chain: Whether the table has a chain, and other engines may write it all the same.
        is_lying: Whether everybody who asks for the lock is told to have it; with a chain.
        has_metadata: Whether the table has a metadata table.
        has_bloom_filters: Whether that has the filters of base files.
        has_record_index: Whether that has a record index.
        has_partitioned_record_index: Whether that is one of each partition, of which there are two.
        has_statistics: Whether that has statistics of files and of partitions.
        slow_beat_rate: How often the answer to a heartbeat takes long.
        failed_task_rate: How often a task of a write fails after its file, and is run again.
        repeats_tasks: Whether a task that fails is run again.
        names_groups: Whether each writer names the file groups of empty buckets by itself.
        kept_attempt_rate: How often a process is followed by another of the same attempt.
        plans_beside_rate: How often a compaction is planned while one is pending.
        takes_compactions_back: Whether janitors take back what dead compactors have begun.
        pause_with_lock_ms_max: How long who has the lock is paused at most.
        page_names: How many names a page of a listing has; None for listings that are atomic.
        in_wait: What befalls processes at certain calls.
        pulls: Whether readers pull increments by positions, too.
    """

    seed: int
    table_type: table_config.TableType = table_config.TableType.MERGE_ON_READ
    rows: table_config.TableConfig | None = None
    replacement_rate: float = 0.0
    selection_rate: float = 0.0
    mode: settings.ConcurrencyMode = settings.ConcurrencyMode.NON_BLOCKING
    writers: int = 2
    batches: int = 2
    compactors: int = 1
    janitors: int = 1
    readers: int = 1
    engines: int = 0
    jvms: int = 0
    streamers: int = 0
    lingers_s: float = 0.0
    clock_change: schedule_wall.Change | None = None
    cleaners: int = 0
    archivers: int = 0
    upkeepers: int = 0
    indexers: int = 0
    builds_partitioned: bool = False
    indexes_values: bool = False
    indexes_statistics: bool = False
    savers: int = 0
    consumers: int = 0
    historians: int = 0
    level_files: int = 0
    grace_ms: int = 0
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
    has_chain: bool = False
    is_lying: bool = False
    has_metadata: bool = False
    has_bloom_filters: bool = False
    has_record_index: bool = False
    has_partitioned_record_index: bool = False
    has_statistics: bool = False
    slow_beat_rate: float = 0.0
    failed_task_rate: float = 0.0
    repeats_tasks: bool = False
    names_groups: bool = False
    kept_attempt_rate: float = 0.0
    plans_beside_rate: float = 0.0
    takes_compactions_back: bool = False
    pause_with_lock_ms_max: int = SHORT_PAUSE_MS
    page_names: int | None = None
    in_wait: tuple[ambushes.Ambush, ...] = ()
    pulls: bool = False

    @property
    def begins_ms(self) -> int:
        """When it begins: of a change of clocks some seconds before."""
        if self.clock_change is None:
            return schedule.EPOCH_MS
        return self.clock_change.borders_ms[0] - BEFORE_CHANGE_MS


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


_OF_ONE_KIND = (
    Scenario.OPTIMISTIC,
    Scenario.FAILING,
    Scenario.CLOCKS,
    Scenario.LATE,
    Scenario.COPY_ON_WRITE,
    Scenario.LATE_COPY_ON_WRITE,
    Scenario.DELETES,
    Scenario.LOOKED_UP,
    Scenario.EVERYWHERE,
    Scenario.REPLACED,
    Scenario.SELECTED,
)
"""Scenarios that say what table there is."""


INDEXED_FROM = 100_000
"""From this seed on the tables of every scenario have a metadata table; those of smaller seeds have
none, but for the two scenarios that are about it: what a seed has found is found again."""


FILTERED = range(150_000, 200_000)
"""The seeds whose metadata tables have the partition `bloom_filters`."""


KEYED_FROM = 200_000
"""From this seed on metadata tables have a record index; but of tables with rows."""


PARTITIONED_FROM = 250_000
"""From this seed on that is one of each partition."""


STATED_FROM = 300_000
"""From this seed on metadata tables have statistics, and no record index."""


ROWED_FROM = 400_000
"""From this seed on indexes are built of the keys of rows: record indexes, where no other engine
writes."""


PARTS_BUILT_FROM = 450_000
"""From this seed on these are record indexes of each partition."""


VALUED_FROM = 500_000
"""From this seed on secondary indexes of their values, too."""
STATISTICS_BUILT = range(600_000, 650_000)
"""The seeds of which statistics are built instead. From the first on indexes are built of rows also
where other engines write."""


KEYS_BUILT = range(900_000, 1_000_000)
"""The seeds of which a record index is built where other engines write, and nothing else."""


PARTS_BUILT = (range(PARTS_BUILT_FROM, VALUED_FROM), range(950_000, 1_000_000))
"""The seeds of which that is one of each partition."""


OVERLAPPING = (range(50_000, 100_000), range(640_000, 650_000), KEYS_BUILT)
"""The seeds of which other engines write beside an index that is built until that is ready, one
write or more at any time."""


PULLED_FROM = 500_000
"""From this seed on readers pull increments by positions, beside what they read."""


_INDEXES = (
    table_config.IndexKind.BUCKET,
    table_config.IndexKind.SIMPLE,
    table_config.IndexKind.BLOOM,
)


def plan_of(scenario: Scenario, seed: int) -> Plan:
    """Return the run that a seed stands for."""
    plan = replace(_plan_of(scenario, seed), pulls=seed >= PULLED_FROM)
    is_of_rows = seed >= (ROWED_FROM if plan.is_lying else STATISTICS_BUILT.start)
    if is_of_rows and plan.indexers:
        plan = _with_keys_to_index(plan, random.Random(f"keys {seed}"))
        # A build makes more calls: at the rates of others few would ever end.
        plan = replace(
            plan,
            builds_partitioned=any(seed in each for each in PARTS_BUILT),
            crash_rate=plan.crash_rate / 2,
            failure_rate=plan.failure_rate / 2,
            pause_rate=plan.pause_rate / 2,
        )
        if seed in STATISTICS_BUILT:
            plan = replace(plan, indexes_statistics=True)
        elif seed >= VALUED_FROM and seed not in KEYS_BUILT:
            plan = _with_values_to_index(plan)
    if scenario is Scenario.BUILT_BESIDE and any(seed in each for each in OVERLAPPING):
        # A run has more writes: at the rates of others few would ever end.
        plan = replace(
            plan,
            writers=1,
            streamers=2,
            lingers_s=3.0,
            crash_rate=plan.crash_rate / 4,
            failure_rate=plan.failure_rate / 4,
            pause_rate=plan.pause_rate / 4,
        )
    # Another engine writes without it.
    if seed < INDEXED_FROM or plan.engines:
        return plan
    plan = replace(
        plan,
        has_metadata=True,
        has_bloom_filters=seed in FILTERED and not plan.indexers,
        # Lines of text have none, which a write looks for that completes by another configuration.
        has_statistics=seed >= STATED_FROM and not plan.indexers,
        upkeepers=max(plan.upkeepers, seed % 2),
    )
    # What writes do to keys whose times go back counts in another order than they complete in.
    if seed not in range(KEYED_FROM, STATED_FROM) or plan.rows is not None or plan.jvms:
        return plan
    # A write makes more calls: at the rates of others few would ever end.
    return replace(
        plan,
        has_record_index=True,
        has_partitioned_record_index=seed >= PARTITIONED_FROM,
        crash_rate=plan.crash_rate / 2,
        pause_rate=plan.pause_rate / 2,
    )


def _plan_of(scenario: Scenario, seed: int) -> Plan:
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
        case Scenario.NON_BLOCKING:
            return plan
        case _ if scenario in _TROUBLED:
            return _of_any_kind(_TROUBLED[scenario](plan, source), source)
        case Scenario.TRAPPED:
            return _trapped(_of_any_kind(plan, source), source)
        case _ if scenario in _OF_ONE_KIND:
            return _of_one_kind(plan, scenario, source)
        case _:
            return _of_any_kind(_disturbed(plan, scenario, source), source)


def _of_one_kind(plan: Plan, scenario: Scenario, source: random.Random) -> Plan:
    """Return a plan of a scenario that says what table there is, and how it is written."""
    match scenario:
        case Scenario.OPTIMISTIC:
            return replace(plan, mode=settings.ConcurrencyMode.OPTIMISTIC)
        case Scenario.FAILING:
            # With small pages each try takes so many steps that hardly one survives its crashes.
            return replace(plan, crash_rate=0.007, pause_rate=0.012, page_names=24)
        case Scenario.CLOCKS:
            return replace(plan, step_rate=0.008, step_ms_max=WRONG_CLOCK_MS)
        case Scenario.LATE:
            modes = (settings.ConcurrencyMode.NON_BLOCKING, settings.ConcurrencyMode.OPTIMISTIC)
            return replace(plan, mode=source.choice(modes), late_rate=0.2, loss_rate=0.0)
        case _ if scenario in _OF_ROWS:
            return _OF_ROWS[scenario](plan, source)
        case _:
            is_late = scenario is Scenario.LATE_COPY_ON_WRITE
            return _copy_on_write(plan, source, is_late=is_late)


def _with_rows(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table whose data files hold rows."""
    mode, merge_mode, fills_nulls = source.choice(KINDS_OF_ROWS)
    return replace(
        plan,
        rows=schedule_rows.config_of(merge_mode, fills_nulls=fills_nulls),
        mode=mode,
        batches=source.choice((2, 3, 4)),
        takes_compactions_back=source.random() < 0.3,
        # With smaller pages runs of so many batches take more steps than a run may.
        page_names=source.choice((None, 24)),
    )


def _with_lookups(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table whose writers look keys up."""
    table_type = source.choice(list(table_config.TableType))
    index = source.choice((table_config.IndexKind.SIMPLE, table_config.IndexKind.BLOOM))
    is_cow = table_type is table_config.TableType.COPY_ON_WRITE
    return replace(
        plan,
        table_type=table_type,
        rows=schedule_lookups.config_of(table_type, index),
        mode=settings.ConcurrencyMode.OPTIMISTIC,
        batches=source.choice((1, 2, 3)),
        compactors=0 if is_cow else plan.compactors,
        has_chain=source.random() < 0.3,
        failed_task_rate=source.choice((0.0, 0.2)),
        takes_compactions_back=source.random() < 0.3,
        page_names=source.choice((None, 24)),
    )


def _with_moves(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table whose writers look keys up in all partitions."""
    plan = _with_lookups(plan, source)
    assert plan.rows is not None
    index = source.choice(
        (table_config.IndexKind.GLOBAL_SIMPLE, table_config.IndexKind.GLOBAL_BLOOM)
    )
    moves = source.random() < 0.8
    return replace(plan, rows=replace(plan.rows, index=index, updates_partitions=moves))


def _with_replacements(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table whose rows are replaced now and then, with any index."""
    plan = _with_lookups(plan, source)
    index = source.choice(_INDEXES)
    archivers = source.choice((0, 0, 1))
    return replace(
        plan,
        rows=schedule_lookups.config_of(plan.table_type, index),
        replacement_rate=source.choice((0.3, 0.6)),
        batches=source.choice((2, 3)),
        cleaners=max(archivers, source.choice((0, 1, 1))),
        archivers=archivers,
        grace_ms=source.choice((0, 1_000)),
    )


def _with_selections(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table whose rows are deleted by filters, with any index."""
    plan = _with_moves(plan, source) if source.random() < 0.3 else _with_lookups(plan, source)
    assert plan.rows is not None
    if source.random() < 0.4:
        bucket = table_config.IndexKind.BUCKET
        plan = replace(plan, rows=schedule_lookups.config_of(plan.table_type, bucket))
    modes = (settings.ConcurrencyMode.OPTIMISTIC, settings.ConcurrencyMode.SINGLE_WRITER)
    return replace(
        plan,
        mode=source.choice((modes[0], *modes)),
        selection_rate=source.choice((0.3, 0.6)),
        batches=source.choice((2, 3)),
        cleaners=source.choice((0, 0, 1)),
        grace_ms=source.choice((0, 1_000)),
    )


def _copy_on_write(plan: Plan, source: random.Random, *, is_late: bool) -> Plan:
    modes = (settings.ConcurrencyMode.OPTIMISTIC, settings.ConcurrencyMode.SINGLE_WRITER)
    return replace(
        plan,
        late_rate=0.2 if is_late else 0.0,
        loss_rate=0.0 if is_late else plan.loss_rate,
        table_type=table_config.TableType.COPY_ON_WRITE,
        mode=source.choice(modes),
        compactors=0,
        crash_rate=0.004,
        pause_rate=0.006,
    )


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
            return replace(
                plan, crash_rate=0.007, pause_rate=0.012, is_in_place=True, page_names=24
            )
        case Scenario.HELD_UP:
            return replace(
                plan, pause_rate=0.012, pause_with_lock_ms_max=LONG_PAUSE_MS, page_names=24
            )
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
        case Scenario.STORMY:
            return _with_several_troubles(plan, source)
        case _:
            raise AssertionError(f"{scenario.value} is for some tables and modes only")


def _with_several_troubles(plan: Plan, source: random.Random) -> Plan:
    """Return a plan with each trouble at a rate of its own: none, some, or much of it.

    Files that appear late exclude lost sessions, long pauses with the lock, and wrong verdicts: a
    write that is taken back while its completed file is on its way may be there twice
    (docs/simulation.md, "Limits").
    """
    is_late = source.random() < 0.4
    pauses_ms = (SHORT_PAUSE_MS,) if is_late else (SHORT_PAUSE_MS, SHORT_PAUSE_MS, LONG_PAUSE_MS)
    return replace(
        plan,
        writers=source.choice((2, 3)),
        compactors=source.choice((1, 2)),
        janitors=source.choice((1, 2, 3)),
        crash_rate=source.choice((0.002, 0.004, 0.006)),
        failure_rate=source.choice((0.0, 0.01, 0.02)),
        late_rate=source.choice((0.1, 0.3)) if is_late else 0.0,
        pause_rate=source.choice((0.003, 0.006)),
        loss_rate=0.0 if is_late else source.choice((0.02, 0.1, 0.3)),
        misjudgement_rate=0.0 if is_late else source.choice((0.0, 0.05, 0.3)),
        is_in_place=source.random() < 0.3,
        slow_beat_rate=source.choice((0.0, 0.3)),
        failed_task_rate=source.choice((0.0, 0.2)),
        kept_attempt_rate=source.choice((0.0, 0.7)),
        plans_beside_rate=source.choice((0.0, 0.5)),
        takes_compactions_back=source.random() < 0.5,
        pause_with_lock_ms_max=source.choice(pauses_ms),
        page_names=source.choice((None, 24)),
    )


def _with_a_lying_lock(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which the chain alone keeps order, with all troubles at rates of their own.

    Writers of one column still keep apart by heartbeats (N1), so that there are none.
    """
    plan = replace(
        plan,
        writers=source.choice((2, 3)),
        batches=source.choice((1, 2, 2)),
        compactors=source.choice((1, 2)),
        janitors=source.choice((1, 2)),
        has_shared_columns=False,
        is_lying=True,
        crash_rate=source.choice((0.0, 0.002, 0.005)),
        failure_rate=source.choice((0.0, 0.01, 0.02)),
        late_rate=source.choice((0.0, 0.1, 0.3)),
        pause_rate=source.choice((0.0, 0.004, 0.01)),
        pause_with_lock_ms_max=LONG_PAUSE_MS,
        loss_rate=0.0,
        misjudgement_rate=source.choice((0.0, 0.0, 0.05, 0.3)),
        step_ms_max=source.choice((SKEW_MS, SKEW_MS, WRONG_CLOCK_MS)),
        is_in_place=source.random() < 0.3,
        slow_beat_rate=source.choice((0.0, 0.3)),
        failed_task_rate=source.choice((0.0, 0.2)),
        repeats_tasks=source.random() < 0.5,
        names_groups=source.random() < 0.3,
        kept_attempt_rate=source.choice((0.0, 0.7)),
        plans_beside_rate=source.choice((0.0, 0.5)),
        takes_compactions_back=source.random() < 0.5,
        page_names=source.choice((None, None, 24)),
    )
    return _with_small_pages(plan) if source.random() < 0.1 else plan


def _with_a_chain(plan: Plan, source: random.Random) -> Plan:
    """Return a plan with a chain beside what keeps other engines and ours apart."""
    trouble = source.choice(
        (_with_another_engine, _with_another_engine, _with_ambushes, _with_several_troubles)
    )
    return replace(trouble(plan, source), has_chain=True)


def _with_cleaners(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which file versions are cleaned while all the rest goes on."""
    trouble = source.choice((_with_a_lying_lock, _with_several_troubles, _with_ambushes))
    plan = trouble(plan, source)
    return replace(
        plan,
        batches=source.choice((2, 3)),
        cleaners=source.choice((1, 1, 2)),
        grace_ms=source.choice((0, 1_000, 10_000)),
        # Without a chain a planner that loses the lock twice takes off what others have executed.
        has_chain=not plan.is_lying and (bool(plan.in_wait) or source.random() < 0.5),
        # With smaller pages runs of so many batches take more steps than a run may.
        page_names=source.choice((None, 24)),
    )


def _with_archivers(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which the timeline is archived, beside cleaners, under a lock or none."""
    trouble = source.choice((_with_a_lying_lock, _with_several_troubles))
    plan = trouble(plan, source)
    return replace(
        plan,
        batches=3,
        cleaners=1,
        archivers=source.choice((1, 1, 2)),
        grace_ms=source.choice((0, 1_000)),
        has_chain=not plan.is_lying,
        page_names=source.choice((None, 24)),
    )


def _with_keepers(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which savepoints and consumers hold cleaning and archiving back."""
    plan = _with_cleaners(plan, source)
    return replace(
        plan,
        cleaners=1,
        archivers=source.choice((0, 1, 1)),
        savers=source.choice((0, 1, 1, 2)),
        consumers=source.choice((1, 1, 2)),
        level_files=2,
        readers=1,
    )


def _with_archives(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which the timeline is archived beside one of all kinds of trouble."""
    disturbed = (
        Scenario.MISJUDGED,
        Scenario.IN_PLACE,
        Scenario.HELD_UP,
        Scenario.RESTARTED,
        Scenario.UNRELIABLE,
    )
    trouble = source.choice(
        (_with_a_lying_lock, _with_several_troubles, _with_ambushes, None, None)
    )
    if trouble is None:
        plan = _disturbed(plan, source.choice(disturbed), source)
    else:
        plan = trouble(plan, source)
    return replace(
        plan,
        batches=3,
        cleaners=source.choice((0, 0, 1)),
        archivers=source.choice((1, 1, 2)),
        historians=1,
        readers=1,
        level_files=2,
        has_chain=not plan.is_lying and source.random() < 0.3,
        page_names=source.choice((None, 24)),
    )


def _with_a_metadata_table(plan: Plan, source: random.Random) -> Plan:
    """Return a plan with a metadata table under a lock, with a chain or without."""
    disturbed = (
        Scenario.MISJUDGED,
        Scenario.IN_PLACE,
        Scenario.HELD_UP,
        Scenario.RESTARTED,
        Scenario.UNRELIABLE,
    )
    trouble = source.choice((_with_several_troubles, _with_several_troubles, _with_ambushes, None))
    if trouble is None:
        plan = _disturbed(plan, source.choice(disturbed), source)
    else:
        plan = trouble(plan, source)
    return _indexed(replace(plan, has_chain=source.random() < 0.4), source)


def _with_a_metadata_table_and_a_lying_lock(plan: Plan, source: random.Random) -> Plan:
    return _indexed(_with_a_lying_lock(plan, source), source)


def _with_indexers(plan: Plan, source: random.Random) -> Plan:
    """Return a plan whose table has a metadata table, without bloom filters in the beginning."""
    return _with_builders(_with_a_metadata_table_and_a_lying_lock(plan, source), source)


def _with_indexers_beside(plan: Plan, source: random.Random) -> Plan:
    """Return the same under a lock, which is often lost when an index becomes ready."""
    plan = _with_builders(_with_a_metadata_table(plan, source), source)
    troubles = [ambushes.Trouble.FAILURE, ambushes.Trouble.CRASH]
    if not plan.late_rate:
        troubles += [ambushes.Trouble.LOST_LOCK, ambushes.Trouble.LONG_PAUSE] * 2
    met = ambushes.drawn(source, ("indexer",), troubles, ambushes.OF_CONFIGURATION)
    return replace(plan, in_wait=(*plan.in_wait, met), streamers=source.choice((0, 1, 1)))


def _with_builders(indexed: Plan, source: random.Random) -> Plan:
    return replace(indexed, indexers=source.choice((1, 1, 2)), archivers=source.choice((0, 0, 1)))


def _with_keys_to_index(plan: Plan, source: random.Random) -> Plan:
    """Return a plan with rows whose keys writers look up, and which move and are replaced."""
    rate = source.choice((0.0, 0.0, 0.3))
    keyed = _with_moves if rate == 0.0 and source.random() < 0.6 else _with_lookups
    return replace(
        keyed(replace(plan, compactors=source.choice((1, 2))), source),
        has_chain=plan.has_chain,
        page_names=plan.page_names,
        names_groups=False,
        has_shared_columns=False,
        replacement_rate=rate,
    )


def _with_values_to_index(plan: Plan) -> Plan:
    """Return a plan in which secondary indexes are built, too, by twice as many calls."""
    return replace(
        plan,
        indexes_values=True,
        crash_rate=plan.crash_rate / 3,
        failure_rate=plan.failure_rate / 3,
        pause_rate=plan.pause_rate / 3,
    )


def _indexed(plan: Plan, source: random.Random) -> Plan:
    """Return a plan with a metadata table, at whose calls trouble waits now and then."""
    troubles = [ambushes.Trouble.FAILURE, ambushes.Trouble.CRASH, ambushes.Trouble.LATE_FAILURE]
    if plan.is_lying or not plan.late_rate:
        troubles += [ambushes.Trouble.LOST_LOCK] * 2
        troubles += [ambushes.Trouble.WRONG_VERDICT] * 2
        troubles += [ambushes.Trouble.LONG_PAUSE]
    in_wait = tuple(
        ambushes.drawn(source, VICTIMS, troubles, ambushes.OF_METADATA)
        for _ in range(source.choice((0, 1, 1, 2)))
    )
    is_misjudging = plan.misjudgement_rate > 0 or any(
        each.trouble is ambushes.Trouble.WRONG_VERDICT for each in in_wait
    )
    return replace(
        plan,
        has_metadata=True,
        upkeepers=source.choice((0, 1, 1, 2)),
        has_shared_columns=plan.has_shared_columns and not is_misjudging,
        cleaners=source.choice((0, 0, 1)),
        grace_ms=source.choice((0, 1_000)),
        readers=source.choice((1, 2)),
        in_wait=(*plan.in_wait, *in_wait),
        page_names=source.choice((None, None, 24)),
    )


def _in_local_time(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table in local time on a day on which clocks are changed."""
    archivers = source.choice((0, 0, 1))
    is_cleaned = archivers > 0 or source.random() < 0.5
    return replace(
        plan,
        clock_change=source.choice(schedule_wall.CHANGES),
        jvms=source.choice((1, 1, 2)),
        batches=source.choice((3, 4)),
        has_shared_columns=False,
        has_chain=source.random() < 0.3,
        cleaners=int(is_cleaned),
        archivers=archivers,
        consumers=int(is_cleaned and source.random() < 0.5),
        grace_ms=source.choice((0, 1_000)),
        crash_rate=source.choice((0.0, 0.002)),
        failure_rate=source.choice((0.0, 0.005)),
        pause_rate=source.choice((0.0, 0.002)),
        page_names=source.choice((None, 24)),
        loss_rate=source.choice((0.0, 0.0, 0.03)),
    )


VICTIMS = ("w", "w", "compactor", "compactor", "janitor", "")


def _with_ambushes(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which little goes wrong but at a few calls that chance chooses.

    What appears late excludes lost locks, long pauses and wrong verdicts, as in `stormy`. Wrong
    verdicts exclude writers of one column: that these wait for each other is by verdicts alone.
    """
    troubles = [ambushes.Trouble.FAILURE, ambushes.Trouble.CRASH]
    is_late = source.random() < 0.25
    if is_late:
        troubles += [ambushes.Trouble.LATE_FAILURE, ambushes.Trouble.LATE_CRASH] * 2
    else:
        troubles += [ambushes.Trouble.LOST_LOCK, ambushes.Trouble.WRONG_VERDICT] * 2
        troubles += [ambushes.Trouble.LONG_PAUSE]
    in_wait = tuple(
        ambushes.drawn(source, VICTIMS, troubles) for _ in range(source.choice((1, 2, 3, 4)))
    )
    misjudgement_rate = 0.0 if is_late else source.choice((0.0, 0.0, 0.3))
    is_misjudging = misjudgement_rate > 0 or any(
        each.trouble is ambushes.Trouble.WRONG_VERDICT for each in in_wait
    )
    plan = replace(
        plan,
        writers=source.choice((2, 3)),
        batches=source.choice((1, 2, 2)),
        compactors=source.choice((1, 2)),
        janitors=source.choice((1, 2, 3)),
        has_shared_columns=not is_misjudging and source.random() < 0.3,
        failed_task_rate=source.choice((0.0, 0.0, 0.2)),
        repeats_tasks=source.random() < 0.5,
        names_groups=source.random() < 0.3,
        crash_rate=source.choice((0.0, 0.002)),
        failure_rate=source.choice((0.0, 0.005)),
        pause_rate=0.001,
        loss_rate=0.0,
        misjudgement_rate=misjudgement_rate,
        kept_attempt_rate=source.choice((0.0, 0.0, 0.7)),
        plans_beside_rate=source.choice((0.0, 0.3)),
        takes_compactions_back=source.random() < 0.3,
        page_names=source.choice((None, None, 24)),
        in_wait=in_wait,
    )
    return _with_small_pages(plan) if source.random() < 0.1 else plan


def _with_small_pages(plan: Plan) -> Plan:
    """Return a plan in which a read misses what completes meanwhile, did it list only once."""
    return replace(plan, page_names=2, readers=3, batches=1)


def _with_another_engine(plan: Plan, source: random.Random) -> Plan:
    """Return a plan in which another engine changes the table."""
    return replace(
        plan,
        engines=1,
        batches=2,
        crash_rate=0.003,
        failure_rate=0.005,
        pause_rate=0.004,
        misjudgement_rate=source.choice((0.0, 0.0, 0.3)),
        # With smaller pages a run takes more steps than it may.
        page_names=source.choice((None, 24)),
        in_wait=source.choice(((), traps.ROLLED_BACK_AND_ARCHIVED)),
    )


def _trapped(plan: Plan, source: random.Random) -> Plan:
    """Return a plan with one trap, in which little else goes wrong."""
    trap = source.choice(traps.TRAPS)
    is_compaction = trap.victim.startswith("compactor")
    mode = plan.mode
    if is_compaction and plan.table_type is table_config.TableType.COPY_ON_WRITE:
        mode = settings.ConcurrencyMode.OPTIMISTIC
    if is_compaction:
        plan = replace(plan, table_type=table_config.TableType.MERGE_ON_READ, mode=mode)
    if trap.has_rows:
        plan = _with_rows(plan, source)
    return replace(
        plan,
        writers=source.choice((2, 3)),
        batches=2,
        compactors=2 if is_compaction else 0,
        janitors=source.choice((1, 2)),
        crash_rate=0.0,
        failure_rate=0.0,
        pause_rate=0.0,
        loss_rate=0.0,
        slow_beat_rate=1.0 if trap.has_slow_beats else 0.0,
        takes_compactions_back=False,
        page_names=None,
        in_wait=trap.in_wait,
    )


def _of_any_kind(plan: Plan, source: random.Random) -> Plan:
    """Return a plan for a table and a mode that chance chooses."""
    table_type, mode = source.choice(KINDS)
    is_cow = table_type is table_config.TableType.COPY_ON_WRITE
    is_non_blocking = mode is settings.ConcurrencyMode.NON_BLOCKING
    compactors = 0 if is_cow else plan.compactors
    return replace(
        plan,
        table_type=table_type,
        mode=mode,
        compactors=compactors,
        # An index is built beside writers.
        indexers=0 if mode is settings.ConcurrencyMode.SINGLE_WRITER else plan.indexers,
        has_shared_columns=plan.has_shared_columns and is_non_blocking,
        # Where writers do not exclude each other, all must name a group alike.
        names_groups=plan.names_groups and not is_non_blocking,
    )


_OF_ROWS = {
    Scenario.DELETES: _with_rows,
    Scenario.LOOKED_UP: _with_lookups,
    Scenario.EVERYWHERE: _with_moves,
    Scenario.REPLACED: _with_replacements,
    Scenario.SELECTED: _with_selections,
}

_TROUBLED = {
    Scenario.AMBUSHED: _with_ambushes,
    Scenario.FOREIGN: _with_another_engine,
    Scenario.CHAINED: _with_a_chain,
    Scenario.LYING: _with_a_lying_lock,
    Scenario.CLEANED: _with_cleaners,
    Scenario.RETAINED: _with_archivers,
    Scenario.KEPT: _with_keepers,
    Scenario.ARCHIVED: _with_archives,
    Scenario.INDEXED: _with_a_metadata_table,
    Scenario.INDEXED_LYING: _with_a_metadata_table_and_a_lying_lock,
    Scenario.BUILT: _with_indexers,
    Scenario.BUILT_BESIDE: _with_indexers_beside,
    Scenario.AUTUMN: _in_local_time,
}
