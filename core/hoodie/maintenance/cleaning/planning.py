"""Which files a clean deletes: a pure function of a snapshot, a retention and what is protected.

A file slice goes when enough newer ones have a base file that completed before the bound
(`retention`). Which log files belong to a slice is decided by completion time (`slicing`), so that
one that was requested before a base file and completed after it stays with that base file. Of a
file group that a replace commit retired all goes that it retired. Files of instants that are not
committed are never touched: failed writes are taken back by rollbacks.

A clean looks where it must. What the last clean left was replaced at its bound or later, so only
partitions are listed that commits since then have touched; the whole table the first time, where
file versions are counted, where the archive has gone past the last clean's bound, and after a
savepoint was deleted. Source: `CleanPlanner.java` (1.2.0); protocol.md: Cleaning.
"""

import bisect
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hoodie.filegroup import group_names, slicing, snapshots
from hoodie.maintenance import consumers as declared_consumers
from hoodie.maintenance.cleaning import retention as retentions
from hoodie.model import files, instants, plans
from hoodie.timeline import active

Slice = TypeVar("Slice", bound=slicing.Slice)

EMPTY_AFTER = 20
"""A clean that deletes nothing is recorded once so many commits are behind its bound that the last
one had before it: the next one begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files of a partition that may go, which were replaced at one time.

    Attributes:
        partition_path: Of the partition.
        replaced_at: Completion time of what replaced them.
        names: Bare names.
    """

    partition_path: str
    replaced_at: instants.InstantTime
    names: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """The paths of the files, below the table's root."""
        return [files.join(self.partition_path, name) for name in self.names]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a clean would delete.

    Attributes:
        timeline: On which it was decided.
        clock: What time it was.
        policy: By which.
        hold: The bound, and what holds cleaning back there.
        removals: The files.
        earliest_retained: As in `plans.CleanPlan`.
        savepoints: Requested times of the savepoints that were seen.
        commits_seen: How many commits were looked at; None where the whole table was.
        partitions_seen: How many partitions were looked at.
        left_out: How many files more might go, and stay for the next clean.
        protected: How many files stay because savepoints name them.
        consumers: The declared ones.
        sizes: The lengths in bytes of the table's files, by path; empty unless asked for.
    """

    timeline: active.ActiveTimeline
    clock: retentions.Clock
    policy: retentions.Policy
    hold: retentions.Hold
    removals: tuple[Removal, ...]
    earliest_retained: instants.Instant | None
    savepoints: tuple[instants.InstantTime, ...]
    commits_seen: int | None
    partitions_seen: int
    left_out: int
    protected: int
    consumers: tuple[declared_consumers.Consumer, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_worth_recording(self) -> bool:
        """Whether it deletes something, or moves the start of the next clean by enough."""
        return bool(self.removals) or self._commits_passed >= EMPTY_AFTER

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the files, below the table's root."""
        return frozenset(path for each in self.removals for path in each.paths)

    def sizes_by_partition(self) -> dict[str, list[int]]:
        """Return the sizes of the files, by partition; one that was made with sizes has them."""
        found: dict[str, list[int]] = {}
        for each in sorted(self.removals, key=lambda each: each.partition_path):
            found.setdefault(each.partition_path, []).extend(
                self.sizes[path] for path in each.paths
            )
        return found

    @property
    def _commits_passed(self) -> int:
        """How many commits the next clean need not look at, if this one is recorded."""
        if self.earliest_retained is None:
            return 0
        if self.commits_seen is not None:
            return self.commits_seen
        first = self.earliest_retained.requested_time
        return sum(each.requested_time < first for each in self.timeline.completed_writes)

    def plan(self, extra: Mapping[str, str]) -> plans.CleanPlan:
        """Return the plan, with extra metadata."""
        names: dict[str, list[str]] = {}
        for each in self.removals:
            names.setdefault(each.partition_path, []).extend(each.names)
        writes = self.timeline.completed_writes
        savepoints = {plans.SAVEPOINTS_KEY: ",".join(self.savepoints)} if self.savepoints else {}
        return plans.CleanPlan(
            policy=self.policy.value,
            earliest_retained=self.earliest_retained,
            last_completed=max((each.requested_time for each in writes), default=None),
            file_names={path: tuple(sorted({*found})) for path, found in sorted(names.items())},
            extra={**extra, **savepoints, plans.BOUND_KEY: self.hold.time},
        )


