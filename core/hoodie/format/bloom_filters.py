"""Bloom filters of record keys, as Apache Hudi puts them into base files and its metadata table.

    0   int32   -1, the version
    4   int32   positions that a key sets
    8   int8    1, MurmurHash; 0, Jenkins, is not read
    9   int32   bits of a row
    SIMPLE: then the one row
    DYNAMIC_V0: 13   int32   keys of a row
                17   int32   keys in the newest row
                21   int32   rows; then each as a SIMPLE filter of its own, header included

Numbers are big-endian. Bit i of a row is bit i % 8, the lowest first, of byte i // 8; bits after
the last are 0. The filter is stored as base64 text of that.

A row that is full is followed by another until there is room for the greatest number of keys; later
keys are put into the rows in turn, beginning with the first, which gets two. A key is in none of
the rows, or probably in one. Positions are the hashes of the chain of `murmur_hash`, as signed
numbers, without their sign after division by the number of bits.

Source: `InternalBloomFilter.java`, `InternalDynamicBloomFilter.java`, `BloomFilterUtils.java`,
`HoodieBloomFilterWriteSupport.java` (1.2.0).
"""

from __future__ import annotations

import base64
import binascii
import enum
import math
import struct
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors

with deferred.imports():
    from hoodie.format import murmur_hash

FOOTER_KEY = "org.apache.hudi.bloomfilter"
"""By which a base file's footer has the filter of its keys."""

FOOTER_TYPE_KEY = "hoodie_bloom_filter_type_code"
"""By which it says of which type the filter is; without it it is SIMPLE."""

BYTES_MAX = 64 << 20
"""A longer filter is not read, of text or of bytes: it would be of ten million keys."""

_HASHES_MAX = 256
"""More positions of a key are not read: at an error rate of 1e-9 a key has 30."""

_VERSION = -1
_MURMUR = 1
_HEADER = struct.Struct(">iibi")
_ROWS = struct.Struct(">iii")


