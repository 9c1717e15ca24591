"""Periodic calls in threads of their own."""

import logging
import threading
import time
from collections.abc import Callable

from hoodie import errors

logger = logging.getLogger(__name__)


class ThreadBackground:
    """Starts a daemon thread for each periodic call: it does not keep a program from ending."""

    def every(self, interval_s: float, call: Callable[[], bool], *, name: str) -> "PeriodicThread":
        """Call every so many seconds, first after one interval, until stopped or it returns False.

        A call that takes longer than the interval makes the next ones late, never several at once.
        A call that raises against the rule is logged and is the last one: a heartbeat that fails in
        an unknown way stops, and what depends on it then fails loudly.

        Raises:
            InvalidInputError: The interval is not above zero.
        """
        if not interval_s > 0:
            raise errors.InvalidInputError(f"{name}: an interval of {interval_s} s")
        return PeriodicThread(interval_s, call, name)


class PeriodicThread:
    """A thread that calls periodically."""

    def __init__(self, interval_s: float, call: Callable[[], bool], name: str) -> None:
        """Start it."""
        self._interval_s = interval_s
        self._call = call
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"hoodie-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop; when this returns no call is running or will, but for one that stops itself."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        due_s = time.monotonic() + self._interval_s
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            try:
                goes_on = self._call()
            except Exception:
                logger.exception("%s failed and is not called again", self._thread.name)
                return
            if not goes_on:
                return
            due_s = max(due_s + self._interval_s, time.monotonic())
