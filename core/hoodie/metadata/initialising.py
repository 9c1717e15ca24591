"""Making the metadata table (MDT) of a table that has none, from what is on storage; dropping it.

    look        without the lock: a timeline, and the files that it counts
    make        in one lock scope: what completed since is added to these, and all of the MDT is
                written; then the table's properties say that it has one
    drop        in one lock scope: the properties first, then the files

A crash leaves files that nobody looks at, or that are of no use without the others: `make` begins
with their removal. Requests under the lock: some 15, and one for each instant that completed since
the look. Source: `HoodieBackedTableMetadataWriter.java` (initializeFromFilesystem);
protocol.md: The metadata table.
"""

import functools
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from hoodie import environment, errors
from hoodie.filegroup import (
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    snapshots,
)
from hoodie.format import file_names, metadata_schemas, properties, timeline_avro
from hoodie.model import commits, files, instants, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    contents,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.transaction import admission, configuration, manager, metadata_commits, table_lock
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

FIRST_TIME = instants.InstantTime("0" * 17)
"""Requested time of the delta commit that makes the partition `files`."""

_TOKEN = file_names.write_token(0, 0, 0)
_LOOKS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was found without the lock.

    Attributes:
        timeline: The table's.
        sizes: Of the files that it counts, by partition path and name.
    """

    timeline: active.ActiveTimeline
    sizes: metadata_records.Sizes


class _OutdatedError(errors.ConflictError):
    """What was found without the lock cannot be brought up to date."""


def initialise(
    target: manager.Target, transaction: manager.TransactionOptions, env: environment.Environment
) -> None:
    """Make the MDT of a table.

    Args:
        target: The table.
        transaction: On whose behalf.
        env: Time, ids, threads.

    Raises:
        AlreadyExistsError: It has one.
        ConflictError: It is being restored, or changes faster than its files can be listed.
        HoodieError: Lock or storage failed; there is no MDT then.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        initialise_by(client, target.config)


def initialise_by(client: Client, expected: table_config.TableConfig) -> None:
    """Make the MDT of a table by a client of it; as `initialise`."""
    for _ in range(_LOOKS_MAX):
        look = _look(client.storage, expected)
        try:
            client.lock.decide(functools.partial(_make, client, expected, look))
        except _OutdatedError as outdated:
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
            configuration.put(client, scope, _WITHOUT)
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
}


def _look(storage: Storage, config: table_config.TableConfig) -> _Look:
    timeline = active.listed(storage)
    snapshot = snapshots.take(storage, config, timeline)
    return _Look(timeline=timeline, sizes=_sizes(snapshot))


def _sizes(snapshot: snapshots.Snapshot) -> metadata_records.Sizes:
    """Return the sizes of the files that count, by partition path and name."""
    found: dict[str, dict[str, int | None]] = {}
    for path in snapshot.listing.partitions():
        data_files = [
            each
            for each in (*snapshot.listing.files(path), *snapshot.listing.change_data(path))
            if snapshot.committed.is_committed(each.instant_time)
        ]
        bases = [each for each in data_files if isinstance(each, files.BaseFile)]
        logs = [each for each in data_files if isinstance(each, files.LogFile)]
        without_orphans = snapshot.committed.without_orphans
        found[path] = {each.name: each.size_bytes for each in without_orphans(bases)}
        found[path] |= {each.name: each.size_bytes for each in without_orphans(logs)}
    return found


def _make(
    client: Client,
    expected: table_config.TableConfig,
    look: _Look,
    scope: table_lock.LockScope,
) -> None:
    config = admission.admit_table(client, scope, expected)
    if config.metadata_partitions:
        raise errors.AlreadyExistsError(
            f"{client.storage.uri} has a metadata table, with "
            f"{', '.join(config.metadata_partitions)}: drop it first, or use --rebuild"
        )
    changes = list(_changes_since(client.storage, look.timeline, scope.timeline))
    sizes = metadata_records.changed(look.sizes, changes)
    storage = metadata_timelines.opened(client.storage)
    scope.check()
    client.storage.delete_directory(metadata_timelines.DIRECTORY)
    beside = _write(client, scope, storage, config, sizes)
    properties = {table_config.METADATA_PARTITIONS_KEY: metadata_table.FILES}
    configuration.put(client, scope, properties, beside)
    logger.info("%s: made from %d partitions", storage.uri, len(sizes))


def _changes_since(
    storage: Storage, before: active.ActiveTimeline, now: active.ActiveTimeline
) -> Iterable[metadata_records.Changes]:
    """Yield the changes of instants that completed between two looks, in their order.

    Raises:
        _OutdatedError: One took others back, or some may have been archived meanwhile.
    """
    known = str(before.completed[-1].completion_time) if before.completed else ""
    if known and now.start is not None and now.start > known:
        raise _OutdatedError("instants were archived meanwhile")
    for each in active.completed_after(now, known):
        if each.action is instants.Action.RESTORE:
            raise _OutdatedError(f"{each} took instants back")
        if each.action.completed in instants.WRITES:
            yield metadata_records.Changes(written=contents.read_commit(storage, each).stats)
        elif each.action is instants.Action.CLEAN:
            deleted = tuple(sorted(contents.read_clean(storage, each).paths))
            yield metadata_records.Changes(deleted=deleted)


def _write(
    client: Client,
    scope: table_lock.LockScope,
    storage: Storage,
    config: table_config.TableConfig,
    sizes: metadata_records.Sizes,
) -> Mapping[str, bytes]:
    """Write an MDT whose only instant is complete in the end; return what an epoch completes."""
    table_properties.create_with(storage, table_config.metadata_properties(config), client.clock)
    group = files.FileGroupId(
        partition_path=metadata_table.FILES, file_id=metadata_table.file_id(metadata_table.FILES, 0)
    )
    scope.check()
    storage.create(
        files.join(metadata_table.FILES, file_names.PARTITION_METADATA),
        properties.partition_metadata(FIRST_TIME, 1),
    )
    requested = transitions.request(
        storage, FIRST_TIME, instants.Action.DELTA_COMMIT, b"", lambda: True
    )
    inflight = transitions.start(storage, requested, b"", lambda: True)
    metadata_writing.write_empty_log(storage, group, FIRST_TIME)
    records = metadata_merging.table(metadata_records.of_files(sizes, sizes))
    stat = metadata_writing.write_base(
        storage, group, FIRST_TIME, _TOKEN, records, client.clock.now_ms()
    )
    done = commits.CommitMetadata(
        operation=commits.Operation.BULK_INSERT.value,
        stats=(stat,),
        extra={
            commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(),
            commits.WRITE_ID_KEY: client.random.uuid(),
        },
    )
    content = timeline_avro.encode_commit(done)
    completion_time = client.time_before_another(scope)
    return metadata_commits.complete(
        storage, scope, inflight, completion_time, content, scope.check
    )
