"""Records of a metadata table's `partition_stats` beside those that are there already.

So are those of partitions in an expression index, whose function always makes the same type.

Records of one key are merged in the order of their requested times, and a tight one replaces all
before it. Two rules follow:

    types   Apache Hudi's readers, and its compaction of the metadata table, fail at a record that
            is not tight and of another type than the one before: its column was widened. There the
            older record is read, and both are written merged, tight, of the wider type.
    hidden  A write whose records come before a tight one that excludes its rows is refused: that of
            a write which was requested later and completed first. It has to be written again.

Types may differ if a column has not the type that the table was created with, in what the commit
publishes or in its statistics, or was added later, or if the properties do not say with which
columns the table was created. What a commit publishes shows what others have widened since it began
(`write.schema_conflicts`). A compaction publishes nothing, and looks at all numbers; its values are
in older records, so that it may be hidden.

Requests: none where no column was widened and no write was requested later. Else a listing of the
metadata table's timeline and one of the partition, a read of each log file in it, and for types one
to three of its base file. Source: format.md: Metadata table.
"""

from collections.abc import Mapping

import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import metadata_merging, metadata_records, metadata_table
from hoodie.format import metadata_avro
from hoodie.model import expression_indexes, file_statistics, instants, schemas, table_config
from hoodie.transaction import table_lock
from hoodie.transaction.client import Client, OpenAction

_NAME = file_statistics.PARTITION_STATS


def _of_partitions(records: metadata_records.Records) -> dict[str, Mapping[str, bytes]]:
    """Return the records of partitions of the data table, by partition of the metadata table."""
    found = {name: records[name] for name in records if name == _NAME}
    for name in filter(expression_indexes.is_one, records):
        found[name] = {
            key: value
            for key, value in records[name].items()
            if metadata_avro.is_of_partition(key.encode())
        }
    return found


def fitted(
    client: Client,
    scope: table_lock.LockScope,
    opened: OpenAction,
    changes: metadata_records.Changes,
    records: metadata_records.Records,
) -> metadata_records.Records:
    """Return the records of a change, merged with older ones of other types.

    Args:
        client: Whose change it is; of a table with a metadata table.
        scope: Which completes the action.
        opened: The action.
        changes: What it did.
        records: What that adds to the metadata table.

    Raises:
        FormatError: The metadata table is damaged.
        UnsupportedError: An older record has bounds that have no order together with the new ones.
        WriteConflictError: A write that was requested later hides the records.
    """
    config = opened.config
    # While they are built there is no older one; their builder merges them.
    ready = {*config.metadata_partitions, *config.metadata_partitions_own}
    by_name = {
        name: added for name, added in _of_partitions(records).items() if added and name in ready
    }
    if not by_name:
        return records
    added = by_name.get(_NAME, {})
    published = None if changes.published is None else schemas.from_avro(changes.published).arrow
    # A file without rows adds no record.
    doubtful = added.keys() & metadata_records.doubtful_keys(
        changes, published, _created(opened.config)
    )
    may_be_hidden = opened.action is not instants.Action.COMPACTION and _has_later(scope, opened)
    if not doubtful and not may_be_hidden:
        return records
    table = metadata_table.MetadataTable(client.storage, scope.timeline)
    if may_be_hidden:
        for name, of_partitions in by_name.items():
            _refuse_hidden(client, opened, table, name, of_partitions)
    if not doubtful:
        return records
    older = table.partition(_NAME, is_held=False).with_prefixes(sorted(doubtful))
    merged = {
        key: metadata_merging.continued_statistics(
            key.encode(), older.get(key.encode(), ()), added[key]
        )
        for key in doubtful
    }
    return {**records, _NAME: {**added, **merged}}


def _has_later(scope: table_lock.LockScope, opened: OpenAction) -> bool:
    """Return whether the metadata table has a delta commit that was requested later."""
    assert scope.beside is not None, opened.requested
    return any(
        each.requested_time > opened.requested_time and each.action is instants.Action.DELTA_COMMIT
        for each in scope.beside.completed_writes
    )


def _refuse_hidden(
    client: Client,
    opened: OpenAction,
    table: metadata_table.MetadataTable,
    name: str,
    added: Mapping[str, bytes],
) -> None:
    slices = table.latest_slices(name)
    later = table.logs_of(slices, lambda time: time > opened.requested_time)
    found = later.with_prefixes(sorted(added))
    if any(
        metadata_merging.hides(key, values, added[key.decode()]) for key, values in found.items()
    ):
        raise errors.WriteConflictError(
            f"{opened.inflight} was requested before another write of the same partition of "
            f"{client.storage.uri}, whose statistics of all files there would hide these rows from "
            "Apache Hudi's readers: write the batch again"
        )


def _created(config: table_config.TableConfig) -> pa.Schema | None:
    text = config.create_schema
    return None if text is None else schemas.from_avro(text).arrow
