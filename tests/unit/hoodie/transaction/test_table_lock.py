"""The scope of the table lock (L1 to L4, protocol.md: The table lock)."""

import pytest

from hoodie import errors
from hoodie.transaction.locks.in_process import InProcessLock
from hoodie.transaction.locks.protocol import LockOwner
from hoodie.transaction.table_lock import LockTimes, Patience, TableLock
from support.simulation import faulty_storage, schedule
from support.simulation.schedule_world import World


def lock_of(
    world: World, provider: schedule.SessionLockProvider, wait_ms: int = 1_000
) -> TableLock:
    return TableLock(provider, world.storage, provider.process.clock, Patience(wait_ms=wait_ms))


def provider(world: World, name: str) -> schedule.SessionLockProvider:
    return schedule.SessionLockProvider(world.lock, world.process(name))


def test_timeline_is_read_after_the_lock_is_had() -> None:
    """L1: what another completed while we waited is seen."""
    world = World(schedule.Schedule(1))
    holder, waiter = provider(world, "holder"), provider(world, "waiter")
    seen = []

    def hold() -> None:
        holder.acquire(0)
        world.time.sleep(holder.process, 100)
        world.storage.create(".hoodie/timeline/20260528202640000.deltacommit.requested", b"")
        holder.release()

    def wait() -> None:
        world.time.sleep(waiter.process, 10)
        with lock_of(world, waiter).scope() as scope:
            seen.append(len(scope.timeline.instants))

    world.time.spawn("holder", holder.process, hold)
    world.time.spawn("waiter", waiter.process, wait)
    world.time.run()
    assert seen == [1]


def test_lock_is_given_back_whatever_happens() -> None:
    world = World()
    lock = lock_of(world, provider(world, "a"))
    with pytest.raises(KeyError), lock.scope():
        raise KeyError
    with lock.scope() as scope:
        assert scope.is_held()
    assert world.lock.holder is None


def test_lock_is_given_back_when_the_timeline_cannot_be_read() -> None:
    world = World()
    taker = provider(world, "a")

    class Failing(faulty_storage.NoFaults):
        def at(
            self, process: schedule.Process, call: str, *, is_mutation: bool
        ) -> faulty_storage.Fault:
            return faulty_storage.Fault.FAIL_BEFORE

    storage = faulty_storage.FaultyStorage(world.storage, taker.process, Failing())
    lock = TableLock(taker, storage, taker.process.clock, Patience(wait_ms=1_000))
    with pytest.raises(errors.StorageError), lock.scope():
        pass
    assert world.lock.holder is None


def test_lock_that_cannot_be_given_back_does_not_fail_what_was_done() -> None:
    """C3."""
    world = World()

    class Stuck(schedule.SessionLockProvider):
        def release(self) -> None:
            raise errors.StorageError("no answer")

    lock = lock_of(world, Stuck(world.lock, world.process("a")))
    with lock.scope():
        pass


def test_waits_and_holds_add_up() -> None:
    world = World()
    taker = provider(world, "a")
    lock = lock_of(world, taker)
    for _ in range(2):
        with lock.scope():
            world.time.advance(30)
    assert lock.times == LockTimes(wait_ms=0, hold_ms=60)
    other = provider(world, "b")
    other.acquire(0)
    with pytest.raises(errors.LockTimeoutError, match="b"), lock.scope():
        pass
    assert lock.times.wait_ms >= 1_000
    assert lock.times - LockTimes(wait_ms=lock.times.wait_ms) == LockTimes(hold_ms=60)


def test_lost_lock_is_noticed() -> None:
    """L2."""
    world = World()
    with lock_of(world, provider(world, "a")).scope() as scope:
        scope.check()
        token = scope.fencing_token
        world.lock.lose()
        assert not scope.is_held()
        with pytest.raises(errors.LockLostError, match="was lost while held"):
            scope.check()
    with lock_of(world, provider(world, "b")).scope() as scope:
        assert scope.fencing_token > token


def test_one_client_in_two_scopes_is_refused_and_the_first_stays() -> None:
    """L3, L4, T-L13, T-L30: by the provider, also in one thread."""
    world = World()
    process = world.process("a")
    owner = LockOwner(id="1", name="a", process=process.process)
    lock = TableLock(
        InProcessLock("memory://reentry", owner, process.clock),
        world.storage,
        process.clock,
        Patience(wait_ms=0),
    )
    with lock.scope() as scope:
        with pytest.raises(errors.InvalidInputError), lock.scope():
            pass
        assert scope.is_held()
    with lock.scope():
        pass
