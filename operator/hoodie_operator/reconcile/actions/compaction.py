"""TableActions of type Compaction: one plan, executed to its end (interlock R4).

Done when the timeline has the commit. An attempt that was killed after planning is followed by one
that executes the same plan.
"""

from hoodie.contract import job_specs
from hoodie_operator.api import compaction_plan, hudi_table, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import facts, interlocks, runs, timelines
from hoodie_operator.reconcile.verdicts import Verdict, stalled, succeeded
from hoodie_operator.reconcile.world import World


class Compaction:
    """Merges log files into base files."""

    def named_instant(self, me: objects.Action) -> str | None:
        """Return the planned compaction that an action is to execute; None to plan a new one."""
        return me.spec.compaction.instant if me.spec.compaction else None

    def planned_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        """Return the pending compaction that an attempt of the action planned."""
        for pending in timelines.pending_compactions(seen):
            if pending.action_id == me.name:
                return pending.requested_time
        return None

    def done(
        self, me: objects.Action, seen: facts.TableFacts, found: runs.Situation
    ) -> Verdict | None:
        """Return that the compaction is done, or that there was nothing to compact."""
        instant = self.named_instant(me)
        made = [
            commit
            for commit in seen.commits
            if commit.is_compaction
            and (commit.requested_time == instant if instant else commit.action_id == me.name)
        ]
        if made:
            return succeeded(
                f"instant {made[-1].requested_time} completed at {made[-1].completion_time}"
            )
        if (
            instant is None
            and runs.has_succeeded(found.status)
            and not self.planned_instant(me, seen)
        ):
            return succeeded("no compaction was planned", Reason.NOTHING_TO_DO)
        return None

    def work(
        self, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> job_specs.Work | Verdict:
        """Return a run that plans and executes, or that executes the plan that is pending."""
        if table.spec.services.compaction is hudi_table.ServiceOwner.DISABLED:
            return stalled(
                me, Reason.DISABLED, f"services.compaction of HudiTable {table.name} is Disabled"
            )
        if table.spec.is_copy_on_write:
            return stalled(
                me,
                Reason.INVALID_SPEC,
                f"HudiTable {table.name} is CopyOnWrite and has no log files to compact",
            )
        instant = self._own_instant(me, seen)
        if instant is None:
            plan = me.spec.compaction.plan if me.spec.compaction else None
            return job_specs.Compact(
                step=job_specs.CompactionStep.SCHEDULE_AND_EXECUTE,
                options=compaction_plan.properties(plan),
            )
        for pending in timelines.pending_compactions(seen):
            if pending.requested_time == instant:
                return job_specs.Compact(
                    step=job_specs.CompactionStep.EXECUTE, instant_time=instant
                )
        return stalled(
            me,
            Reason.INSTANT_NOT_FOUND,
            f"the timeline of HudiTable {table.name} has no pending compaction {instant}",
        )

    def conflict(
        self, world: World, me: objects.Action, table: objects.Table, seen: facts.TableFacts
    ) -> Verdict | None:
        """Return why a run waits: for another compaction, or for the process that executes it."""
        other = interlocks.other_at_work(world, table, me, (me.spec.type,))
        if other is not None:
            return Verdict(
                state=State.BLOCKED,
                reason=Reason.TABLE_BUSY,
                message=f"{other.key} has an active run, expected one compaction at a time",
            )
        instant = self._own_instant(me, seen)
        for pending in timelines.pending_compactions(seen):
            is_own = pending.requested_time == instant
            if is_own and interlocks.is_run_by_other_process(world, table, pending):
                return Verdict(
                    state=State.BLOCKED,
                    reason=Reason.OWNED_ELSEWHERE,
                    message=f"the heartbeat of instant {instant} is alive: another process "
                    "executes it",
                )
        return None

    def _own_instant(self, me: objects.Action, seen: facts.TableFacts) -> str | None:
        return self.named_instant(me) or self.planned_instant(me, seen)
