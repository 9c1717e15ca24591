"""Row filters: every one has a text, and keeps the rows that three-valued logic keeps."""

import datetime
import decimal
import operator
from collections.abc import Mapping, Sequence
from typing import assert_never

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import predicates
from hoodie.read import where

Cell = predicates.Literal | None
Row = Mapping[str, Cell]

SCHEMA = pa.schema(
    {
        "whole": pa.int32(),
        "real": pa.float64(),
        "price": pa.decimal128(7, 2),
        "word": pa.string(),
        "flag": pa.bool_(),
        "day": pa.date32(),
    }
)
# Few values, so that filters and rows meet; whole numbers beyond the column's type among them.
VALUES: Mapping[str, st.SearchStrategy[predicates.Literal]] = {
    "whole": st.sampled_from([-1, 0, 1, 2**31 - 1]),
    "real": st.sampled_from([-1.5, 0.0, 0.5, 1e300]),
    "price": st.sampled_from([decimal.Decimal(text) for text in ("-1.50", "0.00", "99999.99")]),
    "word": st.sampled_from(["", "a", "it's", "ü", 'a"b']),
    "flag": st.booleans(),
    "day": st.dates(datetime.date(2013, 1, 1), datetime.date(2013, 1, 3)),
}
LITERALS: Mapping[str, st.SearchStrategy[predicates.Literal]] = {
    **VALUES,
    "whole": st.sampled_from([-1, 0, 1, decimal.Decimal("0.5"), 2**40]),
    "real": VALUES["real"].map(lambda value: decimal.Decimal(repr(value))),
    "price": VALUES["price"]
    | st.sampled_from([0, 1, 10**9, *map(decimal.Decimal, ("-1.501", "99999.990000000000001"))]),
    "day": VALUES["day"].map(str),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    max_size=12,
)


def conditions(column: str) -> st.SearchStrategy[predicates.Predicate]:
    literals = LITERALS[column]
    return st.one_of(
        st.builds(
            predicates.Compare,
            st.just(column),
            st.sampled_from(predicates.Comparator),
            literals,
        ),
        st.builds(predicates.In, st.just(column), st.lists(literals, min_size=1).map(tuple)),
        st.builds(predicates.IsNull, st.just(column)),
    )


PREDICATES = st.recursive(
    st.sampled_from(SCHEMA.names).flatmap(conditions),
    lambda inner: st.one_of(
        st.builds(predicates.Not, inner),
        st.builds(predicates.And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(predicates.Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


def text_of(predicate: predicates.Predicate) -> str:
    match predicate:
        case predicates.Compare(column=column, comparator=comparator, value=value):
            return f'"{column}" {comparator.value} {literal_text(value)}'
        case predicates.In(column=column, values=values):
            return f"{column} in ({', '.join(map(literal_text, values))})"
        case predicates.IsNull(column=column):
            return f"{column} is null"
        case predicates.Not(operand=operand):
            return f"not ({text_of(operand)})"
        case predicates.And(operands=operands):
            return " and ".join(f"({text_of(operand)})" for operand in operands)
        case predicates.Or(operands=operands):
            return " OR ".join(f"({text_of(operand)})" for operand in operands)
        case _:
            assert_never(predicate)


def literal_text(value: predicates.Literal) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


_FUNCTIONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def truth(predicate: predicates.Predicate, row: Row) -> bool | None:
    """The dumb oracle: SQL's logic, a row at a time; None is unknown."""
    match predicate:
        case predicates.Compare(column=column, comparator=comparator, value=value):
            cell = cell_of(row, column)
            return None if cell is None else bool(_FUNCTIONS[comparator.value](cell, value))
        case predicates.In(column=column, values=values):
            cell = cell_of(row, column)
            return None if cell is None else cell in values
        case predicates.IsNull(column=column):
            return row[column] is None
        case predicates.Not(operand=operand):
            inner = truth(operand, row)
            return None if inner is None else not inner
        case predicates.And(operands=operands):
            parts = [truth(operand, row) for operand in operands]
            return False if False in parts else None if None in parts else True
        case predicates.Or(operands=operands):
            parts = [truth(operand, row) for operand in operands]
            return True if True in parts else None if None in parts else False
        case _:
            assert_never(predicate)


def cell_of(row: Row, column: str) -> Cell:
    cell = row[column]
    if isinstance(cell, float):
        return decimal.Decimal(repr(cell))
    return str(cell) if isinstance(cell, datetime.date) else cell


@given(PREDICATES)
@settings(deadline=None)  # The machine is shared.
def test_every_filter_is_read_as_it_is_written(predicate: predicates.Predicate) -> None:
    assert where.parse(text_of(predicate)) == predicate


@given(PREDICATES, ROWS)
@settings(deadline=None)  # The machine is shared.
def test_filter_keeps_the_rows_for_which_it_is_true(
    predicate: predicates.Predicate, rows: Sequence[Row]
) -> None:
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)
    kept = table.filter(predicates.to_expression(predicate, SCHEMA)).to_pylist()
    assert kept == [row for row in rows if truth(predicate, row) is True]
    assert predicates.kept(predicate, table, SCHEMA.names).to_pylist() == kept
    assert predicates.mask(predicate, table).to_pylist() == [truth(predicate, row) for row in rows]


@given(
    st.text()
    | st.lists(
        st.sampled_from(
            [
                "a",
                '"b"',
                "=",
                "<",
                "in",
                "(",
                ")",
                ",",
                "1",
                "'x'",
                "not",
                "and",
                "or",
                "is",
                "null",
            ]
        )
    ).map(" ".join)
)
@settings(deadline=None)  # The machine is shared.
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        predicate = where.parse(text)
    except errors.InvalidInputError:
        return
    assert where.parse(text_of(predicate)) == predicate
