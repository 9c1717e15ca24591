"""Which blocks of an HFile may hold the keys that are asked for, and which entries have them.

HBase and Apache Hudi compare keys by their bytes. But Apache Hudi sorts what it writes as Java
sorts strings, by UTF-16. The two orders differ where a character above U+FFFF meets one from U+E000
to U+FFFF, and in such a file Apache Hudi 1.2.0 does not find all keys. We do: keys that the orders
may place differently are looked for by both.

Source: `HFileUtils.java` (compareKeys); sorting: `HoodieAppendHandle.java`,
`HoodieSortedMergeHandle.java`.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.format.hfile_entries import Entries, Places

_AMBIGUOUS_BYTE = 0xEE
"""A byte of UTF-8 from here on begins a character from U+E000."""
_ENTRIES_PER_COMPARISON = 16
"""Comparing with one key takes as long as hashing this many."""

_Bounds = tuple[bytes, bytes | None]


class Wanted(Protocol):
    """What is asked for."""

    def blocks(self, first_keys: Sequence[bytes]) -> set[int]:
        """Return which of some blocks in a row may hold it, by their first keys."""
        ...

    def rows(self, entries: Entries) -> Places:
        """Return which entries of such a block are it, ascending. A block has some."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Some keys.

    Attributes:
        plain: Those that all orders place alike, in the order of their bytes.
        ambiguous: The others, likewise.
    """

    plain: Sequence[bytes]
    ambiguous: Sequence[bytes]

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> "Keys":
        """Return keys, sorted and each once."""
        ordered = sorted(set(keys))
        if not _is_ambiguous(b"".join(ordered)):
            return cls(plain=ordered, ambiguous=())
        return cls(
            plain=[key for key in ordered if not _is_ambiguous(key)],
            ambiguous=[key for key in ordered if _is_ambiguous(key)],
        )

    def blocks(self, first_keys: Sequence[bytes]) -> set[int]:
        """Search for these keys."""
        found = _cut(self.plain, first_keys)
        if self.ambiguous:
            found |= _cut(self.ambiguous, first_keys)
            found |= _cut(sorted(map(_utf_16, self.ambiguous)), list(map(_utf_16, first_keys)))
        return found

    def rows(self, entries: Entries) -> Places:
        """Return which entries of a block have these keys."""
        if not self.ambiguous:
            begin = bisect.bisect_left(self.plain, entries.key(0))
            end = bisect.bisect_right(self.plain, entries.key(len(entries) - 1))
            wanted = self.plain[begin:end]
            compared = len(wanted) * len(entries).bit_length()
            if compared < len(entries) // _ENTRIES_PER_COMPARISON:
                return np.array([row for key in wanted for row in _equal(entries, key)], np.int64)
        else:
            wanted = [*self.plain, *self.ambiguous]
        return np.flatnonzero(pc.is_in(entries.keys(), pa.array(wanted, pa.binary())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefixes:
    """What keys begin with; the attributes are as those of Keys."""

    plain: Sequence[bytes]
    ambiguous: Sequence[bytes]

    @classmethod
    def of(cls, prefixes: Iterable[bytes]) -> "Prefixes":
        """Return prefixes, each once."""
        keys = Keys.of(prefixes)
        return cls(plain=keys.plain, ambiguous=keys.ambiguous)

    def blocks(self, first_keys: Sequence[bytes]) -> set[int]:
        """Search for keys that begin with any of these."""
        found = _within(map(_span, (*self.plain, *self.ambiguous)), first_keys)
        if self.ambiguous:
            spans = (_span(_utf_16(prefix)) for prefix in self.ambiguous)
            found |= _within(spans, list(map(_utf_16, first_keys)))
        return found

    def rows(self, entries: Entries) -> Places:
        """Return which entries of a block have keys that begin with any of these."""
        found = [_rows_within(_span(prefix), entries) for prefix in self.plain]
        if self.ambiguous:
            keys = entries.keys()
            found += [np.flatnonzero(pc.starts_with(keys, prefix)) for prefix in self.ambiguous]
        return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """All keys from one on and below another, None being no bound."""

    low: bytes
    high: bytes | None

    def blocks(self, first_keys: Sequence[bytes]) -> set[int]:
        """Search for these keys."""
        return _within([(self.low, self.high)], first_keys)

    def rows(self, entries: Entries) -> Places:
        """Return which entries of a block have these keys."""
        return _rows_within((self.low, self.high), entries)


def _cut(keys: Sequence[bytes], first_keys: Sequence[bytes]) -> set[int]:
    # Blocks are looked for in the keys, not keys in the blocks: there are fewer.
    cuts = [0, *(bisect.bisect_left(keys, key) for key in first_keys[1:]), len(keys)]
    return {index for index in range(len(first_keys)) if cuts[index] < cuts[index + 1]}


def _within(spans: Iterable[_Bounds], first_keys: Sequence[bytes]) -> set[int]:
    found: set[int] = set()
    for low, high in spans:
        begin = max(bisect.bisect_right(first_keys, low) - 1, 0)
        end = len(first_keys) if high is None else bisect.bisect_left(first_keys, high)
        found.update(range(begin, end))
    return found


def _rows_within(bounds: _Bounds, entries: Entries) -> Places:
    low, high = bounds
    end = len(entries) if high is None else entries.place(high)
    return np.arange(entries.place(low), end, dtype=np.int64)


def _equal(entries: Entries, key: bytes) -> Iterator[int]:
    for row in range(entries.place(key), len(entries)):
        if entries.key(row) != key:
            return
        yield row


def _is_ambiguous(keys: bytes) -> bool:
    return int(np.frombuffer(keys, np.uint8).max(initial=0)) >= _AMBIGUOUS_BYTE


def _utf_16(key: bytes) -> bytes:
    return key.decode("utf-8", "replace").encode("utf-16-be")


def _span(prefix: bytes) -> _Bounds:
    """Return the bounds of all that begins with a prefix."""
    kept = prefix.rstrip(b"\xff")
    return prefix, kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
