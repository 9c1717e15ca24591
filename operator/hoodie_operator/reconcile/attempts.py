"""The attempts of one object's run: what happened is folded into its status, what is next decided.

Nothing here asks what a run does. An attempt's number is never used twice; a failure that may pass
is followed by another attempt after a growing wait, until too many failed in a row for one basis.
A basis is a text that changes when something was mended: spec, protocol, input.

    phase x wanted -> step: `STEPS` is the machine.
"""

import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hoodie import errors
from hoodie_operator.api import attempts, execution, times
from hoodie_operator.api.attempts import Outcome
from hoodie_operator.reconcile import facts, observed_times, retries

STUBBORN_GRACES: Final = 3
"""After so many graces a process that does not end is the user's to look at."""


class Phase(enum.Enum):
    """Where the runs of an object are."""

    IDLE = "nothing runs, and an attempt may start"
    BACKING_OFF = "nothing runs, and the next attempt is not due yet"
    EXHAUSTED = "nothing runs, and too many attempts failed"
    FAILED = "nothing runs, and the last attempt failed with an error that a retry does not fix"
    STARTING = "an attempt was started and has not reported yet"
    RUNNING = "an attempt is active"
    OVERDUE = "an attempt is active and exceeded a deadline: no report, or no end"
    STOPPING = "an attempt was asked to stop"
    STUBBORN = "an attempt was asked to stop and its grace period is over"


class Step(enum.Enum):
    """What to do about it."""

    START = "start the next attempt"
    WAIT = "wait"
    REST = "leave it"
    STOP = "ask it to stop"
    KILL = "end it"


STEPS: Final[Mapping[tuple[Phase, bool], Step]] = {
    (Phase.IDLE, True): Step.START,
    (Phase.IDLE, False): Step.REST,
    (Phase.BACKING_OFF, True): Step.WAIT,
    (Phase.BACKING_OFF, False): Step.REST,
    (Phase.EXHAUSTED, True): Step.REST,
    (Phase.EXHAUSTED, False): Step.REST,
    (Phase.FAILED, True): Step.REST,
    (Phase.FAILED, False): Step.REST,
    (Phase.STARTING, True): Step.WAIT,
    (Phase.STARTING, False): Step.STOP,
    (Phase.RUNNING, True): Step.WAIT,
    (Phase.RUNNING, False): Step.STOP,
    (Phase.OVERDUE, True): Step.STOP,
    (Phase.OVERDUE, False): Step.STOP,
    (Phase.STOPPING, True): Step.WAIT,
    (Phase.STOPPING, False): Step.WAIT,
    (Phase.STUBBORN, True): Step.KILL,
    (Phase.STUBBORN, False): Step.KILL,
}

