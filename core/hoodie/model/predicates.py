"""Row filters as values: they pickle, tell their columns, and become expressions or masks of Arrow.

Logic is SQL's: a comparison with null is unknown, and a row is kept only where the whole is true.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import functools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never, cast

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.model import column_names, scalars

with deferred.imports():
    from hoodie.model import spark_functions

_DECIMAL_DIGITS_MAX = 38
_DIGITS_MAX = 400  # More than the greatest float has.

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
_COMPARISONS = {
    Comparator.EQ: pc.equal,
    Comparator.NE: pc.not_equal,
    Comparator.LT: pc.less,
    Comparator.LE: pc.less_equal,
    Comparator.GT: pc.greater,
    Comparator.GE: pc.greater_equal,
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

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All of them; true when there are none."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of them; false when there are none."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """A condition on what a function makes of a column.

    Attributes:
        function: One that is the same in any session.
        column: That it takes.
        condition: On one column, whose name is `call`.
    """

    function: spark_functions.Function
    column: str
    condition: Predicate

    @property
    def call(self) -> str:
        """The function of the column, as SQL calls it."""
        return self.function.called(self.column)


Predicate = Compare | In | IsNull | Not | And | Or | Applied


def check(predicate: object) -> None:
    """Refuse what is not a filter, such as a text or an expression of Arrow.

    Raises:
        InvalidInputError: The message says how to make one.
    """
    match predicate:
        case Compare() | In() | IsNull() | Applied():
            return
        case Not(operand=operand):
            check(operand)
        case And(operands=operands) | Or(operands=operands):
            for each in operands:
                check(each)
        case _:
            raise errors.InvalidInputError(
                f"a filter must be a Predicate, not a {type(predicate).__name__}: parse a text "
                "with "
                "hoodie.read.where.parse, or of the classes of hoodie.model.predicates"
            )


def columns(predicate: Predicate) -> frozenset[str]:
    """Return the names of the columns that decide."""
    match predicate:
        case (
            Compare(column=column)
            | In(column=column)
            | IsNull(column=column)
            | Applied(column=column)
        ):
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


def literals_equal_to(part: Predicate, column: str) -> tuple[Literal, ...] | None:
    """Return the literals of which a column must equal one; None for another kind of filter."""
    match part:
        case Compare(column=name, comparator=Comparator.EQ, value=value):
            return (value,) if name == column else None
        case In(column=name, values=values):
            return values if name == column else None
        case _:
            return None


def all_of(parts: Iterable[Predicate]) -> Predicate | None:
    """Return the conjunction of the parts; None when there are none."""
    flat = tuple(parts)
    if not flat:
        return None
    return flat[0] if len(flat) == 1 else And(flat)


def without(predicate: Predicate, names: Collection[str]) -> Predicate | None:
    """Return the conjuncts that are about none of some columns; None when there are none."""
    return all_of(part for part in conjuncts(predicate) if columns(part).isdisjoint(names))


def to_expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Return the filter as an Arrow expression over tables of that schema.

    Of functions of columns it needs what they make, as `with_results` adds it.

    Raises:
        NotFoundError: It names a column that the schema has not.
        InvalidInputError: A literal is not of its column's type, or a function takes no such
            column.
    """
    expression: pc.Expression = _evaluated(predicate, schema, pc.field, pc.scalar)
    return expression


