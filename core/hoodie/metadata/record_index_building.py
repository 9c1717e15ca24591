"""Building a record index beside running writers (`index_building`).

It is one of the whole table, or one of each partition: a key space of its own, whose keys are
others than the same texts elsewhere. A partition that comes into being while the index is built has
in it what its writers log, and no base files.

    bases   the keys of all rows as of the build's time (`initial_keys`)
    check   before the lock, and again in the scope that publishes the index: what was logged since

While the index is built nobody is refused a key, so that one may come into two file groups. Such a
key is in the base files for two, or was logged for another than it was in, and is looked up in the
data as it is now: if both have a row, the build is given up. It is also found there that the newest
record names the right one, which counts in the order of requested times.

Memory: that of `initial_keys`, and what was logged since the build began. Source:
`HoodieBackedTableMetadataWriter.java`; protocol.md: Indexes built beside writers.
"""

import functools
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import (
    held_keys,
    index_groups,
    metadata_merging,
    metadata_table,
    snapshots,
)
from hoodie.format import file_names
from hoodie.metadata import index_steps, initial_keys, initial_parts
from hoodie.model import commits, files, instants, key_changes
from hoodie.timeline import active
from hoodie.transaction import markers, table_lock
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

_Logged: TypeAlias = Mapping[instants.InstantTime, pa.Table]
"""What instants logged in a key space, by their requested times; as `LOCATED` of
`initial_keys`."""


def _write(
    writer: initial_parts.BaseWriter,
    occupied: frozenset[str],
    number: int,
    records: Iterator[pa.Table],
) -> commits.WriteStat | None:
    """Write a base file; none where there is nothing that it would have, or hide."""
    first = next(records, None)
    if first is None and writer.groups[number].file_id not in occupied:
        return None  # Else what an earlier index, or a builder, has left is hidden.
    return writer.write(number, itertools.chain([] if first is None else [first], records))


