"""The machine of attempts: what is folded, which phase follows, what is done."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import jobs
from hoodie_operator.api import attempts as api_attempts
from hoodie_operator.api import execution, fields
from hoodie_operator.reconcile import attempts, facts, retries
from hoodie_operator.reconcile.attempts import Phase, Step

RETRY = execution.Retry(limit=2)
DEADLINES = attempts.Deadlines(start_ms=100, progress_ms=200, total_ms=1000, stop_ms=50)


def _id(attempt: int) -> facts.RunId:
    return facts.RunId(kind="Writer", name="w", uid="u", attempt=attempt)


def _run(attempt: int, **fields_: object) -> facts.Run:
    run = facts.Run(id=_id(attempt), protocol_hash="p", started_ms=1_000_000)
    return dataclasses.replace(run, **fields_)  # type: ignore[arg-type]


def _ended(attempt: int, error: str | None = None, commits: int = 0, **more: object) -> facts.Run:
    problem = jobs.JobError(kind=error, message="m") if error else None
    result = jobs.JobResult(attempt=attempt, error=problem, commit_count=commits)
    return _run(attempt, ended_ms=2_000_000, result=result, **more)


def _fold(*runs: facts.Run, basis: str = "b") -> api_attempts.Runs:
    return attempts.fold(None, runs, RETRY, basis)


def _phase(status: api_attempts.Runs, run: facts.Run | None = None, now_ms: int = 1) -> Phase:
    return attempts.phase(status, run, RETRY, DEADLINES, now_ms)


def test_every_phase_has_a_step_whether_wanted_or_not() -> None:
    assert attempts.STEPS.keys() == {(phase, wanted) for phase in Phase for wanted in (True, False)}


def test_nothing_is_started_beside_an_attempt_at_work_or_when_unwanted() -> None:
    for (phase, wanted), step in attempts.STEPS.items():
        if step is Step.START:
            assert wanted
            assert phase not in attempts.AT_WORK


@pytest.mark.parametrize(
    ("fields_", "now_ms", "phase"),
    [
        ({}, 1_000_050, Phase.STARTING),
        ({}, 1_000_101, Phase.OVERDUE),
        ({"progress": 1_000_040}, 1_000_200, Phase.RUNNING),
        ({"progress": 1_000_040}, 1_000_241, Phase.OVERDUE),
        ({"progress": 1_000_990}, 1_001_001, Phase.OVERDUE),
        ({"stop_requested_ms": 1_000_500}, 1_000_550, Phase.STOPPING),
        ({"stop_requested_ms": 1_000_500}, 1_000_551, Phase.STUBBORN),
    ],
)
def test_phase_at_work_follows_the_deadlines(
    fields_: dict[str, int], now_ms: int, phase: Phase
) -> None:
    told = fields_.pop("progress", None)
    progress = told and jobs.JobProgress(phase="x", done=0, total=0, updated_ms=told)
    run = _run(1, progress=progress or None, **fields_)
    assert _phase(_fold(run), run, now_ms) is phase


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
    assert status.history[0].message == "it ended without a result, exit code -9"


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