def kept(predicate: Predicate, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return some columns of the rows for which a filter is true.

    The same rows as by `to_expression`, of which Arrow makes a plan for each table that takes
    longer than the filter.

    Raises:
        HoodieError: As `to_expression`.
    """
    return rows.select(columns).filter(mask(predicate, rows))


def mask(predicate: Predicate, rows: pa.Table) -> pa.ChunkedArray:
    """Return for each row whether a filter is true, false, or unknown, which is null.

    Raises:
        HoodieError: As `to_expression`.
    """
    whole = with_results(predicate, rows)
    found = _evaluated(predicate, rows.schema, whole.column, pa.scalar)
    if isinstance(found, pa.Scalar):
        return pa.chunked_array([pa.repeat(found, rows.num_rows)])
    return found


def with_results(predicate: Predicate, rows: pa.Table) -> pa.Table:
    """Return rows with a column of what each function in a filter makes, named as its call.

    Raises:
        HoodieError: As `to_expression`.
    """
    found = rows
    for call, each in applied_in(predicate).items():
        result_schema(each, rows.schema)
        found = found.append_column(call, each.function.values(rows.column(each.column)))
    return found


def _evaluated(
    predicate: Predicate,
    schema: pa.Schema,
    column_of: Callable[[str], Any],
    constant: Callable[[bool], Any],
) -> Any:  # noqa: ANN401 - expressions of expressions, arrays of arrays
    """Return a filter by Arrow's functions, which take expressions and arrays alike."""
    predicate = in_steps(predicate, schema)
    match predicate:
        case Compare(column=column, comparator=comparator, value=value):
            literal = in_type(column, value, schema)
            return _COMPARISONS[comparator](column_of(column), literal)
        case In(column=column, values=values):
            members = [in_type(column, value, schema).as_py() for value in values]
            values_of = column_of(column)
            # Arrow's `is_in` answers false for null; unknown is what `not in` needs.
            is_member = pc.is_in(values_of, value_set=pa.array(members, _type(column, schema)))
            return pc.if_else(pc.is_null(values_of), pa.scalar(None, pa.bool_()), is_member)
        case IsNull(column=column):
            _type(column, schema)
            return pc.is_null(column_of(column))
        case Not(operand=operand):
            return pc.invert(_evaluated(operand, schema, column_of, constant))
        case And(operands=operands) | Or(operands=operands):
            is_and = isinstance(predicate, And)
            joined = pc.and_kleene if is_and else pc.or_kleene
            parts = [_evaluated(operand, schema, column_of, constant) for operand in operands]
            return functools.reduce(joined, parts) if parts else constant(is_and)
        case Applied():
            made = result_schema(predicate, schema)
            return _evaluated(predicate.condition, made, column_of, constant)
        case _:
            assert_never(predicate)


def result_schema(applied: Applied, schema: pa.Schema) -> pa.Schema:
    """Return the schema of what a function makes of a column of a table.

    Raises:
        NotFoundError: There is no such column.
        InvalidInputError: It is not of a type that the function takes in a filter.
    """
    kind = _type(applied.column, schema)
    result = applied.function.exact_result_of(kind)
    if result is None:
        raise errors.InvalidInputError(
            f"column {applied.column!r} is of type {kind}, of which {applied.call} is not the same "
            f"in every session, or not computed here: expected a column of "
            f"{applied.function.takes_exactly}"
        )
    if applied.call in schema.names:
        raise errors.InvalidInputError(
            f"a column is named {applied.call!r}, as a function in the filter: name it in quotes"
        )
    return pa.schema([pa.field(applied.call, result)])


def applied_in(predicate: Predicate) -> Mapping[str, Applied]:
    """Return a condition on each function of a column that is in a filter, by the call."""
    match predicate:
        case Applied():
            return {predicate.call: predicate}
        case Not(operand=operand):
            return applied_in(operand)
        case And(operands=operands) | Or(operands=operands):
            return {call: one for each in operands for call, one in applied_in(each).items()}
        case _:
            return {}


LOW, HIGH, HAS_NULLS, IS_KNOWN = "low", "high", "has nulls", "is known"
"""What is known of the values of a column in some rows; see `to_range_expression`."""

_LITERALS_MAX = 100
_SURROGATES = "\ud800"


def range_name(column: str, what: str) -> str:
    """Return the name of what is known of a column, in a table of ranges."""
    return f"{column}\0{what}"


def to_range_expression(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Return whether some rows may have one that the filter keeps, by the ranges of their columns.

    It is an expression over tables with four columns for each that the filter names, by
    `range_name`: LOW and HIGH of the column's type, null where all values are; HAS_NULLS; and
    IS_KNOWN, false where nothing is known and the other three are null.

    Raises:
        NotFoundError: As `to_expression`.
        InvalidInputError: As `to_expression`.
    """
    predicate = in_steps(predicate, schema)
    may_match: pc.Expression = pc.scalar(True)
    match predicate:
        case Compare(column=column, comparator=comparator, value=value):
            may_match = _if_known(column, _may_compare(column, comparator, value, schema))
        case In(column=column, values=values) if len(values) <= _LITERALS_MAX:
            parts = [_may_compare(column, Comparator.EQ, value, schema) for value in values]
            may_match = _if_known(column, functools.reduce(operator.or_, parts, pc.scalar(False)))
        case IsNull(column=column):
            may_match = _if_known(column, pc.field(range_name(column, HAS_NULLS)))
        case Not(operand=IsNull(column=column)):
            has_values = pc.field(range_name(column, LOW)).is_valid()
            may_match = _if_known(column, has_values)
        case Not(operand=operand):
            may_match = to_range_expression(_opposite(operand, schema), schema)
        case And(operands=operands):
            parts = [to_range_expression(operand, schema) for operand in operands]
            may_match = functools.reduce(operator.and_, parts, may_match)
        case Or(operands=operands):
            parts = [to_range_expression(operand, schema) for operand in operands]
            may_match = functools.reduce(operator.or_, parts, pc.scalar(False))
        case _:
            pass  # Lists of many literals; functions, of whose values columns say nothing.
    return may_match


_OPPOSITES = {
    Comparator.EQ: Comparator.NE,
    Comparator.NE: Comparator.EQ,
    Comparator.LT: Comparator.GE,
    Comparator.LE: Comparator.GT,
    Comparator.GT: Comparator.LE,
    Comparator.GE: Comparator.LT,
}


def _opposite(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """Return a filter that keeps what another one excludes, unless that is unknown; or more."""
    found: Predicate = And(())
    match predicate:
        # All comparisons with NaN are false but `!=`: of two opposite ones both, then.
        case Compare(column=column) | In(column=column) if pa.types.is_floating(
            _type(column, schema)
        ):
            pass
        case Compare(column=column, comparator=comparator, value=value):
            found = Compare(column, _OPPOSITES[comparator], value)
        case In(column=column, values=values):
            differs = [Compare(column, Comparator.NE, value) for value in values[:_LITERALS_MAX]]
            found = And(tuple(differs))
        case IsNull():
            found = Not(predicate)
        case Not(operand=operand):
            found = operand
        case And(operands=operands):
            found = Or(tuple(Not(operand) for operand in operands))
        case Or(operands=operands):
            found = And(tuple(Not(operand) for operand in operands))
        case Applied():
            pass
        case _:
            assert_never(predicate)
    return found


def _if_known(column: str, may_match: pc.Expression) -> pc.Expression:
    is_known = pc.field(range_name(column, IS_KNOWN))
    return pc.if_else(is_known, may_match, pc.scalar(True))


def _may_compare(
    column: str, comparator: Comparator, value: Literal, schema: pa.Schema
) -> pc.Expression:
    low, high = (pc.field(range_name(column, each)) for each in (LOW, HIGH))
    # Java orders texts by their UTF-16: for others than these that is another order than Arrow's.
    if isinstance(value, str) and compared(value) != value:
        return pc.scalar(True)
    literal = in_type(column, value, schema)
    match comparator:
        case Comparator.EQ:
            may_match = (low <= literal) & (high >= literal)
        case Comparator.NE if pa.types.is_floating(_type(column, schema)):
            return pc.scalar(True)  # It keeps NaN, which ranges leave out.
        case Comparator.NE:
            may_match = (low != literal) | (high != literal)
        case Comparator.LT | Comparator.LE:
            may_match = _FUNCTIONS[comparator](low, literal)
        case Comparator.GT | Comparator.GE:
            may_match = _FUNCTIONS[comparator](high, literal)
        case _:
            assert_never(comparator)
    return pc.coalesce(may_match, pc.scalar(False))


def compared(value: Any) -> Any:  # noqa: ANN401 - of any column
    """Return what of a bound counts: of a text what is before its first surrogate, or a later one.

    No text is compared with bounds that has more.
    """
    if not isinstance(value, str) or max(value, default="") < _SURROGATES:
        return value
    return value[: next(n for n, each in enumerate(value) if each >= _SURROGATES)] + _SURROGATES


def in_steps(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """Return a condition on whole numbers or decimals with literals that such a column can hold.

    Other filters are returned as they are, with what is within them. Arrow would compare whole
    numbers as floats, which hold no large one exactly, and decimals not at all where the literal
    has more digits.
    """
    match predicate:
        case Compare(column=column, value=value) if _is_in_steps(column, value, schema):
            return _compare_in_steps(predicate, schema)
        case In(column=column, values=values):
            kind = _type(column, schema)
            stepped = [
                _below(value, kind) if _is_in_steps(column, value, schema) else value
                for value in values
            ]
            exact = tuple(
                own
                for own, value in zip(stepped, values, strict=True)
                if own is value or (own == _number(value) and _is_in_range(own, kind))
            )
            return In(column, exact)
        case _:
            return predicate


def _compare_in_steps(condition: Compare, schema: pa.Schema) -> Predicate:
    """Return a comparison with a number, as one that is the same for the column's numbers."""
    column, comparator = condition.column, condition.comparator
    below = _below(condition.value, _type(column, schema))
    if below == _number(condition.value):
        return Compare(column, comparator, below)
    match comparator:
        case Comparator.EQ:
            return In(column, ())
        case Comparator.NE:
            return Not(In(column, ()))
        case Comparator.LT | Comparator.LE:
            return Compare(column, Comparator.LE, below)
        case Comparator.GT | Comparator.GE:
            return Compare(column, Comparator.GT, below)
        case _:
            assert_never(comparator)


def _is_in_steps(column: str, value: Literal, schema: pa.Schema) -> bool:
    kind = _type(column, schema)
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        return False
    is_stepped = pa.types.is_signed_integer(kind) or pa.types.is_decimal(kind)
    # Whoever writes more digits than this means to break something.
    return is_stepped and math.isfinite(value) and abs(_number(value).adjusted()) < _DIGITS_MAX


def _number(value: Literal) -> decimal.Decimal:
    """Return a number as it reads."""
    return decimal.Decimal(repr(value) if isinstance(value, float) else cast("int", value))


def _below(value: Literal, kind: pa.DataType) -> int | decimal.Decimal:
    """Return the greatest number of the type, whatever its range, that is not above the value."""
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    exact = decimal.Context(prec=2 * _DIGITS_MAX, rounding=decimal.ROUND_FLOOR)
    stepped = _number(value).quantize(decimal.Decimal(1).scaleb(-scale), context=exact)
    return stepped if pa.types.is_decimal(kind) else int(stepped)


def _is_in_range(value: Literal, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _type(column: str, schema: pa.Schema) -> pa.DataType:
    index = schema.get_field_index(column)
    if index < 0:
        raise errors.NotFoundError(column_names.absence(column, schema.names))
    return schema.field(index).type


def in_type(column: str, value: Literal, schema: pa.Schema) -> pa.Scalar:
    """Return the literal in the column's type; a number in steps may come in a wider one.

    Raises:
        NotFoundError: There is no such column.
        InvalidInputError: The literal is not of its type.
    """
    kind = _type(column, schema)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    try:
        is_unit = pa.types.is_temporal(kind) and isinstance(value, int | float | decimal.Decimal)
        # A number would be taken for days or for parts of a second, whatever was meant.
        if not is_unit and pa.types.is_boolean(kind) == isinstance(value, bool):
            if isinstance(value, str) and not is_text:
                return of_text(value, kind)
            if isinstance(value, int) and pa.types.is_signed_integer(kind):
                return scalars.scalar(value)
            if isinstance(value, decimal.Decimal) and pa.types.is_decimal(kind):
                return pa.scalar(value, pa.decimal128(_DECIMAL_DIGITS_MAX, kind.scale))
            if isinstance(value, decimal.Decimal) and pa.types.is_floating(kind):
                value = float(value)
            return scalars.scalar(value, kind)
        cause = None
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        OverflowError,
    ) as error:
        cause = error
    shown = str(value) if isinstance(value, decimal.Decimal) else repr(value)
    raise errors.InvalidInputError(
        f"column {column!r} is of type {kind}: it cannot be compared with {shown}"
    ) from cause


def of_text(text: str, kind: pa.DataType) -> pa.Scalar:
    """Return what a text means as a value of a type; a time without a zone is one of UTC.

    Raises:
        ArrowInvalid: It is not a value of it.
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        with contextlib.suppress(pa.ArrowInvalid):
            return scalars.scalar(text).cast(pa.timestamp(kind.unit)).cast(kind)
    return scalars.scalar(text).cast(kind)
