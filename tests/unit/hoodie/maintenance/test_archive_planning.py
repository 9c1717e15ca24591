"""Which instants are archived, at every boundary, and what holds the others back (T-X08)."""

import pytest

from hoodie import errors
from hoodie.maintenance.archiving import planning
from hoodie.maintenance.archiving.planning import Facts, LastClean, Plan, Policy, Reason
from hoodie.model.instants import Action, Instant, InstantTime, State
from hoodie.timeline import active

POLICY = Policy(commits_min=2, commits_max=3, compaction_delta_commits=2)
ALL_GO = {"is_copy_on_write": True}


def time(number: int) -> InstantTime:
    return InstantTime(f"20260101000000{number:03d}")


def done(number: int, action: Action = Action.COMMIT, completed: int | None = None) -> Instant:
    return Instant(
        requested_time=time(number),
        action=action,
        state=State.COMPLETED,
        completion_time=time(number + 1 if completed is None else completed),
    )


def pending(number: int, action: Action = Action.COMMIT) -> Instant:
    return Instant(requested_time=time(number), action=action, state=State.INFLIGHT)


def commits(*numbers: int) -> list[Instant]:
    return [done(number) for number in numbers]


def plan(*files: Instant, policy: Policy = POLICY, **facts: object) -> Plan:
    found = Facts(timeline=active.from_files(files), **(ALL_GO | facts))  # type: ignore[arg-type]
    return planning.plan_of(found, policy)


def numbers(found: Plan) -> list[int]:
    return [int(each.requested_time[-3:]) for each in found.chosen]


def reasons(found: Plan) -> set[Reason]:
    return {each.reason for each in found.holds}


SIX = commits(10, 20, 30, 40, 50, 60)


def test_nothing_goes_while_there_are_as_many_as_may_stay() -> None:
    found = plan(*commits(10, 20, 30))
    assert numbers(found) == []
    assert found.archived_below == ""
    assert [each.text for each in found.holds] == [
        "the timeline has 3 commits, and up to 3 may stay"
    ]


def test_one_more_than_may_stay_and_only_the_least_are_left() -> None:
    found = plan(*commits(10, 20, 30, 40))
    assert numbers(found) == [10, 20]
    assert found.archived_below == time(30)
    assert found.holds == ()


@pytest.mark.parametrize(
    ("pending_at", "gone"),
    [(5, []), (15, []), (25, [10]), (45, [10, 20, 30]), (70, [10, 20, 30, 40])],
)
@pytest.mark.parametrize("action", [Action.COMMIT, Action.COMPACTION, Action.CLUSTERING])
def test_newest_commit_before_the_oldest_pending_write_stays(
    pending_at: int, gone: list[int], action: Action
) -> None:
    """What is older than the first write that is left counts as completed: not the pending one."""
    found = plan(*SIX, pending(pending_at, action), pending(80))
    assert numbers(found) == gone
    assert (Reason.PENDING in reasons(found)) == (pending_at < 70)


@pytest.mark.parametrize("action", [Action.CLEAN, Action.ROLLBACK, Action.INDEXING])
def test_pending_actions_that_write_no_data_hold_nothing_back(action: Action) -> None:
    found = plan(*SIX, pending(5, action))
    assert numbers(found) == [10, 20, 30, 40]


def test_commit_that_a_pending_write_has_not_seen_stays() -> None:
    """It began before the pending one, and completed after: the two may conflict."""
    slow = done(20, completed=48)
    found = plan(*commits(10, 30, 40, 45), slow, pending(46), *commits(50, 60, 70))
    assert numbers(found) == [10]
    assert Reason.OVERLAPPING in reasons(found)


def test_commit_that_a_pending_write_has_seen_goes() -> None:
    found = plan(*commits(10, 30, 40, 44), done(20, completed=45), pending(46), *commits(50, 60))
    assert numbers(found) == [10, 20, 30, 40]


def test_write_that_completed_last_stays_though_others_were_requested_later() -> None:
    """WR1: its record of batches is the newest, and theirs lack its batch (`retained:143`)."""
    found = plan(*commits(10, 20), done(30, completed=95), *commits(40, 50, 60, 70))
    assert numbers(found) == [10, 20]
    assert Reason.LAST_COMPLETED in reasons(found)


