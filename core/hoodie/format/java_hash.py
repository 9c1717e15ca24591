"""The hashes that decide places in a Hudi table: Java's of strings and lists, and XXH64.

`String.hashCode` is the polynomial h = 31 h + u over UTF-16 units u, in 32 bits that wrap around;
`List.hashCode` the same over its elements' hashes, beginning with 1, a null's hash being 0.

Whole columns are hashed at once. 31 is odd, so it has an inverse modulo 2**32, and with prefix sums
P of u[j] * 31**-j the hash of units i to k is (P[k] - P[i]) * 31**(k - 1), whatever the length.
"""

import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors

Hashes = npt.NDArray[np.int32]

HUDI_SEED = 0xFFFFFFFF_DABADABA
"""The seed of `HashID.java`: the int 0xdabadaba, widened with its sign."""

_INVERSE_OF_31 = pow(31, -1, 1 << 32)
_ASCII_MAX = 0x7F
# The two bits that tell a later byte of a UTF-8 sequence, and the least first byte of a long one.
_SEQUENCE_BITS = 0xC0
_LATER_BYTE = 0x80
_FIRST_OF_FOUR = 0xF0

_UNITS_MAX = 1 << 18  # At once: the sums then stay in the processor's cache.
_MASK = (1 << 64) - 1
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE_BYTES = 32
_TEXTS_AT_ONCE = 1 << 18
"""Of short texts the offsets take more memory than what is hashed."""


