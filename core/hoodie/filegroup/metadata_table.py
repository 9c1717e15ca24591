"""The metadata table (MDT) of a table, read: the merge-on-read table in `.hoodie/metadata`.

Its partitions are indexes of the data table; `files` says which data files there are. Each change
of the data table is a delta commit of the MDT at the same requested time, which completes first.
So what completed there counts once it is not pending in the data table any more.

A table without lock protects nothing: whoever wrote to the data table without it, or deleted a part
of it, left the MDT behind. What can be seen of that at little cost is looked for, and makes a
FormatError: a change of the data table that the MDT has not, and a write of the MDT that has no
block in `files`. `hoodie metadata validate` compares all of it with the storage.

Requests to open it: a listing of its timeline, one of the partition `files`, a read of each log
file there, and one to three of the base file. Some more where it was archived, or a compaction of
it is pending.

Source: `HoodieBackedTableMetadata.java`, `HoodieTableMetadataUtil.java`
(getValidInstantTimestamps); format.md: Metadata table.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import listing, slicing, view
from hoodie.format import file_names, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.format.metadata_avro import Value
from hoodie.model import (
    commits,
    expression_indexes,
    file_statistics,
    files,
    instants,
    key_changes,
    secondary_indexes,
    table_config,
)
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, contents

with deferred.imports():
    from hoodie.filegroup import log_scanning
    from hoodie.format import delete_records, hfile_reading
    from hoodie.model import plans
    from hoodie.timeline import metadata_timelines

FILES = table_config.METADATA_FILES

EXTENSION = ".hfile"

_GROUP_PREFIXES = {
    FILES: "files",
    file_statistics.BLOOM_FILTERS: "bloom-filters",
    file_statistics.COLUMN_STATS: "col-stats",
    file_statistics.PARTITION_STATS: "partition-stats",
    key_changes.RECORD_INDEX: "record-index",
}


def file_id(partition: str, number: int, *within: str) -> str:
    """Return the id of one of a partition's file groups, which are numbered from 0.

    Args:
        partition: Its name.
        number: The file group's.
        within: What it is of in the partition, where these are numbered each by themselves.
    """
    prefix = _GROUP_PREFIXES.get(partition)
    if prefix is None:
        is_named = secondary_indexes.is_one(partition) or expression_indexes.is_one(partition)
        assert is_named, partition
        prefix = partition.replace("_", "-")
    return "-".join([prefix, *within, f"{number:04d}-0"])


HELD_BYTES_MAX = 32 << 20
"""A base file up to this length is read at once, where most of it is asked for."""

_SCHEMA = "schema"

Records: TypeAlias = tuple[pa.RecordBatch, bytes]
"""Keys and records, and the schema that these were written with."""


def data_files(storage: Storage, partition: str) -> Iterator[files.BaseFile | files.LogFile]:
    """Yield the data files of a partition by their names, without sizes; a listing.

    Args:
        storage: The MDT's.
        partition: Its name.
    """
    for name in storage.names(partition):
        parsed = file_names.parse_new(files.join(partition, name), 0, EXTENSION)
        if parsed is not None:
            yield parsed


def log_files(storage: Storage, partition: str) -> Iterator[files.LogFile]:
    """Yield the log files of a partition; as `data_files`."""
    return (each for each in data_files(storage, partition) if isinstance(each, files.LogFile))


_DataFile = TypeVar("_DataFile", files.BaseFile, files.LogFile)


def named(
    storage: Storage, timeline: active.ActiveTimeline, found: Collection[_DataFile]
) -> Collection[_DataFile]:
    """Return those of an instant's log files, or base files, in a partition that its commit names.

    Of several executions of one plan, of which each was taken for dead by the next, one has
    completed it. All of them if there is one stage; else a request. All of what another engine
    wrote, and what is not complete, too.

    Args:
        storage: The MDT's.
        timeline: Its timeline.
        found: The log files, or the base files.
    """
    if len({_execution(each) for each in found}) <= 1:
        return found
    completed = timeline.find(next(iter(found)).instant_time)
    if completed is None or not completed.is_completed:
        return found
    commit = contents.read_commit(storage, completed)
    if commits.WRITE_ID_KEY not in commit.extra:
        return found
    paths = {stat.path for stat in commit.stats}
    return [each for each in found if each.path in paths]


def _execution(data_file: files.BaseFile | files.LogFile) -> str:
    """Return what the write token of a file says of the execution that wrote it.

    An execution of this project writes log files again under a lock that it takes again, which is
    the number of the attempt. Tasks of other engines have each a number of their own there.
    """
    _, _, execution = data_file.write_token.partition("-")
    return execution.partition("-")[0] if isinstance(data_file, files.BaseFile) else execution


def surplus_completions(found: Iterable[instants.Instant]) -> list[instants.Instant]:
    """Return the completed files of one instant but the latest, which counts."""
    completed = [each for each in found if each.is_completed]
    return sorted(completed, key=lambda each: str(each.completion_time))[:-1]


class _Listing(listing.StorageListing):
    """A listing of an MDT without files that the commits of their instants do not name."""

    def __init__(self, storage: Storage, timeline: active.ActiveTimeline) -> None:
        super().__init__(storage, extension=EXTENSION)
        self._timeline = timeline

    def files(self, partition_path: str) -> list[listing.DataFile]:
        found = super().files(partition_path)
        counting = {*self._counting(found, files.BaseFile), *self._counting(found, files.LogFile)}
        return [each for each in found if each.path in counting]

    def stored_files(self, partition_path: str) -> list[listing.DataFile]:
        """Return all data files of a partition; requests as `StorageListing.files`."""
        return super().files(partition_path)

    def _counting(self, found: Iterable[listing.DataFile], kind: type[_DataFile]) -> Iterator[str]:
        """Yield the paths of files of a kind that count."""
        same: defaultdict[instants.InstantTime, list[_DataFile]] = defaultdict(list)
        for each in found:
            if isinstance(each, kind):
                same[each.instant_time].append(each)
        for of_instant in same.values():
            for each in named(self._storage, self._timeline, of_instant):
                yield each.path


class MetadataTable:
    """A table's MDT as of one moment, which is not before that of the data table's timeline."""

    def __init__(self, storage: Storage, timeline: active.ActiveTimeline) -> None:
        """Read its timeline.

        Args:
            storage: The data table's.
            timeline: The data table's, read before.

        Raises:
            FormatError: It lacks a change that the data table's timeline shows.
        """
        self._data = storage
        self._of_data = timeline
        self._storage = metadata_timelines.opened(storage)
        self._pending = timeline.pending_times
        # What completed before the data table's timeline was read is in any listing made later.
        self.timeline = active.listed(self._storage)
        self._listing = _Listing(self._storage, self.timeline)
        self._view: view.FileSystemView | None = None
        self._check_is_current(timeline)

    def partition(self, name: str, *, is_held: bool = True) -> Partition:
        """Open a partition.

        Args:
            name: Its name.
            is_held: Whether most of it will be asked for: base files that are not too long are read
                at once then.

        Raises:
            FormatError: It is damaged.
            UnsupportedError: It has something that is not read.
        """
        slices = self.latest_slices(name)
        if name == FILES:
            self.check_is_whole()
            self.check_has_base(slices)
        return Partition(self._storage, slices, self._counts, HELD_BYTES_MAX if is_held else 0)

    def check_is_whole(self) -> None:
        """Check that each write since the last compaction is in `files`, as every write is.

        A listing of `files`, once.

        Raises:
            FormatError: One is not.
        """
        for lacking in self._lacking(FILES):
            raise errors.FormatError(f"{self._storage.uri}/{FILES} has no log file of {lacking}")

    def check_has_base(self, slices: Collection[files.FileSlice]) -> None:
        """Check that `files` has a base file if it was made, or compacted, with one.

        What has deleted it may have left the log files, or nothing. Without one a read or two.

        Args:
            slices: The newest of that partition.

        Raises:
            FormatError: It has none any more.
        """
        if any(each.has_base for each in slices):
            return
        writes = self.timeline.completed_writes
        compactions = [each for each in writes if each.action is instants.Action.COMMIT]
        for each in {*writes[:1], *compactions[-1:]}:
            for stat in contents.read_commit(self._storage, each).stats:
                if stat.partition_path == FILES and stat.path.endswith(EXTENSION):
                    raise errors.FormatError(
                        f"{self._storage.uri} lacks {stat.path}, which {each} has written: "
                        "`hoodie metadata init --rebuild` makes the metadata table again"
                    )

    def check_is_kept_up(self, partition: str) -> None:
        """Check that each write of rows since the last compaction is in a partition.

        A listing of the partition, once, and a read for each write that is not in it.

        Raises:
            FormatError: One is not: its writer did not keep the partition up.
        """
        lacking = self.lacking_rows(partition)
        if lacking is not None:
            raise errors.FormatError(
                f"{self._storage.uri}/{partition} has no log file of {lacking}, which wrote rows: "
                "its writer did not keep the partition up. `hoodie metadata init --rebuild` makes "
                "the metadata table again"
            )

    def lacking_rows(self, partition: str) -> instants.InstantTime | None:
        """Return the first write of rows since the last compaction that is not in a partition.

        Requests as of `check_is_kept_up`.
        """
        for lacking in self._lacking(partition):
            instant = self._of_data.find(lacking)
            assert instant is not None, lacking
            if any(stat.records for stat in contents.read_commit(self._data, instant).stats):
                return lacking
        return None

    def _lacking(self, partition: str) -> Iterator[instants.InstantTime]:
        """Yield the writes since the last compaction that have no log file in a partition."""
        slices = self.latest_slices(partition)
        found = {log.instant_time for each in slices for log in each.log_files}
        since = min((each.base_instant_time for each in slices), default="")
        written = self._of_data.write_completion_times
        for each in active.completed_after(self.timeline, since):
            is_write = each.action.is_write and each.requested_time in written
            if is_write and each.requested_time not in found:
                yield each.requested_time

    def check_is_not_rolled_back(self, partition: str) -> None:
        """Check that a partition has what an indexing action, or one at its time, made it with.

        Apache Hudi 1.2.0 makes every partition at the requested time of the last action, if that is
        an indexing action, and before each rolls back what has that time in the MDT: the base files
        of the one before. Its log files of that time are left, and count again with the next.

        A listing of the partition, once, where the table has such actions.

        Raises:
            FormatError: It has not.
        """
        time = self.rolled_back(partition)
        if time is not None:
            raise errors.FormatError(
                f"{self._storage.uri}/{partition} has no base file of {time}, expected what the "
                "table had by then: a writer of Apache Hudi that made another index at that time "
                "rolled it back. `hoodie index drop` and `hoodie index build` make it again, of "
                "statistics both partitions"
            )

    def rolled_back(self, partition: str) -> instants.InstantTime | None:
        """Return the time of an indexing action whose base files a partition lacks, if any.

        Compactions hide that once the log files of that time are deleted. Requests as of
        `check_is_not_rolled_back`.
        """
        indexing = [
            each.requested_time
            for each in self._of_data.completed
            if each.action is instants.Action.INDEXING
        ]
        if not indexing:
            return None
        found = self._listing.stored_files(partition)
        begun = {each.instant_time for each in found if isinstance(each, files.LogFile)}
        based = {each.instant_time for each in found if isinstance(each, files.BaseFile)}
        first = next((each.requested_time for each in self._of_data.completed_writes), None)
        for time in indexing:
            # Of a table without files the partition has no base files either.
            if time in begun - based and first is not None and first < time:
                return time
        return None

    def overtaken(self) -> instants.InstantTime | None:
        """Return a write that completed after one that was requested later; None if none is known.

        A compaction and a clustering write no rows that are not there, and do not count.
        """
        rewriting = {
            each.requested_time
            for each in self._of_data.files
            if each.action in (instants.Action.COMPACTION, instants.Action.CLUSTERING)
        }
        greatest = ""
        for each in self._of_data.completed_writes:
            if each.requested_time < greatest and each.requested_time not in rewriting:
                return each.requested_time
            greatest = max(greatest, each.requested_time)
        return None

    def of_slices(self, slices: Collection[files.FileSlice]) -> Partition:
        """Open some file groups of a partition; base files are not held."""
        return Partition(self._storage, slices, self._counts, 0)

    @property
    def data_storage(self) -> Storage:
        """The data table's."""
        return self._data

    @property
    def is_indexing(self) -> bool:
        """Whether an index is being built, or is to be."""
        return bool(self._of_data.pending_of(instants.Action.INDEXING))

    @functools.cached_property
    def pending_writes(self) -> AbstractSet[instants.InstantTime]:
        """The requested times of writes that are pending on the data's timeline."""
        found = self._of_data.pending_of(*instants.WRITES)
        return frozenset(each.requested_time for each in found)

    def logs_of(
        self, slices: Collection[files.FileSlice], is_wanted: slicing.IsCommitted
    ) -> Partition:
        """Open what instants that are wanted have logged in file slices."""
        found = [
            replace(
                each,
                base_file=None,
                log_files=tuple(log for log in each.log_files if is_wanted(log.instant_time)),
            )
            for each in slices
        ]
        return Partition(self._storage, found, self._counts, 0)

    def latest_slices(self, partition: str) -> list[files.FileSlice]:
        """Return the newest slice of each file group of a partition, by file id.

        A listing for each partition, once, and a read for each pending compaction.
        """
        return self._looked().latest_slices(partition)

    def listed_files(self, partition: str) -> list[listing.DataFile]:
        """Return the data files of a partition, those that do not count, too; as `latest_slices`.

        Log files are left out that a completed commit of their instant does not name.
        """
        return self._listing.files(partition)

    def slices(self, partition: str) -> list[tuple[files.FileSlice, ...]]:
        """Return the slices of each file group of a partition, newest first; as `latest_slices`."""
        return self._looked().slices(partition)

    def _looked(self) -> view.FileSystemView:
        if self._view is None:
            self._view = view.FileSystemView(
                self.timeline,
                self._listing,
                self._counts,
                dict(self._plans()),
                {},
            )
        return self._view

    def _plans(self) -> Iterator[tuple[instants.InstantTime, plans.CompactionPlan]]:
        for pending in self.timeline.pending_compactions:
            try:
                plan = contents.read_compaction_plan(self._storage, pending)
            except errors.NotFoundError:
                continue  # Its executor died, and it was withdrawn since (`metadata.upkeep`).
            yield pending.requested_time, plan

    def _counts(self, requested_time: instants.InstantTime) -> bool:
        is_pending = requested_time in self._pending
        return not is_pending and self.timeline.is_committed(requested_time)

    def _check_is_current(self, timeline: active.ActiveTimeline) -> None:
        if not self.timeline.completed:
            raise errors.FormatError(f"{self._storage.uri} has no completed instant")
        found = metadata_timelines.lacking(self.timeline, timeline)
        if found is not None:
            raise errors.FormatError(
                f"{self._storage.uri} lacks {found}: the table was changed without it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange:
    """What a log block of an MDT changes.

    Attributes:
        group: The file group whose log it is.
        instant_time: Of the delta commit.
        keys: Of its records; binary.
        values: The records; None where they are deleted.
        schema: That of the records.
    """

    group: files.FileGroupId
    instant_time: instants.InstantTime
    keys: pa.Array
    values: pa.Array | None
    schema: bytes


class Partition:
    """The records of a partition of an MDT."""

    def __init__(
        self,
        storage: Storage,
        slices: Collection[files.FileSlice],
        counts: slicing.IsCommitted,
        held_bytes_max: int,
    ) -> None:
        """Read the logs, and the base files that are not too long; see `MetadataTable.partition`.

        Args:
            storage: The MDT's.
            slices: Of the partition.
            counts: Whether the blocks of an instant count.
            held_bytes_max: Base files up to this length are read at once.
        """
        self._held_bytes_max = held_bytes_max
        self._bases: list[hfile_reading.Reader] = []
        self._held: list[Records] = []
        self._blocks: list[log_scanning.Found[log_blocks.Block]] = []
        if not slices:
            raise errors.FormatError(f"{storage.uri} has a partition without files")
        for each in slices:
            if each.base_file is not None:
                self._open(storage, each.base_file)
            self._read_logs(storage, each.log_files, counts)

    @property
    def deleted(self) -> AbstractSet[bytes]:
        """Keys of records in base files that log files delete."""
        return self._folded[1]

    def logged(self) -> Mapping[bytes, Sequence[Value]]:
        """Return what log files hold, by key, in the order of merging."""
        return self._logged_by_key

    def log_changes(self) -> Iterator[LogChange]:
        """Yield what log files change, in the order of merging."""
        for each in self._blocks:
            with log_scanning.named(each.file):
                yield from _changes_of(each.file.group, each.block)

    def base_batches(self) -> Iterator[Records]:
        """Yield the records of base files that are not held, and the schema of each batch."""
        for reader in self._bases:
            for batch in reader.scan():
                yield batch, reader.file_info[_SCHEMA]

    def base_lookup(self, keys: pa.Array) -> Iterator[tuple[pa.Table, bytes]]:
        """Yield the records of some keys in base files that are not held, and their schema."""
        for reader in self._bases:
            yield reader.lookup(keys), reader.file_info[_SCHEMA]

    def values(self, key: str) -> list[Value]:
        """Return what is stored under a key, in the order of merging; empty for nothing."""
        encoded = key.encode()
        return [*self._base_values(encoded), *self.logged().get(encoded, ())]

    def with_prefixes(self, prefixes: Sequence[str]) -> Mapping[bytes, list[Value]]:
        """Return what is stored under the keys that begin with any of some texts, as `values`."""
        return _by_key(self.batches_with_prefixes(prefixes))

    def batches_with_prefixes(self, prefixes: Sequence[str]) -> Iterator[Records]:
        """Yield the same in batches; the records of a key are in the order of merging."""
        encoded = [each.encode() for each in prefixes]
        deleted = pa.array(sorted(self.deleted), pa.binary())
        for reader in self._bases:
            for batch in reader.with_prefixes(encoded):
                yield _without(batch, deleted), reader.file_info[_SCHEMA]
        for batch, schema in self._held:
            yield _without(_beginning(batch, encoded), deleted), schema
        for batch, schema in self._folded[0]:
            yield _beginning(batch, encoded), schema

    def _base_values(self, key: bytes) -> Iterator[Value]:
        if key in self.deleted:
            return
        yield from self._held_by_key.get(key, ())
        for reader in self._bases:
            content = reader.get(key)
            if content is not None:
                yield Value(content, reader.file_info[_SCHEMA])

    def _open(self, storage: Storage, base_file: files.BaseFile) -> None:
        read = functools.partial(storage.read, base_file.path)
        reader = hfile_reading.Reader(base_file.path, base_file.size_bytes, read)
        if _SCHEMA not in reader.file_info:
            raise errors.FormatError(f"{base_file.path} does not hold the schema of its records")
        if base_file.size_bytes > self._held_bytes_max:
            self._bases.append(reader)
            return
        for batch in reader.scan():
            self._held.append((batch, reader.file_info[_SCHEMA]))

    def _read_logs(
        self,
        storage: Storage,
        log_files: Collection[files.LogFile],
        counts: slicing.IsCommitted,
    ) -> None:
        blocks = log_scanning.read(
            storage, log_files, counts, lambda _file, _range: None, has_hfiles=True
        )
        found = {each.file for each in blocks}
        for log_file in log_files:
            if log_file not in found and counts(log_file.instant_time):
                raise errors.FormatError(f"{log_file.path} has no whole block of its instant")
        self._blocks += blocks

    @functools.cached_property
    def _folded(self) -> tuple[Sequence[Records], AbstractSet[bytes]]:
        """The records in log files, and the keys of those in base files that log files delete."""
        logs: list[Records] = []
        deleted: set[bytes] = set()
        for change in self.log_changes():
            if change.values is None:
                deleted.update(change.keys.to_pylist())
                logs = [(_without(batch, change.keys), schema) for batch, schema in logs]
            else:
                batch = pa.record_batch([change.keys, change.values], ["key", "value"])
                logs.append((batch, change.schema))
        return logs, deleted

    @functools.cached_property
    def _logged_by_key(self) -> Mapping[bytes, list[Value]]:
        return _by_key(self._folded[0])

    @functools.cached_property
    def _held_by_key(self) -> Mapping[bytes, list[Value]]:
        return _by_key(self._held)


def _changes_of(group: files.FileGroupId, block: log_blocks.Block) -> Iterator[LogChange]:
    time = log_scanning.instant_time(block)
    if block.type is BlockType.DELETE:
        keys = delete_records.decode(block.content).keys.cast(pa.binary())
        yield LogChange(group=group, instant_time=time, keys=keys, values=None, schema=b"")
        return
    schema = block.header.get(HeaderKey.SCHEMA, "").encode()
    for batch in hfile_reading.Reader.over("the block", block.content).scan():
        yield LogChange(
            group=group,
            instant_time=time,
            keys=batch.column("key"),
            values=batch.column("value"),
            schema=schema,
        )


def _without(batch: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
    """Return the records of other keys."""
    if not len(keys):
        return batch
    return batch.filter(pc.invert(pc.is_in(batch.column("key"), value_set=keys)))


def _beginning(batch: pa.RecordBatch, prefixes: Sequence[bytes]) -> pa.RecordBatch:
    """Return the records whose keys begin with any of some texts."""
    keys = batch.column("key")
    is_wanted = pa.repeat(False, len(keys))
    for length in {len(each) for each in prefixes}:
        of_length = pa.array([each for each in prefixes if len(each) == length], pa.binary())
        starts = pc.binary_slice(keys, 0, length)
        is_wanted = pc.or_(is_wanted, pc.is_in(starts, value_set=of_length))
    return batch.filter(is_wanted)


def _by_key(records: Iterable[Records]) -> Mapping[bytes, list[Value]]:
    found: defaultdict[bytes, list[Value]] = defaultdict(list)
    for batch, schema in records:
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        for key, content in zip(keys, values, strict=True):
            found[key].append(Value(content, schema))
    return dict(found)
