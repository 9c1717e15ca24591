"""Optimistic concurrency control: of two writes of one file group at one time, the first wins.

Nobody waits while data is written. Right before a write is published, in the lock scope, it is held
against what others have published since it began; where both changed a file group it is given up.

    candidates   writes completed since this one began, whenever they began (O2). Not compactions:
                 file slicing keeps the log files that complete after their plan (O3)
    conflict     a candidate wrote to, or retired, a file group that this write wrote to

Under non-blocking concurrency control only base files can conflict, those that a bulk insert makes
of empty buckets: a log file of another writer that completes later lies on top of one, but one that
completed meanwhile would lie below it, and be hidden.

File groups are compared by partition and bucket: two writers that find a bucket empty may each
have named a group for it. The serial order is the order of completion.

Requests: one for each candidate, two for one that replaced file groups. Source: RFC-22;
`BucketIndexConcurrentFileWritesConflictResolutionStrategy.java`; concurrency 2.6.
"""

from collections.abc import Iterable, Mapping

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.index import bucket
from hoodie.model import commits, files, instants, jobs
from hoodie.timeline import active
from hoodie.transaction import lifecycle, table_lock, writer_batches
from hoodie.transaction.client import Client, OpenWrite

_NAMED_MAX = 5
_NO_WRITER = "a writer that gives no id"


def candidates(
    begun: active.ActiveTimeline, now: active.ActiveTimeline, own: instants.Instant
) -> tuple[instants.Instant, ...]:
    """Return what completed between two timelines and may conflict, in the order of completion.

    By what was not there at the begin, not by completion times: what is published late, its writer
    having been paused, may have an early one.

    Args:
        begun: When the write began.
        now: Read in the lock scope of its completion.
        own: The write.
    """
    known = {own.requested_time, *(each.requested_time for each in begun.completed_writes)}
    later = [each for each in now.completed_writes if each.requested_time not in known]
    if own.action is instants.Action.COMMIT:
        return tuple(later)
    # Beside delta commits a commit is a compaction.
    return tuple(each for each in later if each.action is not instants.Action.COMMIT)


def shared_groups(
    mine: Iterable[files.FileGroupId], theirs: Iterable[files.FileGroupId]
) -> tuple[files.FileGroupId, ...]:
    """Return the file groups of mine whose bucket theirs have, too; sorted."""
    taken = {_place(group) for group in theirs}
    return tuple(sorted({group for group in mine if _place(group) in taken}))


def step(client: Client, *, of_base_files: bool = False) -> lifecycle.PreCompletion:
    """Return the check of a client's writes as a step of their completion; as `check`."""

    def check_conflicts(
        scope: table_lock.LockScope, write: OpenWrite, metadata: commits.CommitMetadata
    ) -> commits.CommitMetadata:
        check(client, scope, write, metadata, of_base_files=of_base_files)
        return metadata

    return check_conflicts


def check(
    client: Client,
    scope: table_lock.LockScope,
    write: OpenWrite,
    metadata: commits.CommitMetadata,
    *,
    of_base_files: bool = False,
) -> None:
    """Refuse to publish a write that overlaps one that was faster.

    Args:
        client: Whose write it is.
        scope: Of its completion.
        write: About to be published.
        metadata: What it wrote.
        of_base_files: Whether only its base files can conflict, not its log files.

    Raises:
        WriteConflictError: It does; or a clustering is pending, whose file groups are not known.
    """
    clustering = scope.timeline.pending_of(instants.Action.CLUSTERING)
    if clustering:
        raise errors.WriteConflictError(
            f"{clustering[0]} is pending and may retire file groups that {write.inflight} wrote "
            "to, expected no clustering"
        )
    mine = _groups(each for each in metadata.stats if not (of_base_files and each.log_files))
    for other in candidates(write.timeline, scope.timeline, write.inflight):
        theirs = writer_batches.read_metadata(client.storage, other)
        changed = _groups(theirs.stats)
        if other.action is instants.Action.REPLACE_COMMIT:
            changed += snapshots.replaced_by(client.storage, other)
        shared = shared_groups(mine, changed)
        if shared:
            raise errors.WriteConflictError(
                f"{write.inflight} of {_writer(client.author.writer_id)} and {other} of "
                f"{_writer_of(theirs.extra)}, which completed first, both wrote to "
                f"{_names(shared)}: write the batch again, on what the table holds now"
            )


def _groups(stats: Iterable[commits.WriteStat]) -> list[files.FileGroupId]:
    return [files.FileGroupId(stat.partition_path, stat.file_id) for stat in stats]


def _place(group: files.FileGroupId) -> tuple[str, int | str]:
    is_bucket = bucket.is_bucket_file_id(group.file_id)
    return group.partition_path, bucket.bucket_of(group.file_id) if is_bucket else group.file_id


def _writer_of(extra: Mapping[str, str]) -> str:
    return _writer(extra.get(jobs.WRITER_ID_KEY))


def _writer(writer_id: str | None) -> str:
    return f"writer {writer_id!r}" if writer_id else _NO_WRITER


def _names(groups: tuple[files.FileGroupId, ...]) -> str:
    named = ", ".join(str(group) for group in groups[:_NAMED_MAX])
    rest = len(groups) - _NAMED_MAX
    noun = "file group" if len(groups) == 1 else "file groups"
    return f"{noun} {named}" + (f" and {rest} more" if rest > 0 else "")
