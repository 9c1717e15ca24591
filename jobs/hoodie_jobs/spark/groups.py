"""Spark jobs as a group that is watched while it runs, and seen to its end when it fails.

A failed job returns before its tasks have ended: Spark kills them meanwhile. Whoever takes back
what they wrote has to know that none of them writes any more.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # py4j ships no types
from pyspark import SparkContext

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_END_POLL_S = 0.05
_END_WAIT_S = 60.0


class Group:
    """The jobs that one thread starts while the group is open."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._tracker = context.statusTracker()
        self.id = str(uuid.uuid4())

    @property
    def done(self) -> int:
        """How many tasks have ended well."""
        return self._sum("numCompletedTasks")

    @property
    def running(self) -> int:
        """How many tasks have not ended."""
        return self._sum("numActiveTasks")

    def has_ended(self) -> bool:
        """Wait for running tasks to end; return whether they did, as far as can be known."""
        if not str(self._context.master).startswith("local"):
            # What a lost executor still does, nobody sees.
            return False
        deadline_s = time.monotonic() + _END_WAIT_S
        try:
            while self.running:
                if time.monotonic() > deadline_s:
                    return False
                time.sleep(_END_POLL_S)
        except (Py4JError, OSError):
            # The JVM is gone, and its workers end with it, but when?
            return False
        return True

    def _sum(self, attribute: str) -> int:
        total = 0
        for job in self._tracker.getJobIdsForGroup(self.id):
            info = self._tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                stage_info = self._tracker.getStageInfo(stage)
                total += getattr(stage_info, attribute) if stage_info is not None else 0
        return total


@contextmanager
def open_group(
    context: SparkContext, description: str, tell: Callable[[int], None] | None = None
) -> Iterator[Group]:
    """Run what is inside as one group.

    Args:
        context: Spark's.
        description: What the work is, for Spark's own pages.
        tell: Called in another thread whenever more tasks have ended; it must not raise.
    """
    group = Group(context)
    context.setJobGroup(group.id, description)
    stopped = threading.Event()

    def watch() -> None:
        assert tell is not None
        told = 0
        while not stopped.wait(_POLL_S):
            done = group.done
            if done > told:
                told = done
                tell(done)

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    if tell is not None:
        watcher.start()
    try:
        yield group
    finally:
        stopped.set()
        if tell is not None:
            watcher.join()
        try:
            # None takes the property away, which its type does not say.
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        except (Py4JError, OSError) as error:
            logger.debug("the JVM has exited: %s", error)
