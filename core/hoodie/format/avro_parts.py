"""Columns to Avro's binary form, all rows at once.

A part is an Arrow binary array with some bytes of each row; a row's record is its parts, one after
the other, and Arrow joins them in one pass. A part that is the same in each row may be a scalar.

    boolean       one byte, 0 or 1
    int, long     zigzag (0, -1, 1, -2, ... become 0, 1, 2, 3, ...), then 7 bits a byte, low ones
                  first, the high bit set in all but the last
    float, double 4 or 8 bytes, little endian
    bytes, string length as long, then the bytes
    union         number of the branch as long, then its value

Source: Avro 1.11 specification, "Binary Encoding".
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Part: TypeAlias = "pa.Array | pa.Scalar"

_VARINT_BYTES_MAX = 10
_VARINT_MORE = 0x80
_VARINT_BITS = 0x7F


def constant(content: bytes) -> pa.Scalar:
    """Return a part that is the same in each row."""
    return pa.scalar(content, pa.binary())


def varint(number: int) -> bytes:
    """Return one number, of 64 bits at most, as Avro writes int and long."""
    zigzag = (number << 1) ^ (number >> 63)
    assert 0 <= zigzag < 1 << 64, number
    encoded = bytearray()
    while zigzag > _VARINT_BITS:
        encoded.append(zigzag & _VARINT_BITS | _VARINT_MORE)
        zigzag >>= 7
    return bytes((*encoded, zigzag))


def lengths(part: pa.Array) -> npt.NDArray[np.int32]:
    """Return the length of each row's bytes in a part."""
    if not len(part):
        return np.zeros(0, np.int32)
    offsets = np.frombuffer(part.buffers()[1], np.int32)[part.offset :][: len(part) + 1]
    return offsets[1:] - offsets[:-1]


def varints(values: npt.NDArray[np.int64], present: Flags | None, lead: Bytes | None) -> pa.Array:
    """Return numbers as Avro writes int and long.

    Args:
        values: Any where absent.
        present: Rows that have a number; None for all.
        lead: A byte to put before each number, also where there is none: the union's branch.
    """
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    counts = _varint_lengths(zigzag)
    if present is not None:
        counts *= present
    lead_bytes = int(lead is not None)
    offsets = _offsets(counts + np.int32(lead_bytes))
    flat = np.empty(offsets[-1], np.uint8)
    if lead is not None:
        flat[offsets[:-1]] = lead
    first = offsets[:-1] + lead_bytes
    rows: npt.NDArray[np.int64] | None = None if present is None else np.flatnonzero(counts)
    for position in range(_VARINT_BYTES_MAX):
        if position:
            rows = np.flatnonzero(counts > position)
        if rows is not None and not len(rows):
            break
        at = first if rows is None else first[rows]
        bits = zigzag if rows is None else zigzag[rows]
        more = (counts if rows is None else counts[rows]) > position + 1
        low = ((bits >> np.uint64(7 * position)) & np.uint64(_VARINT_BITS)).astype(np.uint8)
        flat[at + position] = low | more.view(np.uint8) << 7
    return _binary(offsets, flat)


def fixed(cells: Bytes, present: Flags | None, lead: Bytes | None) -> pa.Array:
    """Return values of one width.

    Args:
        cells: One row a value, its bytes as they shall stand; any where absent.
        present: Rows that have a value; None for all.
        lead: As for `varints`.
    """
    if lead is not None:
        cells = np.concatenate((lead[:, None], cells), axis=1)
    if present is None:
        return _binary(_offsets(np.full(len(cells), cells.shape[1], np.int32)), cells.ravel())
    is_kept = np.repeat(present[:, None], cells.shape[1], axis=1)
    if lead is not None:
        is_kept[:, 0] = True
    return ragged(cells, is_kept)


def ragged(cells: Bytes, is_kept: Flags) -> pa.Array:
    """Return those bytes of each row of cells that are kept."""
    return _binary(_offsets(is_kept.sum(axis=1, dtype=np.int32)), cells[is_kept])


def nothing(count: int) -> pa.Array:
    """Return a part without bytes."""
    return _binary(np.zeros(count + 1, np.int32), np.empty(0, np.uint8))


def spread(part: pa.Array, present: Flags) -> pa.Array:
    """Return a part of some rows as one of all; without bytes in the others.

    Args:
        part: Of the rows that are present.
        present: Which of all rows are.
    """
    counts = np.zeros(len(present), np.int32)
    counts[present] = lengths(part)
    return _binary(_offsets(counts), np.frombuffer(content_of(part), np.uint8))


def grouped(part: pa.Array, counts: npt.NDArray[np.int64]) -> pa.Array:
    """Return the bytes of so many rows of a part after the other as those of one row."""
    ends = np.zeros(len(part) + 1, np.int64)
    np.cumsum(lengths(part), out=ends[1:])
    rows = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=rows[1:])
    content = np.frombuffer(content_of(part), np.uint8)
    return _binary(ends[rows].astype(np.int32), content)


def join(parts: Sequence[Part]) -> pa.Array:
    """Return the bytes of each row.

    Raises:
        ArrowInvalid: All rows together have more than 2 GiB.
    """
    return pc.binary_join_element_wise(*parts, constant(b""), null_handling="skip")


def content_of(rows: pa.Array) -> pa.Buffer:
    """Return the bytes of all rows, one after the other; not copied."""
    data = rows.buffers()[2]
    if data is None or not len(rows):
        return pa.py_buffer(b"")
    offsets = np.frombuffer(rows.buffers()[1], np.int32)[rows.offset :][: len(rows) + 1]
    return data.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _varint_lengths(zigzag: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    counts = np.ones(len(zigzag), np.int32)
    largest = int(zigzag.max(initial=0))
    for position in range(1, _VARINT_BYTES_MAX):
        if largest >> 7 * position == 0:
            break
        counts += zigzag >= np.uint64(1 << 7 * position)
    return counts


def _offsets(counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid(f"a column of {offsets[-1]} bytes, expected 2 GiB at most")
    return offsets.astype(np.int32)


def _binary(offsets: npt.NDArray[np.int32], flat: Bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(flat)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)
