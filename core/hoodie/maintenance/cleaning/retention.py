"""How much of a table's past stays readable, and what holds cleaning back: decisions on values.

Terms:
    replaced   a file slice is replaced when the base file of a newer one completes, a file group
               when the replace commit that retires it does; reads that begin later do not need it
    bound      a completion time: what was replaced before it may go

Each holder says up to which time what was replaced is needed; the earliest one is the bound. All
times are those of the timeline and of the storage, so that a cleaner whose clock is ahead deletes
nothing. A reader's grace begins when a completed file is there, which may be long after its time:
until then readers need what it replaces. Source: `CleanPlanner.java`, `CleanerUtils.java` (1.2.0);
protocol.md: Cleaning.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.maintenance import consumers
from hoodie.model import instants, time_zones
from hoodie.timeline import active

_HOUR_MS = 3_600_000
_NEVER = instants.InstantTime("")
"""Below every time: nothing was replaced before it."""

_PASSED = (instants.Action.CLEAN, instants.Action.ROLLBACK, instants.Action.SAVEPOINT)
"""Pending actions that need no older version of the table; a savepoint keeps files by its completed
file alone."""


class Policy(enum.Enum):
    """By what the past is measured, by Hudi's constant."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


DEFAULTS = {Policy.COMMITS: 10, Policy.HOURS: 24, Policy.VERSIONS: 3}
"""How many of each Apache Hudi keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much of the past stays.

    Attributes:
        policy: By what it is measured.
        retained: So many commits, hours or file versions; at least 1.
        grace_ms: How long a reader may take, in milliseconds: what was replaced later stays.
        files_max: A clean deletes about this many files at most; the next one goes on.
    """

    policy: Policy = Policy.COMMITS
    retained: int = DEFAULTS[Policy.COMMITS]
    grace_ms: int = _HOUR_MS
    files_max: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse what would delete what is read.

        Raises:
            ConfigurationError: A number is too small.
        """
        for name, least in (("retained", 1), ("grace_ms", 0), ("files_max", 1)):
            if getattr(self, name) < least:
                raise errors.ConfigurationError(
                    f"{name} of a clean is {getattr(self, name)}, expected {least} or more"
                )

    @property
    def newer_kept(self) -> int:
        """How many newer file slices a file slice must have before it may go."""
        return self.retained if self.policy is Policy.VERSIONS else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What holds cleaning back.

    Attributes:
        time: What was replaced at this completion time or later stays.
        reason: Who needs it.
    """

    time: instants.InstantTime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What time it is for a table, by its timeline and its storage.

    Attributes:
        now: A time that has certainly passed: the newest completion time, or the time that the
            storage gave that file, if that is earlier. A table that nobody writes does not age.
        now_ms: The same in milliseconds since the epoch.
        shown_at: When the completed file of each write was there, by the storage, by requested
            time. One that is not in it has just come.
        zone: The timeline's.
    """

    now: instants.InstantTime
    now_ms: int
    shown_at: Mapping[instants.InstantTime, instants.InstantTime]
    zone: time_zones.TimeZone = time_zones.UTC_ZONE

    def after(self, ago_ms: int) -> instants.InstantTime:
        """Return the first time after what clocks showed some time ago.

        Where they were changed meanwhile, it is not above anything that they have shown since:
        neither what they showed then nor what is as much below the present time.
        """
        below_ms = instants.parse_time(self.now) - ago_ms
        then_ms = self.zone.shown_ms(max(0, self.now_ms - ago_ms))
        return instants.format_time(max(0, min(below_ms, then_ms) + 1))


def clock_of(
    timeline: active.ActiveTimeline,
    modified_ms: Mapping[instants.Instant, int],
    zone: time_zones.TimeZone = time_zones.UTC_ZONE,
) -> Clock:
    """Return what time it is for a table.

    Args:
        timeline: Of the table.
        modified_ms: When the storage has last modified the files of completed instants; 0 where it
            does not say.
        zone: The timeline's.
    """
    times = {each: modified_ms.get(each, 0) for each in timeline.completed}
    now = zone.format(0)
    if timeline.completed:
        newest = timeline.completed[-1]
        made_ms = times[newest]
        assert newest.completion_time is not None, newest
        now = newest.completion_time
        if made_ms:
            now = min(now, zone.format(made_ms))
    return Clock(
        now=now,
        now_ms=zone.epoch_ms(now),
        shown_at={
            each.requested_time: zone.format(times[each])
            for each in timeline.completed_writes
            if times[each]
        },
        zone=zone,
    )


def bound(
    timeline: active.ActiveTimeline,
    retention: Retention,
    clock: Clock,
    declared: Iterable[consumers.Consumer] = (),
) -> Hold:
    """Return what holds cleaning back the most.

    Args:
        timeline: Of the table.
        retention: How much stays.
        clock: The time.
        declared: The table's consumers.
    """
    return min(holds(timeline, retention, clock, declared), key=lambda hold: hold.time)


def holds(
    timeline: active.ActiveTimeline,
    retention: Retention,
    clock: Clock,
    declared: Iterable[consumers.Consumer] = (),
) -> list[Hold]:
    """Return everything that holds cleaning back."""
    return [
        _of_policy(timeline, retention, clock),
        _of_readers(timeline, retention, clock),
        *_of_pending(timeline),
        *of_consumers(declared, clock.now_ms),
    ]


def of_consumers(declared: Iterable[consumers.Consumer], now_ms: int) -> Iterable[Hold]:
    """Yield a hold for each consumer that is not silent for longer than its limit.

    What was replaced at the time up to which it has read stays, so that it may read that change
    once more. What a damaged file says is not known: all stays.
    """
    for each in declared:
        match each.state_at(now_ms):
            case consumers.State.DAMAGED:
                yield Hold(time=_NEVER, reason=each.defect)
            case consumers.State.HOLDING:
                yield Hold(
                    time=each.consumed,
                    reason=f"consumer {each.name} has read up to {each.consumed}",
                )
            case consumers.State.EXPIRED:
                pass


def earliest_retained(
    timeline: active.ActiveTimeline, time: instants.InstantTime
) -> instants.Instant | None:
    """Return the first write, by requested time, from which on the next clean has to look.

    Apache Hudi's next clean looks where this write or a later one was, too, and its archiver keeps
    a replace commit that is not before it. So it is not later than any write that completed at the
    bound or later, nor than any that is pending and may complete; it is one that has completed.

    Args:
        timeline: Of the table.
        time: The bound.

    Returns:
        None if there is none: the next clean looks at the whole table.
    """
    writes = timeline.completed_writes
    retained = [each for each in writes if (each.completion_time or "") >= time]
    pending = min(
        (each.requested_time for each in timeline.pending if each.action.is_write), default=None
    )
    if pending is not None:
        before = [each for each in writes if each.requested_time < pending]
        if not before:
            return None
        retained.append(max(before, key=lambda each: each.requested_time))
    return min(retained, key=lambda each: each.requested_time, default=None)


def _of_policy(timeline: active.ActiveTimeline, retention: Retention, clock: Clock) -> Hold:
    writes = timeline.completed_writes
    count = retention.retained
    match retention.policy:
        case Policy.COMMITS if len(writes) <= count:
            return Hold(time=_NEVER, reason=f"{_newest_kept(count)}, and the timeline has no more")
        case Policy.COMMITS:
            first = writes[-count]
            return Hold(
                time=first.completion_time or _NEVER,
                reason=f"{_newest_kept(count)}, from {first.requested_time} on",
            )
        case Policy.HOURS:
            return Hold(
                time=clock.after(count * _HOUR_MS),
                reason=f"versions of the last {count} h are kept",
            )
        case Policy.VERSIONS:
            versions = "1 version" if count == 1 else f"{count} versions"
            return Hold(
                time=clock.after(0), reason=f"{versions} of each file group stay, as configured"
            )


def _newest_kept(count: int) -> str:
    return "the newest commit is kept" if count == 1 else f"the newest {count} commits are kept"


def _of_readers(timeline: active.ActiveTimeline, retention: Retention, clock: Clock) -> Hold:
    """Return the hold of readers that may have begun before a write was shown."""
    limit = clock.after(retention.grace_ms)
    recent = (
        each.completion_time or _NEVER
        for each in timeline.completed_writes
        if retention.grace_ms and clock.shown_at.get(each.requested_time, clock.now) >= limit
    )
    return Hold(
        time=min(recent, default=limit),
        reason=f"a reader may take {retention.grace_ms // 1000} s (grace)",
    )


def _of_pending(timeline: active.ActiveTimeline) -> Iterable[Hold]:
    """Yield a hold for each pending instant that may read the table as it was when it began."""
    for each in timeline.pending:
        if each.action not in _PASSED:
            yield Hold(
                time=each.requested_time,
                reason=f"{each.action.value} {each.requested_time} is {each.state.value}",
            )
