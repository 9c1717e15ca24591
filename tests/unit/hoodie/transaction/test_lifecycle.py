"""The life of a write (W2 to W17, C1 to C3, protocol.md: A write), on the real timeline bytes."""

import dataclasses
from collections.abc import Callable

import pytest

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits
from hoodie.model.instants import Action, Instant, State
from hoodie.model.settings import ConcurrencyMode
from hoodie.timeline import active, contents, table_properties, transitions
from hoodie.transaction import authors, layout, lifecycle, markers, table_lock
from hoodie.transaction.client import AlreadyWritten, Client, Completion, OpenAction
from support.simulation import faulty_storage, invariants, schedule, schedule_rollback
from support.simulation.schedule_world import (
    GROUPS,
    SETTINGS,
    World,
    data_files,
    heartbeat_paths,
    metadata,
    write_data,
)

EXPIRY_MS = SETTINGS.heartbeat_expiry_ms
SINGLE = dataclasses.replace(SETTINGS, concurrency=ConcurrencyMode.SINGLE_WRITER)


def ready(
    world: World, writer: Client, batch_id: str | None = None
) -> tuple[OpenAction, commits.CommitMetadata]:
    """Return a write whose data is written."""
    opened = world.begin(writer, batch_id)
    return opened, metadata(write_data(writer, opened, GROUPS))


def publish(world: World, writer: Client) -> Completion:
    opened, written = ready(world, writer)
    return lifecycle.commit(writer, opened, written)


def refused(
    world: World, writer: Client, opened: OpenAction, written: commits.CommitMetadata
) -> errors.HoodieError:
    """Return why a write is not completed, after a look that nothing was published."""
    before = world.timeline.completed_writes
    with pytest.raises(errors.HoodieError) as caught:
        lifecycle.commit(writer, opened, written)
    assert world.timeline.completed_writes == before
    assert world.lock.holder is None
    return caught.value


def names(world: World, directory: str) -> list[str]:
    return [info.name for info in world.storage.list(directory)]


def request_rollback(world: World, target: OpenAction, state: State = State.REQUESTED) -> None:
    """Plan a rollback, and start it if that is asked for."""
    service = world.writer("janitor")
    requested_time = service.times.generate(world.timeline)
    plan = schedule_rollback.encode_plan(target.inflight)
    requested = transitions.request(
        world.storage, requested_time, Action.ROLLBACK, plan, lambda: False
    )
    if state is State.INFLIGHT:
        transitions.start(world.storage, requested, b"", lambda: True)


def test_write_is_visible_when_it_is_complete_and_not_before() -> None:
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    assert world.timeline.pending == (opened.inflight,)
    assert not world.timeline.is_committed(opened.requested_time)
    completion = lifecycle.commit(writer, opened, written)
    assert world.timeline.completed_writes == (completion.instant,)
    assert completion.findings == ()
    assert completion.instant.completion_time is not None
    assert completion.instant.completion_time > opened.requested_time
    assert heartbeat_paths(world.storage) == []
    assert world.storage.list(layout.MARKERS, is_recursive=True) == []
    assert world.lock.holder is None


def test_heartbeat_is_there_before_the_instant_and_marker_before_the_data() -> None:
    """W3, W4, W8."""
    recorder = faulty_storage.NoFaults()
    world = World(faults=recorder)
    publish(world, world.writer("a"))
    kinds = [
        next(
            part
            for part in (".heartbeat", ".requested", ".inflight", ".marker", "p/", "_", "delete")
            if part in call
        )
        for call in recorder.mutations
        if "attempts" not in call and not call.startswith("delete")
    ]
    assert kinds[:4] == [".heartbeat", ".requested", ".inflight", ".marker"]
    assert kinds[4:6] == ["p/", "p/"]


