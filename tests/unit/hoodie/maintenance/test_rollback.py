"""Rollback of failed writes (R1 to R9, R-A to R-D of protocol.md), on real timeline bytes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.filegroup import metadata_records, metadata_table, snapshots
from hoodie.format import file_names, rollback_avro, timeline_avro
from hoodie.maintenance.compaction import planning
from hoodie.maintenance.rollback import execution, failed_writes, orphan_files
from hoodie.maintenance.rollback.execution import OpenRollback
from hoodie.model import commits, files, instants, plans, table_config
from hoodie.model.compaction_options import CompactionOptions
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import active, contents, metadata_timelines, transitions
from hoodie.transaction import (
    authors,
    fencing,
    heartbeats,
    layout,
    lifecycle,
    liveness,
    markers,
    metadata_commits,
)
from hoodie.transaction.client import Client, OpenAction
from support.simulation import faulty_storage, invariants, schedule
from support.simulation.schedule_world import (
    CONFIG,
    COPY_ON_WRITE,
    GROUPS,
    SETTINGS,
    World,
    data_files,
    heartbeat_paths,
    metadata,
    put_file,
    restored,
    write_bases,
    write_data,
)

EXPIRY_MS = SETTINGS.heartbeat_expiry_ms


def fail(world: World, name: str = "victim") -> OpenAction:
    """Return a write whose process died after it had written its data."""
    process = world.process(name)
    writer = world.client(process)
    opened = world.begin(writer)
    write_data(writer, opened, GROUPS)
    process.crash()
    return opened


def roll_back(world: World, opened: OpenAction, name: str = "janitor") -> plans.RollbackPlan:
    service = world.writer(name)
    done = failed_writes.roll_back(service, world.config, opened.requested_time)
    path = contents.rollback_plan_path(done.instant)
    return rollback_avro.decode_plan(world.storage.read(path), path)


def paused_in_rollback(
    world: World, opened: OpenAction, pause_ms: int
) -> tuple[Client, OpenRollback]:
    """Return a service that was paused when it had requested a rollback, and the rollback."""
    process = world.process("zombie", host="another")
    zombie = world.client(process)
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    held = execution.request(zombie, world.config, plan)
    process.pause(pause_ms)
    return zombie, held


def refused(world: World, opened: OpenAction) -> errors.HoodieError:
    """Return why an instant is not taken back, after a look that nothing was planned."""
    before = world.timeline
    with pytest.raises(errors.HoodieError) as caught:
        roll_back(world, opened)
    assert world.timeline == before
    assert world.lock.holder is None
    return caught.value


def test_failed_write_is_taken_back_whole() -> None:
    """T-R06: its own log files go, those of others in the same slices stay."""
    world = World()
    world.write(world.writer("other"), "b0")
    kept = data_files(world.storage)
    opened = fail(world)
    plan = roll_back(world, opened)
    assert plan.target == opened.requested_time
    assert plan.action is Action.DELTA_COMMIT
    assert {each.base_instant_time for each in plan.requests} == {opened.requested_time}
    assert {files.FileGroupId("p", each.file_id or "") for each in plan.requests} == set(GROUPS)
    assert data_files(world.storage) == kept
    rollback = world.timeline.instants[-1]
    assert (rollback.action, rollback.state) == (Action.ROLLBACK, State.COMPLETED)
    assert world.timeline.find(opened.requested_time) is None
    invariants.check_quiescence(world.storage, world.check())


def test_metadata_says_what_apache_hudi_says() -> None:
    world = World()
    opened = fail(world)
    roll_back(world, opened)
    rollback = world.timeline.instants[-1]
    content = world.storage.read(transitions.path(rollback))
    record = rollback_avro.avro_container.decode(content, "metadata")
    assert record.fields["commitsRollback"] == [opened.requested_time]
    assert record.fields["startRollbackTime"] == rollback.requested_time
    assert record.fields["totalFilesDeleted"] == len(GROUPS)
    assert record.fields["version"] == 1
    assert record.fields["instantsRollback"] == [
        {"commitTime": opened.requested_time, "action": "deltacommit"}
    ]
    (partition,) = record.map("partitionMetadata").values()
    assert isinstance(partition, dict)
    assert partition["partitionPath"] == "p"
    assert len(partition["successDeleteFiles"]) == len(GROUPS)
    assert all(
        path.startswith(f"{world.storage.uri}/p/.") for path in partition["successDeleteFiles"]
    )
    assert (partition["failedDeleteFiles"], partition["rollbackLogFiles"]) == ([], {})


def test_live_write_is_left_alone() -> None:
    """R3, T-H01, T-H07: whatever the janitor's own clock says."""
    world = World()
    opened = world.begin(world.writer("alive"))
    assert "sign of life" in str(refused(world, opened))
    ahead = world.client(world.process("ahead", offset_ms=600_000))
    assert liveness.find_dead(ahead, world.timeline) == []
    found = failed_writes.roll_back_all(ahead, world.config, world.timeline)
    assert found.done == ()


