"""What every index answers: which file groups of a partition a record key can be in.

Terms:
    bucket    the share of a partition's keys that one file group holds, a number from 0 on
    foreign   of a file group: it belongs to no bucket, and may hold any key of its partition

Invariants that every implementation keeps:
    - `tag` depends on the keys and the table's configuration alone, so that all writers agree;
    - a reader that leaves out the groups whose bucket is not in `matching_buckets` misses no row;
    - two writes that may both change the row of one key have a conflict key in common, unless each
      looks the key up and finds it nowhere (`write.inserted_keys`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import deferred
from hoodie.model import files, instants

with deferred.imports():
    from hoodie.model import predicates

Buckets = npt.NDArray[np.int32]

ConflictKey = tuple[str, int | str]
"""Partition path, and the bucket or the id of a foreign file group."""


class Index(Protocol):
    """The index of one table. Immutable, and needs no I/O of its own."""

    @property
    def looks_keys_up(self) -> bool:
        """Whether no key says its bucket: the keys in files say where it is (`write.tagging`).

        All rows of a partition are in bucket 0 then, and every file group is foreign.
        """
        ...

    @property
    def bucket_count(self) -> int:
        """The buckets of a partition that writers use."""
        ...

    @property
    def parsed_fields(self) -> tuple[str, ...]:
        """The key fields whose values are parsed out of a record key of several fields."""
        ...

    def check(self) -> None:
        """Refuse a configuration with which new tables must not be created.

        Raises:
            InvalidInputError: A setting of the index is out of range.
            ConfigurationError: The settings contradict the record key.
        """
        ...

    def tag(self, record_keys: pa.Array | pa.ChunkedArray) -> Buckets:
        """Return the bucket of each record; Hudi's `tagLocation`.

        Raises:
            ConfigurationError: The table's configuration lacks what this takes.
            InvalidInputError: A key cannot be parsed.
        """
        ...

    def bucket_of(self, file_id: str) -> int | None:
        """Return the bucket of a file group; None for a foreign one."""
        ...

    def defect(self, file_id: str) -> str | None:
        """Return why no bucket of the table can have a file id; None where one can."""
        ...

    def contradiction(self, file_ids: Collection[str]) -> str | None:
        """Return why a table of another engine with these file groups has another index, if so."""
        ...

    def may_hold(self, file_id: str, record_keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each key whether a file group may hold it."""
        ...

    def new_file_id(self, bucket: int, retired_at: instants.InstantTime | None) -> str:
        """Return the id of an empty bucket's file group, the same for every writer.

        Args:
            bucket: The bucket.
            retired_at: When the last replace commit that retired a group of this bucket completed;
                None where none did.
        """
        ...

    def replacing_file_id(self, bucket: int, partition_path: str, write_id: str) -> str:
        """Return the id of the file group that takes a bucket's place, of one write alone.

        Args:
            bucket: The bucket.
            partition_path: Its partition.
            write_id: Of the write; a UUID.
        """
        ...

    def named_after(self, file_id: str) -> instants.InstantTime | None:
        """Return the `retired_at` that a file id follows from; None where it follows from none."""
        ...

    def conflict_key(self, group: files.FileGroupId) -> ConflictKey:
        """Return what two groups have in common if writes to them conflict."""
        ...

    def matching_buckets(
        self, where: predicates.Predicate | None, schema: pa.Schema
    ) -> Collection[int] | None:
        """Return the buckets that may hold rows that a filter keeps; None for all of them.

        Args:
            where: The filter; None keeps every row.
            schema: The table's columns.
        """
        ...
