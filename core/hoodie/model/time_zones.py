"""The time zone of a timeline, whose instant times are what clocks on the wall show there.

Apache Hudi gives the local times of its JVM unless a table says otherwise. When clocks are put
back, an hour is there twice: a JVM gives its times again, so that what completes in the second hour
may have an earlier time than what completed in the first. Times of ours go on from the greatest one
instead (`timeline.true_time`).

Terms:
    shown time      what a clock shows, in milliseconds since the epoch as if it were UTC; all
                    arithmetic with instant times is done with these
    repeated times  those that clocks show twice, on the day on which they are put back

Source: `HoodieInstantTimeGenerator.java`, `HoodieTimelineTimeZone.java`; the zones are those of the
IANA database, which Java has as well.
"""

import functools
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hoodie import errors
from hoodie.model import instants

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (as clocks on the wall show it)
_MS = timedelta(milliseconds=1)
_NOTHING = timedelta(0)

_OF_A_MACHINE = ("localtime", "posix", "right/", "Factory")
"""What a machine's database has beside zones: its own zone, others with leap seconds. To Java they
are none, or another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Times that clocks show twice.

    Attributes:
        first: The first of them.
        end: What clocks show once they are over.
        ends_ms: When that is, in milliseconds since the epoch.
        ahead_ms: By how much what a clock has shown may be ahead of what it shows: nothing in the
            first of the two hours.
    """

    first: instants.InstantTime
    end: instants.InstantTime
    ends_ms: int
    ahead_ms: int


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone by its name, such as `UTC` or `Europe/Berlin`."""

    name: str

    @property
    def is_utc(self) -> bool:
        """Whether it is UTC by that name, which needs no database."""
        return self.name == "UTC"

    def check(self) -> None:
        """Look whether there is such a zone.

        Raises:
            ConfigurationError: There is none, or this machine has no database of time zones.
        """
        _zone(self.name)

    def shown_ms(self, epoch_ms: int) -> int:
        """Return what a clock shows at a time, both in milliseconds since the epoch."""
        if self.is_utc:
            return epoch_ms
        return epoch_ms + _offset(_moment(epoch_ms, self.name)) // _MS

    def format(self, epoch_ms: int) -> instants.InstantTime:
        """Return the instant time of a time in milliseconds since the epoch."""
        return instants.format_time(self.shown_ms(epoch_ms))

    def epoch_ms(self, time: str) -> int:
        """Return when clocks showed an instant time, for the first time, since the epoch.

        Raises:
            InvalidInputError: The text is no instant time.
        """
        return self.moments_ms(time)[0]

    def moments_ms(self, time: str) -> tuple[int, ...]:
        """Return when clocks showed an instant time, since the epoch: once or twice, in order.

        Of a time that clocks left out it is when they would have shown it, had they not.

        Raises:
            InvalidInputError: The text is no instant time.
        """
        shown_ms = instants.parse_time(time)
        if self.is_utc:
            return (shown_ms,)
        shown = (_EPOCH + shown_ms * _MS).replace(tzinfo=_zone(self.name))
        first_ms, second_ms = (
            shown_ms - _offset(shown.replace(fold=fold)) // _MS for fold in (0, 1)
        )
        return (first_ms, second_ms) if first_ms < second_ms else (first_ms,)

    def repetition(self, epoch_ms: int) -> Repetition | None:
        """Return the repeated times among which what a clock shows at a time is; None if none."""
        if self.is_utc:
            return None
        now = _moment(epoch_ms, self.name)
        overlap = _offset(now.replace(fold=0)) - _offset(now.replace(fold=1))
        if overlap <= _NOTHING:
            return None
        overlap_ms = overlap // _MS
        # Clocks are put back between the last moment before `change_ms`, and that.
        low_ms, change_ms = (
            (epoch_ms - overlap_ms, epoch_ms) if now.fold else (epoch_ms, epoch_ms + overlap_ms)
        )
        before = _offset(now.replace(fold=0))
        while change_ms - low_ms > 1:
            middle_ms = (low_ms + change_ms) // 2
            if _offset(_moment(middle_ms, self.name)) == before:
                low_ms = middle_ms
            else:
                change_ms = middle_ms
        return Repetition(
            first=self.format(change_ms),
            end=self.format(change_ms + overlap_ms),
            ends_ms=change_ms + overlap_ms,
            ahead_ms=overlap_ms if now.fold else 0,
        )


UTC_ZONE = TimeZone("UTC")


def _moment(epoch_ms: int, name: str) -> datetime:
    return (_EPOCH.replace(tzinfo=UTC) + epoch_ms * _MS).astimezone(_zone(name))


def _offset(moment: datetime) -> timedelta:
    offset = moment.utcoffset()
    assert offset is not None, moment
    return offset


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        if name.startswith(_OF_A_MACHINE):
            raise zoneinfo.ZoneInfoNotFoundError(name)
        return zoneinfo.ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise errors.ConfigurationError(
            f"there is no time zone {name!r:.80}, expected a name of the IANA database such as "
            "Europe/Berlin or UTC"
        ) from error
