"""Actions on a table with a chain: what a lock would have excluded is decided by the next epoch."""

import pytest

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import commits, instants, table_config
from hoodie.timeline import active, chain, epochs, table_properties
from hoodie.transaction import authors, lifecycle
from hoodie.transaction.client import Completion, OpenAction
from hoodie.write import conflicts
from support.simulation import faulty_storage, schedule, schedule_rollback
from support.simulation.faulty_storage import Fault, Interruption, NoFaults
from support.simulation.schedule_world import GROUPS, SETTINGS, World, metadata

EPOCH = "create .hoodie/.aux/epoch/"
EXPIRY_MS = SETTINGS.heartbeat_expiry_ms


class Unanswered:
    """The epochs of one process are created long after it has given up."""

    def __init__(self, process_name: str) -> None:
        self._process_name = process_name

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        is_late = is_mutation and process.name == self._process_name and call.startswith(EPOCH)
        return Fault.LATE if is_late else Fault.NONE


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


def test_first_write_that_comes_late_takes_another_time(world: World) -> None:
    """E5: its data files would count as those of an archived write. The simulation found that."""
    late, other = world.writer("late"), world.writer("other")
    claim = f"create {active.DIRECTORY}/"

    def write_first() -> None:
        world.time.advance(100)
        world.write(other, "theirs")

    world.faults = Interruption("late", claim, write_first)
    late = world.client(world.process_of(late), authors.Author(writer_id="late"))
    opened = world.begin(late)
    (first,) = world.timeline.completed_writes
    assert opened.requested_time > first.requested_time
    assert [each.requested_time for each in world.timeline.pending] == [opened.requested_time]


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


class TestOtherEngines:
    """They know nothing of the chain: the lock keeps them apart, and what it let pass is found."""

    @pytest.fixture
    def world(self) -> World:
        return World(has_chain=True)

    def epochs_of(self, world: World) -> list[epochs.Epoch]:
        found = chain.opened(world.storage, world.config)
        assert found is not None
        return [each.epoch for each in found.all()]

    def die_before_publishing(self, world: World) -> OpenAction:
        """Let a writer die whose epoch is created, and its lock be given away."""
        process = world.process("victim")

        def die() -> None:
            process.crash()
            raise schedule.Crash

        opened = world.begin(world.client(process))
        stats = world.write_files(world.client(process), opened, GROUPS)
        world.faults = Interruption("victim", "create .hoodie/timeline/2", die)
        with pytest.raises(schedule.Crash):
            lifecycle.commit(world.client(process), opened, metadata(stats))
        world.faults = NoFaults()
        world.time.advance(world.lock.session_ms + 1)
        return opened

    def test_their_instants_are_recorded(self, world: World) -> None:
        world.write(world.writer("a"))
        theirs = world.write(world.writer("engine"))
        ours = world.write(world.writer("b"))
        assert isinstance(theirs, Completion)
        assert isinstance(ours, Completion)
        *_, newest = self.epochs_of(world)
        assert newest.foreign == (instant_names.file_name(theirs.instant),)
        assert newest.foreign[0] in newest.known
        assert not ours.findings
        world.check()

    def test_instant_that_slipped_in_is_reported_by_the_next_commit(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """CH13: both had the lock, as they were told."""
        world.lock.is_lying = True
        monkeypatch.setattr(schedule.SessionLockProvider, "is_held", lambda provider: True)
        engine = world.client(world.process("engine", offset_ms=-100))
        theirs: list[object] = []
        world.faults = Interruption("ours", EPOCH, lambda: theirs.append(world.write(engine)))
        ours = world.client(world.process("ours"))
        opened = world.begin(ours)
        stats = world.write_files(ours, opened, GROUPS)
        world.time.advance(500)
        lifecycle.commit(ours, opened, metadata(stats))
        (completion,) = theirs
        assert isinstance(completion, Completion)
        following = world.write(world.writer("next"))
        assert isinstance(following, Completion)
        (finding,) = following.findings
        assert f"{completion.instant}" in finding
        assert "by another engine at the same time as epoch 1" in finding
        assert "by writer ours" in finding

    def test_epoch_of_the_dead_is_not_published_after_a_change_of_theirs(
        self, world: World
    ) -> None:
        """CH1: they did not know of it, so that it may be in conflict with what they did."""
        opened = self.die_before_publishing(world)
        world.write(world.writer("engine"))
        following = world.write(world.writer("next"))
        assert isinstance(following, Completion)
        *_, epoch, newest = self.epochs_of(world)
        assert newest.annulled == tuple(each.path for each in epoch.publications)
        (finding,) = following.findings
        assert "of epoch 1, by writer victim, was not published" in finding
        completed = [each.requested_time for each in world.timeline.completed_writes]
        assert opened.requested_time not in completed
        world.check()

    def test_epoch_of_the_dead_is_not_published_on_a_table_that_they_gave_a_metadata_table(
        self, world: World
    ) -> None:
        """No instant shows it; from then on our writes would be missing in their index (F2)."""
        opened = self.die_before_publishing(world)
        engine = world.writer("engine")
        with engine.lock.scope() as scope:
            table_properties.update(
                engine.storage,
                {table_config.METADATA_PARTITIONS_KEY: "files"},
                engine.clock,
                scope.check,
            )
        with pytest.raises(errors.HoodieError):
            world.write(world.writer("next"))
        assert world.timeline.completion_time(opened.requested_time) is None

    def test_epoch_of_a_dead_execution_cannot_come_after_its_files_were_deleted(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """E6: both requests for it are carried out minutes later. The simulation found that."""
        late_ms = 2 * EXPIRY_MS
        monkeypatch.setattr(faulty_storage.FaultyStorage, "_late_ms", lambda *_: late_ms)
        world.write(world.writer("a"))
        planned = world.schedule_compaction(world.writer("planner"))
        assert planned is not None
        victim = world.process("victim")
        world.faults = Unanswered("victim")
        with pytest.raises(errors.ConflictError, match="unknown whether epoch"):
            world.compact(world.client(victim), planned.requested_time)
        victim.crash()
        world.faults = NoFaults()
        world.time.advance(EXPIRY_MS)
        heir = world.writer("heir")
        action = instants.Action.COMPACTION
        opened = lifecycle.take_over(heir, action, planned.requested_time, world.config)
        assert opened is not None
        lifecycle.start(heir, opened)
        world.time.advance(late_ms)
        world.write(world.writer("b"))
        assert world.timeline.completion_time(planned.requested_time) is None
        world.check()

    def test_epoch_of_the_dead_is_published_where_they_did_nothing(self, world: World) -> None:
        opened = self.die_before_publishing(world)
        world.write(world.writer("next"))
        first, _ = world.timeline.completed_writes
        assert first.requested_time == opened.requested_time
        world.check()
