"""What every run of a table has to pass before it starts, and what makes one at work unwanted.

gates, in order: rules, suspension, table, its suspension, its readiness, its configuration
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hoodie_operator.api import hudi_table, kinds, objects, table_action
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import (
    allowances,
    effective,
    facts,
    hudi_tables,
    index_requests,
    references,
    runs,
)
from hoodie_operator.reconcile.verdicts import Verdict, broken_rule, stalled, stalled_state
from hoodie_operator.reconcile.world import World

Runner: TypeAlias = objects.Writer | objects.Action


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTarget:
    """A table that runs may be started on."""

    table: objects.Table
    wanted: effective.EffectiveTable

    def run_hash(self, world: World, me: Runner) -> str:
        """Return the hash of what the next attempt of an object gets."""
        defaults = world.limits.run_defaults
        return effective.run_hash(self.table, self.wanted, me.spec.runtime, defaults)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table that runs are for.

    Attributes:
        table: The object; None when there is none.
        wanted: Its effective configuration, or why it has none now; None without a table.
        seen: What its storage told; None when it was not looked at.
    """

    table: objects.Table | None
    wanted: effective.EffectiveTable | Verdict | None
    seen: facts.TableFacts | None

    @property
    def protocol_hash(self) -> str | None:
        """The current hash; None while it is not known."""
        return None if self.resolved is None else self.resolved.wanted.protocol_hash

    @property
    def resolved(self) -> OpenTarget | None:
        """The table with its configuration; None while it has none."""
        if self.table is None or not isinstance(self.wanted, effective.EffectiveTable):
            return None
        return OpenTarget(table=self.table, wanted=self.wanted)


def target(world: World, me: Runner) -> Target:
    """Return the table that an object refers to."""
    table = world.table(me.key.namespace, me.spec.table_ref.name)
    if table is None:
        return Target(table=None, wanted=None, seen=None)
    return Target(
        table=table,
        wanted=hudi_tables.resolve(world, table),
        seen=world.seen.tables.get(table.uid),
    )


def unwanted(world: World, me: Runner, found: Target, run: facts.Run) -> str | None:
    """Return why an attempt at work has to stop; None when it may go on.

    Args:
        world: Everything.
        me: Whose.
        found: The table.
        run: The attempt.
    """
    table = found.table
    resolved = found.resolved
    is_hash_old = resolved is not None and not resolved.wanted.agrees_with(run.protocol_hash)
    for is_so, why in (
        (me.is_deleting, f"the {me.key.kind} is deleted"),
        (me.spec.suspend, f"the {me.key.kind} is suspended"),
        (
            isinstance(me.spec, table_action.TableActionSpec) and me.spec.cancel,
            f"the {me.key.kind} is cancelled",
        ),
        (table is None, f"HudiTable {me.spec.table_ref.name} does not exist"),
        (
            table is not None and table.is_deleting,
            f"HudiTable {me.spec.table_ref.name} is deleted",
        ),
        (
            table is not None and table.spec.suspend,
            f"HudiTable {me.spec.table_ref.name} is suspended",
        ),
        (is_hash_old, f"the shared settings of HudiTable {me.spec.table_ref.name} changed"),
        (
            table is not None and _is_disowned(me, table),
            f"services.compaction of HudiTable {me.spec.table_ref.name} changed",
        ),
        *_withdrawn(world, me, table),
        (
            _is_overtaken(world, me, found, run),
            runs.OVERTAKEN,
        ),
    ):
        if is_so:
            return why
    return None


def _withdrawn(world: World, me: Runner, table: objects.Table | None) -> Iterator[tuple[bool, str]]:
    """Yield that an IndexRequest no longer wants what its action does, which may take hours."""
    if table is not None and isinstance(me.spec, table_action.TableActionSpec):
        why = index_requests.withdrawal(world, table, me)
        if why is not None:
            yield True, why


def _is_disowned(me: Runner, table: objects.Table) -> bool:
    """Return whether a compaction may not go on because others own the service now.

    One that a user asked for may run beside an external owner.
    """
    is_compaction = (
        isinstance(me.spec, table_action.TableActionSpec)
        and me.spec.type is table_action.ActionType.COMPACTION
    )
    match table.spec.services.compaction:
        case hudi_table.ServiceOwner.OPERATOR:
            return False
        case hudi_table.ServiceOwner.EXTERNAL:
            return is_compaction and me.owner is not None
        case hudi_table.ServiceOwner.DISABLED:
            return is_compaction


def _is_overtaken(world: World, me: Runner, found: Target, run: facts.Run) -> bool:
    resolved = found.resolved
    return resolved is not None and runs.is_overtaken(run, resolved.run_hash(world, me))


def enter(world: World, me: Runner, found: Target) -> OpenTarget | Verdict:
    """Return the table if runs may be started on it, or why not.

    Args:
        world: Everything.
        me: Who wants to run.
        found: The table.
    """
    refused = broken_rule(me) or _variables_refusal(world, me)
    if refused is not None:
        return refused
    if me.spec.suspend:
        return _suspended(Reason.SUSPENDED, "spec.suspend is true: no run starts")
    table = found.table
    if table is None:
        return references.missing(world, me, kinds.HUDI_TABLE, me.spec.table_ref.name)
    closed = references.check_ready(table, me)
    if closed is not None:
        return closed
    if isinstance(found.wanted, effective.EffectiveTable):
        return OpenTarget(table=table, wanted=found.wanted)
    assert found.wanted is not None, "a table has a configuration or a reason for none"
    is_stalled = found.wanted.state is State.STALLED
    return Verdict(
        state=stalled_state(me) if is_stalled else State.BLOCKED,
        reason=Reason.TABLE_NOT_READY,
        message=f"HudiTable {table.name}: {found.wanted.message}",
    )


def _variables_refusal(world: World, me: Runner) -> Verdict | None:
    """Return why a run may not take the environment variables that its runtime names."""
    allowed = world.limits.allowed
    if allowed is None:
        return None
    why = allowances.refused_variables("runtime.env", me.spec.runtime.env, allowed)
    return None if why is None else stalled(me, Reason.NOT_ALLOWED, why)


def _suspended(reason: Reason, message: str) -> Verdict:
    return Verdict(state=State.SUSPENDED, reason=reason, message=message)
