"""What the metadata table (MDT) records of a change of the data table: values, no I/O.

    files            of each partition that is touched the names of new files with their sizes, and
                     of those that were deleted; and which partitions there are
    column_stats     of each column of a new file what values it has; of those of a deleted file
                     that they are gone
    partition_stats  of each column of a partition that is touched what values the new files have
    bloom_filters    of each new base file the filter of its keys; of a deleted one that it is gone
    record_index     of keys that are new in a file group that they are there, and which ones are in
                     none any more
    secondary_index_{name}   of values of a column which keys have them now, and have them no more
    expr_index_{name}        of what a function makes of a column what `column_stats` and
                     `partition_stats` have of a column; one of bloom filters gets nothing

Source: `HoodieTableMetadataUtil.java` (convertMetadataToRecords); format.md: Metadata table.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import metadata_merging, metadata_table
from hoodie.format import file_names, java_hash, metadata_avro
from hoodie.format.bloom_filters import StoredFilter
from hoodie.format.metadata_avro import RecordType
from hoodie.model import (
    commits,
    expression_indexes,
    file_statistics,
    files,
    instants,
    key_changes,
    partition_statistics,
    secondary_indexes,
)
from hoodie.model.file_statistics import ColumnStatistics

with deferred.imports():
    from hoodie.format import record_locations, secondary_keys

Records = Mapping[str, Mapping[str, bytes]]
"""Records by partition of the metadata table and by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What is added to a partition of the metadata table.

    Attributes:
        table: New records, as of `metadata_merging.SCHEMA`; ascending by key.
        deleted: Keys of records that are taken out; binary.
        is_hashed_by_value: As of `secondary_indexes.Definition`; False in other partitions.
    """

    table: pa.Table = field(default_factory=metadata_merging.SCHEMA.empty_table)
    deleted: pa.Array = field(default_factory=lambda: pa.array([], pa.binary()))
    is_hashed_by_value: bool = False

    def __len__(self) -> int:
        return int(self.table.num_rows) + len(self.deleted)

    def split(self, count: int) -> dict[int, "Added"]:
        """Return what each of so many file groups, sorted by their ids, gets; none gets nothing."""
        of_table = self._places(self.table.column("key"), count)
        of_deleted = self._places(self.deleted, count)
        # By filters: Arrow takes rows of a column of 2 GB at most, as some bloom filters have.
        return {
            int(place): Added(
                table=self.table.filter(pa.array(of_table == place)),
                deleted=self.deleted.filter(pa.array(of_deleted == place)),
            )
            for place in np.unique(np.concatenate([of_table, of_deleted]))
        }

    def _places(self, keys: pa.Array | pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
        return places(secondary_keys.prefixes_of(keys) if self.is_hashed_by_value else keys, count)


Sizes = Mapping[str, Mapping[str, int | None]]
"""Sizes in bytes of files by partition of the data table and by name; None for deleted ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledKeys:
    """What the record index has to learn of a write.

    Attributes:
        written: The new files, with the keys that are new in their file groups, and those that are
            in none any more.
        removed: Other keys that are in none any more, by partition: of retired file groups.
        pairs: What secondary indexes have to learn of it.
    """

    written: Sequence[commits.WriteStat]
    removed: Mapping[str, pa.Array] = field(default_factory=dict)
    pairs: Sequence[secondary_indexes.PairChanges] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an action does to the data files.

    Attributes:
        written: The new files.
        removed_keys: As of `SettledKeys`.
        pairs: As of `SettledKeys`.
        deleted: Paths of those that are gone, below the table's root.
        columns: Those that deleted files had statistics of.
        expressions: The expression indexes that deleted files had entries in.
        filters: The bloom filters of new base files, by path; as of `key_footers.read_filters`.
        published: The table's columns as of this change, in Avro JSON; None where others may have
            widened some since it began.
    """

    written: Sequence[commits.WriteStat] = ()
    removed_keys: Mapping[str, pa.Array] = field(default_factory=dict)
    pairs: Sequence[secondary_indexes.PairChanges] = ()
    deleted: Sequence[str] = ()
    columns: Sequence[str] = ()
    expressions: Sequence[expression_indexes.Definition] = ()
    filters: Mapping[str, StoredFilter] = field(default_factory=dict)
    published: str | None = None


def of_changes(changes: Changes, partitions: Iterable[str]) -> Records:
    """Return the records of statistics and files that a change adds to partitions.

    Args:
        changes: The change.
        partitions: Of the metadata table.

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
    found = {name: _RECORDS[name](changes) for name in wanted if name in _RECORDS}
    return {**found, **_expressions(changes, filter(expression_indexes.is_one, wanted))}


