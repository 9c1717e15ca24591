"""A crash, or a failure, at every mutating call of a clean run, found by recording it (6.1, T-P03).

Whatever call it is, a successor finishes the work, and every invariant holds.
"""

import contextlib
from collections.abc import Callable

import pytest

from hoodie import errors
from hoodie.maintenance import rollback
from hoodie.model import commits, instants, settings, table_config
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import table_properties
from hoodie.transaction import authors, layout, lifecycle, markers, rollbacks, scheduling
from hoodie.transaction.client import Client
from support import faulty_storage, invariants, schedule, schedule_rollback
from support.faulty_storage import Fault
from support.schedule_world import GROUPS, SETTINGS, World, write_bases, write_data

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER)
MODES = tuple(settings.ConcurrencyMode)


def world_with(faults: faulty_storage.Faults, mode: settings.ConcurrencyMode) -> World:
    """Return a world in which one writer has written already."""
    settings_of_mode = settings.WriteSettings(
        concurrency=mode,
        heartbeat_interval_ms=SETTINGS.heartbeat_interval_ms,
        heartbeat_misses_max=SETTINGS.heartbeat_misses_max,
        clock_wait_ms=0,
    )
    world = World(faults=faults, write_settings=settings_of_mode)
    world.write(world.writer("other"), "b0")
    return world


def run_victim(world: World, work: Callable[[World, Client], object]) -> bool:
    """Let the victim do its work; return whether it did not crash."""
    try:
        work(world, world.writer("victim"))
    except schedule.Crash:
        return False
    return True


def mutations(work: Callable[[World, Client], object]) -> int:
    """Return how many mutating calls the victim makes in a clean run."""
    recorder = faulty_storage.NoFaults()
    world = world_with(recorder, settings.ConcurrencyMode.NON_BLOCKING)
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


WRITE_MUTATIONS = mutations(write_two)
COMPACTION_MUTATIONS = mutations(compact)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("attempt", [1, 2])
def test_writer_killed_at_any_call_is_continued(
    mode: settings.ConcurrencyMode, fault: Fault, attempt: int
) -> None:
    """T-L25."""
    for number in range(WRITE_MUTATIONS):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), mode)
        assert not run_victim(world, write_two)
        world.time.advance(world.lock.session_ms + 1)
        author = authors.Author(writer_id="victim", attempt=attempt)
        write_two(world, world.client(world.process("successor"), author))
        timeline = world.check()
        assert len(timeline.completed_writes) == 3, number


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAILURES)
def test_writer_whose_storage_fails_once_at_any_call_succeeds_on_retry(
    mode: settings.ConcurrencyMode, fault: Fault
) -> None:
    for number in range(WRITE_MUTATIONS):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), mode)
        victim = world.writer("victim")
        for _ in range(2):
            try:
                write_two(world, victim)
                break
            except errors.StorageError:
                continue
        timeline = world.check()
        assert len(timeline.completed_writes) == 3, number
        assert not world.lock.holder


@pytest.mark.parametrize("fault", CRASHES)
def test_compaction_killed_at_any_call_is_executed_by_another(fault: Fault) -> None:
    for number in range(COMPACTION_MUTATIONS):
        world = world_with(
            faulty_storage.FaultAt("victim", number, fault), settings.ConcurrencyMode.NON_BLOCKING
        )
        assert not run_victim(world, compact)
        world.time.advance(world.lock.session_ms + 1)
        compact(world, world.writer("successor"))
        timeline = world.check()
        assert not timeline.pending_compactions, number
        assert [each.action for each in timeline.completed_writes][1:] == [instants.Action.COMMIT]
        bases = [info for info in world.storage.list("p") if info.name.endswith(".parquet")]
        assert len(bases) == 2, number


@pytest.mark.parametrize("fault", FAILURES)
def test_compaction_whose_storage_fails_once_at_any_call_succeeds_on_retry(fault: Fault) -> None:
    for number in range(COMPACTION_MUTATIONS):
        world = world_with(
            faulty_storage.FaultAt("victim", number, fault), settings.ConcurrencyMode.NON_BLOCKING
        )
        victim = world.writer("victim")
        for _ in range(2):
            try:
                compact(world, victim)
                break
            except (errors.StorageError, errors.ConflictError):
                world.time.advance(SETTINGS.heartbeat_expiry_ms)
        timeline = world.check()
        assert not timeline.pending_compactions, number


def clean_up(world: World, service: Client) -> None:
    """Take everything back that failed, until there is nothing left to do."""
    while schedule_rollback.roll_back_dead(world, service):
        pass


