"""A secondary index of a metadata table (MDT), read: which record keys have some values.

All pairs of a value are in one file group, and stand next to each other there; in an index of
version V1 they are in all file groups. Requests of a look-up: those of opening the file groups, and
one for the blocks that lie close together in each of their base files.

Source: `HoodieBackedTableMetadata.java` (readSecondaryIndexDataTableRecordKeysV2); format.md:
Metadata table.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import (
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    record_index,
)
from hoodie.format import secondary_keys
from hoodie.format.metadata_avro import Value
from hoodie.model import files, secondary_indexes

_VALUES_MAX = 10_000
"""Of more values an index is not asked."""

_KEYS_MAX = 100_000
"""Of more keys the record index is not asked: one of them is in every file slice."""


def record_keys(
    table: metadata_table.MetadataTable, definition: secondary_indexes.Definition, values: pa.Array
) -> pa.Array:
    """Return the record keys that have some values.

    Args:
        table: The MDT, which has the index.
        definition: The index.
        values: As texts, none of them null.

    Raises:
        FormatError: The partition is damaged, or not ready by that MDT.
        UnsupportedError: It has something that is not read.
    """
    slices = checked_slices(table, definition)
    prefixes = pc.unique(secondary_keys.prefixes(values))
    asked = slices
    if definition.is_hashed_by_value:
        places = np.unique(metadata_records.places(prefixes, len(slices)))
        asked = [slices[place] for place in places.tolist()]
    if not asked:
        return pa.array([], pa.string())
    found = table.of_slices(asked).batches_with_prefixes(prefixes.to_pylist())
    pieces = [_there(batch, schema, definition) for batch, schema in found]
    pairs = pa.concat_arrays([pa.array([], pa.binary()), *pieces])
    return pc.unique(secondary_keys.record_keys(pairs))


def may_hold(
    table: metadata_table.MetadataTable,
    definition: secondary_indexes.Definition,
    slices: Sequence[files.FileSlice],
    values: pa.Array,
) -> list[bool]:
    """Return for each file slice whether it may hold a row with one of some values.

    Args:
        table: The MDT, which has the index and a record index.
        definition: The index.
        slices: Of any partitions of the data table.
        values: As texts, none of them null.

    Raises:
        FormatError: A partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    if len(values) > _VALUES_MAX:
        return [True] * len(slices)
    keys = record_keys(table, definition, values)
    if len(keys) > _KEYS_MAX:
        return [True] * len(slices)
    if not len(keys):
        return [False] * len(slices)
    return record_index.may_hold(table, slices, keys)


def pairs(
    table: metadata_table.MetadataTable, definition: secondary_indexes.Definition
) -> pa.Array:
    """Return all pairs of an index, as they are stored, in order; as `record_keys`."""
    return pairs_in(table, checked_slices(table, definition))


def pairs_in(table: metadata_table.MetadataTable, slices: Sequence[files.FileSlice]) -> pa.Array:
    """Return the pairs in some of an index's file groups; as `pairs`."""
    found = metadata_merging.newest(table.of_slices(slices))
    return found.column("key").combine_chunks().cast(pa.string())


def held(
    table: metadata_table.MetadataTable, definition: secondary_indexes.Definition, wanted: pa.Array
) -> pa.Array:
    """Return which of some pairs an index has.

    Args:
        table: The MDT, which has the index.
        definition: The index.
        wanted: As they are stored.

    Raises:
        FormatError: The partition is damaged, or not ready by that MDT.
    """
    slices = checked_slices(table, definition)
    if not len(wanted):
        return wanted
    hashed = secondary_keys.prefixes_of(wanted) if definition.is_hashed_by_value else wanted
    places = metadata_records.places(hashed, len(slices))
    found = [metadata_merging.SCHEMA.empty_table()]
    for place in np.unique(places).tolist():
        own = wanted.filter(pa.array(places == place)).cast(pa.binary())
        found.append(metadata_merging.newest(table.of_slices([slices[place]]), own))
    return pa.concat_tables(found).column("key").combine_chunks().cast(pa.string())


def checked_slices(
    table: metadata_table.MetadataTable, definition: secondary_indexes.Definition
) -> Sequence[files.FileSlice]:
    """Return the newest slices of an index's file groups, by file id.

    Raises:
        FormatError: Some are missing, or it is not ready by that MDT.
    """
    name = definition.partition
    slices = table.latest_slices(name)
    ids = [each.group.file_id for each in slices]
    if ids != [metadata_table.file_id(name, number) for number in range(len(ids))] or not ids:
        raise errors.FormatError(
            f"{name} of {table.data_storage.uri} has the file groups {', '.join(ids[:3]) or '-'}, "
            f"expected {metadata_table.file_id(name, 0)} and those that follow"
        )
    # What writers log in an index that is being built counts before: of their rows alone.
    if not all(map(metadata_writing.is_made, slices)):
        raise errors.FormatError(
            f"{name} of {table.data_storage.uri} is being built, or was dropped: expected one that "
            "is ready"
        )
    table.check_is_not_rolled_back(name)
    return slices


def _there(
    batch: pa.RecordBatch, schema: bytes, definition: secondary_indexes.Definition
) -> pa.Array:
    """Return the keys of records, but of those that say that their pair is gone."""
    encoded = batch.column("value").dictionary_encode()
    is_gone = [
        secondary_keys.is_deleted(Value(content, schema), definition.partition)
        for content in encoded.dictionary.to_pylist()
    ]
    if not any(is_gone):
        return batch.column("key")
    return batch.column("key").filter(pc.invert(pa.array(is_gone).take(encoded.indices)))
