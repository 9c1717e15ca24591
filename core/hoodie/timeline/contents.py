"""What the files of instants say: metadata of commits, plans, replaced file groups, rollbacks.

A function makes one request, unless it says otherwise. Source: format.md: Timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hoodie import deferred, errors
from hoodie.format import timeline_avro
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, schema_history, transitions

with deferred.imports():
    from hoodie.format import clean_avro, indexing_avro, rollback_avro, savepoint_avro
    from hoodie.model import plans

RollbackTargets = Mapping[instants.InstantTime, instants.InstantTime | None]
"""What rollbacks take back, by their requested times. None stands for a plan that cannot be read:
it may take back anything."""

_PLANNED = (
    instants.Action.ROLLBACK,
    instants.Action.COMPACTION,
    instants.Action.CLEAN,
    instants.Action.INDEXING,
)
"""Actions whose requested file says what the action is to do."""


def read_commit(storage: Storage, completed: instants.Instant) -> commits.CommitMetadata:
    """Return the metadata of a completed write or compaction."""
    path = transitions.path(completed)
    return timeline_avro.decode_commit(storage.read(path), path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumns:
    """What a write's metadata says of the table's columns.

    Attributes:
        operation: What wrote it.
        schema: As Avro's JSON; None or empty for none.
        history: The newest version of the columns with their ids, as Apache Hudi's text, where the
            table keeps a history of them (`schema_history`).
    """

    operation: str | None
    schema: str | None
    history: str | None


def stored_columns(metadata: commits.CommitMetadata) -> StoredColumns:
    """Return what metadata that was read says of the columns."""
    return StoredColumns(
        operation=metadata.operation,
        schema=metadata.extra.get(commits.SCHEMA_KEY),
        history=metadata.extra.get(schema_history.LATEST_KEY) or None,
    )


def read_stored_columns(storage: Storage, completed: instants.Instant) -> StoredColumns:
    """Return what the metadata of a completed write or compaction says of the columns."""
    path = transitions.path(completed)
    content = storage.read(path)
    # A commit may name a hundred thousand files.
    found = timeline_avro.decode_schema(content, path, without=schema_history.LATEST_KEY)
    if found is None:
        return stored_columns(timeline_avro.decode_commit_head(content, path))
    operation, schema = found
    return StoredColumns(operation=operation, schema=schema, history=None)


def read_compaction_plan(storage: Storage, compaction: instants.Instant) -> plans.CompactionPlan:
    """Return the plan of a compaction, pending or completed.

    Raises:
        NotFoundError: It is gone.
    """
    requested = compaction.pending_in(instants.State.REQUESTED)
    if requested.action is instants.Action.COMMIT:
        requested = replace(requested, action=instants.Action.COMPACTION)  # It was one, once.
    path = transitions.path(requested)
    try:
        content = storage.read(path)
    except errors.NotFoundError as error:
        raise errors.NotFoundError(
            f"there is no compaction {compaction.requested_time}: no {path}"
        ) from error
    return timeline_avro.decode_compaction_plan(content, path)


def read_replaced_groups(
    storage: Storage, completed: instants.Instant
) -> frozenset[files.FileGroupId]:
    """Return the file groups that a completed replace commit retired."""
    path = transitions.path(completed)
    return frozenset(timeline_avro.decode_replaced_groups(storage.read(path), path))


def read_clustered_groups(
    storage: Storage, pending: instants.Instant
) -> frozenset[files.FileGroupId]:
    """Return the file groups that a pending clustering is going to retire."""
    path = transitions.path(pending.pending_in(instants.State.REQUESTED))
    return frozenset(timeline_avro.decode_clustered_groups(storage.read(path), path))


def read_touched_partitions(
    storage: Storage, completed: Iterable[instants.Instant]
) -> frozenset[str]:
    """Return the partitions in which completed writes wrote or retired anything.

    One request a write, and another one a replace commit.
    """
    found: set[str] = set()
    for each in completed:
        path = transitions.path(each)
        found |= timeline_avro.decode_written_partitions(storage.read(path), path)
        if each.action is instants.Action.REPLACE_COMMIT:
            found |= {group.partition_path for group in read_replaced_groups(storage, each)}
    return frozenset(found)


def read_clean_plan(storage: Storage, clean: instants.Instant) -> plans.CleanPlan:
    """Return the plan of a clean.

    Raises:
        NotFoundError: It is gone.
        FormatError: It is not there whole, or names what is no data file.
        UnsupportedError: It has what we do not delete.
    """
    path = transitions.path(clean.pending_in(instants.State.REQUESTED))
    return clean_avro.decode_plan(storage.read(path), path)


def read_clean(storage: Storage, completed: instants.Instant) -> plans.CleanDone:
    """Return the metadata of a completed clean; without content if a crash left the file empty."""
    path = transitions.path(completed)
    content = storage.read(path)
    if not content:
        return plans.CleanDone(earliest_retained=None, last_completed=None, file_names={})
    return clean_avro.decode_metadata(content, path)


def read_last_clean(
    storage: Storage, timeline: active.ActiveTimeline
) -> tuple[instants.Instant, plans.CleanDone] | None:
    """Return the clean that completed last, and its metadata; None without one, and no request."""
    cleans = [each for each in timeline.completed if each.action is instants.Action.CLEAN]
    return (cleans[-1], read_clean(storage, cleans[-1])) if cleans else None


def rollback_plan_path(rollback: instants.Instant) -> str:
    """Return the path of a rollback's plan."""
    return transitions.path(rollback.pending_in(instants.State.REQUESTED))