def test_requests_of_a_write_are_constant_in_history_and_table() -> None:
    """Two listings of the timeline and one of the write's markers, whatever there was before."""
    world = World()
    counts = []
    for number in range(12):
        writer = world.writer(f"w{number}")
        publish(world, writer)
        storage = writer.storage
        assert isinstance(storage, faulty_storage.FaultyStorage)
        counts.append(len(storage.calls))
        assert [call for call in storage.calls if call.startswith("list")] == [
            f"list {active.DIRECTORY}",
            f"list {active.DIRECTORY}",
            f"list {layout.MARKERS}/{world.timeline.completed_writes[-1].requested_time}",
        ]
    assert counts[2:] == counts[2:3] * 10
    assert counts[2] <= 30


def test_lock_waits_and_holds_are_measured() -> None:
    world = World(write_settings=dataclasses.replace(SETTINGS, clock_wait_ms=50))
    completion = publish(world, world.writer("a"))
    assert completion.lock_times == table_lock.LockTimes(wait_ms=0, hold_ms=100)


def test_files_of_failed_tasks_do_not_become_visible() -> None:
    """W13."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    failed = f"p/.{GROUPS[0].file_id}_{opened.requested_time}.log.1_0-0-9"
    markers.mark(writer.storage, opened.requested_time, failed)
    world.storage.create(failed, b"half a file")
    lifecycle.commit(writer, opened, written)
    assert failed.removeprefix("p/") not in data_files(world.storage)
    world.check()


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_write_that_a_rollback_takes_back_is_not_published(state: State) -> None:
    """T-H03, C1: in any state of the rollback, whatever the heartbeat says."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    request_rollback(world, opened, state)
    error = refused(world, writer, opened, written)
    assert isinstance(error, errors.ConflictError)
    assert "rolled back by rollback" in str(error)


def test_rollback_of_another_write_does_not_matter() -> None:
    world = World()
    dead, alive = world.writer("dead"), world.writer("alive")
    other, _ = ready(world, dead)
    opened, written = ready(world, alive)
    request_rollback(world, other)
    lifecycle.commit(alive, opened, written)


def test_rollback_whose_plan_is_unreadable_may_be_of_anything() -> None:
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    world.time.advance(1)
    rollback = Instant(
        requested_time=writer.times.generate(world.timeline),
        action=Action.ROLLBACK,
        state=State.REQUESTED,
    )
    world.storage.create(transitions.path(rollback), b"Obj\x01")
    assert "rollback" in str(refused(world, writer, opened, written))


def test_rollback_goes_on_where_its_target_was_aborted_meanwhile() -> None:
    """R-B: both delete the same files."""
    world = World()
    writer = world.writer("a")
    opened, _ = ready(world, writer)
    request_rollback(world, opened, State.INFLIGHT)
    assert lifecycle.abort(writer, opened, has_tasks_left=False) is True
    assert data_files(world.storage) == []
    assert schedule_rollback.roll_back_dead(world, world.writer("janitor")) == 1
    assert not world.timeline.pending
    world.check()


def test_nothing_relies_on_a_write_that_completed_although_it_is_taken_back() -> None:
    """Its batch would be lost, and a plan would name files that the rollback deletes."""
    world = World()
    writer = world.writer("w")
    opened, written = ready(world, writer, "b1")
    lifecycle.commit(writer, opened, written)
    request_rollback(world, opened)
    with pytest.raises(errors.ConflictError, match="although rollback"):
        world.write(writer, "b1")
    with pytest.raises(errors.ConflictError, match="although rollback"):
        world.schedule_compaction(world.writer("compactor"))
    world.time.advance(EXPIRY_MS)
    schedule_rollback.roll_back_dead(world, world.writer("janitor"))
    assert isinstance(world.write(writer, "b1"), AlreadyWritten)
    assert world.schedule_compaction(world.writer("compactor")) is not None


