"""Which attempt of which task this is, as a write token: the files of each attempt are its own.

The task comes first, in digits of equal count: log files of one write are merged in the order of
their tokens, and tasks are numbered in the order of the input.
"""

from pyspark import TaskContext

from hoodie.write import tasks

_TASK_FIRST = 100_000


def write_token() -> tasks.WriteToken:
    """Return the token of the Spark task that calls."""
    context = TaskContext.get()
    assert context is not None
    return tasks.WriteToken(
        task=_TASK_FIRST + context.partitionId(),
        stage=context.stageId(),
        attempt=context.taskAttemptId(),
    )
