"""When a compaction is due: triggers, as functions of a timeline and the time of the plan.

No clock is read: elapsed time is the time of the plan, which is above all that the timeline shows,
less an instant's. As Apache Hudi computes it, whole seconds of both are compared. Two deviations,
for which its results depend on what is not there: pending delta commits, whose log files no plan
could take, do not count; and after a request those count that completed later, whenever they were
requested. Source: `ScheduleCompactionActionExecutor.java`, `CompactionUtils.java` (1.2.0).
"""

from dataclasses import dataclass
from typing import assert_never

from hoodie.model import compaction_options, instants
from hoodie.timeline import active

Trigger = compaction_options.Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a compaction is due.

    Attributes:
        is_due: Whether it is.
        message: How far the trigger is, in numbers.
    """

    is_due: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """What has come since a compaction.

    Attributes:
        commits: Delta commits that completed since.
        since: The compaction, or the first delta commit where there is none.
    """

    commits: int
    since: instants.InstantTime


def evaluate(
    timeline: active.ActiveTimeline,
    requested_time: instants.InstantTime,
    options: compaction_options.CompactionOptions,
) -> Verdict:
    """Return whether a compaction that would be requested at a time is due.

    Args:
        timeline: As the plan would be made of.
        requested_time: The plan's, above all times on the timeline.
        options: The trigger; without one any delta commit is enough, or what a plan left out.
    """
    trigger = options.trigger
    if trigger is None:
        return Verdict(is_due=True, message="no trigger is set")
    is_since_request = trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST
    waiting = _waiting(timeline, is_since_request=is_since_request)
    if waiting is None:
        return Verdict(is_due=False, message="no delta commit has completed")
    elapsed_s = _seconds(requested_time) - _seconds(waiting.since)
    has_commits = waiting.commits >= options.delta_commits
    has_time = elapsed_s >= options.delta_seconds
    commits_text = f"{waiting.commits} of {options.delta_commits} delta commits"
    time_text = f"{elapsed_s} of {options.delta_seconds} seconds"
    match trigger:
        case Trigger.NUM_COMMITS | Trigger.NUM_COMMITS_AFTER_LAST_REQUEST:
            return Verdict(is_due=has_commits, message=commits_text)
        case Trigger.TIME_ELAPSED:
            return Verdict(is_due=has_time, message=time_text)
        case Trigger.NUM_AND_TIME:
            is_due = has_commits and has_time
            return Verdict(is_due=is_due, message=f"{commits_text} and {time_text}")
        case Trigger.NUM_OR_TIME:
            is_due = has_commits or has_time
            return Verdict(is_due=is_due, message=f"{commits_text} or {time_text}")
    assert_never(trigger)


def _waiting(timeline: active.ActiveTimeline, *, is_since_request: bool) -> _Waiting | None:
    """Return what has come since the newest compaction; None for no delta commit at all."""
    compactions = [
        each.requested_time
        for each in timeline.completed_writes
        if each.action is instants.Action.COMMIT
    ]
    if is_since_request:
        compactions += [each.requested_time for each in timeline.pending_compactions]
    deltas = [
        each
        for each in timeline.completed_writes
        if each.action is instants.Action.DELTA_COMMIT and each.completion_time is not None
    ]
    if compactions:
        since = max(compactions)
        return _Waiting(commits=sum((d.completion_time or "") > since for d in deltas), since=since)
    if not deltas:
        return None
    return _Waiting(commits=len(deltas), since=min(each.requested_time for each in deltas))


def _seconds(time: instants.InstantTime) -> int:
    return instants.parse_time(time) // 1000
