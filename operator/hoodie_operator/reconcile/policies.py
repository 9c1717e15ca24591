"""What a policy of table services tells: it sums up what its tables tell of their services.

Nothing is decided here about a table: `table_services` does that, with the table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodie_operator.api import hudi_table, kinds, objects, service_policy
from hoodie_operator.api.reasons import BY_WORD, Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import references, table_services, windows
from hoodie_operator.reconcile.effects import Effect, RemoveObject, SetStatus
from hoodie_operator.reconcile.services import registry
from hoodie_operator.reconcile.services.protocol import TableService
from hoodie_operator.reconcile.verdicts import Verdict, broken_rule, stalled, stated
from hoodie_operator.reconcile.world import World

_TABLES_TOLD_MAX = 100
_SHOWN_MAX = 5
_STALLING = frozenset(
    {Reason.ACTION_FAILED, Reason.OTHER_POLICY, Reason.DISABLED, Reason.TABLE_NOT_READY}
)
_NOT_MINE = frozenset({Reason.OTHER_POLICY, Reason.DISABLED})
"""Of tables that a policy targets, and whose service it does not rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The situation of one service of one table.

    Attributes:
        table: Which.
        service: Which.
        reason: Why nothing runs, or that something does.
        message: With numbers.
        action: The TableAction at work.
        is_overdue: Whether it is due for longer than the policy wants.
    """

    table: objects.Table
    service: str
    reason: Reason
    message: str
    action: str | None = None
    is_overdue: bool = False


def decide(world: World, me: objects.Policy) -> Sequence[Effect]:
    """Return what to do about a policy."""
    if me.is_deleting:
        return [RemoveObject(key=me.key, uid=me.uid)]
    broken = broken_rule(me)
    no_zone = windows.refusal(me.spec)
    if no_zone is not None:
        broken = broken or stalled(me, Reason.INVALID_SPEC, no_zone)
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
    services = _services(me)
    findings = _by_need(_finding(me, table, each) for table in tables for each in services)
    status = _set(world, me, findings, _verdict(me, findings, has_many=len(services) > 1))
    return [status, *table_services.forgotten(world, me, me.spec.history)]


def _services(me: objects.Policy) -> list[TableService]:
    """Return the services that a policy rules."""
    return [
        each
        for each in registry.SERVICES
        if each.policy_kind.name == me.key.kind and each.is_ruled_by(me.spec)
    ]


def _matched(world: World, me: objects.Policy) -> list[objects.Table]:
    reference = me.spec.target.table_ref
    if reference is not None:
        named = world.table(me.key.namespace, reference.name)
        return [] if named is None else [named]
    return sorted(
        (table for table in world.tables(me.key.namespace) if table_services.targets(me, table)),
        key=lambda table: table.name,
    )


def _finding(me: objects.Policy, table: objects.Table, service: TableService) -> Finding:
    """Return what a table tells of a service that the policy may rule."""
    told = next((each for each in table.status.services or () if each.name == service.name), None)
    if told is None:
        message = "its services have not been looked at yet"
        return Finding(
            table=table, service=service.name, reason=Reason.NOT_OBSERVED, message=message
        )
    is_operators = told.owner == hudi_table.ServiceOwner.OPERATOR.value
    if is_operators and told.policy != table_services.policy_name(me):
        is_other = told.policy not in (None, table_services.DEFAULT)
        reason = Reason.OTHER_POLICY if is_other else Reason.NOT_OBSERVED
        message = f"{told.policy} takes precedence over this one" if is_other else told.message
        return Finding(table=table, service=service.name, reason=reason, message=message)
    return Finding(
        table=table,
        service=service.name,
        reason=BY_WORD[told.reason],
        message=told.message,
        action=told.action,
        is_overdue=bool(told.overdue),
    )


def _verdict(me: objects.Policy, findings: Sequence[Finding], *, has_many: bool) -> Verdict:
    if not findings:
        return Verdict(
            state=State.READY, reason=Reason.WATCHING, message="no HudiTable matches the selector"
        )
    mine = [each for each in findings if each.reason not in _NOT_MINE]
    failed = [each for each in mine if each.reason is Reason.ACTION_FAILED]
    if failed and len(failed) == len(mine):
        return stalled(me, Reason.ACTION_FAILED, _summary(failed, has_many=has_many))
    reasons = {finding.reason for finding in findings}
    if len(reasons) == 1 and reasons <= _STALLING:
        (reason,) = reasons
        as_policy = Reason.POLICY_CONFLICT if reason is Reason.OTHER_POLICY else reason
        return stalled(me, as_policy, _summary(findings, has_many=has_many))
    told = _summary(findings, has_many=has_many)
    if failed:
        count = len({each.table.name for each in failed})
        told = f"{count} of {len({each.table.name for each in mine})} tables failed: {told}"
    return Verdict(state=State.READY, reason=Reason.WATCHING, message=told)


def _by_need(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with those first that somebody should look at."""
    order = (Reason.ACTION_FAILED, Reason.TABLE_NOT_READY)

    def key(found: Finding) -> tuple[bool, int]:
        place = order.index(found.reason) if found.reason in order else len(order)
        return not found.is_overdue, place

    return sorted(findings, key=key)


def _summary(findings: Sequence[Finding], *, has_many: bool) -> str:
    shown = [
        f"{each.table.name}: {f'{each.service}: ' if has_many else ''}{each.message}"
        for each in findings[:_SHOWN_MAX]
    ]
    told = "; ".join(shown)
    more = len(findings) - _SHOWN_MAX
    return f"{told}; and {more} more" if more > 0 else told


def _set(
    world: World, me: objects.Policy, findings: Sequence[Finding], verdict: Verdict
) -> SetStatus:
    told = tuple(
        service_policy.TableSituation(
            table=each.table.name,
            service=each.service,
            reason=each.reason.value,
            message=each.message[:1000],
            action=each.action,
        )
        for each in findings[:_TABLES_TOLD_MAX]
    )
    status = me.status.model_copy(
        update={
            "matched": len({each.table.name for each in findings}),
            "running": sum(each.reason is Reason.ACTION_AT_WORK for each in findings),
            "overdue": sum(each.is_overdue for each in findings) or None,
            "tables": told or None,
        }
    )
    return SetStatus(key=me.key, uid=me.uid, status=stated(status, me, verdict, world.now(me)))
