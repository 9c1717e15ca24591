"""The part of a write that scales: rows into data files, file group by file group.

    copy-on-write    the file group's next base file
    merge-on-read    a log file; of an empty bucket a base file, by a bulk insert or a single
                     writer, unless rows that are deleted must hold against later ones; a base file
                     of new rows, where writers look keys up (`write.lookups`)
    replacements     base files of new file groups in either (`write.replacements`)

A `WriteTask` is a value made once a write has begun; any number of processes may run it over parts
of the input. What they wrote counts once the driver completes the instant with their stats; files
of attempts that died are known by their markers.

    run      all rows of some buckets or partitions, by one process
    place    says of each row which file groups it is written to, once a write, where tasks that
             decide it each for itself would write one file group, or one key twice
    write    the data files of some of these file groups
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.engine import local
from hoodie.engine import protocol as engine_protocol
from hoodie.filegroup import snapshots, writing
from hoodie.format import file_names
from hoodie.index import partitions, tables
from hoodie.model import (
    commits,
    file_statistics,
    files,
    instants,
    key_changes,
    partition_columns,
    schemas,
    settings,
    table_config,
)
from hoodie.storage import protocol
from hoodie.transaction import heartbeats, markers
from hoodie.write import batches, placement

with deferred.imports():
    from hoodie.filegroup import block_decoding, held_keys, reading, rewriting
    from hoodie.index import foreign_groups
    from hoodie.timeline import partition_buckets
    from hoodie.write import composition, early_conflicts, lookups, tagging


_NO_ROWS: batches.Rows = np.empty(0, np.int64)

Values = TypeVar("Values", pa.Table, pa.Array)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """What a process needs to know to write data files of a write; it pickles.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The columns that batches are prepared in: the table's when it was opened, and those
            that the write adds.
        stored_schema: The columns of its data files: the table's when the write began, and those
            that it adds. What a base file holds is rewritten whole, whoever wrote it since.
        instant_time: The write's requested time.
        write_id: Of the write: whose heartbeat must be there for as long as files are written.
        operation: What it does; anything but a delete of partitions, which has no rows.
        settings: The writer's settings.
        committed: As the write began; tells committed file groups from leftovers.
        replaced: When each file group that a replace commit retired was retired.
        known: Slices whose keys an insert leaves out; none unless it drops duplicates.
        hashing_config: Bucket counts by partition, as the write began; None for one of all.
        detection: How to find conflicts before writing; None for not.
        statistics: Which ones are gathered of the data files.
        tracks_keys: Whether stats have the keys that the write adds and removes.
        indexed_columns: Those of secondary indexes, whose pairs stats of base files have.
        sort_by: Columns by which a bulk insert sorts the rows of base files; none for no order.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    stored_schema: schemas.TableSchema
    instant_time: instants.InstantTime
    write_id: str
    operation: commits.Operation
    settings: settings.WriteSettings
    committed: snapshots.CommittedInstants
    replaced: Mapping[files.FileGroupId, instants.InstantTime]
    known: Mapping[files.FileGroupId, files.FileSlice] = field(default_factory=dict)
    hashing_config: partition_buckets.HashingConfig | None = None
    detection: early_conflicts.Detection | None = None
    statistics: file_statistics.Wanted = file_statistics.NOTHING
    tracks_keys: bool = False
    indexed_columns: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()

    @property
    def file_schema(self) -> schemas.TableSchema:
        """The columns that data files get."""
        return partition_columns.stored(self.schema, self.config)

    @property
    def file_order(self) -> tuple[str, ...]:
        """Those of the columns that sort the rows of a file; others have one value in each."""
        left_out = partition_columns.left_out(self.config)
        return tuple(each for each in self.sort_by if each not in left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteToken:
    """Which attempt of which task writes; unique within an instant.

    Attributes:
        task: The task's number.
        stage: The number of its stage; files of further partitions have those that follow.
        attempt: The attempt's number.
        is_alone: Whether no other task has rows of the write.
    """

    task: int = 0
    stage: int = 0
    attempt: int = 0
    is_alone: bool = True


def prepare(task: WriteTask, data: pa.Table, storage: protocol.Storage) -> batches.Batch:
    """Return rows ready to be written by a task, split by bucket; see `batches.prepare`.

    Which bucket a row is in follows from the row and from the table as the write began, so that all
    processes agree. Cost: of a table with consistent hashing, a listing and a read a partition.
    """
    batch = batches.prepare(
        data,
        task.config,
        task.schema,
        task.operation,
        fills_columns=task.settings.adds_columns,
    )
    committed = snapshots.CommittedFiles(storage, task.committed)
    return _split(batch, _indexes(task, storage, committed))


def outline(task: WriteTask, batch: batches.Batch) -> batches.Outline:
    """Return what `place` needs of a batch that was made by `prepare`."""
    config, names = task.config, task.stored_schema.arrow.names
    wanted = set() if batch.marks is None else {*config.ordering_fields}
    if config.looks_keys_up:
        wanted |= {*config.ordering_fields, *block_decoding.deleting_columns(config), *task.sort_by}
    batch = batches.in_columns(batch, task.stored_schema)
    return batches.outline(batch, [name for name in names if name in wanted])


def place(
    task: WriteTask,
    outlines: Sequence[batches.Outline],
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> lookups.Placed:
    """Decide which file groups rows are written to; their partitions are created.

    Args:
        task: The write.
        outlines: Of all rows, in the order of the input; at least one.
        storage: The table's.
        engine: Reads the files of the table.

    Returns:
        A batch of the outlines' columns: positions are those of the rows of all outlines.

    Raises:
        HoodieError: A file cannot be read.
    """
    batch = batches.of_outlines(outlines, task.config)
    if _generates_keys(task):
        batch = batches.with_generated_keys(batch, task.instant_time, task=0)
    task = replace(task, schema=task.stored_schema)
    return _placed(task, batch, _groups(task, storage), WriteToken(), storage, engine)


def write(
    task: WriteTask,
    batch: batches.Batch,
    token: WriteToken,
    storage: protocol.Storage,
    mark: early_conflicts.Mark | None = None,
) -> list[commits.Written]:
    """Write the data files of some file groups that `place` has chosen, one after the other.

    Args:
        task: The write.
        batch: Made by `prepare`, of all rows or some, with those of the groups of `place` that are
            to be written, and their positions in it.
        token: As of `run`.
        storage: The table's.
        mark: As of `run`.

    Raises:
        WriteConflictError, HeartbeatExpiredError: As of `run`.
    """
    task, batch = _stored(task, batch, token)
    groups = _groups(task, storage)
    for path in batch.partition_paths:
        groups.prepare(path, is_created=False)
    return _written(task, batch, groups, token, local.LocalEngine(1), mark)


def run(
    task: WriteTask,
    batch: batches.Batch,
    token: WriteToken,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None = None,
) -> list[commits.Written]:
    """Write a batch's data files and return what was written to each file group, if anything.

    Args:
        task: The write.
        batch: Made by `prepare`, or by `batches.prepare` before the write began.
        token: No other call for this instant may have the same.
        storage: The table's.
        engine: Runs the file groups; threads of this process.
        mark: Made by `early_conflicts.marking` of the task's detection.

    Raises:
        WriteConflictError: A conflict was found early.
        HeartbeatExpiredError: The write was judged dead.
        SharedGroupError: Other calls may have rows of a base file that this one would write.
    """
    task, batch = _stored(task, batch, token)
    groups = _groups(task, storage)
    if not token.is_alone and _has_shared_groups(task, batch.partition_paths, groups):
        raise errors.SharedGroupError(
            f"{task.table_uri} has file groups of no bucket, which take rows of all buckets: one "
            "process must decide which rows these are"
        )
    placed = _placed(task, batch, groups, token, storage, engine)
    written = _written(task, placed.batch, groups, token, engine, mark)
    return [*placed.facts, *written]


def _stored(
    task: WriteTask, batch: batches.Batch, token: WriteToken
) -> tuple[WriteTask, batches.Batch]:
    """Return a task and its batch in the columns of data files, each row with a key."""
    batch = batches.in_columns(batch, task.stored_schema)
    if _generates_keys(task):
        batch = batches.with_generated_keys(batch, task.instant_time, token.task)
    return replace(task, schema=task.stored_schema), batch


def _generates_keys(task: WriteTask) -> bool:
    # What is updated or deleted has the key that it was added with.
    return task.operation.adds_rows and not task.config.record_key_fields


def _indexes(
    task: WriteTask, storage: protocol.Storage, committed: snapshots.CommittedFiles
) -> partitions.PartitionIndexes:
    """Return the indexes of partitions as the write began."""
    return partitions.PartitionIndexes(
        storage, task.config, task.hashing_config, committed.is_committed
    )


def _groups(task: WriteTask, storage: protocol.Storage) -> placement.Placement:
    committed = snapshots.CommittedFiles(storage, task.committed)
    indexes = _indexes(task, storage, committed)
    return placement.Placement(
        storage, task.config, committed, task.replaced, task.instant_time, indexes
    )


def _split(batch: batches.Batch, indexes: partitions.PartitionIndexes) -> batches.Batch:
    """Return a batch split by the buckets of each partition."""
    if batch.is_by_partition or indexes.are_all_alike:
        return batch
    return batches.by_indexes(batch, indexes.of)


def has_shared_groups(task: WriteTask, paths: Sequence[str], storage: protocol.Storage) -> bool:
    """Return whether rows of several buckets may go to one base file in some partitions.

    That is so where another engine wrote outside of the buckets; lists the partitions.
    """
    return _has_shared_groups(task, paths, _groups(task, storage))


def _has_shared_groups(task: WriteTask, paths: Sequence[str], groups: placement.Placement) -> bool:
    if task.config.looks_keys_up or task.operation.replaces or not task.config.is_copy_on_write:
        return False
    for path in paths:
        groups.prepare(path, is_created=False)
    return any(groups.foreign_groups(path) for path in paths)


def _written(
    task: WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    token: WriteToken,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None,
) -> list[commits.Written]:
    """Write the data files of a batch's file groups, whose partitions are prepared."""
    assert (mark is None) == (task.detection is None), "conflicts must be detected"
    is_cow = task.config.is_copy_on_write
    is_bulk = task.operation is commits.Operation.BULK_INSERT
    if is_cow and is_bulk:
        _check_empty(task, batch, groups)
    # Rows are numbered within the task, over all of its file groups.
    first_rows = [0]
    for group in batch.groups:
        first_rows.append(first_rows[-1] + len(group.rows))

    # Apache Hudi finds column statistics by names of files alone, and a bucket has the same file id
    # in each partition.
    stages = {path: token.stage + number for number, path in enumerate(batch.partition_paths)}

    def write_group(place: int) -> tuple[commits.Written, ...]:
        group = batch.groups[place]
        group_id = _group_id(task, group, groups)
        return write_rows(group, group_id, first_rows[place]) or (
            commits.Untouched(file_id=group_id.file_id, partition_path=group_id.partition_path),
        )

    announce = _announcing(task, groups.storage, mark)
    logged_to = _logged_to(task, batch, groups.storage)

    def write_rows(
        group: batches.GroupRows, group_id: files.FileGroupId, first_row: int
    ) -> tuple[commits.WriteStat, ...]:
        if group_id in task.known:
            known = task.known[group_id]
            group = _without_duplicates(task, batch, group, known, groups.storage)
        if group.is_empty:
            return ()
        target = writing.FileTarget(
            storage=groups.storage,
            group=group_id,
            instant_time=task.instant_time,
            write_token=file_names.write_token(
                token.task, stages[group_id.partition_path], token.attempt
            ),
            before_file=partial(announce, group_id),
            first_row=first_row,
            statistics=task.statistics,
            tracks_keys=task.tracks_keys,
            indexed_columns=task.indexed_columns,
        )
        is_new = groups.is_new(group_id)
        is_base = (
            group.is_base_file
            or task.operation.replaces
            or (is_bulk and is_new and not _keeps_deletes(task, batch, group))
        )
        if is_cow or is_base:
            return _rewrite_group(task, batch, group, target, groups.base_file_of(group_id))
        based = replace(target, base_instant_time=None if is_new else task.instant_time)
        if (before := logged_to.get(group_id)) is not None:
            based = replace(
                based,
                base_file=before.base_file.name if before.base_file else None,
                logs_before=tuple(each.name for each in before.log_files),
            )
        return _write_group(task, batch, group, based, may_have_base_file=is_new)

    found = engine.map(write_group, range(len(batch.groups)))
    return [each for of_group in found for each in of_group]


def _logged_to(
    task: WriteTask, batch: batches.Batch, storage: protocol.Storage
) -> Mapping[files.FileGroupId, files.FileSlice]:
    """Return the slices that logs of the batch are added to, where the table captures change data.

    Apache Hudi computes from what a commit says of them what its log files change. Where writers do
    not block each other, another one may log to them meanwhile.
    """
    if task.config.change_data is None or task.config.is_copy_on_write:
        return {}
    view = snapshots.take(storage, task.config, has_committed_only=True).view
    return {each.group: each for path in batch.partition_paths for each in view.latest_slices(path)}


def _announcing(
    task: WriteTask, storage: protocol.Storage, mark: early_conflicts.Mark | None
) -> early_conflicts.Mark:
    """Return what is called before each data file: it makes the marker, and looks for the heart."""
    watch = heartbeats.watch(task.instant_time, task.write_id, task.settings.heartbeat_interval_ms)

    def announce(group: files.FileGroupId, path: str) -> None:
        if mark is None:
            markers.mark(storage, task.instant_time, path)
        else:
            mark(group, path)
        # Afterwards: what is written in spite of it can be found.
        watch.check(storage)

    return announce


def _placed(
    task: WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    token: WriteToken,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> lookups.Placed:
    """Return the batch with each row in the file groups where its key is, or is to be.

    Their partitions are prepared.
    """
    config = task.config
    if batch.marks is not None:
        batch = composition.in_turn(batch, config)
    batch = _split(batch, groups.indexes)
    has_logs_only = not config.is_copy_on_write and not config.looks_keys_up
    adds_files = has_logs_only or task.operation is not commits.Operation.DELETE
    # With a global index rows may be written to other partitions than their own.
    is_certain = not config.has_global_index
    for path in batch.partition_paths:
        groups.prepare(path, is_created=adds_files and is_certain)
    placed = _looked_up(task, batch, groups, token, storage, engine)
    if not is_certain:
        for path in placed.batch.partition_paths:
            groups.prepare(path, is_created=adds_files)
    return placed


def _looked_up(
    task: WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    token: WriteToken,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> lookups.Placed:
    if not task.config.looks_keys_up:
        if not task.operation.replaces:
            batch = _routed(task, batch, groups, storage, engine)
        return lookups.Placed(batch=batch)
    how = lookups.Lookup(
        config=task.config,
        schema=task.schema,
        operation=task.operation,
        settings=task.settings,
        write_id=task.write_id,
        task=token.task,
        sort_by=task.sort_by,
    )
    return lookups.placed(how, batch, groups, storage, engine)


def _routed(
    task: WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> batches.Batch:
    """Return the batch with rows of keys in groups of no bucket sent there; warn of such groups."""
    foreign = {path: groups.foreign_groups(path) for path in batch.partition_paths}
    named = [group for found in foreign.values() for group in found]
    if not named:
        return batch
    for group in batch.groups:
        # Its bucket may have rows that are hidden: those of the same keys would not meet them.
        groups.group_of(group.partition_path, group.bucket)
    foreign_groups.warn(storage.uri, named)
    snapshot = snapshots.take(storage, task.config)
    slices = {
        path: [each for each in snapshot.view.latest_slices(path) if each.group in found]
        for path, found in foreign.items()
        if found
    }
    wanted = tagging.wanted_keys(batch)
    tags = tagging.look_up(
        held_keys.KeySource(storage, task.config, task.schema, snapshot.committed.is_committed),
        {path: wanted[path] for path in slices},
        slices,
        engine,
        has_rows_only=True,
    )
    return tagging.routed(batch, tags, stays=task.operation is commits.Operation.DELETE)


def _group_id(
    task: WriteTask, group: batches.GroupRows, groups: placement.Placement
) -> files.FileGroupId:
    path = group.partition_path
    if group.file_id is not None:
        return files.FileGroupId(path, group.file_id)
    if task.operation.replaces:
        index = tables.index_of(task.config)
        return files.FileGroupId(path, index.replacing_file_id(group.bucket, path, task.write_id))
    return groups.group_of(path, group.bucket)


def _check_empty(task: WriteTask, batch: batches.Batch, groups: placement.Placement) -> None:
    """Refuse a bulk insert into a base file: looking at what is there is what it must not do."""
    for group in batch.groups:
        base_file = groups.base_file_of(_group_id(task, group, groups))
        if base_file is not None:
            raise errors.UnsupportedError(
                f"bulk insert into bucket {group.bucket} of partition "
                f"{group.partition_path or '.'!r}, which has base file {base_file.name}, expected "
                "an empty bucket in a copy-on-write table: insert adds rows to it"
            )


def _without_duplicates(
    task: WriteTask,
    batch: batches.Batch,
    group: batches.GroupRows,
    file_slice: files.FileSlice,
    storage: protocol.Storage,
) -> batches.GroupRows:
    """Return the rows of a file group whose keys it does not hold yet."""
    committed = snapshots.CommittedFiles(storage, task.committed)
    reader = reading.SliceReader(storage, task.config, task.schema, committed.is_committed)
    held = reader.read(file_slice, [schemas.RECORD_KEY]).column(schemas.RECORD_KEY)
    is_held = pc.is_in(batch.record_keys.take(pa.array(group.rows)), value_set=held)
    return replace(group, rows=group.rows[~is_held.to_numpy(zero_copy_only=False)])


def _rewrite_group(
    task: WriteTask,
    batch: batches.Batch,
    group: batches.GroupRows,
    target: writing.FileTarget,
    base_file: files.BaseFile | None,
) -> tuple[commits.WriteStat, ...]:
    """Write the next base file of one file group; none where there is nothing to delete from."""
    changes = _changes(task, batch, group)
    if base_file is None and not any(each.data.num_rows for each in changes):
        return ()
    based = replace(target, base_instant_time=base_file.instant_time if base_file else None)
    if task.settings.merges_inserts and task.operation is commits.Operation.INSERT:
        changes = [replace(each, is_insert=False) for each in changes]
    stat = rewriting.rewrite(
        based, base_file, changes, task.config, task.file_schema, task.settings
    )
    return (stat,)


def _keeps_deletes(task: WriteTask, batch: batches.Batch, group: batches.GroupRows) -> bool:
    """Return whether rows say that they are deleted and hold against rows that come later.

    A base file cannot say that of a key; a log file does, and compactions keep it.
    """
    if task.config.merge_mode is not table_config.MergeMode.EVENT_TIME:
        return False
    columns = task.schema.arrow
    decoder = block_decoding.Decoder.of(task.config, columns, columns, task.config.ordering_fields)
    return decoder.deleted_rows(batch.data.take(pa.array(group.rows))) is not None


def _write_group(
    task: WriteTask,
    batch: batches.Batch,
    group: batches.GroupRows,
    target: writing.FileTarget,
    *,
    may_have_base_file: bool,
) -> tuple[commits.WriteStat, ...]:
    """Write the rows of one file group: to its log, or a base file if it is new and we are alone.

    Non-blocking writers only ever log: another one may be first in the same bucket.
    """
    changes = _changes(task, batch, group)
    is_alone = task.settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if may_have_base_file and is_alone and _makes_base_rows(task, changes):
        (rows,) = changes
        pieces = writing.new_rows(rows, target)
        stat = writing.write_base_file(target, pieces, task.file_schema, task.settings)
        keyed = rows.data.append_column(schemas.RECORD_KEY, rows.record_keys)
        stat = replace(stat, pairs=rewriting.pairs_of_new_rows(target, keyed))
        keys = key_changes.KeyChanges(added=rows.record_keys)
        return (replace(stat, keys=keys) if task.tracks_keys else stat,)
    stats = writing.write_log_files(target, changes, task.file_schema, task.settings)
    if not stats or not task.tracks_keys:
        return stats
    keys = _logged_keys(task, changes)
    return tuple(
        replace(stat, keys=key_changes.NONE if place else keys) for place, stat in enumerate(stats)
    )


def _logged_keys(task: WriteTask, changes: Sequence[writing.LogRows]) -> key_changes.KeyChanges:
    """Return which keys a log brings, and which it takes away whatever else is in the file group.

    Others may log to it meanwhile where writers do not block each other; and where event time
    decides, a delete may be older than the row that it meets.
    """
    brought: list[pa.Array] = []
    gone: list[pa.Array] = []
    columns = task.schema.arrow
    decoder = block_decoding.Decoder.of(task.config, columns, columns, task.config.ordering_fields)
    by_event_time = task.config.merge_mode is table_config.MergeMode.EVENT_TIME
    for each in changes:
        keys = each.record_keys
        is_deleted = decoder.deleted_rows(each.data)
        if is_deleted is not None:
            gone += [] if by_event_time else [keys.filter(pa.array(is_deleted))]
            keys = keys.filter(pa.array(~is_deleted))
        brought.append(keys)
        if each.deleted_keys is not None:
            has_place = by_event_time and each.deleted_ordering is not None
            gone += [] if has_place else [each.deleted_keys]
    added = pa.concat_arrays(brought)
    if not gone or task.settings.concurrency is settings.ConcurrencyMode.NON_BLOCKING:
        return key_changes.KeyChanges(added=added)
    # A key of several rows may be deleted by one and written by another.
    removed = pa.concat_arrays(gone)
    removed = removed.filter(pc.invert(pc.is_in(removed, value_set=added)))
    return key_changes.KeyChanges(added=added, removed=removed)


def _changes(
    task: WriteTask, batch: batches.Batch, group: batches.GroupRows
) -> Sequence[writing.LogRows]:
    """Return what the rows of a file group do to it, in the order in which it takes place."""
    if batch.marks is None:
        return [_changes_at_once(task, batch, group.rows, group.leaving)]
    turns = composition.turns(batch, group.rows, task.config)
    found = []
    cleared = np.concatenate([turns.cleared, group.leaving])
    if len(cleared):
        keys = pc.unique(batch.record_keys.take(pa.array(cleared)))
        found.append(_deletes(task, keys, None))
    for rows, deletes in turns.rest:
        if deletes:
            places = pa.array(rows)
            ordering = _deleted_ordering(task, batch, places)
            found.append(_deletes(task, batch.record_keys.take(places), ordering))
        else:
            found.append(_changes_at_once(task, batch, rows, _NO_ROWS))
    return found


def _deletes(
    task: WriteTask, keys: pa.Array, ordering: pa.Array | tuple[pa.Array, ...] | None
) -> writing.LogRows:
    return writing.LogRows(
        data=task.file_schema.arrow.empty_table(),
        record_keys=keys.slice(0, 0),
        deleted_keys=keys,
        deleted_ordering=ordering,
    )


def _changes_at_once(
    task: WriteTask, batch: batches.Batch, of_group: batches.Rows, leaves: batches.Rows
) -> writing.LogRows:
    """Return what rows of one operation do to a file group, which loses the keys of others."""
    rows, leaving = pa.array(of_group), pa.array(leaves)
    record_keys = _taken(batch.record_keys, rows)
    if task.operation is commits.Operation.DELETE:
        return _deletes(task, record_keys, _deleted_ordering(task, batch, rows))
    deleted_keys = deleted_ordering = None
    if len(leaving):
        # Whatever their ordering values are: the rows that move are not older.
        deleted_keys = batch.record_keys.take(leaving)
    elif (marked := _marked(task, batch, rows)) is not None:
        deleted_keys = record_keys.filter(marked)
        if _merges_by_event_time(task):
            deleted_ordering = _deleted_ordering(task, batch, rows.filter(marked))
        kept = pc.invert(marked)
        rows, record_keys = rows.filter(kept), record_keys.filter(kept)
    return writing.LogRows(
        data=_taken(batch.data.select(task.file_schema.arrow.names), rows),
        record_keys=record_keys,
        deleted_keys=deleted_keys,
        deleted_ordering=deleted_ordering,
        is_insert=task.operation.adds_rows,
        sort_by=task.file_order,
    )


def _taken(values: Values, rows: pa.Array) -> Values:
    """Return some rows, by ascending positions: all of them as they are, which takes no memory."""
    return values if len(rows) == len(values) else values.take(rows)


def _marked(task: WriteTask, batch: batches.Batch, rows: pa.Array) -> pa.Array | None:
    """Return which rows are deletes by the table's own marker, and become a block of deletes.

    In log files Apache Hudi's readers look for `_hoodie_is_deleted` alone: until a compaction they
    show what a marker deletes. Its writers make delete records of them. A key that has other rows
    in the batch keeps all of them as rows, and so does one with an ordering value that is null, or
    a decimal, which a delete record may not hold: where rows are merged in the order of commits it
    has none.

    Returns:
        Flags of the rows; None where there are none.
    """
    config = task.config
    if config.delete_marker is None or config.is_copy_on_write:
        return None
    name, _ = config.delete_marker
    if name not in batch.data.column_names:
        return None
    ordering = config.ordering_fields if _merges_by_event_time(task) else ()
    data = batch.data.select(list(dict.fromkeys([name, *ordering]))).take(rows)
    marked = pa.array(block_decoding.marked_rows(data, config.delete_marker))
    for each in ordering:
        column = data.column(each).combine_chunks()
        if pa.types.is_decimal(column.type):
            return None
        marked = pc.and_(marked, column.is_valid())
    keys = batch.record_keys.take(rows)
    others = keys.filter(pc.invert(marked))
    marked = pc.and_(marked, pc.invert(pc.is_in(keys, value_set=others)))
    return marked if pc.any(marked).as_py() else None


def _merges_by_event_time(task: WriteTask) -> bool:
    return task.config.merge_mode is table_config.MergeMode.EVENT_TIME


def _makes_base_rows(task: WriteTask, changes: Sequence[writing.LogRows]) -> bool:
    """Return whether rows can stand in a base file: no key twice, and none that says it is gone."""
    if any(each.deleted_keys is not None for each in changes):
        return False
    (rows,) = changes
    deleting = block_decoding.deleting_columns(task.config)
    tells_of_deletes = not deleting.isdisjoint(task.schema.arrow.names)
    return not tells_of_deletes and len(pc.unique(rows.record_keys)) == len(rows.record_keys)


def _deleted_ordering(
    task: WriteTask, batch: batches.Batch, rows: pa.Array
) -> pa.Array | tuple[pa.Array, ...] | None:
    """Return the ordering values of deletes; None for deletes that take place in commit order."""
    names = task.config.ordering_fields
    if not names or not set(names) <= batch.carried:
        return None
    values = tuple(batch.data.column(name).take(rows).combine_chunks() for name in names)
    return values[0] if len(values) == 1 else values
