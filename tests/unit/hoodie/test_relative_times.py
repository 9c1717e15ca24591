"""Times relative to now, as people write them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.cli import quantities
from hoodie.model import relative_times, time_zones

NOW_MS = 1_795_953_600_000
NOW = datetime.fromtimestamp(NOW_MS / 1000, tz=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("36h", 129_600),
        ("7d", 604_800),
        ("2 weeks", 1_209_600),
        ("an hour", 3_600),
        ("1 day", 86_400),
        ("2 h 30 min", 9_000),
        ("2h30m", 9_000),
        ("1 minute and 5 seconds", 65),
        ("1 DAY, 2 Hours", 93_600),
        ("1,200 days", 103_680_000),
    ],
)
def test_spans(text: str, seconds: int) -> None:
    assert relative_times.span_ms(text) == seconds * 1_000
    assert relative_times.parse(f" {text}  ago ", time_zones.UTC_ZONE, NOW_MS) == NOW - timedelta(
        seconds=seconds
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "d",
        "-1 h",
        "1.5 h",
        "2 h and",
        "3 fortnights",
        "2 hx",
        "1234567890 s",
        "ah",
        "1,0 s",
    ],
)
def test_what_is_no_span(text: str) -> None:
    assert relative_times.span_ms(text) is None
    assert relative_times.parse(f"{text} ago", time_zones.UTC_ZONE, NOW_MS) is None


@pytest.mark.parametrize("text", ["", "ago", "tomorrow", "yesterday 24:00", "today 9", "20261121"])
def test_what_is_no_relative_time(text: str) -> None:
    assert relative_times.parse(text, time_zones.UTC_ZONE, NOW_MS) is None


def test_days_are_those_of_the_zone() -> None:
    zone = time_zones.TimeZone("Pacific/Auckland")
    today = (NOW + timedelta(hours=13)).date()
    found = relative_times.parse("yesterday 9:30", zone, NOW_MS)
    assert found == datetime.combine(today - timedelta(days=1), datetime.min.time()).replace(
        hour=9, minute=30
    )


@given(st.integers(min_value=0, max_value=NOW_MS))
def test_ages_are_taken_as_they_are_shown(elapsed_ms: int) -> None:
    """What `hoodie timeline` shows of an instant names a time at or shortly after it."""
    found = relative_times.parse(quantities.ago_text(elapsed_ms), time_zones.UTC_ZONE, NOW_MS)
    assert found is not None
    assert timedelta() <= found - (NOW - timedelta(milliseconds=elapsed_ms)) < timedelta(days=1)
