"""What is to be done about a CompactionPolicy: watch its tables, and make a TableAction when due.

One policy owns a table's compaction: one that names the table goes before one that selects it by
labels, then the older one. A pending compaction that nobody works on is executed before a new one
is planned. The action's name holds what it stands on, so that the same reason never makes two; an
action that failed for good keeps its table waiting until that has moved on or the policy changes;
the policy is stalled when that holds for all its tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodie.model import instants
from hoodie_operator.api import (
    compaction_policy,
    fields,
    hudi_table,
    kinds,
    objects,
    table_action,
    times,
)
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import facts, gates, interlocks, names, references, timelines
from hoodie_operator.reconcile.effects import CreateObject, Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.verdicts import Verdict, broken_rule, stalled, stated
from hoodie_operator.reconcile.world import World

_TABLES_TOLD_MAX = 100
_STALLING = frozenset(
    {Reason.ACTION_FAILED, Reason.OTHER_POLICY, Reason.DISABLED, Reason.TABLE_NOT_READY}
)
_NOT_MINE = frozenset({Reason.OTHER_POLICY, Reason.DISABLED})
"""Of tables that a policy chooses and is not asked to compact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """How one table stands.

    Attributes:
        table: Which.
        reason: Why nothing is made, or what is at work.
        message: With numbers.
        action: The TableAction at work.
        made: The TableAction to make.
    """

    table: objects.Table
    reason: Reason
    message: str
    action: str | None = None
    made: CreateObject | None = None


def decide(world: World, me: objects.Policy) -> Sequence[Effect]:
    """Return what to do about a CompactionPolicy."""
    if me.is_deleting:
        return [RemoveObject(key=me.key, uid=me.uid)]
    broken = broken_rule(me)
    if broken is not None:
        return [_set(world, me, (), broken)]
    if me.spec.suspend:
        verdict = Verdict(
            state=State.SUSPENDED, reason=Reason.SUSPENDED, message="nothing is planned"
        )
        return [_set(world, me, (), verdict)]
    tables = _matched(world, me)
    reference = me.spec.target.table_ref
    if reference is not None and not tables:
        verdict = references.missing(world, me, kinds.HUDI_TABLE, reference.name)
        return [_set(world, me, (), verdict)]
    findings = _by_need(_look(world, me, table) for table in tables)
    effects: list[Effect] = [_set(world, me, findings, _verdict(me, findings))]
    effects.extend(finding.made for finding in findings if finding.made is not None)
    effects.extend(_forgotten(world, me))
    return effects


def _matched(world: World, me: objects.Policy) -> list[objects.Table]:
    reference = me.spec.target.table_ref
    if reference is not None:
        named = world.table(me.key.namespace, reference.name)
        return [] if named is None else [named]
    return sorted(
        (table for table in world.tables(me.key.namespace) if _targets(me, table)),
        key=lambda table: table.name,
    )


def _targets(policy: objects.Policy, table: objects.Table) -> bool:
    target = policy.spec.target
    if target.table_ref is not None:
        return target.table_ref.name == table.name
    assert target.table_selector is not None
    wanted = target.table_selector.match_labels
    return all(table.labels.get(key) == value for key, value in wanted.items())


def _owner(world: World, table: objects.Table) -> objects.Policy:
    """Return the policy that owns a table's compaction; there must be one."""
    return min(
        (
            policy
            for policy in (
                *world.policies_naming(table),
                *world.policies_choosing(table.key.namespace),
            )
            if _targets(policy, table) and not policy.is_deleting
        ),
        key=lambda policy: (policy.spec.target.table_ref is None, policy.seniority),
    )


