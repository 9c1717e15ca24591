"""The statistics that a metadata table (MDT) begins with, from the data files on storage.

    column_stats     of each data file that counts
    partition_stats  of each partition of the data table, tight: of the slices that reads take
    expr_index_NAME  the same of what a function makes of a column, of both

Readers find the records of a file by its name. So files have none whose names are in several
partitions, as earlier releases of this project wrote them: readers read what has no record.

Some hundred files are looked into at a time, by the engine. Their records go through scratch space,
into a part for each file group and first character of a key; what stays in memory are the base
files that are made of them, which are compressed. Files that are gone since they were listed have
none: what deleted them is added under the lock (`metadata.initialising`).

Source: `HoodieBackedTableMetadataWriter.java` (initializeColumnStatsPartition,
initializePartitionStatsIndex), `HoodieTableMetadataUtil.java`
(convertFilesToPartitionStatsRecords).
"""

import functools
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    listing,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
    statistics_reading,
)
from hoodie.format import file_names, metadata_avro
from hoodie.format.metadata_avro import RecordType
from hoodie.model import file_statistics, files, partition_statistics, schemas
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.storage import scratch

FILE_GROUPS: Mapping[str, int] = {
    metadata_table.FILES: 1,
    file_statistics.COLUMN_STATS: 2,
    file_statistics.PARTITION_STATS: 1,
}
"""How many file groups each partition of an MDT is made with, in the order of their making."""

EXPRESSION_FILE_GROUPS = 2
"""How many file groups an expression index is made with."""

_FILES_AT_ONCE = 256
_FIRST_CHARACTERS = 128
_SPILLED_BYTES = 64 << 20

Bases = Mapping[str, Sequence[metadata_writing.PreparedBase | None]]
"""The base files of an MDT's partitions; None for file groups without records."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How data files are looked into.

    Attributes:
        schema: The table's columns, if no commit has them.
        engine: Looks into several at once.
        hear: Hears of each partition of the data table before its files are looked into.
        count: Called with how many files of how many have been looked into.
        scratch_folder: A local folder, for the records.
    """

    schema: schemas.TableSchema
    engine: Engine
    hear: Callable[[str], object] = lambda partition_path: None
    count: Callable[[int, int], object] = lambda done, total: None
    scratch_folder: str = field(default_factory=tempfile.gettempdir)


class _Place(NamedTuple):
    """A data file, and whether a snapshot read takes it."""

    partition_path: str
    data_file: listing.DataFile
    is_latest: bool


_Looked = tuple[_Place, Sequence[ColumnStatistics]]


def gather(
    snapshot: snapshots.Snapshot,
    data_files: Mapping[str, Sequence[listing.DataFile]],
    source: statistics_reading.Source,
    reading: Reading,
    now_ms: int,
    groups: Mapping[str, int] = FILE_GROUPS,
) -> Bases:
    """Return the base files of the partitions with statistics.

    Args:
        snapshot: Of the data table.
        data_files: Those that count, by partition path.
        source: Of the data table.
        reading: How they are looked into.
        now_ms: The time, in milliseconds since the epoch.
        groups: How many file groups each partition has, those of expression indexes among them.

    Raises:
        FormatError: A data file is broken.
        UnsupportedError: One has what is not read.
    """
    expressions = [each.partition for each in source.wanted.expressions]
    parted = (file_statistics.COLUMN_STATS, *expressions)
    ends = itertools.accumulate(groups[name] for name in parted)
    firsts = {name: end - groups[name] for name, end in zip(parted, ends, strict=True)}
    names = Counter(each.name for found in data_files.values() for each in found)
    of_partitions: dict[str, bytes] = {}
    count = sum(groups[name] for name in parted) * _FIRST_CHARACTERS
    with scratch.Parts(reading.scratch_folder, count, _SPILLED_BYTES) as parts:

        def add(name: str, records: Mapping[str, bytes]) -> None:
            if records:
                table = metadata_merging.table(records)
                places = _parts_of(table.column("key"), groups[name])
                parts.add(table, places + firsts[name] * _FIRST_CHARACTERS)

        def take(some: Sequence[_Looked]) -> None:
            unique = [each for each in some if names[each[0].data_file.name] == 1]
            add(file_statistics.COLUMN_STATS, _column_records(unique))
            for name in expressions:
                add(name, _expression_records(unique, name))

        total = sum(map(len, data_files.values()))
        looked = _looked_into(_places(snapshot, data_files), total, source, reading, take)
        for path, of_path in itertools.groupby(looked, key=lambda each: each[0].partition_path):
            latest = (each for place, found in of_path if place.is_latest for each in found)
            for each in partition_statistics.of_all_files(path, latest):
                record = metadata_avro.encode_statistics(each, RecordType.PARTITION_STATS)
                if each.expression is None:
                    of_partitions[metadata_avro.statistics_prefix(each.column, path)] = record
                else:
                    key = metadata_avro.expression_key(each.column, path)
                    add(each.expression.partition, {key: record})
        parts.flush()
        of_files = {
            name: [
                _prepared(_in_order(parts, firsts[name] + number), now_ms)
                for number in range(groups[name])
            ]
            for name in parted
        }
    partitions = metadata_merging.table(of_partitions)
    assert groups[file_statistics.PARTITION_STATS] == 1
    return {
        **of_files,
        file_statistics.PARTITION_STATS: [_prepared(iter([partitions.sort_by("key")]), now_ms)],
    }