def added(
    records: Records,
    changes: Changes,
    partitions: Iterable[str],
    instant_time: instants.InstantTime,
) -> Mapping[str, Added]:
    """Return what a change adds to partitions that are kept up, but the record index.

    Args:
        records: Those of `of_changes`.
        changes: The change.
        partitions: Of the metadata table.
        instant_time: The action's requested time.

    Raises:
        UnsupportedError: A base file has no bloom filter: readers would fail.
    """
    found = {name: Added(table=metadata_merging.table(by_key)) for name, by_key in records.items()}
    if file_statistics.BLOOM_FILTERS in partitions:
        filters = bloom_filters(changes, instant_time)
        found[file_statistics.BLOOM_FILTERS] = Added(table=metadata_merging.table(filters))
    for each in changes.pairs:
        found[each.definition.partition] = _pairs(each)
    return found


def _pairs(changes: secondary_indexes.PairChanges) -> Added:
    added = pc.unique(changes.added).cast(pa.binary())
    records = pa.repeat(secondary_keys.RECORD, len(added))
    return Added(
        table=pa.table([added, records], metadata_merging.SCHEMA).sort_by("key"),
        deleted=pc.unique(changes.removed).cast(pa.binary()),
        is_hashed_by_value=changes.definition.is_hashed_by_value,
    )


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
            if each.expression is None
            and partition_statistics.may_be_of_another_type(each, published, created)
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
        for each in stat.change_data:
            found[stat.partition_path][each.path.rpartition("/")[2]] = each.size_bytes
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
        if each.expression is None
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
        of_columns = (each for each in stat.statistics if each.expression is None)
        by_partition[stat.partition_path] += of_columns
    return {
        metadata_avro.statistics_prefix(
            each.column, partition_path
        ): metadata_avro.encode_statistics(each, RecordType.PARTITION_STATS)
        for partition_path, found in by_partition.items()
        for each in partition_statistics.of_files(partition_path, found)
    }


def _expressions(changes: Changes, names: Iterable[str]) -> Mapping[str, dict[str, bytes]]:
    """Return the records of expression indexes, by partition of the metadata table."""
    found: dict[str, dict[str, bytes]] = {name: {} for name in names}
    by_partition: defaultdict[str, list[ColumnStatistics]] = defaultdict(list)
    for stat in changes.written:
        for each in stat.statistics:
            if each.expression is None or each.expression.partition not in found:
                continue
            by_partition[stat.partition_path].append(each)
            record = expression_record(each, stat.size_bytes)
            key = metadata_avro.statistics_key(each, stat.partition_path)
            found[each.expression.partition][key] = record
    for partition_path, of_files_there in by_partition.items():
        for each in partition_statistics.of_files(partition_path, of_files_there):
            assert each.expression is not None
            key = metadata_avro.expression_key(each.column, partition_path)
            record = metadata_avro.encode_statistics(each, RecordType.PARTITION_STATS)
            found[each.expression.partition][key] = record
    for path in changes.deleted:
        partition_path, _, name = path.rpartition("/")
        for definition in changes.expressions:
            if definition.partition in found:
                gone = ColumnStatistics(file_name=name, column=definition.column)
                key = metadata_avro.statistics_key(gone, partition_path)
                found[definition.partition][key] = metadata_avro.encode_no_statistics(gone)
    return found


