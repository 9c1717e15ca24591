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
