"""Carrying the attempts of an object one step on: from phase and wish to effects and a verdict.

Shared by Writers and TableActions; `attempts.STEPS` is the machine behind it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from hoodie import errors
from hoodie.contract import job_results, job_specs
from hoodie.maintenance.compaction import memory
from hoodie_operator.api import attempts as api_attempts
from hoodie_operator.api import execution, objects, table_action, writer
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import State
from hoodie_operator.reconcile import attempts, effective, facts, observed_times, retries
from hoodie_operator.reconcile.attempts import Phase, Step
from hoodie_operator.reconcile.effects import Effect, StartRun, StopRun
from hoodie_operator.reconcile.verdicts import Verdict, stalled_state
from hoodie_operator.reconcile.world import World

_WAITING = {errors.WriteConflictError.kind: Reason.WRITE_CONFLICT}
"""Why the next attempt is waited for, by the kind of the last one's error; else BACKING_OFF."""

_OBSTACLES = {
    facts.Obstacle.NO_POD: Reason.POD_NOT_CREATED,
    facts.Obstacle.NO_NODE: Reason.UNSCHEDULABLE,
    facts.Obstacle.NO_IMAGE: Reason.IMAGE_NOT_PULLED,
    facts.Obstacle.NO_CONTAINER: Reason.CONTAINER_NOT_CREATED,
    facts.Obstacle.BEGINNING: Reason.STARTING,
}

_USUAL_WAIT_MS = 5_000
"""For a pod to be made for a Job, and to be given a node."""

OVERTAKEN = "its image, resources or configuration changed while it could not start"
"""Why an attempt is stopped that `is_overtaken`."""

_ATTEMPTS_A_SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where the runs of an object are.

    Attributes:
        owner: The object.
        status: Its runs, everything seen folded in.
        run: The attempt at work; None when there is none.
        phase: See `attempts.Phase`.
        deadlines: For the attempt at work.
        now: When.
    """

    owner: objects.AnyObject
    status: api_attempts.Runs
    run: facts.Run | None
    phase: Phase
    deadlines: attempts.Deadlines
    now: observed_times.Now

    @property
    def is_at_work(self) -> bool:
        """Whether an attempt has not ended."""
        return self.run is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What an attempt would do.

    Attributes:
        table: The table's effective configuration.
        work: The work.
        runtime: What on.
        run_hash: Of all that may differ from run to run.
        writer_id: Of a Writer's run.
        action_id: Of a TableAction's run, or a HudiTable's own.
        plan_size: Of the planned compaction that it executes; None where there is none yet.
    """

    table: effective.EffectiveTable
    work: job_specs.Work
    runtime: execution.Runtime
    run_hash: str
    writer_id: str | None = None
    action_id: str | None = None
    plan_size: memory.PlanSize | None = None


def deadlines(world: World, progress_ms: int, total_ms: int | None = None) -> attempts.Deadlines:
    """Return how long an attempt may take: what the operator allows, and the object's own limits.

    Args:
        world: What the operator allows.
        progress_ms: Between two signs of life.
        total_ms: In all; None for no limit.
    """
    return attempts.Deadlines(
        schedule_ms=world.limits.schedule_deadline_ms,
        image_ms=world.limits.image_deadline_ms,
        start_ms=world.limits.start_deadline_ms,
        progress_ms=progress_ms,
        total_ms=total_ms,
        stop_ms=world.limits.stop_grace_ms,
    )


def situation(
    world: World,
    owner: objects.AnyObject,
    previous: api_attempts.Runs | None,
    retry: execution.Retry,
    deadlines: attempts.Deadlines,
    basis: str,
) -> Situation:
    """Return where the runs of an object are.

    Args:
        world: Everything.
        owner: The object.
        previous: The stored status of its runs.
        retry: How failures are answered.
        deadlines: For an attempt at work.
        basis: What failures are counted for.
    """
    runs = world.runs(owner)
    status = attempts.fold(previous, runs, retry, basis)
    run = next((run for run in runs if run.is_running), None)
    now = world.now(owner)
    return Situation(
        owner=owner,
        status=status,
        run=run,
        phase=attempts.phase(
            status, run, retry, deadlines, now, None if run is None else _life_ms(world, owner, run)
        ),
        deadlines=deadlines,
        now=now,
    )


def _life_ms(world: World, owner: objects.AnyObject, run: facts.Run) -> int | None:
    """Return when the storage last showed that an attempt lives, as of `facts.Heard`.

    Its heart beats beside a write that it has begun, or its owner's newest commit is a new one: a
    run that cannot be asked how far it is, the network being in the way, is known by these.
    """
    told = world.seen.waits.get(owner.uid, facts.Waits()).commit
    begun_ms = run.heard.begun_ms if run.heard is not None else 0
    signs = [told.heard_ms] if told is not None and told.heard_ms > begun_ms else []
    table = _table_of(world, owner)
    seen = None if table is None else world.seen.tables.get(table.uid)
    if seen is not None and any(_is_heart(each, owner, run) for each in seen.pending):
        signs.append(seen.observed_ms)
    return max(signs, default=None)


