"""A crash, or a failure, at every mutating call of a clean run, found by recording it (6.1, T-P03).

Whatever call it is, a successor finishes the work, and every invariant holds.
"""

from collections.abc import Callable

import pytest

from hoodie import errors
from hoodie.model import instants, settings, table_config
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import table_properties
from hoodie.transaction import authors, layout
from hoodie.transaction.client import Client
from support import faulty_storage, schedule
from support.faulty_storage import Fault
from support.schedule_world import SETTINGS, World

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
