"""The delta commits of a table's metadata table (MDT), one for each change of its data files.

    put       in the lock scope that completes an action, before its completed file: the same
              requested time, the records of its changes, a completion time before the action's
    take_off  in the lock scope that takes an instant back, before it leaves the timeline

Readers let a delta commit count once the data's instant is pending no more, so that both take
effect in one step. What a dead executor left at that time is taken off first: a log file that was
written twice would count twice, and tell of files that are gone.

Requests: of a change four, and a listing and a log file for each file group that gets records.
Source: `HoodieBackedTableMetadataWriter.java`; protocol.md: The metadata table.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from hoodie import errors
from hoodie.filegroup import metadata_records, metadata_table, metadata_writing
from hoodie.format import file_names, metadata_schemas, timeline_avro
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, metadata_timelines, transitions
from hoodie.transaction import markers, table_lock
from hoodie.transaction.client import Client, OpenAction

logger = logging.getLogger(__name__)

_OPERATION = "UPSERT_PREPPED"

Logs: TypeAlias = Mapping[files.FileGroupId, Mapping[str, bytes]]
"""Records by file group and key."""


def put(
    client: Client,
    scope: table_lock.LockScope,
    opened: OpenAction,
    changes: metadata_records.Changes,
    is_ours: markers.Check,
) -> None:
    """Write the delta commit of a change.

    Args:
        client: Whose change it is; of a table with an MDT.
        scope: Which completes the action.
        opened: The action.
        changes: What it did.
        is_ours: Raises when another may be at work on the action.

    Raises:
        FormatError: The MDT lacks a change that the data's timeline shows, or a partition.
        ConflictError: A compaction of the MDT has what a dead executor of the action left.
        HoodieError: Lock or storage failed; what is left there counts for nobody.
    """
    beside = scope.beside
    assert client.beside is not None, client.storage.uri
    assert beside is not None, client.storage.uri
    refuse_behind(client, scope)
    storage = client.beside
    partitions = opened.config.metadata_partitions
    _remove(storage, beside, opened.requested_time, partitions, is_ours)
    logs = _logs(storage, metadata_records.of_changes(changes, partitions))
    completion_time = client.time_before_another(scope)
    ids = {commits.WRITE_ID_KEY: opened.write_id}
    is_ours()
    requested = transitions.request(
        storage, opened.requested_time, instants.Action.DELTA_COMMIT, b"", lambda: True
    )
    begun = commits.CommitMetadata(operation=_OPERATION, stats=(), extra=ids)
    inflight = transitions.start(
        storage, requested, timeline_avro.encode_commit(begun), lambda: False
    )
    now_ms = client.clock.now_ms()
    stats = []
    for place, (group, records) in enumerate(logs.items()):
        is_ours()
        token = file_names.write_token(place, opened.stage, 0)
        stats.append(
            metadata_writing.write_log(
                storage, group, opened.requested_time, token, records, now_ms
            )
        )
    done = commits.CommitMetadata(
        operation=_OPERATION,
        stats=tuple(stats),
        extra={commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(), **ids},
    )
    content = timeline_avro.encode_commit(done)
    transitions.complete_at(storage, inflight, completion_time, content, is_ours)


def is_due(client: Client, scope: table_lock.LockScope) -> bool:
    """Return whether the MDT is to be compacted after a change that was made in a scope."""
    if scope.beside is None:
        return False
    waiting = metadata_timelines.waiting(scope.beside) + 1
    return waiting >= client.settings.metadata_delta_commits_max


def refuse_behind(client: Client, scope: table_lock.LockScope) -> None:
    """Refuse to change a table whose metadata table lacks a change.

    Raises:
        FormatError: It does. Whoever wrote it did not keep the metadata table up.
    """
    assert client.beside is not None, client.storage.uri
    assert scope.beside is not None, client.storage.uri
    if not scope.beside.completed:
        raise errors.FormatError(
            f"{client.beside.uri} has no completed instant, expected a metadata table: rebuild "
            "it by `hoodie metadata init --rebuild`, or drop it by `hoodie metadata drop`"
        )
    lacking = metadata_timelines.lacking(scope.beside, scope.timeline)
    if lacking is not None:
        raise errors.FormatError(
            f"{client.beside.uri} lacks {lacking}: the table was changed without it; expected a "
            "metadata table with every change: rebuild it by `hoodie metadata init --rebuild`, "
            "or drop it by `hoodie metadata drop`"
        )


def take_off(
    client: Client,
    scope: table_lock.LockScope,
    opened: OpenAction,
    target: instants.InstantTime,
    is_ours: markers.Check,
) -> None:
    """Take the delta commit of a pending instant off; none is fine.

    Args:
        client: Who takes the instant back.
        scope: In which it leaves the data's timeline.
        opened: The rollback.
        target: Requested time of the instant.
        is_ours: Raises when another may be at work on it.

    Raises:
        ConflictError: A compaction of the MDT has it.
        HoodieError: Lock or storage failed; it is repeated with the rollback.
    """
    if client.beside is None or scope.beside is None:
        return
    partitions = opened.config.metadata_partitions
    _remove(client.beside, scope.beside, target, partitions, is_ours)


def _remove(
    storage: Storage,
    timeline: active.ActiveTimeline,
    time: instants.InstantTime,
    partitions: Iterable[str],
    is_ours: Callable[[], None],
) -> None:
    """Remove a delta commit: it counts no more at once, and is last to be forgotten."""
    found = [each for each in timeline.files if each.requested_time == time]
    if not found:
        return
    completed = [each for each in found if each.is_completed]
    for each in timeline.instants:
        is_compaction = each.action.completed is instants.Action.COMMIT
        if is_compaction and any(
            each.requested_time > str(one.completion_time) for one in completed
        ):
            raise errors.ConflictError(
                f"{time} cannot be taken off {storage.uri}: compaction {each} has it; rebuild "
                "the metadata table by `hoodie metadata init --rebuild`"
            )
    logger.info("%s: %s is taken off", storage.uri, time)
    pending = sorted((each for each in found if each.is_pending), key=_is_requested)
    paths = [
        *map(transitions.path, completed),
        *_logs_of(storage, time, partitions),
        *map(transitions.path, pending),
    ]
    for path in paths:
        is_ours()
        storage.delete(path)


def _is_requested(instant: instants.Instant) -> bool:
    return instant.state is instants.State.REQUESTED


def _logs_of(
    storage: Storage, time: instants.InstantTime, partitions: Iterable[str]
) -> Iterator[str]:
    """Yield the paths of an instant's log files; a listing for each partition."""
    for partition in partitions:
        for name in storage.names(partition):
            path = files.join(partition, name)
            parsed = file_names.parse_new(path, 0, metadata_table.EXTENSION)
            if parsed is not None and parsed.instant_time == time:
                yield path


def _logs(storage: Storage, records: metadata_records.Records) -> Logs:
    """Return what each file group of the MDT gets; a listing for each partition."""
    logs: dict[files.FileGroupId, dict[str, bytes]] = {}
    for partition, by_key in records.items():
        if not by_key:
            continue
        ids = metadata_writing.group_ids(storage, partition)
        if not ids:
            raise errors.FormatError(f"{storage.uri}/{partition} has no file groups")
        keys = list(by_key)
        for key, place in zip(keys, metadata_records.places(keys, len(ids)), strict=True):
            group = files.FileGroupId(partition_path=partition, file_id=ids[place])
            logs.setdefault(group, {})[key] = by_key[key]
    return logs
