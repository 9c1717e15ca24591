"""The keys that a record index begins with: those of all rows, by the file groups of the index.

They are brought together by the file groups of the index (`initial_parts`), and sorted then. While
they are read nobody is refused a key, so that one may be in two file groups of the data: it
cannot be in the index.

Memory: as of `initial_parts`. Source: `HoodieBackedTableMetadataWriter.java`
(initializeRecordIndexPartition), `HoodieTableMetadataUtil.java` (estimateFileGroupCount);
protocol.md: Indexes built beside writers.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.engine.protocol import Engine
from hoodie.filegroup import (
    held_keys,
    metadata_merging,
    metadata_records,
    parquet_reading,
    placing,
    record_index,
    snapshots,
    stored_keys,
)
from hoodie.format import record_locations
from hoodie.metadata import build_outlook, index_decisions, index_steps, initial_parts
from hoodie.model import files, key_changes
from hoodie.model.key_changes import NOWHERE
from hoodie.storage.protocol import Storage
from hoodie.transaction.client import Client

Result = TypeVar("Result")

GROUPS_OF_TABLE = (10, 10_000)
GROUPS_OF_PARTITION = (1, 10)
"""So many file groups a record index has at least and at most, by the defaults of Apache Hudi."""

LOCATED = pa.schema([("key", pa.binary()), ("group", pa.int64())])
"""A key, and the number of its file group; NOWHERE where it was taken out of the index."""

_GROWTH = 2
_RECORD_BYTES = 48
_GROUP_BYTES = 1 << 30

_PIECE_ROWS = 1 << 16
_NAMED_MAX = 3


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The file groups of a record index.

    Attributes:
        is_partitioned: Whether it is one of each partition.
        groups: All of them.
        places: Which of them each key space has.
    """

    is_partitioned: bool
    groups: Sequence[files.FileGroupId]
    places: Mapping[str | None, range]

    @classmethod
    def of(cls, record_groups: index_steps.RecordGroups, *, is_partitioned: bool) -> Self:
        """Return the layout with so many file groups of each key space."""
        ends = itertools.accumulate(record_groups.values())
        return cls(
            is_partitioned=is_partitioned,
            groups=index_steps.groups(key_changes.RECORD_INDEX, record_groups),
            places={
                key_space: range(end - count, end)
                for (key_space, count), end in zip(record_groups.items(), ends, strict=True)
            },
        )

    def key_space(self, partition_path: str) -> str | None:
        """Return where a key of a partition is once; as of `index_groups.IndexGroups`."""
        return partition_path if self.is_partitioned else None

    def split(self, key_space: str | None, keys: pa.Array) -> Iterator[tuple[int, pa.Array]]:
        """Yield keys by the place of their file group; none of a partition that has none yet."""
        own = self.places.get(key_space, range(0))
        if own:
            numbers = metadata_records.places(keys, len(own))
            for number in np.unique(numbers).tolist():
                yield own[number], keys.filter(pa.array(numbers == number))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWork(Generic[Result]):
    """The keys of all rows, by the file groups of a record index (`initial_parts`).

    Attributes:
        source: The table.
        layout: Of the index.
        groups: The file groups of the slices, by the numbers of these.
        values: What is recorded of a key in each.
        write: Takes the number of a file group of the index, and its records in order, in pieces.
    """

    source: held_keys.KeySource
    layout: Layout
    groups: Sequence[files.FileGroupId]
    values: Sequence[bytes]
    write: Callable[[int, Iterator[pa.Table]], Result]

    reading = build_outlook.KEYS
    writing = build_outlook.KEYS_WRITTEN

    @classmethod
    def of(
        cls,
        client: Client,
        source: held_keys.KeySource,
        layout: Layout,
        slices: Sequence[files.FileSlice],
        write: Callable[[int, Iterator[pa.Table]], Result],
    ) -> "KeyWork[Result]":
        """Return the work for a table.

        Args:
            client: Whose build it is.
            source: The table.
            layout: Of the index.
            slices: All slices of the table.
            write: As of the class.

        Raises:
            FormatError: The metadata table does not have a partition.
        """
        for each in slices:
            if layout.key_space(each.group.partition_path) not in layout.places:
                raise errors.FormatError(
                    f"the metadata table of {client.storage.uri} does not have the partition "
                    f"{each.group.partition_path}: rebuild it by `hoodie metadata init --rebuild`"
                )
        return cls(
            source=source,
            layout=layout,
            groups=[each.group for each in slices],
            values=[_record(client, each) for each in slices],
            write=write,
        )

    @property
    def count(self) -> int:
        """So many file groups the index has."""
        return len(self.layout.groups)

    def read(
        self, number: int, file_slice: files.FileSlice, memory: placing.Memory
    ) -> Iterator[initial_parts.Placed]:
        """Yield the keys of a slice's rows."""
        own = self.layout.places[self.layout.key_space(file_slice.group.partition_path)]
        for keys in stored_keys.of_slice(self.source, file_slice, memory):
            rows = pa.table([keys.cast(pa.binary()), pa.repeat(number, len(keys))], LOCATED)
            yield rows, own.start + metadata_records.places(keys, len(own))

    def finish(self, number: int, pieces: Sequence[pa.Table]) -> Result:
        """Write the records of one of the index's file groups.

        Raises:
            InvalidInputError: A key is in two file groups.
        """
        return self.write(number, self._records(pieces))

    def _records(self, pieces: Sequence[pa.Table]) -> Iterator[pa.Table]:
        found = self._located(pieces)
        values = pa.array(self.values, pa.binary())
        for first in range(0, found.num_rows, _PIECE_ROWS):
            piece = found.slice(first, _PIECE_ROWS)
            taken = values.take(piece.column("group").combine_chunks())
            yield pa.table([piece.column("key"), taken], metadata_merging.SCHEMA)

    def _located(self, pieces: Sequence[pa.Table]) -> pa.Table:
        """Return keys in order, each once, with the numbers of their slices.

        Raises:
            InvalidInputError: One is in two of them.
        """
        found = pa.concat_tables([LOCATED.empty_table(), *pieces]).sort_by("key").combine_chunks()
        repeats = repeated(found)
        if repeats is None:
            return found
        groups = found.column("group").to_numpy()
        apart = np.flatnonzero(repeats & (groups != np.roll(groups, 1)))
        if len(apart):
            keys = found.column("key").take(pa.array(apart[:_NAMED_MAX]))
            first = int(apart[0])
            held_by = [self.groups[int(groups[each])] for each in (first - 1, first)]
            uri = self.source.storage.uri
            raise twice(uri, self.layout, keys.to_pylist(), held_by, len(apart))
        return found.filter(pa.array(~repeats))


