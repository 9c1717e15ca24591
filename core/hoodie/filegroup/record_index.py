"""The partition `record_index` of a metadata table (MDT): in which file group each key's row is.

It holds a key once, whatever the partition of the data table. The newest record of a key counts,
in log order. Large batches of keys are looked up at once, as Arrow.

Requests of a look-up: those of opening the file groups that the keys belong to, and one for the
blocks that lie close together in each of their base files. Source: `HoodieBackedTableMetadata.java`
(readRecordIndex), `HoodieMetadataPayload.java`; format.md: Metadata table.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import metadata_merging, metadata_records, metadata_table
from hoodie.format import metadata_schemas, record_locations
from hoodie.format.metadata_avro import Value
from hoodie.model import files, instants, key_changes

NOWHERE = -1
"""In place of a file group's number: a key without record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Where some keys are.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What some instants logged.

    Attributes:
        locations: Where they say that keys are; NOWHERE those whose record they removed.
        times: The requested time of the last that has each of the keys.
    """

    locations: Locations
    times: pa.Array


def locations(table: metadata_table.MetadataTable, keys: pa.Array) -> Locations:
    """Return where keys are.

    Args:
        table: The MDT, which has the partition.
        keys: Texts.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    keys = pc.unique(keys)
    slices = table.latest_slices(key_changes.RECORD_INDEX)
    _check_is_global([each.group for each in slices])
    places = np.unique(metadata_records.places(keys, len(slices)))
    if not len(places):
        return Locations(keys=keys, numbers=np.empty(0, np.int64), groups=())
    partition = table.of_slices([slices[place] for place in places])
    found = metadata_merging.newest(partition, keys.cast(pa.binary()))
    return _decoded(keys, found.column("key"), found.column("value"))


def may_hold(
    table: metadata_table.MetadataTable, slices: Sequence[files.FileSlice], keys: pa.Array
) -> list[bool]:
    """Return for each file slice whether it may hold one of some keys; as `locations`."""
    located = locations(table, keys)
    wanted = {located.groups[number] for number in located.numbers if number != NOWHERE}
    return [each.group in wanted for each in slices]


def _check_is_global(groups: Sequence[files.FileGroupId]) -> None:
    """Refuse an index of each partition, whose file groups are named after them; also a part."""
    expected = [metadata_table.file_id(key_changes.RECORD_INDEX, n) for n in range(len(groups))]
    found = [each.file_id for each in groups]
    if not found:
        raise errors.FormatError("the metadata table has a record index without file groups")
    if found != expected:
        raise errors.UnsupportedError(
            f"a record index with the file groups {', '.join(found[:3])}, expected "
            f"{metadata_table.file_id(key_changes.RECORD_INDEX, 0)} and those that follow"
        )


def logged_by(
    table: metadata_table.MetadataTable,
    times: Collection[instants.InstantTime],
    keys: pa.Array,
) -> Logged:
    """Return what instants logged of some keys and no compaction of the MDT has merged.

    Args:
        table: The MDT, which has the partition.
        times: Their requested times.
        keys: Texts.

    Raises:
        FormatError: The partition is damaged.
    """
    wanted = pc.unique(keys).cast(pa.binary())
    partition = table.logs_of(key_changes.RECORD_INDEX, lambda time: time in times)
    pieces = [_SCHEMA.empty_table()]
    for change in partition.log_changes():
        values = change.values if change.values is not None else pa.nulls(len(change.keys))
        piece = pa.table(
            [change.keys, values, pa.repeat(change.instant_time, len(change.keys))], _SCHEMA
        )
        pieces.append(piece.filter(pc.is_in(piece.column("key"), value_set=wanted)))
    last = metadata_merging.last_of_each(pa.concat_tables(pieces))
    found = last.column("key").combine_chunks().cast(pa.string())
    return Logged(
        locations=_decoded(found, last.column("key"), last.column("value")),
        times=last.column("time").combine_chunks(),
    )


_SCHEMA = pa.schema([*metadata_merging.SCHEMA, ("time", pa.string())])


def _decoded(keys: pa.Array, found: pa.ChunkedArray, values: pa.ChunkedArray) -> Locations:
    """Return the file groups that records name; each different one is decoded once."""
    encoded = values.combine_chunks().dictionary_encode()
    groups = [
        record_locations.decode(
            Value(content, metadata_schemas.RECORD.text), key_changes.RECORD_INDEX
        )
        for content in encoded.dictionary.to_pylist()
    ]
    numbers = encoded.indices.fill_null(NOWHERE).cast(pa.int64()).to_numpy(zero_copy_only=False)
    places = pc.index_in(keys.cast(pa.binary()), value_set=found).fill_null(NOWHERE)
    return Locations(
        keys=keys, numbers=np.append(numbers, NOWHERE)[places.to_numpy()], groups=groups
    )
