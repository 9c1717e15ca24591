"""Filters that are expressions of Arrow, as engines push them: what they keep, as a predicate.

Arrow shows no parts of an expression, but prints it. What is printed is parsed here, an expression
is built of that, and only if it equals the first is the predicate of the same parts returned. So
whatever is printed wrongly, cut, or not understood here, such as a function, has no predicate, and
never a wrong one.

`x in (...)` is `if_else(is_valid(x), is_in(x, ...), null)` of DuckDB, and `is_in(x, ...)` of
Polars, which is false for null and not unknown.
"""

import contextlib
import datetime
import decimal
import json
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

from hoodie import errors
from hoodie.model import column_names, predicates

_LENGTH_MAX = 20_000
_NESTING_MAX = 50
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<time>\d{4}-\d\d-\d\d(?:\ \d\d:\d\d:\d\d(?:\.\d+)?Z?)?)
      | (?P<number>[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign><=|>=|==|!=|<|>|[()\[\]{},:=])
    )""",
    re.VERBOSE,
)
_ABSENT = re.compile(r"No match for FieldRef\.Name\((\w+)\)")
"""What Arrow says of a column that is not there."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of columns are such."""

_IS_TRUE = ""
"""The sign of a flag that stands alone."""

_COMPARATORS = {
    _IS_TRUE: predicates.Comparator.EQ,
    "==": predicates.Comparator.EQ,
    "!=": predicates.Comparator.NE,
    "<": predicates.Comparator.LT,
    "<=": predicates.Comparator.LE,
    ">": predicates.Comparator.GT,
    ">=": predicates.Comparator.GE,
}


_FUNCTIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


Literal = predicates.Literal


def _of_column(value: Literal, kind: pa.DataType) -> pa.DataType:
    """Return the type of a literal that was made for its column."""
    del value
    return kind


