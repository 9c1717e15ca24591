"""The partition `record_index` of a metadata table (MDT): in which file group each key's row is.

It holds a key once, whatever the partition of the data table, or once in each of them
(`index_groups`). The newest record of a key counts, in log order. Large batches of keys are looked
up at once, as Arrow.

Requests of a look-up: those of opening the file groups that the keys belong to, and one for the
blocks that lie close together in each of their base files. Source: `HoodieBackedTableMetadata.java`
(readRecordIndex), `HoodieMetadataPayload.java`; format.md: Metadata table.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.engine import ahead
from hoodie.filegroup import metadata_merging, metadata_table
from hoodie.format import metadata_schemas
from hoodie.format.metadata_avro import Value
from hoodie.model import files, instants, key_changes
from hoodie.model.key_changes import NOWHERE, Locations

with deferred.imports():
    from hoodie.filegroup import index_groups, metadata_records, metadata_writing
    from hoodie.format import record_locations

READ_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What some instants logged.

    Attributes:
        locations: Where they say that keys are; NOWHERE those whose record they removed.
        times: The requested time of the last that has each of the keys.
    """

    locations: Locations
    times: pa.Array


class RecordIndex:
    """The record index of a table."""

    def __init__(self, table: metadata_table.MetadataTable, threads: int = 1) -> None:
        """Find its file groups; a listing, and a request where there are none.

        Args:
            table: The MDT, which has the partition.
            threads: How many of its file groups a look-up reads at once, up to `READ_AT_ONCE`.

        Raises:
            FormatError: It is damaged, or not ready by that MDT, whatever properties said before.
        """
        self._table = table
        self._threads = min(threads, READ_AT_ONCE)
        slices = {
            each.group.file_id: each for each in table.latest_slices(key_changes.RECORD_INDEX)
        }
        self.groups = index_groups.of(table.data_storage, slices)
        self._slices = {each: slices[each] for each in self.groups.key_spaces}
        if self._is_being_made():
            raise errors.FormatError(
                f"{self.groups.source} is being built, or was dropped: expected one that is ready"
            )
        table.check_is_not_rolled_back(key_changes.RECORD_INDEX)

    def _is_being_made(self) -> bool:
        """Return whether the instant that made a file group does not count.

        That of a compaction does as well. What writers log in an index that is being built counts
        before: of their keys alone. A partition that came into being since has only such logs, and
        nothing that begins its file groups but what a pending write has begun, dead or alive.
        """
        logged = [each for each in self._slices.values() if each.base_file is None]
        made = {
            each.group.file_id
            for each in logged
            if any(map(metadata_writing.makes_group, each.log_files))
        }
        if not self.groups.is_partitioned:
            return len(made) < len(logged)
        if not logged or not self._table.is_indexing:
            return False
        begun = {
            each.group.file_id
            for each in self._table.listed_files(key_changes.RECORD_INDEX)
            if metadata_writing.begins_group(each)
            and each.instant_time not in self._table.pending_writes
        }
        return any(each.group.file_id in begun - made for each in logged)

    @property
    def bases(self) -> Mapping[str, instants.InstantTime]:
        """When the newest slice of each file group begins: of another index these are others."""
        return {each: found.base_instant_time for each, found in self._slices.items()}

    def slices(self, key_space: str | None, keys: pa.Array) -> list[files.FileSlice]:
        """Return the slices that records of some keys of a key space have their place in."""
        return [each for each, _ in self._by_slice(key_space, keys)]

    def _by_slice(
        self, key_space: str | None, keys: pa.Array
    ) -> Iterator[tuple[files.FileSlice, pa.Array]]:
        """Yield the slices that records of some keys have their place in, and whose they are."""
        ids = self.groups.ids(key_space)
        if not ids:
            return
        places = metadata_records.places(keys, len(ids))
        for place in np.unique(places).tolist():
            yield self._slices[ids[place]], keys.filter(pa.array(places == place))

    def _newest(self, own: tuple[files.FileSlice, pa.Array]) -> pa.Table:
        file_slice, keys = own
        return metadata_merging.newest(self._table.of_slices([file_slice]), keys.cast(pa.binary()))

    def locations(self, key_space: str | None, keys: pa.Array) -> Locations:
        """Return where keys are.

        Args:
            key_space: Of their partition; as of `index_groups.IndexGroups.key_space`.
            keys: Texts.

        Raises:
            FormatError: The partition is damaged.
            UnsupportedError: It has something that is not read.
        """
        keys = pc.unique(keys)
        own = list(self._by_slice(key_space, keys))
        newest = ahead.results(self._newest, own, self._threads)
        found = pa.concat_tables([metadata_merging.SCHEMA.empty_table(), *newest])
        return _decoded(keys, found.column("key"), found.column("value"))

    def logged_by(
        self, key_space: str | None, times: Collection[instants.InstantTime], keys: pa.Array
    ) -> Logged:
        """Return what instants logged of some keys and no compaction of the MDT has merged.

        Args:
            key_space: As of `locations`.
            times: Their requested times.
            keys: Texts.

        Raises:
            FormatError: The partition is damaged.
        """
        keys = pc.unique(keys)
        slices = self.slices(key_space, keys)
        wanted = keys.cast(pa.binary())
        pieces = [_SCHEMA.empty_table()]
        for change in self._changes(slices, times):
            values = change.values if change.values is not None else pa.nulls(len(change.keys))
            times_of = pa.repeat(change.instant_time, len(change.keys))
            pieces.append(pa.table([change.keys, values, times_of], _SCHEMA))
        logged = pa.concat_tables(pieces)
        logged = logged.filter(pc.is_in(logged.column("key"), value_set=wanted))
        last = metadata_merging.last_of_each(logged)
        found = last.column("key").combine_chunks().cast(pa.string())
        return Logged(
            locations=_decoded(found, last.column("key"), last.column("value")),
            times=last.column("time").combine_chunks(),
        )

    def _changes(
        self, slices: Sequence[files.FileSlice], times: Collection[instants.InstantTime]
    ) -> Iterator[metadata_table.LogChange]:
        if slices:
            yield from self._table.logs_of(slices, lambda time: time in times).log_changes()


