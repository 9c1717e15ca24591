"""The active timeline as a value: grouping, completion, archived instants (format.md: Timeline)."""

import pickle
from collections.abc import Sequence

import pytest

from hoodie import errors
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active, transitions
from support.tables import history


def time(second: int) -> InstantTime:
    return InstantTime(f"202606010000{second:02d}000")


def timeline_of(*names: str) -> active.ActiveTimeline:
    storage = MemoryStorage()
    for name in names:
        storage.create(f"{active.DIRECTORY}/{name}", b"")
    return active.load(storage)


def commit(requested: int, completed: int, action: str = "deltacommit") -> list[str]:
    return [
        f"{time(requested)}.{action}.requested",
        f"{time(requested)}.{action}.inflight",
        f"{time(requested)}_{time(completed)}.{action}",
    ]


def test_instant_is_in_its_furthest_state_and_its_files_stay_known() -> None:
    timeline = timeline_of(*commit(1, 2), f"{time(3)}.deltacommit.requested")
    assert [str(each) for each in timeline.instants] == [
        f"{time(1)} deltacommit completed",
        f"{time(3)} deltacommit requested",
    ]
    assert len(timeline.files) == 4
    inflight = Instant(requested_time=time(1), action=Action.DELTA_COMMIT, state=State.INFLIGHT)
    assert inflight in timeline.files


def test_compaction_and_its_commit_are_one_instant() -> None:
    """Comparable actions (format.md: Timeline)."""
    pending = [f"{time(5)}.compaction.requested", f"{time(5)}.compaction.inflight"]
    assert [each.action for each in timeline_of(*pending).pending_compactions] == [
        Action.COMPACTION
    ]
    timeline = timeline_of(*pending, f"{time(5)}_{time(6)}.commit")
    (instant,) = timeline.instants
    assert (instant.action, instant.completion_time) == (Action.COMMIT, time(6))
    assert not timeline.pending


def test_inflight_without_action_is_a_commit() -> None:
    timeline = timeline_of(f"{time(1)}.commit.requested", f"{time(1)}.inflight")
    assert [(each.action, each.state) for each in timeline.instants] == [
        (Action.COMMIT, State.INFLIGHT)
    ]


def test_completed_writes_are_in_the_order_of_their_completion() -> None:
    timeline = timeline_of(*commit(1, 9), *commit(2, 3), *commit(4, 5, "clean"))
    assert [each.requested_time for each in timeline.completed_writes] == [time(2), time(1)]


def test_other_files_are_no_instants() -> None:
    timeline = timeline_of(
        *commit(1, 2),
        f"{time(3)}.deltacommit.requested.0f3c-uuid",
        f".{time(3)}.deltacommit.requested.crc",
        "notes.txt",
        "history/manifest_1",
    )
    assert len(timeline.instants) == 1


def test_completed_file_of_the_old_layout_is_not_overlooked() -> None:
    with pytest.raises(errors.UnsupportedError, match="layout 1"):
        timeline_of(f"{time(1)}.deltacommit")


def test_instant_completed_twice_stays_visible() -> None:
    """Double completion (protocol.md: State on storage), for `check`."""
    timeline = timeline_of(*commit(1, 2), f"{time(1)}_{time(4)}.deltacommit")
    assert [[each.completion_time for each in group] for group in timeline.duplicates] == [
        [time(2), time(4)]
    ]
    assert timeline.completion_time(time(1)) == time(4)


def test_second_completion_of_a_known_instant_is_a_duplicate() -> None:
    """A timeline that is extended tells the same as one that is read for the first time."""
    before = timeline_of(*commit(1, 2), *commit(3, 5))
    second = Instant(
        requested_time=time(1),
        action=Action.DELTA_COMMIT,
        state=State.COMPLETED,
        completion_time=time(4),
    )
    after = active.extended(before, [second])
    assert [[each.completion_time for each in group] for group in after.duplicates] == [
        [time(2), time(4)]
    ]
    assert len(after.completed_writes) == 2


def test_greatest_time_is_over_requested_and_completion_times() -> None:
    """T1 (protocol.md: Time)."""
    assert timeline_of().greatest_time is None
    assert timeline_of(*commit(1, 7), *commit(3, 4)).greatest_time == time(7)
    assert timeline_of(*commit(1, 2), f"{time(3)}.clean.requested").greatest_time == time(3)


