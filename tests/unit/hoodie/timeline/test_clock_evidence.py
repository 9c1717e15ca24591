"""What the times of files on the storage say about the clocks of writers."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hoodie.model import instants, table_config
from hoodie.model.instants import Action, Instant, State
from hoodie.model.time_zones import UTC_ZONE, TimeZone
from hoodie.storage.memory import MemoryStorage, MemoryStore
from hoodie.timeline import active, clock_evidence, transitions
from hoodie.timeline.clock_evidence import Shown

BERLIN = TimeZone("Europe/Berlin")
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SUMMER_MS = 1_780_000_000_000
CHANGE_MS = 1_792_890_000_000
"""Clocks are put back from 03:00 to 02:00 in Berlin."""


CONFIG = table_config.TableConfig(name="t", record_key_fields=("id",))


def completed(time: instants.InstantTime) -> Instant:
    return Instant(
        requested_time=instants.format_time(instants.parse_time(time) - 5),
        action=Action.DELTA_COMMIT,
        state=State.COMPLETED,
        completion_time=time,
    )


def written(moments_ms: Sequence[int], zone: TimeZone, copied_ms: int = 0) -> list[Shown]:
    """Return instants that a JVM of a zone completed at some moments, by its clock alone."""
    return [
        Shown(instant=completed(zone.format(ms)), modified_ms=copied_ms or ms + 40)
        for ms in moments_ms
    ]


def hours(first_ms: int, count: int = 10) -> list[int]:
    return [first_ms + number * HOUR_MS for number in range(count)]


@pytest.mark.parametrize(
    ("of", "declared", "ahead_min"),
    [
        (BERLIN, BERLIN, 0),
        (UTC_ZONE, UTC_ZONE, 0),
        (BERLIN, UTC_ZONE, 120),
        (UTC_ZONE, BERLIN, -120),
        (TimeZone("Asia/Kathmandu"), UTC_ZONE, 345),
        (TimeZone("Pacific/Kiritimati"), TimeZone("Pacific/Niue"), 25 * 60),
    ],
)
def test_zone_follows_from_files(of: TimeZone, declared: TimeZone, ahead_min: int) -> None:
    assert clock_evidence.offset_min(written(hours(SUMMER_MS), of), declared) == ahead_min


def test_copied_files_tell_no_zone() -> None:
    moments = hours(SUMMER_MS, 30)
    copied = written(moments, BERLIN, copied_ms=SUMMER_MS + 400 * HOUR_MS)
    assert clock_evidence.offset_min(copied, BERLIN) is None
    chance = random.Random(1)
    late = [
        Shown(instant=each.instant, modified_ms=each.modified_ms + chance.randrange(HOUR_MS))
        for each in written(moments, BERLIN)
    ]
    assert clock_evidence.offset_min(late, BERLIN) is None
    assert clock_evidence.offset_min([], BERLIN) is None


def write_of(began_ms: int, took_ms: int, copied_ms: int = 0) -> Shown:
    """Return a write of a JVM in Berlin, and its files; those of a copy are made in any order."""
    instant = Instant(
        requested_time=BERLIN.format(began_ms),
        action=Action.DELTA_COMMIT,
        state=State.COMPLETED,
        completion_time=BERLIN.format(began_ms + took_ms),
    )
    return Shown(
        instant=instant,
        modified_ms=copied_ms or began_ms + took_ms + 40,
        requested_ms=copied_ms + 30 if copied_ms else began_ms,
    )


@pytest.mark.parametrize("later_ms", [15 * MINUTE_MS, HOUR_MS, 20 * HOUR_MS])
@pytest.mark.parametrize("count", [1, 3])
def test_files_that_were_copied_soon_afterwards_tell_no_zone(count: int, later_ms: int) -> None:
    began = [SUMMER_MS + 20_000 * number for number in range(count)]
    copied = [write_of(each, 6_000, copied_ms=SUMMER_MS + later_ms) for each in began]
    assert clock_evidence.offset_min(copied, BERLIN) is None
    assert clock_evidence.offset_min(copied, UTC_ZONE) is None
    not_copied = [write_of(each, 6_000) for each in began]
    assert clock_evidence.offset_min(not_copied, BERLIN) == 0
    assert clock_evidence.offset_min(not_copied, UTC_ZONE) == 120


def test_quick_writes_tell_their_zone_on_stores_with_whole_seconds() -> None:
    quick = [write_of(SUMMER_MS + 700 * number, 300) for number in range(3)]
    whole = [
        replace(
            each,
            modified_ms=each.modified_ms // 1000 * 1000,
            requested_ms=each.requested_ms // 1000 * 1000,
        )
        for each in quick
    ]
    assert clock_evidence.offset_min(whole, UTC_ZONE) == 120


def test_newest_files_tell_the_zone_of_a_table_that_was_copied_once() -> None:
    old = written(hours(SUMMER_MS, 100), BERLIN, copied_ms=SUMMER_MS + 200 * HOUR_MS)
    new = written(hours(SUMMER_MS + 201 * HOUR_MS, 60), BERLIN)
    assert clock_evidence.offset_min(old + new, BERLIN) == 0
    assert not clock_evidence.of_other_zones(old + new, BERLIN)
    assert not clock_evidence.went_back(old + new, BERLIN)


def test_writer_of_another_zone_is_named() -> None:
    ours = written(hours(SUMMER_MS), BERLIN)
    theirs = written([ms + MINUTE_MS for ms in hours(SUMMER_MS)], UTC_ZONE)
    found = clock_evidence.of_other_zones(ours + theirs, BERLIN)
    assert found == tuple((each.instant, -120) for each in theirs)
    assert not clock_evidence.of_other_zones(ours, BERLIN)


def test_times_that_a_jvm_gives_again_went_back() -> None:
    first = written([CHANGE_MS - 20 * MINUTE_MS, CHANGE_MS - 10 * MINUTE_MS], BERLIN)
    second = written(
        [CHANGE_MS + 10 * MINUTE_MS, CHANGE_MS + 45 * MINUTE_MS, CHANGE_MS + 70 * MINUTE_MS], BERLIN
    )
    found = clock_evidence.went_back([*second, *first], BERLIN)
    # 02:10 and 02:45 of the second hour, after 02:50 of the first.
    assert found == tuple((each.instant, first[1].instant) for each in second[:2])


def test_time_goes_back_behind_one_of_ours_that_was_there_a_moment_ago() -> None:
    (first,) = written([CHANGE_MS - 2_000], BERLIN)
    # Ours goes on from the greatest, and clocks show that time soon.
    ours = Shown(
        instant=completed(instants.next_time(str(first.instant.completion_time))),
        modified_ms=CHANGE_MS + HOUR_MS - 4_000,
    )
    (second,) = written([CHANGE_MS + HOUR_MS - 3_500], BERLIN)
    found = clock_evidence.went_back([first, ours, second], BERLIN)
    assert found == ((second.instant, first.instant),)


def test_write_that_began_at_a_time_that_went_back_is_named_however_late_it_completed() -> None:
    """Its base file is hidden by the one that completed before."""
    (first,) = written([CHANGE_MS - 10 * MINUTE_MS], BERLIN)
    begun_ms, ended_ms = CHANGE_MS + 45 * MINUTE_MS, CHANGE_MS + 70 * MINUTE_MS
    second = Shown(
        instant=Instant(
            requested_time=BERLIN.format(begun_ms),
            action=Action.COMMIT,
            state=State.COMPLETED,
            completion_time=BERLIN.format(ended_ms),
        ),
        modified_ms=ended_ms,
        requested_ms=begun_ms,
    )
    assert clock_evidence.went_back([first, second], BERLIN) == ((second.instant, first.instant),)
    unknown = Shown(instant=second.instant, modified_ms=ended_ms)
    assert not clock_evidence.went_back([first, unknown], BERLIN)


@pytest.mark.parametrize("late_ms", [0, 500, 4 * MINUTE_MS])
def test_file_that_is_there_when_the_repeated_hour_is_over_is_of_its_zone(late_ms: int) -> None:
    (found,) = written([CHANGE_MS + HOUR_MS - 40], BERLIN)
    late = Shown(instant=found.instant, modified_ms=found.modified_ms + late_ms)
    earlier = written(hours(CHANGE_MS - 5 * HOUR_MS, 3), BERLIN)
    assert not clock_evidence.findings([*earlier, late], BERLIN)


def test_table_that_was_written_last_in_the_repeated_hour_is_of_its_zone() -> None:
    found = written([CHANGE_MS + number * MINUTE_MS for number in range(55)], BERLIN)
    assert clock_evidence.offset_min(found, BERLIN) == 0
    assert clock_evidence.offset_min(found, UTC_ZONE) == 60


def test_times_of_ours_in_the_repeated_hour_do_not_go_back() -> None:
    floor = instants.parse_time(BERLIN.format(CHANGE_MS - 1))
    ours = [
        Shown(
            instant=completed(instants.format_time(floor + number)),
            modified_ms=CHANGE_MS + number * 10 * MINUTE_MS,
        )
        for number in range(6)
    ]
    later = written(hours(CHANGE_MS + HOUR_MS), BERLIN)
    assert not clock_evidence.went_back([*ours, *later], BERLIN)
    assert not clock_evidence.of_other_zones([*later, *ours], BERLIN)


def test_files_that_are_as_old_as_far_as_stores_can_tell_are_in_order() -> None:
    times = [SUMMER_MS, SUMMER_MS - 1_500]
    found = [
        Shown(instant=completed(UTC_ZONE.format(ms)), modified_ms=SUMMER_MS + number)
        for number, ms in enumerate(times)
    ]
    assert not clock_evidence.went_back(found, UTC_ZONE)
    slow = [found[0], Shown(instant=found[1].instant, modified_ms=SUMMER_MS + 2_001)]
    assert clock_evidence.went_back(slow, UTC_ZONE) == ((found[1].instant, found[0].instant),)


def test_instants_before_all_times_are_passed_by() -> None:
    found = written(hours(SUMMER_MS), UTC_ZONE)
    odd = Instant(
        requested_time=instants.InstantTime("00000000000000001"),
        action=Action.COMMIT,
        state=State.COMPLETED,
        completion_time=instants.InstantTime("00000000000000002"),
    )
    shown = [Shown(instant=odd, modified_ms=SUMMER_MS + 5 * HOUR_MS), *found]
    assert not clock_evidence.went_back(shown, UTC_ZONE)
    assert not clock_evidence.of_other_zones(shown, UTC_ZONE)
    assert clock_evidence.offset_min(shown, UTC_ZONE) == 0


def test_findings_say_what_is_wrong_in_the_order_of_completion() -> None:
    ours = written(hours(SUMMER_MS), BERLIN)
    (theirs,) = written([SUMMER_MS + HOUR_MS + MINUTE_MS], UTC_ZONE)
    late = Shown(instant=ours[2].instant, modified_ms=ours[2].modified_ms + 52 * MINUTE_MS)
    found = sorted([*ours[:2], theirs, late, *ours[3:]], key=lambda each: each.modified_ms)
    # 52 min late: no time of the zone, and none of another.
    assert [each for each, _ in clock_evidence.findings(found, BERLIN)] == [theirs.instant]
    near = Shown(instant=ours[2].instant, modified_ms=ours[2].modified_ms + 4 * MINUTE_MS)
    between = written([SUMMER_MS + 2 * HOUR_MS + 2 * MINUTE_MS], BERLIN)
    texts = dict(clock_evidence.findings([*ours[:2], theirs, *between, near], BERLIN))
    assert list(texts) == [theirs.instant, near.instant]
    assert "120 min behind Europe/Berlin" in texts[theirs.instant]
    assert (
        f"began or completed after {between[0].instant}, with an earlier time"
        in texts[near.instant]
    )


@pytest.mark.parametrize(("action", "count"), [(Action.CLEAN, 0), (Action.COMMIT, 1)])
def test_service_without_rows_may_end_late(action: Action, count: int) -> None:
    """It lost its lock right before its completed file was there, and a writer came between."""
    times = (SUMMER_MS, SUMMER_MS - 1_000)
    between, late = (completed(UTC_ZONE.format(ms)) for ms in times)
    found = [
        Shown(instant=between, modified_ms=SUMMER_MS),
        Shown(instant=replace(late, action=action), modified_ms=SUMMER_MS + 3_000),
    ]
    assert len(clock_evidence.findings(found, UTC_ZONE)) == count


def test_files_of_a_table_are_those_of_its_timeline() -> None:
    storage = MemoryStorage(MemoryStore())
    instant = completed(UTC_ZONE.format(SUMMER_MS))
    for state in (State.REQUESTED, State.INFLIGHT):
        storage.create(transitions.path(instant.pending_in(state)), b"")
    storage.create(transitions.path(instant), b"{}")
    (found,) = clock_evidence.of_table(storage, active.listed(storage))
    assert found.instant == instant
    assert found.modified_ms == storage.stat(transitions.path(instant)).modified_ms
    requested = transitions.path(instant.pending_in(State.REQUESTED))
    assert found.requested_ms == storage.stat(requested).modified_ms


def test_when_a_plan_was_requested_is_not_known() -> None:
    """Who executes it again may request it again."""
    storage = MemoryStorage(MemoryStore())
    plan = Instant(
        requested_time=UTC_ZONE.format(SUMMER_MS), action=Action.CLEAN, state=State.REQUESTED
    )
    done = completed(UTC_ZONE.format(SUMMER_MS))
    storage.create(transitions.path(plan), b"{}")
    path = transitions.path(replace(done, action=Action.CLEAN))
    storage.create(path, b"{}")
    (found,) = clock_evidence.of_table(storage, active.listed(storage))
    assert not found.requested_ms


def upgraded_instants(upgrade_ms: int) -> list[Shown]:
    """Return instants of a table that was upgraded: its writes, and not a clean between them."""
    first_ms = upgrade_ms - 45_000

    def write(began_ms: int, took_ms: int, at_ms: tuple[int, int]) -> Shown:
        instant = Instant(
            requested_time=UTC_ZONE.format(began_ms),
            action=Action.COMMIT,
            state=State.COMPLETED,
            completion_time=UTC_ZONE.format(began_ms + took_ms),
        )
        return Shown(instant=instant, requested_ms=at_ms[0], modified_ms=at_ms[1])

    clean_ms = first_ms + 30_000
    clean = replace(completed(UTC_ZONE.format(clean_ms)), action=Action.CLEAN)
    return [
        write(first_ms, 4_500, (upgrade_ms, upgrade_ms + 30)),
        write(first_ms + 14_000, 2_000, (upgrade_ms + 31, upgrade_ms + 60)),
        Shown(instant=clean, modified_ms=clean_ms),
        write(first_ms + 38_000, 1_500, (upgrade_ms + 61, upgrade_ms + 62)),
        write(upgrade_ms + 9_000, 800, (upgrade_ms + 9_000, upgrade_ms + 9_800)),
    ]


def test_instants_that_an_upgrade_has_written_again_tell_nothing() -> None:
    """Seed 611 of the random tables: its commits seemed to be later than a clean before them."""
    found = upgraded_instants(SUMMER_MS)
    assert len(clock_evidence.went_back(found, UTC_ZONE)) == 2
    left = clock_evidence.without_rewritten(found)
    assert [found.index(each) for each in left] == [2, 4]
    assert not clock_evidence.findings(left, UTC_ZONE)


def test_upgraded_table_is_one_whose_first_version_is_older() -> None:
    for version, was_upgraded in (("6", True), ("8", False), ("9", False), ("", False)):
        properties = {"hoodie.table.initial.version": version}
        assert replace(CONFIG, properties=properties).was_upgraded is was_upgraded
