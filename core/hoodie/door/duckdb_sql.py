"""Columns and filters as texts of DuckDB's SQL, over files that it reads by itself.

A condition is true, false or unknown where the filter is. What DuckDB has otherwise:

    NaN        equals itself there, and is greater than all other numbers; here comparisons with it
               are false, but `!=`
    bounds     of statistics of parquet leave NaN out, which DuckDB does not mind: it would skip
               rows, also by what it computes of a column
    texts      are compared by a collation that a connection may have; here by their bytes
    times      without a zone in a text are those of a connection's zone; here of UTC

Source: "Expressions" and "Data Types" of DuckDB's documentation.
"""

import datetime
import math
from collections.abc import Iterable, Sequence

import pyarrow as pa

from hoodie.model import predicates
from hoodie.model.predicates import Comparator

_MEMBERS_MAX = 1_000
"""Longer lists are looked up by Arrow: a text of SQL has to be parsed."""

_SIGNS = {Comparator.NE: "<>"}
_EPOCH = "date '1970-01-01'"


def column(field: pa.Field) -> str:
    """Return a column of a file as SQL; one of floating-point numbers has no bounds there."""
    name = quoted(field.name)
    # Of `try` alone DuckDB assumes nothing; of most functions it computes bounds from those of
    # their arguments, and of others the value where both bounds are the same.
    return f"try({name}) as {name}" if pa.types.is_floating(field.type) else name


def condition(predicate: predicates.Predicate, schema: pa.Schema) -> str | None:
    """Return a filter as SQL that keeps the same rows; None where none is known that does.

    Args:
        predicate: Of columns by their names.
        schema: The columns, as `column` gives them.
    """
    found: str | None = None  # Of long lists, and of functions, which are those of Spark.
    match predicates.in_steps(predicate, schema):
        case predicates.Compare(column=name, comparator=comparator, value=value):
            literal = predicates.in_type(name, value, schema)
            found = _comparison(schema.field(name), comparator, literal)
        case predicates.In(column=name, values=values) if len(values) <= _MEMBERS_MAX:
            members = [predicates.in_type(name, value, schema) for value in values]
            found = _membership(schema.field(name), members)
        case predicates.IsNull(column=name):
            found = f"{quoted(name)} is null"
        case predicates.Not(operand=operand):
            inner = condition(operand, schema)
            found = None if inner is None else f"not ({inner})"
        case predicates.And(operands=operands):
            found = _joined(" and ", "true", (condition(each, schema) for each in operands))
        case predicates.Or(operands=operands):
            found = _joined(" or ", "false", (condition(each, schema) for each in operands))
    return found


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _joined(sign: str, none: str, parts: Iterable[str | None]) -> str | None:
    found = [None if part is None else f"({part})" for part in parts]
    known = [part for part in found if part is not None]
    return sign.join(known or [none]) if len(known) == len(found) else None


def _comparison(field: pa.Field, comparator: Comparator, value: pa.Scalar) -> str | None:
    literal = _literal(value, field.type)
    is_equality = comparator in (Comparator.EQ, Comparator.NE)
    if literal is None or (pa.types.is_boolean(field.type) and not is_equality):
        return None
    found = f"{_compared(field)} {_SIGNS.get(comparator, comparator.value)} {literal}"
    if pa.types.is_floating(field.type) and comparator in (Comparator.GT, Comparator.GE):
        return f"{found} and not isnan({quoted(field.name)})"
    return found


def _membership(field: pa.Field, members: Sequence[pa.Scalar]) -> str | None:
    literals = [_literal(each, field.type) for each in members]
    known = [each for each in literals if each is not None]
    # A zero and a negative one are two members of Arrow's lists, and one of DuckDB's.
    has_zero = pa.types.is_floating(field.type) and any(not each.as_py() for each in members)
    if len(known) < len(literals) or has_zero:
        return None
    if not known:
        return f"{quoted(field.name)} is null and null"
    return f"{_compared(field)} in ({', '.join(known)})"


def _compared(field: pa.Field) -> str:
    name = quoted(field.name)
    return f'{name} collate "binary"' if pa.types.is_string(field.type) else name


def _literal(value: pa.Scalar, kind: pa.DataType) -> str | None:
    """Return a value that is compared with a column of a type; None where none is written."""
    found: str | None = None
    if pa.types.is_boolean(kind) or pa.types.is_int32(kind) or pa.types.is_int64(kind):
        found = str(value.as_py()).lower()
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        number = value.as_py()
        name = "float" if pa.types.is_float32(kind) else "double"
        found = None if math.isnan(number) else f"'{number!r}'::{name}"
    elif pa.types.is_decimal128(kind):
        # Of the column's own type, statistics of parquet are bounds for it.
        number = value.as_py()
        is_own = number.adjusted() < kind.precision - kind.scale or not number
        found = f"'{number:f}'::decimal({kind.precision if is_own else 38}, {kind.scale})"
    elif pa.types.is_string(kind):
        text = value.as_py()
        found = None if "\0" in text else "'" + text.replace("'", "''") + "'"
    elif pa.types.is_binary(kind):
        digits = "".join(f"\\x{byte:02X}" for byte in value.as_py())
        found = f"'{digits}'::blob"
    elif pa.types.is_date32(kind):
        found = f"{_EPOCH} + {value.value}"
    elif kind == pa.timestamp("us"):
        found = f"make_timestamp({value.value}::bigint)"
    elif kind == pa.timestamp("us", "UTC"):
        found = _moment(value.value)
    return found


def _moment(epoch_us: int) -> str | None:
    try:
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(
            microseconds=epoch_us
        )
    except OverflowError:
        return None
    return f"'{moment.isoformat(sep=' ')}'::timestamptz"
