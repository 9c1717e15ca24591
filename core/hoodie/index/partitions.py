"""The index of each partition of a table: partitions may have buckets of their own.

They do with bucket counts by partition (`timeline.partition_buckets`), and with consistent hashing,
which gives each a ring (`timeline.hash_rings`). Otherwise each has the table's index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hoodie import deferred
from hoodie.index import consistent_hashing, protocol, tables
from hoodie.model import instants, table_config
from hoodie.storage.protocol import Storage

with deferred.imports():
    from hoodie.timeline import hash_rings, partition_buckets


class PartitionIndexes:
    """The indexes of a table's partitions. A ring is read when its partition is first asked for."""

    def __init__(
        self,
        storage: Storage,
        config: table_config.TableConfig,
        hashing_config: partition_buckets.HashingConfig | None,
        is_committed: Callable[[instants.InstantTime], bool],
    ) -> None:
        """Take what decides.

        Args:
            storage: The table's.
            config: Its configuration.
            hashing_config: Bucket counts by partition; None for one count of all.
            is_committed: Whether the replace commit of a requested time has completed.
        """
        self._storage = storage
        self._config = config
        self._hashing_config = hashing_config
        self._is_committed = is_committed
        self._of_table = tables.index_of(config)
        self._found: dict[str, protocol.Index] = {}
        self._without_ring: set[str] = set()

    @property
    def are_all_alike(self) -> bool:
        """Whether the table's index is that of each partition."""
        return self._hashing_config is None and not self._has_rings

    def of(self, partition_path: str) -> protocol.Index:
        """Return the index of a partition.

        Raises:
            FormatError: What says its buckets is damaged.
            UnsupportedError: It is of a later version, or has expressions that are not understood.
        """
        if self.are_all_alike:
            return self._of_table
        if partition_path not in self._found:
            self._found[partition_path] = self._opened(partition_path)
        return self._found[partition_path]

    def begin(self, partition_path: str) -> None:
        """Create the ring of a partition that has none yet; nothing where there are no rings.

        Raises:
            FormatError, UnsupportedError: As `of`.
        """
        self.of(partition_path)
        if partition_path in self._without_ring:
            hash_rings.create(self._storage, partition_path, self._initial(partition_path))
            self._without_ring.remove(partition_path)

    @property
    def _has_rings(self) -> bool:
        return self._config.index is table_config.IndexKind.CONSISTENT_HASHING

    def _opened(self, partition_path: str) -> protocol.Index:
        if not self._has_rings:
            return with_own_count(self._config, self._hashing_config, partition_path)
        ring = hash_rings.read(self._storage, partition_path, self._is_committed)
        if ring is None:
            self._without_ring.add(partition_path)
            ring = self._initial(partition_path)
        return consistent_hashing.ConsistentHashingIndex(self._config, ring)

    def _initial(self, partition_path: str) -> hash_rings.Ring:
        assert self._config.bucket_count is not None
        return hash_rings.initial(partition_path, self._config.bucket_count)


def with_own_count(
    config: table_config.TableConfig,
    hashing_config: partition_buckets.HashingConfig | None,
    partition_path: str,
) -> protocol.Index:
    """Return the index of a partition, of a table that may have bucket counts by partition.

    Raises:
        FormatError, UnsupportedError: As `HashingConfig.check`.
    """
    if hashing_config is None:
        return tables.index_of(config)
    count = hashing_config.count_of(partition_path)
    return tables.index_of(replace(config, bucket_count=count))
