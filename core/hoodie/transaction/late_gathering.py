"""What a write did not gather of its files while it wrote them, since nothing asked for it then.

Indexes are built and dropped beside writes. A write completes by the configuration that the table
has in that lock scope, so it looks into its own files for statistics, bloom filters and record keys
that it does not have, before it takes the lock. If the table is configured anew meanwhile, it looks
again.

Bloom filters are always read: a task does not send them along (`key_footers`), and a lock scope
with a request for each file would be long. Source: RFC-45; protocol.md: The metadata table (M-P).
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hoodie import deferred, errors
from hoodie.engine import ahead
from hoodie.filegroup import metadata_records
from hoodie.format import bloom_filters, file_names
from hoodie.model import (
    commits,
    file_statistics,
    key_changes,
    partition_columns,
    schemas,
    settings,
    table_config,
)
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.timeline import index_definitions
from hoodie.transaction.client import Client, OpenAction

with deferred.imports():
    from hoodie.filegroup import held_keys, key_footers, statistics_reading, stored_keys

_READ_AT_ONCE = 16


class ReconfiguredError(errors.ConflictError):
    """The table's configuration has changed since it was found out what a write has not gathered.

    Attributes:
        config: As it is now.
    """

    def __init__(self, config: table_config.TableConfig) -> None:
        super().__init__(f"the configuration of table {config.name} has changed")
        self.config = config


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What was found in the files of a write.

    Attributes:
        config: The table's configuration that asks for it.
        filters: The bloom filters of base files, by path.
        statistics: Those of files without all that are needed, by path.
        keys: What was done to the keys of file groups, by the paths of files without it.
    """

    config: table_config.TableConfig
    filters: Mapping[str, bloom_filters.StoredFilter] = field(default_factory=dict)
    statistics: Mapping[str, tuple[ColumnStatistics, ...]] = field(default_factory=dict)
    keys: Mapping[str, key_changes.KeyChanges] = field(default_factory=dict)

    def completed(self, stats: Sequence[commits.WriteStat]) -> Sequence[commits.WriteStat]:
        """Return stats of the write with the statistics and keys that were found since."""
        return [
            replace(
                each,
                statistics=self.statistics.get(each.path, each.statistics),
                keys=self.keys.get(each.path, each.keys),
            )
            for each in stats
        ]


def gather(
    client: Client,
    opened: OpenAction,
    metadata: commits.CommitMetadata,
    config: table_config.TableConfig,
) -> Gathered:
    """Return what the metadata table needs of a write and is not in its stats.

    Of a file that is gone by now no keys or filters are found: in the lock scope it is found who
    took the write back.
    Requests: those of the footers of base files, if there are bloom filters. Where the table was
    configured anew since the data was prepared, one for the definitions of indexes, and those of a
    read of each file that lacks statistics or keys; for keys also of what a base file replaced.

    Args:
        client: Whose write it is.
        opened: The write, or the execution of a plan.
        metadata: What it wrote.
        config: The table's configuration as it is now.

    Raises:
        NotFoundError: A file that lacks statistics is gone by now.
        FormatError: A file is broken.
        StorageError: The storage failed.
    """
    # Tables are opened by one configuration, and writes begun by another.
    is_prepared = config == opened.prepared_for == opened.config
    filters: Mapping[str, bloom_filters.StoredFilter] = {}
    if file_statistics.BLOOM_FILTERS in config.metadata_partitions_kept_up:
        paths = metadata_records.base_files(stat.path for stat in metadata.stats)
        # Whoever knew of the filters from the beginning has written them.
        read = key_footers.read_filters
        if not is_prepared:
            read = key_footers.read_or_made_filters
        filters = read(client.storage, paths, client.parallelism)
    statistics: Mapping[str, tuple[ColumnStatistics, ...]] = {}
    # One that was dropped and made again may have another function under its old name.
    may_differ = not is_prepared or bool(file_statistics.expressions_of(config))
    if may_differ and file_statistics.is_needed(config):
        statistics = _statistics(client, opened, metadata, config)
    keys: Mapping[str, key_changes.KeyChanges] = {}
    if key_changes.RECORD_INDEX in config.metadata_partitions_kept_up:
        keys = _keys(client, opened, metadata, config)
    return Gathered(config=config, filters=filters, statistics=statistics, keys=keys)


def _statistics(
    client: Client,
    opened: OpenAction,
    metadata: commits.CommitMetadata,
    config: table_config.TableConfig,
) -> Mapping[str, tuple[ColumnStatistics, ...]]:
    columns = partition_columns.whole(
        schemas.from_avro(metadata.extra[commits.SCHEMA_KEY]), config
    ).arrow
    wanted = index_definitions.wanted_statistics(client.storage, config, columns)
    lacking = [
        parsed
        for stat in metadata.stats
        if _lacks(stat, wanted)
        and (parsed := file_names.parse(stat.path, stat.size_bytes)) is not None
    ]
    source = statistics_reading.Source(
        client.storage, columns, wanted, lambda time: time == opened.requested_time
    )
    threads = min(client.parallelism, _READ_AT_ONCE)
    found = ahead.results(functools.partial(statistics_reading.of_file, source), lacking, threads)
    return {each.path: stats for each, stats in zip(lacking, found, strict=True)}


def _lacks(stat: commits.WriteStat, wanted: file_statistics.Wanted) -> bool:
    """Return whether statistics are wanted of a file that its stat does not have."""
    of_columns = {each.column for each in stat.statistics if each.expression is None}
    of_expressions = {each.expression for each in stat.statistics}
    # A file without rows has none of what functions make.
    has_all = not stat.records or of_expressions.issuperset(wanted.expressions)
    return bool(wanted.kinds.keys() - of_columns) or not has_all


def _keys(
    client: Client,
    opened: OpenAction,
    metadata: commits.CommitMetadata,
    config: table_config.TableConfig,
) -> Mapping[str, key_changes.KeyChanges]:
    lacking = [stat for stat in metadata.stats if stat.keys is None]
    if not lacking:
        return {}
    source = held_keys.KeySource(
        client.storage,
        config,
        partition_columns.whole(schemas.from_avro(metadata.extra[commits.SCHEMA_KEY]), config),
        lambda time: time == opened.requested_time,
    )
    is_alone = client.settings.concurrency is not settings.ConcurrencyMode.NON_BLOCKING
    read = functools.partial(stored_keys.changes_by, source, takes_keys_out=is_alone)
    threads = min(client.parallelism, _READ_AT_ONCE)
    found = ahead.results(read, lacking, threads)
    return {each.path: keys for each, keys in zip(lacking, found, strict=True)}
