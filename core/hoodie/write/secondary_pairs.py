"""The pairs of value and record key that a write brings to secondary indexes, and takes out.

    gather   before the lock: what the tasks that wrote base files have seen; of other file groups
             that the write touched, and of those that it retires, the rows before and after it
    settle   in the lock scope: whether others have logged since what hides it

What others do to the same file groups meanwhile is a conflict, so that the rows before are those
that the write meets. Non-blocking writers do meet others there: they take nothing out, and add what
they wrote, whatever wins. A pair without a row does no harm. Nor is anything taken out where a key
may be in two partitions, since no record index of the whole table has it once: of both rows there
is one pair.

The newest record of a pair counts in the order of requested times. So a write gives way to one that
began later, was faster, and took out a pair that it brings.

Cost: of log files two columns of the rows that they have, before and after, and of base files whose
tasks did not know of an index those of all rows. Requests: for these a listing of each partition,
and those of the reads; in the lock
scope, where others have changed the index since the write began, a listing for each index, and a
read for each of their log files. Source: `SecondaryIndexRecordGenerationUtils.java` (1.2.0);
protocol.md: The metadata table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.engine import ahead
from hoodie.filegroup import metadata_records, metadata_table, snapshots
from hoodie.format import file_names
from hoodie.model import (
    commits,
    files,
    instants,
    key_changes,
    schemas,
    secondary_indexes,
    table_config,
)
from hoodie.storage import protocol
from hoodie.timeline import index_definitions
from hoodie.transaction import lifecycle, stored_schemas, table_lock
from hoodie.transaction.client import OpenAction

with deferred.imports():
    from hoodie.filegroup import held_keys
    from hoodie.format import secondary_keys

_NAMED_MAX = 3
_THREADS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What is known of a write whose data files are there.

    Attributes:
        requested_time: Its own.
        retired: The file groups that it retires.
        is_alone: Whether no other writes to the same file groups meanwhile.
        threads: Look into several file groups.
    """

    requested_time: instants.InstantTime
    retired: Collection[files.FileGroupId] = ()
    is_alone: bool = True
    threads: int = 1


def settling(
    storage: protocol.Storage,
    schema: schemas.TableSchema,
    write: Write,
    of_keys: lifecycle.Settling,
) -> lifecycle.Settling:
    """Return what finds the pairs of a write before its lock scope, beside its keys.

    Args:
        storage: The table's.
        schema: As of `gathered`.
        write: The write.
        of_keys: Looks up its keys.
    """

    def settle(
        config: table_config.TableConfig, stats: Sequence[commits.WriteStat]
    ) -> lifecycle.Settlement | None:
        keys = of_keys(config, stats)
        pairs = gathered(storage, config, schema, stats, write)
        if pairs is None:
            return keys

        def both(scope: table_lock.LockScope, opened: OpenAction) -> metadata_records.SettledKeys:
            settled = metadata_records.SettledKeys(written=stats)
            if keys is not None:
                settled = keys(scope, opened)
            return replace(settled, pairs=pairs.settle(scope, opened))

        return both

    return settle


class Pairs:
    """What a write does to the secondary indexes of a table."""

    def __init__(
        self, storage: protocol.Storage, changes: Sequence[secondary_indexes.PairChanges]
    ) -> None:
        self._storage = storage
        self._changes = changes

    def settle(
        self, scope: table_lock.LockScope, write: OpenAction
    ) -> Sequence[secondary_indexes.PairChanges]:
        """Return what the indexes have to learn of.

        Args:
            scope: Of the write's completion.
            write: The write.

        Raises:
            WriteConflictError: A later write that was faster took out a pair that this one brings.
            FormatError: An index is damaged.
        """
        later = _later(scope, write)
        if later:
            table = metadata_table.MetadataTable(self._storage, scope.timeline)
            for each in self._changes:
                _refuse_below(table, each, later, write)
        return self._changes


