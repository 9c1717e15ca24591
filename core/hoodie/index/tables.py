"""The index that a table has, and what its writers leave out of a record index."""

from collections.abc import Callable

from hoodie import deferred
from hoodie.index import bucket, protocol
from hoodie.model import table_config

with deferred.imports():
    from hoodie.index import consistent_hashing, lookup


def index_of(
    config: table_config.TableConfig, counts: Callable[[], tuple[int, ...]] | None = None
) -> protocol.Index:
    """Return the index of a table.

    Args:
        config: The table's configuration. One without a number of buckets has an index for which
            every file group is foreign; so has one with consistent hashing, but each of its
            partitions has another (`partitions`).
        counts: Returns all numbers of buckets that its partitions have, where some have their own
            (RFC-89); empty where that is not known. By default the configuration's number.
    """
    if config.looks_keys_up:
        return lookup.LookupIndex(config)
    if config.index is table_config.IndexKind.CONSISTENT_HASHING:
        return consistent_hashing.ConsistentHashingIndex(config)
    return bucket.SimpleBucketIndex(config, counts)


def is_in_record_index(config: table_config.TableConfig, file_id: str) -> bool:
    """Return whether a record index, if the table has one, has every key of a file group.

    Apache Hudi's writers with a bucket index take each row for one that its bucket has already. So
    what they insert into log files, on merge-on-read tables, is not in the index, and compactions
    do not add it either (`RecordIndexMapper.java`; measured on 1.2.0).
    """
    is_shared = config.has_foreign_writers and not config.is_copy_on_write
    has_rings = config.index is table_config.IndexKind.CONSISTENT_HASHING
    return not (is_shared and (has_rings or bucket.is_bucket_file_id(file_id)))


def keeps_keys(config: table_config.TableConfig, file_id: str) -> bool:
    """Return whether a key of a file group is in no other one while that is there."""
    if config.index_kind is not table_config.IndexKind.BUCKET:
        return False
    return bucket.own_bucket(file_id, config.bucket_count) is not None
