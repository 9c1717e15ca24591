"""Expressions of Arrow, of which a predicate is made or none, never a wrong one."""

import datetime
import decimal
import operator

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hoodie.door import expressions
from hoodie.model import predicates
from hoodie.model.predicates import And, Comparator, Compare, In, IsNull, Not, Or
from support.tables.random_filters import FILTERS, SCHEMA

F = pc.field
COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("dec", pa.decimal128(9, 2)),
        ("b", pa.bool_()),
    ]
)
DAY = datetime.date(2026, 1, 1)
TIME = datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001 - of a column without a zone
IN_DUCKDB = pc.if_else(F("id").is_valid(), F("id").isin(["a"]), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (F("id") == "a", Compare("id", Comparator.EQ, "a")),
        (F("id") != 'q"\\é\n', Compare("id", Comparator.NE, 'q"\\é\n')),
        (F("id") == pa.scalar("a", pa.large_string()), Compare("id", Comparator.EQ, "a")),
        (F("n") > pa.scalar(1, pa.int32()), Compare("n", Comparator.GT, 1)),
        (F("n") >= -5, Compare("n", Comparator.GE, -5)),
        (F("d") == DAY, Compare("d", Comparator.EQ, DAY)),
        (F("t") < TIME, Compare("t", Comparator.LT, TIME)),
        (
            F("z") < TIME.replace(tzinfo=datetime.UTC),
            Compare("z", Comparator.LT, TIME.replace(tzinfo=datetime.UTC)),
        ),
        (
            F("dec") <= decimal.Decimal("1.50"),
            Compare("dec", Comparator.LE, decimal.Decimal("1.50")),
        ),
        (F("b"), Compare("b", Comparator.EQ, True)),
        (~F("b"), Not(Compare("b", Comparator.EQ, True))),
        (F("n").is_null(), IsNull("n")),
        (F("n").is_valid(), Not(IsNull("n"))),
        (IN_DUCKDB, In("id", ("a",))),
        (F("id").isin(["a", "b"]), And((Not(IsNull("id")), In("id", ("a", "b"))))),
        (
            (F("id") == "a") & ((F("n") == 1) | F("d").is_null()),
            And(
                (
                    Compare("id", Comparator.EQ, "a"),
                    Or((Compare("n", Comparator.EQ, 1), IsNull("d"))),
                )
            ),
        ),
    ],
    ids=str,
)
def test_expression_of_an_engine_becomes_the_predicate(
    expression: pc.Expression, expected: predicates.Predicate
) -> None:
    assert expressions.predicate_of(expression, COLUMNS) == expected


@pytest.mark.parametrize(
    "expression",
    [
        F("f") > 0.1,  # 0.1 of a double is another number than that of the column's floats.
        F("n") > 1.5,
        F("id").isin(["a", None]),
        F("id").isin([str(n) for n in range(40)]),  # Printed in part.
        F("f").is_null(nan_is_null=True),
        pc.starts_with(F("id"), "a"),
        F("t") == pa.scalar(1, pa.timestamp("ns")),
        F("no") == 1,
        F(("a", "b")) == 1,
        pc.if_else(F("n").is_valid(), F("id").isin(["a"]), pa.scalar(None, pa.bool_())),
    ],
    ids=str,
)
def test_what_is_not_understood_has_no_predicate(expression: pc.Expression) -> None:
    assert expressions.predicate_of(expression, COLUMNS) is None


def test_columns_of_an_expression_are_found_by_their_names() -> None:
    found = expressions.columns_of((F("n") == 1) & (F("id") == "d of t"), COLUMNS)
    assert {"n", "id"} <= set(found) <= {"n", "id", "d", "t"}


