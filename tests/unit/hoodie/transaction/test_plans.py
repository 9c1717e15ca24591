"""Plans, and their execution by one at a time (P1, protocol.md: Compaction)."""

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import contents, transitions
from hoodie.transaction import layout, lifecycle
from hoodie.transaction.client import Client, Completion, OpenAction
from support.simulation import faulty_storage, schedule
from support.simulation.schedule_world import (
    GROUPS,
    SETTINGS,
    World,
    heartbeat_paths,
    metadata,
    restored,
    write_bases,
)

EXPIRY_MS = SETTINGS.heartbeat_expiry_ms


def planned(world: World) -> InstantTime:
    """Return a compaction of one write."""
    world.write(world.writer("w"))
    instant = world.schedule_compaction(world.writer("scheduler"))
    assert instant is not None
    return instant.requested_time


def take(world: World, service: Client, time: InstantTime) -> OpenAction:
    opened = lifecycle.take_over(service, Action.COMPACTION, time, world.config)
    assert opened is not None
    lifecycle.start(service, opened, commits.Operation.COMPACT)
    return opened


def bases(world: World) -> list[str]:
    return [info.name for info in world.storage.list("p") if info.name.endswith(".parquet")]


def test_plan_stands_above_all_that_completed_and_below_all_that_will() -> None:
    """T-N10, T-L29, S13: it is made while a write is in flight."""
    world = World()
    world.write(world.writer("done"))
    open_writer = world.writer("open")
    opened = world.begin(open_writer)
    instant = world.schedule_compaction(world.writer("scheduler"))
    assert instant is not None
    completion = lifecycle.commit(open_writer, opened, metadata([]))
    before, after = world.timeline.completed_writes
    assert before.completion_time is not None
    assert completion.instant.completion_time is not None
    assert before.completion_time < instant.requested_time < completion.instant.completion_time
    assert after == completion.instant


def test_nothing_to_do_leaves_nothing() -> None:
    world = World()
    before = [info.path for info in world.storage.list("", is_recursive=True)]
    assert world.schedule_compaction(world.writer("scheduler")) is None
    assert [info.path for info in world.storage.list("", is_recursive=True)] == before
    assert world.lock.holder is None


def test_execution_completes_as_a_commit() -> None:
    world = World()
    time = planned(world)
    completion = world.compact(world.writer("service"), time)
    assert (completion.instant.action, completion.instant.requested_time) == (Action.COMMIT, time)
    assert len(bases(world)) == len(GROUPS)
    world.check()


def test_second_executor_refuses_while_the_first_is_alive() -> None:
    """T-C04."""
    world = World()
    time = planned(world)
    first = world.writer("first")
    opened = take(world, first, time)
    with pytest.raises(errors.ConflictError, match=f"{time}.*writer first"):
        take(world, world.writer("second"), time)
    stats = write_bases(first, opened)
    lifecycle.commit(first, opened, metadata(stats, commits.Operation.COMPACT))
    with pytest.raises(errors.ConflictError, match="was completed at"):
        take(world, world.writer("second"), time)
    world.check()


def test_executor_that_died_is_followed_after_its_files_are_deleted() -> None:
    """T-R07, T-C03."""
    world = World()
    time = planned(world)
    process = world.process("first")
    write_bases(world.client(process), take(world, world.client(process), time))
    left = bases(world)
    process.crash()
    second = world.writer("second")
    opened = lifecycle.take_over(second, Action.COMPACTION, time, world.config)
    assert bases(world) == []
    found = world.timeline.find(time)
    assert found is not None
    assert (found.action, found.state) == (Action.COMPACTION, State.REQUESTED)
    lifecycle.start(second, opened, commits.Operation.COMPACT)
    stats = write_bases(second, opened)
    assert not set(bases(world)) & set(left)
    lifecycle.commit(second, opened, metadata(stats, commits.Operation.COMPACT))
    world.check()


def test_executor_thought_dead_loses_to_its_successor() -> None:
    """T-C05: both reach the commit, one completed file."""
    world = World()
    time = planned(world)
    process = world.process("first", host="another")
    first = world.client(process)
    opened = take(world, first, time)
    stats = write_bases(first, opened)
    process.pause(2 * EXPIRY_MS)
    world.time.advance(EXPIRY_MS)
    second = world.writer("second")
    successor = take(world, second, time)
    newer = write_bases(second, successor)
    world.time.advance(EXPIRY_MS)
    with pytest.raises(errors.HeartbeatExpiredError):
        lifecycle.commit(first, opened, metadata(stats, commits.Operation.COMPACT))
    assert lifecycle.abort(first, opened, has_tasks_left=False) is False
    lifecycle.commit(second, successor, metadata(newer, commits.Operation.COMPACT))
    with pytest.raises(errors.FencedError, match="given up"):
        lifecycle.commit(first, opened, metadata(stats, commits.Operation.COMPACT))
    assert len(bases(world)) == len(GROUPS)
    world.check()


