"""Making the metadata table (MDT) of a table that has none, from what is on storage; dropping it.

    look        without the lock: a timeline, and the files that it counts; where statistics are
                wanted what is in them, and the base files of these (`initial_statistics`)
    catch up    without the lock: what is in files of changes that completed since
    make        in one lock scope: what completed since is added to these, and all of the MDT is
                written; then the table's properties say that it has one
    drop        in one lock scope: the properties first, then the files

A crash leaves files that nobody looks at, or that are of no use without the others: `make` begins
with their removal. Requests under the lock: some 15, with statistics 40, and one for each instant
that completed since the look; and what it takes to look into the files of those that completed
while the others were looked into. Source: `HoodieBackedTableMetadataWriter.java`
(initializeFromFilesystem); protocol.md: The metadata table.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from hoodie import environment, errors
from hoodie.filegroup import (
    listing,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
)
from hoodie.metadata import initial_statistics, late_changes, partition_making
from hoodie.model import file_statistics, secondary_indexes, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    index_definitions,
    metadata_timelines,
    table_properties,
)
from hoodie.transaction import (
    admission,
    configuration,
    manager,
    stored_schemas,
    table_lock,
)
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

_LOOKS_MAX = 5
_ROUNDS_MAX = 3
"""So often what completed meanwhile is looked into before the lock is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was found without the lock.

    Attributes:
        timeline: The table's.
        sizes: Of the files that it counts, by partition path and name.
        statistics: What is in them; None where it is not wanted.
    """

    timeline: active.ActiveTimeline
    sizes: metadata_records.Sizes
    statistics: late_changes.Statistics | None


def initialise(
    target: manager.Target,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
    *,
    has_statistics: bool = True,
    hear: Callable[[str], object] = lambda partition_path: None,
) -> None:
    """Make the MDT of a table.

    Args:
        target: The table.
        transaction: On whose behalf.
        env: Time, ids, threads.
        has_statistics: Whether it gets statistics of files, and of partitions if there are any, as
            Apache Hudi makes them by default; else `files` alone.
        hear: Hears of partitions of the data table before their files are looked into.

    Raises:
        AlreadyExistsError: It has one.
        ConflictError: It is being restored, or changes faster than its files can be listed.
        FormatError: A data file is broken.
        HoodieError: Lock or storage failed; there is no MDT then.
    """
    reading = None
    if has_statistics:
        folder = transaction.settings.scratch_folder
        reading = initial_statistics.Reading(target.schema, env.engine, hear, scratch_folder=folder)
    with closing(manager.open_client(target, transaction, env)) as client:
        initialise_by(client, target.config, reading)


def initialise_by(
    client: Client,
    expected: table_config.TableConfig,
    reading: initial_statistics.Reading | None = None,
) -> None:
    """Make the MDT of a table by a client of it; as `initialise`.

    Args:
        client: The client.
        expected: The table's configuration.
        reading: How data files are looked into; None for `files` alone.
    """
    for _ in range(_LOOKS_MAX):
        look = _look(client, expected, reading)
        try:
            if look.statistics is not None:
                _catch_up(client.storage, look, look.statistics)
            made_on = client.lock.decide(functools.partial(_make, client, expected, look))
            if made_on is not None:
                client.lock.decide(functools.partial(_refuse_lacking, client, made_on))
        except late_changes.OutdatedError as outdated:
            logger.info("%s: listing again: %s", client.storage.uri, outdated)
        else:
            return
    raise errors.ConflictError(
        f"{client.storage.uri} changed during each of {_LOOKS_MAX} listings of its files; retry"
    )


def drop(
    target: manager.Target, transaction: manager.TransactionOptions, env: environment.Environment
) -> bool:
    """Drop the MDT of a table; return whether there was anything of one.

    Raises:
        HoodieError: Lock or storage failed; files that are left do no harm.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return drop_by(client)


