"""Being told to stop: a request that the work looks at where stopping is safe.

A signal does no more than note the request. The open write is then aborted by the code that owns
it, or completed when it is already past the point where that would be safe.
"""

import logging
import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType

from hoodie import errors

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Cancellation:
    """Whether the run is to stop."""

    def __init__(self) -> None:
        self._requested = threading.Event()
        self._calls: list[Callable[[], None]] = []
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    @property
    def is_requested(self) -> bool:
        """Whether somebody asked to stop."""
        return self._requested.is_set()

    def check(self) -> None:
        """Stop here, if asked to.

        Raises:
            CancelledError: Somebody asked to.
        """
        if self.is_requested:
            raise errors.CancelledError("the run was asked to stop")

    def wait(self, seconds: float) -> None:
        """Wait that long, or until asked to stop.

        Raises:
            CancelledError: Somebody asked to.
        """
        if seconds > 0:
            self._requested.wait(seconds)
        self.check()

    def on_request(self, call: Callable[[], None]) -> None:
        """Have a call made, in another thread, when somebody asks to stop; it must not raise."""
        self._calls.append(call)

    def request(self) -> None:
        """Ask to stop."""
        self._requested.set()
        for call in self._calls:
            call()

    def listen(self) -> None:
        """Take the process's signals to stop as requests, from now on; from the main thread."""
        # A handler runs between any two steps of the main thread, which may hold the very locks
        # that an Event or a new Thread take; SimpleQueue.put is the one call made for that.
        threading.Thread(target=self._take_signals, name="signals", daemon=True).start()
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.put(number)

    def _take_signals(self) -> None:
        while True:
            number = self._signals.get()
            logger.warning("received %s, stopping", signal.Signals(number).name)
            self.request()
