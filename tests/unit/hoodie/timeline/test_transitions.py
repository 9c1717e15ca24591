"""The states of an instant, and creating its files exactly once (protocol.md: Time, T2)."""

import itertools

import pytest

from hoodie import errors
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.model.settings import WriteSettings
from hoodie.storage.memory import MemoryStorage
from hoodie.storage.protocol import FileInfo, Storage
from hoodie.timeline import active, transitions, true_time
from support.simulation import faulty_storage, schedule
from support.simulation.faulty_storage import Fault

TIME = InstantTime("20260501000000000")


def no() -> bool:
    return False


def yes() -> bool:
    return True


def instant(state: State, action: Action = Action.DELTA_COMMIT) -> Instant:
    return Instant(requested_time=TIME, action=action, state=state)


def complete(storage: Storage, inflight: Instant, content: bytes = b"done") -> Instant:
    clock = schedule.VirtualClock(schedule.Schedule())
    return transitions.complete(
        storage,
        inflight,
        content,
        timeline=active.load(storage),
        times=true_time.TimeGenerator(clock, WriteSettings(clock_wait_ms=0)),
        check=lambda: None,
    )


def names(storage: Storage) -> list[str]:
    return [info.name for info in storage.list(active.DIRECTORY)]


def faulty(fault: Fault, number: int = 0) -> tuple[MemoryStorage, faulty_storage.FaultyStorage]:
    inner = MemoryStorage()
    process = schedule.Process(schedule.Schedule(), "p")
    faults = faulty_storage.FaultAt("p", number, fault)
    return inner, faulty_storage.FaultyStorage(inner, process, faults)


def test_instant_goes_through_its_states() -> None:
    storage = MemoryStorage()
    requested = transitions.request(storage, TIME, Action.COMPACTION, b"plan", no)
    inflight = transitions.start(storage, requested, b"", no)
    completed = complete(storage, inflight)
    assert (completed.action, completed.state) == (Action.COMMIT, State.COMPLETED)
    assert names(storage) == [
        f"{TIME}.compaction.inflight",
        f"{TIME}.compaction.requested",
        f"{TIME}_{completed.completion_time}.commit",
    ]


def test_execution_that_broke_off_is_requested_again() -> None:
    storage = MemoryStorage()
    requested = transitions.request(storage, TIME, Action.COMPACTION, b"plan", no)
    inflight = transitions.start(storage, requested, b"", no)
    assert transitions.revert(storage, inflight) == requested
    assert transitions.revert(storage, inflight) == requested
    assert transitions.start(storage, requested, b"", no) == inflight
    transitions.revert(storage, inflight)
    transitions.withdraw(storage, requested)
    transitions.withdraw(storage, requested)
    assert names(storage) == []


def test_table_of_transitions_is_what_the_module_draws() -> None:
    drawn = set(transitions.TRANSITIONS.items())
    assert drawn == {
        ((None, transitions.Event.REQUEST), State.REQUESTED),
        ((State.REQUESTED, transitions.Event.START), State.INFLIGHT),
        ((State.INFLIGHT, transitions.Event.COMPLETE), State.COMPLETED),
        ((State.INFLIGHT, transitions.Event.REVERT), State.REQUESTED),
        ((State.REQUESTED, transitions.Event.WITHDRAW), None),
        ((State.COMPLETED, transitions.Event.REOPEN), State.INFLIGHT),
        ((None, transitions.Event.SAVE), State.INFLIGHT),
        ((State.INFLIGHT, transitions.Event.FORGET), None),
    }


@pytest.mark.parametrize("state", State)
def test_transition_that_is_not_in_the_table_is_our_own_bug(state: State) -> None:
    storage = MemoryStorage()
    done = Instant(
        requested_time=TIME,
        action=Action.DELTA_COMMIT,
        state=state,
        completion_time=TIME if state is State.COMPLETED else None,
    )
    if state is not State.REQUESTED:
        with pytest.raises(AssertionError):
            transitions.start(storage, done, b"", no)
    if state is not State.INFLIGHT:
        with pytest.raises(AssertionError):
            complete(storage, done)
        with pytest.raises(AssertionError):
            transitions.revert(storage, done)
    assert names(storage) == []


