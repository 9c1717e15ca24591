"""Merging the records of a metadata table (MDT) of one key, and of a file group.

Source: `HoodieMetadataPayload.java` (combine); format.md: Metadata table.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import metadata_table
from hoodie.format import metadata_avro, metadata_schemas
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import file_statistics, partition_statistics
from hoodie.model.file_statistics import ColumnStatistics

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


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
    source = f"{file_statistics.PARTITION_STATS}, key {key!r}"
    merged: ColumnStatistics | None = None
    for value in values:
        found = metadata_avro.decode_statistics(value, source, RecordType.PARTITION_STATS)
        if found is None or merged is None:
            merged = found
        else:
            merged = partition_statistics.merged(merged, found)
    if merged is None:
        return None
    return metadata_avro.encode_statistics(merged, RecordType.PARTITION_STATS)


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


_MERGES = {
    metadata_table.FILES: merged_files,
    file_statistics.COLUMN_STATS: newest_statistics,
    file_statistics.PARTITION_STATS: merged_statistics,
    file_statistics.BLOOM_FILTERS: newest_bloom_filter,
}


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
    changed = {
        key: _MERGES[name](key, [*earlier.get(key, ()), *values]) for key, values in logged.items()
    }
    pieces.append(_table({key: value for key, value in changed.items() if value is not None}))
    return pa.concat_tables(pieces).sort_by("key")


def merged_in_pieces(name: str, partition: metadata_table.Partition) -> Iterator[pa.Table]:
    """Yield the records of a file group of a partition, as `merged` returns them, in order.

    Bloom filters are so long that not all of them are in memory, nor in one array.

    Args:
        name: The partition's.
        partition: One file group of it, whose base file is not held.

    Raises:
        HoodieError: As of `merged`.
    """
    if name != file_statistics.BLOOM_FILTERS:
        yield merged(name, partition)
        return
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
        yield pa.concat_tables([kept, _newest(due, logged)]).sort_by("key")
    for key in reversed(waiting):
        yield _newest([key], logged)


def _newest(keys: Sequence[bytes], logged: Mapping[bytes, Sequence[Value]]) -> pa.Table:
    found = {key: newest_bloom_filter(key, logged[key]) for key in keys}
    return _table({key: value for key, value in found.items() if value is not None})


def _as_written_now(batch: pa.RecordBatch, schema: bytes) -> pa.Table:
    """Return records as of the schema that base files are written with."""
    if metadata_schemas.is_current(schema):
        return pa.table(batch.columns, SCHEMA)
    return _table(
        {
            key: metadata_avro.recoded(Value(value, schema), repr(key))
            for key, value in _pairs(batch)
        }
    )


def _pairs(batch: pa.RecordBatch) -> Iterator[tuple[bytes, bytes]]:
    return zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)


def table(records: Mapping[str, bytes]) -> pa.Table:
    """Return records by their keys as a table of `SCHEMA`, ascending by key."""
    # Arrow sorts a column of 2 GB at most.
    return _table({key.encode(): value for key, value in sorted(records.items())})


def _table(records: Mapping[bytes, bytes]) -> pa.Table:
    return pa.table({"key": list(records), "value": list(records.values())}, SCHEMA)
