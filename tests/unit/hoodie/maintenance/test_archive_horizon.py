"""How much of the archive is needed: each bound at its boundary, and what is no bound (AR-G)."""

from dataclasses import replace

import pytest

from hoodie import errors
from hoodie.maintenance.archiving import horizon
from hoodie.maintenance.archiving.horizon import Facts, Horizon
from hoodie.maintenance.archiving.planning import HISTORY_DAYS_MIN, Policy, Reason
from hoodie.model import files, instants
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import active

LATEST = 50


def time(number: int) -> InstantTime:
    return InstantTime(f"20260101000000{number:03d}")


def done(number: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(
        requested_time=time(number),
        action=action,
        state=State.COMPLETED,
        completion_time=time(number + 1),
    )


def pending(number: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(requested_time=time(number), action=action, state=State.INFLIGHT)


def group(number: int = 0) -> files.FileGroupId:
    return files.FileGroupId("p", f"g{number}")


def base(number: int, of: int = 0, token: str = "0-0-0") -> files.BaseFile:
    return files.BaseFile(
        group=group(of),
        name=f"g{of}_{token}_{time(number)}.parquet",
        instant_time=time(number),
        write_token=token,
        size_bytes=1,
    )


def log(number: int, of: int = 0) -> files.LogFile:
    return files.LogFile(
        group=group(of),
        name=f".g{of}_{time(number)}.log.1_0-0-0",
        instant_time=time(number),
        version=1,
        write_token="0-0-0",
        size_bytes=1,
    )


def of(*found: Instant, **facts: object) -> Horizon:
    timeline = active.from_files(found or (done(80),))
    given = {"timeline": timeline, "rolled_back": {}, "retained": {}} | facts
    return horizon.horizon_of(Facts(**given), time(LATEST))  # type: ignore[arg-type] # by name


def reasons(found: Horizon) -> list[Reason]:
    return [each.reason for each in found.holds]


def test_policy_alone_decides_where_nothing_is_older() -> None:
    assert of(done(80), data_files=[base(60), log(70)]) == Horizon(time=time(LATEST))


def test_table_without_a_write_on_its_timeline_keeps_all() -> None:
    found = of(done(80, Action.CLEAN))
    assert found.time == ""
    assert reasons(found) == [Reason.TIMELINE]


@pytest.mark.parametrize("action", [Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT])
def test_first_write_on_the_timeline_is_not_passed(action: Action) -> None:
    found = of(done(20, action), done(80))
    assert found.time == time(20)
    assert reasons(found) == [Reason.TIMELINE]


def test_write_that_a_savepoint_keeps_is_not_passed() -> None:
    """From the first write on the archive says which others were archived (SP6)."""
    found = of(done(20), done(20, Action.SAVEPOINT), done(80))
    assert found.time == time(20)


@pytest.mark.parametrize(
    "action",
    [Action.COMMIT, Action.COMPACTION, Action.CLUSTERING, Action.CLEAN, Action.ROLLBACK],
)
def test_pending_instant_is_not_passed(action: Action) -> None:
    found = of(pending(20, action), done(80))
    assert found.time == time(20)
    assert Reason.PENDING in reasons(found)


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.SAVEPOINT])
def test_completed_instant_that_is_no_write_holds_nothing_back(action: Action) -> None:
    assert of(done(20, action), done(80)).time == time(LATEST)


def test_file_of_an_archived_instant_is_not_passed() -> None:
    """AR-E: without the archive it would look pending."""
    timeline = replace(active.from_files([done(80)]), remains=(pending(20),))
    found = of(timeline=timeline)
    assert found.time == time(20)
    assert reasons(found) == [Reason.PENDING]


def test_target_of_a_rollback_is_not_passed() -> None:
    found = of(rolled_back={time(90): time(20), time(91): time(60)})
    assert found.time == time(20)
    assert reasons(found) == [Reason.ROLLBACK]


def test_rollback_that_cannot_be_read_keeps_all() -> None:
    assert of(rolled_back={time(90): None}).time == ""


def test_commit_that_another_engine_s_clean_retained_is_not_passed() -> None:
    found = of(retained={time(90): time(20)})
    assert found.time == time(20)
    assert reasons(found) == [Reason.CLEAN_RETAINS]


def test_clean_of_ours_holds_nothing_back() -> None:
    """It says up to which completion time it deleted."""
    assert of(retained={time(90): None}).time == time(LATEST)


def test_oldest_log_file_is_not_passed() -> None:
    found = of(data_files=[log(60), log(30), log(20, of=1), base(10)])
    assert found.time == time(20)
    assert reasons(found) == [Reason.LOG_FILE]
    assert ".g1_" in found.holds[0].text


def test_one_old_base_file_of_each_file_group_is_passed() -> None:
    assert of(data_files=[base(10), base(60), base(20, of=1)]).time == time(LATEST)


def test_second_oldest_base_file_of_a_file_group_is_not_passed() -> None:
    found = of(data_files=[base(10), base(40), base(45), base(20, of=1), base(30, of=1)])
    assert found.time == time(30)
    assert reasons(found) == [Reason.BASE_FILES]


def test_base_files_of_several_tasks_of_one_write_are_one() -> None:
    """Which of them counts is what the commit names, and not its completion time."""
    assert of(data_files=[base(10), base(10, token="1-0-0")]).time == time(LATEST)


def test_lowest_bound_counts_and_all_are_shown() -> None:
    found = of(done(40), data_files=[log(30), base(10), base(20)])
    assert found.time == time(20)
    assert reasons(found) == [Reason.BASE_FILES, Reason.LOG_FILE, Reason.TIMELINE]


def test_bound_at_the_latest_horizon_holds_nothing_back() -> None:
    assert of(data_files=[log(LATEST)]) == Horizon(time=time(LATEST))


def test_days_are_measured_from_the_time_that_has_passed() -> None:
    now = instants.parse_time("20260131120000000")
    assert horizon.wanted(instants.format_time(now), 30) == "20260101120000000"
    assert horizon.wanted(instants.format_time(1), 7) == instants.format_time(0)


@pytest.mark.parametrize("days", [0, HISTORY_DAYS_MIN - 1])
def test_history_of_a_few_days_is_refused(days: int) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"{days} days of history: expected 7"):
        Policy(history_days=days).check()
    Policy(history_days=HISTORY_DAYS_MIN).check()