def expression_record(statistics: ColumnStatistics, size_bytes: int) -> bytes:
    """Return the record of a data file in an expression index; Apache Hudi counts values alone.

    Args:
        statistics: Of what its function makes.
        size_bytes: The file's.
    """
    assert statistics.values is not None, statistics
    stated = replace(
        statistics,
        values=statistics.values - (statistics.nulls or 0),
        size_bytes=size_bytes,
        plain_bytes=2 * size_bytes,
    )
    return metadata_avro.encode_statistics(stated, RecordType.COLUMN_STATS)


def base_files(paths: Iterable[str]) -> list[str]:
    """Return those of the paths of data files that are of base files."""
    return [path for path in paths if isinstance(file_names.parse(path, 0), files.BaseFile)]


def bloom_filters(changes: Changes, instant_time: instants.InstantTime) -> dict[str, bytes]:
    """Return the records of bloom filters that a change adds; as `added`."""
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


def locations(
    changes: Changes,
    key_space_of: Callable[[str], str | None],
    requested_ms: int,
) -> Mapping[str | None, Added]:
    """Return what a change adds to a record index, by where a key is in it once.

    Args:
        changes: The change.
        key_space_of: Returns that of a partition of the data table.
        requested_ms: When the action was requested, in milliseconds since the epoch.

    Raises:
        UnsupportedError: The keys in a file are not known: readers would leave its rows out.
    """
    written: defaultdict[str | None, list[commits.WriteStat]] = defaultdict(list)
    removed: defaultdict[str | None, list[pa.Array]] = defaultdict(list)
    for stat in changes.written:
        written[key_space_of(stat.partition_path)].append(stat)
    for partition_path, keys in changes.removed_keys.items():
        removed[key_space_of(partition_path)].append(keys)
    return {
        each: _locations(written[each], removed[each], requested_ms)
        for each in dict.fromkeys([*written, *removed])
    }


def _locations(
    stats: Iterable[commits.WriteStat], removed: Iterable[pa.Array], requested_ms: int
) -> Added:
    pieces = [metadata_merging.SCHEMA.empty_table()]
    deleted = [pa.array([], pa.string()), *removed]
    for stat in stats:
        if stat.keys is None:
            raise errors.UnsupportedError(
                f"{stat.path} was written without its keys, which the record index has: by a "
                "program that does not know of it, expected one of this release"
            )
        group = files.FileGroupId(stat.partition_path, stat.file_id)
        added = pc.unique(stat.keys.added).cast(pa.binary())
        location = pa.repeat(record_locations.encode(group, requested_ms), len(added))
        pieces.append(pa.table([added, location], metadata_merging.SCHEMA))
        deleted.append(pc.unique(stat.keys.removed))
    return Added(
        table=pa.concat_tables(pieces).sort_by("key"),
        deleted=pa.concat_arrays(deleted).cast(pa.binary()),
    )


_RECORDS = {
    metadata_table.FILES: _files,
    file_statistics.COLUMN_STATS: _column_statistics,
    file_statistics.PARTITION_STATS: _partition_statistics,
}

_WITH_STATISTICS = frozenset((file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS))

KEPT = frozenset((*_RECORDS, file_statistics.BLOOM_FILTERS, key_changes.RECORD_INDEX))
"""The partitions that are kept up, beside secondary and expression indexes."""


def is_kept_up(partition: str) -> bool:
    """Return whether a partition is of a kind that is kept up."""
    is_of_columns = secondary_indexes.is_one(partition) or expression_indexes.is_one(partition)
    return partition in KEPT or is_of_columns


def places(keys: pa.Array | pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
    """Return which of so many file groups, sorted by their ids, holds each key."""
    hashes = java_hash.string_hash(keys.cast(pa.string())).astype(np.int64)
    return np.abs(hashes) % count
