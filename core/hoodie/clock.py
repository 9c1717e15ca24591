"""Time: the Clock that everything is passed, and the one place that reads the system's."""

import time
from typing import Protocol


class Clock(Protocol):
    """A wall clock, a monotonic clock and a way to wait."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since the epoch, UTC; it may step."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that never go back, from an arbitrary start."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Wait at least that long; nothing for zero or less."""
        ...


def monotonic_ms(told: Clock) -> int:
    """Return a clock's monotonic time in milliseconds."""
    return round(told.monotonic_s() * 1000)


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Return the machine's wall clock."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return the machine's monotonic clock, which does not stop while it is suspended."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def sleep_s(self, seconds: float) -> None:
        """Sleep."""
        if seconds > 0:
            time.sleep(seconds)


class ForwardClock:
    """A clock whose wall clock never goes back: what comes later has no earlier time.

    Where that of another steps back, this one goes on from where it was, and stays ahead.
    """

    def __init__(self, stepping: Clock) -> None:
        """Take the clock that may step."""
        self._stepping = stepping
        self._ahead_ms = stepping.now_ms() - monotonic_ms(stepping)

    def now_ms(self) -> int:
        """Return the wall clock, or, if that has stepped back, the time that has passed since."""
        passed_ms = monotonic_ms(self._stepping)
        self._ahead_ms = max(self._ahead_ms, self._stepping.now_ms() - passed_ms)
        return passed_ms + self._ahead_ms

    def monotonic_s(self) -> float:
        """Return seconds that never go back."""
        return self._stepping.monotonic_s()

    def sleep_s(self, seconds: float) -> None:
        """Wait at least that long."""
        self._stepping.sleep_s(seconds)
