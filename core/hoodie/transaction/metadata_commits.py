"""The delta commits of a table's metadata table (MDT), one for each change of its data files.

    put       in the lock scope that completes an action, before its completed file: the same
              requested time, the records of its changes, a completion time before the action's
    take_off  in the lock scope that takes an instant back, before it leaves the timeline

Readers let a delta commit count once the data's instant is pending no more, so that both take
effect in one step. What a dead executor left at that time is taken off first: a log file that was
written twice would count twice, and name files that are gone.

Requests: of a change four, and a listing and a log file for each file group that gets records.
Source: `HoodieBackedTableMetadataWriter.java`; protocol.md: The metadata table.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from hoodie import deferred, errors
from hoodie.engine import ahead
from hoodie.filegroup import metadata_records, metadata_table
from hoodie.format import (
    file_names,
    instant_names,
    metadata_schemas,
    timeline_avro,
)
from hoodie.model import commits, files, instants, key_changes
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    contents,
    metadata_timelines,
    table_properties,
    transitions,
)
from hoodie.transaction import markers, table_lock
from hoodie.transaction.client import Client, OpenAction

with deferred.imports():
    from hoodie.filegroup import index_groups, metadata_writing
    from hoodie.transaction import partition_records

logger = logging.getLogger(__name__)

_OPERATION = "UPSERT_PREPPED"
_WRITTEN_AT_ONCE = 16

Logs: TypeAlias = Mapping[files.FileGroupId, metadata_records.Added]
"""Records by file group."""


def put(
    client: Client,
    scope: table_lock.LockScope,
    opened: OpenAction,
    changes: metadata_records.Changes,
    is_ours: markers.Check,
) -> Mapping[str, bytes]:
    """Write the delta commit of a change.

    In a table without foreign writers other executions of a plan may be at work on its files: they
    stay, and the commit names the log files that are its own.

    Args:
        client: Whose change it is; of a table with an MDT.
        scope: Which completes the action.
        opened: The action.
        changes: What it did.
        is_ours: Raises when another may be at work on the action.

    Returns:
        What the action's epoch has to publish first; nothing where the delta commit is complete.

    Raises:
        FormatError: The MDT lacks a change that the data's timeline shows, or a partition.
        ConflictError: A compaction of the MDT has what a dead executor of the action left.
        WriteConflictError: A write that was requested later hides the statistics of this one.
        HoodieError: Lock or storage failed; what is left there counts for nobody.
    """
    beside = scope.beside
    assert client.beside is not None, client.storage.uri
    assert beside is not None, client.storage.uri
    refuse_behind(client, scope)
    storage = client.beside
    partitions = opened.config.metadata_partitions_kept_up
    if not scope.is_courtesy:
        _remove(storage, beside, opened.requested_time, partitions, is_ours)
    records = metadata_records.of_changes(changes, partitions)
    records = partition_records.fitted(client, scope, opened, changes, records)
    added = metadata_records.added(records, changes, partitions, opened.requested_time)
    own = opened.config.metadata_partitions_own
    logs = dict(_logs(storage, added, own))
    if key_changes.RECORD_INDEX in partitions:
        is_being_built = key_changes.RECORD_INDEX in opened.config.metadata_partitions_inflight
        logs |= _index_logs(
            client, scope, changes, opened.requested_time, is_being_built=is_being_built
        )
    completion_time = client.time_before_another(scope)
    ids = {commits.WRITE_ID_KEY: opened.write_id}
    is_ours()
    requested = transitions.request(
        storage, opened.requested_time, instants.Action.DELTA_COMMIT, b"", lambda: True
    )
    begun = commits.CommitMetadata(operation=_OPERATION, stats=(), extra=ids)
    inflight = requested.pending_in(instants.State.INFLIGHT)
    try:
        transitions.start(storage, requested, timeline_avro.encode_commit(begun), lambda: False)
    except errors.ConflictError:
        if not scope.is_courtesy:
            raise  # Else it is of another execution of the plan, which needs it as well.
    now_ms = client.clock.now_ms()

    def write(each: tuple[int, files.FileGroupId]) -> commits.WriteStat:
        is_ours()
        place, group = each
        # Who was overtaken writes again, and its earlier log files may be there.
        token = file_names.write_token(place, opened.stage, scope.epoch or 0)
        time, part = opened.requested_time, logs[group]
        return metadata_writing.write_log(storage, group, time, token, part, now_ms)

    # A record index of each partition has a file group for each partition at least.
    threads = min(client.parallelism, _WRITTEN_AT_ONCE) if len(logs) > _WRITTEN_AT_ONCE else 1
    stats = ahead.results(write, list(enumerate(logs)), threads)
    done = commits.CommitMetadata(
        operation=_OPERATION,
        stats=tuple(stats),
        extra={commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(), **ids},
    )
    content = timeline_avro.encode_commit(done)
    return complete(storage, scope, inflight, completion_time, content, is_ours)


def complete(
    storage: Storage,
    scope: table_lock.LockScope,
    inflight: instants.Instant,
    completion_time: instants.InstantTime,
    content: bytes,
    check: Callable[[], None],
) -> Mapping[str, bytes]:
    """Complete an instant of an MDT, or return what an epoch has to publish for it.

    Only an epoch tells who of several has completed it where the lock excludes nobody. Where other
    engines write as well, it is complete before: they roll back what is pending here.

    Args:
        storage: The MDT's.
        scope: In which it is decided.
        inflight: The instant.
        completion_time: Taken in this scope.
        content: Of the completed file.
        check: Called right before it is created.

    Raises:
        HoodieError: As `transitions.complete_at`.
    """
    if scope.is_courtesy:
        completed = transitions.completed(inflight, completion_time)
        name = instant_names.file_name(completed)
        return {f"{metadata_timelines.TIMELINE}/{name}": content}
    transitions.complete_at(storage, inflight, completion_time, content, check)
    return {}


def is_due(client: Client, scope: table_lock.LockScope) -> bool:
    """Return whether the MDT is to be compacted after a change that was made in a scope."""
    if scope.beside is None:
        return False
    waiting = metadata_timelines.waiting(scope.beside) + 1
    return waiting >= client.settings.metadata_delta_commits_max


def refuse_behind(client: Client, scope: table_lock.LockScope) -> None:
    """Refuse to change a table whose metadata table lacks a change.

    Raises:
        FormatError: It does: a writer did not keep the metadata table up.
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
    action: instants.Action,
    is_ours: markers.Check,
) -> None:
    """Take the delta commit of a pending instant off; none is fine.

    Args:
        client: Who takes the instant back.
        scope: In which it leaves the data's timeline.
        opened: The rollback.
        target: Requested time of the instant.
        action: The instant's.
        is_ours: Raises when another may be at work on it.

    Raises:
        ConflictError: A compaction of the MDT has it.
        HoodieError: Lock or storage failed; it is repeated with the rollback.
    """
    if client.beside is None or scope.beside is None:
        return
    if scope.is_courtesy and action not in instants.WRITES:
        return  # Another execution of the plan may have completed it by now.
    partitions = opened.config.metadata_partitions_kept_up
    _remove(client.beside, scope.beside, target, partitions, is_ours)


