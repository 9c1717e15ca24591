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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hoodie.filegroup import slicing, snapshots
from hoodie.maintenance import consumers as declared_consumers
from hoodie.maintenance.cleaning import retention as retentions
from hoodie.model import files, instants, plans
from hoodie.timeline import active

EMPTY_AFTER = 20
"""A clean that deletes nothing is recorded once so many commits are behind its bound that the last
one had before it: the next one begins there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A file that may go.

    Attributes:
        data_file: The file.
        replaced_at: Completion time of what replaced it.
    """

    data_file: files.BaseFile | files.LogFile
    replaced_at: instants.InstantTime


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

    @property
    def is_worth_recording(self) -> bool:
        """Whether it deletes something, or moves the start of the next clean by enough."""
        return bool(self.removals) or self._commits_passed >= EMPTY_AFTER

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
            names.setdefault(each.data_file.group.partition_path, []).append(each.data_file.name)
        writes = self.timeline.completed_writes
        savepoints = {plans.SAVEPOINTS_KEY: ",".join(self.savepoints)} if self.savepoints else {}
        return plans.CleanPlan(
            policy=self.policy.value,
            earliest_retained=self.earliest_retained,
            last_completed=max((each.requested_time for each in writes), default=None),
            file_names={path: tuple(sorted(found)) for path, found in sorted(names.items())},
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
    partitions: Iterable[str],
    retention: retentions.Retention,
    hold: retentions.Hold,
) -> list[Removal]:
    """Return all files of some partitions that may go, savepoints left aside.

    Args:
        snapshot: The table.
        partitions: Their paths.
        retention: How much stays.
        hold: The bound.
    """
    view, completion_time = snapshot.view, snapshot.timeline.completion_time
    found: list[Removal] = []
    for partition_path in partitions:
        found += _retired(snapshot, partition_path, hold)
        change_data: dict[files.FileGroupId, list[files.LogFile]] = {}
        for log_file in snapshot.listing.change_data(partition_path):
            change_data.setdefault(log_file.group, []).append(log_file)
        for slices in view.slices(partition_path):
            gone = [
                (each, replaced_at)
                for each, replaced_at in replaced(slices, completion_time, retention.newer_kept)
                if replaced_at < hold.time
            ]
            for each, replaced_at in gone:
                found += [
                    Removal(data_file=file, replaced_at=replaced_at) for file in each.data_files
                ]
            if gone and slices[0].group in change_data:
                logs = change_data[slices[0].group]
                found += _of_change_data(logs, slices, gone, completion_time)
    return found


def _of_change_data(
    log_files: Iterable[files.LogFile],
    slices: Sequence[files.FileSlice],
    gone: Iterable[tuple[files.FileSlice, instants.InstantTime]],
    completion_time: slicing.CompletionTime,
) -> Iterable[Removal]:
    """Yield the change data of slices that go: its log files belong to slices as others do (Q1).

    Args:
        log_files: Of change data, of one file group.
        slices: Of the file group, newest first.
        gone: Those that go, each with the time at which it was replaced.
        completion_time: Files of what is not known to have completed stay.
    """
    replaced_at = {each.base_instant_time: time for each, time in gone}
    for log_file in log_files:
        completed = completion_time(log_file.instant_time)
        if completed is None:
            continue
        starts = (each.base_instant_time for each in slices)
        start = next((each for each in starts if each <= completed), None)
        if start in replaced_at:
            yield Removal(data_file=log_file, replaced_at=replaced_at[start])


def replaced(
    slices: Sequence[files.FileSlice],
    completion_time: slicing.CompletionTime,
    newer_kept: int,
) -> list[tuple[files.FileSlice, instants.InstantTime]]:
    """Return the slices of a file group that were replaced, each with the time of that.

    Args:
        slices: Newest first.
        completion_time: Of what is not known to have completed none is replaced.
        newer_kept: The n-th newer base file replaces a slice.
    """
    found: list[tuple[files.FileSlice, instants.InstantTime]] = []
    newer: list[instants.InstantTime] = []
    for each in slices:
        if len(newer) >= newer_kept:
            found.append((each, newer[newer_kept - 1]))
        if each.base_file is not None:
            completed = completion_time(each.base_instant_time)
            if completed is not None:
                bisect.insort(newer, completed)
    return found


def capped(
    found: Sequence[Removal], hold: retentions.Hold, files_max: int
) -> tuple[list[Removal], retentions.Hold]:
    """Return the removals of one clean and its bound: those that were replaced first.

    What was replaced at one time goes together, so that the bound separates what is left.
    """
    if len(found) <= files_max:
        return list(found), hold
    ordered = sorted(found, key=lambda each: each.replaced_at)
    first_out = ordered[files_max].replaced_at
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


def in_use(plan: plans.CleanPlan, snapshot: snapshots.Snapshot) -> frozenset[str]:
    """Return the paths that a plan deletes though a read of the table as it is needs them."""
    view = snapshot.view
    needed = {
        file.path
        for partition_path in plan.file_names
        for each in view.latest_slices(partition_path)
        for file in each.data_files
    }
    return plan.paths & needed


def held(
    plan: plans.CleanPlan, snapshot: snapshots.Snapshot, hold: retentions.Hold
) -> frozenset[str]:
    """Return the paths of a plan's files that are there and were not replaced before a hold."""
    listing = snapshot.listing
    there = {
        each.path
        for path in plan.file_names
        for each in (*listing.files(path), *listing.change_data(path))
    }
    whatever_stays = retentions.Retention(retained=1)
    gone = {
        each.data_file.path for each in removals(snapshot, plan.file_names, whatever_stays, hold)
    }
    return (plan.paths & there) - gone


def _retired(
    snapshot: snapshots.Snapshot, partition_path: str, hold: retentions.Hold
) -> Iterable[Removal]:
    """Yield the files of file groups that a replace commit retired before the bound."""
    listing = snapshot.listing
    for data_file in (*listing.files(partition_path), *listing.change_data(partition_path)):
        retired_at = snapshot.replaced.get(data_file.group)
        if retired_at is None or retired_at >= hold.time or data_file.instant_time > retired_at:
            continue
        if snapshot.committed.is_committed(data_file.instant_time):
            yield Removal(data_file=data_file, replaced_at=retired_at)
