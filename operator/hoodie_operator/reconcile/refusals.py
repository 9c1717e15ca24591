"""What the outside was not allowed to do about an object: told on it, until it is tried again."""

from typing import Final

from hoodie_operator.api import kinds, objects, times
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile.effects import SetStatus
from hoodie_operator.reconcile.verdicts import Verdict, stated
from hoodie_operator.reconcile.world import World

_STATES: Final = {
    kinds.HUDI_TABLE.name: State.PENDING,
    kinds.WRITER.name: State.BLOCKED,
    kinds.TABLE_ACTION.name: State.BLOCKED,
    kinds.COMPACTION_POLICY.name: State.PENDING,
    kinds.RETENTION_POLICY.name: State.PENDING,
    kinds.SAVEPOINT.name: State.PENDING,
    kinds.INDEX_REQUEST.name: State.PENDING,
    kinds.LOCK_PROVIDER.name: State.PENDING,
}
"""The state of each kind in which it waits for others."""


_NEWER_LEASE: Final = (
    ": another operator led here meanwhile, or the Lease was restored from a backup. If no other "
    "operator should run here, delete this operator's Lease: the operator creates a newer one"
)


def _answering(world: World, found: objects.AnyObject, message: str) -> Verdict | None:
    """Return the verdict about a lock that answers although its server cannot be seen to.

    Who uses it needs no more of it than that.
    """
    seen = world.seen.locks.get(found.uid)
    if seen is None or not seen.is_ready or seen.generation != found.generation:
        return None
    if found.is_deleting:
        return None
    return Verdict(state=State.READY, reason=Reason.READY, message=f"{seen.message}; {message}")


def told(world: World, found: objects.AnyObject) -> SetStatus | None:
    """Return the status of an object that waits for the next try; None when it does not."""
    refusal = world.seen.refusals.get(found.uid)
    if world.is_namespace_ending(found):
        return None
    if refusal is None or refusal.generation != found.generation or world.now_ms >= refusal.due_ms:
        return None
    why = f"{refusal.message}{_NEWER_LEASE}" if refusal.is_fenced_off else refusal.message
    message = f"{why}; next try at {times.text(refusal.due_ms + 999)}"
    verdict = _answering(world, found, message) or Verdict(
        state=_STATES[found.key.kind],
        reason=Reason.FENCED_OFF if refusal.is_fenced_off else Reason.API_REFUSED,
        message=message,
    )
    status = stated(found.status, found, verdict, world.now(found))
    return SetStatus(key=found.key, uid=found.uid, status=status)
