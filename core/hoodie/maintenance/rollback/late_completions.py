"""A target that completed after its rollback had been requested: how the rollback ends.

From the request on no writer of ours completes the target (C1, R-B). Its completed file may appear
all the same: a store carries out a creation that a dead writer had asked for, or another
implementation does not look for rollbacks. An executor that finds it has to end the rollback, one
way or the other, or it stays pending for ever:

    withdraw   the target has all files that its commit names: it stands, nothing was deleted
    finish     files are missing and nothing was built on it: the request came first, so that the
               completed file is deleted, and the rollback goes on as if it had never appeared
    report     files are missing and others have built on it: it cannot be taken back any more.
               The rollback is withdrawn; `hoodie check` names what is missing

Until then nothing may rely on it: no batch counts as written by it, and no compaction plans its
files (`transaction.admission.admit_reliance`).

"Built on" is a base file that completed later in one of its file groups, or a compaction planned
later for one. A copy-on-write write that began later may be reading its base files.
The decision is made under the table lock.
"""

import enum

from hoodie import errors
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents
from hoodie.transaction import markers

_REWRITING = (instants.Action.COMMIT, instants.Action.REPLACE_COMMIT)
"""Pending writes that may be reading base files, to write the next ones."""


class End(enum.Enum):
    """How a rollback of a completed target ends."""

    WITHDRAW = "withdrawn, since all its files exist"
    FINISH = "finished, since no later change depends on it"
    REPORT = (
        "withdrawn, since later changes depend on it; some of its files are missing (run hoodie "
        "check)"
    )


def end_of(
    storage: Storage,
    timeline: active.ActiveTimeline,
    target: instants.Instant,
) -> End:
    """Return how a rollback ends whose target has completed; a request for each of its files.

    Args:
        storage: The table's.
        timeline: Read in the lock scope that the caller holds.
        target: The completed instant.
    """
    try:
        stats = contents.read_commit(storage, target).stats
        if not any(markers.missing(storage, stats)):
            return End.WITHDRAW
        groups = {_group(stat) for stat in stats}
        is_alone = not _is_built_on(storage, timeline, target, groups)
    except errors.FormatError:
        return End.REPORT
    return End.FINISH if is_alone else End.REPORT


def _is_built_on(
    storage: Storage,
    timeline: active.ActiveTimeline,
    target: instants.Instant,
    groups: set[files.FileGroupId],
) -> bool:
    completed = str(target.completion_time)
    later = [each for each in timeline.pending if each.requested_time > completed]
    if any(each.action in _REWRITING for each in later):
        return True
    planned = (
        operation.group
        for each in later
        if each.action is instants.Action.COMPACTION
        for operation in contents.read_compaction_plan(storage, each).operations
    )
    rewritten = (
        _group(stat)
        for each in timeline.completed_writes
        if str(each.completion_time) > completed
        for stat in contents.read_commit(storage, each).stats
        if not stat.log_files
    )
    return not groups.isdisjoint((*planned, *rewritten))


def _group(stat: commits.WriteStat) -> files.FileGroupId:
    return files.FileGroupId(stat.partition_path, stat.file_id)
