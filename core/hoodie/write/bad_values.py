"""Refusals of values that make no record key or partition path."""

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors


def refuse(
    name: str, values: pa.Array, is_bad: pa.Array, problem: str, expected: str = "other values"
) -> None:
    """Raise when some values of a column are bad.

    Args:
        name: The column's.
        values: Its values.
        is_bad: A boolean for each, or null, which is not bad.
        problem: What the column has then.
        expected: What it should have.

    Raises:
        InvalidInputError: With the number of bad values and the first of them.
    """
    count = pc.sum(is_bad).as_py() or 0
    if count:
        bad = values.filter(is_bad)
        raise errors.InvalidInputError(
            f"column {name!r} has {problem}, in {count} of {len(values)} rows{example(bad)}: "
            f"expected {expected}"
        )


def example(values: pa.Array) -> str:
    """Return the first value as the end of a sentence; empty where there is none."""
    return f", for example {values[0].as_py()!r:.100}" if len(values) else ""