def string_hash(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return `String.hashCode` of each text, 0 for null.

    Args:
        texts: Of a string type, or a dictionary of one, or all null.

    Raises:
        InvalidInputError: A text is no UTF-8.
    """
    if isinstance(texts, pa.ChunkedArray):
        chunks = [string_hash(chunk) for chunk in texts.chunks]
        return np.concatenate([np.empty(0, np.int32), *chunks])
    if pa.types.is_dictionary(texts.type):
        # Null has the hash of the empty text, so it may be any place that holds 0.
        hashes_and_null = np.append(string_hash(texts.dictionary), np.int32(0))
        places = texts.indices.cast(pa.int64()).fill_null(len(texts.dictionary))
        hashes: Hashes = hashes_and_null[places.to_numpy()]
        return hashes
    starts = range(0, len(texts), _TEXTS_AT_ONCE)
    found = [_text_hash(texts.slice(start, _TEXTS_AT_ONCE)) for start in starts]
    return np.concatenate([np.empty(0, np.int32), *found])


def _text_hash(texts: pa.Array) -> Hashes:
    flat = texts.cast(pa.large_string())
    return _flat_hash(flat.fill_null("") if flat.null_count else flat)


def list_hash(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Hashes:
    """Return `List<String>.hashCode` of each row, whose elements are the columns' texts.

    Raises:
        InvalidInputError: A text is no UTF-8.
    """
    rows = np.ones(len(columns[0]), np.uint32)
    for column in columns:
        rows = rows * np.uint32(31) + string_hash(column).view(np.uint32)
    return rows.view(np.int32)


def xxhash64(content: bytes, seed: int = HUDI_SEED) -> int:
    """Return the XXH64 of bytes as an unsigned number; for short names, not for data."""
    length, at = len(content), 0
    if length >= _STRIPE_BYTES:
        lanes = [
            (seed + _PRIMES[0] + _PRIMES[1]) & _MASK,
            (seed + _PRIMES[1]) & _MASK,
            seed & _MASK,
            (seed - _PRIMES[0]) & _MASK,
        ]
        while at <= length - _STRIPE_BYTES:
            lanes = [
                _round(lane, _word(content, at + 8 * index, 8)) for index, lane in enumerate(lanes)
            ]
            at += _STRIPE_BYTES
        rotations = (1, 7, 12, 18)
        state = sum(_rotate(lane, by) for lane, by in zip(lanes, rotations, strict=True))
        for lane in lanes:
            state = (((state ^ _round(0, lane)) & _MASK) * _PRIMES[0] + _PRIMES[3]) & _MASK
    else:
        state = seed + _PRIMES[4]
    state = (state + length) & _MASK
    return _avalanche(_mix_tail(state, content, at))


def _flat_hash(texts: pa.LargeStringArray) -> Hashes:
    """Return the hashes of texts without nulls."""
    _, offsets_buffer, data = texts.buffers()
    if data is None or not len(texts):
        return np.zeros(len(texts), np.int32)
    offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset :][: len(texts) + 1]
    flat = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    if flat.size and flat.max() > _ASCII_MAX:
        units, offsets = _utf16(flat, offsets)
        return _polynomial(units, offsets)
    return _polynomial(flat, offsets)


def _utf16(
    flat: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """Return the UTF-16 units of a flat UTF-8 column, and where in them each text begins."""
    try:
        units = np.frombuffer(flat.tobytes().decode().encode("utf-16-le"), np.uint16)
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(f"a text is not UTF-8: {error}") from error
    # A first byte stands for one unit, that of a four-byte sequence for two, a later byte for none.
    counts = ((flat & _SEQUENCE_BITS) != _LATER_BYTE).astype(np.int8) + (flat >= _FIRST_OF_FOUR)
    places = np.zeros(flat.size + 1, np.int64)
    np.cumsum(counts, out=places[1:])
    return units, places[offsets]


def _polynomial(
    units: npt.NDArray[np.uint8] | npt.NDArray[np.uint16], offsets: npt.NDArray[np.int64]
) -> Hashes:
    hashes = np.empty(len(offsets) - 1, np.uint32)
    for first, last in _batches(offsets):
        bounds = offsets[first : last + 1] - offsets[first]
        powers, inverses = _powers(max(int(bounds[-1]), _UNITS_MAX))
        sums = np.zeros(bounds[-1] + 1, np.uint32)
        terms = units[offsets[first] : offsets[last]] * inverses[: bounds[-1]]
        np.cumsum(terms, dtype=np.uint32, out=sums[1:])
        ends = bounds[1:]
        # An empty text ends where it begins: its sum is 0, whatever power it meets.
        hashes[first:last] = (sums[ends] - sums[bounds[:-1]]) * powers[np.maximum(ends, 1) - 1]
    return hashes.view(np.int32)


def _batches(offsets: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts of about `_UNITS_MAX` units, one at least."""
    first, count = 0, len(offsets) - 1
    while first < count:
        last = int(np.searchsorted(offsets, offsets[first] + _UNITS_MAX, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last


@functools.lru_cache(maxsize=2)
def _powers(count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the first powers of 31 and of its inverse, modulo 2**32."""
    powers = np.full((2, count), [[31], [_INVERSE_OF_31]], np.uint32)
    powers[:, 0] = 1
    np.cumprod(powers, axis=1, dtype=np.uint32, out=powers)
    return powers[0], powers[1]


def _mix_tail(state: int, content: bytes, at: int) -> int:
    while at + 8 <= len(content):
        state ^= _round(0, _word(content, at, 8))
        state = (_rotate(state, 27) * _PRIMES[0] + _PRIMES[3]) & _MASK
        at += 8
    if at + 4 <= len(content):
        state ^= _word(content, at, 4) * _PRIMES[0] & _MASK
        state = (_rotate(state, 23) * _PRIMES[1] + _PRIMES[2]) & _MASK
        at += 4
    for byte in content[at:]:
        state ^= byte * _PRIMES[4] & _MASK
        state = _rotate(state, 11) * _PRIMES[0] & _MASK
    return state


def _avalanche(state: int) -> int:
    state = (state ^ state >> 33) * _PRIMES[1] & _MASK
    state = (state ^ state >> 29) * _PRIMES[2] & _MASK
    return state ^ state >> 32


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 64 - by) & _MASK


def _word(content: bytes, at: int, length: int) -> int:
    return int.from_bytes(content[at : at + length], "little")
