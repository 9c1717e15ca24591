"""Of two writes that insert one key at one time, the first wins.

Where writers look keys up, each puts new keys into file groups that it chooses itself: two that
insert the same key share no file group, and would both be published. And a delete of a key that is
nowhere would miss its row. So what completed since a write began, in its partitions, or with a
global index in any, is looked through for the keys that it found nowhere, right before it is
published, in the lock scope (as `write.conflicts`). Written again, it finds them. A key in a file
group whose log files may delete it counts as nowhere, too: another write takes it for new once they
are compacted, or in another partition.

Only writes that look their keys up are held to that, and those that replace file groups: a plain
insert may bring a key twice, as with Apache Hudi, and so may a JVM writer that completes after one
of ours.

Requests: none where nothing has completed since the begin, else one for each such write, and a read
of the keys of each file that inserted rows into the same partitions, where records move also of
each log file. Source: S86 and S87 of
concurrency control; protocol.md: Conflicts of optimistic writers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import snapshots, writing
from hoodie.format import file_names
from hoodie.model import commits, files, schemas
from hoodie.timeline import contents
from hoodie.transaction import lifecycle, table_lock
from hoodie.transaction.client import Client, OpenAction
from hoodie.write import conflicts

with deferred.imports():
    from hoodie.filegroup import held_keys

_NAMED_MAX = 5


def commit_check(
    client: Client, absent: Sequence[commits.Absent], schema: schemas.TableSchema
) -> lifecycle.CommitCheck:
    """Return the check that the completion of a client's write asks; as `check`."""
    paths = {each.partition_path for each in absent}
    assert len(paths) == len(absent), "a partition is looked through by one task"

    def ask(
        scope: table_lock.LockScope, write: OpenAction, metadata: commits.CommitMetadata
    ) -> None:
        del metadata
        if absent:
            keys = AbsentKeys.of(absent, is_everywhere=write.config.has_global_index)
            check(client, scope, write, keys, schema)

    return ask


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentKeys:
    """Keys that a write found nowhere.

    Attributes:
        by_partition: By the partition where they were looked for.
        everywhere: Those that were looked for in all of them; None without a global index.
    """

    by_partition: Mapping[str, pa.Array]
    everywhere: pa.Array | None = None

    @classmethod
    def of(cls, absent: Sequence[commits.Absent], *, is_everywhere: bool) -> "AbsentKeys":
        """Return what tasks have found, which share no partition."""
        if is_everywhere:
            keys = pc.unique(pa.chunked_array([each.keys for each in absent], pa.string()))
            return cls(by_partition={}, everywhere=keys)
        return cls(by_partition={each.partition_path: each.keys for each in absent})

    def within(self, partition_path: str) -> pa.Array | None:
        """Return those that must not be in a partition; None if none was looked for there."""
        if self.everywhere is not None:
            return self.everywhere
        return self.by_partition.get(partition_path)


def check(
    client: Client,
    scope: table_lock.LockScope,
    write: OpenAction,
    absent: AbsentKeys,
    schema: schemas.TableSchema,
) -> None:
    """Refuse to publish a write that found a key nowhere which another has inserted since.

    Args:
        client: Whose write it is.
        scope: Of its completion.
        write: About to be published.
        absent: The keys that it found nowhere.
        schema: The table's columns.

    Raises:
        WriteConflictError: The message names keys and the other write.
    """
    known = write.timeline.write_completion_times
    committed = snapshots.CommittedFiles.of(client.storage, scope.timeline)
    source = held_keys.KeySource(client.storage, write.config, schema, committed.is_committed)
    is_moving = absent.everywhere is not None and write.config.updates_partitions
    for other in conflicts.candidates(
        known, scope.timeline, write.requested_time, write.config.table_type
    ):
        written = contents.read_commit(client.storage, other)
        for data_file in _files_of(written, absent, is_moving=is_moving):
            keys = absent.within(data_file.group.partition_path)
            assert keys is not None, data_file.path
            try:
                twice = held_keys.held_in(source, data_file, keys)
            except errors.NotFoundError as error:
                raise errors.WriteConflictError(
                    f"{data_file.path}, which {other} wrote since {write.inflight} began, was "
                    "cleaned already: write the batch again, on what the table holds now"
                ) from error
            if len(twice):
                named = ", ".join(map(repr, keys.take(pa.array(twice[:_NAMED_MAX])).to_pylist()))
                more = f" and {len(twice) - _NAMED_MAX} more" if len(twice) > _NAMED_MAX else ""
                raise errors.WriteConflictError(
                    f"{other}, which completed first, has inserted {named}{more} into partition "
                    f"{data_file.group.partition_path or '.'!r} since {write.inflight} began: "
                    "write the batch again, on what the table holds now"
                )


def _files_of(
    other: commits.CommitMetadata, absent: AbsentKeys, *, is_moving: bool
) -> Iterator[files.BaseFile | files.LogFile]:
    """Yield the files into which a write may have inserted such keys.

    Where records move, a key that log files have deleted in several partitions comes back in a log
    file of any of these.
    """
    for stat in other.stats:
        is_new = stat.inserts > 0 or stat.prev_commit == writing.NEW_GROUP
        is_new = is_new or (is_moving and bool(stat.log_files))
        if absent.within(stat.partition_path) is None or not is_new:
            continue
        names = [files.join(stat.partition_path, name) for name in stat.log_files] or [stat.path]
        for path in names:
            data_file = file_names.parse(path, stat.size_bytes)
            if data_file is not None:
                yield data_file
