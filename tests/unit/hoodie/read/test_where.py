"""The text form of row filters: what each means, and what the message says of one that is none."""

import decimal
import re

import pytest

from hoodie import errors
from hoodie.model import predicates
from hoodie.read import where

EQ = predicates.Comparator.EQ


def equal(column: str, value: predicates.Literal) -> predicates.Compare:
    return predicates.Compare(column, EQ, value)


def between(name: str, least: object, greatest: object) -> predicates.And:
    return predicates.And(
        (
            predicates.Compare(name, predicates.Comparator.GE, least),
            predicates.Compare(name, predicates.Comparator.LE, greatest),
        )
    )


def beginning(name: str, least: str, end: str) -> predicates.And:
    return predicates.And(
        (
            predicates.Compare(name, predicates.Comparator.GE, least),
            predicates.Compare(name, predicates.Comparator.LT, end),
        )
    )


A, B, C = (equal(name, 1) for name in "abc")


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", A),
        ("  a=1\n", A),
        ("a == 1", A),
        ("a = -1", equal("a", -1)),
        ("a = 1.5", equal("a", 1.5)),
        ("a = .5e-3", equal("a", decimal.Decimal("0.0005"))),
        ("a = 'x'", equal("a", "x")),
        ("a = ''", equal("a", "")),
        ("a = 'it''s'", equal("a", "it's")),
        ("a = True", equal("a", True)),
        ("a = FALSE", equal("a", False)),
        ('"a" = 1', A),
        ('"an ""odd"" name" = 1', equal('an "odd" name', 1)),
        ('"or" = 1', equal("or", 1)),
        ("größe = 1", equal("größe", 1)),
        ("a != 1", predicates.Compare("a", predicates.Comparator.NE, 1)),
        ("a <> 1", predicates.Compare("a", predicates.Comparator.NE, 1)),
        ("a <1", predicates.Compare("a", predicates.Comparator.LT, 1)),
        ("a<= 1", predicates.Compare("a", predicates.Comparator.LE, 1)),
        ("a > 1", predicates.Compare("a", predicates.Comparator.GT, 1)),
        ("a >= 1", predicates.Compare("a", predicates.Comparator.GE, 1)),
        ("a >= date '2026-01-31'", predicates.Compare("a", predicates.Comparator.GE, "2026-01-31")),
        ("a = Timestamp '2026-01-31 10:00'", equal("a", "2026-01-31 10:00")),
        ("date = 1", equal("date", 1)),
        ("a in (1, 'x', true)", predicates.In("a", (1, "x", True))),
        ("a not in (1)", predicates.Not(predicates.In("a", (1,)))),
        ("a between 1 and 2", between("a", 1, 2)),
        (
            "a not BETWEEN 1 and 2 and b = 1",
            predicates.And((predicates.Not(between("a", 1, 2)), B)),
        ),
        ("a like 'Os%'", beginning("a", "Os", "Ot")),
        ("a not like 'Os%'", predicates.Not(beginning("a", "Os", "Ot"))),
        ("a like 'it''s%'", beginning("a", "it's", "it't")),
        ("a like '\ud7ff%'", beginning("a", "\ud7ff", "\ue000")),
        ("a like 'a\U0010ffff%'", beginning("a", "a\U0010ffff", "b")),
        ("a like '%'", predicates.Compare("a", predicates.Comparator.GE, "")),
        ("a like 'Oslo'", equal("a", "Oslo")),
        ("a", equal("a", True)),
        (
            "a and not b or (c)",
            predicates.Or(
                (
                    predicates.And((equal("a", True), predicates.Not(equal("b", True)))),
                    equal("c", True),
                )
            ),
        ),
        ("like = 1 and between = 1", predicates.And((equal("like", 1), equal("between", 1)))),
        ("a IS NULL", predicates.IsNull("a")),
        ("a is not null", predicates.Not(predicates.IsNull("a"))),
        ("not a = 1", predicates.Not(A)),
        ("not not a = 1", predicates.Not(predicates.Not(A))),
        ("not a = 1 and b = 1", predicates.And((predicates.Not(A), B))),
        ("a = 1 and b = 1 and c = 1", predicates.And((A, B, C))),
        ("a = 1 or b = 1 and c = 1", predicates.Or((A, predicates.And((B, C))))),
        ("(a = 1 or b = 1) and c = 1", predicates.And((predicates.Or((A, B)), C))),
        ("(((a = 1)))", A),
    ],
)
def test_text_means(text: str, predicate: predicates.Predicate) -> None:
    assert where.parse(text) == predicate


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "character 1: found the end, expected a column's name"),
        ("a b", "character 3: found 'b', expected a comparison, in, between, like, or is null"),
        ("a between 1 or 2", "character 13: found 'or', expected and"),
        ("a like 1", "character 8: found '1', expected a 'text%'"),
        ("a like '%x'", "like '%x', expected a text with a % at its end and no other % or _"),
        ("a like 'x_%'", "like 'x_%', expected a text with a % at its end"),
        ("a === 1", "character 5: found '=', expected a number, a 'text', true or false"),
        ("a = date 5", "character 10: found '5', expected a 'text', such as '2013-01-31'"),
        ('a = "x"', "found '\"x\"', expected a number, a 'text' in single quotes, true or false"),
        ("a = x", "character 5: found 'x', expected a number, a 'text', true or false"),
        ("a = null", "character 5: found 'null', expected a number, a 'text', true or false; `is"),
        ("a = 1 b = 1", "character 7: found 'b', expected and, or, or the end"),
        ("a = 1)", "character 6: found ')', expected and, or, or the end"),
        ("(a = 1", "character 7: found the end, expected )"),
        ("a in ()", "character 7: found ')', expected a number, a 'text', true or false"),
        ("a in 1", "character 6: found '1', expected ("),
        ("a not 1", "character 7: found '1', expected in, between or like"),
        ("a is 1", "character 6: found '1', expected null"),
        ("and = 1", "character 1: found 'and', expected a column's name"),
        ("a = 'x", 'character 5: "\'" begins nothing that a filter holds'),
        ("a = $", "character 5: '$' begins nothing that a filter holds"),
        ("a = 1; drop", "character 6: ';' begins nothing that a filter holds"),
    ],
)
def test_text_that_is_no_filter_is_refused_where_it_goes_wrong(text: str, complaint: str) -> None:
    with pytest.raises(errors.InvalidInputError, match=re.escape(complaint)):
        where.parse(text)


@pytest.mark.parametrize("opening", ["(", "not ", "not ("])
def test_deep_nesting_is_refused_before_the_stack_is_full(opening: str) -> None:
    with pytest.raises(errors.InvalidInputError, match="nests deeper than 100"):
        where.parse(opening * 10_000 + "a = 1")


def test_long_text_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError, match="longer than 100000 characters"):
        where.parse("a = 1 or " * 20_000 + "a = 1")
