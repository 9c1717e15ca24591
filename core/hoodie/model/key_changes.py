"""What a write does to the keys of a file group, whose file groups a record index has.

An index may name the file group of a key that has no row any more: a look-up there finds nothing.
It must name that of each key that has one. So a key counts as added wherever it may have been, and
as removed only where that is certain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.model import files, instants

RECORD_INDEX = "record_index"
"""The partition of a metadata table that says in which file group the row of each key is."""


def _none() -> pa.Array:
    # Of a list it would import pandas, to see whether that is a series.
    return pa.nulls(0, pa.string())


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


def joined(changes: Sequence[KeyChanges]) -> KeyChanges:
    """Return changes of different keys as one."""
    if len(changes) == 1:
        return changes[0]
    return KeyChanges(
        added=pa.concat_arrays([_none(), *(each.added for each in changes)]),
        removed=pa.concat_arrays([_none(), *(each.removed for each in changes)]),
    )


NOWHERE = -1
"""In place of a file group's number: a key without record in the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Where an index has some keys.

    Attributes:
        keys: Each once; texts.
        numbers: For each the number of its file group, or NOWHERE.
        groups: The file groups by number.
    """

    keys: pa.Array
    numbers: npt.NDArray[np.int64]
    groups: Sequence[files.FileGroupId]

    def of(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the number of the file group of each of other keys; NOWHERE for unknown ones."""
        places = pc.index_in(keys, value_set=self.keys).fill_null(NOWHERE).to_numpy()
        found = np.append(self.numbers, NOWHERE)[places]
        return np.asarray(found, np.int64)

    def and_those_of(self, others: "Locations") -> "Locations":
        """Return these and where other keys are."""
        shifted = np.where(others.numbers == NOWHERE, NOWHERE, others.numbers + len(self.groups))
        return Locations(
            keys=pa.concat_arrays([self.keys, others.keys]),
            numbers=np.concatenate([self.numbers, shifted]),
            groups=(*self.groups, *others.groups),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """Where a record index had keys when a write, that had begun, looked them up.

    Attributes:
        key_space: The partition of the table in which a key is once; None for all of it.
        locations: Of the keys.
        bases: When the newest slice of each of the index's file groups began.
    """

    key_space: str | None
    locations: Locations
    bases: Mapping[str, instants.InstantTime]