def test_completion_time_is_above_everything_on_the_timeline() -> None:
    storage = MemoryStorage()
    later = InstantTime("20260528202640100")  # 100 ms ahead of the clock.
    transitions.request(storage, later, Action.DELTA_COMMIT, b"", no)
    completed = complete(storage, instant(State.INFLIGHT))
    assert completed.completion_time == "20260528202640101"


def test_check_right_before_publishing_decides() -> None:
    storage = MemoryStorage()

    def lost() -> None:
        raise errors.LockLostError("lost")

    clock = schedule.VirtualClock(schedule.Schedule())
    with pytest.raises(errors.LockLostError):
        transitions.complete(
            storage,
            instant(State.INFLIGHT),
            b"done",
            timeline=active.load(storage),
            times=true_time.TimeGenerator(clock, WriteSettings(clock_wait_ms=0)),
            check=lost,
        )
    assert names(storage) == []


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST_ANSWER])
def test_lost_answer_is_resolved_by_reading_back(fault: Fault) -> None:
    """A conditional create whose answer was lost (protocol.md: State on storage)."""
    inner, storage = faulty(fault)
    transitions.start(storage, instant(State.REQUESTED), b"mine", no)
    assert inner.read(transitions.path(instant(State.INFLIGHT))) == b"mine"
    inner, storage = faulty(fault)
    complete(storage, instant(State.INFLIGHT))
    assert len(names(inner)) == 1


@pytest.mark.parametrize("fault", [Fault.FAIL_AFTER, Fault.LOST_ANSWER])
def test_empty_file_is_ours_only_by_another_proof(fault: Fault) -> None:
    _, storage = faulty(fault)
    transitions.request(storage, TIME, Action.DELTA_COMMIT, b"", yes)
    _, storage = faulty(fault)
    with pytest.raises((errors.ConflictError, errors.StorageError)):
        transitions.request(storage, TIME, Action.DELTA_COMMIT, b"", no)


def test_inflight_file_of_a_dead_executor_is_no_lost_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a plan whose execution is taken over: nothing was survived that people should hear of."""
    storage = MemoryStorage()
    for _ in range(2):
        transitions.start(storage, instant(State.REQUESTED, Action.INDEXING), b"", yes)
    assert not caplog.records
    for _ in range(2):
        transitions.start(storage, instant(State.REQUESTED), b"mine", no)
    assert "answer was lost" in caplog.text


def test_name_taken_by_another_is_a_conflict() -> None:
    storage = MemoryStorage()
    storage.create(transitions.path(instant(State.INFLIGHT)), b"theirs")
    for proof in (yes, no):
        with pytest.raises(errors.ConflictError, match="another process"):
            transitions.start(storage, instant(State.REQUESTED), b"mine", proof)


def test_failure_without_effect_stays_a_failure() -> None:
    inner, storage = faulty(Fault.FAIL_BEFORE)
    with pytest.raises(errors.StorageError):
        complete(storage, instant(State.INFLIGHT))
    assert names(inner) == []


def test_repeated_call_that_cannot_be_looked_into_is_an_unknown_outcome() -> None:
    """The answer was lost, the client repeats it, the name is taken. The simulation found it."""

    class Repeating(MemoryStorage):
        def create(self, path: str, content: bytes) -> FileInfo:
            super().create(path, content)
            return super().create(path, content)

        def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
            raise errors.StorageError("no answer")

    storage = Repeating()
    with pytest.raises(errors.OutcomeUnknownError, match=f"unknown whether .*{TIME}"):
        complete(storage, instant(State.INFLIGHT))
    assert len(names(storage)) == 1


def test_failure_that_cannot_be_looked_into_is_an_unknown_outcome() -> None:
    class Silent(MemoryStorage):
        def create(self, path: str, content: bytes) -> FileInfo:
            raise errors.StorageError("no answer")

        def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
            raise errors.StorageError("no answer")

    with pytest.raises(errors.OutcomeUnknownError, match=f"unknown whether .*{TIME}"):
        transitions.start(Silent(), instant(State.REQUESTED), b"mine", no)


def test_of_two_executors_one_starts() -> None:
    storage = MemoryStorage()
    started = []
    for content, _ in itertools.product((b"one", b"two"), range(2)):
        try:
            transitions.start(storage, instant(State.REQUESTED), content, no)
        except errors.ConflictError:
            continue
        started.append(content)
    assert started == [b"one", b"one"]
