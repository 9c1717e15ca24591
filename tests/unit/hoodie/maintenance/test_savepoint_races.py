"""Savepoints whose creators, deleters and finishers die, pause or meet each other.

What holds, in a table without foreign writers whose lock excludes nobody (`World(is_lying=True)`),
and where lock and chain work in the others:

1. A commit has one savepoint at most. Who creates one gets the one that is there, with its comment.
2. A savepoint that was created stays until it is deleted; one that was deleted stays deleted, until
   it is created again, whatever a process that was paused publishes late.
3. No savepoint names a file that a pending clean deletes.
4. Readers and writers go on meanwhile, and a commit is none the worse for its savepoint.
5. A creation or deletion that died is finished, or undone, by the next.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.maintenance import savepoints
from hoodie.model import instants, results
from hoodie.timeline import active, chain, contents, epochs, transitions, true_time
from hoodie.transaction import authors, publication, table_lock
from hoodie.transaction.client import Client, Completion
from support.simulation import schedule
from support.simulation.faulty_storage import Fault, FaultAt, Interruption, NoFaults
from support.simulation.schedule_world import SETTINGS, World
from support.tables.cleans import clean_plan

WORLDS: dict[str, Callable[[], World]] = {
    "alone": lambda: World(is_lying=True),
    "chain": lambda: World(has_chain=True),
    "lock": World,
}
CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LATE_CRASH)
FAILURES = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LOST_ANSWER, Fault.LATE)
EPOCH = "create .hoodie/.aux/epoch/"
MANY = 9
"""Changes after which a number is free again."""

Work = Callable[[World, Client], object]


class AtCall:
    """Something happens, once, right before the n-th call of one process, reads included."""

    def __init__(self, process_name: str, number: int, happening: Callable[[], object]) -> None:
        self._process_name = process_name
        self._left = number
        self._happening = happening
        self.count = 0

    def at(self, process: schedule.Process, call: str, *, is_mutation: bool) -> Fault:
        del call, is_mutation
        if process.name == self._process_name:
            self.count += 1
            self._left -= 1
            if self._left == -1:
                self._happening()
        return Fault.NONE


def begun(make: Callable[[], World]) -> World:
    """Return a world with one commit."""
    world = make()
    done = world.write(world.writer("other"), "b0")
    assert isinstance(done, Completion)
    world.time.advance(1_000)
    return world


def commit_of(world: World) -> instants.InstantTime:
    return world.timeline.completed_writes[0].requested_time


def create(world: World, client: Client, comment: str = "c") -> results.SavepointResult:
    wanted = savepoints.Wanted(commit=commit_of(world), comment=comment)
    return savepoints.create(client, world.config, wanted)


def delete(world: World, client: Client) -> tuple[instants.Instant, ...]:
    doomed = savepoints.Doomed(commits=frozenset((commit_of(world),)))
    return savepoints.delete(client, world.config, doomed)


def plan_clean(world: World, client: Client) -> bool:
    """Plan to delete all files of the commit, unless one is protected; return whether it was."""

    def decide(scope: table_lock.LockScope) -> bool:
        paths = [each.path for each in world.storage.list("p") if ".log." in each.path]
        try:
            protected = savepoints.protected_paths(client.storage, scope.timeline)
        except errors.NotFoundError as error:
            raise errors.OvertakenError("a savepoint was deleted") from error
        if not protected.isdisjoint(paths) or scope.timeline.pending_of(instants.Action.CLEAN):
            return False
        requested = instants.Instant(
            requested_time=client.time_after(scope, true_time.Parity.EPOCH),
            action=instants.Action.CLEAN,
            state=instants.State.REQUESTED,
        )
        if scope.view is None:
            transitions.request(
                client.storage,
                requested.requested_time,
                instants.Action.CLEAN,
                clean_plan(*paths),
                lambda: False,
            )
        else:
            publication.put(client, scope, requested, clean_plan(*paths), scope.check)
        return True

    return client.lock.decide(decide)


def write(world: World, client: Client) -> object:
    return world.write(client)


def seen(world: World) -> tuple[instants.Instant, ...]:
    """Return the savepoints that readers see."""
    return chain.load(world.storage, world.config).savepoints


def check(world: World) -> tuple[instants.Instant, ...]:
    """Check that what is there fits together; return the savepoints."""
    timeline = chain.load(world.storage, world.config)
    times = [each.requested_time for each in timeline.savepoints]
    assert len(set(times)) == len(times), times
    protected = savepoints.protected_paths(world.storage, timeline)
    assert all(world.storage.stat(path) for path in protected)
    planned = {
        path
        for each in timeline.pending_of(instants.Action.CLEAN)
        for path in protected
        if path.rpartition("/")[2].encode() in world.storage.read(transitions.path(each))
    }
    assert not planned, planned
    read = world.read(world.writer(f"reader{world.time.now_ms}"))
    assert all(found for found in read.seen.values())
    return timeline.savepoints


def check_at_rest(world: World) -> tuple[instants.Instant, ...]:
    """Check a world in which all have ended, after one more change has finished what was left."""
    world.faults = NoFaults()
    world.time.advance(world.lock.session_ms + SETTINGS.heartbeat_expiry_ms)
    if not chain.load(world.storage, world.config).pending_of(instants.Action.CLEAN):
        world.write(world.writer("last"), "last")
    found = check(world)
    listed = active.listed(world.storage)
    assert listed.savepoints == found, "readers and the listing agree once a change was made"
    if not listed.pending_of(instants.Action.CLEAN):
        world.check()
    return found


def mutations(make: Callable[[], World], before: Work | None, work: Work) -> int:
    world = begun(make)
    if before is not None:
        before(world, world.writer("before"))
    recorder = NoFaults()
    world.faults = recorder
    work(world, world.writer("victim"))
    return len(recorder.mutations)


def calls(make: Callable[[], World], before: Work | None, work: Work) -> int:
    world = begun(make)
    if before is not None:
        before(world, world.writer("before"))
    counter = AtCall("victim", -1, lambda: None)
    world.faults = counter
    work(world, world.writer("victim"))
    return counter.count


def again(work: Work, world: World, client: Client) -> object:
    """Do a work until it is not refused for what passes."""
    for _ in range(10):
        try:
            return work(world, client)
        except (errors.StorageError, errors.OutcomeUnknownError, errors.ConflictError):
            world.time.advance(20_000)
    return work(world, client)


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("fault", CRASHES)
def test_creation_killed_at_any_call_is_done_again(fault: Fault, make: Callable[[], World]) -> None:
    for number in range(mutations(make, None, create)):
        world = begun(make)
        world.faults = FaultAt("victim", number, fault)
        with pytest.raises(schedule.Crash):
            create(world, world.writer("victim"))
        world.faults = NoFaults()
        check(world)
        world.time.advance(world.lock.session_ms + 100_000)
        made = again(create, world, world.writer("successor"))
        assert isinstance(made, results.SavepointResult)
        (found,) = check_at_rest(world)
        assert found == made.instant, number
        assert not world.timeline.pending_of(instants.Action.SAVEPOINT)


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("fault", CRASHES)
@pytest.mark.parametrize("following", [create, delete, write])
def test_deletion_killed_at_any_call_is_done_or_not(
    following: Work, fault: Fault, make: Callable[[], World]
) -> None:
    for number in range(mutations(make, create, delete)):
        world = begun(make)
        create(world, world.writer("creator"))
        world.faults = FaultAt("victim", number, fault)
        with pytest.raises(schedule.Crash):
            delete(world, world.writer("victim"))
        world.faults = NoFaults()
        world.time.advance(world.lock.session_ms + 100_000)
        try:
            following(world, world.writer("successor"))
        except errors.NotFoundError:
            assert following is delete
        found = check_at_rest(world)
        assert len(found) == 1 or following is not create, number
        assert not found or following is not delete, number
        if following is not write:
            assert not world.timeline.pending_of(instants.Action.SAVEPOINT), number


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("fault", FAILURES)
def test_creation_whose_storage_fails_once_succeeds_on_retry(
    fault: Fault, make: Callable[[], World]
) -> None:
    for number in range(mutations(make, None, create)):
        world = begun(make)
        world.faults = FaultAt("victim", number, fault)
        made = again(create, world, world.writer("victim"))
        assert isinstance(made, results.SavepointResult)
        assert check_at_rest(world) == (made.instant,), number


@pytest.mark.parametrize("make", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("fault", FAILURES)
def test_deletion_whose_storage_fails_once_succeeds_on_retry(
    fault: Fault, make: Callable[[], World]
) -> None:
    for number in range(mutations(make, create, delete)):
        world = begun(make)
        create(world, world.writer("creator"))
        world.faults = FaultAt("victim", number, fault)
        victim = world.writer("victim")
        try:
            again(delete, world, victim)
        except errors.NotFoundError:
            assert not seen(world)
        assert check_at_rest(world) == (), number


def other_comment(world: World, client: Client) -> object:
    return create(world, client, "another")


PAIRS: dict[str, tuple[Work | None, Work, Work]] = {
    "two creations": (None, create, create),
    "two comments": (None, create, other_comment),
    "creation and clean": (None, create, plan_clean),
    "clean and creation": (None, plan_clean, create),
    "creation and write": (None, create, write),
    "deletion and creation": (create, delete, create),
    "creation and deletion": (create, create, delete),
    "deletion and clean": (create, delete, plan_clean),
    "two deletions": (create, delete, delete),
    "write and creation": (None, write, create),
    "write and deletion": (create, write, delete),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_whatever_happens_between_two_calls_without_a_lock(
    pair: tuple[Work | None, Work, Work],
) -> None:
    before, work, meanwhile = pair
    for number in range(calls(WORLDS["alone"], before, work)):
        world = begun(WORLDS["alone"])
        if before is not None:
            before(world, world.writer("before"))
        answers: list[object] = []

        def happen(world: World = world, answers: list[object] = answers) -> None:
            answers.append(answer_of(meanwhile, world, "meanwhile"))
            check(world)

        world.faults = AtCall("victim", number, happen)
        answers.append(answer_of(work, world, "victim"))
        assert len(answers) == 2, number
        found = check_at_rest(world)
        made = [each for each in answers if isinstance(each, results.SavepointResult)]
        is_deleted = delete in (work, meanwhile)
        if made and not is_deleted:
            assert {each.instant for each in made} == set(found), number
            assert sum(each.is_new for each in made) == 1 or before is not None, number
        if work is delete is meanwhile:
            assert found == (), number
        if plan_clean in (work, meanwhile) and not is_deleted:
            # One of the two won, and the other knows.
            assert (True in answers) is not bool(made), (number, answers)


def answer_of(work: Work, world: World, name: str) -> object:
    try:
        return work(world, world.writer(name))
    except (errors.AlreadyExistsError, errors.ConflictError, errors.NotFoundError) as error:
        return error


class TestBroughtBack:
    """E14: its author was paused right before it published, and others had deleted it by then."""

    @pytest.fixture
    def world(self) -> World:
        return begun(WORLDS["alone"])

    def bring_back(self, world: World, *meanwhile: Work) -> instants.Instant:
        """Let a creation be paused before its file, which others delete, and more; return it."""

        def happen() -> None:
            delete(world, world.writer("deleter"))
            for number, work in enumerate(meanwhile):
                work(world, world.writer(f"w{number}"))

        path = f"create {active.DIRECTORY}/{commit_of(world)}_"
        world.faults = Interruption("zombie", path, happen)
        made = create(world, world.writer("zombie"))
        world.faults = NoFaults()
        assert active.listed(world.storage).has_file(made.instant)
        return made.instant

    def test_readers_do_not_see_it_and_the_next_change_takes_it_off(self, world: World) -> None:
        back = self.bring_back(world)
        assert seen(world) == ()
        world.write(world.writer("next"))
        assert not active.listed(world.storage).has_file(back)
        assert check_at_rest(world) == ()

    def test_it_stays_deleted_for_many_changes(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also once it is older than what an epoch lists."""
        monkeypatch.setattr(epochs, "KNOWN_MAX", 2)
        back = self.bring_back(world, *[write] * MANY)
        head = chain.opened(world.storage, world.config)
        assert head is not None
        assert head.head().epoch.since > str(back.completion_time)
        assert seen(world) == ()
        world.write(world.writer("next"))
        assert not active.listed(world.storage).has_file(back)

    def test_it_is_not_taken_for_the_one_that_is_created_next(self, world: World) -> None:
        """A new inflight file beside it does not make it an instant of another engine."""

        def begin_another(world: World, client: Client) -> None:
            transitions.save(client.storage, commit_of(world))

        back = self.bring_back(world, write, begin_another)
        assert active.listed(world.storage).has_file(back.pending_in(instants.State.INFLIGHT))
        done = world.write(world.writer("next"))
        assert isinstance(done, Completion)
        assert not done.findings
        assert seen(world) == ()
        assert not active.listed(world.storage).has_file(back)
        made = create(world, world.writer("creator"))
        assert made.is_new
        assert check_at_rest(world) == (made.instant,)


