"""A fault for Spark's tasks: workers that die when their data files are written."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from hoodie.engine import protocol
from hoodie.write import tasks, write_task

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class DyingTask(write_task.WriteTask):
    """A write of which one worker dies right after it has written its data files.

    Which worker writes is up to Spark: each one is ready to die where the task arrives, and the
    first to be done does. It arrives as a plain task.
    """

    mark: Path

    @classmethod
    def of(cls, task: write_task.WriteTask, mark: Path) -> Self:
        """Return the same write, which leaves a mark where it dies."""
        return cls(**_values(task), mark=mark)

    def __reduce__(self) -> tuple[object, ...]:
        return _arrived, (_values(self), self.mark)


def _values(task: write_task.WriteTask) -> dict[str, Any]:
    return {each.name: getattr(task, each.name) for each in fields(write_task.WriteTask)}


class DyingEngine:
    """Maps as another, but for one worker, which dies right after a task is done."""

    def __init__(self, engine: protocol.Engine, mark: Path) -> None:
        self.engine = engine
        self.mark = mark

    @property
    def parallelism(self) -> int:
        return self.engine.parallelism

    @property
    def has_tasks_left(self) -> bool:
        return self.engine.has_tasks_left

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: protocol.Progress | None = None,
    ) -> list[Result]:
        return self.engine.map(partial(_run_and_die, task, self.mark), items, progress=progress)


def _run_and_die(task: Callable[[Item], Result], mark: Path, item: Item) -> Result:
    result = task(item)
    if not mark.exists():
        mark.touch()
        os._exit(1)
    return result


def _arrived(values: dict[str, Any], mark: Path) -> write_task.WriteTask:
    """Have this worker die once its next data files are there, unless one did already."""
    if not mark.exists():
        tasks.run = _dying(tasks.run, mark)
        tasks.write = _dying(tasks.write, mark)
    return write_task.WriteTask(**values)


def _dying(write: Callable[Arguments, Result], mark: Path) -> Callable[Arguments, Result]:
    def write_and_die(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        result = write(*args, **kwargs)
        with contextlib.suppress(FileExistsError):
            mark.touch(exist_ok=False)
            os._exit(1)
        return result

    return write_and_die
