"""How grids fit terminals: shrink first, then hide, never wrap."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.cli import grids

KEY = grids.Column(heading="key")
TEXT = grids.Column(heading="text", importance=2, width_min=6)
NUMBER = grids.Column(heading="number", importance=1, is_number=True)
GRID = grids.Grid(columns=(KEY, TEXT, NUMBER), rows=(("k1", "a text of 20 letters", "12"),))


def test_everything_is_shown_where_there_is_no_limit() -> None:
    assert grids.fit(GRID, None) == grids.Fit(widths={0: 3, 1: 20, 2: 6}, hidden=())
    assert grids.fit(GRID, 33) == grids.fit(GRID, None)


def test_columns_that_may_shrink_do_so_first() -> None:
    assert grids.fit(GRID, 30) == grids.Fit(widths={0: 3, 1: 17, 2: 6}, hidden=())
    assert grids.fit(GRID, 19) == grids.Fit(widths={0: 3, 1: 6, 2: 6}, hidden=())


def test_least_important_column_goes_first_and_key_never() -> None:
    assert grids.fit(GRID, 18) == grids.Fit(widths={0: 3, 1: 13}, hidden=("number",))
    assert grids.fit(GRID, 5) == grids.Fit(widths={0: 3}, hidden=("text", "number"))
    assert grids.fit(GRID, 1) == grids.Fit(widths={0: 3}, hidden=("text", "number"))


def test_empty_columns_go_first_without_mention() -> None:
    columns = (KEY, grids.Column(heading="writer", importance=9), NUMBER)
    grid = grids.Grid(columns=columns, rows=(("k1", "", "12"),))
    assert grids.fit(grid, None).widths == {0: 3, 1: 6, 2: 6}
    assert grids.fit(grid, 12) == grids.Fit(widths={0: 3, 2: 6}, hidden=())


def test_widest_columns_shrink_until_they_are_equal() -> None:
    columns = tuple(grids.Column(heading=name, width_min=3) for name in "abc")
    grid = grids.Grid(columns=columns, rows=(("x" * 30, "y" * 10, "z"),))
    assert grids.fit(grid, 20).widths == {0: 7, 1: 8, 2: 1}


def test_width_counts_cells_of_the_terminal() -> None:
    grid = grids.Grid(columns=(KEY,), rows=(("漢字漢字",),))
    assert grids.fit(grid, None).widths == {0: 8}


CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30)
COLUMNS = st.builds(
    grids.Column,
    heading=CELLS,
    importance=st.none() | st.integers(0, 3),
    is_number=st.booleans(),
    width_min=st.none() | st.integers(1, 10),
)


@st.composite
def some_grids(draw: st.DrawFn) -> grids.Grid:
    columns = draw(st.lists(COLUMNS, min_size=1, max_size=6))
    row = st.tuples(*(CELLS for _ in columns))
    return grids.Grid(columns=tuple(columns), rows=tuple(draw(st.lists(row, max_size=4))))


@given(some_grids(), st.integers(1, 120))
@settings(deadline=None)  # The machine is shared.
def test_grid_fits_or_holds_only_what_can_neither_shrink_nor_go(
    grid: grids.Grid, width: int
) -> None:
    fit = grids.fit(grid, width)
    natural = grids.fit(grid, None).widths
    empty = [
        index for index in range(len(grid.columns)) if not any(row[index] for row in grid.rows)
    ]
    assert len({*fit.widths, *empty}) + len(fit.hidden) == len(grid.columns)
    assert all(shown <= natural[index] for index, shown in fit.widths.items())
    if grids.total_width(fit.widths.values()) > width:
        assert all(grid.columns[index].importance is None for index in fit.widths)
