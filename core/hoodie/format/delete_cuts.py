"""Delete records that are alike, all at once.

A block being of one file group, and its deletes of one operation, what stands between key and
ordering value is the same in every record: partition path and branch. Its occurrences cut the block
into records, and each piece is then checked against its own lengths. The first record starts at a
known place; if every record's key ends where a cut is and the next record starts where its value
ends, then there is no other way to read them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.format import avro_columns, avro_cursor, ordering_wrappers
from hoodie.format.ordering_wrappers import ARRAY_BRANCH, Ordering

_TEXT = 2  # The branch of ["null", "string"], and of ["null", array], as zigzag.

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """What the first record of a block tells of all.

    Attributes:
        count: Number of records.
        start: Place of the first record.
        middle: The bytes between key and ordering value, the branch included.
        branch: Of the ordering value.
        elements: Number of ordering values.
    """

    count: int
    start: int
    middle: bytes
    branch: int
    elements: int


def decode(datum: pa.Buffer) -> tuple[pa.Array, Ordering] | None:
    """Return keys and ordering values of a list of delete records; None if they are not alike."""
    data = np.frombuffer(datum, np.uint8)
    try:
        shape = _shape(data)
        if shape is None or shape.branch < 0 or shape.elements < 1:
            return None
        places = _occurrences(data, shape)
        return _read(data, datum, shape, places) if len(places) == shape.count else None
    except errors.FormatError:
        return None


def _shape(data: Bytes) -> _Shape | None:
    cursor = avro_cursor.Cursor(data, np.zeros(1, np.int64), np.full(1, len(data), np.int64))
    count = int(cursor.varints(None)[0])
    start = int(cursor.at[0])
    if count <= 0 or cursor.bytes_here()[0] != _TEXT:
        return None
    cursor.spans(None)
    middle = int(cursor.at[0])
    if cursor.bytes_here()[0] == _TEXT:
        cursor.spans(None)
    branch, elements = int(cursor.varints(None)[0]), 1
    if branch == ARRAY_BRANCH and cursor.bytes_here()[0] == _TEXT:
        elements = int(cursor.varints(None)[0])
    cursor.check_inside()
    return _Shape(
        count=count,
        start=start,
        middle=data[middle : int(cursor.at[0])].tobytes(),
        branch=branch,
        elements=elements,
    )


def _occurrences(data: Bytes, shape: _Shape) -> Places:
    searched = data[shape.start : len(data) - len(shape.middle) + 1]
    places = np.flatnonzero(searched == shape.middle[0]) + shape.start
    for offset, byte in enumerate(shape.middle[1:], 1):
        places = places[data[places + offset] == byte]
    return places


def _read(
    data: Bytes, datum: pa.Buffer, shape: _Shape, places: Places
) -> tuple[pa.Array, Ordering] | None:
    list_end = len(data) - 1
    values = avro_cursor.Cursor(data, places + len(shape.middle), np.append(places[1:], list_end))
    ordering = _read_ordering(values, datum, shape)
    values.check_inside()
    keys = avro_cursor.Cursor(data, np.insert(values.at[:-1], 0, shape.start), places)
    is_text = keys.bytes_here() == _TEXT
    starts, ends = keys.spans(None)
    is_whole = values.at[-1] == list_end and data[list_end] == 0
    if ordering is None or not is_whole or not is_text.all() or (ends != places).any():
        return None
    return avro_cursor.texts(datum, starts, ends, None), ordering


def _read_ordering(cursor: avro_cursor.Cursor, datum: pa.Buffer, shape: _Shape) -> Ordering | None:
    is_array = shape.branch == ARRAY_BRANCH
    columns = []
    for _ in range(shape.elements if shape.branch else 0):
        branch = shape.branch
        if is_array:
            branches = cursor.varints(None)
            branch = int(branches[0])
            if (branches != branch).any():
                return None
        wrapper = ordering_wrappers.wrapper_at(branch, is_in_array=is_array)
        if wrapper is None:
            return None
        read = avro_columns.read(cursor, datum, ordering_wrappers.COLUMNS[wrapper])
        columns.append({wrapper: read})
    if is_array and cursor.bytes_here().any():
        return None
    return Ordering(columns=tuple(columns), is_array=np.full(shape.count, is_array))
