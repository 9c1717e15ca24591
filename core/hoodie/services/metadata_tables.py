"""`hoodie metadata`: what the metadata table of a table has, and whether it is right."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    listing,
    metadata_listing,
    metadata_table,
    reading,
    snapshots,
    statistics_reading,
)
from hoodie.model import file_statistics, files, instants, key_changes, schemas, table_config
from hoodie.services import (
    bloom_filter_checks,
    metadata_statistics,
    record_index_checks,
    secondary_index_checks,
)
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, index_definitions, metadata_timelines

Hear = Callable[[str], object]
Sampled = TypeVar("Sampled")
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
class Glance:
    """What is known of a metadata table by the names of its files.

    Attributes:
        commits_since_compaction: As of `Status`.
        problem: As of `Status`; what is wrong inside of files is not seen.
        behind: Statistics that lack a write of rows since their last compaction, or what an
            indexing action made, each with the first such instant.
        has_partitioned_record_index: Whether it has a record index that is one of each partition.
    """

    commits_since_compaction: int = 0
    problem: str | None = None
    behind: tuple[tuple[str, instants.InstantTime], ...] = ()
    has_partitioned_record_index: bool = False


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
    partitions = tuple(
        _status_of(name, is_ready, found.latest_slices(name))
        for name, is_ready in sorted(named.items())
    )
    problem = None
    try:
        found.partition(metadata_table.FILES)
    except (errors.FormatError, errors.NotFoundError, errors.UnsupportedError) as error:
        problem = str(error)
    return Status(
        partitions=partitions,
        last=found.timeline.completed[-1],
        commits_since_compaction=metadata_timelines.waiting(found.timeline),
        problem=problem,
    )


def glance(
    storage: Storage, config: table_config.TableConfig, timeline: active.ActiveTimeline
) -> Glance | None:
    """Return how a metadata table is by the names of its files; None if readers have none to use.

    Two listings; a read for each pending compaction of it. Where other engines may write the table,
    a listing of each partition of statistics, too; where there is a record index, a read.

    Args:
        storage: The data table's.
        config: Its configuration.
        timeline: Its timeline, read before.
    """
    if not config.has_metadata_table:
        return None
    try:
        found = metadata_table.MetadataTable(storage, timeline)
        found.check_is_whole()
        found.check_has_base(found.latest_slices(metadata_table.FILES))
        has_partitioned = key_changes.RECORD_INDEX in config.metadata_partitions and (
            index_definitions.is_partitioned(storage)
        )
    except (errors.FormatError, errors.NotFoundError, errors.UnsupportedError) as error:
        return Glance(problem=str(error))
    behind: tuple[tuple[str, instants.InstantTime], ...] = ()
    if config.has_foreign_writers:
        # What is archived meanwhile is not there any more when it is read.
        with contextlib.suppress(errors.FormatError, errors.NotFoundError, errors.UnsupportedError):
            behind = tuple(_behind(found, config))
    return Glance(
        commits_since_compaction=metadata_timelines.waiting(found.timeline),
        behind=behind,
        has_partitioned_record_index=has_partitioned,
    )


def _behind(
    found: metadata_table.MetadataTable, config: table_config.TableConfig
) -> Iterator[tuple[str, instants.InstantTime]]:
    expressions = index_definitions.of_expressions(
        found.data_storage, config, config.metadata_partitions
    )
    own = (each.partition for each in expressions)
    for name in (file_statistics.COLUMN_STATS, file_statistics.PARTITION_STATS, *own):
        if name in config.metadata_partitions:
            lacking = found.lacking_rows(name) or found.rolled_back(name)
            if lacking is not None:
                yield name, lacking


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """How a metadata table differs from what it is about.

    Attributes:
        differences: In which files there are.
        statistics: In what is in them.
        filters: In the bloom filters of their keys.
        keys: In the file groups of keys, by the record index.
        pairs: In the rows of values, by secondary indexes.
        files: So many files were compared.
        files_read: So many were looked into for their statistics.
        filters_compared: So many base files were looked into for their bloom filters.
        groups_compared: So many file groups were looked into for their keys, or for the values that
            secondary indexes have.
        indexes_of_groups: Which indexes were asked for these.
    """

    differences: tuple[Difference, ...]
    statistics: tuple[metadata_statistics.WrongStatistics, ...]
    filters: tuple[bloom_filter_checks.WrongFilter, ...]
    keys: tuple[record_index_checks.WrongKeys, ...]
    pairs: tuple[secondary_index_checks.MissingPairs, ...]
    files: int
    files_read: int
    filters_compared: int
    groups_compared: int
    indexes_of_groups: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether there is no difference that reads rely on."""
        wrong = any(each.is_relied_on for each in self.statistics)
        return not (self.differences or wrong or self.filters or self.keys or self.pairs)


@dataclass(frozen=True, slots=True)
class Sample:
    """What of a table is compared, in even distances of its order.

    Attributes:
        partitions_max: So many partitions; None for all.
        groups_max: Into the files of so many file groups of each of these is looked; None for all.
            Which files there are is compared of all.
    """

    partitions_max: int | None = None
    groups_max: int | None = None