def test_abort_of_an_execution_that_was_taken_over_leaves_the_files_of_the_other() -> None:
    """P1: alive by its own clock, which a verdict of death does not ask."""
    world = World()
    time = planned(world)
    first, second = world.writer("first"), world.writer("second")
    opened = take(world, first, time)
    world.storage.delete(f"{layout.HEARTBEATS}/{time}")
    successor = take(world, second, time)
    stats = write_bases(second, successor)
    assert opened.heartbeat.is_alive()
    assert lifecycle.abort(first, opened, has_tasks_left=False) is False
    assert len(bases(world)) == len(GROUPS)
    lifecycle.commit(second, successor, metadata(stats, commits.Operation.COMPACT))
    world.check()


def test_aborted_execution_is_requested_again_for_anybody() -> None:
    world = World()
    time = planned(world)
    first = world.writer("first")
    opened = take(world, first, time)
    write_bases(first, opened)
    assert lifecycle.abort(first, opened, has_tasks_left=False) is True
    assert bases(world) == []
    assert [each.state for each in world.timeline.pending] == [State.REQUESTED]
    world.compact(world.writer("second"), time)
    world.check()


@pytest.mark.parametrize("action", [Action.LOG_COMPACTION, Action.CLUSTERING])
def test_other_plans_are_not_executed(action: Action) -> None:
    world = World()
    service = world.writer("service")
    time = service.times.generate(world.timeline)
    transitions.request(world.storage, time, action, b"plan", lambda: False)
    with pytest.raises(errors.NotFoundError, match="is not a compaction"):
        lifecycle.take_over(service, Action.COMPACTION, time, world.config)


def test_plan_that_is_not_there_is_not_found() -> None:
    world = World()
    with pytest.raises(errors.NotFoundError, match="20260528202640000"):
        lifecycle.take_over(
            world.writer("service"),
            Action.COMPACTION,
            InstantTime("20260528202640000"),
            world.config,
        )


def test_planner_that_fails_leaves_nothing() -> None:
    world = World()

    def planner(*arguments: object) -> bytes:
        raise errors.StorageError(f"cannot list: {len(arguments)}")

    with pytest.raises(errors.StorageError, match="cannot list"):
        lifecycle.plan(world.writer("s"), Action.COMPACTION, world.config, planner)
    assert not world.timeline.instants
    assert world.lock.holder is None


def test_lock_lost_while_planning_publishes_no_plan() -> None:
    """L1, L2."""
    world = World()

    def planner(*arguments: object) -> bytes:
        world.lock.lose()
        return b"plan" * len(arguments)

    with pytest.raises(errors.LockLostError):
        lifecycle.plan(world.writer("s"), Action.COMPACTION, world.config, planner)
    assert not world.timeline.instants


def plan_late(world: World, happening: Callable[[], None]) -> lifecycle.Planned:
    """Plan while the lock is lost, and something happens, right before the plan is put there."""

    def happen() -> None:
        world.lock.lose()
        happening()

    world.faults = faulty_storage.Interruption("slow", "create .hoodie/timeline/", happen)
    slow = world.writer("slow")
    return lifecycle.plan(slow, Action.COMPACTION, world.config, lambda *_: b"plan")


def test_plan_that_others_have_overtaken_after_the_lock_was_lost_is_taken_back() -> None:
    """L1, T1: found by the simulation; plan and commit had one time."""
    world = World()
    with pytest.raises(errors.LockLostError, match="was withdrawn"):
        plan_late(world, lambda: world.write(world.writer("other")))
    assert [each.action for each in world.timeline.instants] == [Action.DELTA_COMMIT]
    assert world.schedule_compaction(world.writer("scheduler")) is not None
    world.check()


def test_plan_that_a_clean_has_not_seen_is_taken_back() -> None:
    """Files that it names may be gone, and then nobody can execute it. The simulation found it."""
    world = World()

    def plan_clean() -> None:
        world.time.advance(10)
        cleaner = world.writer("cleaner")
        lifecycle.plan(cleaner, Action.CLEAN, world.config, lambda *_: b"plan")

    with pytest.raises(errors.LockLostError, match="was withdrawn"):
        plan_late(world, plan_clean)
    assert [each.action for each in world.timeline.instants] == [Action.CLEAN]


