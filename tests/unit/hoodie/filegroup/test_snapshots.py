"""What a snapshot shows of what was taken back, on a table in a simulated world."""

import pytest

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.format import file_names
from hoodie.maintenance import savepoints
from hoodie.maintenance.rollback import failed_writes
from hoodie.model import commits, files, instants
from hoodie.timeline import active, chain, contents, transitions
from hoodie.transaction import lifecycle
from support.simulation import faulty_storage
from support.simulation.schedule_world import COPY_ON_WRITE, GROUPS, World, write_data, writes_in


def world_with_late_file() -> World:
    """Return a table whose first write was taken back, and whose task wrote after that.

    The simulation found it: the write's time is then below the timeline's first write, where
    whatever is there counts as archived.
    """
    world = World()
    process = world.process("victim")
    victim = world.client(process)
    opened = world.begin(victim)
    write_data(victim, opened, GROUPS[:1])
    process.is_dead = True
    other = world.writer("other")
    world.write(other, "b1")
    failed_writes.roll_back(other, world.config, opened.requested_time)
    process.is_dead = False  # It was not dead, only paused.
    write_data(victim, opened, GROUPS[1:])
    return world


def test_late_file_of_a_write_that_was_taken_back_is_not_read() -> None:
    world = world_with_late_file()
    (write,) = world.timeline.completed_writes
    seen = world.read(world.writer("reader")).seen
    assert seen == dict.fromkeys(GROUPS, (write.requested_time,))


def test_late_file_of_a_write_that_was_taken_back_is_not_compacted() -> None:
    world = world_with_late_file()
    (write,) = world.timeline.completed_writes
    service = world.writer("service")
    planned = world.schedule_compaction(service)
    assert planned is not None
    world.compact(service, planned.requested_time)
    bases = [info.path for info in world.storage.list("p") if info.name.endswith(".parquet")]
    for path in bases:
        assert writes_in(world.storage.read(path)) == (write.requested_time,)


def test_late_log_file_of_a_completed_instant_is_not_read_or_planned() -> None:
    """An executor that was judged dead left it; swept later, the plan could never be executed."""
    world = World()
    world.write(world.writer("writer"), "b1")
    (write,) = world.timeline.completed_writes
    for group in GROUPS:
        name = file_names.log_file_name(group.file_id, write.requested_time, 1, "9-9-9")
        world.storage.create(files.join(group.partition_path, name), b"cut off")
    seen = world.read(world.writer("reader")).seen
    assert seen == dict.fromkeys(GROUPS, (write.requested_time,))
    planned = world.schedule_compaction(world.writer("service"))
    assert planned is not None
    plan = contents.read_compaction_plan(world.storage, planned)
    names = [name for each in plan.operations for name in each.log_file_names]
    assert len(names) == len(GROUPS)
    assert not [name for name in names if "9-9-9" in name]


def test_archived_compaction_that_was_executed_again_after_a_rollback_is_read() -> None:
    """The simulation found it: the rollback is on the timeline for longer than the compaction."""
    world = World()
    planned = planned_in(world)
    process = world.process("victim")
    victim = world.client(process)
    opened = lifecycle.take_over(
        victim, instants.Action.COMPACTION, planned.requested_time, world.config
    )
    lifecycle.start(victim, opened, commits.Operation.COMPACT)
    process.is_dead = True
    world.write(world.writer("second"))
    failed_writes.roll_back(world.writer("janitor"), world.config, planned.requested_time)
    world.compact(world.writer("service"), planned.requested_time)
    last = world.schedule_compaction(world.writer("service"))
    assert last is not None
    world.compact(world.writer("service"), last.requested_time)
    world.archive(world.writer("archiver"))
    timeline = active.load(world.storage)
    assert planned.requested_time not in timeline.write_completion_times
    known = snapshots.committed_instants(timeline)
    assert known.rollbacks
    assert snapshots.CommittedFiles(world.storage, known).is_committed(planned.requested_time)


