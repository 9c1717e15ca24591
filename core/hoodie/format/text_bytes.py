"""The bytes of a column of texts, for hashes that look at all texts at once."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
