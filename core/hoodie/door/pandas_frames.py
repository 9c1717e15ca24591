"""Data frames of pandas, which need not be installed: no other module asks for it.

Their own stream of Arrow's has every index among its columns, and of a column with mixed types it
does not name the column. Here an index is a column if it has a name, and numbers are of the type
of their column if all of them have a value there: pandas has no whole numbers where one is missing.
A column in which all is missing is of any type.
"""

import contextlib
import sys
from typing import Any

import pyarrow as pa

from hoodie import errors


def arrow_table(given: object, columns: pa.Schema | None = None) -> pa.Table | None:
    """Return a data frame as a table of Arrow; None for another object.

    Args:
        given: Perhaps a data frame.
        columns: Of the table that it is for; None for a new one.

    Raises:
        InvalidInputError: A column has values of different types, or a name that is not a text.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(given, pandas.DataFrame):
        return None
    frame: Any = given
    series: dict[object, Any] = {}
    for level in range(frame.index.nlevels):
        name = frame.index.names[level]
        if name is not None:
            series[name] = frame.index.get_level_values(level)
    for position, name in enumerate(frame.columns):
        if name in series:
            raise errors.InvalidInputError(f"the data frame has column {name!r} twice")
        series[name] = frame.iloc[:, position]
    arrays, names = [], []
    for name, values in series.items():
        if not isinstance(name, str):
            raise errors.InvalidInputError(
                f"the data frame has a column named {name!r}, expected texts as names"
            )
        names.append(name)
        arrays.append(_array(name, values, columns))
    return pa.Table.from_arrays(arrays, names=names)


def _array(name: str, values: Any, columns: pa.Schema | None) -> pa.Array | pa.ChunkedArray:  # noqa: ANN401 - a series or an index
    position = -1 if columns is None else columns.get_field_index(name)
    wanted = columns.field(position).type if columns is not None and position >= 0 else None
    try:
        # Maps come out of Arrow as lists of pairs, which it does not take for maps by itself; with
        # their type it would drop the zones of times.
        is_map = (
            wanted is not None
            and pa.types.is_map(wanted)
            and not pa.types.is_timestamp(wanted.item_type)
        )
        found = pa.array(values, wanted if is_map else None, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise errors.InvalidInputError(
            f"column {name!r} has values of different types, or of one that Arrow does not have: "
            f"{error}. Convert it to one type, as with .astype(str)"
        ) from error
    if pa.types.is_timestamp(found.type) and values.dtype == object:
        zoned = {each.tzinfo is not None for each in values[values.notna()]}
        if len(zoned) > 1:
            raise errors.InvalidInputError(
                f"column {name!r} has times with and without a time zone, expected one of both; "
                "convert them, as with pandas.to_datetime(..., utc=True)"
            )
    if wanted is None:
        return found
    if found.null_count == len(found):  # As texts are that are all missing: NaN, a number.
        return pa.nulls(len(found), wanted)
    if not (_is_number(found.type) and _is_number(wanted)):
        return found
    with contextlib.suppress(pa.ArrowException):  # A value would change: the type is refused.
        return found.cast(wanted)
    return found


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