@given(FILTERS)
def test_predicate_of_an_expression_is_another_writing_of_it(where: predicates.Predicate) -> None:
    """What our own expressions print is parsed, too; what is returned means the same."""
    expression = predicates.to_expression(where, SCHEMA)
    found = expressions.predicate_of(expression, SCHEMA)
    if found is None:
        return
    rows = pa.table(
        {
            "row": [0, 1, 2, 3],
            "i": pa.array([None, -1, 0, 2], pa.int32()),
            "f": pa.array([None, 0.1, -2.0, float("nan")], pa.float32()),
            "d": pa.array([0.1, None, -2.0, float("nan")], pa.float64()),
            "s": ["a", "ab", None, "\ue000"],
            "day": pa.array([DAY, None, DAY, DAY], pa.date32()),
            "n": pa.array(
                [decimal.Decimal("1.50"), None, decimal.Decimal(-1), decimal.Decimal(0)],
                pa.decimal128(9, 2),
            ),
            "t": pa.array([TIME, None, TIME, TIME], pa.timestamp("us")),
        }
    )
    kept = rows.filter(predicates.to_expression(found, SCHEMA)).column("row")
    assert kept == rows.filter(expression).column("row")


NUMBERS = [0, -1, 2, 2**24 + 1, 2**53 + 1, 0.1, 1.5, -0.0, float("nan"), float("inf"), 1e300]
SCALARS = [
    *(pa.scalar(each) for each in [*NUMBERS, "a", "", "\ue000", "\U0001f600", DAY, TIME, True]),
    *(pa.scalar(each, pa.float32()) for each in (0.1, 1.5, float("nan"))),
    *(pa.scalar(each, pa.int32()) for each in (0, -1, 2)),
    pa.scalar("a", pa.large_string()),
    pa.scalar(decimal.Decimal("1.5")),
    pa.scalar(decimal.Decimal("1.50"), pa.decimal128(9, 2)),
    pa.scalar(decimal.Decimal("0.125"), pa.decimal128(30, 3)),
    pa.scalar(TIME, pa.timestamp("ns")),
    pa.scalar(TIME.replace(tzinfo=datetime.UTC)),
]
VALUES = pa.table(
    {
        "n": pa.array([None, 0, -1, 2**24 + 1], pa.int32()),
        "w": pa.array([2**53 + 1, None, 2**53, 2], pa.int64()),
        "f": pa.array([0.1, -0.0, float("nan"), None], pa.float32()),
        "g": pa.array([0.1, 2.0**53, float("inf"), None], pa.float64()),
        "s": ["a", "", "\U0001f600", None],
        "day": pa.array([DAY, None, DAY, DAY + datetime.timedelta(days=1)], pa.date32()),
        "t": pa.array([TIME, None, TIME + datetime.timedelta(1), TIME], pa.timestamp("us")),
        "z": pa.array([TIME, None, TIME, TIME], pa.timestamp("us", "UTC")),
        "dec": pa.array(map(decimal.Decimal, ["1.5", "0.12", "-1.5", "0"]), pa.decimal128(9, 2)),
        "b": [True, False, None, True],
    }
)


@st.composite
def of_engines(draw: st.DrawFn) -> pc.Expression:
    """Draw a condition as engines write it: with literals of their own types."""
    column = F(draw(st.sampled_from(VALUES.column_names)))
    match draw(st.integers(0, 3)):
        case 0:
            value = draw(st.sampled_from(SCALARS))
            sign = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
            return getattr(operator, sign)(column, value)
        case 1:
            kind = draw(st.sampled_from(SCALARS)).type
            alike = [each for each in SCALARS if each.type == kind]
            member = column.isin(pa.array(draw(st.lists(st.sampled_from(alike), max_size=3)), kind))
            unknown = pc.if_else(column.is_valid(), member, pa.scalar(None, pa.bool_()))
            return draw(st.sampled_from([member, unknown]))
        case 2:
            return draw(st.sampled_from([column.is_null(), column.is_valid(), ~column.is_null()]))
        case _:
            return F("b")


ENGINES = st.recursive(
    of_engines(),
    lambda inner: st.one_of(
        st.builds(operator.invert, inner),
        st.builds(operator.and_, inner, inner),
        st.builds(operator.or_, inner, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=500)
@given(ENGINES)
def test_predicate_says_of_each_row_what_the_expression_says(expression: pc.Expression) -> None:
    """So the expression need not be applied once its predicate was."""
    try:
        expected = expressions.evaluated(expression, VALUES)
    except (pa.ArrowException, KeyError):
        assume(False)  # Arrow does not compare such types.
    found = expressions.predicate_of(expression, VALUES.schema)
    assume(found is not None)
    assert found is not None
    assert predicates.mask(found, VALUES).to_pylist() == expected.to_pylist()