def world_with_failed(faults: faulty_storage.Faults, *, is_compaction: bool) -> World:
    """Return a world in which somebody died: after its data was written, before it was committed.

    Beside the writes of others there is, or is not, a compaction that died as well, whose rollback
    was requested.
    """
    world = world_with(faults, settings.ConcurrencyMode.NON_BLOCKING)
    if is_compaction:
        process = world.process("dead compactor")
        service = world.client(process)
        instant = world.schedule_compaction(service)
        assert instant is not None
        opened = scheduling.execute(service, instant.requested_time, world.config)
        lifecycle.start(service, opened, commits.Operation.COMPACT)
        write_bases(service, opened)
        process.crash()
        plan = rollback.plan_of(
            opened.inflight, markers.marked_files(world.storage, instant.requested_time)
        )
        janitor = world.process("dead janitor")
        rollbacks.request(world.client(janitor), world.config, plan)
        janitor.crash()
    for name in ("dead writer", "another dead writer"):
        process = world.process(name)
        writer = world.client(process)
        write_data(writer, world.begin(writer), GROUPS)
        process.crash()
    return world


def rollback_mutations(*, is_compaction: bool) -> int:
    """Return how many mutating calls the rollback makes in a clean run."""
    recorder = faulty_storage.NoFaults()
    world = world_with_failed(recorder, is_compaction=is_compaction)
    before = len(recorder.mutations)
    clean_up(world, world.writer("victim"))
    return len(recorder.mutations) - before


ROLLBACK_MUTATIONS = {
    is_compaction: rollback_mutations(is_compaction=is_compaction)
    for is_compaction in (False, True)
}


@pytest.mark.parametrize("is_compaction", [False, True])
@pytest.mark.parametrize("fault", CRASHES)
def test_rollback_killed_at_any_call_is_finished_by_another(
    fault: Fault, is_compaction: bool
) -> None:
    """T-R01: after each of R1 to R9, nothing is left, and each write was taken back once."""
    for number in range(ROLLBACK_MUTATIONS[is_compaction]):
        faults = faulty_storage.FaultAt("victim", number, fault)
        world = world_with_failed(faults, is_compaction=is_compaction)
        # A create that finds its name taken has no effect to crash after.
        assert not run_victim(world, clean_up) or fault is Fault.CRASH_AFTER
        world.time.advance(world.lock.session_ms + 1)
        clean_up(world, world.writer("successor"))
        check_cleaned_up(world, number, is_compaction=is_compaction)


@pytest.mark.parametrize("is_compaction", [False, True])
@pytest.mark.parametrize("fault", FAILURES)
def test_rollback_whose_storage_fails_once_at_any_call_succeeds_on_retry(
    fault: Fault, is_compaction: bool
) -> None:
    for number in range(ROLLBACK_MUTATIONS[is_compaction]):
        faults = faulty_storage.FaultAt("victim", number, fault)
        world = world_with_failed(faults, is_compaction=is_compaction)
        victim = world.writer("victim")
        with contextlib.suppress(errors.StorageError):
            clean_up(world, victim)
        # A heartbeat that could not be deleted is waited for.
        world.time.advance(SETTINGS.heartbeat_expiry_ms)
        clean_up(world, victim)
        check_cleaned_up(world, number, is_compaction=is_compaction)
        assert not world.lock.holder


def check_cleaned_up(world: World, number: int, *, is_compaction: bool) -> None:
    timeline = world.check()
    finished = [each for each in timeline.instants if each.action is instants.Action.ROLLBACK]
    assert len(finished) == 2 + is_compaction, number
    if is_compaction:
        (planned,) = timeline.pending_compactions
        assert planned.state is instants.State.REQUESTED
        world.compact(world.writer("compactor"), planned.requested_time)
    invariants.check_quiescence(world.storage, world.check())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", CRASHES)
def test_writer_killed_at_any_call_is_taken_back_whole(
    mode: settings.ConcurrencyMode, fault: Fault
) -> None:
    """T-H10."""
    for number in range(WRITE_MUTATIONS):
        world = world_with(faulty_storage.FaultAt("victim", number, fault), mode)
        assert not run_victim(world, write_two)
        world.time.advance(world.lock.session_ms + 1)
        clean_up(world, world.writer("janitor"))
        invariants.check_quiescence(world.storage, world.check())


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
    config = table_config.TableConfig(name="t", record_key_fields=("id",), bucket_count=4)
    faulty = faulty_storage.FaultyStorage(storage, victim, faults)
    return table_properties.create(faulty, config, victim.clock)


def test_recording_finds_every_kind_of_mutation() -> None:
    """The tests above would prove nothing if a clean run recorded too little."""
    recorder = faulty_storage.NoFaults()
    world = world_with(recorder, settings.ConcurrencyMode.NON_BLOCKING)
    write_two(world, world.writer("victim"))
    kinds = {call.partition(" ")[0] for call in recorder.mutations}
    assert {"create", "replace", "open_write", "close", "delete"} <= kinds
    for directory in (layout.HEARTBEATS, layout.MARKERS, layout.ATTEMPTS, ".hoodie/timeline"):
        assert any(directory in call for call in recorder.mutations), directory
