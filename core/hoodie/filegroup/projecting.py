"""Bringing what a file holds into the table's columns.

A file keeps the columns it was written with. One that was added to the table later is null in it,
one whose type was widened since is cast, as Apache Hudi's readers do: a float becomes the double
that reads alike (3.1 stays 3.1), numbers become the texts that Java prints, whole numbers round to
the nearest float. Source: `HoodieAvroUtils.rewritePrimaryTypeWithDiffSchemaType` (1.2.0); measured.
"""

import decimal

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors

# Java prints numbers of these powers of ten without one.
_PLAIN_MIN = -3
_PLAIN_END = 7


def project(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return rows in these columns, order and types; columns of equal type are not copied.

    Raises:
        FormatError: A column has a type whose values do not fit.
    """
    if rows.schema.equals(columns):
        return rows
    arrays = [_project(rows, column) for column in columns]
    return pa.Table.from_arrays(arrays, schema=columns)


def _project(rows: pa.Table, column: pa.Field) -> pa.ChunkedArray:
    position = rows.schema.get_field_index(column.name)
    if position < 0:
        return pa.chunked_array([pa.nulls(rows.num_rows, column.type)])
    values = rows.column(position)
    if values.type.equals(column.type):
        return values
    try:
        return _widened(values, column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise errors.FormatError(
            f"column {column.name!r} is {values.type}, expected {column.type}: {error}. If it was "
            "widened since the table was opened, open it again, or call Table.refresh"
        ) from error


def _widened(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_floating(values.type):
        if pa.types.is_float32(values.type) and pa.types.is_float64(kind):
            return values.cast(pa.string()).cast(kind)
        if pa.types.is_string(kind):
            texts = values.cast(pa.string()).combine_chunks().dictionary_encode()
            java = pa.array(map(_java_text, texts.dictionary.to_pylist()), pa.string())
            return pa.chunked_array([pc.take(java, texts.indices)])
    is_rounded = pa.types.is_integer(values.type) and pa.types.is_floating(kind)
    return values.cast(kind, safe=not is_rounded)


def _java_text(text: str) -> str:
    """Return the text that Java prints for the number that Arrow prints as this one."""
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    if text in names:
        return names[text]
    number = decimal.Decimal(text).normalize()
    sign, digits, _ = number.as_tuple()
    exponent = number.adjusted()
    if not number or _PLAIN_MIN <= exponent < _PLAIN_END:
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent}"
