"""Tables of texts, and how they fit a terminal.

When a grid is wider than its terminal, columns that may shrink do so first, down to their least
width; then whole columns go, empty ones and then the least important first. Nothing wraps: a row is
a line.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich import cells

from hoodie.cli import texts

GAP = 2
"""Blanks between two columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column.

    Attributes:
        heading: Above it.
        importance: Columns of less go first, of equal ones the last; None for one that never goes.
        is_number: Whether its cells are aligned to the right.
        width_min: It may shrink to this many cells, cut cells ending in an ellipsis; None for not.
        styles: How cells of these texts look.
    """

    heading: str
    importance: int | None = None
    is_number: bool = False
    width_min: int | None = None
    styles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Columns and rows; every row has a cell for each column."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How a grid fits a width.

    Attributes:
        widths: Of the columns shown, by their positions in the grid, in their order.
        hidden: Headings of the others, in their order, but for empty ones.
    """

    widths: Mapping[int, int]
    hidden: tuple[str, ...]


def visible(grid: Grid) -> Grid:
    """Return the grid with control codes as pictures, which have a width."""
    return Grid(
        columns=tuple(
            replace(column, heading=texts.visible(column.heading)) for column in grid.columns
        ),
        rows=tuple(tuple(map(texts.visible, row)) for row in grid.rows),
    )


def fit(grid: Grid, width: int | None) -> Fit:
    """Return which columns are shown how wide; None is a width without limit."""
    natural = _natural_widths(grid)
    empty = {index for index in range(len(grid.columns)) if _is_empty(grid, index)}
    shown = list(range(len(grid.columns)))
    if width is not None:
        least = [_least_width(*pair) for pair in zip(grid.columns, natural, strict=True)]
        excess = total_width(least) - width
        gone = set()
        for index in _going(grid, empty):
            if excess <= 0:
                break
            gone.add(index)
            excess -= least[index] + GAP
        shown = [index for index in shown if index not in gone]
        widths = _shrunk([natural[i] for i in shown], [least[i] for i in shown], width)
    else:
        widths = natural
    there = {*shown, *empty}
    return Fit(
        widths=dict(zip(shown, widths, strict=True)),
        hidden=tuple(
            column.heading for index, column in enumerate(grid.columns) if index not in there
        ),
    )


def _natural_widths(grid: Grid) -> list[int]:
    return [
        max(cells.cell_len(text) for text in (column.heading, *(row[index] for row in grid.rows)))
        for index, column in enumerate(grid.columns)
    ]


def _least_width(column: Column, natural: int) -> int:
    if column.width_min is None:
        return natural
    return min(natural, max(column.width_min, cells.cell_len(column.heading)))


def total_width(widths: Collection[int]) -> int:
    """Return the width of a row."""
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _going(grid: Grid, empty: Collection[int]) -> list[int]:
    """Return the columns that may go, the first to go first."""
    going = [
        (index not in empty, column.importance, -index)
        for index, column in enumerate(grid.columns)
        if column.importance is not None
    ]
    return [-each[2] for each in sorted(going)]


def _is_empty(grid: Grid, index: int) -> bool:
    return not any(row[index] for row in grid.rows)


def _shrunk(natural: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return the widths, the widest of those that may shrink cut first, until they fit."""
    widths = list(natural)
    while (excess := total_width(widths) - width) > 0:
        loose = [index for index in range(len(widths)) if widths[index] > least[index]]
        if not loose:
            break
        widest = max(loose, key=lambda index: widths[index])
        widths[widest] = max(least[widest], widths[widest] - excess, _second(widths, loose, widest))
    return widths


def _second(widths: Sequence[int], loose: Sequence[int], widest: int) -> int:
    """Return what the widest column may shrink to before another is as wide."""
    others = [widths[index] for index in loose if index != widest]
    second = max(others, default=0)
    return second if second < widths[widest] else widths[widest] - 1
