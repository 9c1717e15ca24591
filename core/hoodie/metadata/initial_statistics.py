"""The statistics that a metadata table (MDT) begins with, from the data files on storage.

    column_stats     of each data file that counts
    partition_stats  of each partition of the data table, tight: of the slices that reads take
    expr_index_NAME  the same of what a function makes of a column, of both

Readers find the records of a file by its name. So files have none whose names are in several
partitions, as earlier releases of this project wrote them: readers read what has no record.

Some hundred files are looked into at a time, by the engine, whose tasks make the records. These go
through scratch space, into a part for each file group and first character of a key; what stays in
memory are the base files that are made of them, which are compressed. Files that are gone since
they were listed have none: what deleted them is added under the lock (`metadata.initialising`).

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

_FILES_OF_A_TASK = 16
_TASKS_AT_ONCE = 16
_TASKS_PER_CORE = 8
"""So many tasks are done before their records are put away; here, a task of each file."""
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
    """A data file.

    Attributes:
        partition_path: Where it is.
        data_file: The file.
        is_latest: Whether a snapshot read takes it.
        is_named_once: Whether no file elsewhere has its name.
    """

    partition_path: str
    data_file: listing.DataFile
    is_latest: bool
    is_named_once: bool


class _Looked(NamedTuple):
    """What some data files come to.

    Attributes:
        records: Of the files, by partition of the MDT.
        of_partitions: Statistics of those that snapshot reads take, by their partitions' paths.
    """

    records: Mapping[str, pa.Table]
    of_partitions: Sequence[tuple[str, Sequence[ColumnStatistics]]]


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
    parted = _parted(source)
    ends = itertools.accumulate(groups[name] for name in parted)
    firsts = {name: end - groups[name] for name, end in zip(parted, ends, strict=True)}
    of_partitions: dict[str, bytes] = {}
    count = sum(groups[name] for name in parted) * _FIRST_CHARACTERS
    with scratch.Parts(reading.scratch_folder, count, _SPILLED_BYTES) as parts:

        def add(name: str, records: pa.Table) -> None:
            if records.num_rows:
                places = _parts_of(records.column("key"), groups[name])
                parts.add(records, places + firsts[name] * _FIRST_CHARACTERS)

        def take(records: Mapping[str, pa.Table]) -> None:
            for name, some in records.items():
                add(name, some)

        looked = _looked_into(_places(snapshot, data_files), source, reading, take)
        for path, of_path in itertools.groupby(looked, key=lambda each: each[0]):
            latest = (each for _, found in of_path for each in found)
            for each in partition_statistics.of_all_files(path, latest):
                record = metadata_avro.encode_statistics(each, RecordType.PARTITION_STATS)
                if each.expression is None:
                    of_partitions[metadata_avro.statistics_prefix(each.column, path)] = record
                else:
                    key = metadata_avro.expression_key(each.column, path)
                    add(each.expression.partition, metadata_merging.table({key: record}))
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


def _parted(source: statistics_reading.Source) -> tuple[str, ...]:
    """Return the partitions of the MDT whose records are made file by file."""
    return (file_statistics.COLUMN_STATS, *(each.partition for each in source.wanted.expressions))


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
) -> list[_Place]:
    view = snapshot.view
    names = Counter(each.name for found in data_files.values() for each in found)
    places = []
    for path, found in data_files.items():
        latest = {
            each.path for file_slice in view.latest_slices(path) for each in file_slice.data_files
        }
        places += [_Place(path, each, each.path in latest, names[each.name] == 1) for each in found]
    return places


def _looked_into(
    places: Sequence[_Place],
    source: statistics_reading.Source,
    reading: Reading,
    take: Callable[[Mapping[str, pa.Table]], object],
) -> Iterator[tuple[str, Sequence[ColumnStatistics]]]:
    """Yield statistics of partitions, and have the records of files taken, some at a time."""
    engine = reading.engine
    of_a_task, tasks = 1, _TASKS_AT_ONCE * _FILES_OF_A_TASK
    if engine.is_distributed:
        of_a_task = _FILES_OF_A_TASK
        tasks = max(_TASKS_AT_ONCE, _TASKS_PER_CORE * engine.parallelism)
    look = functools.partial(_look, source)
    for first in range(0, len(places), tasks * of_a_task):
        some = places[first : first + tasks * of_a_task]
        reading.hear(some[0].partition_path)
        reading.count(first, len(places))
        items = [some[at : at + of_a_task] for at in range(0, len(some), of_a_task)]
        for looked in engine.map(look, items):
            take(looked.records)
            yield from looked.of_partitions


def _look(source: statistics_reading.Source, places: Sequence[_Place]) -> _Looked:
    """Look into some data files; those that are gone are left out."""
    found = [(place, _of_file(source, place.data_file)) for place in places]
    unique = [each for each in found if each[0].is_named_once]
    by_path = itertools.groupby(found, key=lambda each: each[0].partition_path)
    return _Looked(
        records={name: _records(unique, name) for name in _parted(source)},
        of_partitions=[
            (path, partition_statistics.of_some_files(_latest(of_path)))
            for path, of_path in by_path
        ],
    )


def _latest(
    found: Iterable[tuple[_Place, Sequence[ColumnStatistics]]],
) -> Iterator[ColumnStatistics]:
    return (each for place, of_file in found if place.is_latest for each in of_file)


def _of_file(
    source: statistics_reading.Source, data_file: listing.DataFile
) -> tuple[ColumnStatistics, ...]:
    try:
        return statistics_reading.of_file(source, data_file)
    except errors.NotFoundError:
        return ()


def _records(looked: Sequence[tuple[_Place, Sequence[ColumnStatistics]]], name: str) -> pa.Table:
    """Return the records of some files in one partition of the MDT."""
    found = {
        metadata_avro.statistics_key(each, place.partition_path): _record(each, place)
        for place, of_file in looked
        for each in of_file
        if _partition_of(each) == name
    }
    return metadata_merging.table(found)


def _record(statistics: ColumnStatistics, place: _Place) -> bytes:
    if statistics.expression is None:
        return metadata_avro.encode_statistics(statistics, RecordType.COLUMN_STATS)
    return metadata_records.expression_record(statistics, place.data_file.size_bytes)


def _partition_of(statistics: ColumnStatistics) -> str:
    if statistics.expression is None:
        return file_statistics.COLUMN_STATS
    return statistics.expression.partition


def _prepared(records: Iterator[pa.Table], now_ms: int) -> metadata_writing.PreparedBase | None:
    """Return the base file of a file group; None without records."""
    base = metadata_writing.prepare_base(records, now_ms)
    return base if base.records else None
