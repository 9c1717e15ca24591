"""Rows of CSV and JSON that do not fit are separated from the others, which can be written."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from hoodie import errors


class Rejects(Protocol):
    """Takes rows that do not fit."""

    def add_malformed(self, file: str, number: int, text: str, problem: str) -> None:
        """Reject a row that has another number of fields than the others, or is no JSON object.

        Args:
            file: Its file.
            number: How many rows come before it.
            text: The row.
            problem: What is wrong.
        """
        ...

    def add(self, file: str, number: int, column: str, problem: str, fields: object) -> None:
        """Reject a row with a value that does not fit.

        Args:
            file: Its file.
            number: How many rows come before it, without those that are malformed.
            column: The table's column.
            problem: What is wrong.
            fields: The row's texts by column.
        """
        ...


def fitting(
    texts: pa.Table, fit: Callable[[pa.Table], pa.Table], reject: Callable[[int, str, str], None]
) -> pa.Table:
    """Return the rows that fit, as what `fit` makes of them.

    Args:
        texts: Rows as they were read.
        fit: Raises an InvalidInputError if a value does not fit; columns do not depend on others.
        reject: Told the number of a row that does not, the column and the problem.
    """
    try:
        return fit(texts)
    except errors.InvalidInputError:
        is_right = np.ones(texts.num_rows, np.bool_)
    for name in texts.column_names:
        for row, problem in _misfits(texts.select([name]), fit):
            # A row is told once.
            if is_right[row]:
                reject(row, name, problem)
                is_right[row] = False
    return fit(texts.filter(pa.array(is_right)))


def _misfits(column: pa.Table, fit: Callable[[pa.Table], pa.Table]) -> list[tuple[int, str]]:
    """Return the rows of a column that do not fit, each with the problem, in their order.

    A value is tried once, however many rows have it: what is wrong in many rows is often the same.
    """
    found = column.column(0).combine_chunks().dictionary_encode("encode")
    values = pa.table({column.column_names[0]: found.dictionary})
    problems = dict(_misfitting(values, fit))
    codes = found.indices.to_numpy()
    is_wrong = np.zeros(values.num_rows, np.bool_)
    is_wrong[list(problems)] = True
    return [(row, problems[codes[row]]) for row in np.flatnonzero(is_wrong[codes]).tolist()]


def _misfitting(values: pa.Table, fit: Callable[[pa.Table], pa.Table]) -> Iterator[tuple[int, str]]:
    """Yield the rows that do not fit, each with the problem, found by halves."""
    parts = [(0, values.num_rows)]
    while parts:
        start, end = parts.pop()
        try:
            fit(values.slice(start, end - start))
        except errors.InvalidInputError as error:
            if end - start > 1:
                middle = (start + end) // 2
                parts += [(middle, end), (start, middle)]
            else:
                yield start, str(error)
