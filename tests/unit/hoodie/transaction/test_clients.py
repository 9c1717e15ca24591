"""What a client is made of, and that it has one write open at a time (S113)."""

import pytest

from hoodie import environment, errors
from hoodie.transaction import client, lifecycle
from support.simulation import schedule
from support.simulation.schedule_world import World


def test_environment_is_what_a_client_is_given() -> None:
    """The protocol says what of it a transaction uses; mypy compares them here."""
    env: environment.Environment = environment.system(parallelism=1)
    assert env.process.pid > 0


def test_second_write_of_one_client_is_refused_until_the_first_has_ended() -> None:
    """T-L27."""
    world = World()
    writer = world.writer("a")
    opened = world.begin(writer)
    with pytest.raises(errors.InvalidInputError) as raised:
        world.begin(writer)
    assert str(raised.value) == (
        f"writer a has {opened.requested_time} open on memory://table: two concurrent writes "
        "need two clients"
    )
    assert [each.requested_time for each in world.timeline.pending] == [opened.requested_time]
    lifecycle.abort(writer, opened, has_tasks_left=False)
    world.write(writer)


@pytest.mark.parametrize("seed", range(20))
def test_two_threads_with_one_client_begin_one_write(seed: int) -> None:
    """T-L27, T-L30: whoever comes second is told, and takes nothing from the first."""
    world = World(schedule.Schedule(seed))
    writer = world.writer("a")
    process = world.process("threads")
    begun: list[client.OpenAction] = []
    refused: list[str] = []

    def begin() -> None:
        try:
            begun.append(world.begin(writer))
        except errors.InvalidInputError as error:
            refused.append(str(error))

    for name in ("first", "second"):
        world.time.spawn(name, process, begin)
    world.time.run()
    assert (len(begun), len(refused)) == (1, 1)
    assert "need two clients" in refused[0] or "need one client each" in refused[0]
    assert [each.requested_time for each in world.timeline.pending] == [begun[0].requested_time]
    assert world.lock.holder is None
