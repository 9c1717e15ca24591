"""The process that Spark forks Python workers from, with the modules of our tasks imported before.

    spark.python.daemon.module=hoodie_jobs.spark.daemon

Spark's own daemon imports little, and each worker imports what its tasks need. For our tasks that
takes two seconds of a core before the first row, and again after a minute without work, when Spark
ends idle workers. A worker that is forked from this process has the modules at once, and shares
their memory.

Invariant: the process has a single thread when it forks, so that a worker never inherits a lock
whose holder does not exist there. None of the modules starts a thread when it is imported: the
pools of Arrow and the runtime of obstore start with their first task. OpenBLAS would start threads
where Spark gives a task several cores, and stops them before a fork by itself.
"""

import gc
import importlib
import os
from typing import Final

import numpy as np
from pyspark import daemon

from hoodie import deferred

_ALLOCATOR_OPTIONS: Final = "JE_ARROW_MALLOC_CONF"
_PRELOADED: Final = ("pyspark.worker", "hoodie_jobs.spark.runtime", "hoodie_jobs.spark.tables")


def main() -> None:
    """Fork a worker for each request of Spark, until Spark closes the standard input."""
    preload()
    daemon.manager()


def preload() -> None:
    """Import what tasks need, and prepare the process for forks."""
    # Before Arrow is imported: its jemalloc starts a thread when it is loaded.
    os.environ.setdefault(_ALLOCATOR_OPTIONS, "background_thread:false")
    for name in _PRELOADED:
        importlib.import_module(name)
    deferred.load()
    # Else all workers would draw the same numbers. Python seeds its own generator after a fork.
    os.register_at_fork(after_in_child=np.random.seed)
    # A worker collects garbage after each task, which takes 50 ms if it includes the modules.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
