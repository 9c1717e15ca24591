"""`hoodie metadata`: what the metadata table of a table has, and whether it is right."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.filegroup import listing, metadata_listing, metadata_table, snapshots
from hoodie.model import files, instants, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import active

Hear = Callable[[str], object]
"""Hears of each partition of the data table before it is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """A partition of a metadata table: an index.

    Attributes:
        name: Its name.
        is_ready: Whether readers may use it; otherwise it is being built.
        file_groups: How many it has.
        base_bytes: Of the base files that a read needs.
        log_files: That a read needs.
        log_bytes: Their size.
    """

    name: str
    is_ready: bool
    file_groups: int
    base_bytes: int
    log_files: int
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a metadata table.

    Attributes:
        partitions: By name; none where the table has no metadata table.
        last: Its instant that completed last.
        commits_since_compaction: Delta commits that were not compacted yet.
        problem: Why readers list the storage instead; None if they use it.
    """

    partitions: tuple[PartitionStatus, ...] = ()
    last: instants.Instant | None = None
    commits_since_compaction: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A committed file of which metadata table and storage say different things.

    Attributes:
        path: The file's.
        metadata_bytes: Its size by the metadata table; None where that does not have it.
        storage_bytes: Its size on storage; None where it is not there.
    """

    path: str
    metadata_bytes: int | None
    storage_bytes: int | None


def status(storage: Storage, config: table_config.TableConfig) -> Status:
    """Return what a table's metadata table has; a listing for each partition and some requests."""
    ready = dict.fromkeys(config.metadata_partitions, True)
    named = {**dict.fromkeys(config.metadata_partitions_inflight, False), **ready}
    if not named:
        return Status()
    timeline = active.load(storage)
    try:
        found = metadata_table.MetadataTable(storage, timeline)
    except errors.FormatError as error:
        return Status(partitions=_unread(named), problem=str(error))
    problem = None
    partitions = []
    for name, is_ready in sorted(named.items()):
        slices = found.latest_slices(name)
        partitions.append(_status_of(name, is_ready, slices))
    try:
        found.partition(metadata_table.FILES)
    except (errors.FormatError, errors.NotFoundError, errors.UnsupportedError) as error:
        problem = str(error)
    return Status(
        partitions=tuple(partitions),
        last=found.timeline.completed[-1],
        commits_since_compaction=_since_compaction(found.timeline),
        problem=problem,
    )


def validate(
    storage: Storage,
    config: table_config.TableConfig,
    hear: Hear = lambda partition_path: None,
) -> list[Difference]:
    """Return how the files by the metadata table differ from the committed ones on storage.

    Writers may go on meanwhile. One listing of the table, and the metadata table's `files`.

    Args:
        storage: The table's.
        config: Its configuration.
        hear: Hears of each partition.

    Raises:
        NotFoundError: The table has no metadata table.
        FormatError: The metadata table lacks a change of the table, or is damaged.
    """
    if metadata_table.FILES not in config.metadata_partitions:
        raise errors.NotFoundError(f"{storage.uri} has no metadata table")

    def compare(snapshot: snapshots.Snapshot) -> list[Difference]:
        found = metadata_table.MetadataTable(storage, snapshot.timeline)
        by_metadata = metadata_listing.Files(found.partition(metadata_table.FILES))
        on_storage = listing.of_table(storage, config)
        return list(_differences(snapshot, by_metadata, on_storage, hear))

    return snapshots.consistent(storage, config, compare)


def _differences(
    snapshot: snapshots.Snapshot,
    by_metadata: listing.Listing,
    on_storage: listing.Listing,
    hear: Hear,
) -> Iterator[Difference]:
    for path in sorted({*by_metadata.partitions(), *on_storage.partitions()}):
        hear(path)
        ours = _committed(snapshot, by_metadata, path)
        theirs = _committed(snapshot, on_storage, path)
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                yield Difference(
                    path=files.join(path, name),
                    metadata_bytes=ours.get(name),
                    storage_bytes=theirs.get(name),
                )


def _committed(
    snapshot: snapshots.Snapshot, found: listing.Listing, partition_path: str
) -> Mapping[str, int]:
    data_files = (*found.files(partition_path), *found.change_data(partition_path))
    return {
        each.name: each.size_bytes
        for each in data_files
        if snapshot.committed.is_committed(each.instant_time)
    }


def _status_of(name: str, is_ready: bool, slices: list[files.FileSlice]) -> PartitionStatus:
    bases = [each.base_file for each in slices if each.base_file is not None]
    logs = [log for each in slices for log in each.log_files]
    return PartitionStatus(
        name=name,
        is_ready=is_ready,
        file_groups=len(slices),
        base_bytes=sum(each.size_bytes for each in bases),
        log_files=len(logs),
        log_bytes=sum(each.size_bytes for each in logs),
    )


def _unread(named: Mapping[str, bool]) -> tuple[PartitionStatus, ...]:
    return tuple(_status_of(name, is_ready, []) for name, is_ready in sorted(named.items()))


def _since_compaction(timeline: active.ActiveTimeline) -> int:
    count = 0
    for each in reversed(timeline.completed_writes):
        if each.action is not instants.Action.DELTA_COMMIT:
            break
        count += 1
    return count
