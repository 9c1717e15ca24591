"""The times of a timeline in local time, through the days on which clocks are changed."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import instants
from hoodie.model.time_zones import UTC_ZONE, TimeZone

BERLIN = TimeZone("Europe/Berlin")
# Put back by half an hour, and by one in the south.
ZONES = [
    BERLIN,
    TimeZone("Australia/Lord_Howe"),
    TimeZone("America/Santiago"),
    # Its winter is what deviates from standard time.
    TimeZone("Europe/Dublin"),
    TimeZone("Africa/Casablanca"),
    UTC_ZONE,
]
QUARTER_MS = 900_000
MOMENTS = st.integers(min_value=10**12, max_value=2 * 10**12)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-07-01T10:00:00.123", "20260701120000123"),
        ("2026-12-01T10:00:00", "20261201110000000"),
        ("2026-10-25T00:59:59.999", "20261025025959999"),
        ("2026-10-25T01:00:00", "20261025020000000"),
        ("2026-10-25T02:00:00", "20261025030000000"),
        ("2026-03-29T00:59:59.999", "20260329015959999"),
        ("2026-03-29T01:00:00", "20260329030000000"),
    ],
)
def test_times_are_what_clocks_show(moment: str, shown: str) -> None:
    assert BERLIN.format(at(moment)) == shown


@given(MOMENTS, st.sampled_from(ZONES))
def test_a_time_is_of_the_moment_that_showed_it_first(moment: int, zone: TimeZone) -> None:
    found = zone.epoch_ms(zone.format(moment))
    repetition = zone.repetition(moment)
    assert moment - found == (repetition.ahead_ms if repetition else 0)


@given(
    st.sampled_from(ZONES),
    st.integers(min_value=2020, max_value=2030),
    st.integers(min_value=0, max_value=365 * 96),
)
def test_times_go_back_when_repeated_times_begin_again_and_never_else(
    zone: TimeZone, year: int, quarter: int
) -> None:
    moment = at(f"{year}-01-01T00:00:00") + quarter * QUARTER_MS
    later = moment + QUARTER_MS
    repetition = zone.repetition(later)
    if zone.format(later) < zone.format(moment):
        assert repetition is not None
        assert repetition.ahead_ms > 0
    if repetition is not None:
        assert repetition.first <= zone.format(later) < repetition.end


@pytest.mark.parametrize(
    ("zone", "first", "change", "end"),
    [
        (BERLIN, "2026-10-25T00:00:00", "2026-10-25T01:00:00", "2026-10-25T02:00:00"),
        (ZONES[1], "2026-04-04T14:30:00", "2026-04-04T15:00:00", "2026-04-04T15:30:00"),
    ],
)
def test_repetition_has_both_hours(zone: TimeZone, first: str, change: str, end: str) -> None:
    length_ms = at(change) - at(first)
    for moment in (at(first), at(first) + 1, at(change) - 1):
        found = zone.repetition(moment)
        assert found is not None
        assert (found.ahead_ms, found.ends_ms) == (0, at(end))
    for moment in (at(change), at(change) + 1, at(end) - 1):
        found = zone.repetition(moment)
        assert found is not None
        assert (found.ahead_ms, found.ends_ms) == (length_ms, at(end))
        assert (found.first, found.end) == (zone.format(at(first)), zone.format(at(end)))
    assert zone.repetition(at(first) - 1) is None
    assert zone.repetition(at(end)) is None


@given(MOMENTS, st.sampled_from(ZONES))
def test_time_has_the_moments_at_which_clocks_show_it(moment: int, zone: TimeZone) -> None:
    found = zone.moments_ms(zone.format(moment))
    assert moment in found
    assert list(found) == sorted({*found})
    assert len(found) == (1 if zone.repetition(moment) is None else 2)
    assert {zone.format(each) for each in found} == {zone.format(moment)}


def test_time_that_is_left_out_has_one_moment() -> None:
    assert BERLIN.moments_ms("20260329023000000") == (at("2026-03-29T01:30:00"),)


@pytest.mark.parametrize(
    ("name", "change", "first", "end"),
    [
        # Another standard time, without daylight saving.
        ("Europe/Volgograd", "2020-12-26T22:00:00", "20201227010000000", "20201227020000000"),
        ("Africa/Juba", "2021-01-31T21:00:00", "20210131230000000", "20210201000000000"),
        ("Europe/Dublin", "2026-10-25T01:00:00", "20261025010000000", "20261025020000000"),
        # Ramadan begins, and clocks are put back.
        ("Africa/Casablanca", "2026-02-15T02:00:00", "20260215020000000", "20260215030000000"),
    ],
)
def test_every_change_of_an_offset_repeats_times(
    name: str, change: str, first: str, end: str
) -> None:
    zone = TimeZone(name)
    for moment, ahead_ms in ((at(change) - 1, 0), (at(change), 3_600_000)):
        found = zone.repetition(moment)
        assert found is not None
        assert (found.first, found.end, found.ahead_ms) == (first, end, ahead_ms)
        assert found.ends_ms == at(change) + 3_600_000
    assert zone.repetition(at(change) + 3_600_000) is None


def test_hour_that_is_left_out_is_not_repeated() -> None:
    assert BERLIN.repetition(at("2026-03-29T00:59:59.999")) is None
    assert BERLIN.repetition(at("2026-03-29T01:00:00")) is None


def test_utc_needs_no_database() -> None:
    assert UTC_ZONE.is_utc
    assert UTC_ZONE.format(at("2026-10-25T01:30:00")) == "20261025013000000"
    assert UTC_ZONE.epoch_ms("20261025013000000") == at("2026-10-25T01:30:00")
    assert UTC_ZONE.repetition(at("2026-10-25T01:30:00")) is None


@pytest.mark.parametrize(
    "name",
    [
        # Another zone on each machine.
        "localtime",
        "posixrules",
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "Factory",
        "",
        "Berlin",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe",
        "a\0b",
        "x" * 5000,
    ],
)
def test_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="expected a name of the IANA database"):
        TimeZone(name).check()


def test_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError):
        BERLIN.epoch_ms("2026")
    assert instants.format_time(0) == UTC_ZONE.format(0)
