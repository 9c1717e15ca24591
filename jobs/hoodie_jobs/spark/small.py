"""Small input: every task reads all of it through the core, and writes the file groups it owns.

No row passes through the JVM and nothing is shuffled. That the input is parsed once a task costs
less than either, as long as it is small.

A file group is written by one task, so rows keep their order whatever keys they have.

Where the driver decides which file group a row is written to (`hoodie.write.routes`), tasks get the
positions of the rows of their file groups.
"""

import zlib
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark import SparkContext

from hoodie.contract import input_sources
from hoodie.engine import protocol
from hoodie.model import commits, table_config
from hoodie.sources import local_files
from hoodie.storage import locations
from hoodie.write import batches, routes, tasks, write_task
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


def placed_task_count(size_bytes: int, parallelism: int, config: table_config.TableConfig) -> int:
    """Return how many tasks, at most, share the file groups that a driver has chosen."""
    # Few rows may have many base files written again.
    if config.is_copy_on_write:
        return min(parallelism, TASKS_MAX)
    return task_count(size_bytes, parallelism)


def write(
    context: SparkContext, data: SmallInput, task: write_task.WriteTask, count: int
) -> list[calls.Outcome[list[commits.Written]]]:
    """Write all rows into data files; return what each task wrote, or why it did not."""
    numbers = context.parallelize(range(count), count)
    return numbers.map(partial(_outcome, data, task, count)).collect()


def write_placed(
    context: SparkContext,
    data: SmallInput,
    task: write_task.WriteTask,
    count: int,
    engine: protocol.Engine,
) -> list[calls.Outcome[list[commits.Written]]]:
    """Decide in the driver where rows go, and write them as `write`, file groups dealt by rows.

    Args:
        context: Spark's.
        data: The input.
        task: The write.
        count: Of the tasks, at most.
        engine: Reads the files of the table.

    Raises:
        HoodieError: The input does not fit, or a file cannot be read.
    """
    storage = locations.open_storage(task.table_uri)
    outline = tasks.outline(task, tasks.prepare(task, data.read(), storage))
    placed = tasks.place(task, [outline], storage, engine)
    groups = placed.batch.groups
    owner = routes.owners(groups, count)
    hands = [
        tuple(groups[place] for place in np.flatnonzero(owner == number))
        for number in np.unique(owner).tolist()
    ]
    found: list[calls.Outcome[list[commits.Written]]] = [calls.Returned(list(placed.facts))]
    if hands:
        numbered = context.parallelize(hands, len(hands))
        found += numbered.map(partial(_outcome_placed, data, task)).collect()
    return found


def _outcome_placed(
    data: SmallInput, task: write_task.WriteTask, groups: tuple[batches.GroupRows, ...]
) -> calls.Outcome[list[commits.Written]]:
    return calls.outcome_of(lambda: _write_placed(data, task, groups))


def _write_placed(
    data: SmallInput, task: write_task.WriteTask, groups: tuple[batches.GroupRows, ...]
) -> list[commits.Written]:
    storage = locations.open_storage(task.table_uri)
    batch = tasks.prepare(task, data.read(), storage)
    return attempts.run(task, replace(batch, groups=groups), is_placed=True)


def _outcome(
    data: SmallInput, task: write_task.WriteTask, count: int, number: int
) -> calls.Outcome[list[commits.Written]]:
    return calls.outcome_of(lambda: _write_own(data, task, count, number))


def _write_own(
    data: SmallInput, task: write_task.WriteTask, count: int, number: int
) -> list[commits.Written]:
    batch = tasks.prepare(task, data.read(), locations.open_storage(task.table_uri))
    own = tuple(group for group in batch.groups if _owner(group, count) == number)
    return attempts.run(task, replace(batch, groups=own), is_alone=count == 1)


def _owner(group: batches.GroupRows, count: int) -> int:
    """Return the task of a file group, by its place alone: no two tasks may differ about it."""
    return (zlib.crc32(group.partition_path.encode()) + group.bucket) % count