def _record(client: Client, file_slice: files.FileSlice) -> bytes:
    since = client.time_zone.epoch_ms(file_slice.base_instant_time)
    return record_locations.encode(file_slice.group, since)


def twice(
    uri: str,
    layout: Layout,
    keys: Sequence[bytes],
    held_by: Sequence[files.FileGroupId],
    count: int,
) -> errors.InvalidInputError:
    """Return what is said of keys that are in two file groups of the table.

    Args:
        uri: Of the table.
        layout: Of the index.
        keys: Some of them.
        held_by: The file groups that have the first.
        count: How many there are.
    """
    texts = [key.decode() for key in keys[:_NAMED_MAX]]
    named = ", ".join(map(repr, texts))
    rest = f" and {count - len(texts)} more" if count > len(texts) else ""
    noun = "key" if count == 1 else "keys"
    where = " and in ".join(map(str, held_by))
    return errors.InvalidInputError(
        f"{noun} {named}{rest} of {uri} cannot be in a record index "
        f"{index_decisions.kind_text(is_partitioned=layout.is_partitioned)}, which has each key "
        f"once there: {texts[0]!r} is in {where}; delete it in all but one of them, and build the "
        "index again"
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


def numbered(records: pa.Table, number_of: Callable[[files.FileGroupId], int]) -> pa.Table:
    """Return the keys of records with the numbers of their file groups; as `LOCATED`."""
    numbers, groups = record_index.numbered(records.column("value").combine_chunks())
    known = np.array([*map(number_of, groups), NOWHERE], np.int64)
    return pa.table([records.column("key"), pa.array(known[numbers])], LOCATED)


class Numbers:
    """The file groups of a table by numbers that are given as they are met."""

    def __init__(self, groups: Iterable[files.FileGroupId] = ()) -> None:
        """Number some of them."""
        self._numbers: dict[files.FileGroupId, int] = {}
        for each in groups:
            self.of(each)

    def of(self, group: files.FileGroupId) -> int:
        """Return the number of a file group."""
        return self._numbers.setdefault(group, len(self._numbers))

    @property
    def groups(self) -> Sequence[files.FileGroupId]:
        """The file groups by number."""
        return list(self._numbers)


def holders(
    source: held_keys.KeySource,
    snapshot: snapshots.Snapshot,
    numbers: Numbers,
    claims: pa.Table,
) -> Mapping[bytes, Sequence[int]]:
    """Return the numbers of the file groups that have rows of keys, of those claimed.

    What was retired has none.

    Args:
        source: The table as of the snapshot.
        snapshot: The table now.
        numbers: Of its file groups.
        claims: Keys with the numbers of file groups that may have them; as `LOCATED`.

    Raises:
        NotFoundError: A file was removed meanwhile.
    """
    groups = numbers.groups
    claimed = sorted({*pc.unique(claims.column("group")).to_pylist()} - {NOWHERE})
    wanted = {groups[number] for number in claimed}
    slices = {
        each.group: each
        for path in sorted({group.partition_path for group in wanted})
        for each in snapshot.view.latest_slices(path)
        if each.group in wanted
    }
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
