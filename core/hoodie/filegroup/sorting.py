"""The order of the rows of a sorted bulk insert.

Ascending by the first column, rows that are equal there by the next: values by their type, texts
and bytes byte by byte, as the statistics of files compare them. NaN comes after all numbers and
null after that, so that only the last file of a partition mixes them with values. Rows that are
equal in all columns keep their order.

Only what is written to base files is sorted. In a log the order says which row of a key is the
newer one, and its statistics are those of the whole file in any order.
"""

import difflib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.model import commits

_NAMED_MAX = 3


def check(columns: Sequence[str], schema: pa.Schema, operation: commits.Operation) -> None:
    """Check that a write can sort its rows by some columns.

    Args:
        columns: Their names; none for no order.
        schema: The table's columns.
        operation: What the write does.

    Raises:
        InvalidInputError: It is no bulk insert; or a column is named twice, is not there, or has no
            order.
    """
    if not columns:
        return
    if operation is not commits.Operation.BULK_INSERT:
        raise errors.InvalidInputError(
            f"rows of operation {operation.value.lower()} cannot be sorted by "
            f"{', '.join(columns)}, expected the operation bulk_insert"
        )
    for place, name in enumerate(columns):
        if name in columns[:place]:
            raise errors.InvalidInputError(
                f"rows cannot be sorted by column {name!r} twice, expected it once"
            )
        _check_column(name, schema)


def _check_column(name: str, schema: pa.Schema) -> None:
    if name in schema.names:
        column_type = schema.field(name).type
        if pa.types.is_nested(column_type):
            raise errors.InvalidInputError(
                f"rows cannot be sorted by column {name!r}, whose type {column_type} has no "
                "order: expected columns of numbers, texts, times, booleans or bytes"
            )
        return
    outer = name.partition(".")[0]
    if outer != name and outer in schema.names:
        raise errors.InvalidInputError(
            f"rows cannot be sorted by {name!r}, a field within column {outer!r}: expected "
            "columns of the table"
        )
    similar = difflib.get_close_matches(name, schema.names, n=_NAMED_MAX)
    known = f"similar: {', '.join(similar)}" if similar else f"they are {', '.join(schema.names)}"
    raise errors.InvalidInputError(
        f"rows cannot be sorted by {name!r}, expected a column of the table; {known}"
    )


def positions(rows: pa.Table, columns: Sequence[str]) -> pa.Array:
    """Return the positions of rows in their order."""
    keys = rows.select(columns)
    return pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in columns])
