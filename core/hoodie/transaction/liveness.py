"""Whether the owners of pending instants are alive, and what is to be done if not (R3).

An owner's heartbeat says so. Where there is none, a write of ours has ended, because ours have one
from before they are on the timeline. One of Apache Hudi's may be at work all the same: its single
writers, and whoever executes a rollback, have none by default. Such an instant is left alone until
nothing of it was written for as long as a heartbeat takes to expire. (Apache Hudi itself does not
wait.)

    plan of a table service     needs no owner; a compaction is executed
    write, rollback             taken back, or carried on, once its owner is dead
    inflight compaction, clean, indexing  executed again once its executor is dead

Source: `BaseHoodieTableServiceClient.java` (getInstantsToRollback); protocol.md: Rollback.
"""

from collections.abc import Collection, Iterable, Mapping

from hoodie import environment, errors
from hoodie.model import instants, results, settings
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents, transitions
from hoodie.transaction import heartbeats, markers
from hoodie.transaction.client import Client

_REMEDIES: Mapping[instants.Action, results.Remedy] = {
    **dict.fromkeys(instants.WRITES, results.Remedy.ROLL_BACK),
    instants.Action.ROLLBACK: results.Remedy.ROLL_BACK,
    instants.Action.COMPACTION: results.Remedy.COMPACT,
    instants.Action.CLEAN: results.Remedy.CLEAN,
    instants.Action.INDEXING: results.Remedy.BUILD_INDEX,
}


def look_at(
    lives: heartbeats.Heartbeats,
    storage: Storage,
    timeline: active.ActiveTimeline,
    wanted: Iterable[instants.Instant],
) -> dict[instants.Instant, heartbeats.HeartbeatStatus]:
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
    actions: Collection[instants.Action] = instants.WRITES,
) -> list[instants.Instant]:
    """Return the pending instants whose owners are dead, the newest first, as Hudi takes them.

    No request while none is pending.
    """
    pending = timeline.pending_of(*actions)
    if not pending:
        return []
    seen = look_at(client.heartbeats, client.storage, timeline, pending)
    return [each for each in reversed(pending) if not seen[each].liveness.is_alive]


def refuse_alive(
    client: Client, timeline: active.ActiveTimeline, instant: instants.Instant
) -> None:
    """Refuse to take over a pending instant that somebody alive works on.

    Raises:
        ConflictError: Somebody does.
    """
    status = look_at(client.heartbeats, client.storage, timeline, [instant])[instant]
    if status.liveness.is_alive:
        raise errors.ConflictError(
            f"{instant} is executed by {status.owner or 'another'}, which gave a sign of life "
            f"{status.silence_ms} ms ago: wait until it has ended, `hoodie heartbeats TABLE` shows "
            "whether it is alive"
        )


def pending(
    storage: Storage,
    timeline: active.ActiveTimeline,
    write_settings: settings.WriteSettings,
    env: environment.Environment,
) -> list[results.PendingInstant]:
    """Return the pending instants of a timeline, by requested time.

    Args:
        storage: The table's.
        timeline: Just read.
        write_settings: By which heartbeats count as expired.
        env: Clock and threads.
    """
    lives = heartbeats.Heartbeats(storage, env.clock, env.background, write_settings)
    seen = look_at(lives, storage, timeline, timeline.pending)
    return [
        results.PendingInstant(
            instant=instant,
            is_alive=status.liveness.is_alive,
            liveness=status.liveness.value,
            owner=str(status.owner) if status.owner else None,
            silence_ms=status.silence_ms,
            remedy=None if status.liveness.is_alive else _REMEDIES.get(instant.action),
        )
        for instant, status in seen.items()
    ]


def _unsigned(
    lives: heartbeats.Heartbeats,
    storage: Storage,
    timeline: active.ActiveTimeline,
    instant: instants.Instant,
) -> heartbeats.HeartbeatStatus:
    """Return what is known of the owner of an instant that has no heartbeat."""
    missing = heartbeats.HeartbeatStatus(liveness=heartbeats.Liveness.MISSING)
    if contents.is_of_ours(storage, instant):
        return missing
    written = [
        transitions.path(each)
        for each in timeline.files
        if each.requested_time == instant.requested_time
    ]
    silence_ms = lives.silence_ms(written, markers.directory_of(instant.requested_time))
    if silence_ms is None or silence_ms >= lives.expiry_ms:
        return missing
    return heartbeats.HeartbeatStatus(liveness=heartbeats.Liveness.BEATING, silence_ms=silence_ms)