def gathered(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    stats: Sequence[commits.WriteStat],
    write: Write,
) -> Pairs | None:
    """Return what a write does to the secondary indexes of a table; None without any.

    Args:
        storage: The table's.
        config: Its configuration, by which indexes are kept up.
        schema: The table's columns, with those that the write adds.
        stats: Of the write.
        write: The write.

    Raises:
        FormatError: A data file is broken, or the definition of an index.
        UnsupportedError: An index has what is not kept up.
        WriteConflictError: A file was cleaned meanwhile.
    """
    definitions = index_definitions.of_secondary_indexes(
        storage, config, config.metadata_partitions_kept_up
    )
    if not definitions:
        return None
    if not {each.column for each in definitions} <= set(schema.arrow.names):
        # Another write has added it since this one began, whose rows have no value there.
        stored = stored_schemas.newest(storage, config)
        schema = schema if stored is None else stored.columns
    for each in definitions:
        refusal = secondary_indexes.upkeep_refusal(each, schema.arrow, config.name)
        if refusal is not None:
            raise refusal
    takes_out = write.is_alone and _has_keys_once(storage, config)

    seen = [_seen(definitions, stat) for stat in stats]
    unseen = [stat for stat, of_task in zip(stats, seen, strict=True) if of_task is None]

    def look(snapshot: snapshots.Snapshot) -> Sequence[_Differences]:
        source = _Source(storage, config, schema, snapshot, definitions, write)
        return list(_looked(source, unseen))

    found = [of_task for of_task in seen if of_task is not None]
    try:
        if unseen or write.retired:
            found += snapshots.consistent(storage, config, look)
    except errors.NotFoundError as error:
        raise errors.WriteConflictError(
            f"{storage.uri} was cleaned while the values of its secondary indexes were read: write "
            f"the batch again; {error}"
        ) from error
    by_index = zip(definitions, zip(*found, strict=True), strict=True) if found else ()
    changes = [_changes(each, of_groups, takes_out=takes_out) for each, of_groups in by_index]
    return Pairs(storage, changes)


def _seen(
    definitions: Sequence[secondary_indexes.Definition], stat: commits.WriteStat
) -> _Differences | None:
    """Return what the task that wrote a base file has seen; None where it does not know all.

    What was there before is what the write meets: a file that is replaced has no logs over it.
    """
    if not all(each.column in stat.pairs for each in definitions):
        return None
    of_columns = [stat.pairs[each.column] for each in definitions]
    return [_Difference(added=each.added, removed=each.removed) for each in of_columns]


def _has_keys_once(storage: protocol.Storage, config: table_config.TableConfig) -> bool:
    """Return whether a key is in one file group of the table at most; a request."""
    has_index = key_changes.RECORD_INDEX in config.metadata_partitions
    return has_index and not index_definitions.is_partitioned(storage)


@dataclass(frozen=True, slots=True)
class _Difference:
    """What a write does to the pairs of an index in one file group."""

    added: pa.Array
    removed: pa.Array


_Differences: TypeAlias = Sequence[_Difference]
"""Those of one file group, by index."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where rows are read."""

    storage: protocol.Storage
    config: table_config.TableConfig
    schema: schemas.TableSchema
    snapshot: snapshots.Snapshot
    definitions: Sequence[secondary_indexes.Definition]
    write: Write

    @property
    def columns(self) -> list[str]:
        """Those of the indexes, each once."""
        return list(dict.fromkeys(each.column for each in self.definitions))

    def rows(self, file_slice: files.FileSlice | None, keys: pa.Array | None) -> pa.Table:
        """Return rows of a slice; those of some keys, or all."""
        names = [schemas.RECORD_KEY, *self.columns]
        if file_slice is None or (keys is not None and not len(keys)):
            full = pa.schema([*schemas.meta_fields(), *self.schema.arrow])
            return pa.schema([full.field(name) for name in names]).empty_table()
        if keys is None:
            return held_keys.all_rows(self.keys, file_slice, self.columns)
        return held_keys.rows(self.keys, file_slice, keys, self.columns)

    @property
    def keys(self) -> held_keys.KeySource:
        """The table with what the write itself wrote."""
        committed, own = self.snapshot.committed.is_committed, self.write.requested_time
        return held_keys.KeySource(
            self.storage, self.config, self.schema, lambda time: time == own or committed(time)
        )

    def slices(
        self, groups: Iterable[files.FileGroupId]
    ) -> Mapping[files.FileGroupId, files.FileSlice]:
        """Return the newest slices of file groups, of those that are there."""
        wanted = set(groups)
        return {
            each.group: each
            for path in sorted({group.partition_path for group in wanted})
            for each in self.snapshot.view.latest_slices(path)
            if each.group in wanted
        }


def _looked(source: _Source, stats: Sequence[commits.WriteStat]) -> Iterator[_Differences]:
    """Yield what a write does in each file group; of as many as there are threads rows are held."""
    own = _own_files(stats)
    slices = source.slices([*own, *source.write.retired])

    def touched(group: files.FileGroupId) -> _Differences:
        before, after, logs = _beside(slices.get(group), group, own[group])
        keys = None if logs is None else held_keys.logged_keys(source.keys, logs)
        logged = source.rows(None if source.write.is_alone else logs, keys)
        was, there = source.rows(before, keys), source.rows(after, keys)
        return [_difference(each, was, there, logged) for each in source.definitions]

    def retired(file_slice: files.FileSlice) -> _Differences:
        rows = source.rows(file_slice, None)
        nothing = rows.slice(0, 0)
        return [_difference(each, rows, nothing, nothing) for each in source.definitions]

    threads = max(1, min(source.write.threads, _THREADS_MAX))
    yield from ahead.results(touched, list(own), threads)
    gone = [slices[group] for group in source.write.retired if group in slices]
    yield from ahead.results(retired, gone, threads)