def take_off_left(
    client: Client,
    scope: table_lock.LockScope,
    partitions: Collection[str],
    is_ours: Callable[[], None],
) -> None:
    """Take pending delta commits of ours off that no instant of the data table has the time of.

    Whoever made partitions by one has died in a scope, where other engines write as well. Of one
    that is only requested nothing is there yet, whoever made it.

    Args:
        client: Of a table with an MDT.
        scope: In which partitions are made, or dropped.
        partitions: Of the MDT, in which it may have left files.
        is_ours: Called before each step.
    """
    if client.beside is None or scope.beside is None:
        return
    for each in _of_dead_builders(client.beside, scope.beside, scope.timeline):
        logger.info("%s: %s is taken off", client.beside.uri, each)
        for path in _all_of(client.beside, scope.beside, each.requested_time, partitions):
            is_ours()
            client.beside.delete(path)


def _of_dead_builders(
    storage: Storage, beside: active.ActiveTimeline, timeline: active.ActiveTimeline
) -> Iterator[instants.Instant]:
    """Yield the pending delta commits of ours that no instant of the data table has the time of."""
    known = {each.requested_time for each in timeline.files}
    for each in beside.pending_of(instants.Action.DELTA_COMMIT):
        if each.requested_time in known:
            continue
        if each.state is instants.State.REQUESTED or contents.is_of_ours(storage, each):
            yield each


