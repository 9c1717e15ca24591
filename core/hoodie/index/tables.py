"""The index that a table has."""

from collections.abc import Callable

from hoodie.index import bucket, lookup, protocol
from hoodie.model import table_config


def index_of(
    config: table_config.TableConfig, counts: Callable[[], tuple[int, ...]] | None = None
) -> protocol.Index:
    """Return the index of a table.

    Args:
        config: The table's configuration. One without a number of buckets has an index for which
            every file group is foreign.
        counts: Returns all numbers of buckets that its partitions have, where some have their own
            (RFC-89); empty where that is not known. By default the configuration's number.
    """
    if config.looks_keys_up:
        return lookup.LookupIndex(config)
    return bucket.SimpleBucketIndex(config, counts)