def test_inflight_file_that_appears_after_its_write_was_archived_past_hides_nothing() -> None:
    """The simulation found it: the next write built on a base file from before the archived ones.

    A writer was paused before it created the file, and was judged dead.
    """
    world = World()
    process = world.process("victim")
    opened = world.begin(world.client(process))
    process.is_dead = True
    for number in range(4):
        world.write(world.writer(f"writer{number}"))
        if number == 0:
            failed_writes.roll_back(world.writer("janitor"), world.config, opened.requested_time)
    written = {each.requested_time for each in world.timeline.completed_writes}
    world.archive(world.writer("archiver"))
    world.storage.create(transitions.path(opened.inflight), b"")
    timeline = active.load(world.storage)
    assert len(timeline.completed_writes) < len(written)
    known = snapshots.CommittedFiles(world.storage, snapshots.committed_instants(timeline))
    assert all(known.is_committed(each) for each in written)
    assert not known.is_committed(opened.requested_time)


def test_table_of_which_a_savepoint_keeps_the_only_write_is_read() -> None:
    """The simulation found it: what had just been archived seemed to be missing."""
    world = World(is_lying=True, config=COPY_ON_WRITE)
    for number in range(4):
        world.write(world.writer(f"writer{number}"))
    savepoints.create(world.writer("saver"), world.config, savepoints.Wanted())
    world.archive(world.writer("archiver"))
    (last,) = chain.load(world.storage, world.config).completed_writes
    assert active.load(world.storage).savepoints[0].requested_time == last.requested_time


def planned_in(world: World) -> instants.Instant:
    """Write, and plan a compaction."""
    world.write(world.writer("writer"), "b1")
    planned = world.schedule_compaction(world.writer("service"))
    assert planned is not None
    return planned


def test_plan_that_is_withdrawn_before_it_was_read_is_left_out() -> None:
    """Found by the simulation: seed `held-up:10000082` of the form before."""
    world = World()
    planned = planned_in(world)
    (write,) = world.timeline.completed_writes
    world.faults = faulty_storage.Interruption(
        "reader",
        f"read {transitions.path(planned)}",
        lambda: transitions.withdraw(world.storage, planned),
    )
    seen = world.read(world.writer("reader")).seen
    assert seen == dict.fromkeys(GROUPS, (write.requested_time,))


def test_snapshot_of_a_table_that_lacks_a_plan_fails() -> None:
    world = World()
    planned = planned_in(world)
    transitions.start(world.storage, planned, b"", lambda: False)
    transitions.withdraw(world.storage, planned)  # What nobody may do to an inflight one.
    with pytest.raises(errors.NotFoundError, match=f"no compaction {planned.requested_time}"):
        snapshots.take(world.storage, world.config)
    with pytest.raises(errors.NotFoundError, match=f"no compaction {planned.requested_time}"):
        snapshots.take(world.storage, world.config, world.timeline)


def test_plan_on_a_given_timeline_that_was_withdrawn_since_is_a_conflict() -> None:
    world = World()
    planned = planned_in(world)
    timeline = world.timeline
    transitions.withdraw(world.storage, planned)
    with pytest.raises(errors.ConflictError, match="was rolled back while"):
        snapshots.take(world.storage, world.config, timeline)


def test_replace_commit_that_is_archived_before_it_was_read_retires_nothing() -> None:
    """Its groups' files were cleaned before."""
    world = World()
    world.write(world.writer("writer"), "b1")
    replaced = instants.Instant(
        requested_time=instants.InstantTime("20260101000000000"),
        action=instants.Action.REPLACE_COMMIT,
        state=instants.State.COMPLETED,
        completion_time=instants.InstantTime("20260101000001000"),
    )
    world.storage.create(transitions.path(replaced), b"")
    timeline = active.load(world.storage)
    assert replaced in timeline.completed_writes
    world.storage.delete(transitions.path(replaced))
    assert snapshots.replaced_groups(world.storage, timeline) == {}
