"""Base files of `partition_stats` that have what was logged since they were made.

Records of a partition of the data table are merged, and Apache Hudi's readers fail where two of
them are of different types, as after a column was widened. So a build whose columns may have grown
writes its base file anew when it is published, with all that was logged by then, at a time of its
own: what was logged before that belongs to an earlier slice, which no reader asks for. Whatever
completes later reads the older record, which is there then (M-J).

Source: protocol.md: The metadata table, Indexes built beside writers (IB7).
"""

from collections.abc import Iterable, Mapping, Sequence

from hoodie.filegroup import metadata_merging, metadata_table, metadata_writing
from hoodie.format import hfile_reading, metadata_schemas
from hoodie.format.metadata_avro import Value
from hoodie.model import commits, file_statistics, instants
from hoodie.storage.protocol import Storage
from hoodie.transaction import table_lock
from hoodie.transaction.client import Client

Logged = Mapping[bytes, Sequence[Value]]
"""Records by key, in the order of merging."""


def with_logged(
    bases: Iterable[bytes],
    logged: Logged,
    now_ms: int,
    merge: metadata_merging.Merge = metadata_merging.merged_statistics,
) -> metadata_writing.PreparedBase | None:
    """Return a base file with what is in others, and was logged since; None without records.

    Args:
        bases: Contents of base files.
        logged: What was logged.
        now_ms: The time, in milliseconds since the epoch.
        merge: Merges the records of a key.

    Raises:
        FormatError: A record is broken.
        UnsupportedError: Bounds of one column have no order together.
    """
    found = {
        key: value
        for base in bases
        for batch in hfile_reading.Reader.over("a base file", base).scan()
        for key, value in zip(
            batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
        )
    }
    schema = metadata_schemas.RECORD.text
    for key, values in logged.items():
        older = [Value(found[key], schema)] if key in found else []
        merged = merge(key, [*older, *values])
        if merged is not None:
            found[key] = merged
        else:
            found.pop(key, None)
    records = metadata_merging.table({key.decode(): value for key, value in found.items()})
    return metadata_writing.prepare_base(records, now_ms) if found else None


def logged_since(client: Client, scope: table_lock.LockScope, time: instants.InstantTime) -> Logged:
    """Return what was logged in the partition by instants that completed after a time.

    Requests: two listings, and one for each log file.
    """
    table = metadata_table.MetadataTable(client.storage, scope.timeline)

    def is_wanted(each: instants.InstantTime) -> bool:
        completed = table.timeline.completion_time(each)
        return completed is not None and completed > time

    slices = table.latest_slices(file_statistics.PARTITION_STATS)
    return table.logs_of(slices, is_wanted).with_prefixes([""]) if slices else {}


def contents_of(storage: Storage, stats: Iterable[commits.WriteStat]) -> Sequence[bytes]:
    """Return the contents of the partition's base files among some; a read each."""
    return [
        storage.read(each.path)
        for each in stats
        if each.partition_path == file_statistics.PARTITION_STATS
    ]
