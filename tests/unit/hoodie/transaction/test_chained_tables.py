"""Actions on a table with a chain: what a lock would have excluded is decided by the next epoch."""

import pytest

from hoodie import errors
from hoodie.model import commits
from hoodie.transaction import authors, lifecycle
from hoodie.transaction.client import OpenAction
from hoodie.write import conflicts
from support.simulation import schedule_rollback
from support.simulation.faulty_storage import Interruption
from support.simulation.schedule_world import GROUPS, World, metadata

EPOCH = "create .hoodie/.aux/epoch/"


@pytest.fixture
def world() -> World:
    return World(is_lying=True)


def test_batch_that_an_earlier_attempt_publishes_last_is_not_written_again(world: World) -> None:
    """WR1: the later attempt began while the epoch of the earlier one was on its way."""
    first = world.writer("first", author=authors.Author(writer_id="w", attempt=1))
    second = world.writer("second", author=authors.Author(writer_id="w", attempt=2))
    begun: list[OpenAction] = []
    world.faults = Interruption("first", EPOCH, lambda: begun.append(world.begin(second, "b")))
    first = world.client(world.process_of(first), authors.Author(writer_id="w", attempt=1))
    world.write(first, "b")
    (opened,) = begun
    stats = world.write_files(second, opened, GROUPS)
    with pytest.raises(errors.ConflictError, match="was written by another attempt"):
        lifecycle.commit(second, opened, metadata(stats), [conflicts.commit_check(second)])
    lifecycle.abort(second, opened)
    world.check()


def test_who_is_overtaken_decides_again(world: World) -> None:
    """CH3: the write that is published meanwhile is in the ledger that the loser publishes."""
    loser, winner = world.writer("loser"), world.writer("winner")
    world.faults = Interruption("loser", EPOCH, lambda: world.write(winner, "theirs"))
    loser = world.client(world.process_of(loser), authors.Author(writer_id="loser"))
    completion = world.write(loser, "mine")
    assert world.timeline.completed_writes[-1] == getattr(completion, "instant", None)
    world.check()


def test_write_that_is_taken_back_meanwhile_is_not_published(world: World) -> None:
    writer = world.writer("writer")
    opened = world.begin(writer, "b")
    stats = world.write_files(writer, opened, GROUPS)
    opened.heartbeat.stop()
    opened.heartbeat.end()
    assert schedule_rollback.roll_back_dead(world, world.writer("janitor")) == 1
    with pytest.raises(errors.HoodieError):
        lifecycle.commit(writer, opened, metadata(stats, commits.Operation.UPSERT))
    assert not world.timeline.completed_writes