def read_rollback_plan(storage: Storage, rollback: instants.Instant) -> plans.RollbackPlan:
    """Return the plan of a rollback.

    Raises:
        NotFoundError: It is gone.
        FormatError: It is not there whole, or has what we do not take back.
    """
    path = rollback_plan_path(rollback)
    return rollback_avro.decode_plan(storage.read(path), path)


def read_rollback_target(
    storage: Storage, rollback: instants.Instant
) -> instants.InstantTime | None:
    """Return what a rollback takes back, as in `RollbackTargets`."""
    path = rollback_plan_path(rollback)
    try:
        return rollback_avro.decode_target(storage.read(path), path)
    except (errors.FormatError, errors.NotFoundError):
        return None


def read_taken_back(storage: Storage, rollback: instants.Instant) -> plans.TakenBack:
    """Return what a rollback says of the instant that it takes back; another request if need be.

    Raises:
        NotFoundError: The rollback is gone.
        FormatError: It does not say.
        UnsupportedError: It takes back an action that is not known.
    """
    path = rollback_plan_path(rollback)
    try:
        return rollback_avro.decode_taken_back(storage.read(path), path)
    except (errors.FormatError, errors.NotFoundError):
        if rollback.is_pending:
            raise
    path = transitions.path(rollback)
    return rollback_avro.decode_taken_back_done(storage.read(path), path)


def read_restored(
    storage: Storage, completed: instants.Instant
) -> tuple[instants.InstantTime, ...]:
    """Return the instants that a completed restore took back."""
    path = transitions.path(completed)
    return rollback_avro.decode_restored(storage.read(path), path)


def read_rollback_targets(
    storage: Storage,
    timeline: active.ActiveTimeline,
    after: instants.InstantTime,
    *,
    is_pending_only: bool = False,
) -> RollbackTargets:
    """Return what each rollback requested after a time takes back; one request a rollback.

    Args:
        storage: The table's.
        timeline: Its rollbacks.
        after: A write needs to know of rollbacks requested after itself only.
        is_pending_only: Leave out those that have completed.
    """
    return {
        rollback.requested_time: read_rollback_target(storage, rollback)
        for rollback in timeline.instants
        if rollback.action is instants.Action.ROLLBACK
        and rollback.requested_time > after
        and (rollback.is_pending or not is_pending_only)
    }


def is_of_ours(storage: Storage, pending: instants.Instant) -> bool:
    """Return whether a pending instant says that a process of ours made it."""
    has_plan = pending.action in _PLANNED
    path = transitions.path(pending.pending_in(instants.State.REQUESTED) if has_plan else pending)
    try:
        content = storage.read(path)
        match pending.action:
            case instants.Action.ROLLBACK:
                rollback_avro.decode_target(content, path)
                return not rollback_avro.is_of_java(content)
            case instants.Action.CLEAN:
                extra = clean_avro.decode_plan(content, path).extra
            case instants.Action.COMPACTION:
                extra = timeline_avro.decode_compaction_plan(content, path).extra
            case instants.Action.INDEXING:
                extra = indexing_avro.decode(content, path).extra
            case _:
                extra = timeline_avro.decode_commit(content, path).extra
    except (errors.NotFoundError, errors.FormatError, errors.UnsupportedError):
        return False  # Taken away meanwhile, or empty: it does not say.
    return commits.WRITE_ID_KEY in extra


def read_savepoint(storage: Storage, savepoint: instants.Instant) -> plans.Savepoint:
    """Return what a completed savepoint keeps.

    Raises:
        NotFoundError: It was deleted.
        FormatError: It is damaged, or names files outside their partitions.
    """
    path = transitions.path(savepoint)
    return savepoint_avro.decode(storage.read(path), path)


def read_indexing(storage: Storage, completed: instants.Instant) -> plans.Indexing:
    """Return what a completed indexing action has built.

    Raises:
        FormatError: It is damaged.
        UnsupportedError: It is of a version that is not known.
    """
    path = transitions.path(completed)
    return indexing_avro.decode(storage.read(path), path)


def read_indexing_plan(storage: Storage, indexing: instants.Instant) -> plans.Indexing:
    """Return the plan of an indexing action, in whichever state.

    Raises:
        NotFoundError: It was given up meanwhile.
        FormatError: It is damaged.
        UnsupportedError: It is of a version that is not known.
    """
    path = transitions.path(indexing.pending_in(instants.State.REQUESTED))
    return indexing_avro.decode(storage.read(path), path)
