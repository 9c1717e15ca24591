"""What pending and finished rollbacks take back: the target in a rollback's plan.

Source: `HoodieRollbackPlan.avsc`; format-timeline 2.2.
"""

from collections.abc import Mapping

from hoodie import errors
from hoodie.format import avro_container
from hoodie.model import instants
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, transitions


def targets(
    storage: Storage, timeline: active.ActiveTimeline, after: instants.InstantTime
) -> Mapping[instants.InstantTime, instants.InstantTime | None]:
    """Return what each rollback requested after a time takes back, by the rollback's time.

    None stands for a plan that cannot be read: it may take back anything. One request a rollback;
    a write needs to know of those requested after itself only.
    """
    return {
        rollback.requested_time: _target(storage, rollback)
        for rollback in timeline.instants
        if rollback.action is instants.Action.ROLLBACK and rollback.requested_time > after
    }


def _target(storage: Storage, rollback: instants.Instant) -> instants.InstantTime | None:
    requested = instants.Instant(
        requested_time=rollback.requested_time,
        action=rollback.action,
        state=instants.State.REQUESTED,
    )
    path = transitions.path(requested)
    try:
        plan = avro_container.decode(storage.read(path), path)
        target = plan.map("instantToRollback").get("commitTime")
        return instants.checked_time(target) if isinstance(target, str) else None
    except (errors.FormatError, errors.InvalidInputError, errors.NotFoundError):
        return None
