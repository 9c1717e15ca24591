"""Times relative to now, as people write them.

    now, just now       now
    SPAN ago            `16 min ago`, `2 h 30 min ago`, `an hour ago`; days have 24 hours
    today, yesterday    as clocks show it in a time zone: midnight, or `yesterday 14:30`

Spans are whole numbers with units, from seconds to weeks.
"""

import re
from datetime import UTC, datetime, time, timedelta

from hoodie.model import time_zones

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = {
    1: ("s", "sec", "secs", "second", "seconds"),
    60: ("m", "min", "mins", "minute", "minutes"),
    3_600: ("h", "hour", "hours"),
    86_400: ("d", "day", "days"),
    604_800: ("w", "week", "weeks"),
}
_UNITS_MS = {unit: seconds * 1_000 for seconds, units in _SECONDS.items() for unit in units}
_COUNT = r"(?P<count>\d{1,9}|\d{1,3}(?:,\d{3}){1,2}|an?(?= ))"
_PART = re.compile(
    rf"{_COUNT} ?(?P<unit>{'|'.join(_UNITS_MS)})(?![a-z])(?: and |, ?| |(?=\d)|$)", re.ASCII
)
_DAY = re.compile(
    r"(?P<day>today|yesterday)(?:(?: at)? (?P<clock>\d{1,2}(?::\d\d){1,2}))?", re.ASCII
)


def parse(text: str, zone: time_zones.TimeZone, now_ms: int) -> datetime | None:
    """Return the time that a text means; None if it is no text of this kind.

    Args:
        text: As the module says; upper and lower case are the same.
        zone: Where it is today or yesterday.
        now_ms: The time, in milliseconds since the epoch.

    Returns:
        With a time zone; of days without one, as clocks show it in `zone`.
    """
    words = " ".join(text.lower().split())
    if words in {"now", "just now"}:
        return _EPOCH + timedelta(milliseconds=now_ms)
    if words.endswith("ago"):
        elapsed_ms = span_ms(words.removesuffix("ago"))
        # Before 1970 there was no table.
        since_ms = None if elapsed_ms is None else max(0, now_ms - elapsed_ms)
        return None if since_ms is None else _EPOCH + timedelta(milliseconds=since_ms)
    found = _DAY.fullmatch(words)
    if found is None:
        return None
    hour, minute, second = (*map(int, (found["clock"] or "0:0").split(":")), 0)[:3]
    try:
        clock = time(hour, minute, second)
    except ValueError:
        return None
    today = (_EPOCH + timedelta(milliseconds=zone.shown_ms(now_ms))).date()
    days = timedelta(days=found["day"] == "yesterday")
    return datetime.combine(today - days, clock)


def span_ms(text: str) -> int | None:
    """Return the milliseconds of a span, such as `90s` or `2 h 30 min`; None if it is none."""
    words = " ".join(text.lower().split())
    total_ms = position = 0
    while found := _PART.match(words, position):
        count = 1 if found["count"].startswith("a") else int(found["count"].replace(",", ""))
        total_ms += count * _UNITS_MS[found["unit"]]
        position = found.end()
    return total_ms if words and position == len(words) else None