def commits_since(
    timeline: active.ActiveTimeline,
    last: plans.CleanDone | None,
    savepoints: Collection[instants.InstantTime],
    retention: retentions.Retention,
    hold: retentions.Hold,
) -> list[instants.Instant] | None:
    """Return the commits whose partitions a clean has to look at; None for the whole table.

    Args:
        timeline: Of the table.
        last: The last completed clean.
        savepoints: Requested times of those that there are.
        retention: How much stays.
        hold: The bound.
    """
    start = last.earliest_retained if last is not None else None
    if last is None or start is None or retention.policy is retentions.Policy.VERSIONS:
        return None
    if timeline.start is None or start < timeline.start:
        return None
    if set(last.savepoints) - set(savepoints):
        return None
    return [
        each
        for each in timeline.completed_writes
        if each.requested_time >= start and (each.completion_time or "") < hold.time
    ]


def removals(
    snapshot: snapshots.Snapshot,
    names: group_names.TableNames,
    partitions: Iterable[str],
    retention: retentions.Retention,
    hold: retentions.Hold,
) -> list[Removal]:
    """Return all files of some partitions that may go, savepoints left aside.

    Args:
        snapshot: The table.
        names: Of its files, listed since the snapshot was taken.
        partitions: Their paths.
        retention: How much stays.
        hold: The bound.
    """
    view = group_names.NamesView(snapshot)
    completion_time = snapshot.timeline.completion_time
    found: list[Removal] = []
    for partition_path in partitions:
        by_time: dict[instants.InstantTime, list[str]] = {}
        groups = names.groups(partition_path)
        for retired_at, retired in _retired(snapshot, groups, hold):
            by_time.setdefault(retired_at, []).extend(retired)
        for alike in view.alike(groups):
            gone = [
                (each, replaced_at)
                for each, replaced_at in replaced(
                    alike.slices, completion_time, retention.newer_kept
                )
                if replaced_at < hold.time
            ]
            for each, replaced_at in gone:
                by_time.setdefault(replaced_at, []).extend(alike.names_of(each))
            if gone:
                for replaced_at, name in _of_change_data(alike, gone, completion_time):
                    by_time.setdefault(replaced_at, []).append(name)
        found += [
            Removal(partition_path=partition_path, replaced_at=time, names=tuple(names_then))
            for time, names_then in by_time.items()
            if names_then
        ]
    return found


def _of_change_data(
    alike: group_names.AlikeGroups,
    gone: Iterable[tuple[slicing.InstantsOfSlice, instants.InstantTime]],
    completion_time: slicing.CompletionTime,
) -> Iterable[tuple[instants.InstantTime, str]]:
    """Yield the change data of slices that go: its log files belong to slices as others do (Q1).

    Args:
        alike: File groups.
        gone: Their slices that go, each with the time at which it was replaced.
        completion_time: Files of what is not known to have completed stay.
    """
    replaced_at = {each.base_instant_time: time for each, time in gone}
    for group in alike.groups:
        for instant_time, names in group.change_data.items():
            completed = completion_time(instant_time)
            if completed is None:
                continue
            starts = (each.base_instant_time for each in alike.slices)
            start = next((each for each in starts if each <= completed), None)
            if start in replaced_at:
                for name in names:
                    yield replaced_at[start], name


def replaced(
    slices: Sequence[Slice],
    completion_time: slicing.CompletionTime,
    newer_kept: int,
) -> list[tuple[Slice, instants.InstantTime]]:
    """Return the slices of a file group that were replaced, each with the time of that.

    Args:
        slices: Newest first.
        completion_time: Of what is not known to have completed none is replaced.
        newer_kept: The n-th newer base file replaces a slice.
    """
    found: list[tuple[Slice, instants.InstantTime]] = []
    newer: list[instants.InstantTime] = []
    for each in slices:
        if len(newer) >= newer_kept:
            found.append((each, newer[newer_kept - 1]))
        if each.has_base:
            completed = completion_time(each.base_instant_time)
            if completed is not None:
                bisect.insort(newer, completed)
    return found


def without(found: Iterable[Removal], paths: Collection[str]) -> list[Removal]:
    """Return removals without some files."""
    if not paths:
        return list(found)
    left = []
    for each in found:
        names = [name for name in each.names if files.join(each.partition_path, name) not in paths]
        if names:
            left.append(replace(each, names=tuple(names)))
    return left