def drop_by(client: Client) -> bool:
    """Drop the MDT of a table by a client of it; as `drop`."""

    def decide(scope: table_lock.LockScope) -> bool:
        client.check_guards()
        config = table_properties.load(client.storage, client.clock)
        has_any = bool(config.metadata_partitions or config.metadata_partitions_inflight)
        if has_any:
            columns = [key for key in config.properties if secondary_indexes.is_column_key(key)]
            _put(client, scope, config, {**_WITHOUT, **dict.fromkeys(columns)})
        return has_any

    had_any = client.lock.decide(decide)
    # Nobody looks at them any more; but another may make a new one.
    with client.lock.scope() as scope:
        config = table_properties.load(client.storage, client.clock)
        if not config.metadata_partitions and not config.metadata_partitions_inflight:
            scope.check()
            client.storage.delete_directory(metadata_timelines.DIRECTORY)
    return had_any


_WITHOUT: configuration.Changes = {
    table_config.METADATA_PARTITIONS_KEY: None,
    table_config.METADATA_PARTITIONS_INFLIGHT_KEY: None,
    table_config.METADATA_PARTITIONS_OWN_KEY: None,
    table_config.INDEX_DEFINITIONS_PATH_KEY: None,
    table_config.STATISTICS_COLUMNS_KEY: None,
}


def _put(
    client: Client,
    scope: table_lock.LockScope,
    config: table_config.TableConfig,
    changes: configuration.Changes,
    beside: Mapping[str, bytes] | None = None,
) -> None:
    """Change the properties, as decided in a scope.

    Where other engines write as well not by an epoch: if it was finished later it would name an MDT
    into which they have logged nothing until then, or undo what they have changed.
    """
    if config.has_foreign_writers:
        table_properties.update(client.storage, changes, client.clock, scope.check)
    else:
        configuration.put(client, scope, changes, beside)


def _refuse_lacking(
    client: Client, made_on: active.ActiveTimeline, scope: table_lock.LockScope
) -> None:
    """Drop an MDT again that lacks what others completed after its maker had lost the lock.

    Args:
        client: The maker.
        made_on: What it was made of.
        scope: A later one.

    Raises:
        late_changes.OutdatedError: It was dropped.
    """
    config = table_properties.load(client.storage, client.clock)
    beside = active.listed(metadata_timelines.opened(client.storage))
    known = set(made_on.completed)
    for each in scope.timeline.completed:
        if each not in known and metadata_timelines.is_lacking(beside, each):
            _put(client, scope, config, _WITHOUT)
            raise late_changes.OutdatedError(f"{each} completed after the lock was lost")


def _look(
    client: Client,
    config: table_config.TableConfig,
    reading: initial_statistics.Reading | None,
) -> _Look:
    storage = client.storage
    timeline = active.listed(storage)
    snapshot = snapshots.take(storage, config, timeline)
    data_files = initial_statistics.data_files(snapshot)
    statistics = None
    if reading is not None:
        now = stored_schemas.columns_of(storage, config, timeline, reading.schema)
        wanted = file_statistics.wanted(_with_partitions(config), now.arrow, None)
        found = late_changes.Statistics(schema=now, wanted=wanted, reading=reading, bases={})
        bases = initial_statistics.gather(
            snapshot,
            data_files,
            found.source(storage, timeline),
            reading,
            client.clock.now_ms(),
        )
        statistics = replace(found, bases=bases)
    return _Look(timeline=timeline, sizes=_sizes(snapshot, data_files), statistics=statistics)


def _with_partitions(config: table_config.TableConfig) -> table_config.TableConfig:
    """Return the configuration with all partitions that are made by default."""
    left_out = set() if config.partition_fields else {file_statistics.PARTITION_STATS}
    names = sorted(initial_statistics.FILE_GROUPS.keys() - left_out)
    return replace(config, metadata_partitions=tuple(names))


def _sizes(
    snapshot: snapshots.Snapshot, data_files: Mapping[str, Sequence[listing.DataFile]]
) -> metadata_records.Sizes:
    """Return the sizes of the files that count, by partition path and name."""
    return {
        path: {each.name: each.size_bytes for each in (*of_path, *_change_data(snapshot, path))}
        for path, of_path in data_files.items()
    }


