"""Whether a window of a policy is open, and when the next one opens."""

import datetime
import zoneinfo
from collections.abc import Iterator

from hoodie_operator.api import service_policy

_WEEK = tuple(service_policy.Day)
_DAYS_AHEAD = 9
"""Every window opens once in so many days from yesterday on."""


def refusal(rules: service_policy.Schedule) -> str | None:
    """Return what is wrong with the time zone of windows; None for nothing."""
    try:
        zoneinfo.ZoneInfo(rules.time_zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return (
            f"spec.timeZone is {rules.time_zone}, expected a time zone such as Europe/Berlin or UTC"
        )
    return None


def next_opening_ms(rules: service_policy.Schedule, now_ms: int) -> int | None:
    """Return when the next window opens; None while one is open, and where there are none."""
    if rules.windows is None:
        return None
    openings = []
    for begin_ms, end_ms in _intervals(rules, now_ms):
        if begin_ms <= now_ms < end_ms:
            return None
        if begin_ms > now_ms:
            openings.append(begin_ms)
    return min(openings)


def _intervals(rules: service_policy.Schedule, now_ms: int) -> Iterator[tuple[int, int]]:
    zone = zoneinfo.ZoneInfo(rules.time_zone)
    today = datetime.datetime.fromtimestamp(now_ms / 1000, zone).date()
    for offset in range(-1, _DAYS_AHEAD):
        day = today + datetime.timedelta(days=offset)
        for window in rules.windows or ():
            if window.days is not None and _WEEK[day.weekday()] not in window.days:
                continue
            is_over_midnight = window.end <= window.start
            last_day = day + datetime.timedelta(days=1) if is_over_midnight else day
            begin = _moment(day, window.start, zone)
            end = _moment(last_day, window.end, zone)
            # Where summer time begins, the start may come to lie after the end.
            yield begin, end if end > begin else begin + _length_ms(window)


def _length_ms(window: service_policy.Window) -> int:
    """Return how long a window that opens and closes on one day is open."""
    start, end = map(datetime.time.fromisoformat, (window.start, window.end))
    return ((end.hour - start.hour) * 60 + end.minute - start.minute) * 60_000


def _moment(day: datetime.date, time: str, zone: zoneinfo.ZoneInfo) -> int:
    at = datetime.datetime.combine(day, datetime.time.fromisoformat(time), tzinfo=zone)
    return round(at.timestamp() * 1000)
