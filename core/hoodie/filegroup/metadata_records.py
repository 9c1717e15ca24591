"""What the metadata table (MDT) records of a change of the data table: values, no I/O.

    files            of each partition that is touched the names of new files with their sizes, and
                     of those that were deleted; and which partitions there are
    column_stats     of each column of a new file what values it has; of those of a deleted file
                     that they are gone
    partition_stats  of each column of a partition that is touched what values the new files have
    bloom_filters    of each new base file the filter of its keys; of a deleted one that it is gone

Source: `HoodieTableMetadataUtil.java` (convertMetadataToRecords); format.md: Metadata table.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.format import file_names, java_hash, metadata_avro
from hoodie.format.bloom_filters import StoredFilter
from hoodie.format.metadata_avro import RecordType
from hoodie.model import commits, file_statistics, files, instants, partition_statistics
from hoodie.model.file_statistics import ColumnStatistics

Records = Mapping[str, Mapping[str, bytes]]
"""Records by partition of the metadata table and by key."""

Sizes = Mapping[str, Mapping[str, int | None]]
"""Sizes in bytes of files by partition of the data table and by name; None for deleted ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an action does to the data files.

    Attributes:
        written: The new files.
        deleted: Paths of those that are gone, below the table's root.
        columns: Those that deleted files had statistics of.
        filters: The bloom filters of new base files, by path; as of `key_footers.read_filters`.
    """

    written: Sequence[commits.WriteStat] = ()
    deleted: Sequence[str] = ()
    columns: Sequence[str] = ()
    filters: Mapping[str, StoredFilter] = field(default_factory=dict)


def of_changes(
    changes: Changes, partitions: Iterable[str], instant_time: instants.InstantTime
) -> Records:
    """Return the records that a change adds to partitions that are kept up.

    Args:
        changes: The change.
        partitions: Of the metadata table.
        instant_time: The action's requested time.

    Raises:
        UnsupportedError: A file with rows has no statistics, or a base file no bloom filter:
            readers would leave its rows out, or fail.
    """
    wanted = list(partitions)
    if not _WITH_STATISTICS.isdisjoint(wanted):
        for stat in changes.written:
            if stat.records and not stat.statistics:
                raise errors.UnsupportedError(
                    f"{stat.path} was written without statistics, which the metadata table has: "
                    "by a program that does not know of them, expected one of this release"
                )
    found = {name: of_change(changes) for name, of_change in _RECORDS.items() if name in wanted}
    if file_statistics.BLOOM_FILTERS in wanted:
        found[file_statistics.BLOOM_FILTERS] = _bloom_filters(changes, instant_time)
    return found


def changed(sizes: Sizes, changes: Iterable[Changes]) -> Sizes:
    """Return the files that there are after changes; deleted ones are left out."""
    found = {path: dict(by_name) for path, by_name in sizes.items()}
    for each in changes:
        for path, by_name in _sizes(each).items():
            found.setdefault(path, {}).update(by_name)
    return {
        path: {name: size for name, size in by_name.items() if size is not None}
        for path, by_name in found.items()
    }


def of_files(sizes: Sizes, partitions: Iterable[str]) -> dict[str, bytes]:
    """Return the records of the partition `files`.

    Args:
        sizes: The files.
        partitions: Paths of the partitions that are named as such.
    """
    found = {
        metadata_avro.key_of(path): metadata_avro.encode_sizes(by_name, RecordType.FILES)
        for path, by_name in sizes.items()
    }
    # Also without any: that it is in `files` shows that a write has reached the metadata table.
    found[metadata_avro.ALL_PARTITIONS] = metadata_avro.encode_sizes(
        {metadata_avro.key_of(path): 0 for path in partitions}, RecordType.PARTITIONS
    )
    return found


def _sizes(changes: Changes) -> Sizes:
    found: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
    for path in changes.deleted:
        partition_path, _, name = path.rpartition("/")
        found[partition_path][name] = None
    for stat in changes.written:
        found[stat.partition_path][stat.path.rpartition("/")[2]] = stat.size_bytes
    return found


def _files(changes: Changes) -> dict[str, bytes]:
    touched = {stat.partition_path for stat in changes.written}
    return of_files(_sizes(changes), touched)


def _column_statistics(changes: Changes) -> dict[str, bytes]:
    found = {
        metadata_avro.statistics_key(each, stat.partition_path): metadata_avro.encode_statistics(
            each, RecordType.COLUMN_STATS
        )
        for stat in changes.written
        for each in stat.statistics
    }
    for path in changes.deleted:
        partition_path, _, name = path.rpartition("/")
        for column in changes.columns:
            gone = ColumnStatistics(file_name=name, column=column)
            key = metadata_avro.statistics_key(gone, partition_path)
            found[key] = metadata_avro.encode_no_statistics(gone)
    return found


def _partition_statistics(changes: Changes) -> dict[str, bytes]:
    by_partition: defaultdict[str, list[ColumnStatistics]] = defaultdict(list)
    for stat in changes.written:
        by_partition[stat.partition_path] += stat.statistics
    return {
        metadata_avro.statistics_prefix(
            each.column, partition_path
        ): metadata_avro.encode_statistics(each, RecordType.PARTITION_STATS)
        for partition_path, found in by_partition.items()
        for each in partition_statistics.of_files(partition_path, found)
    }


def base_files(paths: Iterable[str]) -> list[str]:
    """Return those of the paths of data files that are of base files."""
    return [path for path in paths if isinstance(file_names.parse(path, 0), files.BaseFile)]


def _bloom_filters(changes: Changes, instant_time: instants.InstantTime) -> dict[str, bytes]:
    found = {}
    for path in base_files(stat.path for stat in changes.written):
        if path not in changes.filters:
            raise errors.UnsupportedError(
                f"{path} has no bloom filter in its footer, which the metadata table has: it was "
                "written by a program that does not know of them, expected one of this release"
            )
        record = metadata_avro.encode_bloom_filter(changes.filters[path], instant_time)
        found[_filter_key(path)] = record
    for path in base_files(changes.deleted):
        found[_filter_key(path)] = metadata_avro.encode_bloom_filter(None, instant_time)
    return found


def _filter_key(path: str) -> str:
    partition_path, _, name = path.rpartition("/")
    return metadata_avro.bloom_filter_key(partition_path, name)


_RECORDS = {
    metadata_table.FILES: _files,
    file_statistics.COLUMN_STATS: _column_statistics,
    file_statistics.PARTITION_STATS: _partition_statistics,
}

_WITH_STATISTICS = frozenset((file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS))

KEPT = frozenset((*_RECORDS, file_statistics.BLOOM_FILTERS))
"""The partitions that are kept up."""


def places(keys: pa.Array | pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
    """Return which of so many file groups, sorted by their ids, holds each key."""
    hashes = java_hash.string_hash(keys.cast(pa.string())).astype(np.int64)
    return np.abs(hashes) % count
