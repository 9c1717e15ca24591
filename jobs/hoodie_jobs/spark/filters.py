"""Spark's pushed filters as row filters of ours, where both mean exactly the same.

Left to Spark: nested columns, floating point (Spark has NaN equal to itself and above all),
patterns within texts, and every literal whose type is not its column's.
"""

import datetime
import decimal
from collections.abc import Callable
from typing import TypeGuard

import pyarrow as pa
from pyspark.sql import datasource

from hoodie.model import predicates
from hoodie.model.predicates import Comparator

_COMPARATORS: dict[type[datasource.Filter], Comparator] = {
    datasource.EqualTo: Comparator.EQ,
    datasource.GreaterThan: Comparator.GT,
    datasource.GreaterThanOrEqual: Comparator.GE,
    datasource.LessThan: Comparator.LT,
    datasource.LessThanOrEqual: Comparator.LE,
}

# In this order: a bool is an int to Python, and a datetime is a date.
_TYPE_TESTS: tuple[tuple[type, Callable[[pa.DataType], bool]], ...] = (
    (bool, pa.types.is_boolean),
    (int, pa.types.is_integer),
    (str, pa.types.is_string),
    (decimal.Decimal, pa.types.is_decimal),
    (datetime.datetime, pa.types.is_timestamp),
    (datetime.date, pa.types.is_date),
)


def to_predicate(pushed: datasource.Filter, schema: pa.Schema) -> predicates.Predicate | None:
    """Return the filter as ours; None when it must stay with Spark."""
    if isinstance(pushed, datasource.Not):
        negated = to_predicate(pushed.child, schema)
        return None if negated is None else predicates.Not(negated)
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    index = schema.get_field_index(path[0]) if len(path) == 1 else -1
    return None if index < 0 else _of_column(pushed, schema.field(index))


def _of_column(pushed: datasource.Filter, field: pa.Field) -> predicates.Predicate | None:
    predicate: predicates.Predicate | None = None
    match pushed:
        case datasource.IsNull() | datasource.EqualNullSafe(value=None):
            predicate = predicates.IsNull(field.name)
        case datasource.IsNotNull():
            predicate = predicates.Not(predicates.IsNull(field.name))
        case datasource.EqualNullSafe(value=value) if fits(value, field.type):
            # Unlike `=` it is false, not unknown, for a null; `not` can tell them apart.
            is_value = predicates.Compare(field.name, Comparator.EQ, value)
            predicate = predicates.And((predicates.Not(predicates.IsNull(field.name)), is_value))
        case datasource.In(value=values) if all(fits(value, field.type) for value in values):
            predicate = predicates.In(field.name, tuple(values))
        case datasource.StringStartsWith(value=prefix) if fits(prefix, field.type):
            predicate = _starts_with(field.name, prefix)
        case _ if type(pushed) in _COMPARATORS:
            value = getattr(pushed, "value", None)
            if fits(value, field.type):
                predicate = predicates.Compare(field.name, _COMPARATORS[type(pushed)], value)
        case _:
            pass
    return predicate


def _starts_with(column: str, prefix: str) -> predicates.Predicate | None:
    """Return the range of texts with that prefix; None when it has no end."""
    if not prefix or prefix[-1] >= "\ud7ff":
        return None
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    return predicates.And(
        (
            predicates.Compare(column, Comparator.GE, prefix),
            predicates.Compare(column, Comparator.LT, end),
        )
    )


def fits(value: object, kind: pa.DataType) -> TypeGuard[predicates.Literal]:
    """Return whether a literal is of the column's own type."""
    of_type = next((test for cls, test in _TYPE_TESTS if isinstance(value, cls)), None)
    if of_type is None or not of_type(kind):
        return False
    if isinstance(value, datetime.datetime):
        return bool((value.tzinfo is None) == (kind.tz is None))
    return True