def _difference(
    definition: secondary_indexes.Definition, before: pa.Table, after: pa.Table, logged: pa.Table
) -> _Difference:
    """Return what a write does in a file group.

    Args:
        definition: The index.
        before: Rows without the write.
        after: With it.
        logged: Its own, where others write to the file group meanwhile.
    """
    was, there, own = (
        secondary_keys.of_rows(definition.column, rows) for rows in (before, after, logged)
    )
    return _Difference(
        added=pa.concat_arrays([_without(there, was), own]), removed=_without(was, there)
    )


_DataFile = files.BaseFile | files.LogFile


def _own_files(
    stats: Sequence[commits.WriteStat],
) -> Mapping[files.FileGroupId, Sequence[_DataFile]]:
    """Return the data files of a write by file group."""
    found: dict[files.FileGroupId, list[_DataFile]] = {}
    for stat in stats:
        parsed = file_names.parse(stat.path, stat.size_bytes)
        if isinstance(parsed, files.BaseFile | files.LogFile):
            found.setdefault(parsed.group, []).append(parsed)
    return found


def _beside(
    before: files.FileSlice | None, group: files.FileGroupId, own: Sequence[_DataFile]
) -> tuple[files.FileSlice | None, files.FileSlice, files.FileSlice | None]:
    """Return a file group's slice without what a write wrote, with it, and its log files alone."""
    base_file = next((each for each in own if isinstance(each, files.BaseFile)), None)
    if base_file is not None:
        after = files.FileSlice(
            group=group,
            base_instant_time=base_file.instant_time,
            base_file=base_file,
            log_files=(),
        )
        return before, after, None
    logs = tuple(each for each in own if isinstance(each, files.LogFile))
    since = logs[0].instant_time if before is None else before.base_instant_time
    alone = files.FileSlice(
        group=group,
        base_instant_time=since,
        base_file=None,
        log_files=files.in_merge_order(logs, since),
    )
    if before is None:
        return None, alone, alone
    together = files.in_merge_order([*before.log_files, *logs], since)
    return before, replace(before, log_files=together), alone


def _changes(
    definition: secondary_indexes.Definition,
    of_groups: Iterable[_Difference],
    *,
    takes_out: bool,
) -> secondary_indexes.PairChanges:
    found = list(of_groups)
    brought = pa.concat_arrays([_NONE, *(each.added for each in found)])
    gone = pa.concat_arrays([_NONE, *(each.removed for each in found if takes_out)])
    return secondary_indexes.PairChanges(
        definition=definition, added=brought, removed=_without(gone, brought)
    )


_NONE = pa.nulls(0, pa.string())


def _without(pairs: pa.Array, others: pa.Array) -> pa.Array:
    if not len(pairs) or not len(others):
        return pairs
    return pairs.filter(pc.invert(pc.is_in(pairs, value_set=others)))


def _later(scope: table_lock.LockScope, write: OpenAction) -> frozenset[instants.InstantTime]:
    """Return what was requested after a write, and has changed the metadata table by now."""
    assert scope.beside is not None, write.inflight
    return frozenset(
        each.requested_time
        for each in scope.beside.completed_writes
        if each.action is instants.Action.DELTA_COMMIT
        and each.requested_time > write.requested_time
        and each.requested_time in scope.timeline.write_completion_times
    )


def _refuse_below(
    table: metadata_table.MetadataTable,
    changes: secondary_indexes.PairChanges,
    later: Collection[instants.InstantTime],
    write: OpenAction,
) -> None:
    if not len(changes.added):
        return
    name = changes.definition.partition
    slices = table.latest_slices(name)
    if not slices:
        return  # It was made since, and what it was made of is no later write.
    gone: Iterator[pa.Array] = (
        change.keys.cast(pa.string())
        for change in table.logs_of(slices, lambda time: time in later).log_changes()
        if change.values is None
    )
    removed = pa.concat_arrays([_NONE, *gone])
    below = changes.added.filter(pc.is_in(changes.added, value_set=removed))
    if len(below):
        keys = secondary_keys.record_keys(below.slice(0, _NAMED_MAX)).to_pylist()
        raise errors.WriteConflictError(
            f"rows that {write.inflight} brings, such as those of the keys "
            f"{', '.join(map(repr, keys))}, are those that a write took out of {name} that began "
            "later and completed first: write the batch again, on what the table holds now"
        )
