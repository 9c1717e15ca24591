"""The core's `Engine` on Spark.

Items are dealt out to some tasks a core, not to one task each: a task costs tens of milliseconds in
Spark and its Python workers, which is more than a small file group takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pyspark import SparkContext, TaskContext

from hoodie.engine import protocol
from hoodie.format import file_names
from hoodie.maintenance import compaction
from hoodie_jobs.spark import calls, groups

Item = TypeVar("Item")
Result = TypeVar("Result")

TASKS_PER_CORE = 8


class SparkEngine:
    """Runs a function over items on a Spark context's executors."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self.has_tasks_left = False
        """Whether a task of a map that failed may still be running somewhere."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        return self._context.defaultParallelism

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[Result]:
        """Return the task's results in the items' order; a task that dies is tried again elsewhere.

        Raises:
            HoodieError: The first of a task, after all tasks have ended.
        """
        if not items:
            return []

        def tell(done: int) -> None:
            if progress is not None:
                progress(done * len(items) // count, len(items))

        count = min(len(items), self.parallelism * TASKS_PER_CORE)
        # Neighbours go to different tasks: items often come sorted by size.
        dealt = [items[start::count] for start in range(count)]
        rdd = self._context.parallelize(dealt, count).map(partial(_run, task))
        with groups.open_group(self._context, "hoodie", tell) as group:
            try:
                hands = rdd.collect()
            except BaseException:
                self.has_tasks_left = not group.has_ended()
                raise
        tell(count)
        results: dict[int, Result] = {}
        for start, outcome in enumerate(hands):
            hand: list[Result] = calls.result_of(outcome)
            results.update(zip(range(start, len(items), count), hand, strict=True))
        return [results[place] for place in range(len(items))]


def _run(task: Callable[[Item], Result], hand: Sequence[Item]) -> calls.Outcome[list[Result]]:
    return calls.outcome_of(lambda: [task(_of_attempt(item)) for item in hand])


def _of_attempt(item: Item) -> Item:
    """Return an item that writes files of its own, whatever an earlier attempt has written."""
    context = TaskContext.get()
    if isinstance(item, compaction.CompactionTask) and context is not None:
        number, stage, _ = item.write_token.split("-")
        token = file_names.write_token(int(number), int(stage), context.taskAttemptId())
        return replace(item, write_token=token)
    return item
