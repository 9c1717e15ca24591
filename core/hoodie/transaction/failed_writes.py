"""Failed writes: pending instants whose owner is dead, and how that is known (R3).

An owner's heartbeat tells. Where there is none, a write of ours has ended, because ours have one
from before they are on the timeline. One of Apache Hudi's may be at work all the same: its single
writers, and whoever executes a rollback, have none by default. Such an instant is left alone until
nothing of it was written for as long as a heartbeat takes to expire. (Apache Hudi itself does not
wait.) Source: `BaseHoodieTableServiceClient.java` (getInstantsToRollback); concurrency 2.9.
"""

from collections.abc import Collection, Iterable

from hoodie import errors
from hoodie.format import rollback_avro, timeline_avro
from hoodie.model import instants, jobs
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, rollback_plans, transitions
from hoodie.transaction import admission, heartbeats, markers
from hoodie.transaction.client import Client


def sight(
    lives: heartbeats.Heartbeats,
    storage: Storage,
    timeline: active.ActiveTimeline,
    wanted: Iterable[instants.Instant],
) -> dict[instants.Instant, heartbeats.Sighting]:
    """Return what is known of the owners of pending instants.

    Two requests each and one; of one without a heartbeat some more.
    """
    instants_wanted = list(wanted)
    seen = lives.look_at(each.requested_time for each in instants_wanted)
    return {
        each: _unsigned(lives, storage, timeline, each)
        if seen[each.requested_time].liveness is heartbeats.Liveness.MISSING
        else seen[each.requested_time]
        for each in instants_wanted
    }


def find_dead(
    client: Client,
    timeline: active.ActiveTimeline,
    actions: Collection[instants.Action] = admission.WRITES,
) -> list[instants.Instant]:
    """Return the pending instants whose owners are dead, the newest first, as Hudi takes them.

    No request while none is pending.
    """
    pending = timeline.pending_of(*actions)
    if not pending:
        return []
    seen = sight(client.heartbeats, client.storage, timeline, pending)
    return [each for each in reversed(pending) if not seen[each].liveness.is_alive]


def _unsigned(
    lives: heartbeats.Heartbeats,
    storage: Storage,
    timeline: active.ActiveTimeline,
    instant: instants.Instant,
) -> heartbeats.Sighting:
    """Return what is known of the owner of an instant that has no heartbeat."""
    missing = heartbeats.Sighting(liveness=heartbeats.Liveness.MISSING)
    if _is_ours(storage, instant):
        return missing
    written = [
        transitions.path(each)
        for each in timeline.files
        if each.requested_time == instant.requested_time
    ]
    silence_ms = lives.silence_ms(written, markers.directory_of(instant.requested_time))
    if silence_ms is None or silence_ms >= lives.expiry_ms:
        return missing
    return heartbeats.Sighting(liveness=heartbeats.Liveness.BEATING, silence_ms=silence_ms)


def _is_ours(storage: Storage, instant: instants.Instant) -> bool:
    """Return whether an instant says that a process of ours made it; one request."""
    is_rollback = instant.action is instants.Action.ROLLBACK
    path = rollback_plans.path(instant) if is_rollback else transitions.path(instant)
    try:
        content = storage.read(path)
        if is_rollback:
            rollback_avro.decode_target(content, path)
            return not rollback_avro.is_of_java(content)
        return jobs.WRITE_ID_KEY in timeline_avro.decode_commit(content, path).extra
    except (errors.NotFoundError, errors.FormatError):
        return False  # Taken away meanwhile, or empty: it does not say.
