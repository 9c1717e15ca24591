"""Waiting for a lock that nobody tells us of: looking again and again, ever more seldom.

Source of the keys: `hoodie.write.lock.num_retries`, `.wait_time_ms_between_retry` and
`.max_wait_time_ms_between_retry` of `HoodieLockConfig.java`.
"""

from dataclasses import dataclass

from hoodie import backoff, clock, errors, identity

_GROWTH = 1.5
_SPREAD = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Polling:
    """How often a lock is looked at while another has it.

    Attributes:
        first_s: Pause after the first look, about.
        longest_s: What the pauses grow to.
        retries_max: Looks after the first; None is as many as the waiting time allows.
    """

    first_s: float
    longest_s: float
    retries_max: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.first_s <= self.longest_s:
            raise errors.InvalidInputError(
                f"pauses between two looks at a lock cannot grow from {self.first_s:g} s "
                f"to {self.longest_s:g} s"
            )
        if self.retries_max is not None and self.retries_max < 0:
            raise errors.InvalidInputError(f"a lock cannot be tried {self.retries_max} times again")


class Waiting:
    """One wait for a lock."""

    def __init__(
        self, polling: Polling, wait_s: float, waiting_clock: clock.Clock, random: identity.Random
    ) -> None:
        """Begin to wait.

        Args:
            polling: How often to look.
            wait_s: How long; with 0, look once.
            waiting_clock: Whose monotonic time counts.
            random: Jitter, so that those who wait do not march in step.
        """
        self._polling = polling
        self._clock = waiting_clock
        self._random = random
        self._deadline_s = waiting_clock.monotonic_s() + wait_s
        self._retries = 0

    def pause(self) -> bool:
        """Pause, and return whether to look again; at once False when the waiting is over."""
        left_s = self._deadline_s - self._clock.monotonic_s()
        if left_s <= 0 or self._retries == self._polling.retries_max:
            return False
        self._retries += 1
        pause_s = backoff.growing(
            self._polling.first_s, self._polling.longest_s, self._retries, _GROWTH
        )
        self._clock.sleep_s(min(left_s, backoff.jittered(pause_s, self._random.uniform(), _SPREAD)))
        return True
