"""In which partitions a compaction is planned: those that changed since an earlier plan.

A plan of ours leaves nothing unsaid: every file group that had log files then is in it, in another
plan that was pending, or in a partition that it names (P3). So what there is to compact now is in
these partitions, or in those that writes have touched since. A plan records what it takes to
rely on that later:

    through   the greatest completion time on the timeline that it was made of
    first     the least requested time of what could complete later: of writes that were pending
              then, and its own
    beside    the other plans that were pending

The whole table is looked at where no such plan is on the timeline, where a write that completed
since may have been archived, where a plan beside it is gone without having been executed, and after
a restore. Plans of Apache Hudi do not name all partitions, and are not relied on. Source:
`BaseHoodieCompactionPlanGenerator.java`, `IncrementalPartitionAwareStrategy.java` (1.2.0).
"""

from collections.abc import Mapping

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.model import instants, plans
from hoodie.timeline import active

THROUGH_KEY = "hoodie.operator.compaction.through"
FIRST_KEY = "hoodie.operator.compaction.first"
BESIDE_KEY = "hoodie.operator.compaction.beside"

_COMMITS_MAX = 200
"""With more commits since, one listing of the table costs less than reading them."""


def recorded(
    snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
) -> Mapping[str, str]:
    """Return what a plan records of the snapshot that it is made of."""
    timeline = snapshot.timeline
    completed = [each.completion_time for each in timeline.completed_writes if each.completion_time]
    pending = timeline.pending_of(*instants.WRITES)
    return {
        THROUGH_KEY: max(completed, default=""),
        FIRST_KEY: min([requested_time, *(each.requested_time for each in pending)]),
        BESIDE_KEY: ",".join(sorted(snapshot.compactions)),
    }


def partitions(snapshot: snapshots.Snapshot) -> frozenset[str] | None:
    """Return the partitions outside of which there is nothing to compact; None for all.

    Cost: a read of the newest plan, and of each commit since.
    """
    found = _newest(snapshot)
    if found is None:
        return None
    requested_time, plan = found
    timeline = snapshot.timeline
    if not _is_all_there(timeline, requested_time, plan):
        return None
    since = [
        each
        for each in timeline.completed_writes
        if each.action is not instants.Action.COMMIT
        and (each.completion_time or "") > plan.extra[THROUGH_KEY]
    ]
    if len(since) > _COMMITS_MAX:
        return None
    return frozenset(plan.missed_partitions) | snapshot.touched(since)


def _newest(
    snapshot: snapshots.Snapshot,
) -> tuple[instants.InstantTime, plans.CompactionPlan] | None:
    """Return the newest plan on the timeline, pending or executed, if it can be relied on."""
    executed = [
        each for each in snapshot.timeline.completed_writes if each.action is instants.Action.COMMIT
    ]
    times = [*snapshot.compactions, *(each.requested_time for each in executed)]
    if not times:
        return None
    newest = max(times)
    plan = snapshot.compactions.get(newest)
    if plan is None:
        try:
            plan = snapshot.executed_plan(newest)
        except (errors.NotFoundError, errors.FormatError, errors.UnsupportedError):
            return None
    is_recorded = {THROUGH_KEY, FIRST_KEY, BESIDE_KEY} <= plan.extra.keys()
    return (newest, plan) if is_recorded else None


def _is_all_there(
    timeline: active.ActiveTimeline,
    requested_time: instants.InstantTime,
    plan: plans.CompactionPlan,
) -> bool:
    """Return whether the timeline shows all that has happened since a plan."""
    if timeline.start is None or timeline.start > plan.extra[FIRST_KEY]:
        return False
    if any(
        each.action is instants.Action.RESTORE and each.requested_time > requested_time
        for each in timeline.instants
    ):
        return False
    beside = plan.extra[BESIDE_KEY].split(",") if plan.extra[BESIDE_KEY] else []
    return all(timeline.find(instants.InstantTime(each)) is not None for each in beside)