def _change_data(
    snapshot: snapshots.Snapshot, partition_path: str
) -> Iterable[listing.ChangeDataFile]:
    return (
        each
        for each in snapshot.listing.change_data(partition_path)
        if snapshot.committed.is_committed(each.instant_time)
    )


def _catch_up(storage: Storage, look: _Look, statistics: late_changes.Statistics) -> None:
    """Look into the files of changes that completed since a look, until there is no new one.

    Raises:
        late_changes.OutdatedError: As `late_changes.since`.
    """
    for _ in range(_ROUNDS_MAX):
        now = active.listed(storage)
        changes = list(late_changes.since(storage, look.timeline, now))
        if not statistics.look_into(storage, now, changes):
            return


def _make(
    client: Client,
    expected: table_config.TableConfig,
    look: _Look,
    scope: table_lock.LockScope,
) -> active.ActiveTimeline | None:
    """Make the MDT; return what it was made of if the lock was lost by then, else None."""
    config = admission.admit_table(client, scope, expected)
    if config.metadata_partitions:
        raise errors.AlreadyExistsError(
            f"{client.storage.uri} has a metadata table, with "
            f"{', '.join(config.metadata_partitions)}: drop it first, or use --rebuild"
        )
    changes = list(late_changes.since(client.storage, look.timeline, scope.timeline))
    sizes = metadata_records.changed(look.sizes, changes)
    contents_by_name = {metadata_table.FILES: _files_content(client, sizes)}
    made = {table_config.METADATA_PARTITIONS_KEY: metadata_table.FILES}
    if look.statistics is not None:
        wanted = _with_partitions(config).metadata_partitions
        contents_by_name |= _statistics_contents(
            client, scope, config, look.statistics, changes, wanted
        )
        made = {
            table_config.METADATA_PARTITIONS_KEY: ",".join(wanted),
            table_config.INDEX_DEFINITIONS_PATH_KEY: index_definitions.PATH,
        }
    storage = metadata_timelines.opened(client.storage)
    scope.check()
    client.storage.delete_directory(metadata_timelines.DIRECTORY)
    if look.statistics is not None:
        scope.check()
        index_definitions.put_of_statistics(client.storage, config, look.statistics.wanted)
    table_properties.create_with(storage, table_config.metadata_properties(config), client.clock)
    beside: dict[str, bytes] = {}
    for time, name in zip(
        metadata_timelines.FIRST_TIMES, initial_statistics.FILE_GROUPS, strict=False
    ):
        if name in contents_by_name:
            beside |= partition_making.make(
                client, scope, storage, time, name, contents_by_name[name]
            )
    _put(client, scope, config, made, beside)
    logger.info("%s: made from %d partitions", storage.uri, len(sizes))
    return None if scope.is_held() else scope.timeline


def _files_content(client: Client, sizes: metadata_records.Sizes) -> partition_making.Content:
    records = metadata_merging.table(metadata_records.of_files(sizes, sizes))
    return partition_making.Content([metadata_writing.prepare_base(records, client.clock.now_ms())])


def _statistics_contents(
    client: Client,
    scope: table_lock.LockScope,
    config: table_config.TableConfig,
    statistics: late_changes.Statistics,
    changes: Sequence[metadata_records.Changes],
    partitions: Iterable[str],
) -> Mapping[str, partition_making.Content]:
    """Return what the partitions with statistics begin with.

    Raises:
        late_changes.OutdatedError: Changes since the look have other columns.
    """
    storage = client.storage
    statistics.look_into(storage, scope.timeline, changes)
    if changes:
        statistics.check_columns(storage, config, scope.timeline)
    names = [name for name in partitions if name in statistics.bases]
    records = metadata_records.of_changes(statistics.completed(changes), names)
    return {name: partition_making.Content(statistics.bases[name], records[name]) for name in names}
