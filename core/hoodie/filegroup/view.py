"""The file-system view: a table's file slices as one timeline and one listing show them.

A view is of one moment: it reads neither again. The listing must be made after the timeline was
read, then every file of a completed write is in it. Source: `AbstractTableFileSystemView.java`;
format.md: Visibility.

One deviation, in which Apache Hudi hides rows: its non-blocking writers write into the one file
group that a bucket has for them also after a replace commit has retired it. Such files are shown.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, Self, TypeVar

from hoodie import deferred
from hoodie.filegroup import listing, slicing
from hoodie.model import files, instants
from hoodie.timeline import active

with deferred.imports():
    from hoodie.model import plans

DataFile = TypeVar("DataFile", files.BaseFile, files.LogFile)


class WithoutOrphans(Protocol):
    """Tells which files of a file group count."""

    def __call__(self, data_files: Iterable[DataFile], /) -> Iterable[DataFile]:
        """Return those of base files, at most one an instant, or of log files."""
        ...


def _all_of(data_files: Iterable[DataFile], /) -> Iterable[DataFile]:
    return data_files


def _requested_until(
    slices: Sequence[files.FileSlice], time: instants.InstantTime
) -> tuple[files.FileSlice, ...]:
    """Return slices without those, and the log files, of instants that were requested later."""
    return tuple(
        replace(each, log_files=tuple(log for log in each.log_files if log.instant_time <= time))
        for each in slices
        if each.base_instant_time <= time
    )


def compactions_by_group(
    pending_compactions: Mapping[instants.InstantTime, plans.CompactionPlan],
) -> Mapping[files.FileGroupId, Sequence[instants.InstantTime]]:
    """Return the pending compactions of each file group that is in a plan."""
    found: dict[files.FileGroupId, list[instants.InstantTime]] = {}
    for instant_time, plan in pending_compactions.items():
        for operation in plan.operations:
            found.setdefault(operation.group, []).append(instant_time)
    return found


class _GroupFiles(NamedTuple):
    group: files.FileGroupId
    base_files: list[files.BaseFile]
    log_files: list[files.LogFile]


class FileSystemView:
    """The file slices of a table."""

    def __init__(
        self,
        timeline: active.ActiveTimeline,
        table_listing: listing.Listing,
        is_committed: slicing.IsCommitted,
        pending_compactions: Mapping[instants.InstantTime, plans.CompactionPlan],
        replaced: Mapping[files.FileGroupId, instants.InstantTime],
        without_orphans: WithoutOrphans = _all_of,
    ) -> None:
        """Look at a table.

        Args:
            timeline: Tells when files completed.
            table_listing: Made after the timeline was read.
            is_committed: Tells which files count, by that timeline.
            pending_compactions: The plan of every pending compaction of the timeline.
            replaced: When each file group that a completed replace commit retired was retired. Of
                such a group only files of writes that began later are shown.
            without_orphans: Leaves out files that the commit of their instant does not name.
        """
        self._timeline = timeline
        self._listing = table_listing
        self._is_committed = is_committed
        self._replaced = replaced
        self._without_orphans = without_orphans
        self._was_upgraded = False
        self._requested_until: instants.InstantTime | None = None
        self._compactions = compactions_by_group(pending_compactions)

    def requested_until(self, time: instants.InstantTime) -> Self:
        """Return a view without slices and log files of instants that were requested later.

        They are left out once slices are formed, as by readers of Apache Hudi that read as of a
        time (`getLatestMergedFileSlicesBeforeOrOn`).
        """
        found = copy.copy(self)
        found._requested_until = time
        return found

    def of_upgraded_table(self) -> Self:
        """Return a view of a table that was made as one of version 6.

        Its log files may be named by the base file that they belong to.
        """
        found = copy.copy(self)
        found._was_upgraded = True
        return found

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        return self._listing.partitions()

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of a few paths are partitions, sorted; the others are not listed for it."""
        return self._listing.partitions_among(paths)

    def slices(self, partition_path: str) -> list[tuple[files.FileSlice, ...]]:
        """Return the slices of each file group, newest first, empty ones of compactions included.

        Sorted by file id. Uncommitted files are left out, and groups that have no other.
        """
        return [slices for _, slices in self._groups(partition_path)]

    def latest_slices(self, partition_path: str) -> list[files.FileSlice]:
        """Return what a snapshot read reads of each file group, sorted by file id.

        Where a compaction is pending that is the slice it will merge and the log files behind it.
        """
        return [
            merged
            for _, slices in self._groups(partition_path)
            if (merged := self.latest_of(slices)) is not None
        ]

    def slices_for_compaction(
        self,
        instant_time: instants.InstantTime,
        partitions: Collection[str] | None = None,
    ) -> list[files.FileSlice]:
        """Return the slices that a compaction planned at a time may merge.

        Log files that completed before that time count, strictly, so that every other one falls
        behind the barrier. File groups with a pending compaction, and slices that have no log file
        left, are left out.

        Args:
            instant_time: The compaction's requested time, above all completion times seen.
            partitions: Those to look at; None for all.
        """
        paths = self.partitions() if partitions is None else self._partitions_among(partitions)
        return [
            planned
            for partition_path in paths
            for _, slices in self._groups(partition_path)
            if (planned := self.compactable_of(slices, instant_time)) is not None
        ]

    def _partitions_among(self, paths: Collection[str]) -> list[str]:
        return [path for path in sorted(paths) if self._listing.is_partition(path)]

    def latest_of(self, slices: tuple[files.FileSlice, ...]) -> files.FileSlice | None:
        """Return what `latest_slices` has of a file group, from its `slices`; None for nothing."""
        return self._merged(slices[0].group, slices)

    def compactable_of(
        self, slices: tuple[files.FileSlice, ...], instant_time: instants.InstantTime
    ) -> files.FileSlice | None:
        """Return what `slices_for_compaction` has of a file group, from its `slices`."""
        if slices[0].group in self._compactions:
            return None
        planned = self._completed_before(slices[0], instant_time)
        return planned if planned.log_files else None

    def slices_behind_compactions(
        self, instant_time: instants.InstantTime
    ) -> list[files.FileSlice]:
        """Return what follows pending compactions: slices of their file groups with log files.

        Log files count as in `slices_for_compaction`.
        """
        return [
            behind
            for partition_path in sorted({group.partition_path for group in self._compactions})
            for group, slices in self._groups(partition_path)
            if group in self._compactions
            and slices[0].base_instant_time in self._compactions[group]
            and (behind := self._completed_before(slices[0], instant_time)).log_files
        ]

    def slices_below(self, pending_compaction: instants.InstantTime) -> list[files.FileSlice]:
        """Return the slice that a pending compaction replaces, of each file group in its plan."""
        found = []
        for partition_path in self.partitions():
            for group, slices in self._groups(partition_path):
                if pending_compaction in self._compactions.get(group, ()):
                    below = [each for each in slices if each.base_instant_time < pending_compaction]
                    found += below[:1]
        return found

    def _groups(
        self, partition_path: str
    ) -> Iterator[tuple[files.FileGroupId, tuple[files.FileSlice, ...]]]:
        # By file id: comparing and hashing texts takes a fraction of what it does for their groups.
        groups: dict[str, _GroupFiles] = {}
        for data_file in self._listing.files(partition_path):
            group = data_file.group
            if self._replaced and data_file.instant_time <= self._replaced.get(group, ""):
                continue
            found = groups.get(group.file_id)
            if found is None:
                found = groups[group.file_id] = _GroupFiles(group, [], [])
            match data_file:
                case files.BaseFile():
                    found.base_files.append(data_file)
                case files.LogFile():
                    found.log_files.append(data_file)
        for file_id in sorted(groups):
            group, base_files, log_files = groups[file_id]
            slices = slicing.slices_of(
                group,
                self._counting(base_files),
                self._counting(log_files),
                self._timeline.completion_time,
                self._is_committed,
                self._compactions.get(group, ()) if self._compactions else (),
            )
            slices = self._adjusted(slices)
            for each in slices:
                if not each.is_empty:
                    yield group, slices
                    break

    def _adjusted(self, slices: tuple[files.FileSlice, ...]) -> tuple[files.FileSlice, ...]:
        if self._was_upgraded:
            slices = tuple(replace(each, may_keep_deletes=False) for each in slices)
        if self._requested_until is not None:
            slices = _requested_until(slices, self._requested_until)
        return slices

    def _counting(self, found: list[DataFile]) -> Iterable[DataFile]:
        return self._without_orphans(found) if len(found) > 1 else found

    def _merged(
        self, group: files.FileGroupId, slices: tuple[files.FileSlice, ...]
    ) -> files.FileSlice | None:
        """Return the newest slice, merged with the ones below while a compaction is pending."""
        if len(slices) == 1:
            return None if slices[0].is_empty else slices[0]
        merged = slices[: slicing.merged_count(slices, self._compactions.get(group, ()))]
        lowest = merged[-1]
        log_files = itertools.chain.from_iterable(each.log_files for each in merged)
        in_order = files.in_merge_order(log_files, lowest.base_instant_time)
        found = replace(lowest, log_files=in_order)
        return None if found.is_empty else found

    def _completed_before(
        self, newest: files.FileSlice, instant_time: instants.InstantTime
    ) -> files.FileSlice:
        log_files = []
        for log in newest.log_files:
            completed = self._timeline.completion_time(log.instant_time)
            if completed is not None and completed < instant_time:
                log_files.append(log)
        return replace(newest, log_files=tuple(log_files))