def test_plan_that_has_the_time_of_a_write_is_not_executed() -> None:
    """T1: its planner lost the lock, and could not take it back. The simulation found it."""
    world = World()
    written = world.write(world.writer("w"))
    assert isinstance(written, Completion)
    plan = replace(
        written.instant, action=Action.COMPACTION, state=State.REQUESTED, completion_time=None
    )
    world.storage.create(transitions.path(plan), b"plan")
    with pytest.raises(errors.ConflictError, match=r"has the time of .* was withdrawn"):
        take(world, world.writer("service"), plan.requested_time)
    assert world.timeline.instants == (written.instant,)
    assert heartbeat_paths(world.storage) == []


def test_plan_that_nobody_has_overtaken_stays_though_the_lock_was_lost() -> None:
    world = World()
    scheduled = plan_late(world, lambda: None)
    assert world.timeline.instants == (scheduled.instant,)


def test_plan_that_somebody_executes_already_stays_though_it_was_overtaken() -> None:
    """Who executes it merges what it has missed; taking it away would help nobody."""
    world = World()
    world.write(world.writer("before"))
    world.time.advance(10)
    other = world.client(world.process("other", offset_ms=-5))
    taken = []

    def overtake() -> None:
        time = world.writer("slow").times.generate(world.timeline)
        world.write(other)
        transitions.request(world.storage, time, Action.COMPACTION, b"plan", lambda: False)
        taken.append(take(world, world.writer("executor"), time))

    with pytest.raises(errors.LockLostError, match="has executed it"):
        plan_late(world, overtake)
    assert [each.requested_time for each in world.timeline.pending] == [taken[0].requested_time]


def test_plan_is_executed_after_a_restore_that_left_it() -> None:
    """A restore forbids what began before it to complete; the execution began after it."""
    world = World()
    time = planned(world)
    restored(world)
    completion = world.compact(world.writer("service"), time)
    assert completion.instant.requested_time == time


def test_execution_is_refused_where_the_table_was_restored_meanwhile() -> None:
    world = World()
    time = planned(world)
    service = world.writer("service")
    opened = take(world, service, time)
    stats = write_bases(service, opened)
    restored(world)
    with pytest.raises(errors.ConflictError, match="restored"):
        lifecycle.complete(service, opened, metadata(stats))


def test_two_schedulers_at_once_make_two_plans_in_the_order_of_the_lock() -> None:
    """T-L29: time and requested file are made in one scope."""
    world = World(schedule.Schedule(5))
    times = []

    def run(name: str, process: schedule.Process) -> None:
        service = world.client(process)
        for _ in range(5):
            scheduled = lifecycle.plan(
                service, Action.COMPACTION, world.config, lambda *_: name.encode()
            )
            assert scheduled.instant is not None
            times.append(scheduled.instant.requested_time)

    for name in ("one", "two"):
        process = world.process(name)
        world.time.spawn(name, process, functools.partial(run, name, process))
    world.time.run()
    requested = [
        event.rpartition("/")[2].partition(".")[0]
        for event in world.time.history
        if event.endswith(".compaction.requested")
    ]
    assert requested == sorted(requested)
    assert sorted(times) == requested


def test_execution_by_another_engine_is_left_alone_while_it_writes() -> None:
    """P1: Apache Hudi executes its plans without a heartbeat; its files would be deleted."""
    world = World()
    time = planned(world)
    plan = Instant(requested_time=time, action=Action.COMPACTION, state=State.REQUESTED)
    foreign = timeline_avro.encode_compaction_plan(
        replace(contents.read_compaction_plan(world.storage, plan), extra={})
    )
    world.storage.delete(transitions.path(plan))
    world.storage.create(transitions.path(plan), foreign)
    transitions.start(world.storage, plan, b"", lambda: False)
    service = world.writer("service")
    with pytest.raises(errors.ConflictError, match="is executed by another"):
        lifecycle.take_over(service, Action.COMPACTION, time, world.config)
    world.time.advance(EXPIRY_MS)
    assert lifecycle.take_over(service, Action.COMPACTION, time, world.config) is not None


def test_executor_that_lost_the_lock_while_it_took_a_plan_deletes_nothing() -> None:
    """P1: found by the simulation; another completed the plan in that very moment."""
    world = World()
    time = planned(world)
    other = world.writer("other")
    opened = take(world, other, time)
    stats = write_bases(other, opened)

    def complete_elsewhere() -> None:
        world.lock.lose()
        lifecycle.commit(other, opened, metadata(stats))

    world.time.is_proved_dead = lambda process: True  # type: ignore[method-assign] # a lie
    heartbeat = f"create .hoodie/.heartbeat/{time}"
    world.faults = faulty_storage.Interruption("slow", heartbeat, complete_elsewhere)
    with pytest.raises(errors.LockLostError):
        lifecycle.take_over(world.writer("slow"), Action.COMPACTION, time, world.config)
    assert len(bases(world)) == len(GROUPS)
    assert heartbeat_paths(world.storage) == []
    world.check()