def test_write_that_completed_between_look_and_lock_is_not_taken_back() -> None:
    """T-R03 (R-A): and one that was begun again by nobody stays whole."""
    world = World()
    writer = world.writer("late")
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    lifecycle.commit(writer, opened, metadata(stats))
    with pytest.raises(errors.ConflictError, match="took effect"):
        execution.request(world.writer("janitor"), world.config, plan)
    assert len(data_files(world.storage)) == len(GROUPS)


def test_completed_instant_and_unknown_one_and_clean_are_refused() -> None:
    world = World()
    completion = world.write(world.writer("a"), "b0")
    janitor = world.writer("janitor")
    done = world.timeline.completed_writes[0]
    assert completion is not None
    with pytest.raises(errors.ConflictError, match="took effect"):
        failed_writes.roll_back(janitor, world.config, done.requested_time)
    with pytest.raises(errors.NotFoundError):
        failed_writes.roll_back(janitor, world.config, InstantTime("20200101000000000"))
    time = janitor.times.generate(world.timeline)
    transitions.request(world.storage, time, Action.CLEAN, b"plan", lambda: False)
    with pytest.raises(errors.UnsupportedError, match="clean"):
        failed_writes.roll_back(janitor, world.config, time)


def test_one_of_two_takes_it_back() -> None:
    """T-R02: the other sees it in good hands, and later nothing is left to do."""
    world = World()
    opened = fail(world)
    world.time.advance(EXPIRY_MS)
    first = world.writer("first")
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    held = execution.request(first, world.config, plan)
    second = world.writer("second")
    with pytest.raises(errors.ConflictError, match="executed by"):
        failed_writes.roll_back(second, world.config, opened.requested_time)
    found = failed_writes.roll_back_all(second, world.config, world.timeline)
    assert found.done == ()
    assert len(found.passed_over) == 1
    execution.execute(first, held)
    assert failed_writes.roll_back_all(second, world.config, world.timeline).done == ()
    assert [each.action for each in world.timeline.instants] == [Action.ROLLBACK]


def test_rollback_whose_executor_died_is_resumed_and_the_zombie_does_nothing() -> None:
    """R-C: takeover after expiry only; who was taken for dead completes nothing."""
    world = World()
    opened = fail(world)
    world.time.advance(EXPIRY_MS)
    zombie, held = paused_in_rollback(world, opened, 2 * EXPIRY_MS)
    world.time.advance(EXPIRY_MS)
    roll_back(world, opened)
    world.time.advance(2 * EXPIRY_MS)
    with pytest.raises(errors.HoodieError):
        execution.execute(zombie, held)
    orphan_files.sweep(world.writer("sweeper"))
    invariants.check_quiescence(world.storage, world.check())


def test_zombie_leaves_the_heartbeat_of_its_successor_alone() -> None:
    """R-C."""
    world = World()
    opened = fail(world)
    world.time.advance(EXPIRY_MS)
    zombie, held = paused_in_rollback(world, opened, EXPIRY_MS)
    world.time.advance(EXPIRY_MS)
    successor = world.writer("successor")
    resumed = execution.resume(successor, world.config, held.requested_time)
    assert resumed is not None
    with pytest.raises(errors.HeartbeatExpiredError):
        execution.execute(zombie, held)
    assert resumed.opened.heartbeat.is_own()
    execution.execute(successor, resumed)
    invariants.check_quiescence(world.storage, world.check())


def test_executor_whose_heartbeat_file_was_deleted_completes_nothing() -> None:
    """R-C: it is alive by its own clock, but another may have begun."""
    world = World()
    opened = fail(world)
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    janitor = world.writer("janitor")
    held = execution.request(janitor, world.config, plan)
    world.storage.delete(heartbeats.path_of(held.requested_time))
    with pytest.raises(errors.HeartbeatExpiredError, match="removed, or taken over"):
        execution.execute(janitor, held)
    assert held.opened.inflight in world.timeline.pending


