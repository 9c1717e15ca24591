"""The machine of attempts: what is folded, which phase follows, what is done."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.contract import job_results
from hoodie_operator.api import attempts as api_attempts
from hoodie_operator.api import execution, fields, kinds
from hoodie_operator.reconcile import attempts, facts, observed_times, retries, runs
from hoodie_operator.reconcile.attempts import Phase, Step
from support.operators import operator_world as ow

RETRY = execution.Retry(limit=2)
DEADLINES = attempts.Deadlines(
    schedule_ms=60, image_ms=80, start_ms=100, progress_ms=200, total_ms=1000, stop_ms=50
)


def _id(attempt: int) -> facts.RunId:
    return facts.RunId(kind="Writer", namespace="n", name="w", uid="u", attempt=attempt)


def _run(attempt: int, **fields_: object) -> facts.Run:
    run = facts.Run(id=_id(attempt), protocol_hash="p", started_ms=1_000_000)
    return observed_times.stamp_run(None, dataclasses.replace(run, **fields_), 0)  # type: ignore[arg-type]


def _ended(attempt: int, error: str | None = None, commits: int = 0, **more: object) -> facts.Run:
    problem = job_results.JobError(kind=error, message="m") if error else None
    result = job_results.JobResult(attempt=attempt, error=problem, commit_count=commits)
    return _run(attempt, ended_ms=2_000_000, result=result, **more)


def _fold(*runs: facts.Run, basis: str = "b") -> api_attempts.Runs:
    return attempts.fold(None, runs, RETRY, basis)


def _phase(status: api_attempts.Runs, run: facts.Run | None = None, now_ms: int = 1) -> Phase:
    now = observed_times.Now(wall_ms=now_ms, monotonic_ms=now_ms)
    return attempts.phase(status, run, RETRY, DEADLINES, now)


def test_every_phase_has_a_step_whether_wanted_or_not() -> None:
    assert attempts.STEPS.keys() == {(phase, wanted) for phase in Phase for wanted in (True, False)}


def test_nothing_is_started_beside_an_attempt_at_work_or_when_unwanted() -> None:
    for (phase, wanted), step in attempts.STEPS.items():
        if step is Step.START:
            assert wanted
            assert phase not in attempts.AT_WORK


@pytest.mark.parametrize(
    ("told_ms", "stopped_ms", "now_ms", "phase"),
    [
        (None, None, 50, Phase.STARTING),
        (None, None, 101, Phase.OVERDUE),
        (40, None, 240, Phase.RUNNING),
        (40, None, 241, Phase.OVERDUE),
        (990, None, 1000, Phase.RUNNING),
        (990, None, 1001, Phase.OVERDUE),
        (None, 500, 550, Phase.STOPPING),
        (None, 500, 551, Phase.STUBBORN),
    ],
)
def test_phase_at_work_follows_the_deadlines(
    told_ms: int | None, stopped_ms: int | None, now_ms: int, phase: Phase
) -> None:
    run = _run(1)
    if told_ms is not None:
        progress = job_results.JobProgress(phase="x", done=0, total=0, updated_ms=7)
        run = observed_times.stamp_run(run, dataclasses.replace(run, progress=progress), told_ms)
    if stopped_ms is not None:
        run = observed_times.stamp_run(
            run, dataclasses.replace(run, stop_requested_ms=9), stopped_ms
        )
    assert _phase(_fold(run), run, now_ms) is phase


def test_leader_that_has_just_begun_has_heard_nothing_yet() -> None:
    progress = job_results.JobProgress(phase="x", done=0, total=0, updated_ms=7)
    told = dataclasses.replace(_run(1), progress=progress, stop_requested_ms=None)
    run = observed_times.stamp_run(None, told, 10_000)
    assert _phase(_fold(run), run, 10_200) is Phase.RUNNING
    assert _phase(_fold(run), run, 10_201) is Phase.OVERDUE


CLOCKS_MS = st.integers(min_value=-(10**9), max_value=10**9)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 150), CLOCKS_MS, CLOCKS_MS, st.booleans()), max_size=30))
def test_no_clock_of_another_and_no_step_of_ours_says_how_long_a_run_is_silent(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    """At every step some time passes, the run tells news or not, and wall clocks say anything."""
    waiting = _waiting(facts.Obstacle.NO_NODE, since_ms=5 * 10**8)
    deadlines = dataclasses.replace(DEADLINES, total_ms=None)
    begun = dataclasses.replace(_run(1, waiting=waiting), waiting=None, began_ms=-(10**8))
    run = observed_times.stamp_run(_run(1, waiting=waiting), begun, 50)
    heard_ms = at_ms = 50
    for number, (passed_ms, pods_ms, ours_ms, tells) in enumerate(steps):
        at_ms += passed_ms
        told = run
        if tells:
            news = job_results.JobProgress(phase="x", done=number, total=0, updated_ms=pods_ms)
            told, heard_ms = dataclasses.replace(run, progress=news), at_ms
        run = observed_times.stamp_run(run, told, at_ms)
        now = observed_times.Now(wall_ms=ours_ms, monotonic_ms=at_ms)
        phase = attempts.phase(_fold(run), run, RETRY, deadlines, now)
        allowed_ms = deadlines.progress_ms if run.progress else deadlines.start_ms
        assert (phase is Phase.OVERDUE) == (at_ms - heard_ms > allowed_ms)


def test_success_ends_the_count_of_failures() -> None:
    status = _fold(_ended(1, "Conflict"), _ended(2))
    assert (status.attempts, status.failures, status.next_attempt_time) == (2, 0, None)
    assert _phase(status) is Phase.IDLE


def test_failure_that_may_pass_is_waited_for_and_then_tried_again() -> None:
    status = _fold(_ended(1, "Conflict"))
    assert _phase(status, now_ms=2_000_000) is Phase.BACKING_OFF
    assert _phase(status, now_ms=2_000_000 + 7_000) is Phase.IDLE


def test_failure_that_does_not_pass_is_not_tried_again() -> None:
    assert _phase(_fold(_ended(1, "Configuration")), now_ms=10**12) is Phase.FAILED


def test_too_many_failures_in_a_row_are_the_end() -> None:
    runs = [_ended(n, "Storage") for n in (1, 2, 3)]
    assert _phase(_fold(*runs[:2]), now_ms=10**12) is Phase.IDLE
    assert _phase(_fold(*runs), now_ms=10**12) is Phase.EXHAUSTED


def test_failure_after_a_commit_counts_as_the_first() -> None:
    runs = [_ended(1, "Storage"), _ended(2, "Storage"), _ended(3, "Storage", commits=1)]
    assert _fold(*runs).failures == 1


def test_attempt_that_was_killed_counts_as_failed() -> None:
    status = _fold(_run(1, ended_ms=2_000_000, exit_code=-9))
    assert status.history is not None
    assert status.history[0].error_kind == retries.KILLED
    assert status.history[0].message == "the process ended without a result, exit code -9"


def test_attempt_that_was_stopped_counts_neither_way() -> None:
    stopped = _ended(2, "Cancelled", stop_requested_ms=1_500_000, stop_reason="suspended")
    status = _fold(_ended(1, "Storage"), stopped)
    assert status.failures == 1
    assert status.history is not None
    assert status.history[-1].outcome is api_attempts.Outcome.STOPPED


def test_attempt_that_was_stopped_for_silence_counts_as_failed() -> None:
    silent = _run(
        1, ended_ms=2_000_000, stop_requested_ms=1_500_000, stop_reason=retries.NO_PROGRESS
    )
    assert _fold(silent).failures == 1


def test_success_that_was_also_told_to_stop_is_success() -> None:
    run = _ended(1, stop_requested_ms=1_500_000, stop_reason="suspended")
    history = _fold(run).history
    assert history is not None
    assert history[0].outcome is api_attempts.Outcome.SUCCEEDED


def test_changed_basis_forgets_the_failures_and_keeps_the_numbers() -> None:
    before = _fold(_ended(1, "Configuration"))
    after = attempts.fold(before, [_ended(1, "Configuration")], RETRY, "other")
    assert (after.attempts, after.failures) == (1, 0)
    assert _phase(after) is Phase.IDLE


def test_attempt_seen_first_after_its_end_is_folded_once() -> None:
    once = _fold(_ended(1, "Conflict"))
    assert attempts.fold(once, [_ended(1, "Conflict")], RETRY, "b") == once


def test_attempt_seen_at_work_is_folded_when_it_ends() -> None:
    at_work = _fold(_run(1))
    assert at_work.current is not None
    ended = attempts.fold(at_work, [_ended(1, "Conflict")], RETRY, "b")
    assert (ended.current, ended.failures, ended.attempts) == (None, 1, 1)


def test_attempt_whose_record_is_gone_is_not_at_work() -> None:
    ended = attempts.fold(_fold(_run(1)), [], RETRY, "b")
    assert (ended.current, ended.attempts) == (None, 1)


_RUNS = st.lists(
    st.sampled_from(["Conflict", "Configuration", None, "killed", "stopped"]), max_size=15
)


@settings(deadline=None)
@given(kinds=_RUNS, basis=st.sampled_from(["b", "c"]), cut=st.integers(0, 15))
def test_folding_in_two_steps_equals_folding_at_once(
    kinds: list[str | None], basis: str, cut: int
) -> None:
    runs = []
    for number, kind in enumerate(kinds, start=1):
        if kind == "killed":
            runs.append(_run(number, ended_ms=2_000_000))
        elif kind == "stopped":
            runs.append(_ended(number, "Cancelled", stop_requested_ms=1, stop_reason="suspended"))
        else:
            runs.append(_ended(number, kind))
    at_once = attempts.fold(None, runs, RETRY, basis)
    in_two = attempts.fold(attempts.fold(None, runs[:cut], RETRY, basis), runs, RETRY, basis)
    assert in_two == at_once
    assert attempts.fold(at_once, runs, RETRY, basis) == at_once


@settings(deadline=None)
@given(failures=st.integers(1, 10_000), attempt=st.integers(1, 10_000))
def test_wait_grows_and_stays_within_its_bounds(failures: int, attempt: int) -> None:
    retry = execution.Retry()
    wait_ms = retries.delay_ms(retry, failures, _id(attempt))
    longest = fields.duration_ms(retry.backoff.max)
    initial = fields.duration_ms(retry.backoff.initial)
    assert initial * (1 - retries.JITTER) <= wait_ms <= longest * (1 + retries.JITTER)
    assert wait_ms == retries.delay_ms(retry, failures, _id(attempt))


def test_every_kind_of_error_is_classified() -> None:
    transient = {kind for kind in errors.EXIT_CODES if retries.is_transient(kind)}
    assert {"Conflict", "LockTimeout", "Storage", "OutOfMemory", "Internal"} <= transient
    assert not transient & {"Configuration", "InvalidInput", "Unsupported", "Format", "NotFound"}
    assert not retries.is_transient("Unheard")


def _waiting(obstacle: facts.Obstacle, since_ms: int = 1_000_000) -> facts.Waiting:
    return facts.Waiting(obstacle=obstacle, message="m", since_ms=since_ms)


@pytest.mark.parametrize(
    ("obstacle", "limit_ms", "kind"),
    [
        (facts.Obstacle.NO_POD, 60, retries.NOT_CREATED),
        (facts.Obstacle.NO_NODE, 60, retries.UNSCHEDULABLE),
        (facts.Obstacle.NO_IMAGE, 80, retries.IMAGE_NOT_PULLED),
        (facts.Obstacle.NO_CONTAINER, 80, retries.CONTAINER_NOT_CREATED),
        (facts.Obstacle.BEGINNING, 80, retries.CONTAINER_NOT_CREATED),
    ],
)
def test_every_obstacle_has_a_limit_and_a_kind_of_its_own(
    obstacle: facts.Obstacle, limit_ms: int, kind: str
) -> None:
    run = _run(1, waiting=_waiting(obstacle))
    assert _phase(_fold(run), run, limit_ms) is Phase.STARTING
    assert _phase(_fold(run), run, limit_ms + 1) is Phase.OVERDUE
    reason = retries.too_slow(run)
    ended = _ended(1, "Cancelled", stop_requested_ms=1_000_100, stop_reason=reason)
    last = (_fold(ended).history or ())[-1]
    assert (last.outcome, last.error_kind) == (api_attempts.Outcome.FAILED, kind)
    assert last.message is not None
    assert obstacle.value in last.message


def test_waiting_for_a_node_is_no_silence_of_the_job() -> None:
    waits = _run(1, waiting=_waiting(facts.Obstacle.NO_NODE))
    begun = observed_times.stamp_run(waits, dataclasses.replace(waits, waiting=None), 900)
    assert _phase(_fold(begun), begun, 1_000) is Phase.STARTING
    assert _phase(_fold(begun), begun, 1_001) is Phase.OVERDUE


def test_time_without_executors_is_no_silence_and_counts_for_the_time_of_all() -> None:
    begun = _run(1, began_ms=7)
    waits = dataclasses.replace(begun, waiting=_waiting(facts.Obstacle.NO_NODE))
    run = observed_times.stamp_run(observed_times.stamp_run(begun, waits, 10), begun, 900)
    assert run.heard is not None
    assert (run.heard.news_ms, run.heard.begun_ms) == (900, 0)


@pytest.mark.parametrize("result", [None, "Cancelled"])
def test_evicted_attempt_is_not_counted_but_waited_after(result: str | None) -> None:
    cause = facts.Cause(kind=retries.INFRASTRUCTURE, message="evicted")
    runs = [
        _ended(number, result, cause=cause)
        if result
        else _run(number, ended_ms=2_000_000, cause=cause)
        for number in range(1, 9)
    ]
    status = _fold(*runs)
    assert status.failures == 0
    assert _phase(status, now_ms=2_000_001) is Phase.BACKING_OFF
    assert status.next_attempt_time is not None
    # The eighth is waited after for longer than the first.
    assert status.next_attempt_time > (_fold(runs[0]).next_attempt_time or "")


def test_attempts_while_clocks_show_times_twice_are_not_counted() -> None:
    """They fail for up to two hours, and nothing is to be mended."""
    status = _fold(*(_ended(number, errors.RepeatedTimeError.kind) for number in range(1, 9)))
    assert status.failures == 0
    assert _phase(status, now_ms=2_000_001) is Phase.BACKING_OFF


def test_what_an_attempt_says_of_itself_goes_before_what_is_said_of_its_pod() -> None:
    cause = facts.Cause(kind=retries.INFRASTRUCTURE, message="evicted")
    last = (_fold(_ended(1, "Conflict", cause=cause)).history or ())[-1]
    assert last.error_kind == "Conflict"
    assert (_fold(_ended(1, cause=cause)).history or ())[-1].error_kind is None


def test_each_attempt_out_of_memory_gets_more_up_to_a_limit() -> None:
    cause = facts.Cause(kind=errors.OutOfMemoryError.kind, message="OOMKilled")
    runs = [_run(number, ended_ms=2_000_000, cause=cause) for number in range(1, 6)]
    grown = [_fold(*runs[:count]).memory_percent for count in range(1, 6)]
    assert grown == [150, 225, 337, 400, 400]
    assert attempts.fold(_fold(*runs), [], RETRY, "another basis").memory_percent is None


def test_a_stop_for_another_reason_is_no_failure_of_the_attempt() -> None:
    assert retries.stopped_as("the Writer is suspended") is None
    assert retries.stopped_as("HudiTable orders: gone") is None


def test_executors_of_an_ended_driver_are_stopped_and_change_nothing_of_its_end() -> None:
    run = _run(1, is_abandoned=True)
    assert _phase(_fold(run), run, 1_000_001) is Phase.OVERDUE
    stop = {"stop_requested_ms": 1_000_002, "stop_reason": retries.too_slow(run)}
    assert (_fold(_ended(1, **stop)).history or ())[-1].outcome is api_attempts.Outcome.SUCCEEDED
    failed = (_fold(_ended(1, "Conflict", **stop)).history or ())[-1]
    assert (failed.outcome, failed.error_kind) == (api_attempts.Outcome.FAILED, "Conflict")
    cause = facts.Cause(kind=errors.OutOfMemoryError.kind, message="OOMKilled")
    killed = _fold(_run(1, ended_ms=2_000_000, cause=cause, **stop))
    assert (killed.history or ())[-1].error_kind == errors.OutOfMemoryError.kind


def test_pod_that_went_because_its_run_was_stopped_is_no_failure() -> None:
    cause = facts.Cause(kind=retries.INFRASTRUCTURE, message="its pod was deleted")
    stop = {"stop_requested_ms": 1_500_000, "stop_reason": "the Writer is suspended"}
    status = _fold(_run(1, ended_ms=2_000_000, cause=cause, **stop))
    assert (status.history or ())[-1].outcome is api_attempts.Outcome.STOPPED
    assert (status.failures, status.next_attempt_time) == (0, None)


def test_number_of_a_fence_grows_with_each_attempt_however_many_there_are() -> None:
    here = ow.Outside()
    old = here.by_key[here.add(kinds.WRITER, "left", ow.writer_spec())]
    attempts_in_a_day = 86_400
    numbers = [
        runs.fence_number(old, attempt)
        for attempt in (1, 2, 999_999, 1_000_000, 1_000_001, 400 * attempts_in_a_day)
    ]
    assert numbers == sorted(set(numbers))
    # Another object of its name, made after an attempt in each second of 400 days.
    anew = dataclasses.replace(old, created_ms=old.created_ms + 400 * 86_400_000)
    assert runs.fence_number(anew, 1) > numbers[-1]