class RecordIndexBuild:
    """The build of a record index that has begun."""

    def __init__(
        self, client: Client, begun: index_steps.Begun, runner: initial_parts.Runner
    ) -> None:
        """Take what `index_steps.begin` returned; `write` comes first."""
        self._client = client
        self._begun = begun
        self._runner = runner
        self._layout = initial_keys.Layout.of(
            begun.record_groups, is_partitioned=begun.plan.is_partitioned
        )
        self._numbers = initial_keys.Numbers()
        self._bases: dict[int, files.FileSlice] = {}
        self._logged: dict[str | None, _Logged] = {}

    def write(
        self, snapshot: snapshots.Snapshot, slices: Sequence[files.FileSlice]
    ) -> Iterator[commits.WriteStat]:
        """Write the base files; each is yielded as soon as it is there.

        Args:
            snapshot: Of the timeline on which the build began.
            slices: The newest ones there.

        Raises:
            InvalidInputError: A key is in two file groups.
            NotFoundError: A file was removed meanwhile.
            FormatError: A data file is broken.
            StorageError: The storage failed, or the scratch folder is full.
        """
        groups = self._layout.groups
        self._numbers = initial_keys.Numbers(each.group for each in slices)
        token = file_names.write_token(0, self._begun.opened.stage, 0)
        writer = initial_parts.BaseWriter.of(self._client, self._begun, groups, token)
        work = initial_keys.KeyWork.of(
            self._client,
            self._source(snapshot),
            self._layout,
            slices,
            functools.partial(_write, writer, self._begun.occupied),
        )
        for number, stat in self._runner.by_group(slices, work):
            if stat is not None:
                self._bases[number] = self._slice(groups[number], stat)
                yield stat

    def look_ahead(self) -> None:
        """Check what was logged so far, so that little is left to be checked under the lock."""
        try:
            self._catch_up(active.listed(self._client.storage))
        except errors.FormatError as error:
            # It may have been made again: what is published tells.
            logger.info("%s: nothing is looked at: %s", self._client.storage.uri, error)

    def check(self, scope: table_lock.LockScope, is_ours: markers.Check) -> None:
        """Check all that was logged; an effect of the action's completion.

        Raises:
            InvalidInputError: A key is in two file groups.
            ConflictError: The index does not name the file group of a key's row.
            NotFoundError: A file was removed meanwhile.
        """
        is_ours()
        self._catch_up(scope.timeline)

    def _slice(self, group: files.FileGroupId, stat: commits.WriteStat) -> files.FileSlice:
        base_file = file_names.parse_new(stat.path, stat.size_bytes, metadata_table.EXTENSION)
        assert isinstance(base_file, files.BaseFile), stat.path
        return files.FileSlice(
            group=group, base_instant_time=self._begun.time, base_file=base_file, log_files=()
        )

    def _source(self, snapshot: snapshots.Snapshot) -> held_keys.KeySource:
        return held_keys.KeySource(
            self._client.storage,
            self._begun.config,
            self._begun.schema,
            snapshot.committed.is_committed,
        )

    def _catch_up(self, timeline: active.ActiveTimeline) -> None:
        """Check what was logged since the last time."""
        table = metadata_table.MetadataTable(self._client.storage, timeline)
        new = self._read_logs(table)
        snapshot: snapshots.Snapshot | None = None
        for key_space, logged in new.items():
            claims = self._doubtful(table, key_space, logged)
            if claims.num_rows:
                storage = self._client.storage
                snapshot = snapshot or snapshots.take(storage, self._begun.config, timeline)
                self._judge(snapshot, claims)
        # Not before: a scope in which this fails may be followed by another.
        for key_space, logged in new.items():
            self._logged[key_space] = {**self._logged.get(key_space, {}), **logged}

    def _doubtful(
        self, table: metadata_table.MetadataTable, key_space: str | None, new: _Logged
    ) -> pa.Table:
        """Return what base files and logs have of keys that were logged, and are in several."""
        chunks = [chunk for rows in new.values() for chunk in rows.column("key").chunks]
        keys = pc.unique(pa.chunked_array(chunks, pa.binary()))
        based = [
            self._numbered(metadata_merging.newest(table.of_slices([self._bases[place]]), some))
            for place, some in self._layout.split(key_space, keys)
            if place in self._bases
        ]
        by_time = {**self._logged.get(key_space, {}), **new}
        logged = [by_time[time] for time in sorted(by_time)]
        claims = pa.concat_tables([initial_keys.LOCATED.empty_table(), *based, *logged])
        claims = claims.filter(pc.is_in(claims.column("key"), value_set=keys))
        return claims.filter(
            pc.is_in(claims.column("key"), value_set=initial_keys.in_several(claims))
        )

    def _read_logs(self, table: metadata_table.MetadataTable) -> Mapping[str | None, _Logged]:
        """Return what was logged since the last time, by key spaces."""
        since = self._begun.time
        known = {time for logged in self._logged.values() for time in logged}

        def is_wanted(time: instants.InstantTime) -> bool:
            completed = table.timeline.completion_time(time)
            return time not in known and completed is not None and completed > since

        by_id = {each.group.file_id: each for each in table.latest_slices(key_changes.RECORD_INDEX)}
        if not by_id:
            return {}
        groups = index_groups.of(self._client.storage, by_id)
        key_spaces = (
            groups.key_spaces if groups.is_partitioned is self._layout.is_partitioned else {}
        )
        found: dict[str | None, dict[instants.InstantTime, list[pa.Table]]] = {}
        slices = [by_id[each] for each in key_spaces]
        for change in table.logs_of(slices, is_wanted).log_changes() if slices else ():
            values = change.values
            if values is None:
                values = pa.nulls(len(change.keys), pa.binary())
            rows = pa.table([change.keys, values], metadata_merging.SCHEMA)
            by_time = found.setdefault(key_spaces[change.group.file_id], {})
            by_time.setdefault(change.instant_time, []).append(self._numbered(rows))
        return {
            key_space: {time: pa.concat_tables(tables) for time, tables in by_time.items()}
            for key_space, by_time in found.items()
        }

    def _numbered(self, records: pa.Table) -> pa.Table:
        return initial_keys.numbered(records, self._numbers.of)

    def _judge(self, snapshot: snapshots.Snapshot, claims: pa.Table) -> None:
        """Look keys up in the data that several file groups may have."""
        source, numbers = self._source(snapshot), self._numbers
        holders = initial_keys.holders(source, snapshot, numbers, claims)
        groups = numbers.groups
        twice = [key for key, held_by in holders.items() if len(held_by) > 1]
        if twice:
            held_by = [groups[number] for number in holders[twice[0]][:2]]
            raise initial_keys.twice(
                self._client.storage.uri, self._layout, twice, held_by, len(twice)
            )
        last = metadata_merging.last_of_each(claims)
        pairs = zip(last.column("key").to_pylist(), last.column("group").to_pylist(), strict=True)
        newest = dict(pairs)
        for key, (number,) in holders.items():
            if newest[key] != number:
                raise errors.ConflictError(
                    f"key {key.decode()!r} of {self._client.storage.uri} is in {groups[number]}, "
                    "and its newest record in the index that is being built names another file "
                    "group: writes completed in another order than they began; build the index "
                    "again"
                )