def test_find_prefers_the_commit_to_its_savepoint() -> None:
    timeline = timeline_of(*commit(1, 2), f"{time(1)}_{time(5)}.savepoint")
    found = timeline.find(time(1))
    assert found is not None
    assert found.action is Action.DELTA_COMMIT
    assert timeline.find(time(9)) is None


def test_older_than_the_first_write_counts_as_committed_and_unknown_in_between_does_not() -> None:
    """Visibility (format.md: Visibility, protocol.md: File slices and reads)."""
    timeline = timeline_of(*commit(10, 11), *commit(20, 21), f"{time(30)}.deltacommit.requested")
    assert timeline.is_committed(time(5))
    assert timeline.is_committed(time(10))
    assert not timeline.is_committed(time(15))
    assert not timeline.is_committed(time(30))
    assert timeline.completion_time(time(30)) is None


def test_nothing_is_archived_before_a_timeline_without_writes() -> None:
    assert not timeline_of().is_committed(time(1))
    assert not timeline_of(*commit(3, 4, "clean")).is_committed(time(1))


def test_commit_kept_by_a_savepoint_is_not_the_start() -> None:
    """Archiving beyond savepoints leaves holes (format.md: Archived timeline)."""
    names = [*commit(1, 2), f"{time(1)}_{time(3)}.savepoint", *commit(20, 21), *commit(30, 31)]
    storage = MemoryStorage()
    for name in names:
        storage.create(f"{active.DIRECTORY}/{name}", b"")
    history.put_manifest(storage, 1, history.put_rows(storage, (time(10), time(11))))
    timeline = active.load(storage)
    assert timeline.start == time(20)
    assert timeline.is_committed(time(10))
    assert timeline.completion_time(time(10)) == time(11)


@pytest.mark.parametrize("state", ["inflight", "completed"])
def test_commit_with_a_savepoint_makes_nothing_count_as_archived(state: str) -> None:
    """A savepoint may be created while a write is on its way that has a lower time than others."""
    name = f"{time(1)}.savepoint.inflight"
    if state == "completed":
        name = f"{time(1)}_{time(3)}.savepoint"
    timeline = timeline_of(*commit(1, 2), name, f"{time(20)}.deltacommit.requested")
    assert timeline.start == time(20)
    assert timeline.is_committed(time(1))
    assert not timeline.is_committed(time(10))
    assert not timeline.is_committed(time(20))


def test_timeline_of_savepointed_commits_alone_still_follows_the_archive() -> None:
    timeline = timeline_of(*commit(10, 11), f"{time(10)}_{time(12)}.savepoint")
    assert timeline.start is None
    assert timeline.is_committed(time(5))
    assert timeline.is_committed(time(10))
    assert not timeline.is_committed(time(15))


def test_timeline_pickles_without_its_storage() -> None:
    timeline = timeline_of(*commit(10, 11))
    copy = pickle.loads(pickle.dumps(timeline))
    assert copy == timeline
    assert copy.is_committed(time(5))
    assert copy.completion_time(time(10)) == time(11)
    with pytest.raises(AssertionError, match="away from the archive"):
        copy.completion_time(time(5))


class Listings(MemoryStorage):
    """A storage whose listings are not atomic; each is as the test says, the last one again."""

    def __init__(self, *listings: Sequence[str]) -> None:
        super().__init__(uri="memory://listings")
        self._listings = listings
        self.count = 0

    @property
    def has_atomic_listings(self) -> bool:
        return False

    def names(self, directory: str) -> Sequence[str]:
        assert directory == active.DIRECTORY
        self.count += 1
        return self._listings[min(self.count, len(self._listings)) - 1]


def completed_in(storage: Listings) -> list[InstantTime]:
    return [each.requested_time for each in active.load(storage).completed_writes]


def test_commit_behind_the_page_is_not_missed_where_a_later_one_is_seen() -> None:
    """I5, I6: what is read is a prefix of the order of completion."""
    long, short = commit(1, 5), commit(6, 7)
    storage = Listings([*long[:2], *short], [*long, *short])
    assert completed_in(storage) == [time(1), time(6)]
    assert storage.count == 2
    assert [each.requested_time for each in active.listed(storage).pending] == []


