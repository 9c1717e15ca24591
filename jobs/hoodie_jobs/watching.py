"""Engines that tell how far they are, and that stop when the run is told to."""

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from hoodie.engine import protocol
from hoodie_jobs.run import Run

Item = TypeVar("Item")
Result = TypeVar("Result")


class WatchedEngine:
    """Another engine, watched by a run."""

    def __init__(self, engine: protocol.Engine, run: Run, phase: str) -> None:
        """Watch an engine.

        Args:
            engine: Does the work.
            run: Is told, and may be told to stop.
            phase: What the work is, for who watches.
        """
        self._engine = engine
        self._run = run
        self._phase = phase

    @property
    def parallelism(self) -> int:
        """How many items run at once."""
        return self._engine.parallelism

    @property
    def has_tasks_left(self) -> bool:
        """Whether a task of a map that failed may still be running somewhere."""
        return self._engine.has_tasks_left

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[Result]:
        """Return the task's results in the items' order.

        Raises:
            CancelledError: The run was told to stop; what ran has ended.
        """
        self._run.cancellation.check()
        self._run.tell(self._phase, 0, len(items))
        caller = threading.current_thread()

        def tell(done: int, total: int) -> None:
            self._run.tell(self._phase, done, total)
            if progress is not None:
                progress(done, total)
            # Heard where the engine waits, a stop ends the map; Spark's is stopped by its session.
            if threading.current_thread() is caller:
                self._run.cancellation.check()

        return self._engine.map(task, items, progress=tell)