def _table_of(world: World, owner: objects.AnyObject) -> objects.Table | None:
    if not isinstance(owner.spec, writer.WriterSpec | table_action.TableActionSpec):
        return None
    return world.table(owner.key.namespace, owner.spec.table_ref.name)


def _is_heart(pending: facts.Pending, owner: objects.AnyObject, run: facts.Run) -> bool:
    """Return whether an attempt is at work on a pending instant, as its heartbeat tells.

    What an action has planned may be executed by a later attempt of it than planned it.
    """
    if not pending.is_alive:
        return False
    if isinstance(owner.spec, table_action.TableActionSpec):
        parameters = owner.spec.compaction
        instant = None if parameters is None else parameters.instant
        return pending.action_id == owner.name or pending.requested_time == instant
    is_mine = pending.writer_id == effective.writer_id(cast("objects.Writer", owner))
    return is_mine and pending.attempt == fence_number(owner, run.id.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What comes of one step.

    Attributes:
        effects: What to do.
        verdict: How the object then is.
        status: Of its runs.
    """

    effects: Sequence[Effect]
    verdict: Verdict
    status: api_attempts.Runs


def basis(
    owner: objects.AnyObject, parts: list[str], previous: str | None, *, is_known: bool
) -> str:
    """Return what failures are counted for: what they may be due to, and who asked for more.

    While the table cannot be resolved or read nothing was mended, and the count goes on.
    """
    if not is_known and previous is not None:
        return previous
    asked = owner.retry_request
    # A text of anybody's, of any length.
    asks = [] if asked is None else [hashlib.sha256(asked.encode()).hexdigest()[:8]]
    return " ".join([*parts, *asks])


def confirmed(
    world: World, owner: objects.AnyObject, seen: facts.TableFacts | None
) -> facts.TableFacts | Verdict:
    """Return a table's facts if they were seen after the last attempt's end, or why to wait.

    Args:
        world: Everything.
        owner: Whose attempts.
        seen: What the table's storage told last.
    """
    ended_ms = observed_times.last_end_ms(world.runs(owner))
    is_after = ended_ms is None or (seen is not None and seen.observed_ms >= ended_ms)
    if seen is not None and seen.problem is None and is_after:
        return seen
    why = f": {seen.problem.message}" if seen is not None and seen.problem is not None else ""
    return Verdict(
        state=State.PENDING,
        reason=Reason.CONFIRMING,
        message=f"reading the timeline for the result of the run{why}",
    )


def is_overtaken(run: facts.Run, current_hash: str) -> bool:
    """Return whether an attempt that gets no further was started with what has changed since.

    One at work goes on with what it has, and the next one gets what is new.
    """
    is_kept_back = run.waiting is not None and run.waiting.obstacle is not facts.Obstacle.BEGINNING
    return is_kept_back and run.run_hash not in ("", current_hash)


def may_start(found: Situation) -> bool:
    """Return whether `advance` would start an attempt."""
    is_free = attempts.STEPS[found.phase, True] is Step.START
    return is_free and not found.is_at_work and not _was_in_vain(found)


def advance(found: Situation, job: Job | None) -> Outcome:
    """Return what to do about runs that are wanted.

    Args:
        found: Where the runs are.
        job: What the next attempt would do; None while one is at work.
    """
    step = attempts.STEPS[found.phase, True]
    if found.is_at_work:
        reason = "" if found.run is None else retries.too_slow(found.run)
        effects = _stop(found, step, reason)
        return Outcome(effects=effects, verdict=at_work(found), status=found.status)
    if step is not Step.START:
        return Outcome(effects=[], verdict=_idle(found), status=found.status)
    if _was_in_vain(found):
        last = found.status.attempts
        verdict = Verdict(
            state=stalled_state(found.owner),
            reason=Reason.RUN_FAILED,
            message=f"attempt {last} reported success, but the timeline does not have its result",
        )
        return Outcome(effects=[], verdict=verdict, status=found.status)
    assert job is not None, "an attempt needs something to do"
    return _start(found, job)


def stop_unwanted(found: Situation, reason: str) -> Outcome:
    """Return what ends an attempt at work that is not wanted any more."""
    effects = _stop(found, attempts.STEPS[found.phase, False], reason)
    return Outcome(effects=effects, verdict=at_work(found), status=found.status)


def has_succeeded(status: api_attempts.Runs) -> bool:
    """Return whether the newest ended attempt told of success."""
    history = status.history or ()
    return bool(history) and history[-1].outcome is api_attempts.Outcome.SUCCEEDED


def _was_in_vain(found: Situation) -> bool:
    """Return whether the newest attempt succeeded at what still is to be done."""
    status = found.status
    return has_succeeded(status) and status.tried_basis == status.basis


def at_work(found: Situation) -> Verdict:
    """Return the verdict about an object with an attempt at work."""
    run = found.run
    assert run is not None
    where = f"attempt {run.id.attempt}" + (f", {run.process}" if run.process else "")
    if attempts.is_unknown(run, found.now.monotonic_ms):
        return Verdict(
            state=stalled_state(found.owner),
            reason=Reason.POD_STATE_UNKNOWN,
            message=(
                f"{where} may still run: its node does not answer. No other attempt starts until "
                "the pod is deleted"
            ),
        )
    if found.phase in (Phase.STOPPING, Phase.STUBBORN, Phase.OVERDUE):
        reason = run.stop_reason or retries.too_slow(run)
        if attempts.is_stuck(run, found.deadlines, found.now.monotonic_ms):
            where += " (it does not stop)"
        message = f"{where} was asked to stop: {reason}"
        return Verdict(state=State.STOPPING, reason=Reason.STOPPING, message=message)
    at = "" if run.progress is None else f": {_progress(run.progress)}"
    if run.waiting is not None and not _is_usual(run, found.now.monotonic_ms):
        told = f"{where}{at}: {run.waiting.obstacle.value}: {run.waiting.message}".rstrip(": ")
        return Verdict(state=State.STARTING, reason=_OBSTACLES[run.waiting.obstacle], message=told)
    if run.progress is None and run.unreached:
        at = f": {retries.unreached(run)}"
    elif run.progress is None and found.phase is not Phase.RUNNING:
        return Verdict(state=State.STARTING, reason=Reason.STARTING, message=f"{where} is starting")
    return Verdict(state=State.RUNNING, reason=Reason.RUNNING, message=f"{where}{at}")


def _progress(told: job_results.JobProgress) -> str:
    return f"{told.phase} {told.done}/{told.total}" if told.total else told.phase


def _is_usual(run: facts.Run, now_ms: int) -> bool:
    """Return whether every pod waits so before it begins: that is not worth telling."""
    assert run.waiting is not None
    assert run.heard is not None
    return not run.waiting.is_placed and now_ms - run.heard.waiting_ms < _USUAL_WAIT_MS


def _idle(found: Situation) -> Verdict:
    """Return the verdict about an object without an attempt at work that is not to start one."""
    failure = attempts.last_failure(found.status)
    if found.phase is Phase.BACKING_OFF:
        due = found.status.next_attempt_time
        assert due is not None
        return Verdict(
            state=State.BACKING_OFF,
            reason=_WAITING.get(attempts.last_kind(found.status), Reason.BACKING_OFF),
            message=f"next attempt at {due}; {failure}",
        )
    if found.phase is Phase.EXHAUSTED:
        return Verdict(
            state=stalled_state(found.owner),
            reason=Reason.RETRIES_EXHAUSTED,
            message=f"{found.status.failures} attempts failed in a row; last failure: {failure}",
        )
    assert found.phase is Phase.FAILED, found.phase
    return Verdict(state=stalled_state(found.owner), reason=Reason.RUN_FAILED, message=failure)


def _start(found: Situation, job: Job) -> Outcome:
    number = found.status.attempts + 1
    owner = found.owner
    run_id = facts.RunId(
        kind=owner.key.kind,
        namespace=owner.key.namespace,
        name=owner.name,
        uid=owner.uid,
        attempt=number,
    )
    start = StartRun(
        id=run_id,
        fence_number=fence_number(owner, number),
        table=job.table,
        work=job.work,
        runtime=job.runtime,
        run_hash=job.run_hash,
        memory_percent=found.status.memory_percent or 100,
        writer_id=job.writer_id,
        action_id=job.action_id,
        plan_size=job.plan_size,
    )
    verdict = Verdict(
        state=State.STARTING, reason=Reason.STARTING, message=f"attempt {number} is starting"
    )
    status = found.status.model_copy(update={"tried_basis": found.status.basis})
    return Outcome(effects=[start], verdict=verdict, status=status)


def fence_number(owner: objects.AnyObject, attempt: int) -> int:
    """Return the number that fences off all earlier attempts.

    The table remembers the highest number of a writer beyond the life of the object: one that was
    made anew, after a state folder or a namespace was lost, begins above all of the old one's: an
    object has far fewer attempts than `_ATTEMPTS_A_SECOND` in each second of its life.
    """
    return owner.created_ms // 1000 * _ATTEMPTS_A_SECOND + attempt


def _stop(found: Situation, step: Step, reason: str) -> list[Effect]:
    if found.run is None or step not in (Step.STOP, Step.KILL):
        return []
    return [StopRun(id=found.run.id, is_killed=step is Step.KILL, reason=reason)]
