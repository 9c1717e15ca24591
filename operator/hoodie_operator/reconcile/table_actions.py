"""What is done about a TableAction: runs of its type, to its end, as the timeline shows it.

What all types share: the gates, attempts, interlocks, the status. What a type adds is in `actions`,
one module each. Owner reference, name and labels of an action permit nothing: anyone who may create
one type may create any other. They only end what a policy or the defaults planned that deletes,
once other rules stand (`table_services.withdrawal`), and the deletion of a savepoint that another
object keeps by now (`savepoints.withdrawal`), and what a table's `spec.metadata`, its `spec.mirror`
or an IndexRequest no longer asks for (`withdrawal` of `metadata_tables`, `mirrors` and
`index_requests`). Actions of a retired type start nothing and are removed.
"""

from collections.abc import Sequence
from dataclasses import replace

from hoodie.contract import job_results
from hoodie_operator.api import fields, objects, states, table_action, times
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import (
    admission,
    facts,
    gates,
    index_requests,
    interlocks,
    metadata_tables,
    mirrors,
    runs,
    savepoints,
    table_services,
    timelines,
)
from hoodie_operator.reconcile.actions import registry
from hoodie_operator.reconcile.effects import Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import Verdict, stated
from hoodie_operator.reconcile.world import World


def decide(world: World, me: objects.Action) -> Sequence[Effect]:
    """Return what to do about a TableAction."""
    if me.status.finished_time is not None:
        is_gone = me.is_deleting or me.spec.type in table_action.RETIRED or _is_outlived(world, me)
        return [RemoveObject(key=me.key, uid=me.uid)] if is_gone else []
    target = gates.target(world, me)
    found = _situation(world, me, target)
    if me.spec.type in table_action.RETIRED:
        return _retired(me, found)
    status = _told(world, me, target.seen, found)
    if found.run is not None:
        why = gates.unwanted(world, me, target, found.run)
        step = runs.stop_unwanted(found, why) if why else runs.advance(found, None)
        return [*step.effects, _set(world, me, status, step.verdict)]
    if me.is_deleting:
        return [RemoveObject(key=me.key, uid=me.uid)]
    job = _cancelled(me) or _job(world, replace(me, status=status), target, found)
    if isinstance(job, Verdict):
        if job.state in (State.SUCCEEDED, State.CANCELLED):
            status = status.model_copy(update={"finished_time": times.text(world.now_ms)})
        return [_set(world, me, status, job)]
    step = runs.advance(found, job)
    status = status.model_copy(update={"runs": step.status})
    return [*step.effects, _set(world, me, status, step.verdict)]


def _cancelled(me: objects.Action) -> Verdict | None:
    if not me.spec.cancel:
        return None
    return Verdict(state=State.CANCELLED, reason=Reason.CANCELLED, message="spec.cancel is true")


def _is_outlived(world: World, me: objects.Action) -> bool:
    """Return whether an action that is done has been kept for as long as it is to be."""
    ttl, finished = me.spec.ttl_after_finished, me.status.finished_time
    if ttl is None or finished is None:
        return False
    return world.now_ms - times.epoch_ms(finished) > fields.duration_ms(ttl)


def _retired(me: objects.Action, found: runs.Situation) -> Sequence[Effect]:
    """End what an earlier release has begun, and take the action away.

    Nothing is told on it: its type is none that a cluster's schema still takes.
    """
    if found.run is not None:
        return runs.stop_unwanted(
            found, "a HudiTable is created and deleted by runs of its own"
        ).effects
    return [RemoveObject(key=me.key, uid=me.uid)]


def _situation(world: World, me: objects.Action, target: gates.Target) -> runs.Situation:
    total_ms = fields.duration_ms(me.spec.time_limit)
    deadlines = runs.deadlines(world, total_ms, total_ms)
    previous = me.status.runs
    basis = runs.basis(
        me,
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
    service = registry.BY_TYPE[me.spec.type]
    work = service.done(me, seen, found) or service.work(me, opened.table, seen)
    if isinstance(work, Verdict):
        return work
    waits = _withdrawn(world, me, opened.table) or _unapproved(me)
    if waits is None and runs.may_start(found):  # Else it waits for its user, or its time.
        waits = (
            service.conflict(world, me, opened.table, seen)
            or interlocks.check_alone(world, opened.table, opened.wanted, me)
            or admission.check(world, me)
        )
    if waits is not None:
        return waits
    return runs.Job(
        table=opened.wanted,
        work=work,
        runtime=me.spec.runtime,
        run_hash=opened.run_hash(world, me),
        action_id=me.name,
        plan_size=timelines.plan_size(seen, work),
    )


def _withdrawn(world: World, me: objects.Action, table: objects.Table) -> Verdict | None:
    why = (
        table_services.withdrawal(world, table, me)
        or savepoints.withdrawal(world, table, me)
        or metadata_tables.withdrawal(table, me)
        or mirrors.withdrawal(table, me)
        or index_requests.withdrawal(world, table, me)
    )
    if why is None:
        return None
    return Verdict(state=State.CANCELLED, reason=Reason.CANCELLED, message=why)


def _unapproved(me: objects.Action) -> Verdict | None:
    if me.spec.approved or not me.spec.approval:
        return None
    return Verdict(
        state=State.SUSPENDED,
        reason=Reason.AWAITING_APPROVAL,
        message="spec.approved is false: no run starts",
    )


def _told(
    world: World, me: objects.Action, seen: facts.TableFacts | None, found: runs.Situation
) -> table_action.TableActionStatus:
    update: dict[str, object] = {"runs": found.status}
    service = registry.BY_TYPE[me.spec.type]
    instant = service.named_instant(me)
    if seen is not None and instant is None:
        made = timelines.commits_of_action(seen, me.name)
        instant = made[-1].requested_time if made else service.planned_instant(me, seen)
    if instant is None:
        instant = _told_instant(world, me)
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
        left_out=last.left_out or None,
        archived=last.archived or None,
        trimmed=last.trimmed or None,
        files=last.files,
        bytes=last.bytes,
        records=last.records,
        deletes=last.deletes or None,
        duration_ms=last.duration_ms,
        lock_wait_ms=last.lock_wait_ms,
        lock_hold_ms=last.lock_hold_ms,
        findings=tuple(finding[:1000] for finding in _findings(last)[:20]) or None,
    )


def _told_instant(world: World, me: objects.Action) -> str | None:
    """Return the last instant that the newest attempt that told anything made."""
    told = [run.result for run in world.runs(me) if run.result is not None]
    return told[-1].instants[-1].requested_time if told and told[-1].instants else None


def _findings(result: job_results.JobResult) -> Sequence[str]:
    """Return what a result reports besides numbers: first why nothing was done."""
    return (*((result.reason,) if result.reason else ()), *result.findings)
