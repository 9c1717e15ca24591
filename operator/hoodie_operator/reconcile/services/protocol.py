"""What `table_services` asks of each service of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from hoodie_operator.api import (
    configuration,
    fields,
    hudi_table,
    kinds,
    objects,
    service_policy,
    table_action,
)
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts
from hoodie_operator.reconcile.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table whose service is looked at.

    Attributes:
        world: Everything.
        table: The table.
        seen: What its storage tells.
        rules: By which the service runs.
        actions: Those that were made for the service by its policy, or by default.
        last_basis: The newest commit when the last successful run became due; None for none.
    """

    world: World
    table: objects.Table
    seen: facts.TableFacts
    rules: service_policy.Schedule
    actions: Sequence[objects.Action]
    last_basis: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """That a service has nothing to do now.

    Attributes:
        reason: Why.
        message: With numbers.
        next_due_ms: When it is due at the latest, if nothing happens; None where that is not known.
    """

    reason: Reason
    message: str
    next_due_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """That a service is due.

    Attributes:
        message: Why, with numbers.
        basis: The pending instant that is executed, or the newest commit: one run for each.
        parameters: Fields of the spec of the TableAction.
    """

    message: str
    basis: str
    parameters: Mapping[str, fields.Block | None] = field(default_factory=dict)


Appraisal: TypeAlias = Idle | Due


class TableService(Protocol):
    """One service of a table. Pure, as all decisions.

    Attributes:
        name: As statuses tell it.
        policy_kind: Of the policies that rule it.
        action_type: Of its TableActions.
        is_deleting: Whether it deletes what readers may still want: by default only with consent.
    """

    name: str
    policy_kind: kinds.Kind
    action_type: table_action.ActionType
    is_deleting: bool

    def declared_owner(self, table: objects.Table) -> hudi_table.ServiceOwner | None:
        """Return whom the table's spec leaves the service to; None where it does not say."""
        ...

    def is_ruled_by(self, rules: service_policy.Schedule) -> bool:
        """Return whether a policy of the service's kind says anything of it."""
        ...

    def default_rules(
        self, defaults: configuration.ServiceDefaults
    ) -> service_policy.Schedule | None:
        """Return the rules by which it runs where no policy rules it; None for none."""
        ...

    def inapplicable(self, table: objects.Table) -> Idle | None:
        """Return why a table never needs the service; None where it may."""
        ...

    def appraise(self, case: Case) -> Appraisal:
        """Return whether the service is due on a table that is ready."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One trigger.

    Attributes:
        is_fired: Whether it fires.
        message: How far it is.
        due_ms: When it fires by itself; None where only commits make it.
    """

    is_fired: bool
    message: str
    due_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """What triggers say together.

    Attributes:
        is_due: Whether they fire.
        message: How far each one is.
        next_due_ms: When they fire by themselves; None where that is not known.
    """

    is_due: bool
    message: str
    next_due_ms: int | None


def combine(match: service_policy.Match, triggers: Sequence[Trigger]) -> Fired:
    """Return whether triggers fire together, and how far each one is."""
    is_any = match is service_policy.Match.ANY
    matches = any if is_any else all
    times = [each.due_ms for each in triggers if each.due_ms is not None]
    is_known = bool(times) and (is_any or all(each.due_ms or each.is_fired for each in triggers))
    return Fired(
        is_due=matches(each.is_fired for each in triggers),
        message=", ".join(each.message for each in triggers),
        next_due_ms=(min if is_any else max)(times) if is_known else None,
    )