def test_deleter_that_was_paused_for_many_changes_deletes_all_the_same() -> None:
    """E7: the number of its epoch is free again by then."""
    world = begun(WORLDS["alone"])
    create(world, world.writer("creator"))

    def go_on() -> None:
        for number in range(MANY):
            world.write(world.writer(f"w{number}"), f"w{number}")

    world.faults = Interruption("deleter", EPOCH, go_on)
    assert len(delete(world, world.writer("deleter"))) == 1
    assert check_at_rest(world) == ()


def test_inflight_file_that_is_deleted_late_takes_no_savepoint_with_it() -> None:
    """A deleter was paused between the two files; meanwhile the commit got another savepoint."""
    world = begun(WORLDS["alone"])
    create(world, world.writer("creator"))
    made: list[results.SavepointResult] = []
    inflight = f"delete {active.DIRECTORY}/{commit_of(world)}.savepoint.inflight"
    world.faults = Interruption(
        "deleter", inflight, lambda: made.append(create(world, world.writer("second")))
    )
    delete(world, world.writer("deleter"))
    world.faults = NoFaults()
    (second,) = made
    assert second.is_new
    assert not world.timeline.pending_of(instants.Action.SAVEPOINT)
    assert seen(world) == (second.instant,)
    assert check_at_rest(world) == (second.instant,)
    assert len(delete(world, world.writer("third"))) == 1
    assert check_at_rest(world) == ()