def may_hold(
    table: metadata_table.MetadataTable, slices: Sequence[files.FileSlice], keys: pa.Array
) -> list[bool]:
    """Return for each file slice whether it may hold one of some keys.

    An index of each partition is asked in each of them, but where it has more to be read than the
    file slices.

    Args:
        table: The MDT, which has the partition.
        slices: Of any partitions of the data table.
        keys: Texts.

    Raises:
        FormatError: The partition is damaged.
        UnsupportedError: It has something that is not read.
    """
    index = RecordIndex(table)
    by_key_space: defaultdict[str | None, list[files.FileSlice]] = defaultdict(list)
    for each in slices:
        by_key_space[index.groups.key_space(each.group.partition_path)].append(each)
    wanted: set[files.FileGroupId] = set()
    for key_space, some in by_key_space.items():
        if key_space is not None and not _is_worth_it(index.slices(key_space, keys), some):
            wanted.update(each.group for each in some)
            continue
        located = index.locations(key_space, keys)
        wanted.update(located.groups[number] for number in located.numbers if number != NOWHERE)
    return [each.group in wanted for each in slices]


def _is_worth_it(asked: Sequence[files.FileSlice], slices: Sequence[files.FileSlice]) -> bool:
    """Return whether log files of the index, which are read whole, are less than what it is of.

    A partition that the index does not have may have any key.
    """
    logged = sum(log.size_bytes for each in asked for log in each.log_files)
    return bool(asked) and logged < sum(
        data_file.size_bytes for each in slices for data_file in each.data_files
    )


_SCHEMA = pa.schema([*metadata_merging.SCHEMA, ("time", pa.string())])


def _decoded(keys: pa.Array, found: pa.ChunkedArray, values: pa.ChunkedArray) -> Locations:
    """Return the file groups that records name; each different one is decoded once."""
    numbers, groups = numbered(values.combine_chunks())
    places = pc.index_in(keys.cast(pa.binary()), value_set=found).fill_null(NOWHERE)
    return Locations(
        keys=keys, numbers=np.append(numbers, NOWHERE)[places.to_numpy()], groups=groups
    )


def numbered(values: pa.Array) -> tuple[npt.NDArray[np.int64], Sequence[files.FileGroupId]]:
    """Return the file groups that records name, and for each record the number of its own.

    Args:
        values: As of the schema that records are written with; NOWHERE for nulls.

    Raises:
        FormatError: One is broken, or of another partition.
    """
    encoded = values.dictionary_encode()
    groups = [
        record_locations.decode(
            Value(content, metadata_schemas.RECORD.text), key_changes.RECORD_INDEX
        )
        for content in encoded.dictionary.to_pylist()
    ]
    found = encoded.indices.fill_null(NOWHERE).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found, groups
