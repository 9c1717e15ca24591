"""One decision about one object: the door that every outside comes through.

    effects = decide(world, key)

Pure: the same world gives the same effects, and carrying them out twice does no harm. An outside
takes one object at a time and shows the next decision what the last one did.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import (
    hudi_tables,
    index_requests,
    lock_providers,
    policies,
    refusals,
    savepoints,
    table_actions,
    verdicts,
    writers,
)
from hoodie_operator.reconcile.effects import (
    CreateObject,
    Effect,
    RemoveObject,
    ServeLock,
    SetStatus,
)
from hoodie_operator.reconcile.world import World

_Decide = Callable[[World, Any], Sequence[Effect]]
_DECISIONS: Final[Mapping[str, _Decide]] = {
    kinds.LOCK_PROVIDER.name: lock_providers.decide,
    kinds.HUDI_TABLE.name: hudi_tables.decide,
    kinds.COMPACTION_POLICY.name: policies.decide,
    kinds.RETENTION_POLICY.name: policies.decide,
    kinds.SAVEPOINT.name: savepoints.decide,
    kinds.INDEX_REQUEST.name: index_requests.decide,
    kinds.WRITER.name: writers.decide,
    kinds.TABLE_ACTION.name: table_actions.decide,
}
ORDER: Final = tuple(_DECISIONS)
"""Kinds in the order in which one round settles soonest: what others depend on comes first."""


def decide(world: World, key: objects.ObjectKey) -> Sequence[Effect]:
    """Return what to do about one object; nothing when it is gone.

    A status that would not change is left out.
    """
    found = world.by_key.get(key)
    if found is None:
        return ()
    waiting = refusals.told(world, found)
    effects = [waiting] if waiting is not None else _DECISIONS[key.kind](world, found)
    return [effect for effect in effects if not _changes_nothing(world, effect)]


def is_settled(world: World) -> bool:
    """Return whether nothing runs or is due, and every object is Ready or Stalled."""
    if any(run.is_running for runs in world.seen.runs.values() for run in runs):
        return False
    return all(
        verdicts.is_settled(found) and not _is_due(decide(world, key))
        for key, found in world.by_key.items()
    )


def _is_due(effects: Sequence[Effect]) -> bool:
    # A lock server is asked for at every look: it is to run for as long as the operator does.
    return any(not isinstance(effect, ServeLock) for effect in effects)


def _changes_nothing(world: World, effect: Effect) -> bool:
    match effect:
        case SetStatus():
            found = world.by_key.get(effect.key)
            return found is not None and found.status == effect.status
        case CreateObject():
            return effect.key in world.by_key
        case RemoveObject():
            return effect.key not in world.by_key
    return False
