"""TableActions of type Rollback: what failed writes left is removed (interlock R3).

Done when a run has ended that rolled back what it was for, and the timeline shows no rollback of it
that is left half done. Nothing is rolled back whose heartbeat is fresh, nor anything whose own run
may still be at work, even if its heartbeat has expired: a paused process continues sooner or later.
A pending write records the number of the attempt that began it, which the fence of the attempt has
as well. No times are compared, which are of several clocks. The run checks all heartbeats again,
under the table lock.
"""

from hoodie.contract import job_specs
from hoodie.model import instants
from hoodie_operator.api import kinds, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.api.table_action import ActionType
from hoodie_operator.reconcile import effective, facts, runs
from hoodie_operator.reconcile.verdicts import Verdict, stalled, succeeded
from hoodie_operator.reconcile.world import World

WRITES = frozenset(
    action.value
    for action in (
        instants.Action.COMMIT,
        instants.Action.DELTA_COMMIT,
        instants.Action.REPLACE_COMMIT,
    )
)


class Rollback:
    """Removes what failed writes left."""

    def named_instant(self, me: objects.Action) -> str | None:
        """Return the instant that an action is to roll back; None for all that failed."""
        return me.spec.rollback.instant if me.spec.rollback else None

    def planned_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        """Return None: which rollback an attempt began, the timeline does not show."""
        del me, seen
        return None

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the action is done, as the timeline shows; None when it is not."""
        wanted = self.named_instant(me)
        if wanted is None:
            left = [each for each in seen.pending if each.target is not None and not each.is_alive]
            if runs.has_succeeded(found.status) and not left:
                return succeeded("all failed writes are rolled back")
            return None
        was_begun = found.status.attempts > 0
        if was_begun and not _about(seen, wanted) and not _commit(seen, wanted):
            return succeeded(f"instant {wanted} is rolled back")
        return None

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return what a run does, or why there is nothing that one could do."""
        wanted = self.named_instant(me)
        if wanted is not None and _commit(seen, wanted) is not None:
            return stalled(
                me,
                Reason.INSTANT_NOT_FOUND,
                f"instant {wanted} of HudiTable {table.name} has completed, expected a pending "
                "write",
            )
        if wanted is not None and not _about(seen, wanted):
            return stalled(
                me,
                Reason.INSTANT_NOT_FOUND,
                f"the timeline of HudiTable {table.name} has no pending write {wanted}",
            )
        return job_specs.RollBack(instant_time=wanted)

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run has to wait: for another rollback, or for the end of a writer (R3)."""
        for other in world.actions_of(table):
            is_rollback = other.spec.type is ActionType.ROLLBACK
            if other.uid != me.uid and is_rollback and world.has_run_at_work(other):
                return _blocked(
                    Reason.TABLE_BUSY,
                    f"{other.key} has an active run, expected one rollback at a time",
                )
        wanted = self.named_instant(me)
        for pending in _about(seen, wanted) if wanted else _failed(seen):
            who = author_at_work(world, table, pending)
            if who is not None:
                return _blocked(
                    Reason.TABLE_BUSY,
                    f"{who} has an active run and may continue instant {pending.requested_time}",
                )
            if pending.is_alive:
                return _blocked(
                    Reason.OWNED_ELSEWHERE,
                    f"the heartbeat of instant {pending.requested_time} is alive: another process "
                    "executes it",
                )
        return None


def _about(seen: facts.TableFacts, wanted: str) -> list[facts.Pending]:
    """Return the pending instant, and a pending rollback of it."""
    return [each for each in seen.pending if wanted in (each.requested_time, each.target)]


def _failed(seen: facts.TableFacts) -> list[facts.Pending]:
    return [each for each in seen.pending if each.action in WRITES and not each.is_alive]


def _commit(seen: facts.TableFacts, wanted: str) -> facts.Commit | None:
    return next((each for each in seen.commits if each.requested_time == wanted), None)


def author_at_work(world: World, table: objects.Table, pending: facts.Pending) -> str | None:
    """Return which owner has a run at work that may have begun a pending write; None for none.

    A write that records its writer and no attempt may be of any. So may one of a Writer that is
    gone, whose attempt numbers are not known any more, and whose pods have not ended.
    """
    if pending.action not in WRITES or pending.writer_id is None:
        return None
    for writer in world.writers_of(table):
        if effective.writer_id(writer) == pending.writer_id and any(
            run.is_running and pending.attempt in (None, runs.fence_number(writer, run.id.attempt))
            for run in world.runs(writer)
        ):
            return str(writer.key)
    for run in world.ownerless_runs(table):
        if run.id.kind == kinds.WRITER.name:
            return f"{run.id.kind} {run.id.name}, which no longer exists,"
    return None


def _blocked(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.BLOCKED, reason=reason, message=message)
