"""Items that follow each other, put into lists that are not too large."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def in_order(
    items: Iterable[Item], size_of: Callable[[Item], int], size_max: int
) -> Iterator[list[Item]]:
    """Yield items, in their order, in lists whose sizes sum up to a maximum; a larger one alone.

    Args:
        items: Each is looked at once.
        size_of: The size of an item, in whatever the maximum is in.
        size_max: Of a list.
    """
    some: list[Item] = []
    total = 0
    for each in items:
        size = size_of(each)
        if some and total + size > size_max:
            yield some
            some, total = [], 0
        some.append(each)
        total += size
    if some:
        yield some
