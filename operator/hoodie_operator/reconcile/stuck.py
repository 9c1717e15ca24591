"""Instants that stay pending for longer than policies want: whose they are, and what is done.

    instant -> the policy whose service it belongs to -> older than stuck.after -> owner -> remedy

Compactions belong to the CompactionPolicy, everything else to the RetentionPolicy, whose cleaning
removes what failed writes left. Plans of services are executed by their service, and are reported.
A failed write is rolled back if the policy says so, and only if its owner is one of this operator's
Writers that has ended, or one that the policy names: neither heartbeat nor run says that it lives.
The TableAction checks that again (R3), and so does its run, under the table lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hoodie.model import instants
from hoodie_operator.api import (
    fields,
    hudi_table,
    hudi_table_status,
    kinds,
    objects,
    service_policy,
    table_action,
    times,
)
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import (
    effective,
    facts,
    names,
    references,
    table_services,
    timelines,
    verdicts,
    windows,
)
from hoodie_operator.reconcile.actions import rollback
from hoodie_operator.reconcile.effects import CreateObject, Effect
from hoodie_operator.reconcile.services import registry
from hoodie_operator.reconcile.verdicts import Statement
from hoodie_operator.reconcile.world import World

_TOLD_MAX: Final = 20
_MESSAGE_LENGTH_MAX: Final = 1000
_TIME_LENGTH: Final = 17
_COMPACTIONS: Final = frozenset(
    {instants.Action.COMPACTION.value, instants.Action.LOG_COMPACTION.value}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is told of a table's stuck instants, and what is done about them."""

    instants: tuple[hudi_table_status.StuckInstant, ...]
    effects: Sequence[Effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remedy:
    message: str
    action: str | None = None
    effect: Effect | None = None


def look(world: World, table: objects.Table) -> Outcome:
    """Return the instants of a table that are stuck, and the TableActions that roll them back."""
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.problem is not None:
        return Outcome(instants=table.status.stuck or (), effects=())
    if not seen.pending:
        return Outcome(instants=(), effects=())
    mandates = _mandates(world, table)
    told: list[hudi_table_status.StuckInstant] = []
    effects: list[Effect] = []
    for pending in seen.pending:
        mandate = mandates.get(_kind(pending))
        if mandate is None or not _is_stuck(world, seen, mandate, pending):
            continue
        remedy = _remedy(world, table, mandate, pending)
        told.append(
            hudi_table_status.StuckInstant(
                instant=pending.requested_time,
                type=pending.action,
                since=times.text(timelines.epoch_ms(seen, pending.requested_time)),
                owner=_owner(pending),
                process=pending.process or None,
                policy=mandate.name,
                message=remedy.message[:_MESSAGE_LENGTH_MAX],
                action=remedy.action,
            )
        )
        if remedy.effect is not None:
            effects.append(remedy.effect)
    return Outcome(instants=tuple(told[:_TOLD_MAX]), effects=effects)


def statements(stuck: Sequence[hudi_table_status.StuckInstant]) -> tuple[Statement, ...]:
    """Return the condition that names what is stuck; none where nothing is."""
    if not stuck:
        return ()
    told = "; ".join(
        f"{each.type} {each.instant} of {each.owner}: {each.message}" for each in stuck
    )
    statement = Statement(
        type=Type.INSTANTS_STUCK,
        status=ConditionStatus.TRUE,
        reason=Reason.INSTANT_STUCK.value,
        message=told,
    )
    return (statement,)


def _mandates(world: World, table: objects.Table) -> dict[str, table_services.Mandate]:
    """Return by what stuck instants are dealt with, by the kind of their policies."""
    found: dict[str, table_services.Mandate] = {}
    for service in registry.SERVICES:
        if service.policy_kind.name in found:
            continue
        mandate = table_services.mandate(world, table, service)
        if mandate is not None and mandate.rules.stuck is not None:
            found[service.policy_kind.name] = mandate
    return found


def _kind(pending: facts.Pending) -> str:
    is_compaction = pending.action in _COMPACTIONS
    return (kinds.COMPACTION_POLICY if is_compaction else kinds.RETENTION_POLICY).name


def _is_stuck(
    world: World,
    seen: facts.TableFacts,
    mandate: table_services.Mandate,
    pending: facts.Pending,
) -> bool:
    requested_ms = timelines.epoch_ms(seen, pending.requested_time)
    after_ms = fields.duration_ms(_rules(mandate).after)
    # Apache Hudi's own instants before all times are of no age.
    return requested_ms > 0 and world.now_ms - requested_ms >= after_ms


def _rules(mandate: table_services.Mandate) -> service_policy.Stuck:
    assert mandate.rules.stuck is not None
    return mandate.rules.stuck


def _owner(pending: facts.Pending) -> str:
    if pending.writer_id is not None:
        return f"writer {pending.writer_id}"
    if pending.action_id is not None:
        return f"TableAction {pending.action_id}"
    return "an owner that it does not name, such as another engine"


def _remedy(
    world: World, table: objects.Table, mandate: table_services.Mandate, pending: facts.Pending
) -> _Remedy:
    """Return what is done about a stuck instant, or why nothing is."""
    kept = _kept(world, table, mandate, pending)
    if kept is not None:
        return _Remedy(message=kept)
    name = names.action(
        table,
        table_action.ActionType.ROLLBACK,
        f"{pending.requested_time}-{mandate.edition}",
    )
    key = objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=table.key.namespace, name=name)
    existing = world.action(key)
    if existing is not None:
        ready = existing.status.condition(Type.READY)
        told = f": {ready.reason}: {ready.message}" if ready else ""
        return _Remedy(message=f"TableAction {name}{told}", action=name)
    opens_ms = windows.next_opening_ms(mandate.rules, world.now_ms)
    if opens_ms is not None:
        return _Remedy(message=f"it is rolled back from {times.text(opens_ms)} on, in a window")
    rules = mandate.rules
    spec = table_action.TableActionSpec(
        table_ref=fields.Reference(name=table.name),
        type=table_action.ActionType.ROLLBACK,
        priority=rules.priority,
        approval=rules.approval,
        runtime=rules.runtime,
        retry=rules.retry,
        time_limit=rules.time_limit,
        rollback=table_action.RollbackParameters(instant=pending.requested_time),
    )
    return _Remedy(
        message=f"TableAction {name} rolls it back",
        action=name,
        effect=CreateObject(key=key, owner=mandate.owner, spec=spec),
    )