@pytest.mark.parametrize("stands", [True, False])
def test_commits_beside_a_rollback_leave_open_whether_its_target_stands(*, stands: bool) -> None:
    """WR1: their ledgers neither keep its batch nor forget it. The simulation found it."""
    world = World()
    writer, other = world.writer("w"), world.writer("other")
    world.write(other, "o1")
    opened, written = ready(world, writer, "b1")
    completed = lifecycle.commit(writer, opened, written).instant
    request_rollback(world, opened)
    world.write(other, "o2")
    with pytest.raises(errors.ConflictError, match="although rollback"):
        world.write(writer, "b1")
    begun, others = ready(world, other, "o3")
    rollback = world.timeline.pending_of(Action.ROLLBACK)[0]
    if stands:
        transitions.withdraw(world.storage, rollback)
    else:
        for each in world.timeline.files:
            if each.requested_time == completed.requested_time:
                world.storage.delete(transitions.path(each))
    lifecycle.commit(other, begun, others)
    successor = world.client(world.process("w.2"), authors.Author(writer_id="w", attempt=2))
    found = lifecycle.begin(successor, Action.DELTA_COMMIT, world.config, "b1")
    assert isinstance(found, AlreadyWritten) == stands
    for batch_id in ("o1", "o2", "o3"):
        assert isinstance(world.write(other, batch_id), AlreadyWritten)


def test_paused_writer_that_was_rolled_back_stays_rolled_back() -> None:
    """T-H02, T-H04: its timer runs first when it goes on."""
    world = World()
    process = world.process("zombie", host="another")
    zombie = world.client(process)
    opened, written = ready(world, zombie)
    process.pause(2 * EXPIRY_MS)
    world.time.advance(EXPIRY_MS)
    assert schedule_rollback.roll_back_dead(world, world.writer("janitor")) == 1
    world.time.advance(5 * EXPIRY_MS)
    assert isinstance(
        refused(world, zombie, opened, written), errors.ConflictError | errors.FencedError
    )
    assert data_files(world.storage) == []
    assert lifecycle.abort(zombie, opened, has_tasks_left=False) is False
    assert not world.timeline.pending
    world.check()


def test_what_a_writer_wrote_after_it_was_rolled_back_is_swept_by_itself() -> None:
    """Apache Hudi reads it, where the write is older than the first of the timeline."""
    world = World()
    process = world.process("zombie", host="another")
    zombie = world.client(process)
    opened = world.begin(zombie)
    process.pause(2 * EXPIRY_MS)
    world.time.advance(EXPIRY_MS)
    assert schedule_rollback.roll_back_dead(world, world.writer("janitor")) == 1
    world.time.advance(5 * EXPIRY_MS)
    written = metadata(write_data(zombie, opened, GROUPS))
    assert data_files(world.storage) != []
    refused(world, zombie, opened, written)
    assert lifecycle.abort(zombie, opened, has_tasks_left=False) is False
    assert data_files(world.storage) == []
    invariants.check_quiescence(world.storage, world.check())


def test_paused_writer_that_nobody_missed_is_refused_all_the_same() -> None:
    """C2."""
    world = World()
    process = world.process("a")
    writer = world.client(process)
    opened, written = ready(world, writer)
    process.pause(EXPIRY_MS)
    world.time.advance(EXPIRY_MS + 1)
    error = refused(world, writer, opened, written)
    assert isinstance(error, errors.HeartbeatExpiredError)
    assert str(opened.requested_time) in str(error)


