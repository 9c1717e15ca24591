"""What Arrow's parsers take without a word, or do not survive: looked for in the bytes before.

JSON  each level of nesting takes stack, and some thousands of levels end the process
CSV   quotes that are open where the input ends make one value of all rows since, as they do in a
      file that was cut off
Each is one more pass over the input, by functions of bytes and without a loop over rows.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from hoodie import errors

Open = Callable[[], BinaryIO | pa.NativeFile]
"""Opens the input from its beginning; the caller closes the stream."""

NESTING_MAX = 100
"""Far more than the types of columns have, and far less than a stack of 1 MiB bears."""

_CHUNK_BYTES = 1 << 22
_QUOTE = b'"'
_OPENING = ord("{")
_TEXT = re.compile(rb'"[^"]*"')
_AS_BRACES = bytes.maketrans(b"[]", b"{}")
_NO_STRUCTURE = bytes(each for each in range(256) if each not in b'"[]{}')


def check_nesting(open_input: Open, origin: str) -> None:
    """Refuse JSON that is nested too deeply to be parsed.

    Args:
        open_input: Opens the input, which is read once.
        origin: Its name, for messages.

    Raises:
        InvalidInputError: It is nested more than `NESTING_MAX` deep.
    """
    depth = 0
    with open_input() as stream:
        for brackets in _structure(_chunks(stream)):
            steps = np.where(np.frombuffer(brackets, np.uint8) == _OPENING, 1, -1)
            depths = depth + np.cumsum(steps)
            if depths.max() > NESTING_MAX:
                raise errors.InvalidInputError(
                    f"{origin}: JSON is nested more than {NESTING_MAX} levels deep, expected one "
                    "flat object a line"
                )
            depth = int(depths[-1])


def check_quotes(open_input: Open, delimiter: str, origin: str) -> None:
    """Refuse CSV whose last value has no closing quote.

    Only an odd number of quotes is looked into, so that a stray quote elsewhere hides it.

    Args:
        open_input: Opens the input. With an odd number of quotes it is read twice, and held in
            memory the second time.
        delimiter: One character.
        origin: The input's name, for messages.

    Raises:
        InvalidInputError: The input ends inside quotes; the message shows where they open.
    """
    with open_input() as stream:
        if sum(chunk.count(_QUOTE) for chunk in _chunks(stream)) % 2 == 0:
            return
    with open_input() as stream:
        data = b"".join(_chunks(stream))
    matched = _whole_fields(delimiter).match(data)
    assert matched is not None  # It may be empty.
    end = matched.end()
    if end < len(data):
        line = data.count(b"\n", 0, end) + 1
        raise errors.InvalidInputError(
            f"{origin}: the quotes that open in line {line} are not closed, expected a closing "
            "quote: the file may be cut off"
        )


def _structure(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the brackets of JSON that are in no text, all of them as braces."""
    left = b""
    for chunk in chunks:
        # What is left of a chunk is the quote of an open text, or the half of an escape.
        data = left + chunk
        cut = b""
        if b"\\" in data:
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
            if data.endswith(b"\\"):
                cut, data = b"\\", data[:-1]
        # Of a text without brackets two quotes are left, which are gone at once.
        braces = data.translate(_AS_BRACES, delete=_NO_STRUCTURE).replace(b'""', b"")
        inner, quote, _ = _TEXT.sub(b"", braces).partition(_QUOTE)
        left = quote + cut
        if inner:
            yield inner


def _whole_fields(delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern of fields that end; it matches all that comes before open quotes."""
    ends = re.escape(delimiter.encode()) + rb"\r\n"
    field = rb'(?:"(?:[^"]|"")*+"[^%b]*+|[^"%b][^%b]*+)?+' % (ends, ends, ends)
    return re.compile(rb"(?:%b[%b])*+(?:%b\Z)?" % (field, ends, field))


def _chunks(stream: BinaryIO | pa.NativeFile) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield bytes(chunk)
