"""The active timeline: what the files in `.hoodie/timeline/` say, as one value.

Terms:
    comparable action  the action's completed name: a compaction and its commit are one instant
    furthest state     an instant's earlier files stay when it moves on; the highest state counts
    start              requested time of the first write that no savepoint keeps: whatever is older
                       was archived, and Apache Hudi counts it as completed without looking
    gap                from the first write of all to the start: only writes that savepoints keep
                       are left there, if others were archived beyond them
    remains            files of an archived instant that its archiver is still about to delete; or
                       that are there again, since a store carried a request out so late. Taken for
                       a pending write, it would begin the timeline, and be rolled back

A timeline is read once and never changes; who needs a newer one lists again. It is made from the
one before where few files were added, or instants were archived: the table lock is not to be held
the longer, the longer the history is.

Invariant of `load`: its completed instants are a prefix of the order of completion. If it shows
one, it shows every instant that completed earlier, and each that completed before it was called.
A listing alone does not promise that, because it is not of one moment (`Storage`): it may hold the
later of two completed files and lack the earlier. A second listing, cut at the greatest completion
time of the first, does:

1. Completed files are created one at a time under the table lock, with growing completion times
   (T1, T2; Apache Hudi's writers do the same). So when the first listing ends, every completed file
   up to the greatest completion time in it exists, and the second listing has it.
2. A completed file vanishes only when the instant is archived, or when a restore takes it back. The
   archive gets the oldest instants, holds them before their files are deleted, and the files are
   deleted in the order of their requested times. So whatever vanished is either older than all
   writes that the second listing shows, and counts as archived, or there is one more listing.
   Instants are not archived while a listing lasts that began before they completed: Apache Hudi
   keeps the newest 20 (`hoodie.keep.min.commits`).

What completes after the cut is left out, though the second listing may show it: it is shown as
pending, as it was when the first listing ended. Under the table lock nothing completes meanwhile,
and one listing is enough (`listed`).

Source: `TimelineLayout.java`, `BaseTimelineV2.java`, `CompletionTimeQueryViewV2.java`;
format.md: Timeline, Archived timeline, Visibility.
"""

import bisect
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from hoodie import errors
from hoodie.format import instant_names

# By name: a timeline's own `instants` would hide the module.
from hoodie.model.instants import WRITES, Action, Instant, InstantTime, State
from hoodie.storage.protocol import Storage
from hoodie.timeline import archived

DIRECTORY = ".hoodie/timeline"

_HISTORY = archived.DIRECTORY.removeprefix(f"{DIRECTORY}/") + "/"

_CONSUMER_PREFIX, _CONSUMER_SUFFIX = "consumer-", ".json"

_STATES = {state: place for place, state in enumerate(State)}

_CHANGES_MAX = 10
"""So often a read begins again: each time an instant was taken off within a few requests."""

Found = TypeVar("Found")


