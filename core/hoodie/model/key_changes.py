"""What a write does to the keys of a file group, whose file groups a record index has.

An index may name the file group of a key that has no row any more: a look-up there finds nothing.
It must name that of each key that has one. So a key counts as added wherever it may have been, and
as removed only where that is certain.
"""

from dataclasses import dataclass, field

import pyarrow as pa

RECORD_INDEX = "record_index"
"""The partition of a metadata table that says in which file group the row of each key is."""


def _none() -> pa.Array:
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """The record keys that a write put into a file group, or took out of it.

    Attributes:
        added: Keys of rows that the write put there, each once or more often; those that were there
            before may be among them.
        removed: Keys without a row there now, whatever other writes do. None of them is added.
    """

    added: pa.Array = field(default_factory=_none)
    removed: pa.Array = field(default_factory=_none)


NONE = KeyChanges()