def _parts_of(keys: pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
    """Return the part of each key: those of a file group, by first characters in their order."""
    texts = keys.combine_chunks().cast(pa.binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts)]
    content = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    return metadata_records.places(keys, count) * _FIRST_CHARACTERS + content[offsets]


def _in_order(parts: scratch.Parts, group: int) -> Iterator[pa.Table]:
    """Yield the records of a file group in the order of their keys."""
    first = group * _FIRST_CHARACTERS
    for number in range(first, first + _FIRST_CHARACTERS):
        pieces = list(parts.tables(number))
        if pieces:
            yield pa.concat_tables(pieces).sort_by("key")


def data_files(snapshot: snapshots.Snapshot) -> Mapping[str, Sequence[listing.DataFile]]:
    """Return the data files that count, by partition path."""
    found: dict[str, Sequence[listing.DataFile]] = {}
    without_orphans = snapshot.committed.without_orphans
    for path in snapshot.listing.partitions():
        of_path = [
            each
            for each in snapshot.listing.files(path)
            if snapshot.committed.is_committed(each.instant_time)
        ]
        bases = [each for each in of_path if isinstance(each, files.BaseFile)]
        logs = [each for each in of_path if isinstance(each, files.LogFile)]
        found[path] = [*without_orphans(bases), *without_orphans(logs)]
    return found


def of_paths(
    paths: Iterable[tuple[str, int]], source: statistics_reading.Source, reading: Reading
) -> dict[str, Sequence[ColumnStatistics]]:
    """Return the statistics of data files by their paths; of those that are gone, none.

    Args:
        paths: Paths and sizes in bytes; what is no data file is left out.
        source: Of the data table.
        reading: How they are looked into.

    Raises:
        HoodieError: As `gather`.
    """
    parsed = (file_names.parse(path, size_bytes) for path, size_bytes in paths)
    data_files = [each for each in parsed if each is not None]
    found = reading.engine.map(functools.partial(_of_file, source), data_files)
    return {each.path: stats for each, stats in zip(data_files, found, strict=True)}


def _places(
    snapshot: snapshots.Snapshot, data_files: Mapping[str, Sequence[listing.DataFile]]
) -> Iterator[_Place]:
    view = snapshot.view
    for path, found in data_files.items():
        latest = {
            each.path for file_slice in view.latest_slices(path) for each in file_slice.data_files
        }
        yield from (_Place(path, each, each.path in latest) for each in found)


def _looked_into(
    places: Iterator[_Place],
    total: int,
    source: statistics_reading.Source,
    reading: Reading,
    take: Callable[[Sequence[_Looked]], object],
) -> Iterator[_Looked]:
    """Yield the statistics of data files, and have them taken, some hundred at a time."""
    done = 0
    while some := list(itertools.islice(places, _FILES_AT_ONCE)):
        reading.hear(some[0].partition_path)
        reading.count(done, total)
        done += len(some)
        data_files = [each.data_file for each in some]
        found = reading.engine.map(functools.partial(_of_file, source), data_files)
        looked = list(zip(some, found, strict=True))
        take(looked)
        yield from looked


def _of_file(
    source: statistics_reading.Source, data_file: listing.DataFile
) -> tuple[ColumnStatistics, ...]:
    try:
        return statistics_reading.of_file(source, data_file)
    except errors.NotFoundError:
        return ()


def _column_records(looked: Iterable[_Looked]) -> Mapping[str, bytes]:
    return {
        metadata_avro.statistics_key(each, place.partition_path): metadata_avro.encode_statistics(
            each, RecordType.COLUMN_STATS
        )
        for place, found in looked
        for each in found
        if each.expression is None
    }


def _expression_records(looked: Iterable[_Looked], name: str) -> Mapping[str, bytes]:
    return {
        metadata_avro.statistics_key(each, place.partition_path): (
            metadata_records.expression_record(each, place.data_file.size_bytes)
        )
        for place, found in looked
        for each in found
        if each.expression is not None and each.expression.partition == name
    }


def _prepared(records: Iterator[pa.Table], now_ms: int) -> metadata_writing.PreparedBase | None:
    """Return the base file of a file group; None without records."""
    base = metadata_writing.prepare_base(records, now_ms)
    return base if base.records else None
