"""How long to wait before the next try: the one arithmetic of all retries, without unit.

The wait grows with each failure in a row up to a limit, and has jitter, so that processes that
failed together do not retry together. How often is tried, and what ends the waiting, is the
caller's: an attempt of a run, a request, a lock and a commit have nothing else in common.
"""

from typing import Final

_EXPONENT_MAX: Final = 100
"""Every limit is reached before, and a count of days would overflow a float."""


def growing(first: float, longest: float, failures: int, factor: float = 2.0) -> float:
    """Return the wait after so many failures in a row, without jitter.

    Args:
        first: After one failure.
        longest: At most.
        failures: From 1.
        factor: From one wait to the next.
    """
    return min(longest, first * factor ** min(failures - 1, _EXPONENT_MAX))


def jittered(wait: float, chance: float, spread: float) -> float:
    """Return a wait with jitter.

    Args:
        wait: Without jitter, the mean.
        chance: From 0 to 1: of `identity.Random.uniform`, or of what identifies the one that waits.
        spread: The part of the wait that it is longer or shorter at most.
    """
    return wait * (1 + spread * (2 * chance - 1))
