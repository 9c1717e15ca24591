"""Which moments of a table cannot be read any more, because files of them are gone.

Terms:
    gap   a span of times, of which no moment can be read

A clean deletes file slices that newer ones had replaced. Each file that it deleted leaves a gap
from the moment at which it came to the one at which its slice was replaced: a read as of
then would return an older version of its rows, or none, without an error. Moments between gaps stay
readable, such as those of savepoints. A restore leaves a gap as well, from the first instant that
it took back to its own completion; and so does a rollback of a completed write, which Apache Hudi
has. When that write had completed is not known any more: the gap begins with its request.

A clean deletes nothing that was replaced after it was requested, so that only those matter that
were requested after the moment. They are on the timeline or in the archive, as rollbacks are; a
rollback that was requested before the moment had begun to take its target back by then.

Source: protocol.md: Reads as of a moment.
"""

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hoodie import errors
from hoodie.filegroup import listing, snapshots
from hoodie.format import clean_avro, rollback_avro, timeline_avro
from hoodie.model import files, instants, moments, plans
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, archived, contents

_ALWAYS = instants.InstantTime("")
"""Below every time."""

_BEGINNING = instants.format_time(0)
"""Before every instant: there was nothing that a restore could have rolled back."""

_LEAVING_GAPS = frozenset((instants.Action.CLEAN, instants.Action.ROLLBACK))
"""Actions in the archive that may have left gaps; restores are never archived."""

_NEW_GROUP = "null"
"""What a write says that it stood on where it began a file group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A span of times of which no moment can be read.

    Attributes:
        first: The first of them.
        end: The first time after them, which can be read unless another gap has it.
        cause: What has left it, as part of a sentence.
        group: Of which file group files are gone; None if it is the whole table's.
    """

    first: instants.InstantTime
    end: instants.InstantTime
    cause: str
    group: files.FileGroupId | None = None

    def has(self, time: instants.InstantTime) -> bool:
        """Return whether a time is in it."""
        return self.first <= time < self.end


class GapsAhead:
    """Gaps for who steps from moment to moment: those that ended before are not looked at again.

    A table that was cleaned has as many as files are gone, and a range has as many moments.
    """

    def __init__(self, found: Iterable[Gap]) -> None:
        """Take the gaps as of the first moment."""
        self._left = deque(sorted(found, key=lambda gap: gap.end))

    def at(self, time: instants.InstantTime) -> Collection[Gap]:
        """Return those that have not ended by a time, which is no earlier than the last one."""
        while self._left and self._left[0].end <= time:
            self._left.popleft()
        return self._left


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletion:
    """What a clean deleted, or is going to delete.

    Attributes:
        clean: The clean.
        paths: Of the files; None if that is not known.
    """

    clean: instants.Instant
    paths: frozenset[str] | None


def check_readable(
    storage: Storage,
    snapshot: snapshots.Snapshot,
    moment: moments.Moment,
    groups: Collection[files.FileGroupId] | None = None,
) -> None:
    """Refuse a moment that cannot be read any more.

    Args:
        storage: The table's.
        snapshot: Of the table as it is now.
        moment: That is to be read.
        groups: File groups of which it is to be read; None for all.

    Raises:
        GoneError: It is in a gap; the message says from when on the table can be read.
        FormatError: A clean on the timeline is damaged.
    """
    refuse(storage, gaps(storage, snapshot, moment), moment, groups)


def check_as_of(storage: Storage, snapshot: snapshots.Snapshot, moment: moments.Moment) -> None:
    """Refuse a moment as of which the table cannot be read as it was.

    Raises:
        GoneError: As `check_readable`; or a write was there that was rolled back since.
        FormatError: As `check_readable`.
    """
    old = _archived_since(storage, moment.time)
    found = _of_rollbacks(storage, snapshot.timeline, moment.time, old)
    refuse(storage, [*gaps(storage, snapshot, moment), *found], moment)