@pytest.mark.parametrize(("left", "gone"), [(5, []), (25, [10]), (70, [10, 20, 30, 40])])
def test_files_that_are_not_swept_are_not_passed(left: int, gone: list[int]) -> None:
    found = plan(*SIX, not_swept={time(left), time(90)})
    assert numbers(found) == gone
    assert (Reason.NOT_SWEPT in reasons(found)) == (left < 70)


@pytest.mark.parametrize(("saved", "gone"), [(10, []), (30, [10, 20]), (50, [10, 20, 30, 40])])
def test_first_savepoint_blocks_all_that_is_not_older(saved: int, gone: list[int]) -> None:
    found = plan(*SIX, done(saved, Action.SAVEPOINT), done(60, Action.SAVEPOINT))
    assert numbers(found) == gone
    assert (Reason.SAVEPOINT in reasons(found)) == (saved < 50)


REPLACED = [*commits(10, 20), done(30, Action.REPLACE_COMMIT), *commits(40, 50, 60)]


def test_replace_commit_of_a_table_that_was_never_cleaned_stays() -> None:
    found = plan(*REPLACED)
    assert numbers(found) == [10, 20]
    assert reasons(found) == {Reason.NOT_CLEANED}


@pytest.mark.parametrize(
    ("clean", "gone"),
    [
        (LastClean(requested_time=time(61), earliest_retained=time(30)), []),
        (LastClean(requested_time=time(61), earliest_retained=time(40)), [10, 20]),
        (LastClean(requested_time=time(61), earliest_retained=time(50)), [10, 20, 30]),
        (LastClean(requested_time=time(61), earliest_retained=time(55)), [10, 20, 30]),
        (LastClean(requested_time=time(61), earliest_retained=None), [10, 20, 30, 40]),
        (LastClean(requested_time=time(30), earliest_retained=None), [10, 20]),
        (
            LastClean(requested_time=time(61), earliest_retained=time(55), savepoints=(time(25),)),
            [10, 20],
        ),
    ],
)
def test_replace_commit_goes_once_its_files_are_cleaned(clean: LastClean, gone: list[int]) -> None:
    """Of the commits from the retained one on, and of one before it, none goes."""
    found = plan(*REPLACED, done(61, Action.CLEAN), last_clean=clean)
    assert numbers(found) == gone


@pytest.mark.parametrize(("bound", "gone"), [(31, [10, 20]), (32, [10, 20, 30, 40])])
def test_replace_commit_goes_once_it_is_behind_the_bound_of_a_clean(
    bound: int, gone: list[int]
) -> None:
    """A clean that counts versions leaves its readers a grace, too."""
    clean = LastClean(requested_time=time(61), earliest_retained=None, bound=time(bound))
    assert numbers(plan(*REPLACED, done(61, Action.CLEAN), last_clean=clean)) == gone


@pytest.mark.parametrize(
    ("files", "savepoints"),
    [((done(35, Action.SAVEPOINT, 39),), ()), ((), (time(35),))],
    ids=["there", "deleted since the clean"],
)
def test_replace_commit_that_completed_after_a_saved_commit_stays(
    files: tuple[Instant, ...], savepoints: tuple[InstantTime, ...]
) -> None:
    """The savepoint keeps what it retired, though it was requested earlier."""
    late = [*commits(10, 20), done(30, Action.REPLACE_COMMIT, 45), *commits(35, 50, 60)]
    clean = LastClean(
        requested_time=time(61), earliest_retained=None, bound=time(60), savepoints=savepoints
    )
    found = plan(*late, *files, done(61, Action.CLEAN), last_clean=clean)
    assert numbers(found) == [10, 20]


def test_savepoint_that_was_only_begun_keeps_nothing() -> None:
    assert numbers(plan(*SIX, pending(20, Action.SAVEPOINT))) == [10, 20, 30, 40]


def test_clean_that_retains_more_raises_both_bounds() -> None:
    clean = LastClean(requested_time=time(61), earliest_retained=time(30))
    few = plan(*SIX, last_clean=clean)
    assert numbers(few) == []
    assert reasons(few) == {Reason.TOO_FEW, Reason.CLEAN_RETAINS}
    many = plan(*commits(1, 2), *SIX, last_clean=clean)
    assert numbers(many) == [1, 2, 10]


