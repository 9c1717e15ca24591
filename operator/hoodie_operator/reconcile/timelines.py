"""What follows from a timeline: the backlog, what is due, who wrote what."""

from collections.abc import Iterator, Sequence

from hoodie import errors
from hoodie.contract import job_specs
from hoodie.maintenance.compaction import memory
from hoodie.model import instants, time_zones
from hoodie_operator.api import hudi_table_status, times
from hoodie_operator.reconcile import facts

_CONSUMERS_MAX = 20
_PLANS = frozenset({instants.Action.COMPACTION.value})


def latest_commit(seen: facts.TableFacts) -> hudi_table_status.LatestCommit | None:
    """Return the write that completed last."""
    if not seen.commits:
        return None
    last = seen.commits[-1]
    return hudi_table_status.LatestCommit(
        instant=last.requested_time, completion_time=last.completion_time, action=last.action
    )


def pending_compactions(seen: facts.TableFacts) -> list[facts.Pending]:
    """Return the compactions that are planned or being executed, the oldest first."""
    return [pending for pending in seen.pending if pending.action in _PLANS]


def plan_size(seen: facts.TableFacts, work: job_specs.Work) -> memory.PlanSize | None:
    """Return the size of the plan that a run executes; None where it plans, or does other work."""
    if not isinstance(work, job_specs.Compact):
        return None
    for pending in pending_compactions(seen):
        if pending.requested_time == work.instant_time:
            return pending.plan_size
    return None


def pending_cleans(seen: facts.TableFacts) -> list[facts.Pending]:
    """Return the cleans that are planned or being executed, the oldest first."""
    clean = instants.Action.CLEAN.value
    return [pending for pending in seen.pending if pending.action == clean]


def epoch_ms(seen: facts.TableFacts, time: str) -> int:
    """Return when it was an instant time in the table's time zone; 0 of one no calendar has."""
    try:
        return _zone(seen).epoch_ms(time)
    except errors.HoodieError:
        return 0


def age_ms(seen: facts.TableFacts, time: str, clock_ms: int) -> int | None:
    """Return by how much the newest commit is younger than a time; None where none can tell.

    A commit of the future counts as one of now: neither a clock that is ahead nor the clock of
    another engine makes anything old.
    """
    if not seen.commits:
        return None
    try:
        zone = _zone(seen)
        newest_ms = zone.epoch_ms(seen.commits[-1].completion_time)
        # Of a time that clocks show twice the later moment: nothing is older than it is.
        return min(newest_ms, clock_ms) - zone.moments_ms(time)[-1]
    except errors.HoodieError:
        return None


def _zone(seen: facts.TableFacts) -> time_zones.TimeZone:
    return time_zones.UTC_ZONE if seen.config is None else seen.config.zone


def last_planned(seen: facts.TableFacts) -> str:
    """Return the requested time of the newest compaction, pending or done; empty for none."""
    planned = [pending.requested_time for pending in pending_compactions(seen)]
    done = [commit.requested_time for commit in seen.commits if commit.is_compaction]
    return max([*planned, *done], default="")


def uncompacted(seen: facts.TableFacts) -> list[facts.Commit]:
    """Return the delta commits that completed after the newest compaction was planned."""
    since = last_planned(seen)
    return [
        commit
        for commit in seen.commits
        if not commit.is_compaction and commit.log_bytes and commit.completion_time > since
    ]


def backlog(seen: facts.TableFacts) -> hudi_table_status.Backlog:
    """Return what compaction has before it."""
    waiting = uncompacted(seen)
    return hudi_table_status.Backlog(
        delta_commits=len(waiting),
        log_bytes=sum(commit.log_bytes for commit in waiting),
        pending_compactions=len(pending_compactions(seen)),
    )


def consumers(seen: facts.TableFacts) -> tuple[hudi_table_status.ConsumerStatus, ...]:
    """Return the declared consumers, as many as a status has."""
    return tuple(
        hudi_table_status.ConsumerStatus(
            name=each.name,
            consumed=each.consumed,
            holding=each.is_holding,
            unread_commits=each.unread,
            unread_since=None
            if each.unread_since is None
            else times.text(epoch_ms(seen, each.unread_since)),
        )
        for each in seen.consumers[:_CONSUMERS_MAX]
    )


def commits_of(seen: facts.TableFacts, writer_id: str) -> Iterator[facts.Commit]:
    """Yield a writer's commits in the order of their completion."""
    return (commit for commit in seen.commits if commit.writer_id == writer_id)


def commits_of_action(seen: facts.TableFacts, action_id: str) -> Sequence[facts.Commit]:
    """Return the commits that a TableAction made."""
    return [commit for commit in seen.commits if commit.action_id == action_id]
