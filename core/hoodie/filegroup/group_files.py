"""The files of single file groups as of many moments, however many others a table has.

Who steps from moment to moment asks for some file groups each time, of which the newest slice alone
matters. It begins with the newest base file that counts then: a log file that completed before that
was requested belongs to a slice below (`slicing`), and what came after the moment to none. So most
versions of a file group are left out by their times, without a look at each.

Source: RFC-66, "Pseudocode for New File Slicing".
"""

import bisect
from collections.abc import Collection
from dataclasses import dataclass, field

from hoodie.filegroup import listing, slicing
from hoodie.model import files, instants


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment, as files count.

    Attributes:
        time: Completion time up to which writes count, at most.
        is_committed: Whether those of an instant count.
    """

    time: instants.InstantTime
    is_committed: slicing.IsCommitted


@dataclass(slots=True)
class _Files:
    """The files of a file group.

    Attributes:
        base_files: By requested time.
        log_files: By completion time, or where that is not known first.
        base_times: Requested times of the base files.
        log_times: Completion times of the log files; empty where not known.
    """

    base_files: list[files.BaseFile] = field(default_factory=list)
    log_files: list[files.LogFile] = field(default_factory=list)
    base_times: list[str] = field(default_factory=list)
    log_times: list[str] = field(default_factory=list)

    def sort(self, completion_time: slicing.CompletionTime) -> None:
        """Put them into order, once all are there."""
        self.base_files.sort(key=lambda each: (each.instant_time, each.name))
        self.base_times = [each.instant_time for each in self.base_files]
        pairs = [(completion_time(each.instant_time) or "", each) for each in self.log_files]
        pairs.sort(key=lambda pair: (pair[0], pair[1].name))
        self.log_times = [time for time, _ in pairs]
        self.log_files = [each for _, each in pairs]

    def at(self, moment: Moment) -> list[listing.DataFile]:
        """Return those that the newest slice of a moment can have."""
        last = bisect.bisect_right(self.base_times, moment.time)
        while last and not moment.is_committed(self.base_files[last - 1].instant_time):
            last -= 1
        until = bisect.bisect_right(self.log_times, moment.time)
        if not last:
            return list(self.log_files[:until])
        barrier = self.base_files[last - 1].instant_time
        known = bisect.bisect_right(self.log_times, "")
        since = bisect.bisect_left(self.log_times, barrier, known)
        return [
            *self.base_files[bisect.bisect_left(self.base_times, barrier) : last],
            *self.log_files[:known],
            *self.log_files[since:until],
        ]


class GroupFiles:
    """Files by file group. A partition is looked through when it is first asked for."""

    def __init__(self, there: listing.Listing, completion_time: slicing.CompletionTime) -> None:
        """Take a listing, and what tells when instants completed."""
        self._there = there
        self._completion_time = completion_time
        self._known: dict[str, dict[files.FileGroupId, _Files]] = {}

    def at(
        self, groups: Collection[files.FileGroupId], moment: Moment
    ) -> dict[files.FileGroupId, list[listing.DataFile]]:
        """Return the files that the newest slices of file groups can have at a moment."""
        found = {}
        for group in groups:
            there = self._of(group.partition_path).get(group)
            if there is not None:
                found[group] = there.at(moment)
        return found

    def _of(self, partition_path: str) -> dict[files.FileGroupId, _Files]:
        known = self._known.get(partition_path)
        if known is None:
            known = self._known[partition_path] = {}
            for each in self._there.files(partition_path):
                of_group = known.setdefault(each.group, _Files())
                match each:
                    case files.BaseFile():
                        of_group.base_files.append(each)
                    case files.LogFile():
                        of_group.log_files.append(each)
            for of_group in known.values():
                of_group.sort(self._completion_time)
        return known


class OfGroups:
    """A listing that has some files alone."""

    def __init__(self, there: listing.Listing, found: Collection[listing.DataFile]) -> None:
        """Take the listing of all, and the files."""
        self._there = there
        self._files: dict[str, list[listing.DataFile]] = {}
        for each in sorted(found, key=lambda each: each.name):
            self._files.setdefault(each.group.partition_path, []).append(each)

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted."""
        return self._there.partitions()

    def files(self, partition_path: str) -> list[listing.DataFile]:
        """Return the files in a partition, sorted by name."""
        return self._files.get(partition_path, [])

    def change_data(self, partition_path: str) -> list[listing.ChangeDataFile]:
        """Return the log files of change data of a partition."""
        return self._there.change_data(partition_path)

    def is_partition(self, partition_path: str) -> bool:
        """Return whether a partition has its metadata file."""
        return self._there.is_partition(partition_path)

    def partitions_among(self, paths: Collection[str]) -> list[str]:
        """Return which of a few paths are partitions of the table, sorted."""
        return self._there.partitions_among(paths)

    def hashing_configs(self) -> list[str]:
        """Return the paths of the files with bucket counts by partition."""
        return self._there.hashing_configs()
