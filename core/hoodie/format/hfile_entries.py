"""Data blocks of an HFile: entries of key and value, to Arrow and back. Big endian.

    bytes  meaning
    4      K = L + 12
    4      V: length of the value
    2      L: length of the row key, at most 32767
    L      row key
    1      0: length of the column family, which there is none of
    8      timestamp, 2^63 - 1
    1      4: the entry is a put
    V      value
    1      0: version for concurrency control

Where an entry begins depends on all before it. To find the beginnings without a loop over entries,
`decode` searches for the ten bytes between row key and value, which all entries have. What is found
is right if each entry ends where the next begins, and if the last ends with the block; otherwise
(keys of many lengths, a value that contains the ten bytes, another timestamp, a broken block) it
goes from entry to entry.

Source: `HFileDataBlock.java`, `KeyValue.java`.
"""

import bisect
import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.format import avro_cursor

KEY_BYTES_MAX = 2**15 - 1
ENTRY_BYTES = 21
"""Of an entry, beside row key and value."""
SCHEMA = pa.schema(
    [pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)

_KEY_EXTRA = 12
_LENGTHS = struct.Struct(">ii")
_HEAD_BYTES = 10
_MARK = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
_MARK_WORD = 2**63 - 1
_RARE_BYTE = 0x7F
_FAMILY_BYTE = 0
_PUT = 4
_VERSION = b"\x00"
_KEY_LENGTHS_MAX = 8
"""Of how many lengths keys may be until going from entry to entry is faster."""

Places = npt.NDArray[np.int64]


def encode(keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.Buffer:
    """Return the content of a block.

    Args:
        keys: At least one, of at most KEY_BYTES_MAX; no nulls.
        values: One for each key; no nulls.
    """
    heads = np.empty(len(keys), np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")]))
    heads["row"] = lengths(keys)
    heads["key"] = lengths(keys) + _KEY_EXTRA
    heads["value"] = lengths(values)
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * _HEAD_BYTES
    head = pa.Array.from_buffers(
        pa.binary(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(heads)]
    )
    mark, version, nothing = (pa.scalar(each, pa.binary()) for each in (_MARK, _VERSION, b""))
    joined = pc.binary_join_element_wise(head, keys, mark, values, version, nothing)
    ends = np.frombuffer(joined.buffers()[1], np.int32)[
        joined.offset : joined.offset + len(keys) + 1
    ]
    return joined.buffers()[2].slice(int(ends[0]), int(ends[-1] - ends[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Entries of a block, found and not yet copied.

    Attributes:
        content: Of the block.
        key_starts: Where each row key begins in it.
        key_ends: Where each row key ends.
        value_ends: Where each value ends. It begins _MARK behind its key.
    """

    content: memoryview
    key_starts: Places
    key_ends: Places
    value_ends: Places

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.key_starts)

    def key(self, row: int) -> bytes:
        """Return one key."""
        return bytes(self.content[self.key_starts[row] : self.key_ends[row]])

    def keys(self) -> pa.BinaryArray:
        """Return all keys."""
        return self._copied(self.key_starts, self.key_ends)

    def batch(self) -> pa.RecordBatch:
        """Return all entries, as SCHEMA."""
        values = self._copied(self.key_ends + len(_MARK), self.value_ends)
        return pa.record_batch([self.keys(), values], schema=SCHEMA)

    def take(self, rows: Places) -> "Entries":
        """Return some entries, in their order here."""
        return Entries(
            content=self.content,
            key_starts=self.key_starts[rows],
            key_ends=self.key_ends[rows],
            value_ends=self.value_ends[rows],
        )

    def place(self, key: bytes) -> int:
        """Return how many entries have keys below one, if they are in order."""
        return bisect.bisect_left(range(len(self)), key, key=self.key)

    def _copied(self, starts: Places, ends: Places) -> pa.BinaryArray:
        return avro_cursor.binaries(pa.py_buffer(self.content), starts, ends, None)


def decode(content: memoryview, place: str) -> Entries:
    """Return the entries of a block in order.

    Raises:
        FormatError: The content is no entries.
    """
    data = np.frombuffer(content, np.uint8)
    found = _searched(data)
    starts, key_lengths = _walked(content, place) if found is None else found
    key_starts = starts + _HEAD_BYTES
    return Entries(
        content=content,
        key_starts=key_starts,
        key_ends=key_starts + key_lengths,
        value_ends=np.append(starts[1:], len(data)) - len(_VERSION),
    )


def lengths(values: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Return the length of each value."""
    return np.asarray(pc.binary_length(values), np.int64)


def _searched(data: npt.NDArray[np.uint8]) -> tuple[Places, Places] | None:
    """Return the start of each entry and its key's length, or None if the search is not enough."""
    if len(data) < ENTRY_BYTES:
        return None
    marks = _marks(data)
    if not len(marks):
        return None
    ints = _unaligned(data, ">i4")
    shorts = _unaligned(data, ">i2")
    starts = np.empty(len(marks), np.int64)
    key_lengths = np.empty(len(marks), np.int64)
    ends = np.empty(len(marks), np.int64)
    left = np.arange(len(marks))
    for _ in range(_KEY_LENGTHS_MAX):
        # The first entry that is left follows one that was found, so its start is certain. Others
        # with a key of this length are recognised by the two lengths at their start.
        first = left[0]
        length = marks[first] - _HEAD_BYTES - (ends[first - 1] if first else 0)
        if not 0 <= length <= KEY_BYTES_MAX:
            return None
        at = marks[left] - _HEAD_BYTES - length
        inside = np.maximum(at, 0)
        is_found = (
            (at >= 0) & (ints[inside] == length + _KEY_EXTRA) & (shorts[inside + 8] == length)
        )
        if not is_found[0]:
            return None
        rows = left[is_found]
        starts[rows] = at[is_found]
        key_lengths[rows] = length
        ends[rows] = marks[rows] + len(_MARK) + ints[at[is_found] + 4] + len(_VERSION)
        left = left[~is_found]
        if not len(left):
            break
    else:
        return None
    is_chain = starts[0] == 0 and ends[-1] == len(data) and bool((starts[1:] == ends[:-1]).all())
    has_values = bool((ends >= marks + len(_MARK) + len(_VERSION)).all())
    has_versions = not data[ends - 1].any() if is_chain else False
    return (starts, key_lengths) if is_chain and has_values and has_versions else None


def _marks(data: npt.NDArray[np.uint8]) -> Places:
    """Return where the bytes between row key and value are."""
    longs = _unaligned(data, ">i8")
    at: Places = np.flatnonzero(data[: len(longs)] == _RARE_BYTE)
    at = at[(at > 0) & (at + 8 < len(data))]
    is_mark = (longs[at] == _MARK_WORD) & (data[at - 1] == _FAMILY_BYTE) & (data[at + 8] == _PUT)
    marks: Places = at[is_mark] - 1
    return marks


def _unaligned(data: npt.NDArray[np.uint8], type_: str) -> npt.NDArray[np.signedinteger]:
    """Return the number that begins at each byte."""
    width = np.dtype(type_).itemsize
    return np.ndarray((len(data) - width + 1,), type_, data, strides=(1,))


def _walked(content: memoryview, place: str) -> tuple[Places, Places]:
    """Return what `_searched` does, entry by entry, and check each."""
    found = []
    at = 0
    while at <= len(content) - ENTRY_BYTES:
        key, value = _LENGTHS.unpack_from(content, at)
        if key < _KEY_EXTRA or value < 0:
            break
        found.append(at)
        at += _LENGTHS.size + key + value + len(_VERSION)
    if at != len(content) or not found:
        raise errors.FormatError(
            f"{place}: no entry begins at byte {at} of the block, which has {len(content)}"
        )
    data = np.frombuffer(content, np.uint8)
    starts = np.array(found, np.int64)
    key_lengths = _unaligned(data, ">i2")[starts + _LENGTHS.size].astype(np.int64)
    is_entry = _unaligned(data, ">i4")[starts] == key_lengths + _KEY_EXTRA
    marks = np.where(is_entry, starts + _HEAD_BYTES + key_lengths, starts)
    ends = np.append(starts[1:], len(data))
    is_entry &= (key_lengths >= 0) & (data[marks] == _FAMILY_BYTE)
    is_entry &= (data[marks + len(_MARK) - 1] == _PUT) & (data[ends - 1] == 0)
    if not is_entry.all():
        raise errors.FormatError(
            f"{place}: byte {starts[is_entry.argmin()]} of the block begins an entry with a column "
            "family, of another type than a put, or with a version"
        )
    return starts, key_lengths
