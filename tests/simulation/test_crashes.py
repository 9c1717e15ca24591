"""A crash, or a failure, at every mutating call of a clean run, found by recording it (6.1, T-P03).

Whatever call it is, a successor finishes the work, and every invariant holds.
"""

import contextlib
import enum
from collections.abc import Callable
from typing import NamedTuple

import pytest

from hoodie import errors
from hoodie.filegroup import metadata_records
from hoodie.maintenance.cleaning import retention
from hoodie.maintenance.rollback import execution, planning
from hoodie.metadata import initialising
from hoodie.model import commits, instants, settings, table_config
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active, chain, metadata_timelines, table_properties
from hoodie.transaction import (
    authors,
    configuration,
    layout,
    lifecycle,
    markers,
    metadata_commits,
)
from hoodie.transaction.client import Client
from support.simulation import (
    faulty_storage,
    invariants,
    schedule,
    schedule_fleet,
    schedule_rollback,
)
from support.simulation.faulty_storage import Fault
from support.simulation.schedule_world import (
    CONFIG,
    COPY_ON_WRITE,
    GROUPS,
    SETTINGS,
    World,
    metadata,
    write_bases,
    write_data,
)

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER)


class Kind(NamedTuple):
    """A table, and how it is written."""

    config: table_config.TableConfig
    mode: settings.ConcurrencyMode
    has_chain: bool = False
    is_ours: bool = False  # Whether no other engine writes it; with a chain.
    has_metadata: bool = False

    @property
    def name(self) -> str:
        """What tells it from others."""
        parts = [self.config.table_type.value, self.mode.value]
        parts += ["chain"] * self.has_chain + ["ours"] * self.is_ours
        return "-".join((*parts, *(["metadata"] * self.has_metadata)))


LOGGED = Kind(CONFIG, settings.ConcurrencyMode.NON_BLOCKING)
REWRITTEN = Kind(COPY_ON_WRITE, settings.ConcurrencyMode.OPTIMISTIC)
INDEXED = Kind(CONFIG, settings.ConcurrencyMode.NON_BLOCKING, has_metadata=True)
INDEXED_KINDS = [
    pytest.param(kind, id=kind.name) for kind in (INDEXED, INDEXED._replace(is_ours=True))
]
KINDS = [
    pytest.param(kind, id=kind.name)
    for kind in (
        *(Kind(CONFIG, mode) for mode in settings.ConcurrencyMode),
        Kind(COPY_ON_WRITE, settings.ConcurrencyMode.SINGLE_WRITER),
        REWRITTEN,
        Kind(CONFIG, settings.ConcurrencyMode.NON_BLOCKING, has_chain=True),
        Kind(COPY_ON_WRITE, settings.ConcurrencyMode.OPTIMISTIC, has_chain=True),
        INDEXED,
        INDEXED._replace(is_ours=True),
    )
]


def world_with(faults: faulty_storage.Faults, kind: Kind = LOGGED) -> World:
    """Return a world in which one writer has written already."""
    settings_of_mode = settings.WriteSettings(
        concurrency=kind.mode,
        heartbeat_interval_ms=SETTINGS.heartbeat_interval_ms,
        heartbeat_misses_max=SETTINGS.heartbeat_misses_max,
        clock_wait_ms=0,
    )
    world = World(
        faults=faults,
        write_settings=settings_of_mode,
        config=kind.config,
        has_chain=kind.has_chain,
        is_lying=kind.is_ours,
        has_metadata=kind.has_metadata,
    )
    world.write(world.writer("other"), "b0")
    return world


def run_victim(world: World, work: Callable[[World, Client], object]) -> bool:
    """Let the victim do its work; return whether it did not crash."""
    try:
        work(world, world.writer("victim"))
    except schedule.Crash:
        return False
    return True


def check_read(world: World) -> active.ActiveTimeline:
    """Check every invariant, and that a read sees all that is committed, and nothing else."""
    read = world.read(world.writer("reader"))
    timeline = world.check()
    invariants.check_everything_is_read(world.storage, timeline, read)
    return timeline


def check_quiescence(world: World) -> None:
    """Check every invariant of a table in which all has come to rest."""
    invariants.check_quiescence(world.storage, check_read(world))
    world.check_metadata()


