"""The engine of one machine: threads, which Arrow's and numpy's work leaves free to run at once."""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from pathlib import Path

from hoodie import errors
from hoodie.engine.protocol import Item, Key, Part, Progress, Result

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def processors() -> int:
    """Return how many threads run at once here: the processors, or what the container allows."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, _container_limit()))


def _container_limit() -> int:
    # cgroup v2: "<microseconds> <period>", or "max <period>". Elsewhere there is no such file.
    try:
        quota, period = _CGROUP_LIMIT.read_text(encoding="ascii").split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return 1 << 16


class LocalEngine:
    """Threads of this process.

    One thread, or one item, runs in the caller's own thread: a traceback then shows the whole way,
    and a simulation sees one actor.
    """

    is_distributed = False
    has_tasks_left = False

    def __init__(self, threads: int | None = None) -> None:
        """Take the number of threads; None takes what the machine runs at once.

        Raises:
            InvalidInputError: It is below 1.
        """
        if threads is not None and threads < 1:
            raise errors.InvalidInputError(f"an engine of {threads} threads runs nothing")
        self._threads = processors() if threads is None else threads

    @property
    def parallelism(self) -> int:
        """The number of threads."""
        return self._threads

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: Progress | None = None,
    ) -> list[Result]:
        """Return the task's results in the items' order; progress is heard in the caller's thread.

        Raises:
            Exception: The failure that came first in time, after all running items have ended; the
                rest is not started.
        """

        def report(done: int) -> None:
            if progress is not None:
                progress(done, len(items))

        threads = min(self._threads, len(items))
        return (
            _run_inline(task, items, report)
            if threads <= 1
            else _run_threaded(threads, task, items, report)
        )

    def exchange(
        self,
        split: Callable[[Item], Mapping[Key, Part]],
        items: Sequence[Item],
        merge: Callable[[Key, Sequence[Part]], Result],
    ) -> list[Result]:
        """Regroup items by key; see `protocol.Engine`. All parts are held at once."""
        parts: defaultdict[Key, list[Part]] = defaultdict(list)
        for found in self.map(split, items):
            for key, part in found.items():
                parts[key].append(part)
        return self.map(lambda key: merge(key, parts[key]), sorted(parts))


def _run_inline(
    task: Callable[[Item], Result], items: Sequence[Item], report: Callable[[int], None]
) -> list[Result]:
    results = []
    for done, item in enumerate(items, start=1):
        results.append(task(item))
        report(done)
    return results


def _run_threaded(
    threads: int,
    task: Callable[[Item], Result],
    items: Sequence[Item],
    report: Callable[[int], None],
) -> list[Result]:
    failures: list[BaseException] = []

    def run(item: Item) -> Result:
        if failures:
            raise futures.CancelledError  # Not seen by anybody: the failure is raised.
        try:
            return task(item)
        except BaseException as error:
            failures.append(error)
            raise

    with futures.ThreadPoolExecutor(threads, thread_name_prefix="hoodie-engine") as pool:
        running = [pool.submit(run, item) for item in items]
        try:
            for done, _ in enumerate(futures.as_completed(running), start=1):
                if failures:
                    break
                report(done)
        finally:
            # Also when the user interrupts: leaving the pool then waits for what runs only.
            pool.shutdown(wait=False, cancel_futures=True)
    if failures:
        raise failures[0]
    return [each.result() for each in running]
