"""Conflict resolution: of two writes of one file group at one time, the first wins.

Nobody waits while data is written. Right before a write is published, in the lock scope, it is held
against what others have published since it began; where both changed a file group it is given up.

    candidates   writes completed since this one began, whenever they began (O2). Not compactions:
                 file slicing keeps the log files that complete after their plan (O3)
    conflict     a candidate wrote to, or retired, a file group that this write wrote to or
                 retires, or a pending clustering is to retire it; of two writes that replace file
                 groups of one partition the first wins

The check runs in every mode. A single writer is alone as far as the heartbeats show when it begins;
a live writer that was wrongly judged dead may have completed since.

Under non-blocking concurrency control writes conflict only in base files, those that a bulk insert
makes of empty buckets: a log file of another writer that completes later lies on top of one, but
one that completed meanwhile would lie below it, and be hidden. Replace commits and clusterings
conflict in every mode: readers do not show the file groups that they retire. So do writes of file
groups of no bucket: which rows belong there was looked up before they were written.

The id of an empty bucket's new group follows from the last replace commit that retired a group of
that bucket (`Index.new_file_id`). A write that used such an id is given up when that replace
commit was archived since it began: writers that begin after that name the group otherwise.

Strategies, by Apache Hudi's names:

    BucketIndex     file groups are compared by partition and bucket: two writers that find a bucket
                    empty may each have named a group for it
    Simple          file groups are compared by id, but those of a bucket index as above: Apache
                    Hudi would let a bucket have two groups, and lose one of them from sight
    PreferWriter    as BucketIndex, but a pending clustering is no conflict: it gives way to the
                    write, if it runs by this strategy, too

A compaction gives way to nobody and nobody to it, under all of them. The serial order is the order
of completion.

Requests: one for each candidate and each pending clustering, two for what replaced file groups;
none where nothing has completed since the begin and no clustering is pending.
Source: RFC-22; `SimpleConcurrentFileWritesConflictResolutionStrategy.java` and those beside it;
protocol.md: Conflicts of optimistic writers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from hoodie import deferred, errors
from hoodie.filegroup import snapshots
from hoodie.index import protocol, tables
from hoodie.model import commits, files, instants, settings, table_config
from hoodie.timeline import active, contents
from hoodie.transaction import lifecycle, table_lock
from hoodie.transaction.client import Client, OpenAction

with deferred.imports():
    from hoodie.timeline import hash_rings, partition_buckets
    from hoodie.write import replacements

_NAMED_MAX = 5
_NO_WRITER = "a writer that gives no id"


def candidates(
    known: Collection[instants.InstantTime],
    now: active.ActiveTimeline,
    own: instants.InstantTime,
    table_type: table_config.TableType,
) -> tuple[instants.Instant, ...]:
    """Return what completed since a write began and may conflict, in the order of completion.

    By what was not there at the begin, not by completion times: what is published late, its writer
    having been paused, may have an early one.

    Args:
        known: Requested times of the writes that had completed when the write began.
        now: Read since; in the lock scope of its completion.
        own: The write's requested time.
        table_type: Where updates are logged, a commit is a compaction.
    """
    has_logs = table_type is table_config.TableType.MERGE_ON_READ
    return tuple(
        each
        for each in now.completed_writes
        if each.requested_time not in known
        and each.requested_time != own
        and not (has_logs and each.action is instants.Action.COMMIT)
    )


def shared_groups(
    index: protocol.Index,
    mine: Iterable[files.FileGroupId],
    theirs: Iterable[files.FileGroupId],
) -> tuple[files.FileGroupId, ...]:
    """Return the file groups of mine whose bucket theirs have, too; sorted."""
    taken = {index.conflict_key(group) for group in theirs}
    return tuple(sorted({group for group in mine if index.conflict_key(group) in taken}))


def commit_check(
    client: Client,
    untouched: Collection[commits.Untouched] = (),
    replaced: replacements.Replaced = replacements.NOTHING,
) -> lifecycle.CommitCheck:
    """Return the check of a client's writes that their completion asks; as `check`."""
    return lambda scope, write, metadata: check(client, scope, write, metadata, untouched, replaced)


def counts_check(
    client: Client, begun: partition_buckets.HashingConfig | None
) -> lifecycle.CommitCheck:
    """Return the check that bucket counts by partition are those with which a write began.

    What changes them is a replace commit: nothing is requested where none is pending, or has
    completed since.
    """

    def ask(
        scope: table_lock.LockScope, write: OpenAction, metadata: commits.CommitMetadata
    ) -> None:
        del metadata
        pending = scope.timeline.pending_of(instants.Action.REPLACE_COMMIT)
        if not pending and not _is_replaced_since(write, scope):
            return
        committed = snapshots.CommittedFiles.of(client.storage, scope.timeline)
        now = partition_buckets.in_force(client.storage, committed.is_committed)
        if now != begun:
            raise errors.WriteConflictError(
                f"the bucket counts by partition of {client.storage.uri} changed while "
                f"{write.inflight} of {_writer(client.author.writer_id)} was written: they are "
                f"{now.expressions if now else 'one for all'} now. Write the batch again"
            )

    return ask


