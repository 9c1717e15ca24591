"""What pending and finished rollbacks take back: the target in a rollback's plan.

Source: `HoodieRollbackPlan.avsc`; format-timeline 2.2.
"""

from collections.abc import Mapping

from hoodie import errors
from hoodie.format import rollback_avro
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, transitions

Targets = Mapping[instants.InstantTime, instants.InstantTime | None]
"""What rollbacks take back, by their requested times. None stands for a plan that cannot be read:
it may take back anything."""


def targets(
    storage: Storage,
    timeline: active.ActiveTimeline,
    after: instants.InstantTime,
    *,
    is_pending_only: bool = False,
) -> Targets:
    """Return what each rollback requested after a time takes back; one request a rollback.

    Args:
        storage: The table's.
        timeline: Tells which rollbacks there are.
        after: A write needs to know of rollbacks requested after itself only.
        is_pending_only: Leave out those that have completed.
    """
    return {
        rollback.requested_time: target(storage, rollback)
        for rollback in timeline.instants
        if rollback.action is instants.Action.ROLLBACK
        and rollback.requested_time > after
        and (rollback.is_pending or not is_pending_only)
    }


def path(rollback: instants.Instant) -> str:
    """Return the path of a rollback's plan."""
    return transitions.path(rollback.pending_in(instants.State.REQUESTED))


def target(storage: Storage, rollback: instants.Instant) -> instants.InstantTime | None:
    """Return what a rollback takes back, as in `Targets`; one request."""
    source = path(rollback)
    try:
        return rollback_avro.decode_target(storage.read(source), source)
    except (errors.FormatError, errors.NotFoundError):
        return None
