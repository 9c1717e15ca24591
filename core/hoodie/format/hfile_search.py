"""Which blocks of an HFile may hold the keys that are asked for.

HBase and Apache Hudi compare keys by their bytes. But Apache Hudi sorts what it writes as Java
sorts strings, by UTF-16. The two orders differ where a character above U+FFFF meets one from U+E000
to U+FFFF, and in such a file Apache Hudi 1.2.0 does not find all keys. We do: keys that the orders
may place differently are looked for by both.

Source: `HFileUtils.java` (compareKeys); sorting: `HoodieAppendHandle.java`,
`HoodieSortedMergeHandle.java`.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence

Search = Callable[[Sequence[bytes]], set[int]]
"""From the first keys of blocks in a row to the indexes of those that may hold what is wanted."""

_AMBIGUOUS_BYTE = 0xEE
"""A byte of UTF-8 from here on begins a character from U+E000."""


_Span = tuple[bytes, bytes | None]


def points(keys: Sequence[bytes]) -> Search:
    """Return the search for some keys, which are in the order of their bytes."""
    ambiguous = [key for key in keys if _is_ambiguous(key)]
    by_code_unit = sorted(map(_utf_16, ambiguous))

    def search(first_keys: Sequence[bytes]) -> set[int]:
        found = _cut(keys, first_keys)
        return found | _cut(by_code_unit, list(map(_utf_16, first_keys))) if ambiguous else found

    return search


def prefixes(wanted: Iterable[bytes]) -> Search:
    """Return the search for keys that begin with any of some texts."""
    wanted = list(wanted)
    by_byte = [(prefix, _successor(prefix)) for prefix in wanted]
    ambiguous = [_utf_16(prefix) for prefix in wanted if _is_ambiguous(prefix)]
    by_code_unit = [(prefix, _successor(prefix)) for prefix in ambiguous]

    def search(first_keys: Sequence[bytes]) -> set[int]:
        found = _within(by_byte, first_keys)
        return found | _within(by_code_unit, list(map(_utf_16, first_keys)))

    return search


def span(low: bytes, high: bytes | None) -> Search:
    """Return the search for keys from one on and below another, None being no bound."""
    return lambda first_keys: _within([(low, high)], first_keys)


def everything(first_keys: Sequence[bytes]) -> set[int]:
    """Search for all keys."""
    return set(range(len(first_keys)))


def _cut(keys: Sequence[bytes], first_keys: Sequence[bytes]) -> set[int]:
    # Blocks are looked for in the keys, not keys in the blocks: there are fewer.
    cuts = [0, *(bisect.bisect_left(keys, key) for key in first_keys[1:]), len(keys)]
    return {index for index in range(len(first_keys)) if cuts[index] < cuts[index + 1]}


def _within(spans: Iterable[_Span], first_keys: Sequence[bytes]) -> set[int]:
    found: set[int] = set()
    for low, high in spans:
        begin = max(bisect.bisect_right(first_keys, low) - 1, 0)
        end = len(first_keys) if high is None else bisect.bisect_left(first_keys, high)
        found.update(range(begin, end))
    return found


def _is_ambiguous(key: bytes) -> bool:
    return max(key, default=0) >= _AMBIGUOUS_BYTE


def _utf_16(key: bytes) -> bytes:
    return key.decode("utf-8", "replace").encode("utf-16-be")


def _successor(prefix: bytes) -> bytes | None:
    """Return what is above all that begins with a prefix, or None if there is no bound."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None