def rings_check(client: Client) -> lifecycle.CommitCheck:
    """Return the check that the nodes that a write wrote to are on their rings still.

    A clustering that took one off conflicts by the file group that it retired. A node without a
    file group then, which a write was the first to write to, has none that it could retire.
    """

    def ask(
        scope: table_lock.LockScope, write: OpenAction, metadata: commits.CommitMetadata
    ) -> None:
        if not _is_replaced_since(write, scope):
            return
        storage = client.storage
        begun, now = (
            snapshots.CommittedFiles.of(storage, each).is_committed
            for each in (write.timeline, scope.timeline)
        )
        for path in sorted({each.partition_path for each in metadata.stats}):
            before, after = (hash_rings.read(storage, path, each) for each in (begun, now))
            if before is None or after is None:
                continue
            gone = set(before.file_ids).difference(after.file_ids)
            mine = {each.file_id for each in metadata.stats if each.partition_path == path}
            if not gone.isdisjoint(mine):
                raise errors.WriteConflictError(
                    f"{write.inflight} of {_writer(client.author.writer_id)} wrote to buckets of "
                    f"partition {path or '.'} that a clustering has split or merged meanwhile: "
                    "write the batch again"
                )

    return ask


def _is_replaced_since(write: OpenAction, scope: table_lock.LockScope) -> bool:
    """Return whether a replace commit has completed since a write began."""
    known = write.timeline.write_completion_times
    others = candidates(known, scope.timeline, write.requested_time, write.config.table_type)
    return any(each.action is instants.Action.REPLACE_COMMIT for each in others)


def check(
    client: Client,
    scope: table_lock.LockScope,
    write: OpenAction,
    metadata: commits.CommitMetadata,
    untouched: Collection[commits.Untouched] = (),
    replaced: replacements.Replaced = replacements.NOTHING,
) -> None:
    """Refuse to publish a write that overlaps one that was faster.

    Args:
        client: Whose write it is.
        scope: Of its completion.
        write: About to be published.
        metadata: What it wrote.
        untouched: File groups that its rows are of, and that it had nothing to write to.
        replaced: What it replaced.

    Raises:
        WriteConflictError: It does.
    """
    mine = [*groups_of([*metadata.stats, *untouched]), *replaced.groups]
    index = tables.index_of(write.config)
    _check_archived(client, scope, write, mine)
    if client.settings.conflict_strategy is not settings.ConflictStrategy.PREFER_WRITER:
        _check_clustering(client, scope, write, mine)
    is_non_blocking = client.settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING
    exclusive = mine
    if is_non_blocking:
        exclusive = groups_of(
            each
            for each in metadata.stats
            if not each.log_files or index.bucket_of(each.file_id) is None
        )
    known = write.timeline.write_completion_times
    table_type = write.config.table_type
    for other in candidates(known, scope.timeline, write.requested_time, table_type):
        is_replacement = other.action is instants.Action.REPLACE_COMMIT
        compared = mine if is_replacement else exclusive
        if not compared and replaced == replacements.NOTHING:
            continue
        theirs = contents.read_commit(client.storage, other)
        changed = [*groups_of(theirs.stats), *theirs.replaced]
        shared = shared_groups(index, compared, changed)
        both = f"wrote to {_names(shared)}" if shared else None
        if both is None and is_replacement:
            both = replaced.overlap({each.partition_path for each in changed})
        if both is not None:
            raise errors.WriteConflictError(
                f"{write.inflight} of {_writer(client.author.writer_id)} and {other} of "
                f"{_writer_of(theirs.extra)}, which completed first, both {both}: write the batch "
                "again, on what the table holds now"
            )


def _check_archived(
    client: Client,
    scope: table_lock.LockScope,
    write: OpenAction,
    mine: Iterable[files.FileGroupId],
) -> None:
    """Refuse groups that are named after a replace commit which was archived since the begin."""
    archived = _replacements(write.timeline) - _replacements(scope.timeline)
    index = tables.index_of(write.config)
    named = tuple(sorted({each for each in mine if index.named_after(each.file_id) in archived}))
    if named:
        raise errors.WriteConflictError(
            f"{write.inflight} of {_writer(client.author.writer_id)} wrote to {_names(named)}; the "
            "replace commit that this name follows from was archived since the write began: write "
            "the batch again"
        )


def _replacements(timeline: active.ActiveTimeline) -> set[instants.InstantTime | None]:
    return {
        each.completion_time
        for each in timeline.completed_writes
        if each.action is instants.Action.REPLACE_COMMIT
    }


def _check_clustering(
    client: Client,
    scope: table_lock.LockScope,
    write: OpenAction,
    mine: Iterable[files.FileGroupId],
) -> None:
    for pending in scope.timeline.pending_of(instants.Action.CLUSTERING):
        clustered = contents.read_clustered_groups(client.storage, pending)
        shared = shared_groups(tables.index_of(write.config), mine, clustered)
        if shared:
            raise errors.WriteConflictError(
                f"{write.inflight} of {_writer(client.author.writer_id)} wrote to "
                f"{_names(shared)}, which {pending} is to retire: write the batch again once that "
                "has ended"
            )


def groups_of(
    written: Iterable[commits.WriteStat | commits.Untouched],
) -> list[files.FileGroupId]:
    """Return the file groups that a write wrote to, or had nothing to write to."""
    return [files.FileGroupId(each.partition_path, each.file_id) for each in written]


def _writer_of(extra: Mapping[str, str]) -> str:
    return _writer(extra.get(commits.WRITER_ID_KEY))


def _writer(writer_id: str | None) -> str:
    return f"writer {writer_id!r}" if writer_id else _NO_WRITER


def _names(groups: tuple[files.FileGroupId, ...]) -> str:
    named = ", ".join(str(group) for group in groups[:_NAMED_MAX])
    rest = len(groups) - _NAMED_MAX
    noun = "file group" if len(groups) == 1 else "file groups"
    return f"{noun} {named}" + (f" and {rest} more" if rest > 0 else "")
