"""Times that grow in the order of the lock (T1 to T3, protocol.md: Time)."""

import dataclasses

import pytest

from hoodie import errors
from hoodie.model import instants
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.model.settings import FutureTime, WriteSettings
from hoodie.model.time_zones import TimeZone
from hoodie.timeline import active, true_time
from support.simulation import schedule

NOW_MS = schedule.EPOCH_MS
OURS_ONLY = WriteSettings(clock_wait_ms=0, clock_skew_ms_max=200)
BESIDE_JVM = WriteSettings(clock_wait_ms=200, clock_skew_ms_max=200)


def at(offset_ms: int) -> InstantTime:
    return instants.format_time(NOW_MS + offset_ms)


def timeline_at(*offsets_ms: int) -> active.ActiveTimeline:
    return active.from_files(
        Instant(requested_time=at(offset), action=Action.DELTA_COMMIT, state=State.REQUESTED)
        for offset in offsets_ms
    )


def generator(
    settings: WriteSettings, offset_ms: int = 0
) -> tuple[true_time.TimeGenerator, schedule.VirtualClock]:
    clock = schedule.VirtualClock(schedule.Schedule(), offset_ms)
    return true_time.TimeGenerator(clock, settings), clock


def test_time_is_the_clock_when_the_timeline_is_behind() -> None:
    times, clock = generator(OURS_ONLY)
    assert times.generate(timeline_at(-500)) == at(0)
    assert clock.now_ms() == NOW_MS


def test_two_times_in_one_millisecond_differ() -> None:
    """T-L24: by the timeline, whichever process gives them."""
    times, _ = generator(OURS_ONLY)
    assert times.generate(timeline_at()) == at(0)
    assert times.generate(timeline_at(0)) == at(1)
    assert generator(OURS_ONLY)[0].generate(timeline_at(0, 1)) == at(2)


def test_clock_that_lags_within_the_skew_follows_the_timeline() -> None:
    """T-L22."""
    times, clock = generator(OURS_ONLY)
    assert times.generate(timeline_at(200)) == at(201)
    assert clock.now_ms() == NOW_MS
    assert times.suspect is None


def test_clock_that_lags_beyond_the_skew_fails_loudly() -> None:
    """T-L22, T-L23."""
    times, _ = generator(OURS_ONLY)
    with pytest.raises(errors.ClockSkewError, match=rf"lags {at(201)} .* by 201 ms.*{at(201)}"):
        times.generate(timeline_at(-5, 201))


def test_future_time_is_followed_where_that_is_configured() -> None:
    """T-L23: with the first instant that is ahead as the suspect."""
    advance = dataclasses.replace(OURS_ONLY, future_time=FutureTime.ADVANCE)
    times, clock = generator(advance)
    timeline = timeline_at(-5, 3_600_000, 3_600_009)
    assert times.generate(timeline) == at(3_600_010)
    assert times.suspect is not None
    assert times.suspect.requested_time == at(3_600_000)
    assert clock.now_ms() == NOW_MS


def test_beside_jvm_writers_the_skew_is_waited_out() -> None:
    times, clock = generator(BESIDE_JVM)
    assert times.generate(timeline_at()) == at(0)
    assert clock.now_ms() == NOW_MS + 200


def test_beside_jvm_writers_our_own_clock_passes_a_time_ahead_of_it_before_we_let_go() -> None:
    times, clock = generator(BESIDE_JVM)
    assert times.generate(timeline_at(150)) == at(151)
    assert clock.now_ms() >= NOW_MS + 151 + 200


def test_times_of_skewed_clocks_grow_in_the_order_of_the_lock() -> None:
    """T-L21: three hosts within the skew."""
    world = schedule.Schedule(3)
    hosts = [
        true_time.TimeGenerator(schedule.VirtualClock(world, offset), OURS_ONLY)
        for offset in (-90, 0, 90)
    ]
    given: list[InstantTime] = []
    for _ in range(200):
        files = [
            Instant(requested_time=time, action=Action.DELTA_COMMIT, state=State.REQUESTED)
            for time in given[-2:]
        ]
        given.append(world.random.choice(hosts).generate(active.from_files(files)))
        world.advance(world.random.randint(0, 3))
    assert given == sorted(set(given))


@pytest.mark.parametrize("floor", ["99991231235959999", "20261399000000000"])
def test_time_that_nothing_can_follow_is_a_format_error(floor: str) -> None:
    with pytest.raises(errors.FormatError, match=floor):
        true_time.next_reading(NOW_MS, InstantTime(floor), OURS_ONLY)


def test_bootstrap_times_of_hudi_are_below_every_clock() -> None:
    reading = true_time.next_reading(NOW_MS, InstantTime("00000000000000002"), OURS_ONLY)
    assert reading.time == at(0)


BERLIN = TimeZone("Europe/Berlin")
CHANGE_MS = 1_792_890_000_000
"""Clocks are put back from 03:00 to 02:00 on 2026-10-25."""


class FixedClock(schedule.VirtualClock):
    """A clock at a moment since the epoch."""

    def __init__(self, now_ms: int) -> None:
        super().__init__(schedule.Schedule(), now_ms - NOW_MS)


def local_timeline(*times: str) -> active.ActiveTimeline:
    return active.from_files(
        Instant(requested_time=InstantTime(each), action=Action.DELTA_COMMIT, state=State.REQUESTED)
        for each in times
    )


def local_generator(offset_ms: int) -> true_time.TimeGenerator:
    return true_time.TimeGenerator(FixedClock(CHANGE_MS + offset_ms), OURS_ONLY, BERLIN)


def test_local_times_are_those_of_the_zone() -> None:
    assert local_generator(-1).generate(timeline_at()) == "20261025025959999"
    assert local_generator(0).generate(timeline_at()) == "20261025020000000"
    assert local_generator(3_600_000).generate(timeline_at()) == "20261025030000000"


def test_times_of_ours_go_on_through_the_repeated_hour() -> None:
    newest = "20261025025959999"
    for offset_ms in (0, 1_800_000, 3_599_999):
        times = local_generator(offset_ms)
        newest = times.generate(local_timeline("20261025020000000", newest))
        assert times.suspect is None
    assert newest == "20261025030000002"
    assert local_generator(3_600_001).generate(local_timeline(newest)) == "20261025030000003"


@pytest.mark.parametrize("offset_ms", [0, 1_800_000])
def test_clock_that_lags_by_more_than_the_repeated_hour_fails(offset_ms: int) -> None:
    floor = instants.format_time(instants.parse_time("20261025030000201") + offset_ms)
    with pytest.raises(errors.ClockSkewError, match="the table's times are those of Europe/Berlin"):
        local_generator(offset_ms).generate(local_timeline(floor))


@pytest.mark.parametrize("offset_ms", [-1, 3_600_001])
def test_clock_that_lags_in_any_other_hour_fails(offset_ms: int) -> None:
    ahead = BERLIN.shown_ms(CHANGE_MS + offset_ms) + 1_000
    with pytest.raises(errors.ClockSkewError):
        local_generator(offset_ms).generate(local_timeline(instants.format_time(ahead)))


def test_wait_for_other_clocks_is_measured_in_the_zone() -> None:
    clock = FixedClock(CHANGE_MS - 7_200_000)
    times = true_time.TimeGenerator(clock, OURS_ONLY, BERLIN)
    times.wait_out(BERLIN.format(CHANGE_MS - 7_200_000 + 100))
    assert clock.now_ms() == CHANGE_MS - 7_200_000 + 301
