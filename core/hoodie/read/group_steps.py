"""Change data of several writes of a file group, of which each file is read once.

A step from moment to moment reads the slices before and after a write (`row_versions.py`). Most of
the slice after one write is that before the next one of the same file group. So the steps of a file
group share what they read:

    log files alone    steps whose slices have the base file in common are computed together, by one
                       read of it for the keys of all (`common_base.py`)
    base files alone   the rows after a step are kept, as those before the next one

Any other step is computed alone, and so is one that cannot be read, or a failure of one would be
that of others. What is found is the same in any case.

Memory: some steps share at a time, so that there is a bound for what is kept; a file group of large
files shares nothing.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from hoodie import errors
from hoodie.engine import ahead
from hoodie.filegroup import common_base
from hoodie.model import files
from hoodie.read import row_versions

_KEPT_BYTES = 16 << 20
"""Of the files of which something is kept at a time."""

_STEPS_MAX = 1 << 10
"""That are planned ahead."""


@dataclass(frozen=True, slots=True)
class GroupStep:
    """A step of a file group.

    Attributes:
        steps: It and others that share what they read.
        number: Its place among them.
    """

    steps: "GroupSteps"
    number: int


Piece: TypeAlias = GroupStep | Sequence[row_versions.VersionTask]
"""What is read at once: a step, or tasks that are together (`row_versions.together`)."""


def pieces(tasks: Iterable[row_versions.VersionTask]) -> Iterator[Piece]:
    """Yield tasks, in their order: what is stored in small logs together, others as steps."""
    for is_stored, some in itertools.groupby(tasks, key=lambda task: task.is_stored):
        pieces_of = row_versions.together if is_stored else grouped
        yield from pieces_of(some)


def changes(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a piece, as `row_versions.changes` of one task after the other."""
    if isinstance(piece, GroupStep):
        return piece.steps.changes(piece.number)
    return row_versions.changes_of(piece)


def grouped(
    tasks: Iterable[row_versions.VersionTask], kept_bytes: int = _KEPT_BYTES
) -> Iterator[GroupStep]:
    """Yield tasks, in their order, as steps of their file groups.

    Args:
        tasks: Those of a write before those of the next one.
        kept_bytes: The bound of what is kept at a time, by the size of files.
    """
    window: list[row_versions.VersionTask] = []
    kept: dict[files.FileGroupId | None, int] = {}
    sum_bytes = 0
    for task in tasks:
        group = _group_of(task)
        size_bytes = 0 if group is None else _kept_bytes(task)
        more_bytes = max(0, size_bytes - kept.get(group, 0))
        if window and (len(window) == _STEPS_MAX or sum_bytes + more_bytes > kept_bytes):
            yield from _grouped(window)
            window, kept, sum_bytes, more_bytes = [], {}, 0, size_bytes
        window.append(task)
        kept[group] = kept.get(group, 0) + more_bytes
        sum_bytes += more_bytes
    yield from _grouped(window)


def _grouped(window: Sequence[row_versions.VersionTask]) -> Iterator[GroupStep]:
    by_group: dict[files.FileGroupId, list[row_versions.VersionTask]] = {}
    for task in window:
        group = _group_of(task)
        if group is not None:
            by_group.setdefault(group, []).append(task)
    steps = {group: GroupSteps(tasks) for group, tasks in by_group.items()}
    numbers = dict.fromkeys(steps, 0)
    for task in window:
        group = _group_of(task)
        if group is None:
            yield GroupStep(GroupSteps([task]), 0)
        else:
            yield GroupStep(steps[group], numbers[group])
            numbers[group] += 1


class GroupSteps:
    """Steps of a file group in the order of their writes.

    Threads may take them at the same time, each step once.
    """

    def __init__(self, tasks: Sequence[row_versions.VersionTask]) -> None:
        """Take the steps; nothing is read."""
        self._tasks = tasks
        self._computing = ahead.Turn()
        self._tried = 0
        self._found: dict[int, row_versions.Found] = {}
        self._last: tuple[files.BaseFile, pa.Table] | None = None

    def changes(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a step, as `row_versions.changes`."""
        computed = functools.partial(self._computed, number)
        return row_versions.changes(self._tasks[number], computed)

    def _computed(self, number: int) -> row_versions.Found:
        task = self._tasks[number]
        # No thread holds the lock while its results are taken.
        with self._computing:
            if number >= self._tried:
                self._compute_from(number)
            found = self._found.pop(number, None)
        return row_versions.compute(task) if found is None else found

    def _compute_from(self, number: int) -> None:
        """Compute a step, and those behind it that are computed together with it."""
        task = self._tasks[number]
        same = self._with_same_base(number)
        self._tried = number + len(same)
        if len(same) > 1:
            try:
                found = row_versions.compute_together(same)
            except errors.HoodieError:
                return
            self._found |= {
                number + place: each for place, each in enumerate(found) if each is not None
            }
        elif len(self._tasks) > 1 and _are_base_files(task):
            self._found[number] = self._compute_behind(task)

    def _with_same_base(self, number: int) -> list[row_versions.VersionTask]:
        """Return a step, and those behind it whose slices have all their base file in common."""
        first = self._tasks[number]
        same = itertools.takewhile(
            lambda each: _has_one_base(each) and common_base.have_one((*first.before, *each.after)),
            self._tasks[number:],
        )
        return list(same) or [first]

    def _compute_behind(self, task: row_versions.VersionTask) -> row_versions.Found:
        rows_before = None
        if self._last is not None and task.before and task.before[0].base_file == self._last[0]:
            rows_before = self._last[1]
        self._last = None  # Or there would be three of them.
        found, rows = row_versions.compute_behind(task, rows_before)
        base_file = task.after[0].base_file
        assert base_file is not None, task
        self._last = base_file, rows
        return found


def _group_of(task: row_versions.VersionTask) -> files.FileGroupId | None:
    """Return the file group of a step that may share what it reads; None for any other."""
    groups = {each.group for each in (*task.before, *task.after)}
    is_plain = len(groups) == 1 and len(task.after) == 1 and not task.keys
    return groups.pop() if is_plain else None


def _kept_bytes(task: row_versions.VersionTask) -> int:
    """Return the size of files of which something is kept at this step."""
    if _has_one_base(task):
        return task.after[0].log_bytes
    return sum(each.total_bytes for each in (*task.before, *task.after))


def _has_one_base(task: row_versions.VersionTask) -> bool:
    """Return whether a step adds log files to a slice and does nothing else, as its files show."""
    return bool(task.before) and common_base.have_one((*task.before, *task.after))


def _are_base_files(task: row_versions.VersionTask) -> bool:
    """Return whether slices have no log files."""
    return all(each.has_base and not each.log_files for each in (*task.before, *task.after))
