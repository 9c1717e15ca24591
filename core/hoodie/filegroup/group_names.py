"""File groups by the names of their files alone: all that cleaning needs to know of a table.

It decides by the instants that wrote a file, which stand in its name. So no file is looked at,
which on a local disk takes most of a listing; files are no values of their own; and what is decided
of a file group holds for all others that the same instants wrote, often a whole partition.

The rules are those of the file-system view: `slicing.cut`, `CommittedFiles`, replaced file groups.
Requests: as `listing.StorageListing`; or those of the snapshot's listing, if that is a metadata
table's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from hoodie.filegroup import listing, metadata_listing, slicing, snapshots, view
from hoodie.format import file_names
from hoodie.model import files, instants, table_config
from hoodie.storage import paths as storage_paths
from hoodie.storage import protocol

DataFile = TypeVar("DataFile", files.BaseFile, files.LogFile)

ByInstant: TypeAlias = Mapping[instants.InstantTime, tuple[str, ...]]
"""Names of files by the requested time of the instant that wrote them."""

_NONE: ByInstant = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNames:
    """The names of a file group's files.

    Attributes:
        group: The file group.
        base_files: Of its base files.
        log_files: Of its log files.
        change_data: Of its log files of change data.
    """

    group: files.FileGroupId
    base_files: ByInstant
    log_files: ByInstant
    change_data: ByInstant

    @property
    def kinds(self) -> tuple[ByInstant, ...]:
        """All its files, by kind."""
        return self.base_files, self.log_files, self.change_data

    @property
    def names(self) -> list[str]:
        """The names of all its files."""
        return [name for kind in self.kinds for names in kind.values() for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeGroups:
    """File groups that have the same slices, since the same instants wrote them.

    Attributes:
        slices: Newest first.
        merged: So many of them a read merges.
        groups: Without the files that the view does not show: each instant of `slices` has at most
            one base file.
    """

    slices: tuple[slicing.InstantsOfSlice, ...]
    merged: int
    groups: list[GroupNames]

    def names_of(self, file_slice: slicing.InstantsOfSlice) -> Iterator[str]:
        """Yield the names of a slice's files, in each of the file groups."""
        start = file_slice.base_instant_time
        for group in self.groups:
            if file_slice.has_base:
                yield from group.base_files[start]
            for time in file_slice.log_times:
                yield from group.log_files[time]


class TableNames:
    """A listing by names, which asks metadata table or storage for each thing once."""

    def __init__(
        self,
        storage: protocol.Storage,
        config: table_config.TableConfig,
        snapshot: snapshots.Snapshot | None = None,
        *,
        has_sizes: bool = False,
    ) -> None:
        """List when something is first asked for.

        Args:
            storage: The table's.
            config: Tells whether there are partitions.
            snapshot: Whose metadata table is asked; None to list the storage.
            has_sizes: Whether sizes of files are asked for, too.
        """
        self._storage = storage
        self._metadata: metadata_listing.MetadataListing | None = None
        if snapshot is not None and isinstance(snapshot.listing, metadata_listing.MetadataListing):
            self._metadata = snapshot.listing
        self._is_partitioned = bool(config.partition_fields)
        self._has_sizes = has_sizes
        self._everything: Mapping[str, Sequence[str]] | None = None
        self._some: dict[str, Sequence[str]] = {}
        self._sizes: dict[str, int] = {}

    def partitions(self) -> list[str]:
        """Return the partition paths, sorted; the first call lists the table."""
        if self._metadata is not None:
            return self._metadata.partitions()
        if self._everything is None:
            found = self._listed("", is_recursive=self._is_partitioned)
            self._everything = listing.partitions_of(found)
        return list(self._everything)

    def groups(self, partition_path: str) -> list[GroupNames]:
        """Return the file groups of a partition, sorted by file id.

        One request unless the partition or the table was listed before.
        """
        found = file_names.data_files_among(self._names(partition_path))
        return [
            GroupNames(
                group=files.FileGroupId(partition_path, file_id),
                base_files=found.base_files.get(file_id, _NONE),
                log_files=found.log_files.get(file_id, _NONE),
                change_data=found.change_data.get(file_id, _NONE),
            )
            for file_id in sorted({*found.base_files, *found.log_files, *found.change_data})
        ]

    @property
    def sizes(self) -> Mapping[str, int]:
        """The lengths of files that were listed so far, by path; none unless asked for."""
        return self._sizes

    def _names(self, partition_path: str) -> Sequence[str]:
        if self._metadata is not None:
            sizes = self._metadata.sizes(partition_path)
            if self._has_sizes:
                self._sizes |= {files.join(partition_path, name): sizes[name] for name in sizes}
            return list(sizes)
        if self._everything is not None:
            return self._everything.get(partition_path, ())
        if partition_path not in self._some:
            found = self._listed(partition_path, is_recursive=False)
            self._some[partition_path] = found.get(partition_path, ())
        return self._some[partition_path]

    def _listed(self, directory: str, *, is_recursive: bool) -> Mapping[str, Sequence[str]]:
        if not self._has_sizes:
            return self._storage.names_by_directory(directory, is_recursive=is_recursive)
        infos = self._storage.list(directory, is_recursive=is_recursive)
        self._sizes |= {info.path: info.size_bytes for info in infos}
        return storage_paths.by_directory(info.path for info in infos)


