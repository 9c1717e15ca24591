"""Making a partition of a metadata table (MDT): its file groups, by an instant of its own.

Each file group begins with an empty log file, which shows that it is there; a base file, if it has
records; and a log file for those that were found after the base file was made.

Source: `HoodieBackedTableMetadataWriter.java` (initializeFileGroups).
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hoodie import errors
from hoodie.engine import ahead
from hoodie.filegroup import metadata_merging, metadata_records, metadata_table, metadata_writing
from hoodie.format import (
    file_names,
    instant_names,
    metadata_schemas,
    properties,
    timeline_avro,
)
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import metadata_timelines, transitions
from hoodie.transaction import metadata_commits, table_lock
from hoodie.transaction.client import Client, stage_of

_OPERATION = commits.Operation.BULK_INSERT.value
_MADE_AT_ONCE = 16
_LOG_TOKEN = file_names.write_token(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Content:
    """What a partition of an MDT begins with.

    Attributes:
        bases: The base file of each file group; None for one without records.
        records: Later ones, by key.
        groups: The file groups; empty for those of `groups`.
        logs: Later records of a record index, by the places of its file groups.
    """

    bases: Sequence[metadata_writing.PreparedBase | None]
    records: Mapping[str, bytes] = field(default_factory=dict)
    groups: Sequence[files.FileGroupId] = ()
    logs: Mapping[int, metadata_records.Added] = field(default_factory=dict)

    def groups_of(self, name: str) -> Sequence[files.FileGroupId]:
        """Return the file groups of the partition of that name."""
        return self.groups or groups(name, len(self.bases))

    def later(self) -> Mapping[int, metadata_records.Added]:
        """Return the later records by the places of their file groups."""
        if self.logs:
            return self.logs
        added = metadata_records.Added(table=metadata_merging.table(self.records))
        return added.split(len(self.bases))


def make(
    client: Client,
    scope: table_lock.LockScope,
    storage: Storage,
    time: instants.InstantTime,
    name: str,
    content: Content,
) -> Mapping[str, bytes]:
    """Write a partition of an MDT by an instant that is complete in the end.

    Returns:
        What an epoch has to publish to complete it.
    """
    return make_all(client, scope, storage, time, {name: content}, scope.check)


def make_all(
    client: Client,
    scope: table_lock.LockScope,
    storage: Storage,
    time: instants.InstantTime,
    contents: Mapping[str, Content],
    check: Callable[[], None],
) -> Mapping[str, bytes]:
    """Write partitions of an MDT by one instant; as `make`.

    Args:
        client: Whose they are.
        scope: In which they are made.
        storage: The MDT's.
        time: Of the instant.
        contents: What they begin with, by name.
        check: Called before each step.
    """
    for name, content in contents.items():
        found = content.groups_of(name)
        begin(storage, name, found, time, check, threads=threads_for(client, len(found)))
    check()
    write_id = client.random.uuid()
    inflight = _start(storage, time, write_id)
    # The first files of each metadata table are of the same instants. A process that has lost its
    # lock may delete those of the one that it knew.
    token = file_names.write_token(0, stage_of(write_id), 0)
    now_ms = client.clock.now_ms()

    def write_base(
        each: tuple[files.FileGroupId, metadata_writing.PreparedBase],
    ) -> commits.WriteStat:
        check()
        return metadata_writing.write_prepared(storage, each[0], time, token, each[1])

    def write_log(each: tuple[files.FileGroupId, metadata_records.Added]) -> commits.WriteStat:
        check()
        return metadata_writing.write_log(storage, each[0], time, _LOG_TOKEN, each[1], now_ms)

    stats: list[commits.WriteStat] = []
    for name, content in contents.items():
        found = content.groups_of(name)
        bases = [
            (group, base)
            for group, base in zip(found, content.bases, strict=True)
            if base is not None
        ]
        logs = [(found[place], records) for place, records in content.later().items()]
        threads = threads_for(client, len(found))
        stats += ahead.results(write_base, bases, threads)
        stats += ahead.results(write_log, logs, threads)
    completion_time = client.time_before_another(scope)
    return metadata_commits.complete(
        storage, scope, inflight, completion_time, _done(client, stats), check
    )


def groups(name: str, count: int) -> Sequence[files.FileGroupId]:
    """Return the file groups of a partition that is made with so many."""
    return [
        files.FileGroupId(partition_path=name, file_id=metadata_table.file_id(name, number))
        for number in range(count)
    ]


def begin(
    storage: Storage,
    name: str,
    found: Sequence[files.FileGroupId],
    time: instants.InstantTime,
    check: Callable[[], None],
    *,
    threads: int = 1,
) -> None:
    """Make the file groups of a partition, all of which are there before anybody writes to them.

    Args:
        storage: The MDT's.
        name: The partition's.
        found: The file groups; none of a record index of each partition, if there is no partition.
        time: Of the instant that will complete them.
        check: Called before each step.
        threads: So many file groups are made at once.
    """
    path = files.join(name, file_names.PARTITION_METADATA)
    check()
    # It may be left by who made the partition before, and dropped it.
    with contextlib.suppress(errors.AlreadyExistsError):
        storage.create(path, properties.partition_metadata(time, 1))

    def make_group(group: files.FileGroupId) -> None:
        check()
        metadata_writing.write_empty_log(storage, group, time)

    for _ in ahead.results(make_group, found, threads):
        pass


def threads_for(client: Client, count: int) -> int:
    """Return how many of some files are written at once; a few one after the other."""
    return min(client.parallelism, _MADE_AT_ONCE) if count > _MADE_AT_ONCE else 1


def whole_instant(
    client: Client,
    scope: table_lock.LockScope,
    time: instants.InstantTime,
    stats: Sequence[commits.WriteStat],
) -> Mapping[str, bytes]:
    """Return the files of the instant of partitions whose files are all there, by path.

    An epoch publishes them all: a process that dies before leaves nothing on the timeline.
    """
    requested = instants.Instant(
        requested_time=time,
        action=instants.Action.DELTA_COMMIT,
        state=instants.State.REQUESTED,
    )
    inflight = requested.pending_in(instants.State.INFLIGHT)
    completed = transitions.completed(inflight, client.time_before_another(scope))
    contents = {requested: b"", inflight: b"", completed: _done(client, stats)}
    return {
        f"{metadata_timelines.TIMELINE}/{instant_names.file_name(each)}": content
        for each, content in contents.items()
    }


def _start(storage: Storage, time: instants.InstantTime, write_id: str) -> instants.Instant:
    requested = transitions.request(storage, time, instants.Action.DELTA_COMMIT, b"", lambda: True)
    # The id marks a pending commit as one of this project (`metadata_commits.take_off_left`).
    begun = commits.CommitMetadata(
        operation=_OPERATION, stats=(), extra={commits.WRITE_ID_KEY: write_id}
    )
    return transitions.start(storage, requested, timeline_avro.encode_commit(begun), lambda: True)


def _done(client: Client, stats: Sequence[commits.WriteStat]) -> bytes:
    done = commits.CommitMetadata(
        operation=_OPERATION,
        stats=tuple(stats),
        extra={
            commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(),
            commits.WRITE_ID_KEY: client.random.uuid(),
        },
    )
    return timeline_avro.encode_commit(done)
