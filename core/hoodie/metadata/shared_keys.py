"""The record index of a table that other engines write as well, made in one scope (ADR 0032).

    look       without the lock: the keys of all rows as of a timeline (`initial_keys`), as base
               files in memory
    catch up   without the lock, and in the scope that makes the index: what the files of changes
               since say of keys
    settle     the same, if writes of other engines are pending in that scope: what the changes have
               decided comes into the base files, so that all they log lies above (ADR 0052)
    content    in that scope: the base files, and a log with what the changes have decided

A change is asked by its own files: which keys are new in a file group, and which ones it took out.
Where a key is said to be in several file groups, or was taken out, or a compaction brings it, the
data are asked as they are then. So each key has the file group of its row, whatever order writes
complete in.

Memory: the base files, 7 to 27 bytes for each key, and keys that changes touched. Source: ADR 0032;
protocol.md: Indexes built beside writers.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.engine import ahead
from hoodie.filegroup import (
    held_keys,
    metadata_merging,
    metadata_records,
    metadata_writing,
    snapshots,
    stored_keys,
)
from hoodie.format import file_names, hfile_reading, record_locations
from hoodie.metadata import index_steps, initial_keys, initial_parts, partition_making
from hoodie.model import commits, files, instants, schemas, table_config
from hoodie.model.key_changes import NOWHERE
from hoodie.timeline import active
from hoodie.transaction.client import Client

BYTES_MAX = 512 << 20
"""Base files of this length are held in memory, and uploaded under the lock."""

BYTES_UNDER_LOCK_MAX = 256 << 20
"""Files of this length, of changes, are looked into under the lock."""

BYTES_SETTLED_UNDER_LOCK_MAX = 128 << 20
"""Base files of this length are made again under the lock: some five million keys, as many seconds
of a processor."""


class SharedKeys:
    """What was found of keys without the lock, and since."""

    def __init__(
        self,
        client: Client,
        config: table_config.TableConfig,
        schema: schemas.TableSchema,
        snapshot: snapshots.Snapshot,
        layout: initial_keys.Layout,
        runner: initial_parts.Runner,
    ) -> None:
        """Read the keys of all rows.

        Args:
            client: Whose build it is.
            config: The table's configuration.
            schema: Its columns.
            snapshot: Of the look.
            layout: The file groups of the index.
            runner: Has the keys read.

        Raises:
            InvalidInputError: A key is in two file groups.
            UnsupportedError: There are too many keys.
            HoodieError: As `initial_parts.Runner.by_group`.
        """
        self._client = client
        self._config = config
        self._schema = schema
        self._layout = layout
        slices = snapshot.newest_slices()
        self._numbers = initial_keys.Numbers(each.group for each in slices)
        self._times = {
            self._numbers.of(each.group): instants.InstantTime(each.base_instant_time)
            for each in slices
        }
        self._decided: dict[str | None, pa.Table] = {}
        prepare = functools.partial(prepared, client.clock.now_ms())
        work = initial_keys.KeyWork.of(client, self._source(snapshot), layout, slices, prepare)
        self._bases = held(
            runner.by_group(slices, work),
            f"the record index of {client.storage.uri}",
            "have a writer of Apache Hudi build it by its option",
        )

    def catch_up(
        self, timeline: active.ActiveTimeline, changes: Sequence[metadata_records.Changes]
    ) -> None:
        """Decide where the keys are that changes touched.

        Args:
            timeline: Read since; it has them.
            changes: Completed since the last time; none has retired file groups.

        Raises:
            InvalidInputError: A key is in two file groups.
            NotFoundError: A file was removed meanwhile.
            FormatError: A data file is broken.
        """
        stats = [stat for each in changes for stat in each.written]
        if not stats:
            return
        snapshot = snapshots.take(
            self._client.storage, self._config, timeline, has_committed_only=True
        )
        read = functools.partial(
            stored_keys.changes_by, self._source(snapshot), takes_keys_out=True
        )
        added: dict[str | None, list[pa.Table]] = {}
        removed: dict[str | None, list[pa.Array]] = {}
        found = ahead.results(read, stats, self._client.parallelism)
        for stat, keys in zip(stats, found, strict=True):
            number = self._touched(stat)
            key_space = self._layout.key_space(stat.partition_path)
            brought = keys.added.cast(pa.binary())
            rows = pa.table([brought, pa.repeat(number, len(brought))], initial_keys.LOCATED)
            added.setdefault(key_space, []).append(rows)
            gone = removed.setdefault(key_space, [])
            gone.append(keys.removed.cast(pa.binary()))
            if not self._config.is_copy_on_write and metadata_records.base_files([stat.path]):
                # A compaction brings keys as of its plan, which logs on top of it may have deleted.
                gone.append(brought)
        for key_space, tables in added.items():
            gone = pc.unique(pa.chunked_array(removed[key_space], pa.binary()))
            self._decide(snapshot, key_space, pa.concat_tables(tables), gone)

    @property
    def groups(self) -> Sequence[files.FileGroupId]:
        """The file groups of the index."""
        return self._layout.groups

    @property
    def key_spaces(self) -> Collection[str | None]:
        """The partitions that have file groups in an index of each; None for the whole table."""
        return self._layout.places.keys()

    def grow(self, record_groups: index_steps.RecordGroups) -> None:
        """Give partitions file groups in an index of each that came into being since.

        Args:
            record_groups: How many each partition gets; of those that have some nothing changes.
        """
        places = self._layout.places
        counts = {**record_groups, **{path: len(own) for path, own in places.items()}}
        new = [path for path in counts if path not in places]
        ordered = {path: counts[path] for path in (*places, *new)}
        self._layout = initial_keys.Layout.of(ordered, is_partitioned=True)
        self._bases += [None] * sum(counts[path] for path in new)

    @property
    def unsettled_bytes(self) -> int:
        """The length of the base files that `settle` makes again."""
        bases = (self._bases[place] for place, _ in self._unsettled())
        return sum(len(base.content) for base in bases if base is not None)

    def settle(self) -> None:
        """Bring what changes have decided into the base files."""
        assert self._decided.keys() <= self._layout.places.keys(), "it has not grown"
        for place, decided in self._unsettled():
            base = self._bases[place]
            older = metadata_merging.SCHEMA.empty_table()
            if base is not None:
                scan = hfile_reading.Reader.over("a base file", base.content).scan()
                found = (pa.table(each.columns, metadata_merging.SCHEMA) for each in scan)
                older = pa.concat_tables([older, *found])
            keys = decided.column("key").combine_chunks()
            kept = older.filter(pc.invert(pc.is_in(older.column("key"), value_set=keys)))
            rows = pa.concat_tables([kept, self._added(decided).table]).sort_by("key")
            now_ms = self._client.clock.now_ms()
            self._bases[place] = metadata_writing.prepare_base(rows, now_ms)
        self._decided.clear()

    def _unsettled(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield what changes have decided by the places of file groups, as `LOCATED`."""
        for key_space, decided in self._decided.items():
            touched = decided.column("key").combine_chunks()
            for place, keys in self._layout.split(key_space, touched):
                yield place, decided.filter(pc.is_in(decided.column("key"), value_set=keys))

    def whole_content(self) -> partition_making.Content:
        """Return all of a settled index in base files, which hide what others have logged so far.

        Also a file group without keys has one: those that it had may have been logged.
        """
        assert not self._decided, "it was not settled"
        now_ms = self._client.clock.now_ms()
        empty = metadata_writing.prepare_base(metadata_merging.SCHEMA.empty_table(), now_ms)
        return partition_making.Content(
            bases=[empty if base is None else base for base in self._bases],
            groups=self._layout.groups,
        )

    def content(self) -> partition_making.Content:
        """Return what the index begins with, as of the last time."""
        logs = {place: self._added(decided) for place, decided in self._unsettled()}
        return partition_making.Content(bases=[*self._bases], groups=self._layout.groups, logs=logs)

    def _touched(self, stat: commits.WriteStat) -> int:
        """Return the number of the file group that a file is of, which has its write's time now."""
        number = self._numbers.of(files.FileGroupId(stat.partition_path, stat.file_id))
        parsed = file_names.parse(stat.path, 0)
        if parsed is not None:
            self._times[number] = instants.InstantTime(parsed.instant_time)
        return number

    def _decide(
        self,
        snapshot: snapshots.Snapshot,
        key_space: str | None,
        added: pa.Table,
        removed: pa.Array,
    ) -> None:
        """Decide where keys are.

        Args:
            snapshot: The table now.
            key_space: Theirs.
            added: Keys with the file groups that changes put them into.
            removed: Keys that changes took out of a file group.
        """
        touched = pc.unique(pa.chunked_array([*added.column("key").chunks, removed], pa.binary()))
        before = self._before(key_space, touched)
        claims = pa.concat_tables([before, added])
        doubtful = pc.unique(
            pa.chunked_array([removed, initial_keys.in_several(claims)], pa.binary())
        )
        is_doubtful = pc.is_in(claims.column("key"), value_set=doubtful)
        known = before.filter(pc.not_equal(before.column("group"), NOWHERE)).column("key")
        is_known = pc.is_in(claims.column("key"), value_set=known.combine_chunks())
        sure = claims.filter(pc.invert(pc.or_(is_doubtful, is_known)))
        settled = self._looked_up(snapshot, claims.filter(is_doubtful))
        decided = self._decided.get(key_space, initial_keys.LOCATED.empty_table())
        rows = pa.concat_tables([decided, sure, settled])
        self._decided[key_space] = metadata_merging.last_of_each(rows)

    def _before(self, key_space: str | None, keys: pa.Array) -> pa.Table:
        """Return where keys were, of those that were anywhere."""
        rows = [initial_keys.LOCATED.empty_table()]
        for place, some in self._layout.split(key_space, keys):
            base = self._bases[place]
            if base is not None:
                reader = hfile_reading.Reader.over("a base file", base.content)
                found = reader.lookup(some).select(["key", "value"])
                records = pa.table(found.columns, metadata_merging.SCHEMA)
                rows.append(initial_keys.numbered(records, self._numbers.of))
        decided = self._decided.get(key_space)
        if decided is not None:
            rows.append(decided.filter(pc.is_in(decided.column("key"), value_set=keys)))
        return metadata_merging.last_of_each(pa.concat_tables(rows))

    def _looked_up(self, snapshot: snapshots.Snapshot, claims: pa.Table) -> pa.Table:
        """Return where keys are by the data, of file groups that may have them."""
        keys = pc.unique(claims.column("key"))
        held_by: Mapping[bytes, Sequence[int]] = {}
        if len(keys):
            source = self._source(snapshot)
            held_by = initial_keys.holders(source, snapshot, self._numbers, claims)
        twice = [key for key, numbers in held_by.items() if len(numbers) > 1]
        if twice:
            groups = self._numbers.groups
            where = [groups[number] for number in held_by[twice[0]][:2]]
            raise initial_keys.twice(
                self._client.storage.uri, self._layout, twice, where, len(twice)
            )
        found = [held_by.get(key, (NOWHERE,))[0] for key in keys.to_pylist()]
        return pa.table([keys, pa.array(found, pa.int64())], initial_keys.LOCATED)

    def _added(self, decided: pa.Table) -> metadata_records.Added:
        """Return the records of keys, and which have none any more."""
        numbers = decided.column("group").combine_chunks()
        is_there = pc.not_equal(numbers, NOWHERE)
        groups = self._numbers.groups
        there = decided.filter(is_there).sort_by("key")
        known = pc.unique(there.column("group"))
        values = pa.array(
            [self._record(groups[number], number) for number in known.to_pylist()], pa.binary()
        )
        places = pc.index_in(there.column("group").combine_chunks(), value_set=known)
        return metadata_records.Added(
            table=pa.table(
                [there.column("key").combine_chunks(), values.take(places)],
                metadata_merging.SCHEMA,
            ),
            deleted=decided.filter(pc.invert(is_there)).column("key").combine_chunks(),
        )

    def _record(self, group: files.FileGroupId, number: int) -> bytes:
        # Of a write that readers know: Apache Hudi takes a key for a new one otherwise.
        since = self._client.time_zone.epoch_ms(self._times[number])
        return record_locations.encode(group, since)

    def _source(self, snapshot: snapshots.Snapshot) -> held_keys.KeySource:
        return held_keys.KeySource(
            self._client.storage, self._config, self._schema, snapshot.committed.is_committed
        )