class TestOtherEngines:
    """The lock keeps them apart from us; what was decided without knowing of them is not done."""

    @pytest.fixture
    def world(self) -> World:
        return begun(WORLDS["chain"])

    def die_after_epoch(self, world: World, work: Work, call: str) -> None:
        process = world.process("victim")

        def die() -> None:
            process.crash()
            raise schedule.Crash

        world.faults = Interruption("victim", call, die)
        with pytest.raises(schedule.Crash):
            work(world, world.client(process))
        world.faults = NoFaults()
        world.time.advance(world.lock.session_ms + 1)

    @pytest.mark.parametrize("is_foreign", [False, True])
    def test_deletion_of_the_dead_is_finished_unless_they_changed_the_table(
        self, is_foreign: bool, world: World
    ) -> None:
        made = create(world, world.writer("creator"))
        call = f"delete {active.DIRECTORY}/{commit_of(world)}_"
        self.die_after_epoch(world, delete, call)
        if is_foreign:
            world.write(world.writer("engine"))
        done = world.write(world.writer("next"))
        assert isinstance(done, Completion)
        if not is_foreign:
            assert seen(world) == ()
            return
        (finding,) = done.findings
        assert "by writer victim, was not deleted: another engine changed the table" in finding
        assert seen(world) == (made.instant,)
        assert len(delete(world, world.writer("again"))) == 1
        assert seen(world) == ()

    def test_creation_of_the_dead_is_not_finished_after_a_change_of_theirs(
        self, world: World
    ) -> None:
        call = f"create {active.DIRECTORY}/{commit_of(world)}_"
        self.die_after_epoch(world, create, call)
        world.write(world.writer("engine"))
        world.write(world.writer("next"))
        assert seen(world) == ()
        made = create(world, world.writer("again"))
        assert check_at_rest(world) == (made.instant,)

    def test_their_savepoint_in_progress_is_left_alone_until_it_is_silent(
        self, world: World
    ) -> None:
        world.write(world.writer("other2"), "b1")
        second = world.timeline.completed_writes[1].requested_time
        transitions.save(world.storage, second)
        create(world, world.writer("creator"))
        (theirs,) = world.timeline.pending_of(instants.Action.SAVEPOINT)
        assert theirs.requested_time == second
        world.time.advance(SETTINGS.heartbeat_expiry_ms + 1_000)
        create(world, world.writer("creator2"))
        assert not world.timeline.pending_of(instants.Action.SAVEPOINT)


