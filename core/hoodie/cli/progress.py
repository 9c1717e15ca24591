"""Progress on standard error, at a terminal, of whatever takes longer than a second."""

import threading
from types import TracebackType
from typing import Self

from rich import console, progress

from hoodie.cli import quantities

_QUIET_S = 1.0


class Display:
    """A line with a phase, a bar when the amount of work is known, and the time so far."""

    def __init__(self) -> None:
        """Show nothing yet."""
        screen = console.Console(stderr=True)
        self._bar = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=24),
            progress.TextColumn("{task.fields[amount]}", markup=False),
            progress.TimeElapsedColumn(),
            console=screen,
            transient=True,
            # Standard output is no business of a display on standard error.
            redirect_stdout=False,
            disable=not screen.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, amount="")
        self._timer = threading.Timer(_QUIET_S, self._bar.start)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the line away. Idempotent."""
        self._timer.cancel()
        # A start that is under way ends first, or its line would stay.
        self._timer.join()
        self._bar.stop()

    def phase(self, description: str, amount: str = "") -> None:
        """Tell what is being done, of which the amount of work is not known."""
        self._bar.reset(self._task, total=None, description=description, amount=amount)

    def count(self, done: int, total: int, unit: str) -> None:
        """Tell how far the phase has come."""
        self._bar.update(
            self._task, completed=done, total=total, amount=f"{done:,} of {total:,} {unit}"
        )

    def rows(self, count: int) -> None:
        """Tell how many rows the phase has passed on."""
        self._bar.update(self._task, amount=quantities.counted(count, "row"))
