"""From a verdict (state, reason, message) to a status with its conditions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from hoodie_operator.api import conditions, fields, kinds, objects, spec_memory, times
from hoodie_operator.api.conditions import Condition, ConditionStatus, Type
from hoodie_operator.api.reasons import Reason
from hoodie_operator.api.states import Row, State
from hoodie_operator.reconcile import facts, observed_times

TRIED_AGAIN: Final = "the operator retries every few seconds"
"""What is said of what others have to bring back. No time: a message that changes is written."""

StatusT = TypeVar("StatusT", bound=conditions.Status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Where an object is, and why.

    Attributes:
        state: The state.
        reason: One of the state's reasons.
        message: A sentence for people, with names and numbers.
    """

    state: State
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a condition says.

    Attributes:
        type: Of the condition.
        status: Whether it holds.
        reason: Why, in a word.
        message: Why, in a sentence.
    """

    type: Type
    status: ConditionStatus
    reason: str
    message: str


def stalled_state(owner: objects.AnyObject) -> State:
    """Return the state of an object's kind in which a user has to mend something."""
    return State.STALLED if State.STALLED in kinds.BY_NAME[owner.key.kind].states else State.FAILED


def stalled(owner: objects.AnyObject, reason: Reason, message: str) -> Verdict:
    """Return the verdict that a user has to mend something."""
    return Verdict(state=stalled_state(owner), reason=reason, message=message)


def succeeded(message: str, reason: Reason = Reason.SUCCEEDED) -> Verdict:
    """Return the verdict that there is nothing left to do."""
    return Verdict(state=State.SUCCEEDED, reason=reason, message=message)


def unreachable(problem: facts.Problem) -> Verdict:
    """Return the verdict about what a storage does not show now."""
    return Verdict(
        state=State.PENDING,
        reason=Reason.STORAGE_UNREACHABLE,
        message=f"{problem.kind}: {problem.message}; {TRIED_AGAIN}",
    )


def broken_rule(owner: objects.AnyObject) -> Verdict | None:
    """Return the verdict about a spec that breaks a rule of its kind; None when it breaks none.

    Manifests are checked before they get here; an object may have been stored under older rules.
    """
    broken = _broken_rule(owner.spec, owner.key.kind)
    return None if broken is None else stalled(owner, Reason.INVALID_SPEC, broken)


@spec_memory.remembered
def _broken_rule(spec: fields.Block, kind: str) -> str | None:
    broken = kinds.BY_NAME[kind].rules.violations(spec)
    return f"spec.{broken[0].field} {broken[0].message}" if broken else None


def stated(
    status: StatusT,
    owner: objects.AnyObject,
    verdict: Verdict,
    now: observed_times.Now,
    statements: Sequence[Statement] = (),
) -> StatusT:
    """Return a status with everything that a verdict means put into it.

    An object that stays in one waiting state for one reason beyond the state's limit is stalled;
    it leaves that by itself as soon as the verdict is another.

    Args:
        status: As it was.
        owner: Whose it is.
        verdict: Where the object is.
        now: The time.
        statements: Made beside the verdict.
    """
    rows = kinds.BY_NAME[owner.key.kind].states
    row = rows[verdict.state]
    assert verdict.reason in row.reasons, f"{verdict.state} is not known with {verdict.reason}"
    waiting = _waiting(status, row, verdict, now)
    state, reason, message = verdict.state, verdict.reason.value, verdict.message
    if (
        waiting is not None
        and row.limit_ms is not None
        and _is_over(status, waiting, row.limit_ms, now)
    ):
        state = stalled_state(owner)
        message = (
            f"{verdict.state.value} for more than {times.span(row.limit_ms)}: {reason}: {message}"
        )
        reason = Reason.TIMED_OUT.value
        row = rows[state]
    standing = [
        Statement(type=condition_type, status=value, reason=reason, message=message)
        for condition_type, value in _standing(row)
    ]
    made = [_condition(status, owner, each, now) for each in (*standing, *statements)]
    return status.model_copy(
        update={
            "observed_generation": owner.generation,
            "state": state.value,
            "waiting": waiting,
            "conditions": tuple(made),
        }
    )


def _condition(
    status: conditions.Status,
    owner: objects.AnyObject,
    statement: Statement,
    now: observed_times.Now,
) -> Condition:
    """Return a condition; its time stays where its status does."""
    before = status.condition(statement.type)
    is_same = before is not None and before.status is statement.status
    limit = conditions.MESSAGE_LENGTH_MAX
    message = statement.message
    return Condition(
        type=statement.type.value,
        status=statement.status,
        reason=statement.reason,
        message=message if len(message) <= limit else f"{message[: limit - 3]}...",
        last_transition_time=before.last_transition_time
        if before is not None and is_same
        else times.text(now.wall_ms),
        observed_generation=owner.generation,
    )


def _standing(row: Row) -> list[tuple[Type, ConditionStatus]]:
    standing = [(Type.READY, row.ready)]
    if row.is_reconciling:
        standing.append((Type.RECONCILING, ConditionStatus.TRUE))
    if row.is_stalled:
        standing.append((Type.STALLED, ConditionStatus.TRUE))
    if row.is_suspended:
        standing.append((Type.SUSPENDED, ConditionStatus.TRUE))
    return standing


def _waiting(
    status: conditions.Status, row: Row, verdict: Verdict, now: observed_times.Now
) -> conditions.Waiting | None:
    if not row.is_reconciling:
        return None
    before = status.waiting
    if before and (before.state, before.reason) == (verdict.state.value, verdict.reason.value):
        return before
    return conditions.Waiting(
        state=verdict.state.value, reason=verdict.reason.value, since=times.text(now.wall_ms)
    )


def _is_over(
    status: conditions.Status, waiting: conditions.Waiting, limit_ms: int, now: observed_times.Now
) -> bool:
    """Return whether a wait has taken too long: what was told to have, has, by any clock."""
    stalled = status.condition(Type.STALLED)
    was_over = stalled is not None and stalled.reason == Reason.TIMED_OUT.value
    if was_over and status.waiting == waiting:
        return True
    return now.waited_ms(waiting.since, now.waits.state) > limit_ms


def is_settled(owner: objects.AnyObject) -> bool:
    """Return whether an object is Ready or Stalled, for its current spec.

    One that is to go and cannot, or that others still need, waits for a user too.
    """
    status = owner.status
    ready = status.condition(Type.READY)
    if owner.is_deleting:
        is_needed = ready is not None and ready.reason == Reason.IN_USE.value
        return is_needed or status.is_true(Type.STALLED)
    return status.observed_generation == owner.generation and (
        status.is_true(Type.READY) or status.is_true(Type.STALLED)
    )
