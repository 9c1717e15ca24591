"""A fault for Spark's tasks: workers that die when their data files are written."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

import pyarrow as pa

from hoodie.engine import protocol
from hoodie.write import tasks
from hoodie_jobs.spark import reading, small

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class DyingParser:
    """Parses as another, in a worker that dies right after it has written its data files."""

    def __init__(self, parser: reading.Parser, mark: Path) -> None:
        self.parser = parser
        self.mark = mark

    def parse(self, part: pa.Table) -> pa.Table:
        _die_after_write(self.mark)
        return self.parser.parse(part)


class DyingInput:
    """Reads as another, in a worker that dies right after it has written its data files."""

    def __init__(self, data: small.SmallInput, mark: Path) -> None:
        self.data = data
        self.mark = mark

    def read(self) -> pa.Table:
        _die_after_write(self.mark)
        return self.data.read()


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


def _die_after_write(mark: Path) -> None:
    """Have this worker die once its next data files are there, unless one did already."""
    if mark.exists():
        return
    mark.touch()
    # In the worker that dies.
    tasks.run = _dying(tasks.run)
    tasks.write = _dying(tasks.write)


def _dying(write: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    def write_and_die(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        write(*args, **kwargs)
        os._exit(1)

    return write_and_die