def test_writer_whose_heartbeat_file_was_deleted_is_refused() -> None:
    """T-H08."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    world.storage.delete(f"{layout.HEARTBEATS}/{opened.requested_time}")
    assert isinstance(refused(world, writer, opened, written), errors.HeartbeatExpiredError)


def test_lock_wait_longer_than_the_expiry_does_no_harm() -> None:
    """T-H05: the heart beats while the writer waits."""
    world = World(write_settings=dataclasses.replace(SETTINGS, lock_wait_ms=4 * EXPIRY_MS))
    writer = world.writer("a")
    opened, written = ready(world, writer)
    holder = schedule.SessionLockProvider(world.lock, world.process("holder"))
    holder.acquire(0)

    def waiting() -> None:
        lifecycle.commit(writer, opened, written)

    def holding() -> None:
        world.time.sleep(holder.process, 3 * EXPIRY_MS)
        holder.release()

    process = world.time.processes[opened.heartbeat.owner.process.pid]
    world.time.spawn("writer", process, waiting)
    world.time.spawn("holder", holder.process, holding)
    world.time.run()
    assert len(world.timeline.completed_writes) == 1


def test_lock_that_is_not_had_publishes_nothing_and_may_be_tried_again() -> None:
    """T-L02: the error names the owner."""
    world = World(write_settings=dataclasses.replace(SETTINGS, lock_wait_ms=100))
    writer = world.writer("a")
    opened, written = ready(world, writer)
    holder = schedule.SessionLockProvider(world.lock, world.process("holder"))
    holder.acquire(0)
    with pytest.raises(errors.LockTimeoutError, match="holder"):
        lifecycle.commit(writer, opened, written)
    holder.release()
    completion = lifecycle.commit(writer, opened, written)
    assert completion.lock_times.wait_ms >= 100


def test_lock_lost_before_publishing_publishes_nothing() -> None:
    """T-L04, L2."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)

    def lose(
        scope: table_lock.LockScope, write: OpenAction, change: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        del scope, write
        world.lock.lose()
        return change

    with pytest.raises(errors.LockLostError):
        lifecycle.commit(writer, opened, written, [lose])
    assert not world.timeline.completed_writes


def test_heartbeat_that_expired_before_publishing_publishes_nothing() -> None:
    """C1, C2: with the lock still held, and all checks passed."""
    world = World()
    process = world.process("a")
    writer = world.client(process)
    opened, written = ready(world, writer)

    def pause(
        scope: table_lock.LockScope, write: OpenAction, change: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        process.pause(EXPIRY_MS)
        world.time.advance(EXPIRY_MS)
        assert scope.is_held()
        assert write == opened
        return change

    with pytest.raises(errors.HeartbeatExpiredError):
        lifecycle.commit(writer, opened, written, [pause])
    assert not world.timeline.completed_writes


def test_files_of_failed_tasks_stay_where_the_lock_was_lost() -> None:
    """P1: they may be another's by now."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    failed = f"p/.{GROUPS[0].file_id}_{opened.requested_time}.log.1_0-0-9"
    markers.mark(writer.storage, opened.requested_time, failed)
    world.storage.create(failed, b"half a file")

    def lose(
        scope: table_lock.LockScope, write: OpenAction, change: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        del scope, write
        world.lock.lose()
        return change

    with pytest.raises(errors.LockLostError):
        lifecycle.commit(writer, opened, written, [lose])
    assert failed.removeprefix("p/") in data_files(world.storage)


def test_lock_lost_while_requesting_begins_nothing() -> None:
    """L1: others may have decided before the instant was there."""
    world = World()
    world.faults = faulty_storage.Interruption("a", f"create {active.DIRECTORY}/", world.lock.lose)
    with pytest.raises(errors.LockLostError):
        world.begin(world.writer("a"))
    assert heartbeat_paths(world.storage) == []
    # Nor does the build of an index wait for it, as for a write of another engine.
    (left,) = active.listed(world.storage).pending
    assert contents.is_of_ours(world.storage, left)


def test_abort_that_loses_the_lock_deletes_nothing() -> None:
    """P1: the files may be another's by now."""
    world = World()
    process = world.process("a")
    opened, _ = ready(world, world.client(process))
    world.faults = faulty_storage.Interruption("a", f"list {layout.MARKERS}/", world.lock.lose)
    assert lifecycle.abort(world.client(process), opened, has_tasks_left=False) is False
    assert len(data_files(world.storage)) == len(GROUPS)


class _AtCreate(faulty_storage.NoFaults):
    """Does something when the completed file of a write is about to be created."""

    def __init__(self) -> None:
        super().__init__()
        self.action: Callable[[], None] = lambda: None

    def at(
        self, process: schedule.Process, call: str, *, is_mutation: bool
    ) -> faulty_storage.Fault:
        if call.startswith("create") and call.endswith(".deltacommit"):
            action, self.action = self.action, lambda: None
            action()
        return super().at(process, call, is_mutation=is_mutation)


def test_lock_lost_while_publishing_is_an_unknown_outcome() -> None:
    """T-L07, L2: others may have decided without it; nothing of it is deleted."""
    faults = _AtCreate()
    world = World(faults=faults)
    writer = world.writer("a")
    opened, written = ready(world, writer)
    faults.action = world.lock.lose
    with pytest.raises(errors.OutcomeUnknownError, match=r"lost while .* was published"):
        lifecycle.commit(writer, opened, written)
    assert lifecycle.abort(writer, opened, has_tasks_left=False) is False
    assert len(world.timeline.completed_writes) == 1
    assert len(data_files(world.storage)) == len(GROUPS)


def test_lock_lost_while_publishing_is_no_matter_where_our_writers_are_alone() -> None:
    """CH6: the epoch has decided."""
    faults = _AtCreate()
    world = World(faults=faults, is_lying=True)
    writer = world.writer("a")
    opened, written = ready(world, writer)
    faults.action = world.lock.lose
    completion = lifecycle.commit(writer, opened, written)
    assert completion.findings == ()
    assert world.timeline.completed_writes == (completion.instant,)


def test_batch_published_late_is_known_after_a_successor_began_too_early() -> None:
    """WR1: the successor looked before the batch was there, and failed. The simulation found it."""
    faults = _AtCreate()
    world = World(faults=faults)
    writer = world.client(world.process("a.1"), authors.Author(writer_id="a", attempt=1))
    opened = world.begin(writer, "b1")
    written = metadata(write_data(writer, opened, GROUPS))
    process = world.process("a.2")
    successor = world.client(process, authors.Author(writer_id="a", attempt=2))

    def replaced() -> None:
        world.lock.lose()
        world.time.advance(5)
        lifecycle.abort(successor, world.begin(successor, "b1"), has_tasks_left=False)
        world.write(world.writer("other"))

    faults.action = replaced
    with pytest.raises(errors.OutcomeUnknownError):
        lifecycle.commit(writer, opened, written)
    assert isinstance(world.write(successor, "b1"), AlreadyWritten)


def test_failure_after_publishing_is_no_failure_of_the_write() -> None:
    """C3: markers, heartbeat and lock could not be cleaned up."""

    class FailingAfter(faulty_storage.NoFaults):
        has_completed = False

        def at(
            self, process: schedule.Process, call: str, *, is_mutation: bool
        ) -> faulty_storage.Fault:
            super().at(process, call, is_mutation=is_mutation)
            if self.has_completed:
                return faulty_storage.Fault.FAIL_BEFORE
            self.has_completed = call.startswith("create") and call.endswith(".deltacommit")
            return faulty_storage.Fault.NONE

    world = World(faults=FailingAfter())
    completion = publish(world, world.writer("a"))
    assert world.timeline.completed_writes == (completion.instant,)
    assert heartbeat_paths(world.storage) != []


def test_metadata_table_that_another_made_meanwhile_refuses_the_write() -> None:
    """Design 4: with nothing published."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    table_properties.update(
        world.storage,
        {"hoodie.table.metadata.partitions": "files"},
        writer.clock,
        lambda: None,
    )
    assert "presence of a metadata table" in str(refused(world, writer, opened, written))
    with pytest.raises(errors.ConflictError, match="presence of a metadata table"):
        world.begin(world.writer("b"))


def test_bucket_count_that_was_changed_meanwhile_refuses_the_write() -> None:
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    table_properties.update(
        world.storage, {"hoodie.bucket.index.num.buckets": "16"}, writer.clock, lambda: None
    )
    assert "bucket count" in str(refused(world, writer, opened, written))


def test_restore_that_is_pending_refuses_writes() -> None:
    """W2, T-V04."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    restore = writer.times.generate(world.timeline)
    transitions.request(world.storage, restore, Action.RESTORE, b"", lambda: True)
    assert "restored" in str(refused(world, writer, opened, written))
    with pytest.raises(errors.ConflictError, match=f"{restore} restore requested"):
        world.begin(world.writer("b"))
    assert len(world.timeline.pending) == 2


def test_second_writer_with_one_id_is_refused_by_name() -> None:
    """T-W03, S113: nothing is written."""
    world = World()
    world.begin(world.writer("a"))
    before = [info.path for info in world.storage.list("", is_recursive=True)]
    second = world.client(world.process("p2"), authors.Author(writer_id="a"))
    with pytest.raises(errors.ConflictError, match="writer a is already writing"):
        world.begin(second)
    after = [info.path for info in world.storage.list("", is_recursive=True)]
    assert set(after) - set(before) <= {layout.PROBE}


def test_second_attempt_fences_the_first_and_is_not_held_up_by_it() -> None:
    world = World()
    first = world.writer("a")
    opened, written = ready(world, first)
    second = world.client(world.process("p2"), authors.Author(writer_id="a", attempt=2))
    publish(world, second)
    assert isinstance(refused(world, first, opened, written), errors.FencedError)
    lifecycle.abort(first, opened, has_tasks_left=False)
    with pytest.raises(errors.FencedError, match="attempt 1 of writer a was replaced by attempt 2"):
        world.begin(first)


def test_killed_writer_on_this_machine_is_followed_at_once() -> None:
    world = World()
    process = world.process("a")
    world.begin(world.client(process))
    process.crash()
    publish(world, world.writer("a"))
    assert len(world.timeline.pending) == 1


def test_single_writer_mode_has_one_writer() -> None:
    world = World(write_settings=SINGLE)
    first = world.writer("first")
    opened, written = ready(world, first)
    with pytest.raises(errors.ConflictError, match=r"writer first.*SINGLE_WRITER"):
        world.begin(world.writer("second"))
    lifecycle.commit(first, opened, written)
    publish(world, world.writer("second"))


def test_guard_from_outside_refuses_to_begin_and_to_publish() -> None:
    """The operator's fence (protocol.md: Attempts)."""
    world = World()
    is_fenced = False

    def guard() -> None:
        if is_fenced:
            raise errors.FencedError("attempt 2 is current")

    writer = world.client(world.process("a"), guards=(guard,))
    opened, written = ready(world, writer)
    is_fenced = True
    assert isinstance(refused(world, writer, opened, written), errors.FencedError)
    with pytest.raises(errors.FencedError):
        world.begin(world.client(world.process("b"), guards=(guard,)))


def test_aborted_write_leaves_no_data_and_its_time_stays_taken() -> None:
    """The instant is left for a rollback, so that no other gets its time."""
    world = World()
    writer = world.writer("a")
    opened, _ = ready(world, writer)
    assert lifecycle.abort(writer, opened, has_tasks_left=False) is True
    assert data_files(world.storage) == []
    assert world.timeline.pending == (opened.inflight,)
    assert heartbeat_paths(world.storage) == []
    lagging = world.client(world.process("lagging", offset_ms=-100))
    assert world.begin(lagging).requested_time > opened.requested_time


def test_aborted_write_with_tasks_left_is_left_as_it_is() -> None:
    world = World()
    writer = world.writer("a")
    opened, _ = ready(world, writer)
    assert lifecycle.abort(writer, opened, has_tasks_left=True) is False
    assert len(data_files(world.storage)) == len(GROUPS)
    assert heartbeat_paths(world.storage) != []
    publish(world, writer)  # The same author goes on at once.
    world.time.advance(EXPIRY_MS)
    assert schedule_rollback.roll_back_dead(world, world.writer("janitor")) == 1
    world.check()


def test_batch_that_was_published_late_is_remembered_beyond_the_next_one() -> None:
    """WR1: no commit's ledger has it, and the next batch takes its place in the attempt record."""
    world = World()
    writer = world.writer("a")
    world.write(writer, "b0")
    opened = lifecycle.begin(writer, Action.DELTA_COMMIT, world.config, "b1")
    assert isinstance(opened, OpenAction)
    lifecycle.start(writer, opened, commits.Operation.UPSERT)
    written = metadata(write_data(writer, opened, GROUPS))

    def publish_elsewhere() -> None:
        world.lock.lose()
        world.time.advance(10)
        world.write(world.writer("other"), "x")

    completed = f"create {active.DIRECTORY}/{opened.requested_time}_"
    world.faults = faulty_storage.Interruption("a", completed, publish_elsewhere)
    writer = world.client(world.process("a"))
    with pytest.raises(errors.OutcomeUnknownError):
        lifecycle.commit(writer, opened, written)
    assert isinstance(lifecycle.begin(writer, Action.DELTA_COMMIT, world.config, "b2"), OpenAction)
    successor = world.client(world.process("b"), authors.Author(writer_id="a", attempt=2))
    for batch_id in ("b0", "b1"):
        begun = lifecycle.begin(successor, Action.DELTA_COMMIT, world.config, batch_id)
        assert not isinstance(begun, OpenAction), batch_id


def test_abort_never_raises_what_the_library_reports() -> None:
    class Broken(faulty_storage.NoFaults):
        is_broken = False

        def at(
            self, process: schedule.Process, call: str, *, is_mutation: bool
        ) -> faulty_storage.Fault:
            del process, call, is_mutation
            fault = faulty_storage.Fault
            return fault.FAIL_BEFORE if self.is_broken else fault.NONE

    faults = Broken()
    world = World(faults=faults)
    writer = world.writer("a")
    opened, _ = ready(world, writer)
    faults.is_broken = True
    assert lifecycle.abort(writer, opened, has_tasks_left=False) is False
    assert lifecycle.abort(writer, opened, has_tasks_left=True) is False


def test_published_write_survives_an_abort() -> None:
    """As when a signal comes between publishing and the caller."""
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)
    content = timeline_avro.encode_commit(written)
    transitions.complete(
        world.storage,
        opened.inflight,
        content,
        timeline=world.timeline,
        times=writer.times,
        check=lambda: None,
    )
    assert lifecycle.abort(writer, opened, has_tasks_left=False) is False
    assert len(data_files(world.storage)) == len(GROUPS)
    assert len(world.timeline.completed_writes) == 1


def test_amendment_sees_the_scope_and_changes_the_metadata() -> None:
    """W12: where conflict checks and the metadata table will be."""
    world = World()
    writer, other = world.writer("a"), world.writer("b")
    opened, written = ready(world, writer)
    publish(world, other)
    seen = []

    def step(
        scope: table_lock.LockScope, write: OpenAction, change: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        seen.append((scope.is_held(), len(scope.timeline.completed_writes), write == opened))
        return dataclasses.replace(change, extra={**change.extra, "checkpoint": "9"})

    completion = lifecycle.commit(
        writer, opened, written, adjustment=lifecycle.Adjustment(metadata=step)
    )
    assert seen == [(True, 1, True)]
    stored = timeline_avro.decode_commit(world.storage.read(transitions.path(completion.instant)))
    assert stored.extra["checkpoint"] == "9"


def test_step_that_finds_a_conflict_publishes_nothing() -> None:
    world = World()
    writer = world.writer("a")
    opened, written = ready(world, writer)

    def conflict(*arguments: object) -> commits.CommitMetadata:
        raise errors.ConflictError(f"overlap: {len(arguments)}")

    with pytest.raises(errors.ConflictError, match="overlap"):
        lifecycle.commit(writer, opened, written, [conflict])
    assert not world.timeline.completed_writes


def test_writer_ahead_is_named_by_those_that_follow_it() -> None:
    """T-L23: `future_time` advance."""
    advance = dataclasses.replace(
        SETTINGS, future_time=type(SETTINGS.future_time).ADVANCE, clock_wait_ms=0
    )
    world = World(write_settings=advance)
    publish(world, world.client(world.process("fast", offset_ms=3_600_000)))
    completion = publish(world, world.writer("normal"))
    assert "of fast is ahead of this machine's clock" in completion.findings[0]
    world.check()
    failing = world.client(world.process("strict"), write_settings=SETTINGS)
    with pytest.raises(errors.ClockSkewError):
        world.begin(failing)


def test_heartbeat_settings_are_checked_before_anything_is_written() -> None:
    """H3."""
    world = World()
    tight = dataclasses.replace(SETTINGS, heartbeat_misses_max=1)
    with pytest.raises(errors.ConfigurationError, match="heartbeats expire after 1000 ms"):
        world.client(world.process("a"), write_settings=tight)


def test_write_ids_make_different_file_names() -> None:
    world = World()
    one, two = (world.begin(world.writer(name)) for name in ("a", "b"))
    assert one.stage != two.stage
    assert 0 <= one.stage < 2**31
