"""The timeline of a table's metadata table (MDT), beside that of the data.

Each change of the data files is a delta commit of the MDT at the same requested time, which
completes first (`transaction.metadata_commits`). Source: format.md: Metadata table.
"""

from hoodie.model import instants
from hoodie.storage import subtree
from hoodie.storage.protocol import Storage
from hoodie.timeline import active

DIRECTORY = ".hoodie/metadata"
TIMELINE = f"{DIRECTORY}/{active.DIRECTORY}"

FIRST_TIMES = tuple(instants.InstantTime(f"{number:017}") for number in range(10))
"""Requested times of the delta commits that make an MDT's partitions, that of `files` first."""

_CHANGES = frozenset((*instants.WRITES, instants.Action.CLEAN))


def opened(storage: Storage) -> Storage:
    """Return the storage of a table's MDT, be there one or not."""
    return subtree.SubtreeStorage(storage, DIRECTORY)


def lacking(
    timeline: active.ActiveTimeline, of_data: active.ActiveTimeline
) -> instants.Instant | None:
    """Return a completed change of the data files that an MDT does not have; None for none.

    The archive is asked for changes that are not on its timeline.

    Args:
        timeline: The MDT's, with a completed instant at least.
        of_data: The data table's, read before.
    """
    since = timeline.completed[0].completion_time
    assert since is not None
    found = _lacking_since(timeline, of_data, since)
    if found is None:
        return None
    # In local time others may have completed something since that has a lower time.
    made = timeline.completion_time(FIRST_TIMES[0])
    return found if made is None else _lacking_since(timeline, of_data, max(made, since))


def _lacking_since(
    timeline: active.ActiveTimeline, of_data: active.ActiveTimeline, since: instants.InstantTime
) -> instants.Instant | None:
    later = active.completed_after(of_data, since)
    return next((each for each in later if is_lacking(timeline, each)), None)


def is_lacking(timeline: active.ActiveTimeline, of_data: instants.Instant) -> bool:
    """Return whether an instant of the data table changes files and an MDT does not have it."""
    time = of_data.requested_time
    return (
        of_data.action.completed in _CHANGES
        and time not in timeline.write_completion_times
        and timeline.archive.completion_time(time) is None
    )


def waiting(timeline: active.ActiveTimeline) -> int:
    """Return how many delta commits an MDT has since its last compaction.

    Those that made its partitions count as one.
    """
    count = 0
    for each in reversed(timeline.completed_writes):
        if each.action is not instants.Action.DELTA_COMMIT:
            break
        count += each.requested_time not in FIRST_TIMES[1:]
    return count