def _kept(
    world: World, table: objects.Table, mandate: table_services.Mandate, pending: facts.Pending
) -> str | None:
    """Return why an instant is only reported; None where it is rolled back."""
    if pending.is_alive:
        return "its heartbeat is alive: its owner works on it"
    if pending.action not in rollback.WRITES:
        return "its service executes it, or another process does"
    at_work = rollback.author_at_work(world, table, pending)
    if at_work is not None:
        return f"{at_work} has an active run and may continue it"
    return _passive(world, table, mandate) or _foreign(world, table, mandate, pending)


def _passive(world: World, table: objects.Table, mandate: table_services.Mandate) -> str | None:
    """Return why a policy changes nothing now; None where it may."""
    if _rules(mandate).action is service_policy.StuckAction.REPORT:
        return f"stuck.action of {mandate.name} is Report"
    owner = table.spec.services.cleaning or hudi_table.ServiceOwner.OPERATOR
    if owner is not hudi_table.ServiceOwner.OPERATOR:
        return f"the table leaves cleaning to {owner.value}"
    if mandate.is_dry_run:
        return "a dry run leaves it"
    if mandate.rules.suspend:
        return f"{mandate.name} is suspended"
    broken = mandate.policy and verdicts.broken_rule(mandate.policy)
    if broken:
        return broken.message
    no_zone = windows.refusal(mandate.rules)
    not_ready = references.check_ready(table, table)
    return no_zone or (None if not_ready is None else not_ready.message)


def _foreign(
    world: World, table: objects.Table, mandate: table_services.Mandate, pending: facts.Pending
) -> str | None:
    """Return that the owner of a write is none whose end this operator can judge."""
    if pending.writer_id is None or len(pending.requested_time) != _TIME_LENGTH:
        return "whether its owner has ended is not certain: a TableAction Rollback removes it"
    ours = {effective.writer_id(each) for each in world.writers_of(table)}
    if pending.writer_id in ours or pending.writer_id in (_rules(mandate).foreign_writers or ()):
        return None
    return (
        f"writer {pending.writer_id} does not belong to a Writer of the table: if it has "
        f"ended, name it in stuck.foreignWriters of {mandate.name}, or declare a TableAction "
        "Rollback"
    )
