"""What the storage's times of completed files say about the clocks that gave instants their times.

A completed file is created right after its completion time was given, and is never changed; nor is
the requested file of a write. So their modification times show in which zone a table in local time
was written, and whether a time went back: other engines give the times of an hour twice when clocks
are put back. Files that were copied since show neither: their times are as far from the instants'
as no zone is, or nearer to each other than those. Nor do those of instants that an upgrade from
table version 6 or older has written again, requested file and completed file at one time.
"""

import bisect
import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import instant_names
from hoodie.model import instants, time_zones
from hoodie.storage.protocol import Storage
from hoodie.timeline import active

NEWEST_MAX = 50
"""The zone follows from so many of the newest instants."""

_MINUTE_MS = 60_000
_NEAR_MS = 5 * _MINUTE_MS
"""A file is that near to its instant's time, if clocks are right and it was not copied."""

_STEP_MS = 15 * _MINUTE_MS
"""Zones differ by multiples of it."""

_ZONES_MS = 26 * 60 * _MINUTE_MS
"""No two zones differ by more."""

_SAME_MS = 2_000
"""Stores tell times in whole seconds, and clocks of hosts differ."""

_MOST = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A completed instant, and when its files were there, by the storage, since the epoch.

    Attributes:
        instant: The instant.
        modified_ms: Its completed file.
        requested_ms: The requested file of a write; 0 for others, and where it is not known.
    """

    instant: instants.Instant
    modified_ms: int
    requested_ms: int = 0


def of_table(
    storage: Storage, timeline: active.ActiveTimeline, *, was_upgraded: bool = False
) -> tuple[Shown, ...]:
    """Return a timeline's completed instants with their files' times, as they completed; a listing.

    Those whose file is not there any more, or has no time, are left out; and of a table that was
    upgraded those that were written again then.
    """
    modified_ms = {info.name: info.modified_ms for info in storage.list(active.DIRECTORY)}

    def shown_ms(instant: instants.Instant) -> int:
        return modified_ms.get(instant_names.file_name(instant), 0)

    found = tuple(
        Shown(
            instant=each,
            modified_ms=shown_ms(each),
            # What is executed again, as a plan is, may be requested again.
            requested_ms=shown_ms(each.pending_in(instants.State.REQUESTED))
            if each.action in instants.WRITES
            else 0,
        )
        for each in timeline.completed
        if shown_ms(each)
    )
    return without_rewritten(found) if was_upgraded else found


def without_rewritten(found: Sequence[Shown]) -> tuple[Shown, ...]:
    """Return the instants that an upgrade has left as they were, of a table that had one.

    Times of writes show which were written again: their files are nearer to each other than their
    requests to their completions. Others were if they have the time of such a one.
    """
    moments_ms = sorted(each.modified_ms for each in found if _is_rewritten(each))

    def is_near(at_ms: int) -> bool:
        place = bisect.bisect_left(moments_ms, at_ms - _SAME_MS)
        return place < len(moments_ms) and moments_ms[place] <= at_ms + _SAME_MS

    return tuple(each for each in found if not is_near(each.modified_ms))


def _is_rewritten(shown: Shown) -> bool:
    if not shown.requested_ms:
        return False
    try:
        took_ms = instants.parse_time(str(shown.instant.completion_time)) - instants.parse_time(
            shown.instant.requested_time
        )
    except errors.InvalidInputError:
        return False
    return 2 * (shown.modified_ms - shown.requested_ms) < took_ms


def offset_min(found: Sequence[Shown], zone: time_zones.TimeZone) -> int | None:
    """Return by how many minutes the times of instants are ahead of a zone's.

    Args:
        found: In the order of completion; the newest count.
        zone: That they should be of.

    Returns:
        A multiple of 15, 0 for times of the zone; None where the files do not tell.
    """
    moments = [
        (each, each.modified_ms + ahead_ms, ahead_ms)
        for each in found[-NEWEST_MAX:]
        if (ahead_ms := _ahead_ms(each.instant.completion_time, each.modified_ms, zone)) is not None
    ]
    if not moments:
        return None
    middle_ms = statistics.median_low(ahead_ms for _, _, ahead_ms in moments)
    steps = round(middle_ms / _STEP_MS)
    near = [
        (each, at_ms)
        for each, at_ms, ahead_ms in moments
        if abs(ahead_ms - steps * _STEP_MS) <= _NEAR_MS
    ]
    if len(near) < _MOST * len(moments) or abs(middle_ms) > _ZONES_MS or _were_copied(near, zone):
        return None
    return steps * _STEP_MS // _MINUTE_MS


def _were_copied(found: Sequence[tuple[Shown, int]], zone: time_zones.TimeZone) -> bool:
    """Return whether files are much nearer to each other than the times of their instants are.

    Args:
        found: Instants, and the moments at which they say that they completed.
        zone: Of their times.
    """
    told = [at_ms for _, at_ms in found]
    shown = [each.modified_ms for each, _ in found]
    for each, _ in found:
        ahead_ms = _ahead_ms(each.instant.requested_time, each.requested_ms, zone)
        if each.requested_ms and ahead_ms is not None:
            told.append(each.requested_ms + ahead_ms)
            shown.append(each.requested_ms)
    return max(told) - min(told) > 2 * (max(shown) - min(shown) + _SAME_MS)


def went_back(
    found: Iterable[Shown], zone: time_zones.TimeZone
) -> tuple[tuple[instants.Instant, instants.Instant], ...]:
    """Return instants with a time before that of one that had completed by then, and that one.

    What was requested at such a time may be hidden as well, however late it completed.

    Args:
        found: In any order. Those whose file was copied, or has the time of another zone, do not
            count.
        zone: The timeline's.
    """
    telling = sorted(
        (
            each
            for each in found
            if _is_telling(each.instant.completion_time, each.modified_ms, zone)
        ),
        key=lambda each: each.modified_ms,
    )
    moments_ms = [each.modified_ms for each in telling]
    greatest = list(itertools.accumulate((each.instant for each in telling), _later))
    pairs = []
    for each in telling:
        times = [(each.instant.completion_time, each.modified_ms)]
        if _is_telling(each.instant.requested_time, each.requested_ms, zone):
            times.append((each.instant.requested_time, each.requested_ms))
        for time, at_ms in times:
            place = bisect.bisect_left(moments_ms, at_ms - _SAME_MS)
            before = greatest[place - 1] if place else None
            if before is not None and str(time) < str(before.completion_time):
                pairs.append((each.instant, before))
                break
    return tuple(pairs)


def _later(one: instants.Instant, other: instants.Instant) -> instants.Instant:
    return max(one, other, key=lambda each: str(each.completion_time))


def of_other_zones(
    found: Iterable[Shown], zone: time_zones.TimeZone
) -> tuple[tuple[instants.Instant, int], ...]:
    """Return instants whose writers gave the times of another zone, and the minutes ahead of ours.

    Not those from before the first that has a time of the zone: they may have been copied.
    """
    known = list(found)
    telling = (
        each.modified_ms
        for each in known
        if _is_telling(each.instant.completion_time, each.modified_ms, zone)
    )
    first_ms = min(telling, default=None)
    others = []
    for each in known:
        ahead_ms = _ahead_ms(each.instant.completion_time, each.modified_ms, zone)
        is_judged = first_ms is not None and each.modified_ms > first_ms and ahead_ms is not None
        if not is_judged or zone.repetition(each.modified_ms) is not None:
            continue
        assert ahead_ms is not None
        steps = round(ahead_ms / _STEP_MS)
        if steps and abs(ahead_ms) <= _ZONES_MS and abs(ahead_ms - steps * _STEP_MS) <= _NEAR_MS:
            others.append((each.instant, steps * _STEP_MS // _MINUTE_MS))
    return tuple(others)


def findings(
    found: Sequence[Shown], zone: time_zones.TimeZone
) -> tuple[tuple[instants.Instant, str], ...]:
    """Return instants whose times are wrong and what that means, in the order of completion.

    That a service which writes no rows, such as a clean, ended later than its time says does no
    harm: it may have lost its lock right before.
    """
    texts = {
        each: f"began or completed after {before}, with an earlier time: clocks were put back, or "
        "one is wrong. Readers may not see what it wrote to a file group that both wrote: write "
        "its rows again"
        for each, before in went_back(found, zone)
        if each.action.is_write
    }
    for each, ahead_min in of_other_zones(found, zone):
        where = "ahead of" if ahead_min > 0 else "behind"
        texts[each] = (
            f"has a time that is {abs(ahead_min)} min {where} {zone.name}: its writer gives times "
            "of another time zone. Set the writer's time zone (-Duser.timezone), and check what it "
            "wrote"
        )
    return tuple((each.instant, texts[each.instant]) for each in found if each.instant in texts)


def _ahead_ms(time: str | None, at_ms: int, zone: time_zones.TimeZone) -> int | None:
    """Return by how much an instant's time is ahead of its file's; of two moments the nearer."""
    try:
        return min((ms - at_ms for ms in zone.moments_ms(str(time))), key=abs)
    except errors.InvalidInputError:
        return None


def _is_telling(time: str | None, at_ms: int, zone: time_zones.TimeZone) -> bool:
    """Return whether a file was there when clocks showed its instant's time, be it again."""
    ahead_ms = _ahead_ms(time, at_ms, zone)
    return ahead_ms is not None and abs(ahead_ms) <= _NEAR_MS