def check_history(storage: Storage, snapshot: snapshots.Snapshot, moment: moments.Moment) -> None:
    """Refuse a moment after which writes may have completed that are not known any more.

    Raises:
        GoneError: The history was trimmed, or the table restored or a completed write rolled back
            since.
    """
    found = list(_of_trimming(storage, snapshot, moment))
    if moment.time > _BEGINNING:
        found += _of_restores(storage, snapshot.timeline)
        old = _archived_since(storage, moment.time)
        found += _of_rollbacks(storage, snapshot.timeline, moment.time, old)
    refuse(storage, found, moment)


def refuse(
    storage: Storage,
    found: Iterable[Gap],
    moment: moments.Moment,
    groups: Collection[files.FileGroupId] | None = None,
) -> None:
    """Refuse a moment that is in a gap.

    Args:
        storage: The table's.
        found: Gaps as of this moment, or of an earlier one.
        moment: That is to be read.
        groups: As of `check_readable`.

    Raises:
        GoneError: It is in one.
    """
    if groups is not None:
        wanted = frozenset(groups)
        found = [each for each in found if each.group is None or each.group in wanted]
    found = list(found)
    hit = next((each for each in found if each.has(moment.time)), None)
    if hit is None:
        return
    readable = earliest_readable(found, moment.time)
    raise errors.GoneError(
        f"{storage.uri} cannot be read as of {moment.time} any more: {hit.cause}; the earliest "
        f"time after it that can be read is {readable}",
        readable,
    )


def is_before_first(
    storage: Storage, timeline: active.ActiveTimeline, moment: moments.Moment
) -> bool:
    """Return whether the table had no write yet; some requests to the archive unless it had.

    Of a moment that can be read: what was trimmed is not known.
    """
    times = timeline.write_completion_times
    if any(moment.has(time, completed) for time, completed in times.items()):
        return False
    oldest = archived.ArchivedTimeline(storage).oldest_write()
    return oldest is None or not moment.has(oldest.requested_time, oldest.completion_time)


def earliest_readable(found: Iterable[Gap], time: instants.InstantTime) -> instants.InstantTime:
    """Return the first time, not before a given one, that no gap has."""
    for each in sorted(found, key=lambda gap: gap.first):
        if each.has(time):
            time = each.end
    return time


def gaps(storage: Storage, snapshot: snapshots.Snapshot, moment: moments.Moment) -> list[Gap]:
    """Return the gaps that end after a moment, those of restores among them, not of rollbacks.

    A reader of changes needs none of these: who begins at a position has not seen what was rolled
    back, and who begins at a time is refused by `check_history`.

    A request for each clean and each restore on the timeline that was requested after the moment,
    and the archive from there on, if it goes so far; names of files in the partitions in which such
    a clean deleted anything.

    Raises:
        FormatError: A clean or a restore is damaged.
    """
    return [
        *_of_restores(storage, snapshot.timeline),
        *_of_cleans(storage, snapshot, moment, _archived_since(storage, moment.time)),
        *_of_trimming(storage, snapshot, moment),
    ]


def _of_restores(storage: Storage, timeline: active.ActiveTimeline) -> Iterator[Gap]:
    for each in timeline.completed:
        if each.action is not instants.Action.RESTORE:
            continue
        assert each.completion_time is not None, each
        try:
            taken_back = contents.read_restored(storage, each)
        except errors.FormatError:
            yield Gap(
                first=_ALWAYS,
                end=each.completion_time,
                cause=f"what {each} rolled back is not known",
            )
            continue
        if taken_back:
            yield Gap(
                first=min(taken_back),
                end=each.completion_time,
                cause=f"{each} rolled back what was written since {min(taken_back)}",
            )


def _of_rollbacks(
    storage: Storage,
    timeline: active.ActiveTimeline,
    since: instants.InstantTime,
    old: Sequence[archived.ArchivedInstant],
) -> Iterator[Gap]:
    """Yield a gap for each rollback since a time of what may have been part of the table.

    Args:
        storage: The table's.
        timeline: The table's.
        since: Only of rollbacks that completed after it.
        old: Archived instants that were requested after it.
    """
    done = {
        each: _target(storage, each)
        for each in timeline.instants
        if each.action is instants.Action.ROLLBACK
        # One that was only requested has taken nothing back.
        and each.state is not instants.State.REQUESTED
        and (each.completion_time is None or each.completion_time > since)
    }
    for archived_one in old:
        rollback = archived_one.instant
        if rollback.action is instants.Action.ROLLBACK and rollback not in done:
            done[rollback] = _archived_target(archived_one)
    for rollback, found in done.items():
        # A pending one ends beyond all that can be asked for.
        newest = timeline.greatest_time or rollback.requested_time
        end = rollback.completion_time or instants.next_time(newest)
        if found is None:
            yield Gap(first=_ALWAYS, end=end, cause=f"what {rollback} rolls back is not known")
        elif found.may_have_completed and not _has_completed(timeline, found.target):
            yield Gap(
                first=found.target,
                end=end,
                cause=f"{rollback} rolled back what began at {found.target}, and may have "
                "completed before",
            )