def test_commit_after_the_first_listing_is_pending_in_both() -> None:
    """The second listing may miss what completed before it, as the first one did."""
    first, missed, last = commit(1, 2), commit(3, 5), commit(4, 6)
    storage = Listings(first, [*first, *missed[:2], *last])
    assert completed_in(storage) == [time(1)]
    storage.count = 0
    timeline = active.load(storage)
    assert [each.requested_time for each in timeline.pending] == [time(3), time(4)]
    assert not timeline.is_committed(time(4))


@pytest.mark.parametrize(
    "listing", [[], commit(1, 2)[:2], commit(1, 2), [*commit(1, 2), *commit(3, 4)]]
)
def test_quiet_timeline_takes_two_listings(listing: list[str]) -> None:
    storage = Listings(listing)
    active.load(storage)
    assert storage.count == 2


def test_one_listing_is_enough_where_it_is_atomic() -> None:
    class Atomic(Listings):
        @property
        def has_atomic_listings(self) -> bool:
            return True

    storage = Atomic(commit(1, 2))
    assert completed_in(storage) == [time(1)]
    assert storage.count == 1


def test_archived_while_listed_is_older_than_the_timeline() -> None:
    writes = [commit(n, n + 1) for n in (10, 20, 30)]
    storage = Listings([*writes[0], *writes[1], *writes[2]], [*writes[1], *writes[2]])
    timeline = active.load(storage)
    assert storage.count == 2
    assert timeline.start == time(20)
    assert timeline.is_committed(time(10))


def test_archiving_that_overtakes_a_listing_leaves_no_gap() -> None:
    """The first is listed before it is deleted, the second deleted before it would be listed."""
    writes = [commit(n, n + 1) for n in (10, 20, 30)]
    everything = [*writes[0], *writes[1], *writes[2]]
    storage = Listings(everything, [*writes[0], *writes[2]], writes[2])
    timeline = active.load(storage)
    assert storage.count == 3
    assert timeline.start == time(30)
    assert all(timeline.is_committed(time(n)) for n in (10, 20, 30))


def test_commit_that_a_restore_takes_back_is_gone() -> None:
    first, restored = commit(1, 2), commit(3, 4)
    storage = Listings([*first, *restored], first)
    assert completed_in(storage) == [time(1)]
    assert storage.count == 3


class Busy(MemoryStorage):
    """A storage on which others take a file away right before it is read."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.looks = 0
        self.added = 0
        for name in names:
            self.create(f"{active.DIRECTORY}/{name}", name.encode())

    def names(self, directory: str) -> Sequence[str]:
        self.looks += 1
        return super().names(directory)


def newest_content(storage: Busy, timeline: active.ActiveTimeline) -> bytes:
    return storage.read(transitions.path(timeline.instants[-1]))


def test_read_of_an_instant_that_was_taken_off_goes_on_with_a_new_timeline() -> None:
    storage = Busy(*commit(1, 2), f"{time(3)}.compaction.requested")

    def read(timeline: active.ActiveTimeline) -> bytes:
        storage.delete(f"{active.DIRECTORY}/{time(3)}.compaction.requested")
        return newest_content(storage, timeline)

    assert active.with_contents(storage, read) == f"{time(1)}_{time(2)}.deltacommit".encode()
    assert storage.looks == 2


def test_read_of_a_file_that_a_timeline_lacks_fails_after_one_more_look() -> None:
    storage = Busy(*commit(1, 2))

    def read(_: active.ActiveTimeline) -> bytes:
        return storage.read(f"{active.DIRECTORY}/{time(3)}.compaction.requested")

    with pytest.raises(errors.NotFoundError, match=r"compaction\.requested"):
        active.with_contents(storage, read)
    assert storage.looks == 2


def test_read_of_a_timeline_that_never_holds_still_ends() -> None:
    storage = Busy(f"{time(0)}.compaction.requested")

    def read(timeline: active.ActiveTimeline) -> bytes:
        storage.added += 1
        storage.delete(transitions.path(timeline.instants[-1]))
        storage.create(f"{active.DIRECTORY}/{time(storage.added)}.compaction.requested", b"")
        return newest_content(storage, timeline)

    with pytest.raises(errors.NotFoundError):
        active.with_contents(storage, read)
    assert storage.looks == storage.added == 11
