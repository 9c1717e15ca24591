"""Building a record index beside running writers (`index_building`).

It is one of the whole table, or one of each partition: a key space of its own, whose keys are
others than the same texts elsewhere. A partition that comes into being while the index is built has
in it what its writers log, and no base files.

    bases   the keys of all rows as of the build's time, by slices; through scratch space into a
            part for each file group of the index, which is sorted and written
    check   before the lock, and again in the scope that publishes the index: what was logged since

While the index is built nobody is refused a key, so that one may come into two file groups. Such a
key is in the base files for two, or was logged for another than it was in, and is looked up in the
data as it is now: if both have a row, the build is given up. It is also found there that the newest
record names the right one, which counts in the order of requested times.

Memory: the keys of one file group of the index, of the slices that are read at once some pieces,
and what was logged since the build began. Source: `HoodieBackedTableMetadataWriter.java`,
`HoodieTableMetadataUtil.java` (estimateFileGroupCount); protocol.md: Indexes built beside writers.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.engine import ahead
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    held_keys,
    index_groups,
    metadata_merging,
    metadata_records,
    metadata_table,
    metadata_writing,
    parquet_reading,
    placing,
    record_index,
    snapshots,
    stored_keys,
)
from hoodie.format import file_names, record_locations
from hoodie.metadata import build_progress, index_decisions, index_steps
from hoodie.model import commits, files, instants, key_changes
from hoodie.model.key_changes import NOWHERE
from hoodie.storage import scratch
from hoodie.storage.protocol import Storage
from hoodie.timeline import active
from hoodie.transaction import markers, table_lock
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

GROUPS_OF_TABLE = (10, 10_000)
GROUPS_OF_PARTITION = (1, 10)
"""So many file groups a record index has at least and at most, by the defaults of Apache Hudi."""

_GROWTH = 2
_RECORD_BYTES = 48
_GROUP_BYTES = 1 << 30

_SPILLED_BYTES = 64 << 20
_WAITING_BYTES = 64 << 20
_PIECE_ROWS = 1 << 16
_NAMED_MAX = 3

_LOCATED = pa.schema([("key", pa.binary()), ("group", pa.int64())])
"""A key, and the number of its file group; NOWHERE where it was taken out of the index."""

_Logged: TypeAlias = Mapping[instants.InstantTime, pa.Table]
"""What instants logged in a key space, by their requested times; as `_LOCATED`."""


def file_groups(records: int, bounds: tuple[int, int]) -> int:
    """Return how many file groups Apache Hudi gives the index of so many rows by its defaults."""
    fit = _GROUP_BYTES // _RECORD_BYTES
    return min(bounds[1], max(bounds[0], records * _GROWTH // fit))


def count_file_groups(
    client: Client, snapshot: snapshots.Snapshot, engine: Engine, *, is_partitioned: bool
) -> index_steps.RecordGroups:
    """Return how many file groups an index of a table has, or of each of its partitions.

    The footers of base files are read only where there can be more rows than the least number is
    for. Rows that only log files have are left out.
    """
    bounds = GROUPS_OF_PARTITION if is_partitioned else GROUPS_OF_TABLE
    base_files: dict[str | None, list[files.BaseFile]] = {} if is_partitioned else {None: []}
    for path in snapshot.view.partitions():
        base_files.setdefault(path if is_partitioned else None, []).extend(
            each.base_file
            for each in snapshot.view.latest_slices(path)
            if each.base_file is not None
        )
    found = {}
    for key_space, own in base_files.items():
        # Keys are different, so that no row takes less than a byte.
        records = sum(each.size_bytes for each in own)
        if file_groups(records, bounds) > bounds[0]:
            records = sum(engine.map(functools.partial(_rows, client.storage), own))
        found[key_space] = file_groups(records, bounds)
    return found


def _rows(storage: Storage, base_file: files.BaseFile) -> int:
    try:
        with storage.open_input(base_file.path) as source:
            return int(parquet_reading.ParquetInput(source).metadata.num_rows)
    except errors.NotFoundError:
        return 0


class RecordIndexBuild:
    """The build of a record index that has begun."""

    def __init__(
        self, client: Client, begun: index_steps.Begun, hear: build_progress.Reporter
    ) -> None:
        """Take what `index_steps.begin` returned; `write` comes first."""
        self._client = client
        self._begun = begun
        self._hear = hear
        self._is_partitioned = begun.plan.is_partitioned
        self._groups = index_steps.groups(key_changes.RECORD_INDEX, begun.record_groups)
        ends = itertools.accumulate(begun.record_groups.values())
        self._places = {
            key_space: range(end - count, end)
            for (key_space, count), end in zip(begun.record_groups.items(), ends, strict=True)
        }
        self._numbers: dict[files.FileGroupId, int] = {}
        self._bases: dict[int, files.FileSlice] = {}
        self._logged: dict[str | None, _Logged] = {}

    def write(self, snapshot: snapshots.Snapshot) -> Iterator[commits.WriteStat]:
        """Write the base files; each is yielded as soon as it is there.

        Args:
            snapshot: Of the timeline on which the build began.

        Raises:
            InvalidInputError: A key is in two file groups.
            NotFoundError: A file was removed meanwhile.
            FormatError: A data file is broken.
            StorageError: The storage failed, or the scratch folder is full.
        """
        folder = self._client.settings.scratch_folder
        with scratch.Parts(folder, len(self._groups), _SPILLED_BYTES) as parts:
            slices = self._spill(snapshot, parts)
            values = pa.array([self._record(each) for each in slices], pa.binary())
            for number, group in enumerate(self._groups):
                total = len(self._groups)
                self._hear.count("writing the record index", number, total, "file groups")
                found = self._located(slices, list(parts.tables(number)))
                # Also without a key: what an earlier index or builder has left there is hidden.
                stat = metadata_writing.write_base(
                    index_steps.beside(self._client),
                    group,
                    self._begun.time,
                    file_names.write_token(0, self._begun.opened.stage, 0),
                    _records(found, values),
                    self._client.clock.now_ms(),
                )
                self._bases[number] = self._slice(group, stat)
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

    def _spill(
        self, snapshot: snapshots.Snapshot, parts: scratch.Parts
    ) -> Sequence[files.FileSlice]:
        """Put the keys of all rows into the parts of the index's file groups; return the slices."""
        view = snapshot.view
        slices = [each for path in view.partitions() for each in view.latest_slices(path)]
        for each in slices:
            self._numbers.setdefault(each.group, len(self._numbers))
            if self._key_space(each.group.partition_path) not in self._places:
                raise errors.FormatError(
                    f"the metadata table of {self._client.storage.uri} does not have the partition "
                    f"{each.group.partition_path}: rebuild it by `hoodie metadata init --rebuild`"
                )
        source = self._source(snapshot)
        threads = self._client.parallelism
        memory = placing.Memory(
            bytes_max=self._client.settings.compaction_memory_bytes // threads,
            scratch_folder=self._client.settings.scratch_folder,
        )

        def read(number: int) -> Iterator[tuple[int, pa.ChunkedArray]]:
            for keys in stored_keys.of_slice(source, slices[number], memory):
                yield number, keys

        def size(piece: tuple[int, pa.ChunkedArray]) -> int:
            return int(piece[1].nbytes)

        bound = ahead.Bound(size_of=size, size_max=_WAITING_BYTES)
        heard = -1
        for number, keys in ahead.streams(read, range(len(slices)), threads, bound):
            if number != heard:
                self._hear.count("reading record keys", number, len(slices), "file slices")
                heard = number
            rows = pa.table([keys.cast(pa.binary()), pa.repeat(number, len(keys))], _LOCATED)
            own = self._places[self._key_space(slices[number].group.partition_path)]
            parts.add(rows, own.start + metadata_records.places(keys, len(own)))
        parts.flush()
        return slices

    def _located(self, slices: Sequence[files.FileSlice], pieces: Sequence[pa.Table]) -> pa.Table:
        """Return keys in order, each once, with the numbers of their slices.

        Raises:
            InvalidInputError: One is in two of them.
        """
        found = pa.concat_tables([_LOCATED.empty_table(), *pieces]).sort_by("key").combine_chunks()
        repeats = repeated(found)
        if repeats is None:
            return found
        groups = found.column("group").to_numpy()
        apart = np.flatnonzero(repeats & (groups != np.roll(groups, 1)))
        if len(apart):
            keys = found.column("key").cast(pa.string()).take(pa.array(apart[:_NAMED_MAX]))
            first = int(apart[0])
            held_by = [slices[int(groups[each])].group for each in (first - 1, first)]
            raise self._twice(keys.to_pylist(), held_by, len(apart))
        return found.filter(pa.array(~repeats))

    def _record(self, file_slice: files.FileSlice) -> bytes:
        since = self._client.time_zone.epoch_ms(file_slice.base_instant_time)
        return record_locations.encode(file_slice.group, since)

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
        own = self._places.get(key_space, range(0))
        places = metadata_records.places(keys, len(own)) if own else np.empty(0, np.int64)
        based = [
            _numbered(
                metadata_merging.newest(table.of_slices([self._bases[place]]), some), self._number
            )
            for number, place in enumerate(own)
            if len(some := keys.filter(pa.array(places == number)))
        ]
        by_time = {**self._logged.get(key_space, {}), **new}
        logged = [by_time[time] for time in sorted(by_time)]
        claims = pa.concat_tables([_LOCATED.empty_table(), *based, *logged])
        claims = claims.filter(pc.is_in(claims.column("key"), value_set=keys))
        return claims.filter(pc.is_in(claims.column("key"), value_set=in_several(claims)))

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
        key_spaces = groups.key_spaces if groups.is_partitioned is self._is_partitioned else {}
        found: dict[str | None, dict[instants.InstantTime, list[pa.Table]]] = {}
        slices = [by_id[each] for each in key_spaces]
        for change in table.logs_of(slices, is_wanted).log_changes() if slices else ():
            values = change.values
            if values is None:
                values = pa.nulls(len(change.keys), pa.binary())
            rows = pa.table([change.keys, values], metadata_merging.SCHEMA)
            by_time = found.setdefault(key_spaces[change.group.file_id], {})
            by_time.setdefault(change.instant_time, []).append(_numbered(rows, self._number))
        return {
            key_space: {time: pa.concat_tables(tables) for time, tables in by_time.items()}
            for key_space, by_time in found.items()
        }

    def _key_space(self, partition_path: str) -> str | None:
        return partition_path if self._is_partitioned else None

    def _number(self, group: files.FileGroupId) -> int:
        return self._numbers.setdefault(group, len(self._numbers))

    def _judge(self, snapshot: snapshots.Snapshot, claims: pa.Table) -> None:
        """Look keys up in the data that several file groups may have."""
        holders = self._holders(snapshot, claims)
        groups = list(self._numbers)
        twice = [key for key, numbers in holders.items() if len(numbers) > 1]
        if twice:
            held_by = [groups[number] for number in holders[twice[0]][:2]]
            raise self._twice([key.decode() for key in twice[:_NAMED_MAX]], held_by, len(twice))
        last = metadata_merging.last_of_each(claims)
        numbers = zip(last.column("key").to_pylist(), last.column("group").to_pylist(), strict=True)
        newest = dict(numbers)
        for key, (number,) in holders.items():
            if newest[key] != number:
                raise errors.ConflictError(
                    f"key {key.decode()!r} of {self._client.storage.uri} is in {groups[number]}, "
                    "and its newest record in the index that is being built names another file "
                    "group: writes completed in another order than they began; build the index "
                    "again"
                )

    def _holders(
        self, snapshot: snapshots.Snapshot, claims: pa.Table
    ) -> Mapping[bytes, Sequence[int]]:
        """Return the numbers of the file groups that have rows of keys, of those claimed.

        What was retired has none.
        """
        source, groups = self._source(snapshot), list(self._numbers)
        claimed = sorted({*pc.unique(claims.column("group")).to_pylist()} - {NOWHERE})
        slices = _slices(snapshot, {groups[number] for number in claimed})
        found: dict[bytes, list[int]] = {}
        for number in claimed:
            if groups[number] not in slices:
                continue
            own = claims.filter(pc.equal(claims.column("group"), number)).column("key")
            keys = pc.unique(own.cast(pa.string()))
            there = held_keys.live(source, slices[groups[number]], keys)
            for key in keys.filter(pa.array(there)).cast(pa.binary()).to_pylist():
                found.setdefault(key, []).append(number)
        return found

    def _twice(
        self, keys: Sequence[str], held_by: Sequence[files.FileGroupId], count: int
    ) -> errors.InvalidInputError:
        named = ", ".join(map(repr, keys))
        rest = f" and {count - len(keys)} more" if count > len(keys) else ""
        noun = "key" if count == 1 else "keys"
        where = " and in ".join(map(str, held_by))
        return errors.InvalidInputError(
            f"{noun} {named}{rest} of {self._client.storage.uri} cannot be in a record index "
            f"{index_decisions.kind_text(is_partitioned=self._is_partitioned)}, which has each key "
            f"once there: {keys[0]!r} is in {where}; delete it in all but one of them, and build "
            "the index again"
        )


