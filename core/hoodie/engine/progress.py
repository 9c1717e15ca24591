"""An engine that reports how far its work has come."""

from collections.abc import Callable, Mapping, Sequence

from hoodie.engine import protocol


class ProgressEngine:
    """Another engine, with a report of every `map`."""

    def __init__(self, engine: protocol.Engine, report: protocol.Progress) -> None:
        """Wrap an engine.

        Args:
            engine: Runs the tasks.
            report: Called before the first task with 0, and after each; what it raises ends the
                map.
        """
        self._engine = engine
        self._report = report

    @property
    def parallelism(self) -> int:
        """How many items run at once."""
        return self._engine.parallelism

    @property
    def is_distributed(self) -> bool:
        """Whether tasks run in other processes, to which their items and results are sent."""
        return self._engine.is_distributed

    @property
    def has_tasks_left(self) -> bool:
        """Whether a task of a map that failed may still be running somewhere."""
        return self._engine.has_tasks_left

    def map(
        self,
        task: Callable[[protocol.Item], protocol.Result],
        items: Sequence[protocol.Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[protocol.Result]:
        """Return the task's results in the items' order; see `protocol.Engine`."""

        def report(done: int, total: int) -> None:
            self._report(done, total)
            if progress is not None:
                progress(done, total)

        self._report(0, len(items))
        return self._engine.map(task, items, progress=report)

    def exchange(
        self,
        split: Callable[[protocol.Item], Mapping[protocol.Key, protocol.Part]],
        items: Sequence[protocol.Item],
        merge: Callable[[protocol.Key, Sequence[protocol.Part]], protocol.Result],
    ) -> list[protocol.Result]:
        """Regroup items by key; see `protocol.Engine`. Reports no progress."""
        return self._engine.exchange(split, items, merge)