ALL = Sample()


def validate(
    storage: Storage,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    engine: Engine,
    hear: Hear = lambda partition_path: None,
    sample: Sample = ALL,
) -> Validation:
    """Compare a metadata table with the committed files on storage.

    Writers may go on meanwhile. One listing of the table, the metadata table's `files`, and if it
    has statistics what `metadata_statistics` reads, and if it has bloom filters each of them, and
    the footer of each base file; of a partition at a time. If it has a record index, the keys of
    each file slice, merged, and where they are by it; and of secondary indexes the values.

    Args:
        storage: The table's.
        config: Its configuration.
        schema: Its columns.
        engine: Looks into data files.
        hear: Hears of each partition.
        sample: Which of its partitions are compared, and which file groups.

    Raises:
        NotFoundError: The table has no metadata table.
        FormatError: The metadata table lacks a change of the table, or is damaged.
        UnsupportedError: It has something that is not read.
    """
    if not config.has_metadata_table:
        raise errors.NotFoundError(f"{storage.uri} has no metadata table")

    wanted = index_definitions.wanted_statistics(storage, config, schema.arrow)
    secondary = index_definitions.of_secondary_indexes(storage, config, config.metadata_partitions)

    def compare(snapshot: snapshots.Snapshot) -> Validation:
        table = metadata_table.MetadataTable(storage, snapshot.timeline)
        by_metadata = metadata_listing.Files(table.partition(metadata_table.FILES))
        on_storage = listing.of_table(storage, config)
        statistics = metadata_statistics.Comparison(
            table,
            config.metadata_partitions,
            statistics_reading.Source(
                storage,
                schema.arrow,
                wanted,
                snapshot.committed.is_committed,
                fills_partial_rows=False,
                is_certain=True,
            ),
            engine,
            is_shared=config.has_foreign_writers,
        )
        by_storage = replace(snapshot, listing=on_storage).view
        differences: list[Difference] = []
        wrong: list[metadata_statistics.WrongStatistics] = []
        filters = None
        if file_statistics.BLOOM_FILTERS in config.metadata_partitions:
            filters = table.partition(file_statistics.BLOOM_FILTERS, is_held=False)
        wrong_filters: list[bloom_filter_checks.WrongFilter] = []
        missing_pairs: list[secondary_index_checks.MissingPairs] = []
        has_record_index = key_changes.RECORD_INDEX in config.metadata_partitions
        wrong_keys = [*(record_index_checks.rolled_back(table) if has_record_index else ())]
        is_asked = has_record_index and not wrong_keys
        reader = reading.SliceReader(storage, config, schema, snapshot.committed.is_committed)
        files_seen = filters_compared = groups_compared = 0
        paths = sorted({*by_metadata.partitions(), *on_storage.partitions()})
        for path in _sampled(paths, sample.partitions_max):
            hear(path)
            ours = _committed(snapshot, by_metadata, path)
            theirs = _committed(snapshot, on_storage, path)
            files_seen += len({*ours, *theirs})
            differences += _differences(path, ours, theirs)
            data_files = [each for each in on_storage.files(path) if each.name in theirs]
            every = by_storage.latest_slices(path)
            slices = _sampled(every, sample.groups_max)
            if len(slices) < len(every):
                groups = {each.group for each in slices}
                data_files = [each for each in data_files if each.group in groups]
            wrong += statistics.compare(path, data_files, slices)
            if filters is not None:
                whole = [each for each in data_files if isinstance(each, files.BaseFile)]
                filters_compared += len(whole)
                wrong_filters += bloom_filter_checks.wrong_filters(storage, engine, filters, whole)
            if is_asked or secondary:
                groups_compared += len(slices)
            for each in secondary:
                missing_pairs += secondary_index_checks.missing_pairs(
                    table, each, reader, engine, slices
                )
            if is_asked:
                wrong_keys += record_index_checks.wrong_keys(table, reader, engine, slices)
        return Validation(
            differences=tuple(differences),
            statistics=tuple(wrong),
            filters=tuple(wrong_filters),
            keys=tuple(wrong_keys),
            pairs=tuple(missing_pairs),
            files=files_seen,
            files_read=statistics.files,
            filters_compared=filters_compared,
            groups_compared=groups_compared,
            indexes_of_groups=(
                *((key_changes.RECORD_INDEX,) if is_asked else ()),
                *(each.partition for each in secondary),
            ),
        )

    return snapshots.consistent(storage, config, compare)


def _sampled(found: Sequence[Sampled], count_max: int | None) -> Sequence[Sampled]:
    """Return so many at most, the first and the last among them."""
    if count_max is None or len(found) <= count_max:
        return found
    last = len(found) - 1
    places = {round(number * last / max(1, count_max - 1)) for number in range(count_max)}
    return [found[place] for place in sorted(places)]


def _differences(
    partition_path: str, ours: Mapping[str, int], theirs: Mapping[str, int]
) -> Iterator[Difference]:
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            yield Difference(
                path=files.join(partition_path, name),
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
