"""The bytes of a column of texts, for hashes that look at all texts at once."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WORD_BYTES = 4


def flat(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the UTF-8 bytes of all texts, and where in them each begins, and the last ends.

    Args:
        texts: None of them null; a dictionary of them is allowed.
    """
    binary = texts.cast(pa.large_string()).cast(pa.large_binary())
    assert binary.null_count == 0, "a null is not a text"
    _, offsets_buffer, data = binary.buffers()
    if data is None or not len(binary):
        return np.zeros(0, np.uint8), np.zeros(len(binary) + 1, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int64)[binary.offset :][: len(binary) + 1]
    return np.frombuffer(data, np.uint8), offsets


def words(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Return the little-endian words of `WORD_BYTES` that begin at some places."""
    word = np.zeros(len(at), np.uint32)
    for place in range(WORD_BYTES):
        word |= data[at + place].astype(np.uint32) << np.uint32(8 * place)
    return word
