"""Ranges of columns leave out only rows that a filter does not keep."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.model import predicates
from hoodie.model.predicates import And, Comparator, Compare, In, IsNull, Not, Or
from support.tables.random_filters import FILTERS, SCHEMA, VALUES

Row = dict[str, Any]
ROWS = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), each) for name, each in VALUES.items()}),
    max_size=4,
)


def in_java(text: str) -> bytes:
    """Return what orders texts as Java does."""
    return text.encode("utf-16-be", "surrogatepass")


def ranges_of(rows: Sequence[Row], known: frozenset[str], *, is_java: bool) -> pa.Table:
    """Return what is known of the columns of some rows, as one row."""
    arrays = {}
    for field in SCHEMA:
        values = [row[field.name] for row in rows if row[field.name] is not None]
        key = in_java if is_java and field.name == "s" else None
        is_known = field.name in known
        low, high = (
            (min(values, key=key), max(values, key=key)) if values and is_known else (None, None)
        )
        has_nulls = len(values) < len(rows) if is_known else None
        for what, value, data_type in (
            (predicates.LOW, low, field.type),
            (predicates.HIGH, high, field.type),
            (predicates.HAS_NULLS, has_nulls, pa.bool_()),
            (predicates.IS_KNOWN, is_known, pa.bool_()),
        ):
            arrays[predicates.range_name(field.name, what)] = pa.array([value], data_type)
    return pa.table(arrays)


@settings(max_examples=400)
@given(ROWS, FILTERS, st.frozensets(st.sampled_from(SCHEMA.names)), st.booleans())
def test_what_ranges_leave_out_has_no_row_of_the_filter(
    rows: list[Row], where: predicates.Predicate, unknown: frozenset[str], is_java: bool
) -> None:
    data = pa.Table.from_pylist(rows, SCHEMA)
    kept = data.filter(predicates.to_expression(where, SCHEMA))
    ranges = ranges_of(rows, frozenset(SCHEMA.names) - unknown, is_java=is_java)
    if kept.num_rows:
        assert ranges.filter(predicates.to_range_expression(where, SCHEMA)).num_rows == 1


def test_ranges_leave_out_what_they_exclude() -> None:
    rows = [{**dict.fromkeys(SCHEMA.names), "i": number, "s": f"k{number}"} for number in (3, 5)]
    ranges = ranges_of(rows, frozenset(SCHEMA.names), is_java=True)
    excluded: list[predicates.Predicate] = [
        Compare("i", Comparator.EQ, 6),
        Compare("i", Comparator.LT, 3),
        Compare("i", Comparator.LE, 2.5),
        Compare("i", Comparator.GT, 5),
        Compare("s", Comparator.GE, "k6"),
        In("s", ("a", "z")),
        In("i", ()),
        IsNull("i"),
        Compare("d", Comparator.EQ, 1.0),
        And((Compare("i", Comparator.EQ, 4), IsNull("i"))),
        Or((Compare("i", Comparator.EQ, 9), IsNull("s"))),
        Not(Compare("i", Comparator.GE, 3)),
        Not(Compare("i", Comparator.LE, 5.5)),
        Not(Not(Compare("i", Comparator.GT, 5))),
        Not(Or((Compare("i", Comparator.GE, 3), IsNull("s")))),
        Not(And((Compare("i", Comparator.LT, 9), Not(IsNull("i"))))),
        Not(IsNull("d")),
    ]
    for each in excluded:
        assert not ranges.filter(predicates.to_range_expression(each, SCHEMA)).num_rows, each
    same = ranges_of(rows[:1], frozenset(SCHEMA.names), is_java=True)
    equal: list[predicates.Predicate] = [
        Compare("i", Comparator.NE, 3),
        Compare("s", Comparator.NE, "k3"),
        Not(In("i", (3, 9))),
        Not(Compare("s", Comparator.EQ, "k3")),
    ]
    for each in equal:
        assert ranges.filter(predicates.to_range_expression(each, SCHEMA)).num_rows, each
        assert not same.filter(predicates.to_range_expression(each, SCHEMA)).num_rows, each


def test_ranges_do_not_decide_what_nan_is_not() -> None:
    rows = [{**dict.fromkeys(SCHEMA.names), "d": 1.0}]
    ranges = ranges_of(rows, frozenset(SCHEMA.names), is_java=True)
    for where in (
        Compare("d", Comparator.NE, 1.0),
        Not(Compare("d", Comparator.LE, 2.0)),
        Not(In("d", (1.0,))),
    ):
        assert ranges.filter(predicates.to_range_expression(where, SCHEMA)).num_rows == 1, where