def file_count(found: Iterable[Removal]) -> int:
    """Return how many files removals have."""
    return sum(len(each.names) for each in found)


def capped(
    found: Sequence[Removal], hold: retentions.Hold, files_max: int
) -> tuple[list[Removal], retentions.Hold]:
    """Return the removals of one clean and its bound: those that were replaced first.

    What was replaced at one time goes together, so that the bound separates what is left.
    """
    if file_count(found) <= files_max:
        return list(found), hold
    ordered = sorted(found, key=lambda each: each.replaced_at)
    counts = itertools.accumulate(len(each.names) for each in ordered)
    first_out = next(
        each.replaced_at for each, count in zip(ordered, counts, strict=True) if count > files_max
    )
    if first_out == ordered[0].replaced_at:
        later = (each.replaced_at for each in ordered if each.replaced_at > first_out)
        first_out = next(later, hold.time)
    kept = [each for each in ordered if each.replaced_at < first_out]
    if first_out == hold.time:
        return kept, hold
    reason = f"a clean deletes about {files_max} files at most"
    return kept, retentions.Hold(time=first_out, reason=reason)


def still_holds(
    proposal: Proposal,
    timeline: active.ActiveTimeline,
    hold: retentions.Hold,
    savepoints: Collection[instants.InstantTime],
) -> bool:
    """Return whether a proposal is right on a newer timeline, too.

    What was replaced stays replaced, so nothing else is to be looked at: not the bound moved back,
    no savepoint came or went, nothing that replaced something was taken back.

    Args:
        proposal: Decided before, without the lock.
        timeline: Read in the lock scope.
        hold: The bound by that timeline.
        savepoints: Of that timeline.
    """
    if hold.time < proposal.hold.time or set(savepoints) != set(proposal.savepoints):
        return False
    there = set(timeline.completed_writes)
    return all(
        each in there or timeline.is_archived(each.requested_time)
        for each in proposal.timeline.completed_writes
        if (each.completion_time or "") < proposal.hold.time
    )


def in_use(
    plan: plans.CleanPlan, snapshot: snapshots.Snapshot, names: group_names.TableNames
) -> frozenset[str]:
    """Return the paths that a plan deletes though a read of the table as it is needs them.

    Args:
        plan: Of a clean.
        snapshot: The table.
        names: Of its files, listed since the snapshot was taken.
    """
    view = group_names.NamesView(snapshot)
    found = []
    for partition_path, wanted in plan.file_names.items():
        needed: set[str] = set()
        for alike in view.alike(names.groups(partition_path)):
            merged = alike.slices[: alike.merged]
            for each in merged:
                needed.update(alike.names_of(each))
        found += [files.join(partition_path, name) for name in needed.intersection(wanted)]
    return frozenset(found)


def held(
    plan: plans.CleanPlan,
    snapshot: snapshots.Snapshot,
    names: group_names.TableNames,
    hold: retentions.Hold,
) -> frozenset[str]:
    """Return the paths of a plan's files that are there and were not replaced before a hold.

    Args:
        plan: Of a clean.
        snapshot: The table.
        names: Of its files, listed since the snapshot was taken.
        hold: Of a consumer.
    """
    there = {
        files.join(partition_path, name)
        for partition_path in plan.file_names
        for group in names.groups(partition_path)
        for name in group.names
    }
    whatever_stays = retentions.Retention(retained=1)
    gone = removals(snapshot, names, plan.file_names, whatever_stays, hold)
    return (plan.paths & there) - {path for each in gone for path in each.paths}


def _retired(
    snapshot: snapshots.Snapshot, groups: Iterable[group_names.GroupNames], hold: retentions.Hold
) -> Iterable[tuple[instants.InstantTime, tuple[str, ...]]]:
    """Yield the files of file groups that a replace commit retired before the bound."""
    for group in groups if snapshot.replaced else ():
        retired_at = snapshot.replaced.get(group.group)
        if retired_at is None or retired_at >= hold.time:
            continue
        for by_instant in group.kinds:
            for instant_time, names in by_instant.items():
                if instant_time <= retired_at and snapshot.committed.is_committed(instant_time):
                    yield retired_at, names
