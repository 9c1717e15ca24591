"""The core's `Engine` on Spark.

Items are dealt out to some tasks a core, not to one task each: a task costs tens of milliseconds in
Spark and its Python workers, which is more than a small file group takes.
"""

import pickle
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pyspark import RDD, SparkContext, TaskContext

from hoodie.engine import local, protocol
from hoodie.format import file_names
from hoodie.maintenance.compaction import tasks
from hoodie_jobs.spark import calls, groups

Item = TypeVar("Item")
Key = TypeVar("Key", int, str)
Part = TypeVar("Part")
Result = TypeVar("Result")

TASKS_PER_CORE = 8
_FEW_A_CORE = 4


class SparkEngine:
    """Runs a function over items on a Spark context's executors."""

    is_distributed = True

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
        hands = self._collect(rdd, tell)
        tell(count)
        results: dict[int, Result] = {}
        for start, outcome in enumerate(hands):
            hand: list[Result] = calls.result_of(outcome)
            results.update(zip(range(start, len(items), count), hand, strict=True))
        return [results[place] for place in range(len(items))]

    def exchange(
        self,
        split: Callable[[Item], Mapping[Key, Part]],
        items: Sequence[Item],
        merge: Callable[[Key, Sequence[Part]], Result],
    ) -> list[Result]:
        """Regroup items by key, by a shuffle; see `protocol.Engine`.

        Raises:
            HoodieError: The first of a task, after all tasks have ended.
        """
        if not items:
            return []
        count = self.parallelism * TASKS_PER_CORE
        merged = (
            self._context.parallelize(list(enumerate(items)), min(len(items), count))
            .flatMap(partial(_split, split, count))
            .partitionBy(count, partitionFunc=int)
            .mapPartitions(partial(_merge, merge))
        )
        outcomes = self._collect(merged, lambda done: None)
        results: list[tuple[Key, Result]] = [calls.result_of(each) for each in outcomes]
        return [result for _, result in sorted(results, key=lambda found: found[0])]

    def _collect(self, rdd: "RDD[Result]", tell: Callable[[int], None]) -> list[Result]:
        with groups.open_group(self._context, "hoodie", tell) as group:
            try:
                return rdd.collect()
            except BaseException:
                self.has_tasks_left = not group.has_ended()
                raise


class LookupEngine:
    """Threads of the driver for few items, Spark's tasks for many: these cost more to begin."""

    is_distributed = True
    has_tasks_left = False

    def __init__(self, spark: SparkEngine) -> None:
        self._spark = spark
        self._threads = local.LocalEngine()

    @property
    def parallelism(self) -> int:
        """Of Spark."""
        return self._spark.parallelism

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[Result]:
        """Return the task's results in the items' order; errors as of the engine that runs it."""
        few = len(items) <= _FEW_A_CORE * self._threads.parallelism
        runner: protocol.Engine = self._threads if few else self._spark
        return runner.map(task, items, progress=progress)

    def exchange(
        self,
        split: Callable[[Item], Mapping[Key, Part]],
        items: Sequence[Item],
        merge: Callable[[Key, Sequence[Part]], Result],
    ) -> list[Result]:
        """Regroup items by key in Spark."""
        return self._spark.exchange(split, items, merge)


_Piece = tuple[int, tuple[int, calls.Outcome[Any]]]
"""Target, and the place of an item with one of its keys and parts, or why it has none."""


def _split(
    split: Callable[[Item], Mapping[Key, Part]], count: int, numbered: tuple[int, Item]
) -> Iterator[_Piece]:
    place, item = numbered
    match calls.outcome_of(lambda: split(item)):
        case calls.Raised() as raised:
            yield 0, (place, raised)
        case calls.Returned(parts):
            for key, part in parts.items():
                target = zlib.crc32(pickle.dumps(key)) % count
                yield target, (place, calls.Returned((key, part)))


def _merge(
    merge: Callable[[Key, Sequence[Part]], Result], pieces: Iterable[_Piece]
) -> Iterator[calls.Outcome[tuple[Key, Result]]]:
    parts: defaultdict[Key, list[Part]] = defaultdict(list)
    for _, (_, outcome) in sorted(pieces, key=lambda piece: piece[1][0]):
        match outcome:
            case calls.Raised() as raised:
                yield raised
                return
            case calls.Returned((key, part)):
                parts[key].append(part)
    for key, found in parts.items():
        yield calls.outcome_of(partial(_merged, merge, key, found))


def _merged(
    merge: Callable[[Key, Sequence[Part]], Result], key: Key, parts: Sequence[Part]
) -> tuple[Key, Result]:
    return key, merge(key, parts)


def _run(task: Callable[[Item], Result], hand: Sequence[Item]) -> calls.Outcome[list[Result]]:
    return calls.outcome_of(lambda: [task(_of_attempt(item)) for item in hand])


def _of_attempt(item: Item) -> Item:
    """Return an item that writes files of its own, whatever an earlier attempt has written."""
    context = TaskContext.get()
    if isinstance(item, tasks.CompactionTask) and context is not None:
        number, stage, _ = item.write_token.split("-")
        token = file_names.write_token(int(number), int(stage), context.taskAttemptId())
        return replace(item, write_token=token)
    return item
