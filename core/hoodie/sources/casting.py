"""Input columns into the table's types, exactly; what does not fit is an error naming the value.

Nothing is truncated or turned into null on the way, but for times with nanoseconds, as pandas has
them: what is below a microsecond is cut off, as by Spark. Nothing is rounded but to the nearest
number that a float or double has; one that is greater than all of them does not fit. Texts become
numbers, times and truth values by Arrow's rules; white space around them does not count. Where the
table has times of a zone, a time without one is of UTC, also beside others that have one; where it
has none, a zone is an error.
"""

import contextlib
import re
from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors

_WITH_COMMA = re.compile(r"'[+-]?\d+,\d+'")
_OTHER_DATE = re.compile(r"'\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
_SHOWN_LENGTH_MAX = 80
_ZONED = r":[0-9.]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_INFINITE = r"(?i)^\s*[+-]?inf(inity)?\s*$"
_NO_CAST = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


def cast(data: pa.Table, schema: pa.Schema, origin: str, *, first_row: int | None = 0) -> pa.Table:
    """Return the columns in the types of the schema's columns of these names.

    Args:
        data: Any of the schema's columns, in any order, which is kept.
        schema: The table's.
        origin: Where the data comes from, for messages.
        first_row: How many rows of its origin come before, for messages; None if that is not known.

    Raises:
        InvalidInputError: A value does not fit, or is null where none may be.
    """
    fields = [schema.field(name) for name in data.column_names]
    columns = []
    for field in fields:
        try:
            columns.append(_cast(data[field.name], field))
        except _MisfitError as misfit:
            row = ""
            if misfit.row is not None and first_row is not None:
                row = f" in row {first_row + misfit.row + 1}"
            raise errors.InvalidInputError(
                f"{origin}: column {field.name!r} {misfit.what}{row}, expected {misfit.expected}"
            ) from None
    return pa.table(columns, schema=pa.schema(fields))


def texts_to_null(data: pa.Table, texts: Collection[str]) -> pa.Table:
    """Return the text columns with null in place of these texts."""
    nulls = pa.array(sorted(texts), pa.string())
    for index, field in enumerate(data.schema):
        if pa.types.is_string(field.type):
            column = data.column(index)
            is_text = pc.is_in(column, value_set=nulls.cast(field.type))
            if pc.any(is_text).as_py():
                column = pc.if_else(is_text, pa.scalar(None, field.type), column)
                data = data.set_column(index, field, column)
    return data


class _MisfitError(Exception):
    """What is wrong with a column."""

    def __init__(self, what: str, row: int | None, expected: str) -> None:
        super().__init__(what)
        self.what = what
        self.row = row
        self.expected = expected


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    result = _cast_or_none(column, field.type)
    if result is None and _is_text(column.type):
        result = _cast_or_none(pc.utf8_trim_whitespace(column), field.type)
    if result is None:
        raise _misfit(column, field.type)
    if not field.nullable and result.null_count:
        row = pc.index(result.is_null(), True).as_py()
        raise _MisfitError("is null", row, "a value")
    return result


def _cast_or_none(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    if column.type == kind:
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.floor_temporal(column, unit="microsecond")
    kinds = [kind]
    if pa.types.is_timestamp(kind) and kind.tz is not None and _is_text(column.type):
        kinds.append(pa.timestamp(kind.unit))
    for parsed in kinds:
        with contextlib.suppress(*_NO_CAST):
            result = _cast_times(column, parsed).cast(kind)
            return None if _overflows(column, result) else result
    if len(kinds) > 1:
        with contextlib.suppress(*_NO_CAST):
            has_zone = pc.match_substring_regex(column, _ZONED)
            nothing = pa.scalar(None, column.type)
            parts = (
                pc.if_else(has_zone, each, other).cast(parsed).cast(kind)
                for parsed, each, other in (
                    (kind, column, nothing),
                    (kinds[-1], nothing, column),
                )
            )
            return pc.coalesce(*parts)
    return None


def _cast_times(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    # Other times than those within lists and structs are rounded down already.
    is_cut = pa.types.is_nested(column.type) and "[ns" in str(column.type)
    return column.cast(options=pc.CastOptions(kind, allow_time_truncate=is_cut))


def has_infinity(column: pa.ChunkedArray) -> bool:
    """Return whether a column is of floats or doubles, and one of them is infinite."""
    if not pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.is_inf(column)).as_py())


def _overflows(column: pa.ChunkedArray, result: pa.ChunkedArray) -> bool:
    """Return whether a value became infinite that was not."""
    if not has_infinity(result):
        return False
    if _is_text(column.type):
        was_infinite = pc.match_substring_regex(column, _INFINITE)
    elif pa.types.is_floating(column.type):
        was_infinite = pc.is_inf(column)
    else:
        return True
    return bool(pc.any(pc.and_not(pc.is_inf(result), was_infinite)).as_py())


def _misfit(column: pa.ChunkedArray, kind: pa.DataType) -> _MisfitError:
    """Return what is wrong with a column that cannot be cast."""
    try:
        column.slice(0, 0).cast(kind)
    except _NO_CAST:
        return _MisfitError(f"is of type {column.type}", None, f"one that becomes {kind}")
    text = pc.utf8_trim_whitespace(column) if _is_text(column.type) else column
    row = _first_misfit(text, kind)
    shown = repr(column[row].as_py())
    if len(shown) > _SHOWN_LENGTH_MAX:
        shown = shown[: _SHOWN_LENGTH_MAX - 3] + "..."
    expected = f"one of type {kind}{_example(kind)}{_option(shown, kind)}"
    return _MisfitError(f"has the value {shown}", row, expected)


def _option(shown: str, kind: pa.DataType) -> str:
    """Return by which option a value in another form is read; nothing if none may help."""
    if _WITH_COMMA.fullmatch(shown) and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return "; of CSV a decimal comma is read by --decimal ,"
    if _OTHER_DATE.match(shown) and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return "; of CSV other forms are read by --date-format, such as %d.%m.%Y"
    return ""


def _example(kind: pa.DataType) -> str:
    """Return a text of a type for messages; nothing for one that needs none."""
    if pa.types.is_timestamp(kind):
        return f", such as 2013-01-31 12:00:00{'Z' if kind.tz else ''}"
    return ", such as 2013-01-31" if pa.types.is_date(kind) else ""


def _first_misfit(column: pa.ChunkedArray, kind: pa.DataType) -> int:
    """Return the first row that cannot be cast; there is one."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        if _cast_or_none(column.slice(low, middle - low), kind) is None:
            high = middle
        else:
            low = middle
    return low


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
