"""Which rows of the pieces of a batch go to which file group, once `tasks.place` has decided it.

In tables whose writers look keys up that depends on what the table holds, and on what other rows of
the batch there are: tasks that decided it each for itself would write one key to two file groups,
and an attempt could decide differently from the one before. So it is decided once a write, for all
rows. Each piece of the input is then dealt out to the tasks that write its file groups, and a task
puts together what it gets, in the order of the input.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.write import batches

_GROUP_COLUMN = "_hoodie_routed_group"
_LEAVING_COLUMN = "_hoodie_routed_leaving"


def owners(groups: Sequence[batches.GroupRows], count: int) -> npt.NDArray[np.int32]:
    """Deal file groups out to tasks, about as many rows to each; return the task of each group.

    Args:
        groups: What is written.
        count: Of the tasks, at most.
    """
    found = np.zeros(len(groups), np.int32)
    hands = [(0, number) for number in range(min(count, len(groups)))]
    by_size = sorted(range(len(groups)), key=lambda place: -_row_count(groups[place]))
    for place in by_size:
        rows, number = hands[0]
        found[place] = number
        # A group costs something, however few rows it takes: its base file is written again.
        heapq.heapreplace(hands, (rows + _row_count(groups[place]) + 1, number))
    return found


def _row_count(group: batches.GroupRows) -> int:
    return len(group.rows) + len(group.leaving)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Where the rows of one piece of the input go.

    Attributes:
        rows: Positions in the piece, ascending; several times that of a row of several groups.
        groups: The file group of each, by its number.
        leaving: Whether the group loses the key of that row, and does not get the row.
    """

    rows: npt.NDArray[np.int32]
    groups: npt.NDArray[np.int32]
    leaving: npt.NDArray[np.bool_]


def of_pieces(groups: Sequence[batches.GroupRows], counts: Sequence[int]) -> Iterator[Routes]:
    """Yield where the rows of each piece of the input go.

    Args:
        groups: With positions in all pieces, one after the other.
        counts: Of the rows of each piece.
    """
    parts = [(number, group.rows, False) for number, group in enumerate(groups)]
    parts += [(number, group.leaving, True) for number, group in enumerate(groups)]
    rows = np.concatenate([np.empty(0, np.int64), *(some for _, some, _ in parts)])
    numbers = np.repeat([number for number, _, _ in parts], [len(some) for _, some, _ in parts])
    leaving = np.repeat([leaves for _, _, leaves in parts], [len(some) for _, some, _ in parts])
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    ends = np.cumsum(counts, dtype=np.int64)
    for start, end in zip(ends - counts, ends, strict=True):
        some = slice(*np.searchsorted(rows, (start, end)))
        yield Routes(
            rows=(rows[some] - start).astype(np.int32),
            groups=numbers[order[some]].astype(np.int32),
            leaving=leaving[order[some]].astype(np.bool_),
        )


def without_rows(groups: Sequence[batches.GroupRows]) -> tuple[batches.GroupRows, ...]:
    """Return file groups for tasks that get their rows with `routed`."""
    none = np.empty(0, np.int64)
    return tuple(replace(group, rows=none, leaving=none) for group in groups)


def routed(piece: pa.Table, of_piece: Routes, owner: npt.NDArray[np.int32]) -> dict[int, pa.Table]:
    """Return the rows of a piece for each task that writes some, each with its file group.

    Args:
        piece: Of the input.
        of_piece: Where its rows go.
        owner: The task of each file group.
    """
    targets = owner[of_piece.groups]
    found = {}
    for target in np.unique(targets).tolist():
        own = np.flatnonzero(targets == target)
        found[target] = (
            piece.take(pa.array(of_piece.rows[own]))
            .append_column(_GROUP_COLUMN, pa.array(of_piece.groups[own]))
            .append_column(_LEAVING_COLUMN, pa.array(of_piece.leaving[own]))
        )
    return found


def received(
    rows: pa.Table, groups: Sequence[batches.GroupRows]
) -> tuple[pa.Table, tuple[batches.GroupRows, ...]]:
    """Return the rows that a task got, and the file groups of these, with positions in them.

    Args:
        rows: Of `routed`, put together in the order of the input.
        groups: Of `without_rows`.
    """
    numbers = rows.column(_GROUP_COLUMN).to_numpy()
    leaving = rows.column(_LEAVING_COLUMN).to_numpy()
    own = tuple(
        replace(
            groups[number],
            rows=np.flatnonzero((numbers == number) & ~leaving),
            leaving=np.flatnonzero((numbers == number) & leaving),
        )
        for number in np.unique(numbers).tolist()
    )
    return rows.drop_columns([_GROUP_COLUMN, _LEAVING_COLUMN]), own
