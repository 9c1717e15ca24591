"""What heartbeats and lock renewals ask of whoever runs them: periodic calls until stopped."""

from collections.abc import Callable
from typing import Protocol


class Periodic(Protocol):
    """A running periodic call."""

    def stop(self) -> None:
        """Stop; when this returns no call is running or will. Idempotent."""
        ...


class Background(Protocol):
    """Runs calls beside the caller's own work: threads in production, actors in the simulation."""

    def every(self, interval_s: float, call: Callable[[], bool], *, name: str) -> Periodic:
        """Call every so many seconds, first after one interval, until stopped or it returns False.

        A call must not raise: what it does about its own failures is its own affair.
        """
        ...