class CompletionTimes(Protocol):
    """Knows completion times of archived instants."""

    def completion_time(self, requested_time: InstantTime) -> InstantTime | None:
        """Return the completion time; None for an instant that was never archived."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Where a timeline alone does not say whether a write was archived."""

    first: InstantTime | None
    start: InstantTime | None

    def is_below(self, requested_time: InstantTime) -> bool:
        """Return whether a time is older than the timeline."""
        return self.first is not None and requested_time < self.first

    def holds(self, requested_time: InstantTime) -> bool:
        """Return whether a time is in the gap."""
        return (
            self.first is not None
            and requested_time >= self.first
            and (self.start is None or requested_time < self.start)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTimeline:
    """The instants of one moment. Make it with `load`, `listed` or `from_files`.

    Attributes:
        instants: One for each requested time and comparable action, in its furthest state; sorted
            by requested time.
        files: Every instant and state that there is a file for, by requested time.
        duplicates: Completed files of instants that have more than one, which no protocol allows;
            the latest completion counts, as it does for Apache Hudi's archive.
        completed: All completed files, in the order of their completion.
        completed_writes: Commits, delta commits and replace commits in the order of their
            completion.
        greatest: The instant with the greatest time of all, requested or completion.
        start: Of the active timeline; None when it holds no write that no savepoint keeps.
        first: Requested time of the first write, whether a savepoint keeps it or not; None when it
            holds no write.
        late: Requested times of pending writes that came to the timeline after it had been archived
            past them, or again: they begin nothing, and never complete.
        archive: Completion times of what is older, looked up on demand.
        consumers: Names of the declared consumers that have a file beside the instants.
        remains: Files of archived instants, which are none of the others.
    """

    instants: tuple[Instant, ...]
    files: tuple[Instant, ...]
    duplicates: tuple[tuple[Instant, ...], ...] = ()
    start: InstantTime | None
    first: InstantTime | None = None
    late: frozenset[InstantTime] = frozenset()
    archive: CompletionTimes = field(compare=False, repr=False)
    completed: tuple[Instant, ...] = field(compare=False, repr=False)
    completed_writes: tuple[Instant, ...] = field(compare=False, repr=False)
    greatest: Instant | None = field(compare=False, repr=False)
    write_completion_times: Mapping[InstantTime, InstantTime] = field(compare=False, repr=False)
    consumers: tuple[str, ...] = field(default=(), compare=False)
    remains: tuple[Instant, ...] = field(default=(), compare=False)

    @property
    def pending(self) -> tuple[Instant, ...]:
        """All requested and inflight instants, by requested time."""
        return tuple(each for each in self.instants if each.is_pending)

    @property
    def pending_compactions(self) -> tuple[Instant, ...]:
        """Pending compactions, without log compactions, by requested time."""
        return self.pending_of(Action.COMPACTION)

    def pending_of(self, *actions: Action) -> tuple[Instant, ...]:
        """Return the pending instants with one of these actions, by requested time."""
        return tuple(each for each in self.pending if each.action in actions)

    def is_followed(self, requested_time: InstantTime) -> bool:
        """Return whether a write that was requested later has completed.

        Writes are archived from the oldest on, so that one stays that is later.
        """
        return any(each.requested_time > requested_time for each in self.completed_writes)

    @property
    def last_indexing(self) -> Instant | None:
        """A completed indexing action that no later write has followed; None for none."""
        return next(
            (
                each
                for each in reversed(self.instants)
                if each.action is Action.INDEXING
                and each.is_completed
                and not self.is_followed(each.requested_time)
            ),
            None,
        )

    @property
    def pending_times(self) -> frozenset[InstantTime]:
        """Requested times of pending instants; a savepoint's is of a commit that has completed."""
        return frozenset(
            each.requested_time for each in self.pending if each.action is not Action.SAVEPOINT
        )

    @property
    def savepoints(self) -> tuple[Instant, ...]:
        """The completed files of savepoints, in the order of their completion."""
        return tuple(each for each in self.completed if each.action is Action.SAVEPOINT)

    def has_file(self, instant: Instant) -> bool:
        """Return whether there is a file for an instant in that state."""
        order = _file_order(instant)
        place = bisect.bisect_left(self.files, order, key=_file_order)
        return place < len(self.files) and self.files[place] == instant

    def find(self, requested_time: InstantTime) -> Instant | None:
        """Return the instant of that time; of a savepointed commit, the commit."""
        found = [each for each in self.instants if each.requested_time == requested_time]
        others = [each for each in found if each.action is not Action.SAVEPOINT]
        return next(iter(others or found), None)

    def completion_time(self, requested_time: InstantTime) -> InstantTime | None:
        """Return when a write completed; None while it is pending, and for an unknown one.

        An archived one is looked up in the archive: some requests for the first, rarely any later.
        """
        known = self.write_completion_times.get(requested_time)
        if known is None and self.is_archived(requested_time):
            return self.archive.completion_time(requested_time)
        return known

    def is_archived(self, requested_time: InstantTime) -> bool:
        """Return whether a write of that time, if there was one, is on this timeline no more.

        In the gap the archive says so, which costs some requests: a savepoint may be created at any
        time, and until then what is not on the timeline there was no write that completed.
        """
        if requested_time in self.late:
            return False
        gap = Gap(first=self.first, start=self.start)
        return gap.is_below(requested_time) or (
            gap.holds(requested_time)
            and requested_time not in self.write_completion_times
            and self.archive.completion_time(requested_time) is not None
        )

    def is_committed(self, requested_time: InstantTime) -> bool:
        """Return whether data files that carry this time count (format.md: Visibility).

        They do when the write completed, or is older than the active timeline; but for what a
        rollback took back, of which `filegroup.snapshots` knows.
        """
        return requested_time in self.write_completion_times or self.is_archived(requested_time)

    @property
    def greatest_time(self) -> InstantTime | None:
        """The greatest of all requested and completion times; None for an empty timeline."""
        return None if self.greatest is None else latest_time(self.greatest)


def load(storage: Storage) -> ActiveTimeline:
    """Read the active timeline: a prefix of the order of completion.

    Two listings; one where the storage's listings are atomic, and one more each time that instants
    are archived across a listing, or restored.

    Raises:
        UnsupportedError: It holds a completed instant of timeline layout 1.
    """
    before = names(storage)
    while not storage.has_atomic_listings:
        after = names(storage)
        kept = _cut(before, after)
        if not _has_gap(before - kept, kept):
            return _settled(storage, kept)
        before = after
    return _settled(storage, before)


def listed(storage: Storage) -> ActiveTimeline:
    """Read the active timeline by one listing: for holders of the table lock.

    Without the lock it may lack instants that completed before others that it shows. That is fine
    where the decision is made again under the lock, and where one instant matters.

    Raises:
        UnsupportedError: It holds a completed instant of timeline layout 1.
    """
    return _settled(storage, names(storage))


def names(storage: Storage) -> frozenset[str]:
    """Return the names of the timeline's files, and of the history's directory; a listing."""
    return frozenset(storage.names(DIRECTORY))


def of_names(storage: Storage, found: frozenset[str]) -> ActiveTimeline:
    """Return the timeline whose files have these names, remains among them."""
    return replace(
        _recent(storage.uri).timeline_of(found), archive=archived.ArchivedTimeline(storage)
    )


def with_contents(
    storage: Storage,
    read: Callable[[ActiveTimeline], Found],
    look: Callable[[Storage], ActiveTimeline] = load,
) -> Found:
    """Return what is read of the files that a timeline shows, without the table lock.

    Between its listing and such a read a plan may be withdrawn, an instant rolled back or archived,
    or the table restored. The read then begins again on a new timeline. Where the new one is the
    same, nothing has happened: the table lacks the file.

    Args:
        storage: The table's.
        read: Reads files of the timeline that it is given.
        look: Reads the timeline.

    Raises:
        NotFoundError: The table lacks the file; or files of the timeline disappeared during each of
            many tries.
    """
    timeline = look(storage)
    for _ in range(_CHANGES_MAX):
        try:
            return read(timeline)
        except errors.NotFoundError:
            before, timeline = timeline, look(storage)
            if timeline == before:
                raise
    return read(timeline)


def consumer_path(name: str) -> str:
    """Return the path of the file of a consumer, below the table's root."""
    return f"{DIRECTORY}/{_CONSUMER_PREFIX}{name}{_CONSUMER_SUFFIX}"


def completion_of(name: str) -> str:
    """Return the completion time in a file's name; empty text if it has none."""
    instant = instant_names.parse(name)
    return "" if instant is None else instant.completion_time or ""


def _cut(before: frozenset[str], after: frozenset[str]) -> frozenset[str]:
    """Return a listing without what completed after all that the one before it shows."""
    added = [each for each in after - before if completion_of(each)]
    last = max(map(completion_of, before), default="") if added else ""
    return after - {each for each in added if completion_of(each) > last}


def _settled(storage: Storage, found: frozenset[str]) -> ActiveTimeline:
    """Return the timeline whose files have these names, without remains, and with late writes.

    No request, unless the table was archived and an instant is in doubt; then some for the first.
    """
    timeline = of_names(storage, found)
    doubtful = list(_doubtful(timeline)) if _HISTORY in found else []
    if not doubtful:
        return timeline
    archive = archived.ArchivedTimeline(storage)
    archived_times = {
        each.requested_time
        for each in doubtful
        if archive.completion_time(each.requested_time) is not None
    }
    timeline = _without_remains(timeline, archived_times)
    left = [each for each in doubtful if each.requested_time not in archived_times]
    oldest = next((each for each in left if each.is_pending and each.action in WRITES), None)
    if oldest is None:
        return timeline
    last = archive.last_write(after=oldest.requested_time)
    return timeline if last is None else without_archived(timeline, last, ())


def _without_remains(
    timeline: ActiveTimeline, archived_times: Collection[InstantTime]
) -> ActiveTimeline:
    if not archived_times:
        return timeline
    remains = tuple(
        each
        for each in timeline.files
        if each.requested_time in archived_times and each.action is not Action.SAVEPOINT
    )
    left = from_files(set(timeline.files).difference(remains), timeline.archive)
    return replace(left, consumers=timeline.consumers, remains=remains)


def _doubtful(timeline: ActiveTimeline) -> Iterator[Instant]:
    """Yield the instants of which the archive may say that they are over.

    It gets a prefix of the writes, but for those that savepoints keep. A completed instant has its
    requested file until it is archived.
    """
    saved = {each.requested_time for each in timeline.savepoints}
    for each in timeline.instants:
        if each.action is Action.SAVEPOINT:
            continue
        is_whole = each.is_completed and _has_requested_file(timeline, each)
        if not is_whole:
            yield each
        elif each.action.is_write and each.requested_time not in saved:
            return


def _has_requested_file(timeline: ActiveTimeline, instant: Instant) -> bool:
    time = instant.requested_time
    place = bisect.bisect_left(timeline.files, time, key=lambda each: each.requested_time)
    return timeline.files[place].state is State.REQUESTED


def _has_gap(vanished: Iterable[str], kept: Iterable[str]) -> bool:
    """Return whether a completed write that vanished is missed between those that are there."""
    writes = _completed_writes(vanished)
    return bool(writes) and _is_missed(writes, from_files(_parsed(kept)))


def has_gap(vanished: Iterable[str], timeline: ActiveTimeline) -> bool:
    """Return whether a completed write, by its file's name, is missed on a timeline.

    What was archived is not, once it is older than all that is there.
    """
    return _is_missed(_completed_writes(vanished), timeline)


def _completed_writes(names: Iterable[str]) -> list[Instant]:
    return [each for each in _parsed(names) if each.is_completed and each.action.is_write]


def _is_missed(writes: Iterable[Instant], timeline: ActiveTimeline) -> bool:
    start = timeline.start or timeline.first
    return any(start is None or each.requested_time >= start for each in writes)


def from_files(files: Iterable[Instant], archive: CompletionTimes | None = None) -> ActiveTimeline:
    """Return the timeline whose files are these instants and states.

    Args:
        files: Each once, in any order.
        archive: Knows older instants; none were archived if it is not given.
    """
    ordered = tuple(sorted(files, key=_file_order))
    by_group = {_comparable(each): each for each in ordered}  # The last, which is the furthest.
    furthest = tuple(by_group[group] for group in sorted(by_group))
    ended = [each for each in ordered if each.is_completed]
    writes = [each for each in furthest if each.is_completed and each.action.is_write]
    return ActiveTimeline(
        instants=furthest,
        files=ordered,
        duplicates=_duplicates(ended),
        start=_start(furthest),
        first=_first(furthest),
        archive=archive or _NoArchive(),
        completed=tuple(sorted(ended, key=_completion_order)),
        completed_writes=tuple(sorted(writes, key=_completion_order)),
        greatest=max(furthest, key=_latest_order, default=None),
        write_completion_times=_completion_times({}, writes),
    )


def _duplicates(ended: Collection[Instant]) -> tuple[tuple[Instant, ...], ...]:
    """Return completed files of instants that have more than one, by instant."""
    groups: dict[tuple[str, str], list[Instant]] = {}
    if len({*map(_comparable, ended)}) < len(ended):
        for each in ended:
            groups.setdefault(_comparable(each), []).append(each)
    return tuple(tuple(group) for _, group in sorted(groups.items()) if len(group) > 1)


def extended(before: ActiveTimeline, added: Collection[Instant]) -> ActiveTimeline:
    """Return the timeline of a few more files: what `from_files` makes of all of them.

    It takes copies of what was known before, and no look at each of it.

    Args:
        before: A timeline.
        added: Instants and states that it has no file for.
    """
    files, furthest, completed = list(before.files), list(before.instants), list(before.completed)
    writes, greatest = list(before.completed_writes), before.greatest
    for instant in sorted(added, key=_file_order):
        bisect.insort(files, instant, key=_file_order)
        group = _comparable(instant)
        place = bisect.bisect_left(furthest, group, key=_comparable)
        known = furthest[place] if place < len(furthest) else None
        if known is None or _comparable(known) != group:
            furthest.insert(place, instant)
        elif known.is_completed and instant.is_completed:
            return from_files({*before.files, *added}, before.archive)
        elif _file_order(known) < _file_order(instant):
            furthest[place] = instant
        if instant.is_completed:
            bisect.insort(completed, instant, key=_completion_order)
        if instant.is_completed and instant.action.is_write:
            bisect.insort(writes, instant, key=_completion_order)
        if greatest is None or _latest_order(greatest) < _latest_order(instant):
            greatest = instant
    new_writes = [each for each in added if each.is_completed and each.action.is_write]
    return ActiveTimeline(
        instants=tuple(furthest),
        files=tuple(files),
        duplicates=before.duplicates,
        start=_start(furthest),
        first=_first(furthest),
        archive=before.archive,
        completed=tuple(completed),
        completed_writes=tuple(writes),
        greatest=greatest,
        write_completion_times=_completion_times(before.write_completion_times, new_writes),
    )


def reduced(before: ActiveTimeline, gone: Collection[Instant]) -> ActiveTimeline:
    """Return the timeline without some files: what `from_files` makes of the rest.

    Where instants are gone with all their files, as archived ones are, what was known of the others
    stays.

    Args:
        before: A timeline.
        gone: Instants and states that it has a file for.
    """
    times = {each.requested_time for each in gone}

    def left(found: Iterable[Instant]) -> tuple[Instant, ...]:
        return tuple(each for each in found if each.requested_time not in times)

    files = left(before.files)
    if len(before.files) - len(files) != len(gone):
        return from_files(set(before.files).difference(gone), before.archive)
    furthest, greatest = left(before.instants), before.greatest
    if greatest is not None and greatest.requested_time in times:
        greatest = max(furthest, key=_latest_order, default=None)
    return ActiveTimeline(
        instants=furthest,
        files=files,
        duplicates=tuple(group for group in before.duplicates if left(group)),
        start=_start(furthest),
        first=_first(furthest),
        archive=before.archive,
        completed=left(before.completed),
        completed_writes=left(before.completed_writes),
        greatest=greatest,
        write_completion_times={
            requested: completed
            for requested, completed in before.write_completion_times.items()
            if requested not in times
        },
    )


def without_archived(
    timeline: ActiveTimeline, archived_below: str, gone: Collection[Instant]
) -> ActiveTimeline:
    """Return a timeline as it is once it was archived.

    Args:
        timeline: As the files say.
        archived_below: Requested time below which everything was archived that may be.
        gone: Files that are still there, or again.
    """
    if gone:
        left = from_files(set(timeline.files).difference(gone), timeline.archive)
        timeline = replace(left, consumers=timeline.consumers)
    late = frozenset(
        each.requested_time
        for each in timeline.pending_of(*WRITES)
        if each.requested_time < archived_below
    )
    if not late:
        return timeline
    others = [each for each in timeline.instants if each.requested_time not in late]
    return replace(timeline, start=_start(others), first=_first(others), late=late)


class _Recent:
    """The last listing of a table, and its timeline."""

    def __init__(self) -> None:
        # One value, which threads replace as a whole.
        self._known = (frozenset[str](), from_files(()))

    def timeline_of(self, names: frozenset[str]) -> ActiveTimeline:
        """Return the timeline of a listing of these names."""
        before, timeline = self._known
        if len(names) > 2 * len(before):
            timeline = replace(from_files(_parsed(names)), consumers=_consumers(names))
        elif names != before:
            added, gone = names - before, before - names
            consumers = {*timeline.consumers, *_consumers(added)}.difference(_consumers(gone))
            if gone:
                timeline = reduced(timeline, _parsed(gone))
            if added:
                timeline = extended(timeline, _parsed(added))
            timeline = replace(timeline, consumers=tuple(sorted(consumers)))
        self._known = (names, timeline)
        return timeline


@functools.lru_cache(maxsize=8)
def _recent(uri: str) -> _Recent:
    del uri
    return _Recent()


def _parsed(names: Iterable[str]) -> list[Instant]:
    found = (instant_names.parse(name) for name in names)
    return [instant for instant in found if instant is not None]


def _consumers(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the consumers of which a listing has a file, sorted."""
    return tuple(
        sorted(
            each.removeprefix(_CONSUMER_PREFIX).removesuffix(_CONSUMER_SUFFIX)
            for each in names
            if each.startswith(_CONSUMER_PREFIX) and each.endswith(_CONSUMER_SUFFIX)
        )
    )


class _NoArchive:
    """The archive of a table that has none."""

    def completion_time(self, requested_time: InstantTime) -> InstantTime | None:
        del requested_time
        return None


def _start(furthest: Collection[Instant]) -> InstantTime | None:
    """Return the first write's requested time, passing by what savepoints keep from archiving."""
    savepointed = {each.requested_time for each in furthest if each.action is Action.SAVEPOINT}
    times = (each.requested_time for each in furthest if each.action.is_write)
    return next((time for time in times if time not in savepointed), None)


def _first(furthest: Iterable[Instant]) -> InstantTime | None:
    """Return the first write's requested time."""
    return next((each.requested_time for each in furthest if each.action.is_write), None)


def _completion_times(
    known: Mapping[InstantTime, InstantTime], writes: Iterable[Instant]
) -> dict[InstantTime, InstantTime]:
    """Return when writes completed; of two with one requested time, the later."""
    times = dict(known)
    for each in writes:
        if each.completion_time is not None:
            before = times.get(each.requested_time, each.completion_time)
            times[each.requested_time] = max(before, each.completion_time)
    return times


def _comparable(instant: Instant) -> tuple[str, str]:
    return (instant.requested_time, instant.action.completed.value)


def _file_order(instant: Instant) -> tuple[str, int, str, str]:
    return (
        instant.requested_time,
        _STATES[instant.state],
        instant.completion_time or "",
        instant.action.value,
    )


def completed_after(timeline: ActiveTimeline, time: str) -> tuple[Instant, ...]:
    """Return the completed files with greater completion times, in their order."""
    place = bisect.bisect_right(
        timeline.completed, time, key=lambda each: each.completion_time or ""
    )
    return timeline.completed[place:]


def _completion_order(instant: Instant) -> tuple[str, str, str]:
    return (instant.completion_time or "", instant.requested_time, instant.action.value)


def _latest_order(instant: Instant) -> tuple[str, tuple[str, int, str, str]]:
    return (latest_time(instant), _file_order(instant))


def latest_time(instant: Instant) -> InstantTime:
    """Return an instant's completion time, or its requested time while it has none."""
    return max(instant.requested_time, instant.completion_time or instant.requested_time)