def left_over(
    client: Client,
    beside: active.ActiveTimeline,
    timeline: active.ActiveTimeline,
    taken_back: Collection[instants.InstantTime | None],
) -> list[str]:
    """Return what executors left in an MDT who were taken for dead, by their paths in the table.

    That is all of an instant that was taken back, or that completed without it, before the MDT was
    made; of one that completed what its commit does not name, and its completed files but the
    latest, also once it is archived; and all by which somebody began to make partitions who died,
    or had lost the lock, where other engines write as well. In the order in which it is to be
    deleted. A request for the table's properties, a listing for each partition, and some where
    executors have left something.

    Args:
        client: Of a table with an MDT.
        beside: The MDT's timeline.
        timeline: The data table's, read before.
        taken_back: What rollbacks on it take back.
    """
    storage = client.beside
    assert storage is not None, client.storage.uri
    config = table_properties.load(client.storage, client.clock)
    logs: dict[instants.InstantTime, list[files.LogFile]] = {}
    for partition in config.metadata_partitions_kept_up:
        for each in metadata_table.log_files(storage, partition):
            logs.setdefault(each.instant_time, []).append(each)
    ended = {each.requested_time for each in timeline.completed}
    found = [transitions.path(each) for each in _surplus(beside, timeline)]
    for time in sorted({*logs, *(each.requested_time for each in beside.instants)}):
        if time in timeline.pending_times:
            continue
        own = [each for each in beside.files if each.requested_time == time]
        is_pending = bool(own) and all(each.is_pending for each in own)
        if time in ended and not is_pending:
            named = metadata_table.named(storage, beside, logs.get(time, ()))
            found += (each.path for each in logs.get(time, ()) if each not in named)
            continue
        is_over = time in ended or (
            time in taken_back and timeline.archive.completion_time(time) is None
        )
        if is_over and beside.archive.completion_time(time) is None:
            found += _in_order(own, (each.path for each in logs.get(time, ())))
    if not client.lock.is_courtesy:
        partitions = config.metadata_partitions_kept_up
        for dead in _of_dead_builders(storage, beside, timeline):
            if dead.requested_time not in taken_back:
                found += _all_of(storage, beside, dead.requested_time, partitions)
    return [f"{metadata_timelines.DIRECTORY}/{path}" for path in found]


def _surplus(
    beside: active.ActiveTimeline, timeline: active.ActiveTimeline
) -> Iterator[instants.Instant]:
    """Yield the second completed files of what completed on the data's timeline, too."""
    ended = {each.requested_time for each in timeline.completed}
    for same in beside.duplicates:
        time = same[0].requested_time
        if time in ended or timeline.archive.completion_time(time) is not None:
            yield from metadata_table.surplus_completions(same)


def _all_of(
    storage: Storage,
    beside: active.ActiveTimeline,
    time: instants.InstantTime,
    partitions: Iterable[str],
) -> list[str]:
    """Return the paths of all files of an instant of an MDT, in the order of `left_over`."""
    listed = (
        each for partition in partitions for each in metadata_table.data_files(storage, partition)
    )
    own = [each for each in beside.files if each.requested_time == time]
    return _in_order(own, _paths_of(time, listed))


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
        is_later = any(each.requested_time > str(one.completion_time) for one in completed)
        if is_compaction and is_later and _has_compacted(storage, each, time):
            raise errors.ConflictError(
                f"{time} cannot be taken off {storage.uri}: compaction {each} has it; rebuild "
                "the metadata table by `hoodie metadata init --rebuild`"
            )
    logger.info("%s: %s is taken off", storage.uri, time)
    logs = (each for name in partitions for each in metadata_table.log_files(storage, name))
    for path in _in_order(found, _paths_of(time, logs)):
        is_ours()
        storage.delete(path)


def _has_compacted(
    storage: Storage, compaction: instants.Instant, time: instants.InstantTime
) -> bool:
    """Return whether a compaction of an MDT has merged log files of an instant; a request.

    One that is complete without a plan was taken for dead and withdrawn, with its files.
    """
    try:
        plan = contents.read_compaction_plan(storage, compaction)
    except errors.NotFoundError:
        return False
    return any(
        (parsed := file_names.parse_new(name, 0)) is not None and parsed.instant_time == time
        for operation in plan.operations
        for name in operation.log_file_names
    )


