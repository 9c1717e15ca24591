"""What one attempt of a Spark task writes: files of its own, by their write token.

The token begins with the task, in digits of equal count: log files of one write are merged in the
order of their tokens, and tasks are numbered in the order of the input.
"""

from pyspark import TaskContext

from hoodie import environment
from hoodie.engine import local
from hoodie.model import commits
from hoodie.storage import locations
from hoodie.write import batches, early_conflicts, tasks

_TASK_FIRST = 100_000


def run(task: tasks.WriteTask, batch: batches.Batch) -> list[commits.Written]:
    """Write a batch's data files in the Spark task that calls; errors as of `tasks.run`."""
    context = TaskContext.get()
    assert context is not None
    token = tasks.WriteToken(
        task=_TASK_FIRST + context.partitionId(),
        stage=context.stageId(),
        attempt=context.taskAttemptId(),
    )
    storage = locations.open_storage(task.table_uri)
    mark = early_conflicts.marking(task.detection, storage, environment.system(parallelism=1))
    return tasks.run(task, batch, token, storage, local.LocalEngine(1), mark)
