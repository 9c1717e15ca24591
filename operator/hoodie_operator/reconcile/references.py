"""What to say of an object that is referred to and not there, or not ready."""

from hoodie_operator.api import kinds, objects
from hoodie_operator.api.conditions import Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile.verdicts import Verdict, stalled, stalled_state
from hoodie_operator.reconcile.world import World


def missing(world: World, asking: objects.AnyObject, kind: kinds.Kind, name: str) -> Verdict:
    """Return the verdict: it may be on its way for a while, then somebody has to mend it."""
    is_awaited = world.limits.reference_grace_ms > 0 and not _is_over(world, asking)
    return Verdict(
        state=State.PENDING if is_awaited else stalled_state(asking),
        reason=Reason.REFERENCE_NOT_FOUND,
        message=f"{kind.name} {name} does not exist in namespace {asking.key.namespace}",
    )


def _is_over(world: World, asking: objects.AnyObject) -> bool:
    """Return whether the grace for what is missing has passed, as the status remembers it."""
    status = asking.status
    stalled = status.condition(Type.STALLED)
    if stalled is not None and stalled.reason == Reason.REFERENCE_NOT_FOUND.value:
        return True
    waiting = status.waiting
    if waiting is None or waiting.reason != Reason.REFERENCE_NOT_FOUND.value:
        return False
    now = world.now(asking)
    return now.waited_ms(waiting.since, now.waits.state) >= world.limits.reference_grace_ms


def check_ready(table: objects.Table, asking: objects.AnyObject) -> Verdict | None:
    """Return why a table is not to be used now; None when it is.

    What only a user can mend about the table, only a user can mend here.
    """
    if table.spec.suspend and not table.is_deleting:
        message = f"HudiTable {table.name} is suspended"
        return Verdict(state=State.SUSPENDED, reason=Reason.TABLE_SUSPENDED, message=message)
    if table.is_deleting:
        # Those who still need it are what it waits for.
        return stalled(asking, Reason.TABLE_NOT_READY, f"HudiTable {table.name} is being deleted")
    ready = table.status.condition(Type.READY)
    why = f": {ready.message}" if ready else ""
    if table.status.observed_generation == table.generation:
        if table.status.is_true(Type.READY):
            return None
        if table.status.is_true(Type.STALLED):
            return stalled(
                asking, Reason.TABLE_NOT_READY, f"HudiTable {table.name} is stalled{why}"
            )
    is_runner = State.BLOCKED in kinds.BY_NAME[asking.key.kind].states
    return Verdict(
        state=State.BLOCKED if is_runner else State.PENDING,
        reason=Reason.TABLE_NOT_READY,
        message=f"HudiTable {table.name} is not ready{why}",
    )
