"""Row filters as values: they pickle, tell their columns, and become Arrow expressions.

Logic is SQL's: a comparison with null is unknown, and a row is kept only where the whole is true.
"""

import datetime
import decimal
import enum
import functools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors

Literal = bool | int | float | str | bytes | decimal.Decimal | datetime.date | datetime.datetime


class Comparator(enum.Enum):
    """A comparison, by its SQL sign."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


_FUNCTIONS = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against a literal."""

    column: str
    comparator: Comparator
    value: Literal


@dataclass(frozen=True, slots=True)
class In:
    """A column against a list of literals, none of them null."""

    column: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column without a value."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    operand: "Predicate"


@dataclass(frozen=True, slots=True)
class And:
    """All of them; true when there are none."""

    operands: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them; false when there are none."""

    operands: "tuple[Predicate, ...]"


Predicate = Compare | In | IsNull | Not | And | Or


def columns(predicate: Predicate) -> frozenset[str]:
    """Return the names of the columns that decide."""
    match predicate:
        case Compare(column=column) | In(column=column) | IsNull(column=column):
            return frozenset((column,))
        case Not(operand=operand):
            return columns(operand)
        case And(operands=operands) | Or(operands=operands):
            return frozenset(name for operand in operands for name in columns(operand))
        case _:
            assert_never(predicate)


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the parts that must all be true."""
    match predicate:
        case And(operands=operands):
            return tuple(part for operand in operands for part in conjuncts(operand))
        case _:
            return (predicate,)


def all_of(parts: Iterable[Predicate]) -> Predicate | None:
    """Return the conjunction of the parts; None when there are none."""
    flat = tuple(parts)
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else And(flat)


def to_expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Return the filter as an Arrow expression over tables of that schema.

    Raises:
        NotFoundError: It names a column that the schema has not.
        InvalidInputError: A literal is not of its column's type.
    """
    predicate = _in_whole_numbers(predicate, schema)
    match predicate:
        case Compare(column=column, comparator=comparator, value=value):
            expression: pc.Expression = _FUNCTIONS[comparator](
                pc.field(column), _scalar(column, value, schema)
            )
        case In(column=column, values=values):
            members = [_scalar(column, value, schema).as_py() for value in values]
            # Arrow's `is_in` answers false for null; unknown is what `not in` needs.
            is_member = pc.field(column).isin(pa.array(members, _type(column, schema)))
            expression = pc.if_else(
                pc.field(column).is_null(), pa.scalar(None, pa.bool_()), is_member
            )
        case IsNull(column=column):
            _type(column, schema)
            expression = pc.field(column).is_null()
        case Not(operand=operand):
            expression = ~to_expression(operand, schema)
        case And(operands=operands):
            parts = [to_expression(operand, schema) for operand in operands]
            expression = functools.reduce(operator.and_, parts, pc.scalar(True))
        case Or(operands=operands):
            parts = [to_expression(operand, schema) for operand in operands]
            expression = functools.reduce(operator.or_, parts, pc.scalar(False))
        case _:
            assert_never(predicate)
    return expression


def _in_whole_numbers(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """Return a condition on a column of whole numbers with whole numbers in place of fractions.

    Arrow would compare such a column as floats, which hold no large whole number exactly.
    """
    match predicate:
        case Compare(column=column, value=float(value)) if _is_whole(column, schema):
            return _compare_whole(predicate, value) if math.isfinite(value) else predicate
        case In(column=column, values=values) if _is_whole(column, schema):
            bound = 1 << (_type(column, schema).bit_width - 1)
            wholes = [
                int(value) if isinstance(value, float) else value
                for value in values
                if not isinstance(value, float) or value.is_integer()
            ]
            return In(
                column,
                tuple(
                    each for each in wholes if not isinstance(each, int) or -bound <= each < bound
                ),
            )
        case _:
            return predicate


def _compare_whole(condition: Compare, value: float) -> Predicate:
    """Return a comparison with a number, as one that is the same for whole numbers."""
    column, comparator = condition.column, condition.comparator
    if value.is_integer():
        return Compare(column, comparator, int(value))
    match comparator:
        case Comparator.EQ:
            return In(column, ())
        case Comparator.NE:
            return Not(In(column, ()))
        case Comparator.LT | Comparator.LE:
            return Compare(column, Comparator.LE, math.floor(value))
        case Comparator.GT | Comparator.GE:
            return Compare(column, Comparator.GT, math.floor(value))
        case _:
            assert_never(comparator)


def _is_whole(column: str, schema: pa.Schema) -> bool:
    return bool(pa.types.is_signed_integer(_type(column, schema)))


def _type(column: str, schema: pa.Schema) -> pa.DataType:
    index = schema.get_field_index(column)
    if index < 0:
        raise errors.NotFoundError(
            f"there is no column {column!r}; the columns are {', '.join(schema.names)}"
        )
    return schema.field(index).type


def _scalar(column: str, value: Literal, schema: pa.Schema) -> pa.Scalar:
    """Return the literal in the column's type; a whole number may come in a wider one."""
    kind = _type(column, schema)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    try:
        if pa.types.is_boolean(kind) == isinstance(value, bool):
            if isinstance(value, str) and not is_text:
                return pa.scalar(value).cast(kind)
            if isinstance(value, int) and pa.types.is_signed_integer(kind):
                return pa.scalar(value)
            return pa.scalar(value, kind)
        cause = None
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        OverflowError,
    ) as error:
        cause = error
    raise errors.InvalidInputError(
        f"column {column!r} is of type {kind}: it is not compared with {value!r}"
    ) from cause
