"""What a table's services do now, and which TableActions they need: decided with the table.

    service -> owner (R1) -> mandate (policy or default) -> gates -> triggers -> window -> action

The truth about a service of a table is in `HudiTable.status.services`; policies only sum up. One
policy rules a service of a table: one that names the table takes precedence over one that selects
it by labels, then the older one. Where none does, the operator's defaults rule; what they delete
they only report of tables that the operator did not create, until the table's spec consents.

The name of a TableAction holds the basis of the decision, so that the same reason never creates
two. One that failed for good keeps its service waiting until the timeline continues or the rules
change.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hoodie_operator.api import (
    conditions,
    fields,
    hudi_table,
    hudi_table_status,
    kinds,
    objects,
    service_policy,
    table_action,
    times,
)
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import names, references, verdicts, windows
from hoodie_operator.reconcile.effects import CreateObject, Effect, RemoveObject
from hoodie_operator.reconcile.services import registry
from hoodie_operator.reconcile.services.protocol import Case, Due, Idle, TableService
from hoodie_operator.reconcile.world import World

DEFAULT: Final = "default"
"""In place of a policy in a status: the operator's defaults."""

_MESSAGE_LENGTH_MAX: Final = 1000
_HASH_LENGTH: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Mandate:
    """By what a service of a table runs.

    Attributes:
        rules: Triggers and runtime.
        policy: Whose rules; None for the operator's defaults.
        owner: Of the TableActions.
        edition: Changes with the rules: what failed is tried again under new ones.
        is_dry_run: Whether runs only report.
    """

    rules: service_policy.Schedule
    policy: objects.Policy | None
    owner: objects.Owner
    edition: str
    is_dry_run: bool

    @property
    def name(self) -> str:
        """The policy, as statuses tell it."""
        return DEFAULT if self.policy is None else policy_name(self.policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is told of a table's services, and what is done for them."""

    services: tuple[hudi_table_status.ServiceStatus, ...]
    effects: Sequence[Effect]


def policy_name(policy: objects.Policy) -> str:
    """Return a policy as statuses of tables tell it."""
    return f"{policy.key.kind}/{policy.name}"


def look(world: World, table: objects.Table) -> Outcome:
    """Return the state of each service of a table, and the TableActions that are due."""
    told: list[hudi_table_status.ServiceStatus] = []
    effects: list[Effect] = []
    actions = world.actions_of(table)
    for service in registry.SERVICES:
        mine = [action for action in actions if action.spec.type is service.action_type]
        told.append(_Look(world, table, service, mine).status(effects))
    effects += forgotten(world, table, service_policy.History())
    return Outcome(services=tuple(told), effects=effects)


def targets(policy: objects.Policy, table: objects.Table) -> bool:
    """Return whether a table is one of a policy's."""
    target = policy.spec.target
    if target.table_ref is not None:
        return target.table_ref.name == table.name
    assert target.table_selector is not None
    wanted = target.table_selector.match_labels
    return all(table.labels.get(key) == value for key, value in wanted.items())


def _ruling(world: World, table: objects.Table, service: TableService) -> objects.Policy | None:
    """Return the policy that rules a service of a table; None for none."""
    kind = service.policy_kind
    return min(
        (
            policy
            for policy in (
                *world.policies_naming(kind, table),
                *world.policies_choosing(kind, table.key.namespace),
            )
            if targets(policy, table)
            and not policy.is_deleting
            and service.is_ruled_by(policy.spec)
        ),
        key=lambda policy: (policy.spec.target.table_ref is None, policy.seniority),
        default=None,
    )


def mandate(world: World, table: objects.Table, service: TableService) -> Mandate | None:
    """Return by what a service runs; None where it has no rules."""
    policy = _ruling(world, table, service)
    if policy is not None:
        return Mandate(
            rules=policy.spec,
            policy=policy,
            owner=names.owner(policy),
            edition=names.edition(policy),
            is_dry_run=bool(getattr(policy.spec, "dry_run", False)),
        )
    defaults = world.limits.services
    rules = None if defaults is None else service.default_rules(defaults)
    if rules is None or not service.is_ruled_by(rules):
        return None
    is_dry_run = bool(getattr(rules, "dry_run", False)) or (
        service.is_deleting and not _has_consent(table, service)
    )
    # With consent, what was only reported is done, at the same commit too.
    text = f"{rules.model_dump_json()} {is_dry_run}"
    return Mandate(
        rules=rules,
        policy=None,
        owner=names.owner(table),
        edition=f"d{hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]}",
        is_dry_run=is_dry_run,
    )


def withdrawal(world: World, table: objects.Table, action: objects.Action) -> str | None:
    """Return why what was planned here must not start any more; None where it may.

    Only for what deletes: it waits for slots, approval or a retry, and meanwhile the table may be
    left to others, or the rules may keep more or be a dry run.
    """
    services = [each for each in registry.SERVICES if each.action_type is action.spec.type]
    makers = {kinds.HUDI_TABLE.name, *(kind.name for kind in kinds.POLICIES)}
    is_planned = action.owner is not None and action.owner.kind in makers
    if not is_planned or names.basis(action.name) is None:
        return None
    for service in services:
        if not service.is_deleting:
            continue
        owner = service.declared_owner(table) or hudi_table.ServiceOwner.OPERATOR
        if owner is not hudi_table.ServiceOwner.OPERATOR:
            return f"the table leaves {service.name} to {owner.value}"
        current = mandate(world, table, service)
        is_same = current is not None and current.owner == action.owner
        if current is None or not is_same or not action.name.endswith(f"-{current.edition}"):
            return "the rules have changed since it was planned"
    return None


def _has_consent(table: objects.Table, service: TableService) -> bool:
    """Return whether the defaults may delete: the table is the operator's own, or it says so."""
    if service.declared_owner(table) is hudi_table.ServiceOwner.OPERATOR:
        return True
    is_created = table.status.origin is hudi_table_status.Origin.CREATED
    return is_created and not table.spec.concurrency.external_writers


class _Look:
    """One service of one table."""

    def __init__(
        self,
        world: World,
        table: objects.Table,
        service: TableService,
        actions: Sequence[objects.Action],
    ) -> None:
        self._world = world
        self._table = table
        self._service = service
        self._mandate = mandate(world, table, service)
        self._actions = actions
        self._before = next(
            (each for each in table.status.services or () if each.name == service.name), None
        )

    def status(self, effects: list[Effect]) -> hudi_table_status.ServiceStatus:
        """Return what is told of the service; what is to be done for it is added to effects."""
        owner = self._service.declared_owner(self._table) or hudi_table.ServiceOwner.OPERATOR
        if owner is not hudi_table.ServiceOwner.OPERATOR:
            field = self._service.name[0].lower() + self._service.name[1:]
            message = f"its services.{field} is {owner.value}"
            return self._told(owner, Reason.DISABLED, message)
        if self._mandate is None:
            message = f"no {self._service.policy_kind.name} of the table covers it"
            return self._told(owner, Reason.NO_POLICY, message)
        inapplicable = self._service.inapplicable(self._table)
        if inapplicable is not None:
            return self._told(owner, inapplicable.reason, inapplicable.message)
        running = self._unfinished()
        if running is not None:
            return self._at_work(owner, running.name)
        closed = self._closed(self._mandate)
        if closed is not None:
            # Who begins to lead has seen nothing yet: what is due stays so.
            was_due = self._before is not None and self._before.due_since is not None
            is_due = closed[0] is Reason.NOT_OBSERVED and was_due
            return self._told(owner, *closed, is_due=is_due)
        return self._appraised(owner, self._mandate, effects)

    def _closed(self, mandate: Mandate) -> tuple[Reason, str] | None:
        """Return why nothing is decided about the service now."""
        if mandate.rules.suspend:
            return Reason.SUSPENDED, "its policy is suspended"
        broken = mandate.policy and verdicts.broken_rule(mandate.policy)
        if broken:
            return broken.reason, broken.message
        no_zone = windows.refusal(mandate.rules)
        if no_zone is not None:
            return Reason.INVALID_SPEC, no_zone
        not_ready = references.check_ready(self._table, self._table)
        if not_ready is not None:
            is_pending = not_ready.state is State.PENDING
            return Reason.NOT_OBSERVED if is_pending else not_ready.reason, not_ready.message
        seen = self._world.seen.tables.get(self._table.uid)
        if seen is None or seen.problem is not None or seen.config is None:
            return Reason.NOT_OBSERVED, "its timeline has not been read yet"
        return None

    def _appraised(
        self, owner: hudi_table.ServiceOwner, mandate: Mandate, effects: list[Effect]
    ) -> hudi_table_status.ServiceStatus:
        last = self._last()
        if mandate.policy is None and mandate.is_dry_run and last is not None:
            message = (
                f"reported once, nothing was changed: {last.message}. To have it done, set "
                f"spec.services.{self._service.name.lower()} to Operator, or declare a "
                f"{self._service.policy_kind.name}"
            )
            return self._told(owner, Reason.NOT_DUE, message)
        case = Case(
            world=self._world,
            table=self._table,
            seen=self._world.seen.tables[self._table.uid],
            rules=mandate.rules,
            actions=[each for each in self._actions if each.owner == mandate.owner],
            last_basis=None if last is None else last.basis,
        )
        found = self._service.appraise(case)
        if isinstance(found, Idle):
            return self._told(owner, found.reason, found.message, next_due_ms=found.next_due_ms)
        return self._due(owner, mandate, found, effects)

    def _due(
        self,
        owner: hudi_table.ServiceOwner,
        mandate: Mandate,
        due: Due,
        effects: list[Effect],
    ) -> hudi_table_status.ServiceStatus:
        """Have the action made, unless it was, or no window is open."""
        if mandate.is_dry_run and self._service.action_type not in table_action.REPORTING:
            return self._told(owner, Reason.NOT_DUE, f"{due.message}; a dry run leaves it")
        name = names.action(
            self._table, self._service.action_type, f"{due.basis}-{mandate.edition}"
        )
        key = objects.ObjectKey(
            kind=kinds.TABLE_ACTION.name, namespace=self._table.key.namespace, name=name
        )
        existing = self._world.action(key)
        if existing is not None:
            has_failed = existing.status.is_true(Type.STALLED)
            reason = Reason.ACTION_FAILED if has_failed else Reason.NOT_DUE
            message = f"TableAction {name}: {ready_message(existing)}"
            return self._told(owner, reason, message, is_due=has_failed)
        opens_ms = windows.next_opening_ms(mandate.rules, self._world.now_ms)
        if opens_ms is not None and not self._is_overdue(self._due_since()):
            message = f"{due.message}; the next window opens at {times.text(opens_ms)}"
            return self._told(
                owner, Reason.OUTSIDE_WINDOW, message, is_due=True, next_due_ms=opens_ms
            )
        effects.append(CreateObject(key=key, owner=mandate.owner, spec=self._spec(mandate, due)))
        return self._at_work(owner, name)

    def _spec(self, mandate: Mandate, due: Due) -> table_action.TableActionSpec:
        rules = mandate.rules
        spec = table_action.TableActionSpec(
            table_ref=fields.Reference(name=self._table.name),
            type=self._service.action_type,
            priority=rules.priority,
            approval=rules.approval,
            runtime=rules.runtime,
            retry=rules.retry,
            time_limit=rules.time_limit,
        )
        can_report = spec.type in table_action.REPORTING
        dry = {"dry_run": True} if mandate.is_dry_run and can_report else {}
        return spec.model_copy(update={**due.parameters, **dry})

    def _unfinished(self) -> objects.Action | None:
        """Return the action of the service that has not ended; None for none (R4)."""
        for action in self._actions:
            if not has_ended(action) or self._world.has_run_at_work(action):
                return action
        return None

    def _at_work(
        self, owner: hudi_table.ServiceOwner, action: str
    ) -> hudi_table_status.ServiceStatus:
        told = self._told(
            owner, Reason.ACTION_AT_WORK, f"TableAction {action} is active", is_due=True
        )
        return told.model_copy(update={"action": action})

    def _told(
        self,
        owner: hudi_table.ServiceOwner,
        reason: Reason,
        message: str,
        *,
        is_due: bool = False,
        next_due_ms: int | None = None,
    ) -> hudi_table_status.ServiceStatus:
        since = self._due_since() if is_due else None
        mandate = self._mandate
        return hudi_table_status.ServiceStatus(
            name=self._service.name,
            owner=owner.value,
            policy=None if mandate is None else mandate.name,
            dry_run=True if mandate is not None and mandate.is_dry_run else None,
            reason=reason.value,
            message=message[:_MESSAGE_LENGTH_MAX],
            due_since=since,
            next_due=None if next_due_ms is None else times.text(next_due_ms),
            overdue=True if self._is_overdue(since) else None,
            last=self._last(),
            last_failure=self._last_failure(),
        )

    def _due_since(self) -> str:
        before = None if self._before is None else self._before.due_since
        return before or times.text(self._world.now_ms)

    def _is_overdue(self, since: str | None) -> bool:
        limit = None if self._mandate is None else self._mandate.rules.overdue_after
        if limit is None or since is None:
            return False
        return self._world.now_ms - times.epoch_ms(since) > fields.duration_ms(limit)

    def _last(self) -> hudi_table_status.ServiceRun | None:
        """Return the last run that succeeded: of what a dry run reported, the last dry run."""
        is_dry = self._mandate is not None and self._mandate.is_dry_run
        before = None
        if self._before is not None and bool(self._before.dry_run) is is_dry:
            before = self._before.last
        done = [
            action
            for action in self._actions
            if action.status.finished_time is not None
            and action.spec.dry_run is (is_dry and action.spec.type in table_action.REPORTING)
            and action.status.state != State.CANCELLED.value
        ]
        if not done:
            return before
        newest = max(done, key=lambda action: action.status.finished_time or "")
        time = newest.status.finished_time or ""
        if before is not None and before.time >= time:
            return before
        return hudi_table_status.ServiceRun(
            action=newest.name, basis=names.basis(newest.name), time=time, message=_result(newest)
        )

    def _last_failure(self) -> hudi_table_status.ServiceRun | None:
        """Return the last run that failed for good, unless one has succeeded since."""
        before = None if self._before is None else self._before.last_failure
        runs = [] if before is None else [before]
        for action in self._actions:
            stalled = action.status.condition(Type.STALLED)
            if stalled is not None and stalled.status is conditions.ConditionStatus.TRUE:
                message = f"{stalled.reason}: {stalled.message}"[:_MESSAGE_LENGTH_MAX]
                failure = hudi_table_status.ServiceRun(
                    action=action.name,
                    basis=names.basis(action.name),
                    time=stalled.last_transition_time,
                    message=message,
                )
                runs.append(failure)
        newest = max(runs, key=lambda each: each.time, default=None)
        last = self._last()
        if newest is None or (last is not None and last.time >= newest.time):
            return None
        return newest


def has_ended(action: objects.Action) -> bool:
    """Return whether an action is done, or has failed for good."""
    return action.status.finished_time is not None or action.status.is_true(Type.STALLED)


def forgotten(
    world: World, owner: objects.AnyObject, history: service_policy.History
) -> list[Effect]:
    """Return the removal of ended actions that an object owns, beyond what its history keeps.

    The newest of each service of each table stays, whatever the limits: it stands for that the
    service ran, or could not, at the basis that its name holds. Without it the same would be tried
    again.
    """
    mine = sorted(world.actions_for(owner), key=lambda action: action.seniority, reverse=True)
    mine = [action for action in mine if not world.has_run_at_work(action)]
    newest = {_service_of(action): action.uid for action in reversed(mine)}
    done = [action for action in mine if action.status.finished_time is not None]
    failed = [action for action in mine if action.status.is_true(Type.STALLED)]
    return [
        RemoveObject(key=action.key, uid=action.uid)
        for action in (*done[history.successful :], *failed[history.failed :])
        if newest[_service_of(action)] != action.uid or not _has_table(world, action)
    ]


def _service_of(action: objects.Action) -> tuple[str, table_action.ActionType]:
    return action.spec.table_ref.name, action.spec.type


def _has_table(world: World, action: objects.Action) -> bool:
    return world.table(action.key.namespace, action.spec.table_ref.name) is not None


def ready_message(existing: objects.Action) -> str:
    """Return how an action is, in a line."""
    ready = existing.status.condition(Type.READY)
    return f"{ready.reason}: {ready.message}" if ready else "not reconciled yet"


def _result(action: objects.Action) -> str:
    """Return what an action did, in a line."""
    ready = action.status.condition(Type.READY)
    result = action.status.result
    told = [] if ready is None else [ready.message]
    if result is not None:
        told += result.findings or ()
    return "; ".join(told)[:_MESSAGE_LENGTH_MAX]
