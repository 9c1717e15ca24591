"""A timeline that was extended or reduced is the one that is read for the first time."""

import dataclasses
from collections.abc import Iterable

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hoodie.format import instant_names
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active


def _time(second: int) -> InstantTime:
    return InstantTime(f"202606010000{second:02d}000")


@st.composite
def _files(draw: st.DrawFn) -> Instant:
    """Draw a file of few instants, so that many files are of one, and some of its rivals."""
    action = draw(st.sampled_from(Action))
    state = draw(st.sampled_from(State))
    if state is State.COMPLETED:
        action = action.completed
    elif action is Action.SAVEPOINT:
        state = State.INFLIGHT
    requested = draw(st.integers(0, 6))
    completed = draw(st.integers(requested, 9))
    return Instant(
        requested_time=_time(requested),
        action=action,
        state=state,
        completion_time=_time(completed) if state is State.COMPLETED else None,
    )


_TIMELINES = st.lists(_files(), unique=True, max_size=30)


def _everything(timeline: active.ActiveTimeline) -> dict[str, object]:
    """Return all that a timeline tells, what it is not compared by included."""
    names = [field.name for field in dataclasses.fields(timeline) if field.name != "archive"]
    return {name: getattr(timeline, name) for name in names}


def _completed(action: Action, completed: int) -> Instant:
    return Instant(
        requested_time=_time(0),
        action=action,
        state=State.COMPLETED,
        completion_time=_time(completed),
    )


# Two writes of one time, which no protocol allows: no order of the listings may matter.
@example([_completed(Action.DELTA_COMMIT, 0), _completed(Action.COMMIT, 0)], 1)
@example([_completed(Action.DELTA_COMMIT, 1), _completed(Action.COMMIT, 0)], 1)
@settings(deadline=None)  # The machine is shared.
@given(_TIMELINES, st.integers(0, 30))
def test_extended_timeline_is_the_one_of_all_files(files: list[Instant], count: int) -> None:
    before = active.from_files(files[:count])
    extended = active.extended(before, files[count:])
    assert _everything(extended) == _everything(active.from_files(files))


@settings(deadline=None)  # The machine is shared.
@given(_TIMELINES, st.sets(st.integers(0, 6)), st.integers(0, 30))
def test_reduced_timeline_is_the_one_of_what_is_left(
    files: list[Instant], gone: set[int], others: int
) -> None:
    """Instants go as a whole, and then some files of others."""
    times = {_time(each) for each in gone}
    whole = [each for each in files if each.requested_time in times]
    for lost in (whole, [*whole, *(each for each in files[:others] if each not in whole)]):
        left = [each for each in files if each not in lost]
        reduced = active.reduced(active.from_files(files), lost)
        assert _everything(reduced) == _everything(active.from_files(left))


@settings(deadline=None)  # The machine is shared.
@given(_TIMELINES, st.lists(st.tuples(st.booleans(), st.integers(0, 29)), max_size=12))
def test_each_reading_tells_what_is_there(
    files: list[Instant], changes: list[tuple[bool, int]]
) -> None:
    storage = MemoryStorage()
    there: set[Instant] = set()
    for is_there, place in changes:
        if place >= len(files):
            continue
        instant = files[place]
        path = f"{active.DIRECTORY}/{instant_names.file_name(instant)}"
        if is_there and instant not in there:
            storage.create(path, b"")
            there.add(instant)
        elif not is_there and instant in there:
            storage.delete(path)
            there.discard(instant)
        _check(storage, there)


def _check(storage: MemoryStorage, there: Iterable[Instant]) -> None:
    timeline = active.load(storage)
    assert _everything(timeline) == _everything(active.from_files(there))
    assert all(timeline.has_file(each) for each in there)