AT_WORK: Final = frozenset(
    {Phase.STARTING, Phase.RUNNING, Phase.OVERDUE, Phase.STOPPING, Phase.STUBBORN}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long an attempt may take for what.

    Attributes:
        schedule_ms: To have a pod, and a node for it.
        image_ms: To have its image, and a container of it.
        start_ms: To tell of anything at all, once it has begun.
        progress_ms: Between two signs of life.
        total_ms: In all; None for no limit.
        stop_ms: To end after being told to.
    """

    schedule_ms: int
    image_ms: int
    start_ms: int
    progress_ms: int
    total_ms: int | None
    stop_ms: int


def fold(
    previous: attempts.Runs | None,
    runs: Sequence[facts.Run],
    retry: execution.Retry,
    basis: str,
) -> attempts.Runs:
    """Return the status of the runs after everything seen.

    Args:
        previous: The stored status.
        runs: What is known of the attempts, in their order.
        retry: How failures are answered.
        basis: What failures are counted for.
    """
    status = previous or attempts.Runs()
    if status.basis != basis:
        status = status.model_copy(
            update={
                "basis": basis,
                "failures": 0,
                "next_attempt_time": None,
                "memory_percent": None,
            }
        )
    open_attempt = status.current.number if status.current else None
    for run in runs:
        if run.id.attempt > status.attempts or run.id.attempt == open_attempt:
            status = _with(status, run, retry)
    if open_attempt is not None and open_attempt not in {run.id.attempt for run in runs}:
        status = status.model_copy(update={"current": None})
    return status


def _with(status: attempts.Runs, run: facts.Run, retry: execution.Retry) -> attempts.Runs:
    number = max(status.attempts, run.id.attempt)
    if run.ended_ms is None:
        current = attempts.Current(
            number=run.id.attempt,
            start_time=times.text(run.started_ms),
            process=run.process[:200] or None,
            run_hash=run.run_hash or None,
            phase=run.progress.phase[:200] if run.progress else None,
            done=run.progress.done if run.progress else None,
            total=run.progress.total if run.progress else None,
        )
        return status.model_copy(update={"attempts": number, "current": current})
    ended = _ended(run, run.ended_ms)
    failures = status.failures
    next_attempt = None
    memory_percent = status.memory_percent
    if ended.outcome is Outcome.SUCCEEDED:
        failures = 0
    elif ended.outcome is Outcome.FAILED:
        kind = ended.error_kind or ""
        if ended.commits:
            failures = 0
        failures += retries.is_counted(kind)
        # What is not counted is not hurried after, either.
        in_a_row = max(failures, 1 + (0 if ended.commits else _failed_in_a_row(status)), 1)
        wait_ms = retries.delay_ms(retry, in_a_row, run.id)
        next_attempt = times.text(run.ended_ms + wait_ms + 999)
        if kind == errors.OutOfMemoryError.kind:
            memory_percent = _more_memory(memory_percent, retry.out_of_memory)
    return status.model_copy(
        update={
            "attempts": number,
            "failures": failures,
            "next_attempt_time": next_attempt,
            "memory_percent": memory_percent,
            "current": None,
            "history": (*(status.history or ()), ended)[-attempts.ATTEMPTS_KEPT :],
        }
    )


def _failed_in_a_row(status: attempts.Runs) -> int:
    """Return how many of the newest attempts failed for what is not counted."""
    uncounted = itertools.takewhile(
        lambda each: (
            each.outcome is Outcome.FAILED and not retries.is_counted(each.error_kind or "")
        ),
        reversed(status.history or ()),
    )
    return len(list(uncounted))


def _more_memory(percent: int | None, told: execution.OutOfMemory) -> int:
    grown = (percent or 100) * (100 + told.increase_percent) // 100
    return min(grown, max(told.max_percent, percent or 100))


def _ended(run: facts.Run, ended_ms: int) -> attempts.Attempt:
    result = run.result
    kind: str | None = None
    message: str | None = None
    outcome = Outcome.SUCCEEDED
    is_success = result is not None and result.error is None
    cause = None if is_success else retries.stopped_as(run.stop_reason) or _cause(run)
    if cause is not None:
        outcome, kind, message = Outcome.FAILED, cause.kind, cause.message
    elif result is None:
        code = "unknown" if run.exit_code is None else str(run.exit_code)
        outcome, kind = Outcome.FAILED, retries.KILLED
        message = f"the process ended without a result, exit code {code}"
    elif result.error is not None:
        outcome, kind, message = Outcome.FAILED, result.error.kind[:100], result.error.message
    is_own = retries.is_own_end(run.stop_reason)
    if outcome is Outcome.FAILED and not is_own:
        outcome = Outcome.STOPPED
        message = f"stopped: {run.stop_reason}"
    return attempts.Attempt(
        number=run.id.attempt,
        start_time=times.text(run.started_ms),
        end_time=times.text(ended_ms),
        outcome=outcome,
        error_kind=kind,
        message=message[:1000] if message else None,
        commits=result.commit_count if result else None,
    )


def _cause(run: facts.Run) -> facts.Cause | None:
    """Return what others tell of an attempt's end, where that says more than it does itself."""
    told = run.result.error if run.result is not None else None
    # One whose pod is taken from it is told to stop, and says so.
    is_own = told is not None and told.kind != errors.CancelledError.kind
    return None if is_own else run.cause


def phase(
    status: attempts.Runs,
    run: facts.Run | None,
    retry: execution.Retry,
    deadlines: Deadlines,
    now: observed_times.Now,
    life_ms: int | None = None,
) -> Phase:
    """Return where the runs are.

    Args:
        status: After `fold`.
        run: The attempt at work; None when there is none.
        retry: How failures are answered.
        deadlines: For the attempt at work.
        now: When.
        life_ms: When the storage last showed that the attempt at work lives; None for not yet.
    """
    if run is not None:
        return _phase_at_work(run, deadlines, now.monotonic_ms, life_ms)
    last = status.history[-1] if status.history else None
    failed = last is not None and last.outcome is Outcome.FAILED
    if status.failures and failed and not retries.is_transient(last_kind(status)):
        return Phase.FAILED
    if status.failures > retry.limit:
        return Phase.EXHAUSTED
    if status.next_attempt_time is None or last is None:
        return Phase.IDLE
    # Both told by one clock, whoever's it was.
    length_ms = times.epoch_ms(status.next_attempt_time) - times.epoch_ms(last.end_time)
    is_over = now.waited_ms(last.end_time, now.waits.attempt) >= length_ms
    return Phase.IDLE if is_over else Phase.BACKING_OFF


def _phase_at_work(run: facts.Run, deadlines: Deadlines, now_ms: int, life_ms: int | None) -> Phase:
    heard = _heard(run)
    if heard.stop_ms is not None:
        is_over = now_ms - heard.stop_ms > deadlines.stop_ms
        return Phase.STUBBORN if is_over else Phase.STOPPING
    if run.is_abandoned:
        return Phase.OVERDUE
    if run.waiting is not None:
        allowed_ms = deadlines.image_ms if run.waiting.is_placed else deadlines.schedule_ms
        is_too_long = now_ms - heard.waiting_ms > allowed_ms
        return Phase.OVERDUE if is_too_long else Phase.STARTING
    silence_ms = now_ms - max(heard.news_ms, life_ms or 0)
    # What the network keeps back may have begun long ago.
    has_begun = run.progress is not None or life_ms is not None or bool(run.unreached)
    allowed_ms = deadlines.progress_ms if has_begun else deadlines.start_ms
    is_too_long = deadlines.total_ms is not None and now_ms - heard.begun_ms > deadlines.total_ms
    if silence_ms > allowed_ms or is_too_long:
        return Phase.OVERDUE
    return Phase.RUNNING if run.progress or life_ms is not None else Phase.STARTING


def last_failure(status: attempts.Runs) -> str:
    """Return why the last attempt failed, for messages; empty when it did not."""
    last = status.history[-1] if status.history else None
    if last is None or last.outcome is not Outcome.FAILED:
        return ""
    return f"attempt {last.number}: {last_kind(status)}: {last.message}"


def last_kind(status: attempts.Runs) -> str:
    """Return the kind of the last attempt's error; empty when it did not fail."""
    last = status.history[-1] if status.history else None
    if last is None or last.outcome is not Outcome.FAILED:
        return ""
    return last.error_kind or errors.HoodieError.kind


def is_stuck(run: facts.Run, deadlines: Deadlines, now_ms: int) -> bool:
    """Return whether a run that was told to stop has not ended for so long that it may never.

    Args:
        run: The run.
        deadlines: For it.
        now_ms: Monotonic.
    """
    asked_ms = _heard(run).stop_ms
    return asked_ms is not None and now_ms - asked_ms > STUBBORN_GRACES * deadlines.stop_ms


def is_unknown(run: facts.Run, now_ms: int) -> bool:
    """Return whether nobody knows if a run is at work, its node being silent.

    Args:
        run: The run.
        now_ms: Monotonic.
    """
    going_ms = _heard(run).going_ms
    if run.unknown_after_ms is None or going_ms is None:
        return False
    return now_ms - going_ms >= run.unknown_after_ms


def _heard(run: facts.Run) -> facts.Heard:
    assert run.heard is not None, "an active run has no record of what was observed"
    return run.heard