class NamesView:
    """What the file-system view of a snapshot shows, by names."""

    def __init__(self, snapshot: snapshots.Snapshot) -> None:
        """Take the snapshot; its listing is not used."""
        self._completion_time = snapshot.timeline.completion_time
        self._committed = snapshot.committed
        self._replaced = snapshot.replaced
        self._compactions = view.compactions_by_group(snapshot.compactions)

    def alike(self, groups: Iterable[GroupNames]) -> list[AlikeGroups]:
        """Return some file groups with their slices, as far as they are shown.

        Args:
            groups: Of a listing that was made after the timeline was read.
        """
        found: dict[object, AlikeGroups] = {}
        for group in map(self._shown, groups):
            base_times, log_times = tuple(sorted(group.base_files)), tuple(sorted(group.log_files))
            pending = tuple(self._compactions.get(group.group, ()))
            key = base_times, log_times, pending
            alike = found.get(key)
            if alike is None:
                alike = found[key] = self._sliced(base_times, log_times, pending)
            alike.groups.append(group)
        return list(found.values())

    def _sliced(
        self,
        base_times: Iterable[instants.InstantTime],
        log_times: Iterable[instants.InstantTime],
        pending: Sequence[instants.InstantTime],
    ) -> AlikeGroups:
        is_committed = self._committed.is_committed
        slices = slicing.cut(
            [time for time in base_times if is_committed(time)],
            [time for time in log_times if is_committed(time)],
            self._completion_time,
            pending,
        )
        return AlikeGroups(slices=slices, merged=slicing.merged_count(slices, pending), groups=[])

    def _shown(self, group: GroupNames) -> GroupNames:
        """Return a file group without files that it had before it was replaced, and orphans."""
        retired_at = self._replaced.get(group.group) if self._replaced else None
        if retired_at is not None:
            group = replace(
                group,
                base_files=_later(group.base_files, retired_at),
                log_files=_later(group.log_files, retired_at),
            )
        if max(map(len, group.base_files.values()), default=0) > 1:
            group = replace(group, base_files=self._one_each(group))
        if max(map(len, group.log_files.values()), default=0) > 1:
            group = replace(group, log_files=self._without_orphans(group))
        return group

    def _one_each(self, group: GroupNames) -> ByInstant:
        """Return the base file of each instant: of several that count the one that is read."""
        found = _parsed(group, group.base_files, files.BaseFile)
        counting = self._committed.without_orphans(found)
        in_order = sorted(counting, key=lambda each: each.write_token)
        return {each.instant_time: (each.name,) for each in in_order}

    def _without_orphans(self, group: GroupNames) -> ByInstant:
        parsed = _parsed(group, group.log_files, files.LogFile)
        counting = {each.name for each in self._committed.without_orphans(parsed)}
        return {
            time: left
            for time, names in group.log_files.items()
            if (left := tuple(name for name in names if name in counting))
        }


def _later(names: ByInstant, time: instants.InstantTime) -> ByInstant:
    return {each: found for each, found in names.items() if each > time}


def _parsed(group: GroupNames, names: ByInstant, kind: type[DataFile]) -> list[DataFile]:
    paths = (
        files.join(group.group.partition_path, name) for same in names.values() for name in same
    )
    found = (file_names.parse_new(path, 0) for path in paths)
    return [each for each in found if isinstance(each, kind)]