DELTAS = [done(number, Action.DELTA_COMMIT) for number in (10, 20, 30, 40, 50, 60)]


@pytest.mark.parametrize(
    ("compacted", "trigger", "gone"),
    [
        ((), 2, [10, 20, 30, 40]),
        ((), 3, [10, 20, 30]),
        ((), 6, []),
        ((), 7, []),
        ((35,), 3, [10, 20, 30, 35]),
        ((35,), 4, [10, 20, 30]),
        ((15, 55), 5, [10, 15, 20, 30, 40, 50]),
        ((15, 45), 5, [10, 15, 20, 30, 40]),
    ],
)
def test_delta_commits_that_count_for_the_next_compaction_stay(
    compacted: tuple[int, ...], trigger: int, gone: list[int]
) -> None:
    policy = Policy(commits_min=2, commits_max=3, compaction_delta_commits=trigger)
    found = plan(*DELTAS, *commits(*compacted), policy=policy, is_copy_on_write=False)
    assert numbers(found) == gone


def test_delta_commits_are_not_counted_in_a_copy_on_write_table() -> None:
    policy = Policy(commits_min=2, commits_max=3, compaction_delta_commits=6)
    assert numbers(plan(*DELTAS, policy=policy)) == [10, 20, 30, 40]


def test_cleans_and_rollbacks_go_with_the_commits_after_them_but_the_last_clean_stays() -> None:
    found = plan(
        *SIX,
        done(5, Action.CLEAN),
        done(15, Action.ROLLBACK),
        done(25, Action.CLEAN),
        done(39, Action.ROLLBACK),
        done(41, Action.ROLLBACK),
        pending(16, Action.CLEAN),
        pending(17, Action.ROLLBACK),
    )
    assert numbers(found) == [5, 10, 15, 20, 30, 39, 40]


def test_rollback_whose_leftovers_are_not_swept_stays() -> None:
    rollbacks = [done(15, Action.ROLLBACK), done(25, Action.ROLLBACK)]
    found = plan(*SIX, *rollbacks, swept_rollbacks={time(25)})
    assert numbers(found) == [10, 20, 25, 30, 40]


def test_savepoints_restores_and_indexing_stay_for_ever() -> None:
    others = [done(15, Action.RESTORE), done(25, Action.INDEXING), done(55, Action.SAVEPOINT)]
    assert numbers(plan(*SIX, *others)) == [10, 20, 30, 40]


def test_more_than_one_run_holds_is_left_for_the_next() -> None:
    found = planning.plan_of(
        Facts(timeline=active.from_files(SIX), is_copy_on_write=True), POLICY, count_max=3
    )
    assert numbers(found) == [10, 20, 30]
    assert found.archived_below == time(40)
    assert found.is_partial
    assert not plan(*SIX).is_partial


@pytest.mark.parametrize(
    "policy",
    [
        Policy(commits_min=3, commits_max=3),
        Policy(commits_min=0, commits_max=3),
        Policy(commits_min=10, commits_max=20, clean_retained=10),
    ],
)
def test_bounds_that_contradict_each_other_are_refused(policy: Policy) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"hoodie\.keep\.min\.commits="):
        policy.check()


def test_policy_is_read_from_hudis_keys() -> None:
    found = planning.policy_of({planning.MIN_KEY: "4", planning.RETAINED_KEY: "3"})
    assert found == Policy(commits_min=4, clean_retained=3)
    for value in ("-1", "x", "", "٣"):
        with pytest.raises(errors.ConfigurationError, match="expected a whole number"):
            planning.policy_of({planning.MAX_KEY: value})


@pytest.mark.parametrize(
    ("count", "hold_ms", "size_bytes", "expected"),
    [
        (500, 0, 0, 2_000),
        (500, 600, 1 << 20, 1_500),
        (500, 1_200, 1 << 20, 500),
        (500, 60_000, 1 << 20, 500),
        (500, 100, 12 << 20, 1_000),
        (2_000, 100, 64 << 20, 2_000),
    ],
)
def test_next_run_is_larger_where_that_takes_little_time_and_memory(
    count: int, hold_ms: int, size_bytes: int, expected: int
) -> None:
    assert planning.count_next(count, hold_ms, size_bytes) == expected
