"""MurmurHash2 of whole columns, in chains: each hash of a key is the seed of its next one.

    hash     h = seed ^ length; of each little-endian word of four bytes k: k *= M, k ^= k >> 24,
             k *= M, h = h * M ^ k; then the bytes left over, and three steps that mix the bits
    rest     1 to 3 bytes: h ^= the last ^ the one before << 8 ^ the one before << 16, each with its
             sign extended, which differs from the hash as published; then h *= M
    chain    the seed of the first is 0

All in 32 bits that wrap around. What is made of the words does not depend on the seed, so a chain
makes it once. Keys are hashed together in order of their lengths, word by word.

Source: `MurmurHash.java`, `HashFunction.java` (1.2.0).
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.format import text_bytes

Hashes: TypeAlias = npt.NDArray[np.uint32]
Places: TypeAlias = npt.NDArray[np.int64]

_M = np.uint32(0x5BD1E995)
_KEYS_AT_ONCE = 8192
"""What is made of their words stays in the processor's cache."""


def chains(keys: pa.Array | pa.ChunkedArray, count: int) -> Iterator[tuple[Places, Hashes]]:
    """Yield the chains of keys, some at a time, in no order.

    Args:
        keys: Texts, none of them null; a dictionary of them is allowed.
        count: How many hashes a chain has.

    Yields:
        Places in `keys`, and a row for each hash of a chain with a column for each place.
    """
    first = 0
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        for places, hashes in _chains_of_chunk(chunk, count):
            yield places + first, hashes
        first += len(chunk)


def _chains_of_chunk(keys: pa.Array, count: int) -> Iterator[tuple[Places, Hashes]]:
    data, offsets = text_bytes.flat(keys)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")  # The longest first.
    for begin in range(0, len(order), _KEYS_AT_ONCE):
        places = order[begin : begin + _KEYS_AT_ONCE]
        yield places, _hashed(data, offsets[places], lengths[places], count)


def _hashed(
    data: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    count: int,
) -> Hashes:
    """Return the chains of keys that begin at some places, the longest first."""
    words = _mixed_words(data, begins, lengths // text_bytes.WORD_BYTES)
    rest = lengths % text_bytes.WORD_BYTES
    with_rest = np.flatnonzero(rest)
    rests = _rests(data, (begins + lengths)[with_rest], rest[with_rest])
    hashes = np.empty((count, len(begins)), np.uint32)
    short, shifted = lengths.astype(np.uint32), np.empty(len(begins), np.uint32)
    seed = np.zeros(len(begins), np.uint32)
    # In place: new arrays would cost more than what is computed.
    for number in range(count):
        found = np.bitwise_xor(seed, short, out=hashes[number])
        for word in words:
            part = found[: len(word)]
            part *= _M
            part ^= word
        if len(with_rest) == len(found):
            found ^= rests
            found *= _M
        elif len(with_rest):
            found[with_rest] = (found[with_rest] ^ rests) * _M
        found ^= np.right_shift(found, np.uint32(13), out=shifted)
        found *= _M
        found ^= np.right_shift(found, np.uint32(15), out=shifted)
        seed = found
    return hashes


def _mixed_words(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> list[Hashes]:
    """Return of each word what a hash takes up: of the keys that have it, which come first."""
    found = []
    for number in range(int(counts[0])):
        some = int(np.searchsorted(-counts, -number, side="left"))  # Those with more words.
        word = text_bytes.words(data, begins[:some] + number * text_bytes.WORD_BYTES)
        word *= _M
        word ^= word >> np.uint32(24)
        word *= _M
        found.append(word)
    return found


def _rests(
    data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> Hashes:
    """Return what a hash takes up of the bytes that make no word: 1 to 3 before each end."""
    found = np.zeros(len(ends), np.uint32)
    for place in range(1, text_bytes.WORD_BYTES):
        some = np.flatnonzero(counts >= place)
        signed = data[ends[some] - place].view(np.int8).astype(np.int32)
        found[some] ^= signed.view(np.uint32) << np.uint32(8 * (place - 1))
    return found
