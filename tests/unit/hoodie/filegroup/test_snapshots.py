"""What a snapshot shows of writes that were taken back, on a table in a simulated world."""

from hoodie.write import failed_writes
from support.schedule_world import GROUPS, World, write_data, writes_in


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
