"""The simple index and the bloom index: a record is where the files of its partition have its key.

A key alone says nothing, so that every file group may hold any key, and writers look the keys of a
batch up (`write.tagging`). Both find the same; with the bloom index base files have bloom filters
in their footers, by which some are left out. Source: `HoodieSimpleIndex.java`,
`HoodieBloomIndex.java` (1.2.0).
"""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.index import bucket
from hoodie.index.protocol import Buckets, ConflictKey
from hoodie.model import files, instants, predicates, table_config


class LookupIndex:
    """The index of a table whose writers look keys up; see `protocol.Index`."""

    def __init__(self, config: table_config.TableConfig) -> None:
        """Take the table's configuration."""
        self._config = config

    @property
    def looks_keys_up(self) -> bool:
        """True."""
        return True

    @property
    def bucket_count(self) -> int:
        """One: no row is told from another before the look-up."""
        return 1

    @property
    def parsed_fields(self) -> tuple[str, ...]:
        """None."""
        return ()

    def check(self) -> None:
        """Refuse buckets beside an index that has none."""
        if self._config.bucket_count is not None:
            assert self._config.index is not None
            raise errors.ConfigurationError(
                f"table {self._config.name!r} has {self._config.bucket_count} buckets and the "
                f"index {self._config.index.value}, expected one of the two"
            )

    def tag(self, record_keys: pa.Array | pa.ChunkedArray) -> Buckets:
        """Return bucket 0 for each record key."""
        return np.zeros(len(record_keys), np.int32)

    def bucket_of(self, file_id: str) -> int | None:
        """Return None: no file group is of a bucket."""
        del file_id
        return None

    def defect(self, file_id: str) -> str | None:
        """Return None: any id is right."""
        del file_id
        return None

    def contradiction(self, file_ids: Collection[str]) -> str | None:
        """Return why the writers of file groups have a bucket index: all of them are of buckets.

        Of random ids one in forty begins with eight digits, and next to none with a number that a
        bucket has.
        """
        are_of_buckets = bool(file_ids) and all(
            bucket.is_bucket_file_id(each) and bucket.bucket_of(each) <= bucket.COUNT_MAX
            for each in file_ids
        )
        if not are_of_buckets:
            return None
        return (
            f"its file groups are all of buckets, such as {min(file_ids)}: its writers have a "
            "bucket index, whose number of buckets `hoodie adopt --index bucket --buckets N` states"
        )

    def may_hold(self, file_id: str, record_keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return True for each key."""
        del file_id
        return np.ones(len(record_keys), bool)

    def new_file_id(self, bucket: int, retired_at: instants.InstantTime | None) -> str:
        """Never called: writers draw the ids of new file groups (`write.inserts`)."""
        raise AssertionError(f"bucket {bucket} of a table without buckets, retired {retired_at}")

    def replacing_file_id(self, bucket: int, partition_path: str, write_id: str) -> str:
        """Never called: as `new_file_id`."""
        raise AssertionError(f"bucket {bucket} of {partition_path}, by {write_id}")

    def named_after(self, file_id: str) -> instants.InstantTime | None:
        """Return None: ids follow from nothing."""
        del file_id
        return None

    def conflict_key(self, group: files.FileGroupId) -> ConflictKey:
        """Return partition and file id."""
        return group.partition_path, group.file_id

    def matching_buckets(
        self, where: predicates.Predicate | None, schema: pa.Schema
    ) -> Collection[int] | None:
        """Return None: a filter excludes no file group by its id."""
        del where, schema
        return None
