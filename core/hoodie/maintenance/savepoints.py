"""Savepoints: commits whose files are kept until the savepoint is deleted.

Terms:
    saved     the commit that a savepoint keeps; both have one requested time
    protected the files that completed savepoints name

Source: `SavepointActionExecutor.java`, `SavepointHelpers.java` (1.2.0); format.md: Timeline.
"""

from hoodie.model import instants
from hoodie.storage import protocol
from hoodie.timeline import active, contents


def completed(timeline: active.ActiveTimeline) -> tuple[instants.Instant, ...]:
    """Return the completed savepoints of a timeline, by the requested times of their commits."""
    return tuple(
        each
        for each in timeline.instants
        if each.action is instants.Action.SAVEPOINT and each.is_completed
    )


def protected_paths(storage: protocol.Storage, timeline: active.ActiveTimeline) -> frozenset[str]:
    """Return the paths of all files that completed savepoints name; a read each.

    Args:
        storage: The table's.
        timeline: Of the table; who deletes files reads it in the scope that decides that.

    Raises:
        FormatError: A savepoint is damaged, or names files outside their partitions: nothing is
            known of what it protects.
        NotFoundError: One was deleted since the timeline was read.
    """
    return frozenset().union(
        *(contents.read_savepoint(storage, each).paths for each in completed(timeline))
    )
