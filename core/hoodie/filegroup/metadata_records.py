"""What the metadata table (MDT) records of a change of the data table: values, no I/O.

    files            of each partition that is touched the names of new files with their sizes, and
                     of those that were deleted; and which partitions there are
    column_stats     of each column of a new file what values it has; of those of a deleted file
                     that they are gone
    partition_stats  of each column of a partition that is touched what values the new files have

Source: `HoodieTableMetadataUtil.java` (convertMetadataToRecords); format.md: Metadata table.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import metadata_table
from hoodie.format import java_hash, metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model import commits, file_statistics, partition_statistics
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
        published: The table's columns as of this change, in Avro JSON; None where others may have
            widened some since it began.
    """

    written: Sequence[commits.WriteStat] = ()
    deleted: Sequence[str] = ()
    columns: Sequence[str] = ()
    published: str | None = None


def of_changes(changes: Changes, partitions: Iterable[str]) -> Records:
    """Return the records that a change adds to partitions that are kept up.

    Raises:
        UnsupportedError: A file with rows has no statistics: readers would leave its rows out.
    """
    wanted = list(partitions)
    if not _WITH_STATISTICS.isdisjoint(wanted):
        for stat in changes.written:
            if stat.records and not stat.statistics:
                raise errors.UnsupportedError(
                    f"{stat.path} was written without statistics, which the metadata table has: "
                    "by a program that does not know of them, expected one of this release"
                )
    return {name: _RECORDS[name](changes) for name in wanted}


def doubtful_keys(
    changes: Changes, published: pa.Schema | None, created: pa.Schema | None
) -> Sequence[str]:
    """Return keys of `partition_stats` that may have an older record of another type.

    Args:
        changes: What adds records.
        published: As of `partition_statistics.may_be_of_another_type`.
        created: As there.
    """
    return sorted(
        {
            metadata_avro.statistics_prefix(each.column, stat.partition_path)
            for stat in changes.written
            for each in stat.statistics
            if partition_statistics.may_be_of_another_type(each, published, created)
        }
    )


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


_RECORDS = {
    metadata_table.FILES: _files,
    file_statistics.COLUMN_STATS: _column_statistics,
    file_statistics.PARTITION_STATS: _partition_statistics,
}

_WITH_STATISTICS = frozenset((file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS))

KEPT = frozenset(_RECORDS)
"""The partitions that are kept up."""


def places(keys: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """Return which of so many file groups, sorted by their ids, holds each key."""
    hashes = java_hash.string_hash(pa.array(keys, pa.string())).astype(np.int64)
    return np.abs(hashes) % count
