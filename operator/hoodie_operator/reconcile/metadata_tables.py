"""What is told of a HudiTable's metadata table, and the TableAction that makes or drops it.

    spec.metadata.enabled, the table's properties -> as declared, or a TableAction

A table that the operator creates gets one by the run that creates it. Later the properties say
whether there is one: another engine may make or drop it. A damaged one has a condition, and is left
as it is until a TableAction of a user makes it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hoodie.model import table_config
from hoodie_operator.api import fields, hudi_table_status, kinds, objects, table_action
from hoodie_operator.reconcile import facts, names, references, table_services
from hoodie_operator.reconcile.actions import metadata
from hoodie_operator.reconcile.effects import CreateObject, Effect
from hoodie_operator.reconcile.world import World

_PARTITIONS_MAX: Final = 100
_NAME_LENGTH_MAX: Final = 256
_MESSAGE_LENGTH_MAX: Final = 1000
_NO_COMMIT: Final = "0" * 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is told of a table's metadata table, and what is done about it."""

    status: hudi_table_status.MetadataStatus | None
    effects: Sequence[Effect] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remedy:
    message: str
    action: str | None = None
    effects: Sequence[Effect] = ()


def look(world: World, table: objects.Table) -> Outcome:
    """Return what a table's metadata table is like, and what makes it as it is declared."""
    seen = world.seen.tables.get(table.uid)
    if seen is None or seen.problem is not None:
        return Outcome(status=table.status.metadata)
    if seen.config is None:
        return Outcome(status=None)
    wanted = _wanted(table, seen.config)
    remedy = None if wanted is None else _remedy(world, table, seen, wanted)
    partitions = _partitions(seen.config)
    if not partitions and remedy is None:
        return Outcome(status=None)
    status = hudi_table_status.MetadataStatus(
        partitions=partitions or None,
        delta_commits=None if seen.metadata is None else seen.metadata.delta_commits,
        action=None if remedy is None else remedy.action,
        message=None if remedy is None else remedy.message[:_MESSAGE_LENGTH_MAX],
    )
    return Outcome(status=status, effects=() if remedy is None else remedy.effects)


def withdrawal(table: objects.Table, action: objects.Action) -> str | None:
    """Return why what was planned here must not start any more; None where it may."""
    if action.spec.type not in metadata.TYPES or action.owner != names.owner(table):
        return None
    is_wanted = action.spec.type is table_action.ActionType.METADATA_INIT
    if table.spec.metadata.enabled is is_wanted:
        return None
    return "spec.metadata.enabled of the table has changed since it was planned"


def _wanted(
    table: objects.Table, config: table_config.TableConfig
) -> table_action.ActionType | None:
    """Return what makes the table as it is declared; None where it is."""
    enabled = table.spec.metadata.enabled
    # One that another engine is building is there.
    has_one = bool(config.metadata_partitions or config.metadata_partitions_inflight)
    if enabled is None or enabled is has_one:
        return None
    types = table_action.ActionType
    return types.METADATA_INIT if enabled else types.METADATA_DROP


def _remedy(
    world: World, table: objects.Table, seen: facts.TableFacts, wanted: table_action.ActionType
) -> _Remedy:
    """Return the TableAction, or why there is none now.

    Its name holds the newest commit: another is made where another engine has undone what one did,
    and one that failed is followed by another once the timeline or the spec has changed.
    """
    not_ready = references.check_ready(table, table)
    if not_ready is not None:
        return _Remedy(message=not_ready.message)
    for action in world.actions_of(table):
        if action.spec.type in metadata.TYPES and not table_services.has_ended(action):
            return _Remedy(message=f"TableAction {action.name} is active", action=action.name)
    newest = seen.commits[-1].requested_time if seen.commits else _NO_COMMIT
    name = names.action(table, wanted, f"{newest}-g{table.generation}")
    key = objects.ObjectKey(kind=kinds.TABLE_ACTION.name, namespace=table.key.namespace, name=name)
    existing = world.action(key)
    if existing is not None:
        return _Remedy(
            message=f"TableAction {name}: {table_services.ready_message(existing)}", action=name
        )
    spec = table_action.TableActionSpec(table_ref=fields.Reference(name=table.name), type=wanted)
    return _Remedy(
        message=f"TableAction {name} is active",
        action=name,
        effects=[CreateObject(key=key, owner=names.owner(table), spec=spec)],
    )


def _partitions(
    config: table_config.TableConfig,
) -> tuple[hudi_table_status.MetadataPartition, ...]:
    named = dict.fromkeys(config.metadata_partitions_inflight, False)
    named |= dict.fromkeys(config.metadata_partitions, True)
    # What a table's properties hold is not bounded by us.
    told = {name[:_NAME_LENGTH_MAX]: is_ready for name, is_ready in sorted(named.items())}
    return tuple(
        hudi_table_status.MetadataPartition(name=name, ready=is_ready)
        for name, is_ready in list(told.items())[:_PARTITIONS_MAX]
    )
