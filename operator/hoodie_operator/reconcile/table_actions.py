"""What is to be done about a TableAction: one run of a service, to its end, read from the storage.

compaction   done when the timeline holds its commit; an attempt that was killed after planning
             is followed by one that executes that very plan
rollback     done when a run has ended that took back what it was for, and the timeline tells that
             no rollback of it is left half done

Whoever may ask for one may ask for the other: no owner reference, name or label of an action means
anything here. Those of a retired type start nothing and are taken away.
"""

from collections.abc import Sequence

from hoodie.model import jobs
from hoodie_operator.api import fields, hudi_table, objects, states, table_action, times
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.api.table_action import ActionType
from hoodie_operator.reconcile import (
    attempts,
    facts,
    gates,
    interlocks,
    rollbacks,
    runs,
    timelines,
)
from hoodie_operator.reconcile.effects import Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import Verdict, stalled, stated
from hoodie_operator.reconcile.world import World


def decide(world: World, me: objects.Action) -> Sequence[Effect]:
    """Return what to do about a TableAction."""
    if me.status.finished_time is not None:
        is_gone = me.is_deleting or me.spec.type in table_action.RETIRED
        return [RemoveObject(key=me.key, uid=me.uid)] if is_gone else []
    target = gates.target(world, me)
    found = _situation(world, me, target)
    if me.spec.type in table_action.RETIRED:
        return _retired(me, found)
    status = _told(world, me, target.seen, found)
    if found.run is not None:
        why = gates.unwanted(world, me, target, found.run)
        step = runs.leave_off(found, why) if why else runs.carry_on(found, None)
        return [*step.effects, _set(world, me, status, step.verdict)]
    if me.is_deleting:
        return [RemoveObject(key=me.key, uid=me.uid)]
    job = _job(world, me, target, found)
    if isinstance(job, Verdict):
        if job.state is State.SUCCEEDED:
            status = status.model_copy(update={"finished_time": times.text(world.now_ms)})
        return [_set(world, me, status, job)]
    step = runs.carry_on(found, job)
    status = status.model_copy(update={"runs": step.status})
    return [*step.effects, _set(world, me, status, step.verdict)]


def _retired(me: objects.Action, found: runs.Situation) -> Sequence[Effect]:
    """End what an earlier release has begun, and take the action away.

    Nothing is told on it: its type is none that a cluster's schema still takes.
    """
    if found.run is not None:
        return runs.leave_off(
            found, "a HudiTable is created and deleted by runs of its own"
        ).effects
    return [RemoveObject(key=me.key, uid=me.uid)]


def _situation(world: World, me: objects.Action, target: gates.Target) -> runs.Situation:
    total_ms = fields.duration_ms(me.spec.time_limit)
    deadlines = attempts.Deadlines(
        schedule_ms=world.limits.schedule_deadline_ms,
        image_ms=world.limits.image_deadline_ms,
        start_ms=world.limits.start_deadline_ms,
        progress_ms=total_ms,
        total_ms=total_ms,
        stop_ms=world.limits.stop_grace_ms,
    )
    previous = me.status.runs
    basis = runs.basis(
        [str(me.generation), target.protocol_hash or ""],
        previous.basis if previous else None,
        is_known=target.protocol_hash is not None,
    )
    return runs.situation(world, me, previous, me.spec.retry, deadlines, basis)


def _job(
    world: World, me: objects.Action, target: gates.Target, found: runs.Situation
) -> runs.Job | Verdict:
    """Return what an attempt would do, or why none is to start: that the action is done, too."""
    opened = gates.enter(world, me, target)
    if isinstance(opened, Verdict):
        return opened
    seen = runs.confirmed(world, me, target.seen)
    if isinstance(seen, Verdict):
        return seen
    done = _done(me, seen, found)
    if done is not None:
        return done
    work = _work(me, opened.table, seen)
    if isinstance(work, Verdict):
        return work
    busy = _busy(world, me, opened, seen)
    if busy is not None:
        return busy
    return runs.Job(
        table=opened.wanted,
        work=work,
        runtime=me.spec.runtime,
        run_hash=opened.run_hash(world, me),
        action_id=me.name,
    )


def _done(me: objects.Action, seen: facts.TableFacts, found: runs.Situation) -> Verdict | None:
    """Return that the action is done, as the storage tells; None when it is not."""
    if me.spec.type is ActionType.ROLLBACK:
        return rollbacks.done(me, seen, found)
    return _compacted(me, seen, found)


def _compacted(me: objects.Action, seen: facts.TableFacts, found: runs.Situation) -> Verdict | None:
    instant = me.spec.compaction.instant if me.spec.compaction else None
    made = [
        commit
        for commit in seen.commits
        if commit.is_compaction
        and (commit.requested_time == instant if instant else commit.action_id == me.name)
    ]
    if made:
        return _succeeded(
            Reason.SUCCEEDED,
            f"instant {made[-1].requested_time} completed at {made[-1].completion_time}",
        )
    if instant is None and runs.has_succeeded(found.status) and not _planned(me, seen):
        return _succeeded(Reason.NOTHING_TO_DO, "no file group has anything to compact")
    return None


