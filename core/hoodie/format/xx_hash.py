"""XXH32 of whole columns.

    stripes   of 16 bytes, as long as there are any: v = rotate(v + word * P2, 13) * P1 for each of
              the four words, and its v; h is the sum of the four, rotated by 1, 7, 12 and 18. Of a
              shorter text h is the seed + P5
    length    h += length
    words     of four bytes: h = rotate(h + word * P3, 17) * P4
    bytes     that are left over: h = rotate(h + byte * P5, 11) * P1
    end       three steps that mix the bits

All in 32 bits that wrap around; words are little-endian. Texts are hashed together in order of
their lengths, step by step.

Source: the specification of xxHash, version 0.2.0; `HashID.getXXHash32` (1.2.0).
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.format import text_bytes

Hashes = npt.NDArray[np.uint32]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(each) for each in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
)
_BEGINS = np.array([0x24234428, 0x85EBCA77, 0, 0x61C8864F], np.uint32)
"""P1 + P2, P2, 0 and -P1: the seed is 0."""
_TURNS = (1, 7, 12, 18)
_STRIPE_BYTES = 16
_TEXTS_AT_ONCE = 8192


def hashes(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return XXH32 of the UTF-8 bytes of each text, with seed 0.

    Args:
        texts: None of them null.
    """
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    found = [_of_chunk(chunk) for chunk in chunks]
    return np.concatenate([np.empty(0, np.uint32), *found])


def _of_chunk(texts: pa.Array) -> Hashes:
    data, offsets = text_bytes.flat(texts)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")  # The longest first.
    found = np.empty(len(texts), np.uint32)
    for begin in range(0, len(order), _TEXTS_AT_ONCE):
        places = order[begin : begin + _TEXTS_AT_ONCE]
        found[places] = _hashed(data, offsets[places], lengths[places])
    return found


def _hashed(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    """Return the hashes of texts that begin at some places, the longest first."""
    found = np.full(len(begins), _P5, np.uint32)
    with_stripes = _count(lengths >= _STRIPE_BYTES)
    found[:with_stripes] = _of_stripes(data, begins[:with_stripes], lengths[:with_stripes])
    found += lengths.astype(np.uint32)
    at = begins + lengths // _STRIPE_BYTES * _STRIPE_BYTES
    rest = lengths % _STRIPE_BYTES
    for number in range(_STRIPE_BYTES // text_bytes.WORD_BYTES):
        some = np.flatnonzero(rest >= (number + 1) * text_bytes.WORD_BYTES)
        word = text_bytes.words(data, at[some] + number * text_bytes.WORD_BYTES)
        found[some] = _rotated(found[some] + word * _P3, 17) * _P4
    at += rest // text_bytes.WORD_BYTES * text_bytes.WORD_BYTES
    rest %= text_bytes.WORD_BYTES
    for number in range(text_bytes.WORD_BYTES - 1):
        some = np.flatnonzero(rest > number)
        byte = data[at[some] + number].astype(np.uint32)
        found[some] = _rotated(found[some] + byte * _P5, 11) * _P1
    found ^= found >> np.uint32(15)
    found *= _P2
    found ^= found >> np.uint32(13)
    found *= _P3
    found ^= found >> np.uint32(16)
    return found


def _of_stripes(
    data: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> Hashes:
    """Return what the stripes of texts come to; each has one, and the longest are first."""
    sums = np.tile(_BEGINS, (len(begins), 1)).T.copy()
    counts = lengths // _STRIPE_BYTES
    for stripe in range(int(counts.max(initial=0))):
        some = _count(counts > stripe)
        for place, part in enumerate(sums):
            at = begins[:some] + stripe * _STRIPE_BYTES + place * text_bytes.WORD_BYTES
            part[:some] = _rotated(part[:some] + text_bytes.words(data, at) * _P2, 13) * _P1
    turned = [_rotated(part, turns) for part, turns in zip(sums, _TURNS, strict=True)]
    return turned[0] + turned[1] + turned[2] + turned[3]


def _count(holds: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(holds))


def _rotated(values: Hashes, turns: int) -> Hashes:
    return (values << np.uint32(turns)) | (values >> np.uint32(32 - turns))