def mutations(work: Callable[[World, Client], object], kind: Kind = LOGGED) -> int:
    """Return how many mutating calls the victim makes in a clean run."""
    recorder = faulty_storage.NoFaults()
    world = world_with(recorder, kind)
    before = len(recorder.mutations)
    work(world, world.writer("victim"))
    return len(recorder.mutations) - before


def write_two(world: World, writer: Client) -> None:
    world.write(writer, "b1")
    world.write(writer, "b2")


def compact(world: World, service: Client) -> None:
    pending = world.timeline.pending_compactions
    instant = pending[0] if pending else world.schedule_compaction(service)
    if instant is not None:
        world.compact(service, instant.requested_time)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("attempt", [1, 2])
def test_writer_killed_at_any_call_is_continued(kind: Kind, fault: Fault, attempt: int) -> None:
    """T-L25."""
    for number in range(mutations(write_two, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, write_two)
        world.time.advance(world.lock.session_ms + 1)
        author = authors.Author(writer_id="victim", attempt=attempt)
        write_two(world, world.client(world.process("successor"), author))
        timeline = check_read(world)
        assert len(timeline.completed_writes) == 3, number


@pytest.mark.parametrize("kind", [each for each in KINDS if "metadata" not in str(each.id)])
@pytest.mark.parametrize("fault", FAILURES)
def test_writer_whose_storage_fails_once_at_any_call_succeeds_on_retry(
    kind: Kind, fault: Fault
) -> None:
    for number in range(mutations(write_two, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        victim = world.writer("victim")
        for _ in range(2):
            try:
                write_two(world, victim)
                break
            except errors.StorageError:
                continue
        timeline = check_read(world)
        assert len(timeline.completed_writes) == 3, number
        assert not world.lock.holder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("times", [1, 2])
def test_writer_whose_call_takes_effect_after_it_has_failed_writes_once(
    kind: Kind, times: int
) -> None:
    """As an object store may do it; the second time to the same call, made again."""
    for number in range(mutations(write_two, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, Fault.LATE, times), kind)
        victim = world.writer("victim")
        for _ in range(20):
            try:
                write_two(world, victim)
                break
            except schedule_fleet.TRANSIENT:
                world.time.advance(SETTINGS.heartbeat_interval_ms)
        world.time.advance(SETTINGS.heartbeat_expiry_ms)
        timeline = check_read(world)
        assert len(timeline.completed_writes) == 3, number


@pytest.mark.parametrize("kind", [pytest.param(LOGGED, id=LOGGED.name), *INDEXED_KINDS])
@pytest.mark.parametrize("fault", CRASHES)
def test_compaction_killed_at_any_call_is_executed_by_another(kind: Kind, fault: Fault) -> None:
    for number in range(mutations(compact, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, compact)
        world.time.advance(world.lock.session_ms + 1)
        with world.writer("next").lock.scope():
            pass  # What the dead has decided is published.
        compact(world, world.writer("successor"))
        timeline = world.check()
        assert not timeline.pending_compactions, number
        assert [each.action for each in timeline.completed_writes][1:] == [instants.Action.COMMIT]
        bases = [info for info in world.storage.list("p") if info.name.endswith(".parquet")]
        # Where the lock excludes nobody files of the dead stay until they are swept.
        assert len(bases) == 2 or kind.is_ours, number
        clean_up(world, world.writer("janitor"))
        check_quiescence(world)


@pytest.mark.parametrize("fault", FAILURES)
def test_compaction_whose_storage_fails_once_at_any_call_succeeds_on_retry(fault: Fault) -> None:
    for number in range(mutations(compact)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault))
        victim = world.writer("victim")
        for _ in range(2):
            try:
                compact(world, victim)
                break
            except (errors.StorageError, errors.ConflictError):
                world.time.advance(SETTINGS.heartbeat_expiry_ms)
        timeline = world.check()
        assert not timeline.pending_compactions, number


class Failed(enum.Enum):
    """What has died."""

    WRITES = "writes"
    REWRITES = "copy-on-write writes"
    INDEXED = "writes whose delta commits are there"
    COMPACTION = "writes and a compaction"


def clean_up(world: World, service: Client) -> None:
    """Take everything back that failed, until there is nothing left to do."""
    while schedule_rollback.roll_back_dead(world, service):
        pass


def world_with_failed(faults: faulty_storage.Faults, failed: Failed) -> World:
    """Return a world in which somebody died: after its data was written, before it was committed.

    Beside the writes there may be a compaction that died as well, whose rollback was requested.
    """
    kinds = {Failed.REWRITES: REWRITTEN, Failed.INDEXED: INDEXED}
    world = world_with(faults, kinds.get(failed, LOGGED))
    if failed is Failed.COMPACTION:
        process = world.process("dead compactor")
        service = world.client(process)
        instant = world.schedule_compaction(service)
        assert instant is not None
        opened = lifecycle.take_over(
            service, instants.Action.COMPACTION, instant.requested_time, world.config
        )
        lifecycle.start(service, opened, commits.Operation.COMPACT)
        write_bases(service, opened)
        process.crash()
        plan = planning.plan_of(
            opened.inflight, markers.marked_files(world.storage, instant.requested_time)
        )
        janitor = world.process("dead janitor")
        execution.request(world.client(janitor), world.config, plan)
        janitor.crash()
    for name in ("dead writer", "another dead writer"):
        process = world.process(name)
        writer = world.client(process)
        opened = world.begin(writer)
        stats = write_data(writer, opened, GROUPS)
        if failed is Failed.INDEXED:
            with writer.lock.scope() as scope:
                changes = metadata_records.Changes(written=stats)
                metadata_commits.put(writer, scope, opened, changes, scope.check)
        process.crash()
    return world


def rollback_mutations(failed: Failed) -> int:
    """Return how many mutating calls the rollback makes in a clean run."""
    recorder = faulty_storage.NoFaults()
    world = world_with_failed(recorder, failed)
    before = len(recorder.mutations)
    clean_up(world, world.writer("victim"))
    return len(recorder.mutations) - before


@pytest.mark.parametrize("failed", Failed)
@pytest.mark.parametrize("fault", CRASHES)
def test_rollback_killed_at_any_call_is_finished_by_another(fault: Fault, failed: Failed) -> None:
    """T-R01: after each of R1 to R9, nothing is left, and each write was taken back once."""
    for number in range(rollback_mutations(failed)):
        faults = faulty_storage.FaultAt("victim", number, fault)
        world = world_with_failed(faults, failed)
        # A create that finds its name taken has no effect to crash after.
        assert not run_victim(world, clean_up) or fault is Fault.CRASH_AFTER
        world.time.advance(world.lock.session_ms + 1)
        clean_up(world, world.writer("successor"))
        check_cleaned_up(world, number, failed)


@pytest.mark.parametrize("failed", Failed)
@pytest.mark.parametrize("fault", FAILURES)
def test_rollback_whose_storage_fails_once_at_any_call_succeeds_on_retry(
    fault: Fault, failed: Failed
) -> None:
    for number in range(rollback_mutations(failed)):
        faults = faulty_storage.FaultAt("victim", number, fault)
        world = world_with_failed(faults, failed)
        victim = world.writer("victim")
        with contextlib.suppress(errors.StorageError):
            clean_up(world, victim)
        # A heartbeat that could not be deleted is waited for.
        world.time.advance(SETTINGS.heartbeat_expiry_ms)
        clean_up(world, victim)
        check_cleaned_up(world, number, failed)
        assert not world.lock.holder


def check_cleaned_up(world: World, number: int, failed: Failed) -> None:
    timeline = world.check()
    finished = [each for each in timeline.instants if each.action is instants.Action.ROLLBACK]
    assert len(finished) == 2 + (failed is Failed.COMPACTION), number
    if failed is Failed.COMPACTION:
        (planned,) = timeline.pending_compactions
        assert planned.state is instants.State.REQUESTED
        world.compact(world.writer("compactor"), planned.requested_time)
    check_quiescence(world)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", CRASHES)
def test_writer_killed_at_any_call_is_taken_back_whole(kind: Kind, fault: Fault) -> None:
    """T-H10."""
    for number in range(mutations(write_two, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, write_two)
        world.time.advance(world.lock.session_ms + 1)
        clean_up(world, world.writer("janitor"))
        check_quiescence(world)


def test_executor_that_is_alive_all_the_same_leaves_the_delta_commit_of_its_successor() -> None:
    """Of three executions of one plan; the second is taken for dead by the third."""

    def take_for_dead() -> None:
        world.misjudged.add("victim")
        compact(world, world.writer("successor"))

    faults = faulty_storage.Interruption("victim", "list .hoodie/metadata/files", take_for_dead)
    world = world_with(faults, INDEXED._replace(is_ours=True))
    world.faults = faulty_storage.FaultAt("dead", 13, Fault.CRASH_BEFORE)
    with pytest.raises(schedule.Crash):
        compact(world, world.writer("dead"))
    beside = active.listed(metadata_timelines.opened(world.storage))
    assert beside.pending, "the first one left nothing"
    world.faults = faults
    world.time.advance(SETTINGS.heartbeat_expiry_ms)
    with pytest.raises(errors.ConflictError, match="was already completed"):
        compact(world, world.writer("victim"))
    world.misjudged.clear()
    clean_up(world, world.writer("janitor"))
    check_quiescence(world)


POLICY = retention.Retention(policy=retention.Policy.VERSIONS, retained=1, grace_ms=0, files_max=9)


def clean(world: World, service: Client) -> None:
    world.clean(service, POLICY)


@pytest.mark.parametrize("kind", INDEXED_KINDS)
@pytest.mark.parametrize("fault", CRASHES)
def test_clean_killed_at_any_call_is_finished_by_another(kind: Kind, fault: Fault) -> None:
    def prepared(faults: faulty_storage.Faults) -> World:
        world = world_with(faults, kind)
        world.is_cleaned = True
        compact(world, world.writer("compactor"))
        return world

    recorder = faulty_storage.NoFaults()
    world = prepared(recorder)
    before = len(recorder.mutations)
    clean(world, world.writer("victim"))
    for number in range(len(recorder.mutations) - before):
        world = prepared(faulty_storage.FaultAt("victim", number, fault))
        assert not run_victim(world, clean)
        world.time.advance(SETTINGS.heartbeat_expiry_ms)
        clean(world, world.writer("successor"))
        clean_up(world, world.writer("janitor"))
        world.check_cleaned(POLICY)
        check_quiescence(world)


@pytest.mark.parametrize("kind", INDEXED_KINDS)
@pytest.mark.parametrize("fault", CRASHES)
def test_upkeep_killed_at_any_call_is_done_by_the_next(kind: Kind, fault: Fault) -> None:
    """The table is read and written meanwhile by what there is."""

    def prepared(faults: faulty_storage.Faults) -> World:
        world = world_with(faults, kind)
        for number in range(4):
            world.write(world.writer("early"), f"e{number}")
            world.keep_up_metadata(world.writer("early upkeeper"))
        world.write(world.writer("early"), "e4")
        return world

    recorder = faulty_storage.NoFaults()
    prepared(recorder)
    before = len(recorder.mutations)
    assert run_victim(world := prepared(recorder), World.keep_up_metadata)
    assert world.compacted == 3
    for number in range(len(recorder.mutations) - 2 * before):
        world = prepared(faulty_storage.FaultAt("victim", number, fault))
        assert not run_victim(world, World.keep_up_metadata)
        world.time.advance(world.lock.session_ms + 1)
        check_read(world)
        for batch in ("b1", "b2"):
            world.write(world.writer("other"), batch)
        world.keep_up_metadata(world.writer("successor"))
        check_quiescence(world)


def initialise(world: World, admin: Client) -> None:
    initialising.initialise_by(admin, world.config)


def drop(world: World, admin: Client) -> None:
    initialising.drop_by(admin)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind._replace(has_metadata=False), id=kind.name)
        for kind in (INDEXED, INDEXED._replace(is_ours=True))
    ],
)
@pytest.mark.parametrize("fault", CRASHES)
def test_metadata_table_whose_maker_was_killed_at_any_call_is_made(
    kind: Kind, fault: Fault
) -> None:
    for number in range(mutations(initialise, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, initialise)
        world.time.advance(world.lock.session_ms + 1)
        write_after(world, "b1")
        if not world.config.metadata_partitions:
            initialise(world, world.writer("successor"))
            write_after(world, "b2")
        world.check_metadata()


@pytest.mark.parametrize("kind", INDEXED_KINDS)
@pytest.mark.parametrize("fault", CRASHES)
def test_metadata_table_that_was_dropped_in_part_is_made_again(kind: Kind, fault: Fault) -> None:
    for number in range(mutations(drop, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, drop)
        world.time.advance(world.lock.session_ms + 1)
        write_after(world, "b1")
        if not world.config.metadata_partitions:
            initialise(world, world.writer("successor"))
            write_after(world, "b2")
        world.check_metadata()


SHARED = INDEXED._replace(has_metadata=False)
SHARED_KINDS = [
    pytest.param(kind, id=kind.name) for kind in (SHARED, SHARED._replace(has_chain=True))
]


def write_elsewhere(world: World) -> None:
    """Let another engine write, which knows no chain, by the properties as they are."""
    world.has_engines = True
    world.config = table_properties.load(world.storage, world.process("reader").clock)
    world.write(world.writer("engine"), "e0")


@pytest.mark.parametrize("kind", SHARED_KINDS)
@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("work", [initialise, drop])
def test_metadata_table_that_is_made_or_dropped_in_part_is_not_finished_after_another_engine(
    kind: Kind, fault: Fault, work: Callable[[World, Client], object]
) -> None:
    """It would be ready without what the engine has written meanwhile."""
    kind = kind._replace(has_metadata=work is drop)
    for number in range(mutations(work, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, work)
        world.time.advance(world.lock.session_ms + 1)
        write_elsewhere(world)
        write_after(world, "b1")
        world.check_metadata()
        if not world.config.metadata_partitions:
            initialise(world, world.writer("successor"))
            write_after(world, "b2")
        assert world.config.metadata_partitions
        world.check_metadata()


def world_whose_victim_loses_the_lock(kind: Kind, number: int) -> World:
    """Return a world in which another engine writes then, right before a call of the victim."""

    def lose() -> None:
        if world.lock.holder is not None:
            world.lock.lose()
            write_elsewhere(world)

    world = world_with(faulty_storage.HappeningAt("victim", number, lose), kind)
    return world


@pytest.mark.parametrize("kind", SHARED_KINDS)
def test_metadata_table_whose_maker_loses_the_lock_has_what_is_written_then(kind: Kind) -> None:
    """At whichever call: the maker looks again afterwards."""
    are_there = set()
    for number in range(mutations(initialise, kind)):
        world = world_whose_victim_loses_the_lock(kind, number)
        with contextlib.suppress(errors.LockLostError, errors.ConflictError):
            initialise(world, world.writer("victim"))
        write_after(world, "b1")
        world.check_metadata()
        are_there.add(bool(world.config.metadata_partitions))
        if not world.config.metadata_partitions:
            initialise(world, world.writer("successor"))
            write_after(world, "b2")
        world.check_metadata()
    assert are_there == {False, True}


def write_after(world: World, batch: str) -> None:
    """Write to a table as it is now, and read it."""
    with world.writer("next").lock.scope():
        pass  # What the dead has decided is published.
    world.config = table_properties.load(world.storage, world.process("reader").clock)
    world.write(world.writer("next"), batch)
    check_read(world)


PROPERTIES_CHANGE = {"hoodie.table.metadata.partitions": "files", "note": "changed"}


@pytest.mark.parametrize("fault", CRASHES)
def test_change_of_properties_killed_at_any_call_leaves_old_or_new(fault: Fault) -> None:
    """TC1, T-M07: and a successor finishes it."""
    recorder = faulty_storage.NoFaults()
    _change_properties(World(faults=recorder), recorder)
    for number in range(len(recorder.mutations)):
        faults = faulty_storage.FaultAt("victim", number, fault)
        world = World(faults=faults)
        with pytest.raises(schedule.Crash):
            _change_properties(world, faults)
        found = table_properties.load(world.storage, world.process("reader").clock)
        assert found.properties.get("note") in (None, "changed")
        _change_properties(world, faulty_storage.NoFaults())
        found = table_properties.load(world.storage, world.process("reader").clock)
        assert found.properties["note"] == "changed"
        assert found.metadata_partitions == ("files",)
        assert "hoodie.properties.backup" not in {
            info.name for info in world.storage.list(".hoodie")
        }


def _change_properties(world: World, faults: faulty_storage.Faults) -> None:
    victim = world.process("victim")
    storage = faulty_storage.FaultyStorage(world.storage, victim, faults)
    table_properties.update(storage, PROPERTIES_CHANGE, victim.clock, lambda: None)


def switch_off(world: World, admin: Client) -> None:
    world.config = configuration.switch_off(admin, world.config)


def switch_on(world: World, admin: Client) -> None:
    world.config = configuration.switch_on(admin, world.config, has_foreign_writers=True)


@pytest.mark.parametrize(
    ("kind", "switch"),
    [
        pytest.param(LOGGED, switch_on, id="on"),
        pytest.param(LOGGED._replace(has_chain=True), switch_off, id="off"),
    ],
)
@pytest.mark.parametrize("fault", CRASHES)
def test_switch_killed_at_any_call_is_done_once_by_the_next(
    kind: Kind, switch: Callable[[World, Client], None], fault: Fault
) -> None:
    """CH12: nobody is left with two chains, and a table that is written goes on."""
    for number in range(mutations(switch, kind)):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), kind)
        assert not run_victim(world, switch)
        world.time.advance(world.lock.session_ms + 1)
        reader = world.process("reader")
        world.config = table_properties.load(world.storage, reader.clock)
        if world.config.chain is None or not kind.has_chain:
            switch(world, world.writer("successor"))
        else:
            with contextlib.suppress(errors.ConflictError):
                world.write(world.writer("late"), "b1")
            world.config = table_properties.load(world.storage, reader.clock)
            switch(world, world.writer("successor"))
        found = table_properties.load(world.storage, reader.clock)
        assert found == world.config
        assert (found.chain is None) is kind.has_chain
        world.write(world.writer("next"), "b2")
        check_read(world)


@pytest.mark.parametrize(
    ("suffix", "work"),
    [
        (".deltacommit.requested", lambda world, client: world.write(client, "b1")),
        (".compaction.requested", lambda world, client: world.schedule_compaction(client)),
        (".deltacommit", lambda world, client: world.write(client, "b1")),
    ],
)
def test_time_of_an_instant_that_appears_late_is_given_to_nobody(
    suffix: str, work: Callable[[World, Client], object]
) -> None:
    """Found by seeds late:551 (of a requested file) and late:3533 (of a completed one)."""
    late = set()

    class Faults(faulty_storage.NoFaults):
        def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
            if is_mutation and call.endswith(suffix) and process.name == "victim":
                late.add(call.partition(" ")[2])
                return Fault.LATE
            return Fault.NONE

    world = world_with(Faults())
    # Their clocks lag, so that both go by the greatest time that they see.
    victim, other = (
        world.client(world.process(name, offset_ms=-SETTINGS.clock_skew_ms_max // 2))
        for name in ("victim", "another")
    )
    begun = world.begin(other)
    with pytest.raises(errors.OutcomeUnknownError):
        work(world, victim)
    lifecycle.commit(other, begun, metadata(write_data(other, begun, GROUPS)))
    world.time.advance(SETTINGS.heartbeat_expiry_ms)
    assert late <= {info.path for info in world.storage.list("", is_recursive=True)}
    invariants.check_times_once(world.timeline)


@pytest.mark.parametrize("fault", CRASHES)
def test_table_whose_creator_was_killed_at_any_call_can_be_created(fault: Fault) -> None:
    recorder = faulty_storage.NoFaults()
    _create(MemoryStorage(), recorder)
    for number in range(len(recorder.mutations)):
        storage = MemoryStorage()
        with pytest.raises(schedule.Crash):
            _create(storage, faulty_storage.FaultAt("victim", number, fault))
        try:
            _create(storage, faulty_storage.NoFaults())
        except errors.AlreadyExistsError:
            assert (number, fault) == (len(recorder.mutations) - 1, Fault.CRASH_AFTER)


def _create(storage: MemoryStorage, faults: faulty_storage.Faults) -> table_config.TableConfig:
    victim = schedule.Process(schedule.Schedule(), "victim")
    name = table_config.ChainName(id=victim.random.uuid())
    config = table_config.TableConfig(
        name="t", record_key_fields=("id",), bucket_count=4, chain=name
    )
    faulty = faulty_storage.FaultyStorage(storage, victim, faults)
    return table_properties.create(faulty, chain.begin(faulty, config, "creation"), victim.clock)


def test_recording_finds_every_kind_of_mutation() -> None:
    """The tests above would prove nothing if a clean run recorded too little."""
    recorder = faulty_storage.NoFaults()
    world = world_with(recorder)
    write_two(world, world.writer("victim"))
    kinds = {call.partition(" ")[0] for call in recorder.mutations}
    assert {"create", "replace", "open_write", "close", "delete"} <= kinds
    for directory in (layout.HEARTBEATS, layout.MARKERS, layout.ATTEMPTS, ".hoodie/timeline"):
        assert any(directory in call for call in recorder.mutations), directory
