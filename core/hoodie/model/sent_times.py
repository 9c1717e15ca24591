"""Times of many writes as each task of a read is sent them: a fifth of their text.

Each task of a read gets the completion times of all writes. That is some 40 bytes for each write of
the timeline, and of a range of increments 20 more, for each task: of 5,000 writes and a
thousand tasks 200 MB. Most digits of a time are those of the one before, so that they are
compressed, once for all tasks that share them.
"""

import functools
import itertools
import zlib
from typing import Self

from hoodie.model import instants

_SEPARATOR = "\n"


class CompletionTimes(dict[instants.InstantTime, instants.InstantTime]):
    """When writes completed, by requested time; nothing is changed once it is made."""

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        """Pickle it compressed."""
        return type(self).unpacked, (_packed(tuple(itertools.chain.from_iterable(self.items()))),)

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Return what was pickled."""
        texts = [instants.InstantTime(each) for each in _unpacked(packed)]
        return cls(zip(texts[::2], texts[1::2], strict=True))


class Names(tuple[str, ...]):
    """Requested times as rows name their writes."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        """Pickle it compressed."""
        return type(self).unpacked, (_packed(tuple(self)),)

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Return what was pickled."""
        return cls(_unpacked(packed))


@functools.lru_cache(maxsize=4)
def _packed(texts: tuple[str, ...]) -> bytes:
    return zlib.compress(_SEPARATOR.join(texts).encode())


def _unpacked(packed: bytes) -> list[str]:
    text = zlib.decompress(packed).decode()
    return text.split(_SEPARATOR) if text else []
