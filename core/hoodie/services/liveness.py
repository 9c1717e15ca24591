"""What is pending on a table, who works on it, and what to do where nobody does.

plan of a table service     nobody needs to work on it; a compaction is executed by `compact`
write, rollback             taken back, or gone on with, once its owner is dead
inflight compaction         executed anew once its executor is dead
"""

from collections.abc import Mapping

from hoodie import environment
from hoodie.model import instants, results, settings
from hoodie.storage import protocol
from hoodie.timeline import active
from hoodie.transaction import admission, failed_writes, heartbeats

_REMEDIES: Mapping[instants.Action, results.Remedy] = {
    **dict.fromkeys(admission.WRITES, results.Remedy.ROLL_BACK),
    instants.Action.ROLLBACK: results.Remedy.ROLL_BACK,
    instants.Action.COMPACTION: results.Remedy.COMPACT,
}


def pending(
    storage: protocol.Storage,
    timeline: active.ActiveTimeline,
    write_settings: settings.WriteSettings,
    outside: environment.Environment,
) -> list[results.PendingInstant]:
    """Return the pending instants of a timeline, by requested time.

    Args:
        storage: The table's.
        timeline: Just read.
        write_settings: By which heartbeats count as expired.
        outside: Clock and threads.
    """
    lives = heartbeats.Heartbeats(storage, outside.clock, outside.background, write_settings)
    seen = failed_writes.sight(lives, storage, timeline, timeline.pending)
    return [
        results.PendingInstant(
            instant=instant,
            is_alive=sighting.liveness.is_alive,
            liveness=sighting.liveness.value,
            owner=str(sighting.owner) if sighting.owner else None,
            silence_ms=sighting.silence_ms,
            remedy=None if sighting.liveness.is_alive else _REMEDIES.get(instant.action),
        )
        for instant, sighting in seen.items()
    ]