def _look(world: World, me: objects.Policy, table: objects.Table) -> _Finding:
    """Return how one table stands: the first gate that holds, or the triggers."""
    at_work = _at_work(world, table)
    owner = _owner(world, table)
    service = table.spec.services.compaction
    if owner.uid != me.uid:
        message = f"CompactionPolicy {owner.name} goes before this one"
        return _Finding(table=table, reason=Reason.OTHER_POLICY, message=message)
    if service is not hudi_table.ServiceOwner.OPERATOR:
        message = f"its services.compaction is {service.value}"
        return _Finding(table=table, reason=Reason.DISABLED, message=message)
    if table.spec.is_copy_on_write:
        message = "it is CopyOnWrite: its writes leave nothing to compact"
        return _Finding(table=table, reason=Reason.NOTHING_TO_COMPACT, message=message)
    if at_work is not None:
        return _Finding(
            table=table,
            reason=Reason.ACTION_AT_WORK,
            message=f"TableAction {at_work.name} is at work",
            action=at_work.name,
        )
    not_ready = gates.check_ready(table, me)
    if not_ready is not None:
        reason = Reason.NOT_OBSERVED if not_ready.state is State.PENDING else not_ready.reason
        return _Finding(table=table, reason=reason, message=not_ready.message)
    return _evaluate(world, me, table)


def _evaluate(world: World, me: objects.Policy, table: objects.Table) -> _Finding:
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.problem is not None or seen.config is None:
        message = "its timeline was not read yet"
        return _Finding(table=table, reason=Reason.NOT_OBSERVED, message=message)
    for pending in timelines.pending_compactions(seen):
        if interlocks.is_elsewhere(world, table, pending):
            return _Finding(
                table=table,
                reason=Reason.OWNED_ELSEWHERE,
                message=f"another process works on instant {pending.requested_time}",
            )
        return _make(world, me, table, pending.requested_time, pending.requested_time)
    waiting = timelines.uncompacted(seen)
    if not waiting:
        return _Finding(
            table=table,
            reason=Reason.NOTHING_TO_COMPACT,
            message="no delta commit since the last compaction",
        )
    is_due, message = _is_due(me.spec.triggers, seen, waiting, world.now_ms)
    if not is_due:
        return _Finding(table=table, reason=Reason.NOT_DUE, message=message)
    return _make(world, me, table, None, waiting[-1].requested_time)


def _is_due(
    triggers: compaction_policy.Triggers,
    seen: facts.TableFacts,
    waiting: Sequence[facts.Commit],
    now_ms: int,
) -> tuple[bool, str]:
    """Return whether the triggers fire, and how far each one is."""
    fired, told = [], []
    if triggers.delta_commits is not None:
        fired.append(len(waiting) >= triggers.delta_commits)
        told.append(f"{len(waiting)} of {triggers.delta_commits} delta commits")
    if triggers.log_bytes is not None:
        logged, limit = (
            sum(commit.log_bytes for commit in waiting),
            fields.size_bytes(triggers.log_bytes),
        )
        fired.append(logged >= limit)
        told.append(f"{logged} of {limit} log bytes")
    if triggers.elapsed is not None:
        since = timelines.last_planned(seen) or waiting[0].requested_time
        # A table whose times are some zone's local ones tells nothing that a clock of ours could
        # be compared with; its commits' order is all that counts there.
        due_ms = instants.parse_time(since) + fields.duration_ms(triggers.elapsed)
        fired.append(now_ms >= due_ms)
        # The moment and not the time that is left: a status that changes by itself is noise.
        told.append(f"elapsed at {times.text(due_ms)}")
    matches = any if triggers.match is compaction_policy.Match.ANY else all
    return matches(fired), ", ".join(told)


def _make(
    world: World,
    me: objects.Policy,
    table: objects.Table,
    instant: instants.InstantTime | None,
    basis: str,
) -> _Finding:
    """Return the finding with the action to make, or with the one that failed at the same."""
    # The generation lets a policy that was changed try again.
    name = names.action(table, table_action.ActionType.COMPACTION, f"{basis}-g{me.generation}")
    key = objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=table.key.namespace, name=name)
    existing = world.action(key)
    if existing is not None:
        reason = Reason.ACTION_FAILED if existing.status.is_true(Type.STALLED) else Reason.NOT_DUE
        return _Finding(
            table=table, reason=reason, message=f"TableAction {name}: {_told(existing)}"
        )
    spec = table_action.TableActionSpec(
        table_ref=fields.Reference(name=table.name),
        type=table_action.ActionType.COMPACTION,
        compaction=table_action.CompactionParameters(instant=instant) if instant else None,
        runtime=me.spec.runtime,
        retry=me.spec.retry,
        time_limit=me.spec.time_limit,
    )
    return _Finding(
        table=table,
        reason=Reason.ACTION_AT_WORK,
        message=f"TableAction {name} is at work",
        action=name,
        made=CreateObject(key=key, owner=names.owner(me), spec=spec),
    )


