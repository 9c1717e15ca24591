"""The conditions of a HudiTable beside those of its state: what users should see or decide."""

from collections.abc import Callable, Sequence

from hoodie_operator.api import hudi_table_status, objects, times
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, stuck, table_services, timelines
from hoodie_operator.reconcile.verdicts import Statement
from hoodie_operator.reconcile.world import World


def statements(
    world: World, table: objects.Table, status: hudi_table_status.HudiTableStatus
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
        *_unusable(world, table),
        *_unconfirmed(status),
        *stuck.statements(status.stuck or ()),
    ]


def _unconfirmed(status: hudi_table_status.HudiTableStatus) -> Sequence[Statement]:
    """Return what is to be said of services that only report, until a user decides."""
    message = "; ".join(
        f"{each.name}: {each.message}"
        for each in status.services or ()
        if each.dry_run and each.policy == table_services.DEFAULT
    )
    return _true(Type.RETENTION_DRY_RUN, Reason.CONSENT_NEEDED, message)


def _interference(world: World, table: objects.Table) -> Sequence[Statement]:
    """Return what is to be said of other engines, as far as it was observed; events of the past."""
    return _observed(
        world,
        table,
        Type.INTERFERENCE,
        Reason.FOREIGN_INSTANT,
        lambda seen: "; ".join(seen.interference),
    )


def _passed(world: World, table: objects.Table) -> Sequence[Statement]:
    """Return which consumers a clean has passed (R6), as far as it was observed."""
    return _observed(
        world,
        table,
        Type.CONSUMER_PASSED,
        Reason.CLEANED_TOO_EARLY,
        lambda seen: "; ".join(
            f"consumer {each.name} has read up to {each.consumed}, and clean {each.clean} of "
            f"{times.text(timelines.epoch_ms(seen, each.clean))} deletes what it has not read"
            for each in seen.passed_consumers
        ),
    )


def _unusable(world: World, table: objects.Table) -> Sequence[Statement]:
    """Return why readers cannot use the metadata table, as far as it was observed."""
    return _observed(
        world,
        table,
        Type.METADATA_TABLE_UNUSABLE,
        Reason.BEHIND_OR_DAMAGED,
        lambda seen: (
            f"{seen.metadata.problem}; readers list the storage instead. A TableAction of type "
            "MetadataInit with metadataInit.rebuild makes the metadata table again"
            if seen.metadata is not None and seen.metadata.problem
            else ""
        ),
    )


def _observed(
    world: World,
    table: objects.Table,
    condition: Type,
    reason: Reason,
    message_of: Callable[[facts.TableFacts], str],
) -> Sequence[Statement]:
    """Return what an observation shows; what an earlier one showed while there is none."""
    seen = world.seen.tables.get(table.uid)
    if seen is not None and seen.problem is None:
        return _true(condition, reason, message_of(seen))
    before = table.status.condition(condition)
    return _true(condition, reason, "" if before is None else before.message)


def _true(condition: Type, reason: Reason, message: str) -> Sequence[Statement]:
    """Return that a condition holds; nothing without a message."""
    if not message:
        return ()
    statement = Statement(
        type=condition, status=ConditionStatus.TRUE, reason=reason.value, message=message
    )
    return (statement,)