def _planned(me: objects.Action, seen: facts.TableFacts) -> str | None:
    """Return the pending instant that this action planned in an attempt that did not finish."""
    for pending in timelines.pending_compactions(seen):
        if pending.action_id == me.name:
            return pending.requested_time
    return None


def _work(me: objects.Action, table: objects.Table, seen: facts.TableFacts) -> jobs.Work | Verdict:
    if me.spec.type is ActionType.ROLLBACK:
        return rollbacks.work(me, table, seen)
    assert me.spec.type is ActionType.COMPACTION, "a retired type starts nothing"
    return _compaction(me, table, seen)


def _compaction(
    me: objects.Action, table: objects.Table, seen: facts.TableFacts
) -> jobs.Compact | Verdict:
    if table.spec.services.compaction is hudi_table.ServiceOwner.DISABLED:
        return stalled(
            me, Reason.DISABLED, f"services.compaction of HudiTable {table.name} is Disabled"
        )
    if table.spec.is_copy_on_write:
        return stalled(
            me,
            Reason.INVALID_SPEC,
            f"HudiTable {table.name} is CopyOnWrite: its writes leave nothing to compact",
        )
    instant = (me.spec.compaction.instant if me.spec.compaction else None) or _planned(me, seen)
    if instant is None:
        return jobs.Compact(step=jobs.CompactionStep.SCHEDULE_AND_EXECUTE)
    for pending in timelines.pending_compactions(seen):
        if pending.requested_time == instant:
            return jobs.Compact(step=jobs.CompactionStep.EXECUTE, instant_time=instant)
    return stalled(
        me,
        Reason.INSTANT_NOT_FOUND,
        f"no pending compaction {instant} is on the timeline of HudiTable {table.name}",
    )


def _busy(
    world: World, me: objects.Action, opened: gates.OpenTarget, seen: facts.TableFacts
) -> Verdict | None:
    """Return why the run has to wait for another one (R2, R4, R12)."""
    table = opened.table
    busy = interlocks.check_alone(world, table, opened.wanted, me)
    if me.spec.type is ActionType.ROLLBACK:
        return rollbacks.busy(world, me, table, seen) or busy
    if me.spec.type is not ActionType.COMPACTION:
        return None
    mine = (me.spec.compaction.instant if me.spec.compaction else None) or _planned(me, seen)
    for other in world.actions_of(table):
        if other.uid == me.uid or other.spec.type is not me.spec.type:
            continue
        if world.has_run_at_work(other):
            return Verdict(
                state=State.BLOCKED,
                reason=Reason.TABLE_BUSY,
                message=f"{other.key} is at work, expected one compaction at a time",
            )
    for pending in timelines.pending_compactions(seen):
        if pending.requested_time == mine and interlocks.is_elsewhere(world, table, pending):
            return Verdict(
                state=State.BLOCKED,
                reason=Reason.OWNED_ELSEWHERE,
                message=f"another process works on instant {mine}, as its heartbeat tells",
            )
    return busy


def _told(
    world: World, me: objects.Action, seen: facts.TableFacts | None, found: runs.Situation
) -> table_action.TableActionStatus:
    update: dict[str, object] = {"runs": found.status}
    instant = me.spec.compaction.instant if me.spec.compaction else rollbacks.instant(me)
    if seen is not None and instant is None:
        made = timelines.commits_of_action(seen, me.name)
        instant = made[-1].requested_time if made else _planned(me, seen)
    if instant is not None:
        update["instant"] = instant
    result = _result(world, me)
    if result is not None:
        update["result"] = result
    return me.status.model_copy(update=update)


def _set(
    world: World,
    me: objects.Action,
    status: table_action.TableActionStatus,
    verdict: Verdict,
) -> SetStatus:
    assert verdict.state in states.TABLE_ACTION, verdict
    return SetStatus(key=me.key, uid=me.uid, status=stated(status, me, verdict, world.now(me)))


def _result(world: World, me: objects.Action) -> table_action.ActionResult | None:
    """Return what the newest attempt that told anything did."""
    told = [run.result for run in world.runs(me) if run.result is not None]
    if not told:
        return None
    last = told[-1]
    return table_action.ActionResult(
        file_groups=last.file_groups,
        files=last.files,
        bytes=last.bytes,
        records=last.records,
        duration_ms=last.duration_ms,
        lock_wait_ms=last.lock_wait_ms,
        lock_hold_ms=last.lock_hold_ms,
        findings=tuple(finding[:1000] for finding in last.findings[:20]) or None,
    )


def _succeeded(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.SUCCEEDED, reason=reason, message=message)