def _target(storage: Storage, rollback: instants.Instant) -> plans.TakenBack | None:
    """Return what a rollback on the timeline takes back; None if that is not known."""
    try:
        return contents.read_taken_back(storage, rollback)
    except errors.NotFoundError:
        if active.listed(storage).find(rollback.requested_time) is not None:
            return None
        # It was archived just now, or withdrawn.
        old = archived.ArchivedTimeline(storage).contents_of({rollback.requested_time})
        nothing = plans.TakenBack(target=rollback.requested_time, may_have_completed=False)
        return next(map(_archived_target, old), nothing)
    except (errors.FormatError, errors.UnsupportedError):
        return None


def _archived_target(rollback: archived.ArchivedInstant) -> plans.TakenBack | None:
    try:
        return rollback_avro.decode_taken_back_done(rollback.metadata, str(rollback.instant))
    except (errors.FormatError, errors.UnsupportedError):
        return None


def _has_completed(timeline: active.ActiveTimeline, requested_time: instants.InstantTime) -> bool:
    """Return whether an instant is part of the table, as one is that completed after all."""
    found = timeline.find(requested_time)
    if found is not None:
        return found.is_completed
    return timeline.archive.completion_time(requested_time) is not None


def _archived_since(
    storage: Storage, since: instants.InstantTime
) -> tuple[archived.ArchivedInstant, ...]:
    """Return the archived cleans and rollbacks that were requested after a time, newest first."""
    if all(each.last <= since for each in archived.newest_files(storage)):
        return ()
    newest_first = archived.ArchivedTimeline(storage).newest_first()
    later = itertools.takewhile(lambda each: each.instant.requested_time > since, newest_first)
    return tuple(each for each in later if each.instant.action in _LEAVING_GAPS)


def _of_cleans(
    storage: Storage,
    snapshot: snapshots.Snapshot,
    moment: moments.Moment,
    old: Sequence[archived.ArchivedInstant],
) -> Iterator[Gap]:
    deletions = list(_deletions(storage, snapshot.timeline, moment.time, old))
    cleans = {
        path: each.clean
        for each in sorted(deletions, key=lambda each: each.clean.requested_time, reverse=True)
        for path in each.paths or ()
    }
    for each in deletions:
        if each.paths is None:
            yield Gap(
                first=_ALWAYS,
                end=each.clean.requested_time,
                cause=f"what {each.clean} deletes is not known",
            )
    if not cleans:
        return
    there = frozenset(
        each.path
        for partition_path in {path.rpartition("/")[0] for path in cleans}
        for each in snapshot.listing.files(partition_path)
    )
    whole = replace(
        snapshot,
        listing=listing.With(snapshot.listing, cleans.keys() - there),
        compactions={},
        replaced={},
    )
    time_of = _times(snapshot.timeline, moment.rule)
    replacements = _replacements(storage, snapshot, moment.rule)
    for partition_path in sorted({path.rpartition("/")[0] for path in cleans}):
        for slices in whole.view.slices(partition_path):
            yield from _of_group(slices, cleans, time_of, replacements)