def test_creation_that_loses_the_lock_to_a_clean_is_taken_back() -> None:
    """L2: the clean was planned right before the savepoint appeared, and does not know of it."""
    world = begun(WORLDS["lock"])
    planned: list[bool] = []
    victim = spared(world, "victim")

    def lose_the_lock() -> None:
        world.lock.lose_of(victim)
        planned.append(plan_clean(world, world.writer("planner")))

    call = f"create {active.DIRECTORY}/{commit_of(world)}_"
    world.faults = Interruption("victim", call, lose_the_lock)
    with pytest.raises(errors.ConflictError, match="is going to delete"):
        create(world, world.client(victim))
    assert planned == [True]
    assert check(world) == ()
    assert not world.timeline.pending_of(instants.Action.SAVEPOINT)


def spared(world: World, name: str) -> schedule.Process:
    """Return a process that creates a file after its lock was lost, as it is to here."""
    process = world.process(name)
    process.is_spared = True
    return process


def test_savepoint_that_is_removed_longest_ago_is_known_by_its_missing_inflight_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Epochs carry on a few names of those that were deleted."""
    monkeypatch.setattr(epochs, "REMOVED_MAX", 1)
    world = begun(WORLDS["alone"])
    world.write(world.writer("second"), "b1")
    second = world.timeline.completed_writes[1].requested_time

    def delete_two() -> None:
        client = world.writer("deleter")
        delete(world, client)
        savepoints.create(client, world.config, savepoints.Wanted(commit=second))
        doomed = savepoints.Doomed(commits=frozenset((second,)))
        savepoints.delete(client, world.config, doomed)
        world.write(world.writer("third"), "b2")

    call = f"create {active.DIRECTORY}/{commit_of(world)}_"
    world.faults = Interruption("zombie", call, delete_two)
    made = create(world, world.writer("zombie"))
    world.faults = NoFaults()
    assert active.listed(world.storage).has_file(made.instant)
    assert seen(world) == ()
    done = world.write(world.writer("next"), "b3")
    assert isinstance(done, Completion)
    assert not done.findings
    assert not active.listed(world.storage).has_file(made.instant)
    assert check_at_rest(world) == ()


def test_late_claim_below_a_start_that_a_savepoint_moved_is_not_read() -> None:
    """E5: its writer was paused before its requested file, when the first commit was the start.

    A savepoint of that commit moves the start to the next write. Files of the late one are below it
    then, where they would count as archived for a reader whose timeline does not show it.
    """
    world = begun(WORLDS["alone"])
    late = world.process("late")
    between: list[active.ActiveTimeline] = []

    def meanwhile() -> None:
        world.time.advance(1_000)
        create(world, world.writer("creator"))
        world.begin(world.writer("second"))
        between.append(chain.load(world.storage, world.config))

    world.faults = Interruption("late", f"create {active.DIRECTORY}/2", meanwhile)
    opened = world.begin(world.client(late, authors.Author(writer_id="late")))
    (timeline,) = between
    assert timeline.start is not None
    assert not timeline.is_committed(opened.requested_time)


def test_savepoint_says_who_created_it_and_when() -> None:
    world = begun(WORLDS["alone"])
    made = create(world, world.writer("creator"))
    found = contents.read_savepoint(world.storage, made.instant)
    assert (found.by, found.comment) == ("writer creator", "c")
    assert found.saved_at_ms == world.time.now_ms
    assert replace(made, savepoint=found) == made
