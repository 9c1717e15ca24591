"""Which failures pass by themselves, and how long to wait before the next attempt."""

import hashlib

from hoodie import errors
from hoodie_operator.api import execution, fields
from hoodie_operator.reconcile import facts

KILLED = "Killed"
"""Kind of the error of an attempt that ended without a result, and was not told to stop."""

NO_PROGRESS = "NoProgress"
"""Kind of the error of an attempt that was stopped for showing no progress."""

JITTER = 0.2
_DOUBLINGS_MAX = 30


def _kinds(root: type[errors.HoodieError]) -> dict[str, bool]:
    found = {root.kind: root.is_transient}
    for child in root.__subclasses__():
        found |= _kinds(child)
    return found


_IS_TRANSIENT = _kinds(errors.HoodieError) | {
    KILLED: True,
    NO_PROGRESS: True,
    # Our own bug, or an engine that failed in a way that nobody classified: worth the retries that
    # are left, since an executor that died reports itself like this.
    errors.HoodieError.kind: True,
    # Another attempt took over; what follows is decided by that one's end.
    errors.FencedError.kind: True,
}


def is_transient(kind: str) -> bool:
    """Return whether an attempt that failed so may succeed with nothing mended."""
    return _IS_TRANSIENT.get(kind, False)


def delay_ms(retry: execution.Retry, failures: int, run: facts.RunId) -> int:
    """Return the wait after that many consecutive failures, from 1: doubled, jittered, bounded.

    The jitter comes from the run's identity, so that the same question has the same answer.
    """
    initial = fields.duration_ms(retry.backoff.initial)
    longest = fields.duration_ms(retry.backoff.max)
    plain = min(longest, initial * 2 ** min(failures - 1, _DOUBLINGS_MAX))
    digest = hashlib.sha256(str(run).encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return int(plain * (1 + JITTER * (2 * share - 1)))