def _at_work(world: World, table: objects.Table) -> objects.Action | None:
    """Return the compaction of a table that is not finished; None when there is none (R4)."""
    for action in world.actions_of(table):
        is_finished = action.status.finished_time is not None or action.status.is_true(Type.STALLED)
        is_compaction = action.spec.type is table_action.ActionType.COMPACTION
        if is_compaction and (not is_finished or world.has_run_at_work(action)):
            return action
    return None


def _forgotten(world: World, me: objects.Policy) -> list[Effect]:
    """Return the removal of finished actions of this policy beyond what its history keeps.

    The newest of each table stays, whatever the limits: it stands for that the table was compacted,
    or could not be, at the basis that its name holds. Without it the same would be tried again.
    """
    mine = sorted(world.actions_for(me), key=lambda action: action.seniority, reverse=True)
    mine = [action for action in mine if not world.has_run_at_work(action)]
    newest = {action.spec.table_ref.name: action.uid for action in reversed(mine)}
    done = [action for action in mine if action.status.finished_time is not None]
    failed = [action for action in mine if action.status.is_true(Type.STALLED)]
    history = me.spec.history
    return [
        RemoveObject(key=action.key, uid=action.uid)
        for action in (*done[history.successful :], *failed[history.failed :])
        if newest[action.spec.table_ref.name] != action.uid or not _has_table(world, action)
    ]


def _has_table(world: World, action: objects.Action) -> bool:
    return world.table(action.key.namespace, action.spec.table_ref.name) is not None


def _verdict(me: objects.Policy, findings: Sequence[_Finding]) -> Verdict:
    if not findings:
        return Verdict(
            state=State.READY, reason=Reason.WATCHING, message="no HudiTable has its labels"
        )
    mine = [each for each in findings if each.reason not in _NOT_MINE]
    failed = [each for each in mine if each.reason is Reason.ACTION_FAILED]
    if failed and len(failed) == len(mine):
        return stalled(me, Reason.ACTION_FAILED, _summary(failed))
    reasons = {finding.reason for finding in findings}
    if len(reasons) == 1 and reasons <= _STALLING:
        (reason,) = reasons
        as_policy = Reason.POLICY_CONFLICT if reason is Reason.OTHER_POLICY else reason
        return stalled(me, as_policy, _summary(findings))
    told = _summary(findings)
    if failed:
        told = f"{len(failed)} of {len(mine)} tables failed: {told}"
    return Verdict(state=State.READY, reason=Reason.WATCHING, message=told)


def _by_need(findings: Iterable[_Finding]) -> list[_Finding]:
    """Return the findings with those first that somebody should look at."""
    order = (Reason.ACTION_FAILED, Reason.TABLE_NOT_READY)
    return sorted(
        findings,
        key=lambda each: order.index(each.reason) if each.reason in order else len(order),
    )


def _summary(findings: Sequence[_Finding]) -> str:
    told = "; ".join(f"{each.table.name}: {each.message}" for each in findings[:5])
    return told if len(findings) <= 5 else f"{told}; and {len(findings) - 5} more"  # noqa: PLR2004 - as many as fit a line


def _told(action: objects.Action) -> str:
    ready = action.status.condition(Type.READY)
    return f"{ready.reason}: {ready.message}" if ready else "not looked at yet"


def _set(
    world: World, me: objects.Policy, findings: Sequence[_Finding], verdict: Verdict
) -> SetStatus:
    told = tuple(
        compaction_policy.TableSituation(
            table=each.table.name,
            reason=each.reason.value,
            message=each.message[:1000],
            action=each.action,
        )
        for each in findings[:_TABLES_TOLD_MAX]
    )
    status = me.status.model_copy(
        update={
            "matched": len(findings),
            "running": sum(each.reason is Reason.ACTION_AT_WORK for each in findings),
            "tables": told or None,
        }
    )
    return SetStatus(key=me.key, uid=me.uid, status=stated(status, me, verdict, world.now(me)))