def _in_order(found: Collection[instants.Instant], logs: Iterable[str]) -> list[str]:
    """Return the paths of an instant in the order in which they are deleted (M-B)."""
    completed = (each for each in found if each.is_completed)
    pending = sorted((each for each in found if each.is_pending), key=_is_requested)
    return [*map(transitions.path, completed), *logs, *map(transitions.path, pending)]


def _is_requested(instant: instants.Instant) -> bool:
    return instant.state is instants.State.REQUESTED


def _paths_of(
    time: instants.InstantTime, listed: Iterable[files.BaseFile | files.LogFile]
) -> Iterator[str]:
    """Yield the paths of an instant's files."""
    return (each.path for each in listed if each.instant_time == time)


def _logs(
    storage: Storage, added: Mapping[str, metadata_records.Added], building: Collection[str]
) -> Logs:
    """Return what each file group of the MDT gets; a listing for each partition.

    Of partitions that are being built beside another engine it may have deleted the file groups, to
    make them itself: what it makes them of is on the data's timeline.
    """
    logs: dict[files.FileGroupId, metadata_records.Added] = {}
    for partition, records in added.items():
        if not len(records):
            continue
        ids = metadata_writing.group_ids(storage, partition)
        if not ids and partition in building:
            continue
        if not ids:
            raise errors.FormatError(
                f"{storage.uri}/{partition} has no file groups, expected those that were made with "
                "it: rebuild the metadata table by `hoodie metadata init --rebuild`"
            )
        for place, part in records.split(len(ids)).items():
            group = files.FileGroupId(partition_path=partition, file_id=ids[place])
            logs[group] = part
    return logs


def _index_logs(
    client: Client,
    scope: table_lock.LockScope,
    changes: metadata_records.Changes,
    time: instants.InstantTime,
    *,
    is_being_built: bool,
) -> Logs:
    """Return what each file group of the record index gets; a listing.

    Each partition that the change writes to has its file groups afterwards, if the index is one of
    each partition: Apache Hudi makes them for partitions that `files` does not have yet, and its
    writers fail where it has one without. Readers count the file groups that they see, so those of
    a partition appear all at once, also what a writer that did not end has left of them. Those that
    a build has begun appear when it is published, as many as it has begun; those that a write of
    Apache Hudi has begun, which logs keys before it completes, go with it if it fails.
    """
    assert client.beside is not None, client.storage.uri
    found = list(metadata_table.data_files(client.beside, key_changes.RECORD_INDEX))
    shown = set(groups_shown(scope, found))
    if is_being_built:
        pending = {each.requested_time for each in scope.timeline.pending_of(*instants.WRITES)}
        lasting = (each for each in found if each.instant_time not in pending)
        shown.update(each.group.file_id for each in filter(metadata_writing.begins_group, lasting))
    groups = index_groups.of(client.storage, {each.group.file_id for each in found})
    logs: dict[files.FileGroupId, metadata_records.Added] = {}
    requested_ms = client.time_zone.epoch_ms(time)
    located = metadata_records.locations(changes, groups.key_space, requested_ms)
    for key_space, records in located.items():
        ids = groups.ids_completed(key_space, shown)
        parts = records.split(len(ids))
        for number, file_id in enumerate(ids):
            if number in parts or (groups.is_partitioned and file_id not in shown):
                group = files.FileGroupId(key_changes.RECORD_INDEX, file_id)
                logs[group] = parts.get(number, metadata_records.Added())
    return logs


def groups_shown(
    scope: table_lock.LockScope, found: Iterable[files.BaseFile | files.LogFile]
) -> Collection[str]:
    """Return the ids of the file groups that readers see, of those that data files are of."""
    return {each.group.file_id for each in found if _is_shown(scope, each.instant_time)}


def _is_shown(scope: table_lock.LockScope, time: instants.InstantTime) -> bool:
    """Return whether files of an instant of the MDT count for readers."""
    assert scope.beside is not None
    return time not in scope.timeline.pending_times and scope.beside.is_committed(time)
