"""What all policies share: which tables, who owns a service of a table, when an action is made.

A policy observes the tables that it targets and creates a TableAction for each where its service is
due. Here: target selection, ownership, history, deduplication, the combination of triggers, and the
status. Not here: when one service is due and what its action does, which is a `PolicyService`, such
as `compaction_policies`; cleaning and clustering are to be others.

One policy owns a service of a table: one that names the table takes precedence over one that
selects it by labels, then the older one. The name of the action holds the basis of the decision, so
that the same reason never creates two. An action that failed for good keeps its table waiting until
the timeline continues or the policy changes; the policy is stalled when that holds for all its
tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hoodie_operator.api import (
    compaction_policy,
    fields,
    kinds,
    objects,
    table_action,
)
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import gates, names, references
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
class Finding:
    """The situation of one table.

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


class PolicyService(Protocol):
    """When one table service is due, and what its action does. Pure, as all decisions."""

    action_type: table_action.ActionType

    def inapplicable(self, table: objects.Table) -> Finding | None:
        """Return why a table needs no action of the operator at all; None where it may."""
        ...

    def evaluate(self, world: World, me: objects.Policy, table: objects.Table) -> Finding:
        """Return whether an action is due on a table that is ready; `make_action` makes it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One trigger of a policy.

    Attributes:
        is_fired: Whether it fires.
        message: How far it is.
    """

    is_fired: bool
    message: str


def decide(world: World, me: objects.Policy, service: PolicyService) -> Sequence[Effect]:
    """Return what to do about a policy."""
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
    findings = _by_need(_look(world, me, table, service) for table in tables)
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


def _owner(world: World, kind: kinds.Kind, table: objects.Table) -> objects.Policy:
    """Return the policy of a kind that owns its service of a table; there must be one."""
    return min(
        (
            policy
            for policy in (
                *world.policies_naming(kind, table),
                *world.policies_choosing(kind, table.key.namespace),
            )
            if _targets(policy, table) and not policy.is_deleting
        ),
        key=lambda policy: (policy.spec.target.table_ref is None, policy.seniority),
    )


def _look(
    world: World, me: objects.Policy, table: objects.Table, service: PolicyService
) -> Finding:
    """Return the situation of one table: the first gate that holds, or the triggers."""
    owner = _owner(world, kinds.BY_NAME[me.key.kind], table)
    if owner.uid != me.uid:
        message = f"{owner.key.kind} {owner.name} takes precedence over this one"
        return Finding(table=table, reason=Reason.OTHER_POLICY, message=message)
    inapplicable = service.inapplicable(table)
    if inapplicable is not None:
        return inapplicable
    running = _unfinished(world, table, service.action_type)
    if running is not None:
        return _acting(table, running.name)
    not_ready = gates.check_ready(table, me)
    if not_ready is not None:
        reason = Reason.NOT_OBSERVED if not_ready.state is State.PENDING else not_ready.reason
        return Finding(table=table, reason=reason, message=not_ready.message)
    return service.evaluate(world, me, table)


def _acting(table: objects.Table, action: str, made: CreateObject | None = None) -> Finding:
    return Finding(
        table=table,
        reason=Reason.ACTION_AT_WORK,
        message=f"TableAction {action} is active",
        action=action,
        made=made,
    )


def combine(match: compaction_policy.Match, triggers: Iterable[Trigger]) -> tuple[bool, str]:
    """Return whether the triggers of a policy fire together, and how far each one is."""
    told = list(triggers)
    matches = any if match is compaction_policy.Match.ANY else all
    return matches(each.is_fired for each in told), ", ".join(each.message for each in told)


def action_spec(
    me: objects.Policy, table: objects.Table, action_type: table_action.ActionType
) -> table_action.TableActionSpec:
    """Return the spec of an action of a policy, without the parameters of its type."""
    return table_action.TableActionSpec(
        table_ref=fields.Reference(name=table.name),
        type=action_type,
        runtime=me.spec.runtime,
        retry=me.spec.retry,
        time_limit=me.spec.time_limit,
    )


def make_action(
    world: World,
    me: objects.Policy,
    table: objects.Table,
    spec: table_action.TableActionSpec,
    basis: str,
) -> Finding:
    """Return the finding with the action to make, or with the one of the same basis.

    Args:
        world: The world.
        me: The policy.
        table: The table.
        spec: Of the action.
        basis: The pending instant that is executed, or the last completed one.
    """
    # The generation lets a policy that was changed try again.
    name = names.action(table, spec.type, f"{basis}-g{me.generation}")
    key = objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=table.key.namespace, name=name)
    existing = world.action(key)
    if existing is not None:
        reason = Reason.ACTION_FAILED if existing.status.is_true(Type.STALLED) else Reason.NOT_DUE
        message = f"TableAction {name}: {_ready_message(existing)}"
        return Finding(table=table, reason=reason, message=message)
    made = CreateObject(key=key, owner=names.owner(me), spec=spec)
    return _acting(table, name, made)


def _unfinished(
    world: World, table: objects.Table, action_type: table_action.ActionType
) -> objects.Action | None:
    """Return the action of a type that is not finished on a table; None for none (R4)."""
    for action in world.actions_of(table):
        is_finished = action.status.finished_time is not None or action.status.is_true(Type.STALLED)
        is_such = action.spec.type is action_type
        if is_such and (not is_finished or world.has_run_at_work(action)):
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


def _verdict(me: objects.Policy, findings: Sequence[Finding]) -> Verdict:
    if not findings:
        return Verdict(
            state=State.READY, reason=Reason.WATCHING, message="no HudiTable matches the selector"
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


def _by_need(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with those first that somebody should look at."""
    order = (Reason.ACTION_FAILED, Reason.TABLE_NOT_READY)
    return sorted(
        findings,
        key=lambda each: order.index(each.reason) if each.reason in order else len(order),
    )


def _summary(findings: Sequence[Finding]) -> str:
    told = "; ".join(f"{each.table.name}: {each.message}" for each in findings[:5])
    return told if len(findings) <= 5 else f"{told}; and {len(findings) - 5} more"  # noqa: PLR2004 - as many as fit a line


def _ready_message(action: objects.Action) -> str:
    ready = action.status.condition(Type.READY)
    return f"{ready.reason}: {ready.message}" if ready else "not reconciled yet"


def _set(
    world: World, me: objects.Policy, findings: Sequence[Finding], verdict: Verdict
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
