"""What one attempt of a Spark task writes: files of its own, by their write token.

The token begins with the task, in digits of equal count: log files of one write are merged in the
order of their tokens, and tasks are numbered in the order of the input.
"""

from pyspark import TaskContext

from hoodie import environment
from hoodie.engine import local
from hoodie.model import commits
from hoodie.storage import locations
from hoodie.write import batches, early_conflicts, tasks, write_task

_TASK_FIRST = 100_000


def run(
    task: write_task.WriteTask,
    batch: batches.Batch,
    *,
    is_placed: bool = False,
    is_alone: bool = False,
) -> list[commits.Written]:
    """Write a batch's data files in the Spark task that calls; errors as of `tasks.run`.

    Args:
        task: The write.
        batch: Of `tasks.prepare`.
        is_placed: Whether its groups are of `tasks.place`.
        is_alone: Whether no other task has rows of the write.
    """
    context = TaskContext.get()
    assert context is not None
    token = write_task.WriteToken(
        task=_TASK_FIRST + context.partitionId(),
        stage=context.stageId(),
        attempt=context.taskAttemptId(),
        is_alone=is_alone,
    )
    storage = locations.open_storage(task.table_uri)
    mark = early_conflicts.marking(task.detection, storage, environment.system(parallelism=1))
    if is_placed:
        return tasks.write(task, batch, token, storage, mark)
    return tasks.run(task, batch, token, storage, local.LocalEngine(1), mark)
