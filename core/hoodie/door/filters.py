"""What callers filter rows by: a text of SQL, an expression of Arrow, triples or a predicate.

All become a predicate, which is planned with and applied to merged rows, but expressions that are
not understood: such a one is applied to merged rows itself.
"""

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.model import predicates

with deferred.imports():
    from hoodie.door import expressions
    from hoodie.read import where as where_text

Triple = tuple[str, str, object]
Where: TypeAlias = str | pc.Expression | predicates.Predicate | Sequence[Triple] | Triple
"""What callers give."""

_TRIPLE = 3
_SIGNS = {
    **{each.value: each for each in predicates.Comparator},
    "==": predicates.Comparator.EQ,
    "<>": predicates.Comparator.NE,
}
_FORMS = (
    "a text such as \"city = 'Oslo' and fare > 5\", an expression of pyarrow.compute, or a list of "
    "triples such as [('city', '=', 'Oslo')]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which rows are wanted.

    Attributes:
        predicate: What is planned with; None keeps all.
        expression: What is not understood, and keeps the wanted ones of those that the predicate
            keeps; None keeps all.
        columns: What the expression needs.
    """

    predicate: predicates.Predicate | None = None
    expression: pc.Expression | None = None
    columns: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether all rows are wanted."""
        return self.predicate is None and self.expression is None

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are wanted, of rows that the predicate keeps."""
        return batch if self.expression is None else batch.filter(self.expression)


def columns_of_value(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that an expression of any type needs, and perhaps others."""
    return expressions.named_in(expression, schema)


def both(first: Filter, second: Filter) -> Filter:
    """Return what both of two filters keep."""
    parts = [each.expression for each in (first, second) if each.expression is not None]
    return Filter(
        predicate=predicates.all_of(
            each.predicate for each in (first, second) if each.predicate is not None
        ),
        expression=functools.reduce(operator.and_, parts) if parts else None,
        columns=tuple(dict.fromkeys([*first.columns, *second.columns])),
    )


def filter_of(given: object, schema: pa.Schema) -> Filter:
    """Return the filter that a caller means.

    Args:
        given: One of `Where`; None for all rows.
        schema: The columns that it may name, meta columns among them.

    Raises:
        InvalidInputError: It is something else, malformed, or does not fit the columns.
        NotFoundError: It names a column that is not there.
    """
    if given is None:
        return Filter()
    if isinstance(given, pc.Expression):
        columns = expressions.columns_of(given, schema)
        predicate = expressions.predicate_of(given, schema)
        if predicate is not None:
            return Filter(predicate=predicate)
        return Filter(expression=given, columns=columns)
    predicate = _predicate(given)
    predicates.to_expression(predicate, schema)  # What does not fit is refused.
    return Filter(predicate=predicate)


def _predicate(given: object) -> predicates.Predicate:
    if isinstance(given, str):
        return where_text.parse(given)
    if isinstance(given, predicates.Predicate):
        predicates.check(given)
        return given
    if is_triple(given):
        return _of_triple(given)
    if isinstance(given, list | tuple) and all(map(is_triple, given)):
        return predicates.And(tuple(_of_triple(each) for each in given))
    raise errors.InvalidInputError(
        f"a filter is of type {type(given).__name__} ({given!r:.80}), expected {_FORMS}"
    )


def is_filter(given: object) -> bool:
    """Return whether something has the form of a filter, and not of rows or keys."""
    if isinstance(given, str | pc.Expression | predicates.Predicate) or is_triple(given):
        return True
    return isinstance(given, list | tuple) and bool(given) and all(map(is_triple, given))


def is_triple(given: object) -> bool:
    """Return whether something has the form of a column, a comparison and a value."""
    return (
        isinstance(given, tuple | list)
        and len(given) == _TRIPLE
        and isinstance(given[0], str)
        and isinstance(given[1], str)
    )


def _of_triple(given: object) -> predicates.Predicate:
    assert isinstance(given, tuple | list)
    column, sign, value = given
    sign = " ".join(sign.lower().split())
    found: predicates.Predicate
    if value is None:
        if sign in ("=", "==", "is"):
            return predicates.IsNull(column)
        if sign in ("!=", "<>", "is not"):
            return predicates.Not(predicates.IsNull(column))
    if sign in ("in", "not in"):
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
            raise errors.InvalidInputError(
                f"filter ({column!r}, {sign!r}, {value!r:.80}): expected a list of values"
            )
        found = predicates.In(column, tuple(map(_literal, value)))
        return predicates.Not(found) if sign == "not in" else found
    if sign not in _SIGNS or value is None:
        raise errors.InvalidInputError(
            f"filter ({column!r}, {sign!r}, {value!r:.80}): expected one of {', '.join(_SIGNS)}, "
            "in, not in with a value, or is, is not with None"
        )
    return predicates.Compare(column, _SIGNS[sign], _literal(value))


def _literal(value: object) -> predicates.Literal:
    """Return a value that is not null; one of numpy's as Python's own."""
    item = getattr(value, "item", None)
    found = item() if callable(item) else value
    if not isinstance(found, predicates.Literal):
        raise errors.InvalidInputError(
            f"a filter compares with {value!r:.80}, expected a number, text, date, time or bool"
        )
    return found