def _of_group(
    slices: tuple[files.FileSlice, ...],
    cleans: Mapping[str, instants.Instant],
    time_of: Callable[[instants.InstantTime], instants.InstantTime | None],
    replacements: Mapping[files.FileGroupId, instants.InstantTime],
) -> Iterator[Gap]:
    """Yield a gap for each file of a file group that a clean deleted or is going to delete.

    Args:
        slices: All that there were, newest first.
        cleans: The first clean that deletes a file, by the file's path.
        time_of: Returns when a write was there; None if that is not known.
        replacements: When file groups were retired.
    """
    newer: instants.InstantTime | None = replacements.get(slices[0].group)
    for each in slices:
        for data_file in each.data_files:
            clean = cleans.get(data_file.path)
            if clean is None:
                continue
            # It deletes nothing that was replaced later.
            end = min(newer or clean.requested_time, clean.requested_time)
            first = time_of(data_file.instant_time) or data_file.instant_time
            if first < end:
                yield Gap(
                    first=first,
                    end=end,
                    cause=f"{clean} deleted {data_file.path}",
                    group=each.group,
                )
        if each.base_file is not None:
            newer = time_of(each.base_instant_time) or each.base_instant_time


def _times(
    timeline: active.ActiveTimeline, rule: moments.Rule
) -> Callable[[instants.InstantTime], instants.InstantTime | None]:
    if rule is moments.Rule.REQUESTED:
        return lambda requested_time: requested_time
    return timeline.completion_time


def _replacements(
    storage: Storage, snapshot: snapshots.Snapshot, rule: moments.Rule
) -> Mapping[files.FileGroupId, instants.InstantTime]:
    if rule is moments.Rule.COMPLETION:
        return snapshot.replaced
    requested = {
        str(each.completion_time): each.requested_time
        for each in snapshot.timeline.completed_writes
    }
    return {group: requested[time] for group, time in snapshot.replaced.items()}


def _deletions(
    storage: Storage,
    timeline: active.ActiveTimeline,
    since: instants.InstantTime,
    archived_since: Sequence[archived.ArchivedInstant],
) -> Iterator[_Deletion]:
    """Yield what cleans deleted that were requested after a time, in any order."""
    seen = set()
    for each in timeline.instants:
        if each.action is not instants.Action.CLEAN or each.requested_time <= since:
            continue
        found = _deletion(storage, each)
        if found is not None:
            seen.add(each.requested_time)
            yield found
    for old in archived_since:
        if old.instant.action is instants.Action.CLEAN and old.instant.requested_time not in seen:
            paths = None
            if old.metadata:
                paths = clean_avro.decode_metadata(old.metadata, str(old.instant)).paths
            yield _Deletion(clean=old.instant, paths=paths)


def _deletion(storage: Storage, clean: instants.Instant) -> _Deletion | None:
    """Return what a clean on the timeline deletes; None if it was withdrawn or archived since."""
    try:
        if clean.is_completed:
            paths = contents.read_clean(storage, clean).paths
            if paths:
                return _Deletion(clean=clean, paths=paths)
        # Of a completed one, too: a crash may leave its file without content.
        return _Deletion(clean=clean, paths=contents.read_clean_plan(storage, clean).paths)
    except errors.NotFoundError:
        if active.listed(storage).find(clean.requested_time) is None:
            return None
        return _Deletion(clean=clean, paths=None)
    except (errors.FormatError, errors.UnsupportedError):
        return _Deletion(clean=clean, paths=None)


def _of_trimming(
    storage: Storage, snapshot: snapshots.Snapshot, moment: moments.Moment
) -> Iterator[Gap]:
    """Yield the gap before the oldest instant that is known, if there may have been older ones.

    Of a table without an archive all instants are known. The archive may have been trimmed; then
    it began with a write that found file groups there, or data files are older.
    """
    archive = archived.ArchivedTimeline(storage)
    oldest = archive.oldest_write()
    if oldest is None or moment.time >= oldest.requested_time:
        return
    time = oldest.requested_time
    if not _is_first(archive, time) or any(
        each.instant_time < time
        for partition_path in snapshot.listing.partitions()
        for each in snapshot.listing.files(partition_path)
    ):
        yield Gap(first=_ALWAYS, end=time, cause=f"the history before {time} was trimmed")


def _is_first(archive: archived.ArchivedTimeline, time: instants.InstantTime) -> bool:
    """Return whether an archived write found no file groups; not if it was trimmed just now."""
    for each in archive.contents_of({time}):
        commit = timeline_avro.decode_commit(each.metadata, str(each.instant))
        return all(stat.prev_commit in {_NEW_GROUP, time} for stat in commit.stats)
    return False