def execute_interrupted(
    world: World, opened: OpenAction, happening: Callable[[OpenRollback], None]
) -> OpenRollback:
    """Execute a rollback that something comes between, after its data files were deleted.

    Returns:
        The rollback; it was refused to be completed.
    """
    process = world.process("janitor")
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    held = execution.request(world.client(process), world.config, plan)
    marker_list = f"list {markers.directory_of(opened.requested_time)}"
    world.faults = faulty_storage.Interruption("janitor", marker_list, lambda: happening(held))
    with pytest.raises(errors.ConflictError, match="completed at"):
        execution.execute(world.client(process), held)
    return held


def test_rollback_that_another_has_completed_is_not_completed_twice() -> None:
    """R-C: though the heartbeat file is still ours."""
    world = World()
    opened = fail(world)

    def complete_elsewhere(held: OpenRollback) -> None:
        transitions.complete(
            world.storage,
            held.opened.inflight,
            b"metadata",
            timeline=world.timeline,
            times=world.writer("other").times,
            check=lambda: None,
        )

    execute_interrupted(world, opened, complete_elsewhere)
    assert not world.timeline.duplicates


def test_rollback_whose_target_completes_while_files_are_deleted_is_not_completed() -> None:
    """R-D: who goes on with it sees what is left of the target."""
    world = World()
    opened = fail(world)
    held = execute_interrupted(world, opened, lambda _: publish_late(world, opened, []))
    assert held.opened.inflight in world.timeline.pending


def test_completion_that_may_be_on_its_way_is_waited_for() -> None:
    """Whoever resumed at once might complete it a second time."""

    class LostCompletion(faulty_storage.NoFaults):
        def at(
            self, process: schedule.Process, call: str, *, is_mutation: bool
        ) -> faulty_storage.Fault:
            del process, is_mutation
            is_it = call.startswith("create") and call.endswith(".rollback")
            return faulty_storage.Fault.FAIL_BEFORE if is_it else faulty_storage.Fault.NONE

    world = World()
    opened = fail(world)
    world.faults = LostCompletion()
    with pytest.raises(errors.StorageError):
        roll_back(world, opened)
    world.faults = faulty_storage.NoFaults()
    with pytest.raises(errors.ConflictError, match="executed by"):
        roll_back(world, opened, "next")
    world.time.advance(EXPIRY_MS)
    roll_back(world, opened, "later")
    invariants.check_quiescence(world.storage, world.check())


def test_writer_and_rollback_cannot_both_win() -> None:
    """R-B, T-H03: a rollback that is only requested is the end of the write."""
    world = World()
    process = world.process("slow", host="another")
    writer = world.client(process)
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    process.pause(EXPIRY_MS)
    world.time.advance(EXPIRY_MS)
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    execution.request(world.writer("janitor"), world.config, plan)
    world.time.advance(1)
    with pytest.raises(errors.ConflictError, match="being rolled back"):
        lifecycle.commit(writer, opened, metadata(stats))


def test_target_that_completed_all_the_same_keeps_its_files() -> None:
    """R-D: a writer that looks for no rollback, as Apache Hudi's do, was faster."""
    world = World()
    opened = fail(world)
    world.time.advance(EXPIRY_MS)
    janitor = world.writer("janitor")
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    held = execution.request(janitor, world.config, plan)
    transitions.complete(
        world.storage,
        opened.inflight,
        b"metadata",
        timeline=world.timeline,
        times=janitor.times,
        check=lambda: None,
    )
    with pytest.raises(errors.ConflictError, match="was completed"):
        execution.execute(janitor, held)
    assert len(data_files(world.storage)) == len(GROUPS)
    assert not world.timeline.pending
    assert not [each for each in world.timeline.files if each.action is Action.ROLLBACK]


def begin_to_take_back(world: World, opened: OpenAction, deletions: int) -> None:
    """Let an executor die after so many deletions of data files."""
    process = world.process("executor")
    service = world.client(process)
    paths = tuple(sorted(data_paths(world, opened)))
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    held = execution.request(service, world.config, plan)
    transitions.start(service.storage, held.opened.requested, b"", held.opened.heartbeat.is_own)
    for path in paths[:deletions]:
        world.storage.delete(path)
    process.crash()


def publish_late(world: World, opened: OpenAction, stats: list[commits.WriteStat]) -> None:
    """Let the store carry out what a dead writer had asked for."""
    transitions.complete(
        world.storage,
        opened.inflight,
        timeline_avro.encode_commit(metadata(stats)),
        timeline=world.timeline,
        times=world.writer("late").times,
        check=lambda: None,
    )


