"""Bringing what a file holds into the table's columns.

A file keeps the columns it was written with. One that was added to the table later is null in it,
one whose type was widened since is cast.
"""

import pyarrow as pa

from hoodie import errors


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
        return values.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise errors.FormatError(
            f"column {column.name!r} is {values.type}, expected {column.type}: {error}"
        ) from error
