"""Times of instants that grow in the order in which the table lock was held (rules T1 to T3).

Terms:
    floor  the greatest time that must stay below the next one: of all requested and completion
           times on a timeline that was read under the lock
    lag    by how much our clock is behind the floor

Under the lock, a time above the floor is enough among writers that all read it; Apache Hudi's own
writers read only their clock and rely on everyone waiting out the skew before letting go of the
lock. So we wait, too, as long as the settings say. A clock that lags by more than the skew is
wrong, or another was: that is never passed over in silence. In a table in local time clocks are
put back once a year: in the hour that follows they lag by up to an hour, and times go on from the
floor.

Source: RFC-66; `SkewAdjustingTimeGenerator.java`; protocol.md: Time.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import dataclass

from hoodie import clock, deferred, errors
from hoodie.model import instants, time_zones

with deferred.imports():
    from hoodie.model import settings
from hoodie.timeline import active

logger = logging.getLogger(__name__)


class Parity(enum.IntEnum):
    """The last digit of times in a table with a chain: even or odd, by who gives them.

    Epochs give times one after the other. Writers give the requested times of their writes without
    asking anybody, so that these must differ from all that an epoch may give meanwhile.
    """

    EPOCH = 0
    WRITER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The next time, and what it takes.

    Attributes:
        time: Above the floor.
        wait_ms: How long to wait before anybody else may read a clock.
        lag_ms: By how much our clock lags the floor, if that is more than the allowed skew; else 0.
    """

    time: instants.InstantTime
    wait_ms: int
    lag_ms: int


class TimeGenerator:
    """Gives out times; one for each transaction client."""

    def __init__(
        self,
        time_clock: clock.Clock,
        write_settings: settings.WriteSettings,
        time_zone: time_zones.TimeZone = time_zones.UTC_ZONE,
    ) -> None:
        """Take the clock, and skew, wait and policy from the settings.

        Args:
            time_clock: Of this machine.
            write_settings: Of the writer.
            time_zone: Of the timeline.
        """
        self._clock = time_clock
        self._zone = time_zone
        self._settings = write_settings
        self._suspect: instants.Instant | None = None
        self._floor = ""
        self._chained_ms = 0

    @property
    def suspect(self) -> instants.Instant | None:
        """The first instant found ahead of the clock by more than the skew; None while all agree.

        Set only where the policy is to advance: whoever made it, or we, have a wrong clock.
        """
        return self._suspect

    def rise_above(self, time: str) -> None:
        """Give no time any more that is not above this one, of another timeline; empty for none."""
        self._floor = max(self._floor, time)

    def next(self, timeline: active.ActiveTimeline) -> instants.InstantTime:
        """Return the same as `generate`, without a wait: a greater one is given in this scope.

        Raises:
            HoodieError: As `generate`.
        """
        reading = self._after(timeline)
        self.rise_above(reading.time)
        return reading.time

    def generate(self, timeline: active.ActiveTimeline) -> instants.InstantTime:
        """Return a time above all others; the caller holds the lock, also while this waits.

        Args:
            timeline: Read after the lock was acquired.

        Raises:
            ClockSkewError: The clock lags by more than the skew, and the policy is to fail.
            FormatError: The floor is no time that anything could follow.
        """
        reading = self._after(timeline)
        self._clock.sleep_s(reading.wait_ms / 1000)
        return reading.time

    def _after(self, timeline: active.ActiveTimeline, chain_time: str = "") -> Reading:
        """Return the next time after a timeline, and look whose clock is wrong."""
        greatest = max(timeline.greatest_time or "", chain_time, self._floor)
        floor = instants.InstantTime(greatest) if greatest else None
        clock_ms = self._clock.now_ms()
        now_ms = self._zone.shown_ms(clock_ms)
        repetition = self._zone.repetition(clock_ms)
        repeated_ms = 0 if repetition is None else repetition.ahead_ms
        reading = next_reading(now_ms, floor, self._settings, repeated_ms)
        if reading.lag_ms:
            limit_ms = now_ms + self._settings.clock_skew_ms_max + repeated_ms
            suspect = _first_ahead(timeline, limit_ms)
            finding = (
                f"this machine's clock lags {floor} on the timeline by {reading.lag_ms} ms, "
                f"expected {self._settings.clock_skew_ms_max} ms at most; "
                f"the first instant ahead of it is {suspect}"
            )
            if not self._zone.is_utc:
                finding += f"; the table's times are those of {self._zone.name}: are its writer's?"
            if self._settings.future_time is settings.FutureTime.FAIL:
                raise errors.ClockSkewError(finding)
            logger.warning("%s; continuing from there", finding)
            self._suspect = suspect
        return reading

    def generate_chained(
        self,
        timeline: active.ActiveTimeline,
        chain_time: str,
        parity: Parity,
        *,
        is_waiting: bool,
    ) -> instants.InstantTime:
        """Return a time above all others of a table with a chain (CH4), and all given so far.

        Without a lock a time that was given may turn out to be taken: it is not given again.

        Args:
            timeline: Read after the chain's head was.
            chain_time: The greatest time that epochs have given; empty for none.
            parity: Who asks.
            is_waiting: Whether other engines, who read their clocks only, are waited for.

        Raises:
            HoodieError: As `generate`.
        """
        reading = self._after(timeline, chain_time)
        time_ms = instants.parse_time(reading.time)
        if is_waiting and reading.wait_ms:
            self._clock.sleep_s((reading.wait_ms + 1) / 1000)
        time_ms += (time_ms - parity) % 2
        if time_ms <= self._chained_ms:
            time_ms = self._chained_ms + 1
            time_ms += (time_ms - parity) % 2
        self._chained_ms = time_ms
        return instants.format_time(time_ms)

    def wait_out(self, time: instants.InstantTime) -> None:
        """Wait until nobody's clock gives a time again; the caller has held the lock since it did.

        For a time that may be on the timeline later, and is not there for others to read. Clocks
        that are wrong are not waited for longer than clocks can be that are not.
        """
        skew_ms = self._settings.clock_skew_ms_max
        now_ms = self._zone.shown_ms(self._clock.now_ms())
        ahead_ms = min(instants.parse_time(time) - now_ms, skew_ms)
        self._clock.sleep_s(max(ahead_ms + skew_ms + 1, 0) / 1000)