def half_taken_back(deletions: int, config: table_config.TableConfig = CONFIG) -> World:
    """Return a world whose rollback is pending, its executor dead, its target completed late."""
    world = World(config=config)
    process = world.process("victim")
    writer = world.client(process)
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    process.crash()
    begin_to_take_back(world, opened, deletions)
    publish_late(world, opened, stats)
    world.told.clear()
    return world


def pending_rollbacks(world: World) -> list[Instant]:
    return [each for each in world.timeline.pending if each.action is Action.ROLLBACK]


@pytest.mark.parametrize("deletions", [1, 2])
def test_rollback_is_finished_though_its_target_completed_late(deletions: int) -> None:
    """R-B: the request came first, no success was reported, and nothing was built on the write."""
    world = half_taken_back(deletions)
    found = failed_writes.roll_back_all(world.writer("next"), world.config, world.timeline)
    assert len(found.done) == 1
    assert not world.timeline.completed_writes
    assert not data_files(world.storage)
    assert not world.timeline.pending


def test_rollback_that_has_deleted_nothing_leaves_a_target_that_completed_late() -> None:
    world = half_taken_back(0)
    found = failed_writes.roll_back_all(world.writer("next"), world.config, world.timeline)
    assert "withdrawn, since all its files exist" in found.passed_over[0]
    assert len(world.timeline.completed_writes) == 1
    assert len(data_files(world.storage)) == len(GROUPS)
    assert not pending_rollbacks(world)


def plan_compaction(world: World) -> None:
    """Plan as Apache Hudi does, which looks for no rollbacks."""
    time = world.writer("planner").times.generate(world.timeline)
    snapshot = snapshots.take(world.storage, world.config)
    plan = planning.decide(snapshot, time, CompactionOptions()).plan
    assert plan is not None
    content = timeline_avro.encode_compaction_plan(plan)
    transitions.request(world.storage, time, Action.COMPACTION, content, lambda: False)


def begin_copy_on_write(world: World) -> None:
    world.begin(world.writer("reads its base files"))


def commit_copy_on_write(world: World) -> None:
    world.write(world.writer("has read its base files"))


@pytest.mark.parametrize(
    ("config", "build"),
    [
        (CONFIG, plan_compaction),
        (COPY_ON_WRITE, begin_copy_on_write),
        (COPY_ON_WRITE, commit_copy_on_write),
    ],
)
def test_target_that_others_have_built_on_is_reported_and_its_rollback_withdrawn(
    config: table_config.TableConfig, build: Callable[[World], None]
) -> None:
    world = half_taken_back(1, config)
    build(world)
    found = failed_writes.roll_back_all(world.writer("next"), world.config, world.timeline)
    assert any("hoodie check" in reason for reason in found.passed_over)
    assert not pending_rollbacks(world)
    assert world.timeline.completed_writes


def test_write_is_not_taken_back_while_its_completed_file_may_be_on_its_way() -> None:
    """Its writer is proved dead at once; what it had asked an object store for is not."""
    world = World()
    world.storage = faulty_storage.LateStorage(world.store)
    process = world.process("victim")
    writer = world.client(process)
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    process.crash()
    world.time.later(faulty_storage.SLOW_MS_MAX, lambda: publish_late(world, opened, stats))
    service = world.writer("service")
    for _ in range(2):
        found = failed_writes.roll_back_all(service, world.config, world.timeline)
        assert not found.done
        world.time.advance(SETTINGS.heartbeat_interval_ms + faulty_storage.SLOW_MS_MAX)
    assert len(world.timeline.completed_writes) == 1
    assert len(data_files(world.storage)) == len(GROUPS)


def lose_markers(world: World, opened: OpenAction) -> None:
    world.storage.delete_directory(markers.directory_of(opened.requested_time))


