"""Which failures pass by themselves, and how long to wait before the next attempt."""

import hashlib

from hoodie import backoff, errors
from hoodie_operator.api import execution, fields
from hoodie_operator.reconcile import facts

KILLED = "Killed"
"""Kind of the error of an attempt that ended without a result, and was not told to stop."""

NO_PROGRESS = "NoProgress"
"""Kind of the error of an attempt that was stopped for showing no progress."""

INFRASTRUCTURE = "Infrastructure"
"""Kind of the error of an attempt whose pod was taken from it: evicted, preempted, deleted."""

OTHER = "Other"
"""What an error is counted as whose kind is not known."""

NOT_CREATED = "NotCreated"
"""Kind of the error of an attempt that the API server refused to make."""

UNSCHEDULABLE = "Unschedulable"
IMAGE_NOT_PULLED = "ImageNotPulled"
CONTAINER_NOT_CREATED = "ContainerNotCreated"
"""Kinds of errors of attempts that were stopped because they could not begin."""

EXECUTORS_LEFT = "ExecutorsLeft"
"""Why what is left of an attempt is stopped whose driver has ended: by itself, so to say."""

TOO_SLOW = {
    None: NO_PROGRESS,
    facts.Obstacle.NO_POD: NOT_CREATED,
    facts.Obstacle.NO_NODE: UNSCHEDULABLE,
    facts.Obstacle.NO_IMAGE: IMAGE_NOT_PULLED,
    facts.Obstacle.NO_CONTAINER: CONTAINER_NOT_CREATED,
    facts.Obstacle.BEGINNING: CONTAINER_NOT_CREATED,
}
"""What stands in the way of an attempt (None: nothing) to the kind of its error once that took
too long."""

_NOT_COUNTED = frozenset({INFRASTRUCTURE, errors.RepeatedTimeError.kind})

JITTER = 0.2


def _kinds(root: type[errors.HoodieError]) -> dict[str, bool]:
    found = {root.kind: root.is_transient}
    for child in root.__subclasses__():
        found |= _kinds(child)
    return found


_IS_TRANSIENT = _kinds(errors.HoodieError) | {
    KILLED: True,
    NO_PROGRESS: True,
    INFRASTRUCTURE: True,
    NOT_CREATED: True,
    UNSCHEDULABLE: True,
    IMAGE_NOT_PULLED: True,
    CONTAINER_NOT_CREATED: True,
    # Our own bug, or an engine that failed in a way that nobody classified: worth the retries that
    # are left, since an executor that died reports itself like this.
    errors.HoodieError.kind: True,
    # Another attempt took over; what follows is decided by that one's end.
    errors.FencedError.kind: True,
}


def known(kind: str) -> str:
    """Return the kind of an error, or `OTHER` for one that is none: what runs tell is theirs."""
    return kind if kind in _IS_TRANSIENT else OTHER


def is_transient(kind: str) -> bool:
    """Return whether an attempt that failed so may succeed with nothing mended."""
    return _IS_TRANSIENT.get(kind, False)


def is_counted(kind: str) -> bool:
    """Return whether a failed attempt is one of those that a limit allows.

    What was taken from an attempt says nothing of what it would have come to; nor does the hour
    that clocks show twice, which passes by itself.
    """
    return kind not in _NOT_COUNTED


def too_slow(run: facts.Run) -> str:
    """Return the reason to stop an attempt that takes too long, by which its end is told."""
    waiting = run.waiting
    if run.is_abandoned:
        return f"{EXECUTORS_LEFT}: its driver has ended and its executors still run"
    if waiting is None and run.unreached:
        return f"{NO_PROGRESS}: {unreached(run)}"
    if waiting is None:
        return NO_PROGRESS
    told = f"{waiting.obstacle.value}: {waiting.message}".rstrip(": ")
    return f"{TOO_SLOW[waiting.obstacle]}: {told}"


def unreached(run: facts.Run) -> str:
    """Return why an attempt cannot tell how far it is, and what may be done about that."""
    return (
        f"its progress cannot be read at {run.unreached}: check that no NetworkPolicy, service "
        "mesh or firewall blocks the operator's requests to its pods"
    )


def stopped_as(reason: str) -> facts.Cause | None:
    """Return what it means that an attempt was stopped for a reason; None for one not its own."""
    kind, _, told = reason.partition(": ")
    if kind not in TOO_SLOW.values():
        return None
    default = "it exceeded its time limit, or the limit without progress"
    return facts.Cause(kind=kind, message=f"{told or default}, and was stopped")


def is_own_end(reason: str) -> bool:
    """Return whether what an attempt came to says something of it, for whatever it was stopped."""
    is_left = reason.startswith(f"{EXECUTORS_LEFT}: ")
    return not reason or is_left or stopped_as(reason) is not None


def delay_ms(retry: execution.Retry, failures: int, run: facts.RunId) -> int:
    """Return the wait after that many consecutive failures, from 1: doubled, jittered, bounded.

    The jitter comes from the run's identity, so that the same question has the same answer.
    """
    initial = fields.duration_ms(retry.backoff.initial)
    longest = fields.duration_ms(retry.backoff.max)
    digest = hashlib.sha256(str(run).encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return int(backoff.jittered(backoff.growing(initial, longest, failures), share, JITTER))
