"""Parameters of which a sample has each value of the first kind."""

from collections.abc import Sequence

import pytest


def covering(
    names: str, values: Sequence[object], others: Sequence[object], *, first: int | None = None
) -> pytest.MarkDecorator:
    """Parametrize by each of some values with each of others, in an order for samples.

    Args:
        names: Of both, as pytest takes them.
        values: Each of which is in a sample of so many.
        others: With which they take turns there.
        first: How many of the values a sample has, from the first on; all by default.
    """
    count = len(values) if first is None else first
    pairs = [
        (value, others[(place + turn) % len(others)])
        for turn in range(len(others))
        for place, value in enumerate(values)
    ]
    left = pairs[count : len(values)]
    return pytest.mark.parametrize(names, pairs[:count] + pairs[len(values) :] + left)
