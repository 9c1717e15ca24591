"""The active timeline: what the files in `.hoodie/timeline/` say, as one value.

Terms:
    comparable action  the action's completed name: a compaction and its commit are one instant
    furthest state     an instant's earlier files stay when it moves on; the highest state counts
    start              requested time of the first write that no savepoint keeps: whatever is older
                       was archived, and Apache Hudi counts it as completed without looking

A timeline is read once and never changes; who needs a newer one lists again. Source:
`TimelineLayout.java`, `BaseTimelineV2.java`, `CompletionTimeQueryViewV2.java`; format-timeline 2.1,
4.4, 5.3.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from hoodie.format import instant_names

# By name: a timeline's own `instants` would hide the module.
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.storage.protocol import Storage
from hoodie.timeline import archived

DIRECTORY = ".hoodie/timeline"

_STATES = tuple(State)


class CompletionTimes(Protocol):
    """Knows completion times of archived instants."""

    def completion_time(self, requested_time: InstantTime) -> InstantTime | None:
        """Return the completion time; None for an instant that was never archived."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveTimeline:
    """The instants of one listing. Make it with `load` or `from_files`.

    Attributes:
        instants: One for each requested time and comparable action, in its furthest state; sorted
            by requested time.
        files: Every instant and state that there is a file for, by requested time.
        duplicates: Completed files of instants that have more than one, which no protocol allows;
            the latest completion counts, as it does for Apache Hudi's archive.
        start: Of the active timeline; None when it holds no write.
        archive: Completion times of what is older, looked up on demand.
    """

    instants: tuple[Instant, ...]
    files: tuple[Instant, ...]
    duplicates: tuple[tuple[Instant, ...], ...] = ()
    start: InstantTime | None
    archive: CompletionTimes = field(compare=False, repr=False)
    write_completion_times: Mapping[InstantTime, InstantTime] = field(compare=False, repr=False)

    @property
    def completed_writes(self) -> tuple[Instant, ...]:
        """Commits, delta commits and replace commits in the order of their completion."""
        writes = [each for each in self.instants if each.is_completed and each.action.is_write]
        return tuple(sorted(writes, key=_completion_order))

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
        """Return whether a write of that time, if there was one, is on this timeline no more."""
        return self.start is not None and requested_time < self.start

    def is_committed(self, requested_time: InstantTime) -> bool:
        """Return whether data files that carry this time count (format-timeline 5.3).

        They do when the write completed, or is older than the active timeline; but for what a
        rollback took back, of which `filegroup.snapshots` knows.
        """
        return requested_time in self.write_completion_times or self.is_archived(requested_time)

    @property
    def greatest(self) -> Instant | None:
        """The instant with the greatest time of all, requested or completion."""
        return max(self.instants, key=latest_time, default=None)

    @property
    def greatest_time(self) -> InstantTime | None:
        """The greatest of all requested and completion times; None for an empty timeline."""
        return None if self.greatest is None else latest_time(self.greatest)


def load(storage: Storage) -> ActiveTimeline:
    """Read the active timeline; one listing.

    Raises:
        UnsupportedError: It holds a completed instant of timeline layout 1.
    """
    paths = tuple(info.path for info in storage.list(DIRECTORY))
    return replace(_from_paths(paths), archive=archived.ArchivedTimeline(storage))


@functools.lru_cache(maxsize=8)
def _from_paths(paths: tuple[str, ...]) -> ActiveTimeline:
    """Return the timeline of one listing; often nothing has happened since the one before."""
    parsed = (instant_names.parse(path.removeprefix(f"{DIRECTORY}/")) for path in paths)
    return from_files(instant for instant in parsed if instant is not None)


def from_files(files: Iterable[Instant], archive: CompletionTimes | None = None) -> ActiveTimeline:
    """Return the timeline whose files are these instants and states.

    Args:
        files: Each once, in any order.
        archive: Knows older instants; none were archived if it is not given.
    """
    ordered = tuple(sorted(files, key=_file_order))
    groups: dict[tuple[str, str], list[Instant]] = {}
    for instant in ordered:
        key = (instant.requested_time, instant.action.completed.value)
        groups.setdefault(key, []).append(instant)
    furthest = tuple(group[-1] for _, group in sorted(groups.items()))
    completed = [[each for each in group if each.is_completed] for group in groups.values()]
    return ActiveTimeline(
        instants=furthest,
        files=ordered,
        duplicates=tuple(tuple(each) for each in completed if len(each) > 1),
        start=_start(furthest),
        archive=archive or _NoArchive(),
        write_completion_times={
            each.requested_time: each.completion_time
            for each in furthest
            if each.completion_time is not None and each.action.is_write
        },
    )


class _NoArchive:
    """The archive of a table that has none."""

    def completion_time(self, requested_time: InstantTime) -> InstantTime | None:
        del requested_time
        return None


def _start(furthest: Iterable[Instant]) -> InstantTime | None:
    """Return the first write's requested time, passing by what savepoints keep from archiving."""
    savepointed = {each.requested_time for each in furthest if each.action is Action.SAVEPOINT}
    times = (each.requested_time for each in furthest if each.action.is_write)
    return next((time for time in times if time not in savepointed), None)


def _file_order(instant: Instant) -> tuple[str, int, str]:
    return (
        instant.requested_time,
        _STATES.index(instant.state),
        instant.completion_time or "",
    )


def _completion_order(instant: Instant) -> tuple[str, str]:
    return (instant.completion_time or "", instant.requested_time)


def latest_time(instant: Instant) -> InstantTime:
    """Return an instant's completion time, or its requested time while it has none."""
    return max(instant.requested_time, instant.completion_time or instant.requested_time)
