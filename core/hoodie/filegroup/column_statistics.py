"""Records of the metadata table about the values of columns.

Requests: the blocks of `column_stats` or `partition_stats` that the records of the columns are in.
What a filter leaves out by them: `data_skipping`.

Source: `HoodieMetadataPayload.java`, `ValueType.java` (1.2.0); format.md: Metadata table.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import column_ranges, metadata_table, ordering
from hoodie.format import metadata_avro, metadata_columns
from hoodie.format.metadata_avro import RecordType
from hoodie.model.file_statistics import (
    COLUMN_STATS,
    PARTITION_STATS,
)

SCHEMA = metadata_columns.SCHEMA.insert(0, pa.field("key", pa.binary()))
"""Records with their keys."""


def understood_columns(schema: pa.Schema) -> list[str]:
    """Return the columns of a table whose bounds are understood."""
    return [each.name for each in schema if column_ranges.is_understood(each.type)]


def read(
    partition: metadata_table.Partition,
    columns: Sequence[str],
    paths: Sequence[str | None],
) -> pa.Table:
    """Return the records of the partition `column_stats` that can be relied on, a row for each key.

    Others are those of deleted files, and of keys with two records that differ.

    Args:
        partition: The partition.
        columns: Of the data table.
        paths: Partitions of the data table; None among them for all.

    Returns:
        A table of SCHEMA.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    prefixes = [metadata_avro.statistics_prefix(name, path) for name in columns for path in paths]
    return _of_one_record(_records(partition, prefixes, RecordType.COLUMN_STATS))


def of_expression(
    partition: metadata_table.Partition, column: str, paths: Sequence[str]
) -> pa.Table:
    """Return the records of files in an expression index; as `read`.

    Args:
        partition: The index.
        column: The one that it is of.
        paths: Partitions of the data table.
    """
    # Not of all at once: records of partitions of the data table are of another type.
    prefixes = [metadata_avro.statistics_prefix(column, path) for path in paths]
    return _of_one_record(_records(partition, prefixes, RecordType.COLUMN_STATS))


def _of_one_record(found: pa.Table) -> pa.Table:
    """Return a row for each key, of those whose records do not differ."""
    keys = found.column("key").combine_chunks().dictionary_encode()
    if len(keys.dictionary) == len(keys):
        return found
    codes = keys.indices.to_numpy()
    _, firsts = np.unique(codes, return_index=True)
    of_first = firsts[codes]
    differs = np.zeros(len(codes), np.bool_)
    for column in found.drop_columns("key").itercolumns():
        array = column.combine_chunks()
        first = array.take(pa.array(of_first))
        is_same = pc.or_(
            pc.fill_null(pc.equal(array, first), False),
            pc.and_(array.is_null(), first.is_null()),
        )
        differs |= ~ordering.flags(is_same)
    is_differing = np.bincount(codes[differs], minlength=len(firsts)) > 0
    return found.take(pa.array(firsts[~is_differing]))


def of_partitions(partition: metadata_table.Partition, columns: Sequence[str]) -> pa.Table:
    """Return all records of the partition `partition_stats`; several of a key were not merged.

    Arguments, result and errors are those of `read`.
    """
    prefixes = [metadata_avro.statistics_prefix(name) for name in columns]
    return _records(partition, prefixes, RecordType.PARTITION_STATS)


def _records(
    partition: metadata_table.Partition, prefixes: Sequence[str], record_type: RecordType
) -> pa.Table:
    """Return the records of some prefixes that are not deleted, in the order of merging."""
    pieces = [SCHEMA.empty_table()]
    name = PARTITION_STATS if record_type is RecordType.PARTITION_STATS else COLUMN_STATS
    for batch, schema in partition.batches_with_prefixes(prefixes):
        try:
            decoded = metadata_columns.decode(batch.column("value"), schema, record_type)
        except errors.FormatError as error:
            raise errors.FormatError(f"{name}: {error}") from error
        pieces.append(pa.table([batch.column("key"), *decoded.columns], SCHEMA))
    return _without_deleted(pa.concat_tables(pieces).combine_chunks())


def _without_deleted(records: pa.Table) -> pa.Table:
    """Return the records behind the last one of their key that says that it is deleted."""
    is_deleted = ordering.flags(records.column("isDeleted").combine_chunks())
    if not is_deleted.any():
        return records
    codes = records.column("key").combine_chunks().dictionary_encode().indices.to_numpy()
    last = np.full(codes.max() + 1, -1)
    np.maximum.at(last, codes[is_deleted], np.flatnonzero(is_deleted))
    return records.filter(pa.array(np.arange(len(codes)) > last[codes]))