def keep_markers_at_server(world: World, opened: OpenAction) -> None:
    """Put the markers as Spark's timeline server does, the last one cut off by the crash."""
    directory = markers.directory_of(opened.requested_time)
    names = [f"{path}.marker.CREATE" for path in sorted(data_paths(world, opened))]
    world.storage.delete_directory(directory)
    world.storage.create(f"{directory}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    world.storage.create(f"{directory}/MARKERS0", "\n".join(names)[:-20].encode())


def keep_some(world: World, opened: OpenAction) -> None:
    """Delete one data file, as an earlier rollback did that broke off."""
    world.storage.delete(min(data_paths(world, opened)))


def data_paths(world: World, opened: OpenAction) -> list[str]:
    return [info.path for info in world.storage.list("p") if opened.requested_time in info.name]


@pytest.mark.parametrize("damage", [lose_markers, keep_markers_at_server, keep_some])
def test_files_are_found_whatever_markers_tell(
    damage: Callable[[World, OpenAction], None],
) -> None:
    """T-R05."""
    world = World()
    world.write(world.writer("other"), "b0")
    kept = data_files(world.storage)
    opened = fail(world)
    damage(world, opened)
    roll_back(world, opened)
    assert data_files(world.storage) == kept
    invariants.check_quiescence(world.storage, world.check())


def test_marker_of_another_instants_file_deletes_nothing() -> None:
    world = World()
    world.write(world.writer("other"), "b0")
    kept = data_files(world.storage)
    opened = fail(world)
    markers.mark(world.storage, opened.requested_time, f"p/{kept[0]}")
    roll_back(world, opened)
    assert data_files(world.storage) == kept


def test_write_that_was_only_requested_has_nothing_to_delete() -> None:
    world = World()
    process = world.process("victim")
    writer = world.client(process)
    opened = lifecycle.begin(writer, Action.DELTA_COMMIT, world.config)
    assert isinstance(opened, OpenAction)
    process.crash()
    assert roll_back(world, opened).requests == ()
    invariants.check_quiescence(world.storage, world.check())


def test_truncated_plan_is_withdrawn_and_made_anew() -> None:
    """T-R08: as a writer leaves it that does not create files at once; it counts once it is old."""
    world = World()
    opened = fail(world)
    janitor = world.writer("janitor")
    time = janitor.times.generate(world.timeline)
    broken = Instant(requested_time=time, action=Action.ROLLBACK, state=State.REQUESTED)
    world.storage.create(transitions.path(broken), b"Obj\x01")
    assert failed_writes.roll_back_all(janitor, world.config, world.timeline).done == ()
    world.time.advance(EXPIRY_MS)
    found = failed_writes.roll_back_all(janitor, world.config, world.timeline)
    assert [each.target for each in found.done] == [opened.requested_time]
    invariants.check_quiescence(world.storage, world.check())


def test_broken_plan_that_may_have_deleted_is_reported() -> None:
    world = World()
    fail(world)
    janitor = world.writer("janitor")
    time = janitor.times.generate(world.timeline)
    for state, content in ((State.REQUESTED, b"Obj\x01"), (State.INFLIGHT, b"")):
        broken = Instant(requested_time=time, action=Action.ROLLBACK, state=state)
        world.storage.create(transitions.path(broken), content)
    world.time.advance(EXPIRY_MS)
    with pytest.raises(errors.FormatError, match=r"rollback\.requested"):
        failed_writes.roll_back(janitor, world.config, time)


def foreign(world: World) -> InstantTime:
    """Return the instant of a Spark writer that has no heartbeat, as single writers have none."""
    time = world.writer("clock").times.generate(world.timeline)
    requested = transitions.request(world.storage, time, Action.DELTA_COMMIT, b"", lambda: False)
    transitions.start(world.storage, requested, b"", lambda: False)
    return time


def test_write_without_heartbeat_is_left_alone_until_it_was_quiet_for_long() -> None:
    world = World()
    time = foreign(world)
    janitor = world.writer("janitor")
    with pytest.raises(errors.ConflictError, match="sign of life"):
        failed_writes.roll_back(janitor, world.config, time)
    world.time.advance(EXPIRY_MS // 2)
    markers.mark(world.storage, time, f"p/.f_{time}.log.1_0-1-0")
    world.time.advance(EXPIRY_MS // 2 + 1)
    assert liveness.find_dead(janitor, world.timeline) == []
    world.time.advance(EXPIRY_MS)
    failed_writes.roll_back(janitor, world.config, time)
    invariants.check_quiescence(world.storage, world.check())


def test_heartbeat_deleted_by_hand_counts_as_expired_and_the_writer_gives_up() -> None:
    """T-H08."""
    world = World()
    writer = world.writer("a")
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    world.storage.delete(heartbeats.path_of(opened.requested_time))
    with pytest.raises(errors.HeartbeatExpiredError):
        lifecycle.commit(writer, opened, metadata(stats))
    roll_back(world, opened)
    assert data_files(world.storage) == []


def planned(world: World) -> InstantTime:
    world.write(world.writer("w"), "b0")
    instant = world.schedule_compaction(world.writer("scheduler"))
    assert instant is not None
    return instant.requested_time


def start_compaction(world: World, service: Client, time: InstantTime) -> OpenAction:
    opened = lifecycle.take_over(service, Action.COMPACTION, time, world.config)
    lifecycle.start(service, opened, commits.Operation.COMPACT)
    return opened


def test_failed_compaction_is_requested_again_and_runs() -> None:
    """T-R07: only its base files go; the plan stays, and is executed in spite of the rollback."""
    world = World()
    time = planned(world)
    process = world.process("victim")
    service = world.client(process)
    opened = start_compaction(world, service, time)
    write_bases(service, opened)
    process.crash()
    logs = [name for name in data_files(world.storage) if ".log." in name]
    world.time.advance(EXPIRY_MS)
    plan = roll_back(world, opened)
    assert plan.action is Action.COMPACTION
    assert data_files(world.storage) == logs
    found = world.timeline.find(time)
    assert found is not None
    assert found.state is State.REQUESTED
    world.compact(world.writer("next"), time)
    world.check()


def test_compaction_waits_for_its_rollback() -> None:
    world = World()
    time = planned(world)
    process = world.process("victim")
    start_compaction(world, world.client(process), time)
    process.crash()
    world.time.advance(EXPIRY_MS)
    plan = plans.RollbackPlan(target=time, action=Action.COMPACTION)
    janitor = world.writer("janitor")
    held = execution.request(janitor, world.config, plan)
    with pytest.raises(errors.ConflictError, match="being rolled back"):
        lifecycle.take_over(world.writer("next"), Action.COMPACTION, time, world.config)
    execution.execute(janitor, held)
    world.compact(world.writer("next"), time)


def test_late_file_of_a_write_that_was_taken_back_is_swept() -> None:
    """T-H09: that of the table's first write, too, which counts as archived by its time alone."""
    world = World()
    first = fail(world, "first")
    roll_back(world, first)
    zombie = world.writer("zombie")
    put_file(zombie, first, f"p/.f_{first.requested_time}.log.1_0-1-0", b"late")
    world.write(world.writer("other"), "b0")
    second = fail(world, "second")
    roll_back(world, second)
    late = f"p/.f_{second.requested_time}.log.1_0-1-0"
    with world.storage.open_write(late) as file:
        file.write(b"later")
    assert orphan_files.sweep(world.writer("sweeper")) == 3
    assert orphan_files.sweep(world.writer("sweeper")) == 0
    invariants.check_quiescence(world.storage, world.check())


def test_heartbeat_whose_creation_broke_off_is_swept() -> None:
    """As a local storage leaves it; found by killing processes."""
    world = World()
    opened = fail(world)
    unborn = f"{layout.HEARTBEATS}/{instants.next_time(opened.requested_time)}.aa31f9d5-f78a-4120"
    world.storage.create(unborn, b"{}")
    roll_back(world, opened)
    assert orphan_files.sweep(world.writer("janitor")) == 1
    invariants.check_quiescence(world.storage, world.check())


class Archive:
    """Knows one instant."""

    def completion_time(self, requested_time: InstantTime) -> InstantTime | None:
        return requested_time if requested_time == "20260528202640005" else None


def test_files_of_archived_instants_are_never_swept() -> None:
    times = [InstantTime(f"{20260528202640000 + number}") for number in range(10)]
    completed = Instant(
        requested_time=times[4],
        action=Action.DELTA_COMMIT,
        state=State.COMPLETED,
        completion_time=times[9],
    )
    timeline = active.from_files([completed], Archive())
    marker = f"{layout.MARKERS}/{times[0]}/p/x.marker.CREATE"
    taken_back = {times[1], times[5]}
    for time, is_kept in zip(times[:7], (True, False, True, True, True, True, False), strict=True):
        left = orphan_files._left(timeline, taken_back, time, ["p/data", marker])
        assert left == ([marker] if is_kept else ["p/data", marker]), time


def test_sweep_leaves_the_living_alone() -> None:
    world = World()
    writer = world.writer("alive")
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    world.write(world.writer("done"), "b0")
    assert orphan_files.sweep(world.writer("sweeper")) == 0
    lifecycle.commit(writer, opened, metadata(stats))
    assert heartbeat_paths(world.storage) == []
    world.check()


def test_sweep_leaves_what_beats_and_is_on_no_timeline() -> None:
    """Who was taken back by mistake writes on until it knows."""
    world = World()
    process = world.process("zombie", host="another")
    zombie = world.client(process)
    world.write(world.writer("done"), "b0")
    opened = world.begin(zombie)
    write_data(zombie, opened, GROUPS)
    for each in (opened.requested, opened.inflight):
        world.storage.delete(transitions.path(each))
    kept = data_files(world.storage)
    assert orphan_files.sweep(world.writer("sweeper")) == 0
    process.crash()
    world.time.advance(EXPIRY_MS)
    assert orphan_files.sweep(world.writer("sweeper")) > 0
    assert len(data_files(world.storage)) == len(kept) - len(GROUPS)


def test_sweep_that_began_before_a_write_leaves_that_alone() -> None:
    """What was listed is judged on a timeline that is read later."""
    world = World()
    world.write(world.writer("done"), "b0")
    world.storage.create(f"{layout.MARKERS}/20200101000000000/p/x.marker.CREATE", b"")
    begun: list[OpenAction] = []
    writer = world.writer("new")

    def begin() -> None:
        begun.append(world.begin(writer))
        write_data(writer, begun[0], GROUPS)

    world.faults = faulty_storage.Interruption("sweeper", f"list {active.DIRECTORY}", begin)
    assert orphan_files.sweep(world.writer("sweeper")) == 1
    (opened,) = begun
    assert lifecycle.abort(writer, opened, has_tasks_left=False)


def test_sweep_keeps_files_of_a_second_completion() -> None:
    """Two executions of one plan may both be published late; the files of the later one count."""
    world = World()
    writer = world.writer("w")
    opened = world.begin(writer)
    first = lifecycle.commit(writer, opened, metadata(write_data(writer, opened, GROUPS))).instant
    others = write_data(writer, opened, GROUPS, task=1)
    assert first.completion_time is not None
    second = replace(first, completion_time=instants.next_time(first.completion_time))

    def complete_again() -> None:
        content = timeline_avro.encode_commit(metadata(others))
        world.storage.create(transitions.path(second), content)

    before = set(data_files(world.storage))
    read = f"read {transitions.path(first)}"
    world.faults = faulty_storage.Interruption("sweeper", read, complete_again)
    orphan_files.sweep(world.writer("sweeper"))
    assert second in world.timeline.instants
    assert set(data_files(world.storage)) == before


def test_sweep_leaves_files_of_a_plan_that_shares_its_time_with_a_write() -> None:
    """Whose planner lost the lock may have the time of a write; the simulation found it."""
    world = World()
    writer = world.writer("w")
    opened = world.begin(writer)
    lifecycle.commit(writer, opened, metadata(write_data(writer, opened, GROUPS)))
    plan = instants.Instant(
        requested_time=opened.requested_time, action=Action.COMPACTION, state=State.REQUESTED
    )
    content = timeline_avro.encode_compaction_plan(plans.CompactionPlan(operations=()))
    world.storage.create(transitions.path(plan), content)
    world.storage.create(transitions.path(plan.pending_in(State.INFLIGHT)), b"")
    base = f"p/{file_names.base_file_name(GROUPS[0].file_id, '0-7-0', opened.requested_time)}"
    markers.mark(world.storage, opened.requested_time, base)
    world.storage.create(base, b"merged")
    before = set(data_files(world.storage))
    orphan_files.sweep(world.writer("sweeper"))
    assert set(data_files(world.storage)) == before


def test_replaced_attempt_takes_nothing_back() -> None:
    """Fencing, as for every change of the timeline."""
    world = World()
    opened = fail(world)
    current = world.client(world.process("new"), authors.Author(action_id="a", attempt=2))
    from_old = world.client(world.process("old"), authors.Author(action_id="a", attempt=1))
    record = fencing.AttemptRecord(
        attempt=2, write_id="w", requested_time=opened.requested_time, process=current.process
    )
    fencing.write(world.storage, current.author, None, record)
    with pytest.raises(errors.FencedError):
        failed_writes.roll_back(from_old, world.config, opened.requested_time)
    failed_writes.roll_back(current, world.config, opened.requested_time)


def test_pending_restore_forbids_rollbacks() -> None:
    world = World()
    opened = fail(world)
    time = world.writer("clock").times.generate(world.timeline)
    transitions.request(world.storage, time, Action.RESTORE, b"plan", lambda: False)
    assert "restored" in str(refused(world, opened))


def test_rollback_that_a_restore_has_left_pending_is_resumed() -> None:
    """A restore forbids what began before it to complete; this execution began after it."""
    world = World()
    opened = fail(world)
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    process = world.process("dying")
    execution.request(world.client(process), world.config, plan)
    process.crash()
    restored(world)
    done = failed_writes.roll_back(world.writer("janitor"), world.config, opened.requested_time)
    assert done.target == opened.requested_time


def test_rollback_is_refused_where_the_table_was_restored_meanwhile() -> None:
    world = World()
    opened = fail(world)
    janitor = world.writer("janitor")
    plan = plans.RollbackPlan(target=opened.requested_time, action=opened.action)
    rollback = execution.request(janitor, world.config, plan)
    restored(world)
    with pytest.raises(errors.ConflictError, match="restored"):
        execution.execute(janitor, rollback)


def test_nothing_pending_costs_no_request() -> None:
    world = World()
    world.write(world.writer("a"), "b0")
    janitor = world.writer("janitor")
    storage = janitor.storage
    assert isinstance(storage, faulty_storage.FaultyStorage)
    timeline = world.timeline
    before = len(storage.calls)
    failed_writes.roll_back_all(janitor, world.config, timeline)
    assert len(storage.calls) == before


def test_hostile_plan_deletes_nothing_of_others() -> None:
    time = InstantTime("20260528202640000")
    plan = plans.RollbackPlan(
        target=time,
        action=instants.Action.COMMIT,
        requests=(
            plans.RollbackRequest(partition_path="p/q", file_names=(f"f_0-1-0_{time}.parquet",)),
        ),
    )
    content = rollback_avro.encode_plan(plan, "file:///data/100%25")
    assert rollback_avro.decode_plan(content) == plan
    assert b"/data/100%/p/q/f_0" in content
    for old, new in ((b"f_0-1-0_2026", b"f_0-1-0_2025"), (b"/p/q/f_0", b"/../q/f_")):
        damaged = content.replace(old, new.ljust(len(old), b"0"))
        with pytest.raises(errors.FormatError):
            rollback_avro.decode_plan(damaged)


def fail_after_metadata(world: World) -> OpenAction:
    """Return a write whose process died between its delta commit and its completed file."""
    process = world.process("victim")
    writer = world.client(process)
    opened = world.begin(writer)
    stats = write_data(writer, opened, GROUPS)
    with writer.lock.scope() as scope:
        changes = metadata_records.Changes(written=stats)
        metadata_commits.put(writer, scope, opened, changes, lambda: None)
    process.crash()
    return opened


def beside(world: World) -> active.ActiveTimeline:
    return active.listed(metadata_timelines.opened(world.storage))


@pytest.mark.parametrize("fails", [fail, fail_after_metadata], ids=["absent", "present"])
def test_delta_commit_of_the_metadata_table_goes_with_its_write(
    fails: Callable[[World], OpenAction],
) -> None:
    """T-R09: whether there is one or not."""
    world = World(has_metadata=True)
    world.write(world.writer("other"), "b0")
    opened = fails(world)
    assert (beside(world).find(opened.requested_time) is None) == (fails is fail)
    world.time.advance(EXPIRY_MS)
    roll_back(world, opened)
    assert beside(world).find(opened.requested_time) is None
    world.check()
    world.check_metadata()


def test_write_that_a_compaction_of_the_metadata_table_has_is_not_taken_back() -> None:
    """T-R09: of Apache Hudi's, which does not wait; a rebuilt metadata table goes on."""
    world = World(has_metadata=True)
    opened = fail_after_metadata(world)
    storage = metadata_timelines.opened(world.storage)
    (log,) = (
        each.name
        for each in metadata_table.log_files(storage, metadata_table.FILES)
        if each.instant_time == opened.requested_time
    )
    group = files.FileGroupId(metadata_table.FILES, "files-0000-0")
    operation = plans.CompactionOperation(
        group=group, base_instant_time="", base_file_name=None, log_file_names=(log,)
    )
    plan = timeline_avro.encode_compaction_plan(plans.CompactionPlan(operations=(operation,)))
    newest = str(beside(world).greatest_time)
    time, completion = (instants.format_time(instants.parse_time(newest) + n) for n in (1, 2))
    requested = transitions.request(storage, time, Action.COMPACTION, plan, lambda: False)
    inflight = transitions.start(storage, requested, b"", lambda: True)
    done = commits.CommitMetadata(operation="compact", stats=(), is_compacted=True)
    content = timeline_avro.encode_commit(done)
    transitions.complete_at(storage, inflight, completion, content, lambda: None)
    world.time.advance(EXPIRY_MS)
    with pytest.raises(errors.ConflictError, match=r"compaction .* has it; rebuild the metadata"):
        roll_back(world, opened)
    world.remake_metadata(world.writer("admin"))
    world.time.advance(EXPIRY_MS)
    failed_writes.roll_back_all(world.writer("next"), world.config, world.timeline)
    assert world.timeline.find(opened.requested_time) is None
    world.check_metadata()
