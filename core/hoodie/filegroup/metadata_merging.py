"""Merging the records of a metadata table (MDT) of one key, and of a file group.

Source: `HoodieMetadataPayload.java` (combine); format.md: Metadata table.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro, metadata_schemas
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import (
    expression_indexes,
    file_statistics,
    key_changes,
    partition_statistics,
    secondary_indexes,
)
from hoodie.model.file_statistics import ColumnStatistics

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])

Merge: TypeAlias = Callable[[bytes, Sequence[Value]], bytes | None]
"""Merges the records of a key, in the order of merging; None where nothing is left."""


def merged_files(key: bytes, values: Sequence[Value]) -> bytes | None:
    """Return the record of the partition `files` that records of one key come to; in a base file.

    Everything that came before is among them, so nothing is left of what was deleted.

    Raises:
        FormatError: One is broken, or of another partition.
    """
    is_partitions = key == metadata_avro.ALL_PARTITIONS.encode()
    sizes = metadata_avro.merged_sizes(values, f"{metadata_table.FILES}, key {key!r}")
    return metadata_avro.encode_sizes(
        sizes, RecordType.PARTITIONS if is_partitions else RecordType.FILES
    )


def newest_statistics(key: bytes, values: Sequence[Value]) -> bytes | None:
    """Return the record of the partition `column_stats` that counts; None of a deleted file.

    Raises:
        FormatError: It is broken, or of another partition.
    """
    source = f"{file_statistics.COLUMN_STATS}, key {key!r}"
    found = metadata_avro.decode_statistics(values[-1], source, RecordType.COLUMN_STATS)
    if found is None:
        return None
    return metadata_avro.encode_statistics(found, RecordType.COLUMN_STATS)


def merged_statistics(key: bytes, values: Sequence[Value]) -> bytes | None:
    """Return the record of the partition `partition_stats` that records of one key come to.

    Raises:
        FormatError: One is broken, or of another partition.
        UnsupportedError: Their bounds have no order together.
    """
    merged = statistics_of_partition(key, values)
    if merged is None:
        return None
    return metadata_avro.encode_statistics(merged, RecordType.PARTITION_STATS)


def statistics_of_partition(key: bytes, values: Sequence[Value]) -> ColumnStatistics | None:
    """Return what `merged_statistics` has in it."""
    source = f"{file_statistics.PARTITION_STATS}, key {key!r}"
    merged: ColumnStatistics | None = None
    for value in values:
        found = metadata_avro.decode_statistics(value, source, RecordType.PARTITION_STATS)
        if found is None or merged is None:
            merged = found
        else:
            merged = partition_statistics.merged(merged, found)
    return merged


def hides(key: bytes, later: Sequence[Value], added: bytes) -> bool:
    """Return whether records of `partition_stats` that are merged after one exclude what it has.

    Args:
        key: The key of all.
        later: In the order of merging.
        added: The record that a commit adds.

    Raises:
        FormatError: One is broken, or of another partition.
    """
    if not any(_is_tight(key, each) for each in later):
        return False
    stated = statistics_of_partition(key, later)
    there = statistics_of_partition(key, [Value(added, metadata_schemas.RECORD.text)])
    assert there is not None
    return stated is None or partition_statistics.excludes_rows(stated, there)


def _is_tight(key: bytes, value: Value) -> bool:
    source = f"{file_statistics.PARTITION_STATS}, key {key!r}"
    found = metadata_avro.decode_statistics(value, source, RecordType.PARTITION_STATS)
    return found is None or found.is_tight


def continued_statistics(key: bytes, values: Sequence[Value], added: bytes) -> bytes:
    """Return a record of `partition_stats` that Apache Hudi's readers can merge with older ones.

    Args:
        key: The key of all.
        values: The older ones, in the order of merging.
        added: The record that a commit adds.

    Raises:
        FormatError: One is broken, or of another partition.
        UnsupportedError: Their bounds have no order together.
    """
    older = statistics_of_partition(key, values)
    newer = statistics_of_partition(key, [Value(added, metadata_schemas.RECORD.text)])
    assert newer is not None
    if older is None:
        return added
    found = partition_statistics.continued(older, newer)
    return metadata_avro.encode_statistics(found, RecordType.PARTITION_STATS)


def newest_bloom_filter(key: bytes, values: Sequence[Value]) -> bytes | None:
    """Return the record of the partition `bloom_filters` that counts; None of a deleted file.

    Raises:
        FormatError: It is broken, or of another partition.
    """
    source = f"{file_statistics.BLOOM_FILTERS}, key {key!r}"
    newest = values[-1]
    if metadata_avro.decode_bloom_filter(newest, source) is None:
        return None
    if metadata_schemas.is_current(newest.schema):
        return newest.content
    return metadata_avro.recoded(newest, source)


def merged_expressions(key: bytes, values: Sequence[Value]) -> bytes | None:
    """Return the record of an expression index that counts; of a partition what they come to.

    None of a deleted file. A record of bloom filters is the newest one.

    Raises:
        FormatError: One is broken, or of another partition.
        UnsupportedError: Their bounds have no order together.
    """
    if metadata_avro.is_of_partition(key):
        return merged_statistics(key, values)
    found = metadata_avro.type_of(values[-1], f"an expression index, key {key!r}")
    is_filter = found == RecordType.BLOOM_FILTER.value
    return (newest_bloom_filter if is_filter else newest_statistics)(key, values)


_MERGES = {
    metadata_table.FILES: merged_files,
    file_statistics.COLUMN_STATS: newest_statistics,
    file_statistics.PARTITION_STATS: merged_statistics,
    file_statistics.BLOOM_FILTERS: newest_bloom_filter,
}


def _merge_of(name: str) -> Merge:
    return merged_expressions if expression_indexes.is_one(name) else _MERGES[name]


def merged(name: str, partition: metadata_table.Partition) -> pa.Table:
    """Return all records of a partition, or of a part of it, by key, as a base file has them.

    Args:
        name: The partition's.
        partition: Some of its file groups.

    Returns:
        A table of `SCHEMA`, ascending by key.

    Raises:
        FormatError: A record is broken.
        UnsupportedError: A record has something that is not read.
    """
    if name == key_changes.RECORD_INDEX or secondary_indexes.is_one(name):
        return newest(partition)
    merge = _merge_of(name)
    logged = partition.logged()
    touched = pa.array(sorted({*logged, *partition.deleted}), pa.binary())
    pieces: list[pa.Table] = []
    earlier: dict[bytes, list[Value]] = {}
    for batch, schema in partition.base_batches():
        is_touched = pc.is_in(batch.column("key"), value_set=touched)
        for key, value in _pairs(batch.filter(is_touched)):
            if key not in partition.deleted:
                earlier[key] = [Value(value, schema)]
        kept = batch.filter(pc.invert(is_touched))
        pieces.append(_as_written_now(kept, schema))
    changed = {key: merge(key, [*earlier.get(key, ()), *values]) for key, values in logged.items()}
    pieces.append(_present(changed))
    return pa.concat_tables(pieces).sort_by("key")


def merged_in_pieces(name: str, partition: metadata_table.Partition) -> Iterator[pa.Table]:
    """Yield the records of a file group of a partition, as `merged` returns them, in order.

    Bloom filters are so long that not all of them are in memory, nor in one array; an expression
    index may have some.

    Args:
        name: The partition's.
        partition: One file group of it, whose base file is not held.

    Raises:
        HoodieError: As of `merged`.
    """
    if name != file_statistics.BLOOM_FILTERS and not expression_indexes.is_one(name):
        yield merged(name, partition)
        return
    merge = _merge_of(name)
    logged = partition.logged()
    touched = pa.array(list({*logged, *partition.deleted}), pa.binary())
    waiting = sorted(logged, reverse=True)
    for batch, schema in partition.base_batches():
        last = batch.column("key")[-1].as_py()
        due = []
        while waiting and waiting[-1] <= last:
            due.append(waiting.pop())
        is_kept = pc.invert(pc.is_in(batch.column("key"), value_set=touched))
        kept = _as_written_now(batch.filter(is_kept), schema)
        earlier = {
            key: [Value(value, schema)]
            for key, value in _pairs(batch.filter(pc.is_in(batch.column("key"), value_set=touched)))
            if key not in partition.deleted
        }
        found = {key: merge(key, [*earlier.get(key, ()), *logged[key]]) for key in due}
        yield pa.concat_tables([kept, _present(found)]).sort_by("key")
    for key in reversed(waiting):
        yield _present({key: merge(key, logged[key])})


def _present(found: Mapping[bytes, bytes | None]) -> pa.Table:
    return _table({key: value for key, value in found.items() if value is not None})


def newest(partition: metadata_table.Partition, keys: pa.Array | None = None) -> pa.Table:
    """Return the records of a partition, or of a part of it, of which the newest of a key counts.

    All at once: as many as there are rows in the data table, of which few are different.

    Args:
        partition: Some of its file groups, whose base files are not held.
        keys: Of which records, binary; None for all.

    Returns:
        As `merged`.

    Raises:
        FormatError: A record is broken.
    """
    changes = [SCHEMA.empty_table()]
    for change in partition.log_changes():
        if change.values is None:
            nulls = pa.nulls(len(change.keys), pa.binary())
            changes.append(pa.table([change.keys, nulls], SCHEMA))
        else:
            batch = pa.record_batch([change.keys, change.values], SCHEMA)
            changes.append(_as_written_now(batch, change.schema))
    # All blocks at once: each `is_in` makes a hash table of the keys.
    changed = pa.concat_tables(changes)
    if keys is not None:
        changed = changed.filter(pc.is_in(changed.column("key"), value_set=keys))
    logged = last_of_each(changed)
    found = partition.base_batches() if keys is None else partition.base_lookup(keys)
    based = [_as_written_now(each, schema) for each, schema in found]
    base = pa.concat_tables([SCHEMA.empty_table(), *based])
    kept = base.filter(pc.invert(pc.is_in(base.column("key"), value_set=logged.column("key"))))
    present = logged.filter(pc.is_valid(logged.column("value")))
    return pa.concat_tables([kept, present]).sort_by("key")


def last_of_each(rows: pa.Table) -> pa.Table:
    """Return the last row of each `key`."""
    numbered = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by("key").aggregate([("row", "max")])
    return rows.take(last.column("row_max"))


def _as_written_now(batch: pa.RecordBatch | pa.Table, schema: bytes) -> pa.Table:
    """Return records as of the schema that base files are written with."""
    found = pa.table(batch.columns, SCHEMA)
    if metadata_schemas.is_current(schema):
        return found
    values = found.column("value").combine_chunks().dictionary_encode()
    recoded = [
        metadata_avro.recoded(Value(value, schema), "a record of another release")
        for value in values.dictionary.to_pylist()
    ]
    now = pa.DictionaryArray.from_arrays(values.indices, pa.array(recoded, pa.binary()))
    return pa.table([found.column("key"), now.cast(pa.binary())], SCHEMA)


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[bytes, bytes]]:
    return zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)


def table(records: Mapping[str, bytes]) -> pa.Table:
    """Return records by their keys as a table of `SCHEMA`, ascending by key."""
    # Arrow sorts a column of 2 GB at most.
    return _table({key.encode(): value for key, value in sorted(records.items())})


def _table(records: Mapping[bytes, bytes]) -> pa.Table:
    return pa.table({"key": list(records), "value": list(records.values())}, SCHEMA)