def repeated(located: pa.Table) -> npt.NDArray[np.bool_] | None:
    """Return for each of some keys in order whether it is the one before; None if none is."""
    keys = located.column("key").combine_chunks()
    if len(keys) < 2:  # noqa: PLR2004 - two keys are compared
        return None
    is_equal = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    found = np.concatenate([[False], is_equal.to_numpy(zero_copy_only=False)])
    return found if found.any() else None


def in_several(claims: pa.Table) -> pa.Array:
    """Return the keys that records of several file groups are of.

    Args:
        claims: Keys, and the numbers of their file groups; NOWHERE counts for none.
    """
    there = claims.filter(pc.not_equal(claims.column("group"), NOWHERE))
    ends = there.group_by("key").aggregate([("group", "min"), ("group", "max")])
    is_several = pc.not_equal(ends.column("group_min"), ends.column("group_max"))
    return ends.filter(is_several).column("key").combine_chunks()


def _records(located: pa.Table, values: pa.Array) -> Iterator[pa.Table]:
    """Yield the records of keys in order, in pieces.

    Args:
        located: Keys with the numbers of their slices.
        values: The record of each slice.
    """
    for first in range(0, located.num_rows, _PIECE_ROWS):
        piece = located.slice(first, _PIECE_ROWS)
        taken = values.take(piece.column("group").combine_chunks())
        yield pa.table([piece.column("key"), taken], metadata_merging.SCHEMA)


def _numbered(records: pa.Table, number_of: Callable[[files.FileGroupId], int]) -> pa.Table:
    """Return the keys of records with the numbers of their file groups."""
    numbers, groups = record_index.numbered(records.column("value").combine_chunks())
    known = np.array([*map(number_of, groups), NOWHERE], np.int64)
    return pa.table([records.column("key"), pa.array(known[numbers])], _LOCATED)


def _slices(
    snapshot: snapshots.Snapshot, wanted: Collection[files.FileGroupId]
) -> Mapping[files.FileGroupId, files.FileSlice]:
    """Return the newest slices of some file groups."""
    return {
        each.group: each
        for path in sorted({group.partition_path for group in wanted})
        for each in snapshot.view.latest_slices(path)
        if each.group in wanted
    }
