"""Keys of which several file groups of a partition, or of a table, have a row.

A bucket says which file group a key is in. Where there is none, a plain insert does not ask, and of
two writers that insert one key at one time, one of them of Apache Hudi, both may be published
(`write.inserted_keys`). Writers change each of the rows from then on, and readers return them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import reading
from hoodie.model import files, schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedKeys:
    """Keys that are in several file groups.

    Attributes:
        count: How many.
        key: One of them.
        groups: The file groups that have it.
    """

    count: int
    key: str
    groups: tuple[files.FileGroupId, ...]


def among(
    reader: reading.SliceReader, engine: Engine, slices: Sequence[files.FileSlice]
) -> RepeatedKeys | None:
    """Return which keys are repeated; None for none. Holds all keys of the slices.

    Args:
        reader: Of the table.
        engine: Reads slices.
        slices: The newest of each file group of one partition, or with a global index of all; one
            that cannot be read is left out.
    """

    def keys_of(file_slice: files.FileSlice) -> pa.Array:
        try:
            found = reader.read(file_slice, [schemas.RECORD_KEY]).column(schemas.RECORD_KEY)
        except errors.HoodieError:
            return pa.array([], pa.large_string())
        return pc.unique(found).cast(pa.large_string()).drop_null()

    keys = list(engine.map(keys_of, list(slices)))
    every = pa.concat_arrays(keys)
    counted = pc.value_counts(every)
    repeated = counted.field("values").filter(pc.greater(counted.field("counts"), 1))
    if not len(repeated):
        return None
    places = np.flatnonzero(pc.equal(every, repeated[0]).to_numpy(zero_copy_only=False))
    ends = np.cumsum([len(each) for each in keys])
    holders = np.searchsorted(ends, places, side="right").tolist()
    return RepeatedKeys(
        count=len(repeated),
        key=repeated[0].as_py(),
        groups=tuple(slices[holder].group for holder in holders),
    )
