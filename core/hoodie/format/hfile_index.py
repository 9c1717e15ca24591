"""Index blocks of an HFile: where blocks are, and the first key of each. Big endian.

An entry of the root index and of the meta index:

    bytes  meaning
    8      offset of the block
    4      its length on disk, header and checksums included
    -      length of the key, a variable-length integer of Hadoop
    -      key

The block does not say how many there are; the trailer does. The leaf and intermediate blocks of an
index of several levels hold int32 n, n + 1 relative offsets of int32, and n entries without length
of the key, which the offsets give.

A key of the data index is int16 length, row key, and what HBase's writer may add to it: 0 and its
timestamp and type. Only the row key counts. It is at or below the first key of its block, and above
every key before the block. A key of the meta index is the block's name.

A variable-length integer of Hadoop is one byte from -112 to 127, else a byte that gives the number
of bytes that follow: -113 for one, and so on. Apache Hudi 1.1.1 writes Protocol Buffers varints
instead, which differ from 128 on and which its reader does not understand; neither do we.

Invariant: entries are in order of offset, and blocks do not overlap. So whatever an index says, the
blocks below one of its blocks are no more than the file has.

Source: `HFileRootIndexBlock.java`, `HFileLeafIndexBlock.java`; Hadoop's `WritableUtils.java`.
"""

import itertools
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import hfile_blocks

_OFFSET_AND_SIZE = struct.Struct(">qi")
_INT = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">h")
_ONE_BYTE_MAX = 127
_ONE_BYTE_MIN = -112


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Where a block is.

    Attributes:
        offset: Of its first byte in the file.
        size_bytes: On disk.
        first_key: At or below its first key; of a meta block, its name.
    """

    offset: int
    size_bytes: int
    first_key: bytes

    @property
    def end(self) -> int:
        """The offset behind the block."""
        return self.offset + self.size_bytes


def encode_root(entries: Iterable[Entry]) -> bytes:
    """Return the content of the root of a data index."""
    return b"".join(_encoded(each, _KEY_LENGTH.pack(len(each.first_key))) for each in entries)


def encode_meta(entries: Iterable[Entry]) -> bytes:
    """Return the content of a meta index."""
    return b"".join(_encoded(each, b"") for each in entries)


def decode_root(content: memoryview, count: int, end: int, place: str) -> list[Entry]:
    """Return the entries of the root of a data index.

    Args:
        content: Of the block.
        count: As the trailer says.
        end: Where the blocks that it refers to end at the latest.
        place: Names file and offset in errors.

    Raises:
        FormatError: The content is no such index, or breaks an invariant.
    """
    raw = _entries_with_lengths(content, count, place)
    return _checked([(offset, size, _row_key(key, place)) for offset, size, key in raw], end, place)


def decode_meta(content: memoryview, count: int, end: int, place: str) -> dict[bytes, Entry]:
    """Return the entries of a meta index by name; as `decode_root`."""
    raw = _entries_with_lengths(content, count, place)
    found = {}
    for offset, size, key in raw:
        _check_place(offset, size, 0, end, place)
        found[bytes(key)] = Entry(offset=offset, size_bytes=size, first_key=bytes(key))
    return found


def decode_node(content: memoryview, end: int, place: str) -> list[Entry]:
    """Return the entries of a leaf or intermediate block; as `decode_root`."""
    if len(content) < _INT.size:
        raise errors.FormatError(f"{place}: an index block of {len(content)} bytes")
    (count,) = _INT.unpack_from(content)
    start = _INT.size * (count + 2)
    if count < 0 or start > len(content):
        raise errors.FormatError(f"{place}: {count} entries in {len(content)} bytes of an index")
    places = struct.unpack_from(f">{count + 1}i", content, _INT.size)
    raw = []
    for begin, after in itertools.pairwise(places):
        if not 0 <= begin <= begin + _OFFSET_AND_SIZE.size <= after <= len(content) - start:
            raise errors.FormatError(f"{place}: an index entry from byte {begin} to {after}")
        offset, size = _OFFSET_AND_SIZE.unpack_from(content, start + begin)
        key = content[start + begin + _OFFSET_AND_SIZE.size : start + after]
        raw.append((offset, size, _row_key(key, place)))
    return _checked(raw, end, place)


def _encoded(entry: Entry, lead: bytes) -> bytes:
    length = len(lead) + len(entry.first_key)
    return b"".join(
        (
            _OFFSET_AND_SIZE.pack(entry.offset, entry.size_bytes),
            _variable_length(length),
            lead,
            entry.first_key,
        )
    )


def _variable_length(value: int) -> bytes:
    if value <= _ONE_BYTE_MAX:
        return bytes((value,))
    count = (value.bit_length() + 7) // 8
    return bytes((256 + _ONE_BYTE_MIN - count,)) + value.to_bytes(count, "big")


def _entries_with_lengths(
    content: memoryview, count: int, place: str
) -> list[tuple[int, int, memoryview]]:
    # Every entry takes bytes, so that a claimed count ends with the content at the latest.
    if not 0 <= count <= len(content) // (_OFFSET_AND_SIZE.size + 1):
        raise errors.FormatError(f"{place}: {count} entries in {len(content)} bytes of an index")
    at = 0
    entries = []
    for _ in range(count):
        if len(content) - at <= _OFFSET_AND_SIZE.size:
            raise errors.FormatError(f"{place}: the index ends within an entry")
        offset, size = _OFFSET_AND_SIZE.unpack_from(content, at)
        length, at = _read_variable_length(content, at + _OFFSET_AND_SIZE.size)
        if not 0 <= length <= len(content) - at:
            raise errors.FormatError(
                f"{place}: a key of {length} bytes in an index, {len(content) - at} are left"
            )
        entries.append((offset, size, content[at : at + length]))
        at += length
    return entries


def _read_variable_length(content: memoryview, at: int) -> tuple[int, int]:
    """Return a length, negative if it is none, and the place behind it."""
    first = content[at] - 256 if content[at] > _ONE_BYTE_MAX else content[at]
    if first >= _ONE_BYTE_MIN:
        return first, at + 1
    count = _ONE_BYTE_MIN - first
    if count > _INT.size:
        return -1, at
    return int.from_bytes(content[at + 1 : at + 1 + count], "big"), at + 1 + count


def _row_key(key: memoryview, place: str) -> bytes:
    if len(key) >= _KEY_LENGTH.size:
        (length,) = _KEY_LENGTH.unpack_from(key)
        if 0 <= length <= len(key) - _KEY_LENGTH.size:
            return bytes(key[_KEY_LENGTH.size : _KEY_LENGTH.size + length])
    raise errors.FormatError(f"{place}: a key of an index has {len(key)} bytes and no row key")


def _checked(raw: list[tuple[int, int, bytes]], end: int, place: str) -> list[Entry]:
    entries = []
    before = 0
    for offset, size, key in raw:
        _check_place(offset, size, before, end, place)
        entries.append(Entry(offset=offset, size_bytes=size, first_key=key))
        before = offset + size
    return entries


def _check_place(offset: int, size: int, before: int, end: int, place: str) -> None:
    if not (before <= offset and hfile_blocks.HEADER_BYTES <= size <= end - offset):
        raise errors.FormatError(
            f"{place}: the index has a block of {size} bytes at byte {offset}, "
            f"expected it between bytes {before} and {end}"
        )
