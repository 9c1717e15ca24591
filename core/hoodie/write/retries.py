"""Writing a batch again that lost a conflict: on fresh state, after a wait that grows."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hoodie import backoff, errors, identity

logger = logging.getLogger(__name__)

Written = TypeVar("Written")

_WAIT_S = 1.0
_WAIT_MAX_S = 32.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and after which wait.

    Attributes:
        count_max: So many further tries follow one that lost.
        random: Jitter: those who met once are not to meet again.
        wait: Waits so many seconds, or raises what ends the waiting.
    """

    count_max: int
    random: identity.Random
    wait: Callable[[float], None]


def until_won(write: Callable[[], Written], retries: Retries) -> Written:
    """Return what a write returns, done again as long as it loses and tries are left.

    The upper bound of the wait doubles from 1 s to 32 s.

    Raises:
        WriteConflictError: It lost each time.
    """
    for retry in range(retries.count_max):
        try:
            return write()
        except errors.WriteConflictError as error:
            wait_s = retries.random.uniform() * backoff.growing(_WAIT_S, _WAIT_MAX_S, retry + 1)
            logger.info("retrying in %.1f s: %s", wait_s, error)
            retries.wait(wait_s)
    return write()
