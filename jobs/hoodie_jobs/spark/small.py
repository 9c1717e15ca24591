"""Small input: every task reads all of it through the core, and writes the file groups it owns.

No row passes through the JVM and nothing is shuffled. That the input is parsed once a task costs
less than either, as long as it is small.

A file group is written by one task, so rows keep their order whatever keys they have.
"""

import zlib
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark import SparkContext

from hoodie.contract import input_sources
from hoodie.model import commits
from hoodie.sources import local_files
from hoodie.write import batches, tasks
from hoodie_jobs.spark import attempts, calls

INPUT_BYTES_MAX = 64 << 20
TASKS_MAX = 8
_TASK_BYTES_MIN = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallInput:
    """A batch's input, in files that every worker sees.

    Attributes:
        files: Their names, in order.
        source: How they are written.
        schema: The table's, without meta columns.
        columns: The table's columns that they carry.
        size_bytes: Of the files, summed.
    """

    files: tuple[str, ...]
    source: input_sources.Source
    schema: pa.Schema
    columns: tuple[str, ...]
    size_bytes: int

    def read(self) -> pa.Table:
        """Return all rows in their order, in the table's types.

        Raises:
            InvalidInputError: A value does not fit.
        """
        return local_files.read(self.files, self.source, self.schema)


def task_count(size_bytes: int, parallelism: int) -> int:
    """Return how many tasks share the file groups of input of that size."""
    return max(1, min(parallelism, TASKS_MAX, size_bytes // _TASK_BYTES_MIN))


def write(
    context: SparkContext, data: SmallInput, task: tasks.WriteTask, count: int
) -> list[calls.Outcome[list[commits.Written]]]:
    """Write all rows into data files; return what each task wrote, or why it did not."""
    numbers = context.parallelize(range(count), count)
    return numbers.map(partial(_outcome, data, task, count)).collect()


def _outcome(
    data: SmallInput, task: tasks.WriteTask, count: int, number: int
) -> calls.Outcome[list[commits.Written]]:
    return calls.outcome_of(lambda: _write_own(data, task, count, number))


def _write_own(
    data: SmallInput, task: tasks.WriteTask, count: int, number: int
) -> list[commits.Written]:
    batch = tasks.prepare(task, data.read())
    own = tuple(group for group in batch.groups if _owner(group, count) == number)
    return attempts.run(task, replace(batch, groups=own))


def _owner(group: batches.GroupRows, count: int) -> int:
    """Return the task of a file group, by its place alone: no two tasks may differ about it."""
    return (zlib.crc32(group.partition_path.encode()) + group.bucket) % count
