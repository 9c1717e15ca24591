"""Micro-batches: how far a reader of changes goes in one step.

A stream asks again and again up to where it may read now. Its steps end at positions, so that a
step between two of them is the same whenever it is read (`increments.Wanted.until`): a stream that
dies in the middle of one reads it again.

A step ends between writes, in the order of their completion, and has at least one, so that it
leads from one snapshot of the table to a later one, whatever the limit. Latecomers come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hoodie.model import instants
from hoodie.read import increments, positions
from hoodie.timeline import active


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much is read at most, unless a single write is more; None for any.

    Attributes:
        writes: Writes.
        files: Data files that they wrote.
        size_bytes: The size of these.
    """

    writes: int | None = None
    files: int | None = None
    size_bytes: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is any."""
        return self != NO_LIMIT


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What something that is read whole adds to a step; as of `Limit`."""

    writes: int = 0
    files: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a reader asks for.

    Attributes:
        since: Where it is.
        until: A position beyond which it does not go; None for the newest.
        limit: How much it reads at most.
        is_ordered: As in `increments.Wanted`.
    """

    since: positions.Position | instants.InstantTime
    until: positions.Position | None = None
    limit: Limit = field(default=NO_LIMIT)
    is_ordered: bool = False


def next_position(
    source: increments.Source, timeline: active.ActiveTimeline, wanted: Wanted
) -> positions.Position | None:
    """Return where a reader's next step ends; None if no write has completed since.

    No request, unless some of the range was archived. By files or bytes a read for each write of
    the range.

    Args:
        source: The table.
        timeline: The table's as it is now.
        wanted: What the reader asks for.

    Raises:
        HoodieError: As `increments.unseen`.
    """
    found = increments.unseen(
        source,
        timeline,
        increments.Wanted(
            since=wanted.since, until=wanted.until, is_ordered=wanted.is_ordered, columns=()
        ),
    )
    if not found.data_writes:
        return None
    count = fitting(_costs(source, timeline, found, wanted.limit), wanted.limit)
    # Writes that completed at the same time are not told apart by it, nor are latecomers.
    end = max(increments.completion_of(found.data_writes[count - 1]), found.begin.time)
    if end >= increments.completion_of(found.data_writes[-1]):
        return positions.of_completion(found.position)
    return increments.position_at(source, timeline, end, found.end.without)


def fitting(costs: Sequence[Cost], limit: Limit) -> int:
    """Return how many of the first ones a step has: one at least, if there is any."""
    writes = files = size_bytes = 0
    for count, cost in enumerate(costs):
        writes += cost.writes
        files += cost.files
        size_bytes += cost.size_bytes
        if count and (
            _exceeds(writes, limit.writes)
            or _exceeds(files, limit.files)
            or _exceeds(size_bytes, limit.size_bytes)
        ):
            return count
    return len(costs)


def _costs(
    source: increments.Source,
    timeline: active.ActiveTimeline,
    found: increments.Range,
    limit: Limit,
) -> list[Cost]:
    if limit.files is None and limit.size_bytes is None:
        return [Cost(writes=1)] * len(found.data_writes)
    by_time = {
        write.requested_time: Cost(
            writes=1,
            files=len(commit.stats),
            size_bytes=sum(each.size_bytes for each in commit.stats),
        )
        for write, commit in increments.commits_of(source, timeline, found.data_writes)
    }
    return [by_time[each.requested_time] for each in found.data_writes]


def _exceeds(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit
