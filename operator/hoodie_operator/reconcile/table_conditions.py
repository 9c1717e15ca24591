"""The conditions of a HudiTable beside those of its state: what users should see or decide."""

from collections.abc import Sequence

from hoodie_operator.api import hudi_table, objects, times
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import stuck, table_services, timelines
from hoodie_operator.reconcile.verdicts import Statement
from hoodie_operator.reconcile.world import World


def statements(
    world: World, table: objects.Table, status: hudi_table.HudiTableStatus
) -> Sequence[Statement]:
    """Return the conditions that hold of a table.

    Args:
        world: Everything.
        table: The table, with the status that it had.
        status: The status that it gets.
    """
    return [
        *_interference(world, table),
        *_passed(world, table),
        *_unconfirmed(status),
        *stuck.statements(status.stuck or ()),
    ]


def _unconfirmed(status: hudi_table.HudiTableStatus) -> Sequence[Statement]:
    """Return what is to be said of services that only report, until a user decides."""
    found = [
        each
        for each in status.services or ()
        if each.dry_run and each.policy == table_services.DEFAULT
    ]
    if not found:
        return ()
    told = "; ".join(f"{each.name}: {each.message}" for each in found)
    statement = Statement(
        type=Type.RETENTION_DRY_RUN,
        status=ConditionStatus.TRUE,
        reason=Reason.CONSENT_NEEDED.value,
        message=told,
    )
    return (statement,)


def _interference(world: World, table: objects.Table) -> Sequence[Statement]:
    """Return what is to be said of other engines, as far as it was observed; events of the past."""
    seen = world.seen.tables.get(table.uid)
    if seen is not None and seen.problem is None:
        message = "; ".join(seen.interference)
    else:
        before = table.status.condition(Type.INTERFERENCE)
        message = "" if before is None else before.message
    if not message:
        return ()
    statement = Statement(
        type=Type.INTERFERENCE,
        status=ConditionStatus.TRUE,
        reason=Reason.FOREIGN_INSTANT.value,
        message=message,
    )
    return (statement,)


def _passed(world: World, table: objects.Table) -> Sequence[Statement]:
    """Return which consumers a clean has passed (R6), as far as it was observed."""
    seen = world.seen.tables.get(table.uid)
    if seen is not None and seen.problem is None:
        message = "; ".join(
            f"consumer {each.name} has read up to {each.consumed}, and clean {each.clean} of "
            f"{times.text(timelines.epoch_ms(each.clean))} deletes what it has not read"
            for each in seen.passed_consumers
        )
    else:
        before = table.status.condition(Type.CONSUMER_PASSED)
        message = "" if before is None else before.message
    if not message:
        return ()
    statement = Statement(
        type=Type.CONSUMER_PASSED,
        status=ConditionStatus.TRUE,
        reason=Reason.CLEANED_TOO_EARLY.value,
        message=message,
    )
    return (statement,)