def next_reading(
    now_ms: int,
    floor: instants.InstantTime | None,
    write_settings: settings.WriteSettings,
    repeated_ms: int = 0,
) -> Reading:
    """Return the next time after a floor, by what the clock says.

    Args:
        now_ms: What the clock shows in the timeline's zone.
        floor: The floor; None for none.
        write_settings: Of the writer.
        repeated_ms: By how much right clocks may have been ahead, since they were put back.

    Raises:
        FormatError: The floor is no time that anything could follow.
    """
    now = instants.format_time(now_ms)
    wait_ms = write_settings.clock_wait_ms
    if floor is None or now > floor:
        return Reading(time=now, wait_ms=wait_ms, lag_ms=0)
    try:
        floor_ms = instants.parse_time(floor)
        time = instants.next_time(floor)
    except (OverflowError, ValueError) as error:
        raise errors.FormatError(f"no instant can follow time {floor}: {error}") from error
    lag_ms = floor_ms - now_ms
    if lag_ms > write_settings.clock_skew_ms_max:
        is_wrong = lag_ms > write_settings.clock_skew_ms_max + repeated_ms
        return Reading(time=time, wait_ms=wait_ms, lag_ms=lag_ms if is_wrong else 0)
    # Who waits for others' clocks waits until its own has passed the time, too.
    return Reading(time=time, wait_ms=wait_ms + lag_ms + 1 if wait_ms else 0, lag_ms=0)


def _first_ahead(timeline: active.ActiveTimeline, limit_ms: int) -> instants.Instant | None:
    limit = instants.format_time(limit_ms)
    ahead = [each for each in timeline.instants if active.latest_time(each) > limit]
    return min(ahead, key=active.latest_time, default=None)
