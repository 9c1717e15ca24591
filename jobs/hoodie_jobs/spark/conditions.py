"""Row filters of ours as Spark's conditions, where both mean exactly the same.

They do if the literals are values of their columns' types. Of NaN, which is equal to itself and
above all others in Spark, no comparison is true here.
"""

import datetime
import decimal
import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.pandas import types as arrow_types

from hoodie.model import predicates
from hoodie.model.predicates import Comparator
from hoodie_jobs.spark import filters, reading

_OPERATORS: dict[Comparator, Callable[[Column, Column], Column]] = {
    Comparator.EQ: operator.eq,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}


def of_predicate(predicate: predicates.Predicate, schema: pa.Schema) -> Column | None:
    """Return a filter as Spark's condition; None when Spark would mean another one.

    Args:
        predicate: The filter.
        schema: The types of its columns.
    """
    match predicate:
        case predicates.Not(operand=operand):
            negated = of_predicate(operand, schema)
            return None if negated is None else ~negated
        case predicates.And(operands=operands):
            parts = [of_predicate(each, schema) for each in operands]
            return _joined(operator.and_, F.lit(True), parts)
        case predicates.Or(operands=operands):
            parts = [of_predicate(each, schema) for each in operands]
            return _joined(operator.or_, F.lit(False), parts)
        case predicates.Applied():
            return None  # Of uncertain characters Spark may make another value.
        case _:
            return _of_column(predicate, schema.field(predicate.column))


def _of_column(
    predicate: predicates.Compare | predicates.In | predicates.IsNull, field: pa.Field
) -> Column | None:
    column = F.col(reading.quoted(field.name))
    if isinstance(predicate, predicates.IsNull):
        return column.isNull()
    given = [predicate.value] if isinstance(predicate, predicates.Compare) else predicate.values
    literals = _literals(given, field.type)
    if not literals:
        return None
    if not isinstance(predicate, predicates.Compare):
        return _without_nan(column.isin(*literals), column, field.type)
    if predicate.comparator is Comparator.NE:
        # As `!=` it would be pushed into parquet files, whose bounds say nothing of NaNs.
        return ~_without_nan(column == literals[0], column, field.type)
    compared = _OPERATORS[predicate.comparator](column, literals[0])
    return _without_nan(compared, column, field.type)


def _without_nan(condition: Column, column: Column, kind: pa.DataType) -> Column:
    return condition & ~F.isnan(column) if pa.types.is_floating(kind) else condition


def _joined(
    join: Callable[[Column, Column], Column], first: Column, parts: Sequence[Column | None]
) -> Column | None:
    known = [each for each in parts if each is not None]
    return reduce(join, known, first) if len(known) == len(parts) else None


def _literals(values: Sequence[predicates.Literal], kind: pa.DataType) -> list[Column]:
    """Return literals in a column's type; none if it cannot hold one of them."""
    plain = [_plain(value, kind) for value in values]
    spark_type = arrow_types.from_arrow_type(kind)
    known = [F.lit(each).cast(spark_type) for each in plain if each is not None]
    return known if len(known) == len(plain) else []


def _plain(
    value: predicates.Literal, kind: pa.DataType
) -> bool | float | str | bytes | decimal.Decimal | None:
    """Return what Spark casts to a literal of a type; None for one that is not a value of it."""
    if pa.types.is_floating(kind):
        if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
            return None
        return None if math.isnan(value) else float(value)
    try:
        if pa.types.is_temporal(kind) and isinstance(value, str):
            value = predicates.of_text(value, kind).as_py()
        held = pa.scalar(value, kind).as_py() if filters.fits(value, kind) else None
    except (pa.ArrowInvalid, OverflowError):
        return None
    if isinstance(held, datetime.date):
        # Spark would take a time without a zone for one of its session's.
        return held.isoformat()
    return held if held == value else None
