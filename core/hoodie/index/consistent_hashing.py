"""The bucket index with consistent hashing: a partition's ring says which file group has a key.

    hash     XXH32 of the values of the hash fields, joined, with null as `null`; sign bit off
    bucket   the first node of the ring whose value is not below the hash, else the first node
    file id  that of the node, and `-0`

A partition begins with nodes at equal distances, which follow from its path and their number alone,
so that all writers begin with the same ones. Apache Hudi splits and merges them by a clustering,
which retires the file groups of the nodes that it takes off the ring (`timeline.hash_rings`).

Source: `ConsistentBucketIdentifier.java`, `HoodieConsistentHashingMetadata.java` (1.2.0).
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.format import xx_hash
from hoodie.index import bucket
from hoodie.index.protocol import Buckets, ConflictKey
from hoodie.model import files, instants, predicates, table_config
from hoodie.timeline import hash_rings

_SIGN_OFF = np.uint32(hash_rings.VALUE_MAX)


class ConsistentHashingIndex:
    """The index of a table, or of one partition of it; see `protocol.Index`.

    Without a ring nothing says which file groups belong to a bucket, so that each is foreign.
    """

    def __init__(
        self, config: table_config.TableConfig, ring: hash_rings.Ring | None = None
    ) -> None:
        """Take the configuration, and the ring of a partition."""
        self._config = config
        self._ring = ring
        self._numbers = {each: number for number, each in enumerate(ring.file_ids if ring else ())}

    @property
    def looks_keys_up(self) -> bool:
        """False: a key alone says its bucket, once the ring is known."""
        return False

    @property
    def bucket_count(self) -> int:
        """The nodes of the ring; one without."""
        return len(self._ring.file_ids) if self._ring else 1

    @property
    def parsed_fields(self) -> tuple[str, ...]:
        """The hash fields."""
        return bucket.hash_fields(self._config)

    def check(self) -> None:
        """Refuse what a simple bucket index refuses, and copy-on-write, as Apache Hudi does."""
        bucket.SimpleBucketIndex(self._config).check()
        if self._config.is_copy_on_write:
            raise errors.InvalidInputError(
                "consistent hashing with table type COPY_ON_WRITE: expected MERGE_ON_READ, or the "
                "index bucket"
            )

    def tag(self, record_keys: pa.Array | pa.ChunkedArray) -> Buckets:
        """Return the node of each record key; 0 without a ring."""
        if self._ring is None:
            return np.zeros(len(record_keys), np.int32)
        return bucket.by_hash_values(record_keys, self._config, self._nodes)

    def bucket_of(self, file_id: str) -> int | None:
        """Return the node of a file group; None for one that is none's."""
        return self._numbers.get(file_id)

    def defect(self, file_id: str) -> str | None:
        """Return None: an id that no node has may be right for an earlier ring."""
        del file_id
        return None

    def contradiction(self, file_ids: Collection[str]) -> str | None:
        """Return None: `may_hold` is asked of each file group."""
        del file_ids
        return None

    def may_hold(self, file_id: str, record_keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each key whether a file group may hold it."""
        number = self.bucket_of(file_id)
        if number is None:
            return np.ones(len(record_keys), bool)
        holds: npt.NDArray[np.bool_] = self.tag(record_keys) == number
        return holds

    def new_file_id(self, bucket: int, retired_at: instants.InstantTime | None) -> str:
        """Return the id that the ring gives.

        Raises:
            UnsupportedError: The node's file group was retired, so that no reader would show what
                is written to it.
        """
        assert self._ring is not None
        file_id = self._ring.file_ids[bucket]
        if retired_at is not None:
            raise errors.UnsupportedError(
                f"file group {file_id} was retired by a replace commit at {retired_at}, and its "
                "partition's ring of consistent hashing still has it: what is written there would "
                "not be seen. Resize the buckets of the partition by a clustering of Apache Hudi"
            )
        return file_id

    def replacing_file_id(self, bucket: int, partition_path: str, write_id: str) -> str:
        """Never called: file groups of a ring are not replaced (`write.compatibility`)."""
        raise AssertionError(f"node {bucket} of {partition_path}, by {write_id}")

    def named_after(self, file_id: str) -> instants.InstantTime | None:
        """Return None: ids follow from the ring."""
        del file_id
        return None

    def conflict_key(self, group: files.FileGroupId) -> ConflictKey:
        """Return partition and file id, about which all who know the ring agree."""
        return group.partition_path, group.file_id

    def matching_buckets(
        self, where: predicates.Predicate | None, schema: pa.Schema
    ) -> Collection[int] | None:
        """Return None: rings are not read for reads."""
        del where, schema
        return None

    def _nodes(self, values: Sequence[pa.Array]) -> Buckets:
        assert self._ring is not None
        texts = [pc.fill_null(each.cast(pa.string()), "null") for each in values]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "")
        hashes = (xx_hash.hashes(joined) & _SIGN_OFF).astype(np.int64)
        found = np.searchsorted(self._ring.values, hashes, side="left")
        return (found % len(self._ring.values)).astype(np.int32)
