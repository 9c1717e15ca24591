"""Timelines of instants in 14 and in 17 digits: each keeps its names, and they stand in order."""

from hypothesis import given
from hypothesis import strategies as st

from hoodie.format import instant_names
from hoodie.model import instants
from hoodie.storage import memory
from hoodie.timeline import active, transitions

ACTIONS = ("commit", "deltacommit", "replacecommit", "compaction", "clean", "rollback")
TIMES = st.integers(0, 2 * 10**11).map(lambda ms: instants.format_time(ms * 7))
SHORT = TIMES.map(lambda time: time[:14])


@st.composite
def names(draw: st.DrawFn) -> list[str]:
    """Return the files of one instant, as far as it has come."""
    action = draw(st.sampled_from(ACTIONS))
    requested, completed = draw(SHORT | TIMES), draw(SHORT | TIMES)
    inflight = "inflight" if action == "commit" else f"{action}.inflight"
    done = "commit" if action == "compaction" else action
    return [
        f"{requested}.{action}.requested",
        f"{requested}.{inflight}",
        f"{requested}_{completed}.{done}",
    ][: draw(st.integers(1, 3))]


@given(st.lists(names(), max_size=8, unique_by=lambda each: each[0][:14]))
def test_names_on_disk_are_kept(groups: list[list[str]]) -> None:
    storage = memory.MemoryStorage()
    for name in {name for group in groups for name in group}:
        storage.create(f"{active.DIRECTORY}/{name}", b"x")
    timeline = active.load(storage)
    assert {transitions.path(each) for each in timeline.files} == {
        info.path for info in storage.list(active.DIRECTORY)
    }
    for instant in timeline.instants:
        assert storage.read(transitions.path(instant)) == b"x"
        requested = instant.pending_in(instants.State.REQUESTED)
        if instant.is_pending:
            assert storage.read(transitions.path(requested)) == b"x"
    order = [each.requested_time for each in timeline.instants]
    assert order == sorted(order)
    assert all(len(time) == 17 for time in order)


@given(names())
def test_name_is_what_was_parsed(group: list[str]) -> None:
    for name in group:
        instant = instant_names.parse(name)
        assert instant is not None
        assert instant_names.file_name(instant) == name
