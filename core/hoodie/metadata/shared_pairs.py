"""A secondary index of a table that other engines write as well, made in one scope (ADR 0032).

    look       without the lock: the pairs of all rows as of a timeline, as base files in memory
    catch up   without the lock, and in the scope that makes the index: the pairs that file groups
               have now, of those that changes touched, and that they did not have then
    content    in that scope: the base files, and a log of pairs that came since

Nothing is taken out: the scope's log lies above what is logged later by writes of ours that began
before, which may bring such a pair again. A pair without a row does no harm.

Memory: the base files, keys and values of the file groups that changes touched, and the pairs that
these brought. Source: ADR 0032; protocol.md: Indexes built beside writers.
"""

import functools
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine import ahead
from hoodie.filegroup import (
    held_keys,
    metadata_merging,
    metadata_records,
    snapshots,
)
from hoodie.format import secondary_keys
from hoodie.metadata import initial_parts, partition_making, secondary_index_building, shared_keys
from hoodie.model import files, schemas, secondary_indexes, table_config
from hoodie.timeline import active
from hoodie.transaction.client import Client


class SharedPairs:
    """The pairs of one index that were found without the lock, and since."""

    def __init__(
        self,
        client: Client,
        config: table_config.TableConfig,
        schema: schemas.TableSchema,
        snapshot: snapshots.Snapshot,
        index: tuple[secondary_indexes.Definition, int],
        runner: initial_parts.Runner,
    ) -> None:
        """Read the pairs of all rows.

        Args:
            client: Whose build it is.
            config: The table's configuration.
            schema: Its columns.
            snapshot: Of the look.
            index: The index, and how many file groups it gets.
            runner: Has the rows read.

        Raises:
            UnsupportedError: There are too many pairs.
            HoodieError: As `initial_parts.Runner.by_group`.
        """
        self._client = client
        self._config = config
        self._schema = schema
        self.definition, self._count = index
        slices = snapshot.newest_slices()
        self._looked_at = {each.group: each for each in slices}
        self._source_then = self._source(snapshot)
        self._added: dict[files.FileGroupId, pa.Array] = {}
        work = secondary_index_building.PairWork(
            source=self._source_then,
            definition=self.definition,
            count=self._count,
            write=functools.partial(shared_keys.prepared, client.clock.now_ms()),
        )
        self._bases = shared_keys.held(
            runner.by_group(slices, work),
            f"{self.definition.partition} of {client.storage.uri}",
            "have Apache Hudi build it (CREATE INDEX)",
        )

    def catch_up(
        self, timeline: active.ActiveTimeline, changes: Sequence[metadata_records.Changes]
    ) -> None:
        """Find the pairs that changes brought.

        Args:
            timeline: Read since; it has them.
            changes: Completed since the last time; none has retired file groups.

        Raises:
            NotFoundError: A file was removed meanwhile.
            FormatError: A data file is broken.
        """
        touched = {
            files.FileGroupId(stat.partition_path, stat.file_id)
            for each in changes
            for stat in each.written
        }
        if not touched:
            return
        storage = self._client.storage
        snapshot = snapshots.take(storage, self._config, timeline, has_committed_only=True)
        now = [each for each in snapshot.newest_slices() if each.group in touched]
        look = functools.partial(self._brought, self._source(snapshot))
        found = ahead.results(look, now, self._client.parallelism)
        self._added |= {each.group: pairs for each, pairs in zip(now, found, strict=True)}

    def content(self) -> partition_making.Content:
        """Return what the index begins with, as of the last time."""
        none = pa.array([], pa.string())
        pairs = pc.unique(pa.concat_arrays([none, *self._added.values()])).cast(pa.binary())
        records = pa.repeat(secondary_keys.RECORD, len(pairs))
        added = metadata_records.Added(
            table=pa.table([pairs, records], metadata_merging.SCHEMA).sort_by("key"),
            is_hashed_by_value=self.definition.is_hashed_by_value,
        )
        groups = partition_making.groups(self.definition.partition, self._count)
        logs: Mapping[int, metadata_records.Added] = added.split(self._count) if len(pairs) else {}
        return partition_making.Content(bases=self._bases, groups=groups, logs=logs)

    def _brought(self, source: held_keys.KeySource, file_slice: files.FileSlice) -> pa.Array:
        """Return the pairs of a slice that its file group did not have at the look."""
        before = self._looked_at.get(file_slice.group)
        there = self._pairs(source, file_slice)
        if before is None:
            return there
        was = self._pairs(self._source_then, before)
        return there.filter(pc.invert(pc.is_in(there, value_set=was)))

    def _pairs(self, source: held_keys.KeySource, file_slice: files.FileSlice) -> pa.Array:
        column = self.definition.column
        return secondary_keys.of_rows(column, held_keys.all_rows(source, file_slice, [column]))

    def _source(self, snapshot: snapshots.Snapshot) -> held_keys.KeySource:
        return held_keys.KeySource(
            self._client.storage, self._config, self._schema, snapshot.committed.is_committed
        )