class TypeCode(enum.Enum):
    """The types of filters, by the names that are stored."""

    SIMPLE = "SIMPLE"
    DYNAMIC = "DYNAMIC_V0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a filter is; the defaults are Apache Hudi's.

    Attributes:
        entries: Keys of a row.
        error_rate: The share of other keys that a full row takes for its own.
        entries_max: Keys for which rows are added.
    """

    entries: int = 60_000
    error_rate: float = 1e-9
    entries_max: int = 100_000

    @property
    def bits(self) -> int:
        """Of a row."""
        log_2 = math.log(2)
        return math.ceil(self.entries * (-math.log(self.error_rate) / (log_2 * log_2)))

    @property
    def hashes(self) -> int:
        """Positions that a key sets."""
        return math.ceil(math.log(2) * self.bits / self.entries)


DEFAULT = Size()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFilter:
    """A filter as it is stored.

    Attributes:
        type_code: The name of its type.
        text: Base64.
    """

    type_code: str
    text: bytes


class NewFilter:
    """A filter to which keys are added, in the order of the rows in their file.

    Memory: a byte for each bit of a row; with the default size 2.6 MB, and twice that from 60,001
    keys on.
    """

    def __init__(self, type_code: TypeCode = TypeCode.DYNAMIC, size: Size = DEFAULT) -> None:
        """Begin without keys."""
        self._type_code = type_code
        self._size = size
        self._rows = [self._new_row()]
        self._count = 0

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Add keys; one that was added before counts again, null and the empty text do not."""
        if pa.types.is_dictionary(keys.type):
            keys = keys.cast(pa.string())
        keys = keys.filter(pc.fill_null(pc.not_equal(keys, ""), False))
        if not len(keys):
            return
        numbers = self._rows_of(np.arange(self._count, self._count + len(keys)))
        self._count += len(keys)
        while len(self._rows) <= numbers.max():
            self._rows.append(self._new_row())
        for number in np.unique(numbers).tolist():
            row, own = self._rows[number], keys.filter(pa.array(numbers == number))
            for _, hashes in murmur_hash.chains(own, self._size.hashes):
                for some in hashes:
                    row[positions(some, self._size.bits)] = True

    def stored(self) -> StoredFilter:
        """Return the filter as it is stored."""
        return StoredFilter(type_code=self._type_code.value, text=base64.b64encode(self.encode()))

    def encode(self) -> bytes:
        """Return its bytes, which `stored` has as text."""
        header = _HEADER.pack(_VERSION, self._size.hashes, _MURMUR, self._size.bits)
        rows = [header + np.packbits(row, bitorder="little").tobytes() for row in self._rows]
        if self._type_code is TypeCode.SIMPLE:
            return rows[0]
        # Of the newest row; keys beyond the greatest number count there as well.
        in_newest = self._count - (len(rows) - 1) * self._size.entries
        return b"".join((header, _ROWS.pack(self._size.entries, in_newest, len(rows)), *rows))

    def _new_row(self) -> npt.NDArray[np.bool_]:
        return np.zeros(self._size.bits, np.bool_)

    def _rows_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the row of each key, by how many were added before it."""
        if self._type_code is TypeCode.SIMPLE:
            return np.zeros_like(numbers)
        count = max(1, -(-self._size.entries_max // self._size.entries))
        beyond = numbers - count * self._size.entries
        return np.where(
            beyond < 0, numbers // self._size.entries, np.maximum(beyond - 1, 0) % count
        )


class Filter:
    """A filter that was read."""

    def __init__(self, rows: list[npt.NDArray[np.uint8]], bits: int, hashes: int) -> None:
        """Take the bytes of its rows; `decode` makes one."""
        self._rows = rows
        self._bits = bits
        self._hashes = hashes

    @classmethod
    def decode(cls, stored: StoredFilter, source: str) -> Self:
        """Read a filter.

        Args:
            stored: The filter.
            source: What it is of, for messages.

        Raises:
            FormatError: It is broken.
            UnsupportedError: It is of another type, hash or version, or larger than makes sense.
        """
        if stored.type_code not in {each.value for each in TypeCode}:
            raise errors.UnsupportedError(
                f"{source}: a bloom filter of type {stored.type_code!r:.80}, expected "
                f"{' or '.join(each.value for each in TypeCode)}"
            )
        if len(stored.text) > BYTES_MAX:
            raise errors.UnsupportedError(
                f"{source}: a bloom filter of {len(stored.text)} bytes, expected {BYTES_MAX} at "
                "most"
            )
        try:
            content = base64.b64decode(stored.text, validate=True)
        except binascii.Error as error:
            raise errors.FormatError(f"{source}: a bloom filter is not base64: {error}") from error
        hashes, bits = _header(content, 0, source)
        begin, count = 0, 1
        if stored.type_code == TypeCode.DYNAMIC.value:
            begin = _HEADER.size + _ROWS.size
            if len(content) < begin:
                raise errors.FormatError(f"{source}: a bloom filter that is cut short")
            _, _, count = _ROWS.unpack_from(content, _HEADER.size)
        row_bytes = -(-bits // 8)
        step = _HEADER.size + row_bytes
        if count < 1 or len(content) != begin + count * step:
            raise errors.FormatError(
                f"{source}: a bloom filter of {count} rows with {bits} bits each in "
                f"{len(content)} bytes, expected {begin + max(count, 1) * step}"
            )
        rows = []
        for at in range(begin, len(content), step):
            if _header(content, at, source) != (hashes, bits):
                raise errors.FormatError(f"{source}: a bloom filter with rows of different sizes")
            rows.append(np.frombuffer(content, np.uint8, row_bytes, at + _HEADER.size))
        return cls(rows, bits, hashes)

    def may_contain(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each key whether it may be among those that were added.

        Args:
            keys: Texts, none of them null; an empty one may always be.
        """
        found = np.zeros(len(keys), np.bool_)
        for places, hashes in murmur_hash.chains(keys, self._hashes):
            at = positions(hashes, self._bits)
            byte, mask = at >> 3, np.uint8(1) << (at & 7).astype(np.uint8)
            for row in self._rows:
                found[places] |= ((row[byte] & mask) != 0).all(axis=0)
        found |= pc.equal(keys, "").to_numpy(zero_copy_only=False)
        return found


def positions(hashes: murmur_hash.Hashes, bits: int) -> npt.NDArray[np.intp]:
    """Return which bits hashes set; the shape stays.

    Args:
        hashes: Of keys.
        bits: Of a row.
    """
    # The sign goes, and what is left of a division without it is the same. NumPy divides by one
    # number fast, but for what is left.
    unsigned = np.abs(hashes.view(np.int32)).view(np.uint32)
    unsigned -= unsigned // np.uint32(bits) * np.uint32(bits)
    return unsigned.astype(np.intp)


def _header(content: bytes, at: int, source: str) -> tuple[int, int]:
    """Return how many positions a key has, and how many bits a row."""
    if len(content) < at + _HEADER.size:
        raise errors.FormatError(f"{source}: a bloom filter that is cut short")
    version, hashes, hash_type, bits = _HEADER.unpack_from(content, at)
    if version != _VERSION or hash_type != _MURMUR:
        raise errors.UnsupportedError(
            f"{source}: a bloom filter of version {version} and hash {hash_type}, expected "
            f"{_VERSION} and {_MURMUR} (MurmurHash)"
        )
    if not (0 < hashes <= _HASHES_MAX and bits > 0):
        raise errors.FormatError(
            f"{source}: a bloom filter with {hashes} positions a key in {bits} bits, expected 1 "
            f"to {_HASHES_MAX} positions"
        )
    return hashes, bits
