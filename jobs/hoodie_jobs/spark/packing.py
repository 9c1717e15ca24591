"""Which file slices one task of a scan reads.

A task costs 25 ms of a core in the JVM and in its worker, as much as 1 MB of a slice with changes.
Neighbours therefore share a task while they are small, and in larger tables as long as each core
has a few tasks, so that none of them waits long for the last one. Each core has as many tasks as
any other: with three tasks for two cores one core is idle in the second half. Of a slice as much
counts as the columns that are read are of all columns.
"""

import itertools
from collections.abc import Sequence
from typing import Final

from hoodie.model import predicates, schemas
from hoodie.read import tasks

TASK_BYTES_MIN = 4 << 20
TASK_BYTES_MAX: Final = 16 << 20
"""The task itself is 5 % of its time then. Spark may have more cores soon than it has now."""

TASKS_PER_CORE: Final = 4
ITEM_BYTES_MIN: Final = 64 << 10
"""Opening its files takes as long."""

_ALWAYS_READ = (schemas.RECORD_KEY, schemas.COMMIT_TIME)
"""What a merge needs, about."""


def packed(planned: Sequence[tasks.ReadTask], cores: int | None) -> list[list[tasks.ReadTask]]:
    """Return what each task of a scan reads, in the order of the plan.

    Args:
        planned: The slices, one each.
        cores: How many tasks run at once; None if that is not known.
    """
    sizes_bytes = [max(_read_bytes(task), ITEM_BYTES_MIN) for task in planned]
    return [[planned[place] for place in group] for group in groups(sizes_bytes, cores)]


def _read_bytes(task: tasks.ReadTask) -> int:
    """Return about how much of a slice is read; columns are taken to be alike."""
    of_filter = predicates.columns(task.query.where) if task.query.where is not None else ()
    needed = {*task.query.columns, *of_filter, *_ALWAYS_READ}
    columns = len(tasks.full_schema(task.schema.arrow))
    return task.file_slice.total_bytes * min(len(needed), columns) // columns


def groups(sizes_bytes: Sequence[int], cores: int | None) -> list[list[int]]:
    """Return the places of items of these positive sizes, in groups of neighbours.

    The groups are of about the same size, but for those of a single large item.
    """
    total_bytes = sum(sizes_bytes)
    count = task_count(total_bytes, cores)

    def number(place: int) -> int:
        middle = ends[place] - sizes_bytes[place] / 2
        return int(middle * count / total_bytes)

    ends = list(itertools.accumulate(sizes_bytes))
    return [list(group) for _, group in itertools.groupby(range(len(sizes_bytes)), number)]


def task_count(size_bytes: int, cores: int | None) -> int:
    """Return how many tasks read that much, if it can be divided at will."""
    most = -(-size_bytes // TASK_BYTES_MIN)
    if cores is None:
        return most
    count = min(most, max(cores * TASKS_PER_CORE, -(-size_bytes // TASK_BYTES_MAX)))
    return count - count % cores if count > cores else count