def _of_itself(value: Literal, kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow gives a literal; of whole numbers, decimals and texts.

    A float of another type than its column's is another number.
    """
    if isinstance(value, decimal.Decimal) and pa.types.is_decimal(kind):
        return pa.scalar(value).type
    if isinstance(value, bool) or not isinstance(value, int | str):
        return kind
    return pa.int64() if isinstance(value, int) else pa.string()


def _large(value: Literal, kind: pa.DataType) -> pa.DataType:
    """Return the same, as Polars has texts."""
    return pa.large_string() if isinstance(value, str) else _of_itself(value, kind)


_TYPINGS = (_of_column, _of_itself, _large)
_Typing = Callable[[Literal, pa.DataType], pa.DataType]


def columns_of(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that an expression needs, and perhaps others.

    Raises:
        NotFoundError: It names a column that is not there.
        InvalidInputError: It does not fit the columns, or is no condition.
    """
    text = str(expression)
    found = named_in(expression, schema)
    try:
        _keep(expression, pa.schema([schema.field(name) for name in found]))
    except (pa.ArrowException, KeyError):
        found = tuple(schema.names)
        try:
            _keep(expression, schema)
        except (pa.ArrowException, KeyError) as error:
            absent = _ABSENT.search(str(error))
            if absent is not None and absent[1] not in schema.names:
                raise errors.NotFoundError(
                    f"the filter {text:.200}: {column_names.absence(absent[1], schema.names)}"
                ) from error
            raise errors.InvalidInputError(
                f"the filter {text:.200} does not fit the columns "
                f"{column_names.listed(schema.names)}: {str(error).partition(' in ')[0]}"
            ) from error
    return found


def named_in(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns whose names are words of what an expression prints."""
    words = set(_WORD.findall(str(expression)))
    return tuple(name for name in schema.names if name in words)


def _keep(expression: pc.Expression, schema: pa.Schema) -> None:
    """Filter a row, of nulls: of no rows Arrow does not say that it cannot compare two types."""
    row = [pa.nulls(1, each.type) for each in schema]
    pa.Table.from_arrays(
        row, schema=pa.schema([each.with_nullable(True) for each in schema])
    ).filter(expression)


def predicate_of(expression: pc.Expression, schema: pa.Schema) -> predicates.Predicate | None:
    """Return the predicate that keeps the same rows; None if none is known.

    Args:
        expression: Of Arrow.
        schema: The columns that it is about.
    """
    text = str(expression)
    if len(text) > _LENGTH_MAX:
        return None
    try:
        parsed = _Parser(text).whole()
    except (_NotUnderstoodError, ValueError):
        return None
    for typing in _TYPINGS:
        # Of a value that its type cannot hold.
        with contextlib.suppress(pa.ArrowException, KeyError, OverflowError, TypeError):
            if _expression(parsed, schema, typing).equals(expression):
                return _of_columns(_predicate(parsed), schema)
    return None


def _of_columns(predicate: predicates.Predicate, schema: pa.Schema) -> predicates.Predicate | None:
    """Return a predicate that is defined for the columns; Arrow compares more types than it."""
    with contextlib.suppress(errors.InvalidInputError):
        predicates.to_expression(predicate, schema)
        return predicate
    return None


def evaluated(expression: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    """Return what an expression is for each row.

    Raises:
        ArrowException, KeyError: A column is not there, or of a type that it is not defined for.
    """
    return dataset.dataset(rows).to_table(columns={"": expression}).column(0)


class _NotUnderstoodError(Exception):
    """The text is not one of those that are parsed here."""


@dataclass(frozen=True, slots=True)
class _Compare:
    column: str
    sign: str
    value: Literal


@dataclass(frozen=True, slots=True)
class _In:
    column: str
    values: tuple[Literal, ...]
    is_unknown_for_null: bool


@dataclass(frozen=True, slots=True)
class _Null:
    column: str
    is_valid: bool


@dataclass(frozen=True, slots=True)
class _Not:
    operand: "_Parsed"


@dataclass(frozen=True, slots=True)
class _Both:
    word: str
    left: "_Parsed"
    right: "_Parsed"


_Parsed = _Compare | _In | _Null | _Not | _Both


def _expression(parsed: _Parsed, schema: pa.Schema, typing: _Typing) -> pc.Expression:
    """Return the expression of what was parsed, with literals of some types."""
    found: pc.Expression
    match parsed:
        case _Compare(column=column, sign=sign) if sign == _IS_TRUE:
            found = pc.field(column)
        case _Compare(column=column, sign=sign, value=value):
            kind = typing(value, schema.field(column).type)
            found = _FUNCTIONS[sign](pc.field(column), pc.scalar(_scalar(value, kind)))
        case _In(column=column, values=values, is_unknown_for_null=is_unknown):
            kind = schema.field(column).type
            kind = typing(values[0], kind) if values else kind
            members = [_scalar(value, kind).as_py() for value in values]
            member = pc.field(column).isin(pa.array(members, kind))
            found = member
            if is_unknown:
                found = pc.if_else(pc.field(column).is_valid(), member, pa.scalar(None, pa.bool_()))
        case _Null(column=column, is_valid=is_valid):
            found = pc.field(column).is_valid() if is_valid else pc.field(column).is_null()
        case _Not(operand=operand):
            found = ~_expression(operand, schema, typing)
        case _Both(word=word, left=left, right=right):
            parts = _expression(left, schema, typing), _expression(right, schema, typing)
            found = parts[0] & parts[1] if word == "and" else parts[0] | parts[1]
        case _:
            assert_never(parsed)
    return found


def _scalar(value: Literal, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_floating(kind) and isinstance(value, decimal.Decimal):
        value = float(value)
    return pa.scalar(value, kind)


def _predicate(parsed: _Parsed) -> predicates.Predicate:
    found: predicates.Predicate
    match parsed:
        case _Compare(column=column, sign=sign, value=value):
            found = predicates.Compare(column, _COMPARATORS[sign], value)
        case _In(column=column, values=values, is_unknown_for_null=is_unknown):
            found = predicates.In(column, values)
            if not is_unknown:
                found = predicates.And((predicates.Not(predicates.IsNull(column)), found))
        case _Null(column=column, is_valid=is_valid):
            found = predicates.IsNull(column)
            found = predicates.Not(found) if is_valid else found
        case _Not(operand=operand):
            found = predicates.Not(_predicate(operand))
        case _Both(word=word, left=left, right=right):
            parts = (_predicate(left), _predicate(right))
            found = predicates.And(parts) if word == "and" else predicates.Or(parts)
        case _:
            assert_never(parsed)
    return found


class _Parser:
    """Recursive descent over what Arrow prints."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_scan(text))
        self._at = 0

    def whole(self) -> _Parsed:
        found = self._condition(0)
        if self._at != len(self._tokens):
            raise _NotUnderstoodError
        return found

    def _condition(self, depth: int) -> _Parsed:
        if depth > _NESTING_MAX:
            raise _NotUnderstoodError
        if self._next("("):
            return self._in_brackets(depth)
        name = self._name()
        if not self._next("("):
            return _Compare(name, _IS_TRUE, True)
        found: _Parsed
        match name:
            case "invert":
                found = _Not(self._condition(depth + 1))
            case "is_null":
                found = _Null(self._name(), is_valid=False)
                self._expect(",", "{", "nan_is_null", "=", "false", "}")
            case "is_valid":
                found = _Null(self._name(), is_valid=True)
            case "is_in":
                found = self._members(is_unknown_for_null=False)
            case "if_else":
                self._expect("is_valid", "(")
                column = self._name()
                self._expect(")", ",", "is_in", "(")
                found = self._members(is_unknown_for_null=True)
                self._expect(")", ",", "null", "[", "bool", "]")
                if found.column != column:
                    raise _NotUnderstoodError
            case _:
                raise _NotUnderstoodError
        self._expect(")")
        return found

    def _in_brackets(self, depth: int) -> _Parsed:
        """Read what follows an opening bracket: a comparison, or two conditions."""
        kind, name = self._tokens[self._at]
        follows = self._tokens[self._at + 1][1] if self._at + 1 < len(self._tokens) else ""
        found: _Parsed
        if kind == "name" and follows in _FUNCTIONS:
            self._at += 2
            found = _Compare(name, follows, self._literal())
        else:
            left = self._condition(depth + 1)
            word = self._name()
            if word not in ("and", "or"):
                raise _NotUnderstoodError
            found = _Both(word, left, self._condition(depth + 1))
        self._expect(")")
        return found

    def _members(self, *, is_unknown_for_null: bool) -> _In:
        column = self._name()
        self._expect(",", "{", "value_set", "=")
        while not self._next(":"):
            self._take()  # The type of the values.
        self._expect("[")
        values: list[Literal] = []
        while not self._next("]"):
            if values:
                self._expect(",")
            values.append(self._literal())
        self._expect(",", "null_matching_behavior", "=", "MATCH", "}")
        return _In(column, tuple(values), is_unknown_for_null)

    def _literal(self) -> Literal:
        kind, text = self._take()
        if kind == "text":
            found = json.loads(text)
            assert isinstance(found, str)
            return found
        if kind == "time":
            if " " in text:
                return datetime.datetime.fromisoformat(text)
            return datetime.date.fromisoformat(text)
        if kind == "number":
            return _number(text)
        if text in ("true", "false"):
            return text == "true"
        raise _NotUnderstoodError

    def _name(self) -> str:
        kind, text = self._take()
        if kind != "name":
            raise _NotUnderstoodError
        return text

    def _take(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise _NotUnderstoodError
        self._at += 1
        return self._tokens[self._at - 1]

    def _next(self, text: str) -> bool:
        """Take a token if it is the next one."""
        is_next = self._at < len(self._tokens) and self._tokens[self._at][1] == text
        self._at += is_next
        return is_next

    def _expect(self, *texts: str) -> None:
        for text in texts:
            if not self._next(text):
                raise _NotUnderstoodError


def _scan(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _NotUnderstoodError
        at = match.end()
        yield match.lastgroup, match[match.lastgroup]


def _number(text: str) -> int | decimal.Decimal:
    return int(text) if text.lstrip("+-").isdecimal() else decimal.Decimal(text)
