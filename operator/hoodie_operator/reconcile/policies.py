"""What a policy of table services shows: it sums up what its tables report of their services.

Nothing is decided here about a table: `table_services` does that, with the table. What the status
of a table comes to is worked out once for as long as the table has that status, for all policies:
of a thousand tables that a policy selects one has changed.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hoodie_operator.api import (
    hudi_table,
    hudi_table_status,
    kinds,
    objects,
    service_policy,
    spec_memory,
)
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


_FIRST = (Reason.ACTION_FAILED, Reason.TABLE_NOT_READY)
"""What somebody should look at, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The situation of one service of one table.

    Attributes:
        table: The name of the table.
        service: Which.
        reason: Why nothing runs, or that something does.
        message: With numbers.
        action: The TableAction at work.
        is_overdue: Whether it is due for longer than the policy wants.
        need: Those with a smaller number are told first.
    """

    table: str
    service: str
    reason: Reason
    message: str
    action: str | None = None
    is_overdue: bool = False
    need: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a table tells of one service.

    Attributes:
        policy: By whose rules it runs, as the table tells it; None where no policy is asked, so
            that each policy tells the same.
        as_mine: What that policy tells.
        as_others: What another policy tells that targets the table.
    """

    policy: str | None
    as_mine: Finding
    as_others: Finding


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
    findings = sorted(_findings(me, tables, services), key=operator.attrgetter("need"))
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


def _findings(
    me: objects.Policy, tables: Iterable[objects.Table], services: Iterable[TableService]
) -> Iterator[Finding]:
    """Yield what tables tell of the services that the policy may rule."""
    name = table_services.policy_name(me)
    names = [service.name for service in services]
    for table in tables:
        told = _told(table.status, table.name)
        for service in names:
            found = told.get(service)
            if found is None:
                message = "its services have not been looked at yet"
                yield _finding(table.name, service, Reason.NOT_OBSERVED, message)
            elif found.policy is None or found.policy == name:
                yield found.as_mine
            else:
                yield found.as_others


@spec_memory.remembered
def _told(status: hudi_table_status.HudiTableStatus, table: str) -> Mapping[str, _Told]:
    """Return what the status of a table tells of each of its services."""
    return {each.name: _told_of(table, each) for each in status.services or ()}


def _told_of(table: str, told: hudi_table_status.ServiceStatus) -> _Told:
    reason = BY_WORD[told.reason]
    mine = _finding(
        table, told.name, reason, told.message, action=told.action, is_overdue=bool(told.overdue)
    )
    if told.owner != hudi_table.ServiceOwner.OPERATOR.value:
        return _Told(policy=None, as_mine=mine, as_others=mine)
    if told.policy in (None, table_services.DEFAULT):
        others = _finding(table, told.name, Reason.NOT_OBSERVED, told.message)
    else:
        message = f"{told.policy} takes precedence over this one"
        others = _finding(table, told.name, Reason.OTHER_POLICY, message)
    return _Told(policy=told.policy or table_services.DEFAULT, as_mine=mine, as_others=others)


def _finding(
    table: str,
    service: str,
    reason: Reason,
    message: str,
    *,
    action: str | None = None,
    is_overdue: bool = False,
) -> Finding:
    place = _FIRST.index(reason) if reason in _FIRST else len(_FIRST)
    return Finding(
        table=table,
        service=service,
        reason=reason,
        message=message,
        action=action,
        is_overdue=is_overdue,
        need=place if is_overdue else place + len(_FIRST) + 1,
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
    reasons = {each.reason for each in findings}
    if len(reasons) == 1 and reasons <= _STALLING:
        (reason,) = reasons
        as_policy = Reason.POLICY_CONFLICT if reason is Reason.OTHER_POLICY else reason
        return stalled(me, as_policy, _summary(findings, has_many=has_many))
    told = _summary(findings, has_many=has_many)
    if failed:
        count = len({each.table for each in failed})
        told = f"{count} of {len({each.table for each in mine})} tables failed: {told}"
    return Verdict(state=State.READY, reason=Reason.WATCHING, message=told)


def _summary(findings: Sequence[Finding], *, has_many: bool) -> str:
    shown = [
        f"{each.table}: {f'{each.service}: ' if has_many else ''}{each.message}"
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
            table=each.table,
            service=each.service,
            reason=each.reason.value,
            message=each.message[:1000],
            action=each.action,
        )
        for each in findings[:_TABLES_TOLD_MAX]
    )
    status = me.status.model_copy(
        update={
            "matched": len({each.table for each in findings}),
            "running": sum(each.reason is Reason.ACTION_AT_WORK for each in findings),
            "overdue": sum(each.is_overdue for each in findings) or None,
            "tables": told or None,
        }
    )
    return SetStatus(key=me.key, uid=me.uid, status=stated(status, me, verdict, world.now(me)))
