"""What a table service or a write asks of an engine.

Tasks are values: functions and items that pickle, so that the same task runs in a thread here and
in a Spark executor. A Storage pickles as its URI, and is opened anew where it arrives.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", int, str)
Part = TypeVar("Part")
Result = TypeVar("Result")


class Progress(Protocol):
    """Hears how far a `map` has come."""

    def __call__(self, done: int, total: int) -> None:
        """Take the count of finished items."""
        ...


class Engine(Protocol):
    """Runs one function over many items."""

    @property
    def parallelism(self) -> int:
        """How many items run at once."""
        ...

    @property
    def is_distributed(self) -> bool:
        """Whether tasks run in other processes, to which their items and results are sent."""
        ...

    @property
    def has_tasks_left(self) -> bool:
        """Whether a task of a map that failed may still be running somewhere."""
        ...

    def map(
        self,
        task: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        progress: Progress | None = None,
    ) -> list[Result]:
        """Return the task's results in the items' order.

        Raises:
            Exception: The first failure, after all running items have ended, unless
                `has_tasks_left` says otherwise; the rest is not started.
        """
        ...

    def exchange(
        self,
        split: Callable[[Item], Mapping[Key, Part]],
        items: Sequence[Item],
        merge: Callable[[Key, Sequence[Part]], Result],
    ) -> list[Result]:
        """Regroup items by key: split each into parts, and merge all parts of each key.

        Args:
            split: Returns a part of an item for each key that it has something for.
            items: What is split.
            merge: Takes a key and its parts, in the items' order.

        Returns:
            One result a key, in the order of the keys.

        Raises:
            Exception: As `map`.
        """
        ...