def prepared(
    now_ms: int, number: int, records: Iterator[pa.Table]
) -> metadata_writing.PreparedBase | None:
    """Return the base file of a file group; None without records.

    Args:
        now_ms: The time, in milliseconds since the epoch.
        number: Of the file group, which is the same to all.
        records: In order, in pieces.
    """
    del number
    pieces = list(records)
    return metadata_writing.prepare_base(pa.concat_tables(pieces), now_ms) if pieces else None


def held(
    bases: Iterable[tuple[int, metadata_writing.PreparedBase | None]], index: str, way_out: str
) -> list[metadata_writing.PreparedBase | None]:
    """Return the base files of an index, by file group.

    Args:
        bases: With the numbers of their file groups, in this order.
        index: Which one, and of which table.
        way_out: What to do where they are too long.

    Raises:
        UnsupportedError: They are longer than `BYTES_MAX`.
    """
    found = []
    size_bytes = 0
    for _, base in bases:
        size_bytes += 0 if base is None else len(base.content)
        if size_bytes > BYTES_MAX:
            raise errors.UnsupportedError(
                f"{index} has more than {BYTES_MAX >> 20} MiB, which is the most in a table that "
                f"other engines write, since it is uploaded under its lock: {way_out}"
            )
        found.append(base)
    return found


def length_of(changes: Sequence[metadata_records.Changes]) -> int:
    """Return the length of the files in bytes that are looked into for changes."""
    return int(np.sum([stat.size_bytes for each in changes for stat in each.written], initial=0))
