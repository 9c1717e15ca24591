"""A JSON array of objects as objects one a line, which is what Arrow parses.

The brackets of the array and the line breaks outside texts become spaces, the commas between its
objects line breaks, so that every other byte stays where it is. Some MiB at once, by functions of
bytes and without a loop over objects.
"""

import io
import re
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.sources import input_checks

_HEAD_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 22
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_BACKSLASH = b"\\"
_QUOTE, _COMMA, _SPACE, _NEWLINE, _RETURN = map(ord, '", \n\r')
_OPENING, _CLOSING = map(ord, "[]")
_BRACES = tuple(map(ord, "{}"))
_BOM = b"\xef\xbb\xbf"


def is_array(open_input: input_checks.Open) -> bool:
    """Return whether an input begins as an array does."""
    with open_input() as stream:
        while head := bytes(stream.read(_HEAD_BYTES)):
            if head := head.removeprefix(_BOM).lstrip():
                return head[0] == _OPENING
    return False


def objects(open_input: input_checks.Open) -> input_checks.Open:
    """Return what opens the objects of an array."""
    return lambda: io.BufferedReader(_Objects(open_input()), _CHUNK_BYTES)


class _Objects(io.RawIOBase):
    """The objects of an array, read from its beginning to its end."""

    def __init__(self, stream: BinaryIO | pa.NativeFile) -> None:
        super().__init__()
        self._stream = stream
        self._ready = memoryview(b"")
        self._left = b""
        self._depth = 0
        self._is_in_text = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        wanted = memoryview(buffer).cast("B")  # type: ignore[arg-type] # any buffer
        while not self._ready:
            chunk = self._left + bytes(self._stream.read(_CHUNK_BYTES))
            if not chunk or chunk == self._left:
                chunk, self._left = self._left, b""
                if not chunk:
                    return 0
                self._ready = memoryview(chunk)
                break
            # An escape is looked at whole.
            cut = len(chunk) - len(chunk.rstrip(_BACKSLASH))
            self._left = chunk[len(chunk) - cut % 2 :]
            self._ready = memoryview(self._spaced(chunk[: len(chunk) - cut % 2]))
        taken = min(len(wanted), len(self._ready))
        wanted[:taken] = self._ready[:taken]
        self._ready = self._ready[taken:]
        return taken

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _spaced(self, chunk: bytes) -> bytes:
        """Return the next bytes without what is the array's own."""
        plain = np.frombuffer(_ESCAPE.sub(b"__", chunk), np.uint8)
        is_quote = plain == _QUOTE
        is_text = (np.cumsum(is_quote) + self._is_in_text) % 2 == 1
        opens = _is_one_of(plain, _OPENING, _BRACES[0]) & ~is_text
        closes = _is_one_of(plain, _CLOSING, _BRACES[1]) & ~is_text
        depths = self._depth + np.cumsum(opens.astype(np.int64) - closes)
        is_own = (
            (opens & (depths == 1) & (plain == _OPENING))
            | (closes & (depths == 0) & (plain == _CLOSING))
            | (_is_one_of(plain, _NEWLINE, _RETURN) & ~is_text)
        )
        ends = (plain == _COMMA) & ~is_text & (depths == 1)
        if len(plain):
            self._depth = int(depths[-1])
            self._is_in_text = bool(is_text[-1])
        spaced = np.where(is_own, np.uint8(_SPACE), np.frombuffer(chunk, np.uint8))
        return np.where(ends, np.uint8(_NEWLINE), spaced).tobytes()


def _is_one_of(content: npt.NDArray[np.uint8], one: int, other: int) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (content == one) | (content == other)
    return found
