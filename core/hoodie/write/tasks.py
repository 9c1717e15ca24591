"""The part of a write that scales: rows into data files, file group by file group.

A `WriteTask` is a value made once a write has begun; any number of processes may run it over parts
of the input. What they wrote counts once the driver completes the instant with their stats; files
of attempts that died are known by their markers.

    run      all rows of some buckets or partitions, by one process
    run_in_pieces    all rows of one bucket, in memory that does not grow with them
    place    says of each row which file groups it is written to, once a write, where tasks that
             decide it each for itself would write one file group, or one key twice
    write    the data files of some of these file groups

What becomes of the rows of a file group is in `write.group_writing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa

from hoodie import deferred, errors
from hoodie.engine import local
from hoodie.engine import protocol as engine_protocol
from hoodie.filegroup import snapshots
from hoodie.index import partitions, tables
from hoodie.model import commits, files
from hoodie.storage import protocol
from hoodie.write import batches, group_writing, placement, write_task

with deferred.imports():
    from hoodie.filegroup import block_decoding, held_keys
    from hoodie.index import foreign_groups
    from hoodie.write import composition, early_conflicts, lookups, tagging


def prepare(task: write_task.WriteTask, data: pa.Table, storage: protocol.Storage) -> batches.Batch:
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


def outline(task: write_task.WriteTask, batch: batches.Batch) -> batches.Outline:
    """Return what `place` needs of a batch that was made by `prepare`."""
    config, names = task.config, task.stored_schema.arrow.names
    wanted = set() if batch.marks is None else {*config.ordering_fields}
    if config.looks_keys_up:
        wanted |= {*config.ordering_fields, *block_decoding.deleting_columns(config), *task.sort_by}
    batch = batches.in_columns(batch, task.stored_schema)
    return batches.outline(batch, [name for name in names if name in wanted])


def place(
    task: write_task.WriteTask,
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
    return _placed(task, batch, _groups(task, storage), write_task.WriteToken(), storage, engine)


def write(
    task: write_task.WriteTask,
    batch: batches.Batch,
    token: write_task.WriteToken,
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
    task: write_task.WriteTask,
    batch: batches.Batch,
    token: write_task.WriteToken,
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


def run_in_pieces(
    task: write_task.WriteTask,
    bucket: batches.GroupRows,
    pieces: Sequence[Callable[[], batches.Batch]],
    token: write_task.WriteToken,
    storage: protocol.Storage,
    mark: early_conflicts.Mark | None = None,
) -> list[commits.Written]:
    """Write all rows of one bucket as `run` does, if they `may_be_in_pieces`.

    Args:
        task: As of `run`.
        bucket: Without rows.
        pieces: Each returns rows of the bucket, made by `prepare`, and more than once if it is
            asked again. All rows of a key are in one.
        token: As of `run`.
        storage: As of `run`.
        mark: As of `run`.

    Raises:
        WriteConflictError, HeartbeatExpiredError: As of `run`.
    """
    groups = _groups(task, storage)

    def placed(piece: Callable[[], batches.Batch]) -> tuple[batches.Batch, batches.GroupRows]:
        own, batch = _stored(task, piece(), token)
        batch = _placed(own, batch, groups, token, storage, local.LocalEngine(1)).batch
        (rows,) = batch.groups
        return batch, rows

    stored = replace(task, schema=task.stored_schema)
    groups.prepare(bucket.partition_path, is_created=_adds_files(task))
    group = _group_id(stored, bucket, groups)
    _check_empty(stored, bucket, groups)
    writer = group_writing.GroupWriter(stored, groups, token, [bucket.partition_path], mark)
    stats = writer.write([partial(placed, each) for each in pieces], group, first_row=0)
    return [*stats] or [_untouched(group)]


def may_be_in_pieces(
    task: write_task.WriteTask, paths: Sequence[str], storage: protocol.Storage
) -> bool:
    """Return whether the rows of a bucket of some partitions may be written piece by piece.

    They may not where another engine wrote outside of the buckets; lists the partitions.
    """
    if task.config.looks_keys_up or not group_writing.may_be_in_pieces(task):
        return False
    return not _has_foreign_groups(paths, _groups(task, storage))


def _stored(
    task: write_task.WriteTask, batch: batches.Batch, token: write_task.WriteToken
) -> tuple[write_task.WriteTask, batches.Batch]:
    """Return a task and its batch in the columns of data files, each row with a key."""
    batch = batches.in_columns(batch, task.stored_schema)
    if _generates_keys(task):
        batch = batches.with_generated_keys(batch, task.instant_time, token.task)
    return replace(task, schema=task.stored_schema), batch


def _generates_keys(task: write_task.WriteTask) -> bool:
    # What is updated or deleted has the key that it was added with.
    return task.operation.adds_rows and not task.config.record_key_fields


def _indexes(
    task: write_task.WriteTask, storage: protocol.Storage, committed: snapshots.CommittedFiles
) -> partitions.PartitionIndexes:
    """Return the indexes of partitions as the write began."""
    return partitions.PartitionIndexes(
        storage, task.config, task.hashing_config, committed.is_committed
    )


def _groups(task: write_task.WriteTask, storage: protocol.Storage) -> placement.Placement:
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


def has_shared_groups(
    task: write_task.WriteTask, paths: Sequence[str], storage: protocol.Storage
) -> bool:
    """Return whether rows of several buckets may go to one base file in some partitions.

    That is so where another engine wrote outside of the buckets; lists the partitions.
    """
    return _has_shared_groups(task, paths, _groups(task, storage))


def _has_shared_groups(
    task: write_task.WriteTask, paths: Sequence[str], groups: placement.Placement
) -> bool:
    if task.config.looks_keys_up or task.operation.replaces or not task.config.is_copy_on_write:
        return False
    return _has_foreign_groups(paths, groups)


def _has_foreign_groups(paths: Sequence[str], groups: placement.Placement) -> bool:
    """Return whether another engine wrote outside of the buckets of some partitions."""
    for path in paths:
        groups.prepare(path, is_created=False)
    return any(groups.foreign_groups(path) for path in paths)


def _written(
    task: write_task.WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    token: write_task.WriteToken,
    engine: engine_protocol.Engine,
    mark: early_conflicts.Mark | None,
) -> list[commits.Written]:
    """Write the data files of a batch's file groups, whose partitions are prepared."""
    writer = group_writing.GroupWriter(task, groups, token, batch.partition_paths, mark)
    for group in batch.groups:
        _check_empty(task, group, groups)
    # Rows are numbered within the task, over all of its file groups.
    first_rows = [0]
    for group in batch.groups:
        first_rows.append(first_rows[-1] + len(group.rows))

    def write_group(place: int) -> tuple[commits.Written, ...]:
        group = batch.groups[place]
        group_id = _group_id(task, group, groups)
        written = writer.write([lambda: (batch, group)], group_id, first_rows[place])
        return written or (_untouched(group_id),)

    found = engine.map(write_group, range(len(batch.groups)))
    return [each for of_group in found for each in of_group]


def _untouched(group: files.FileGroupId) -> commits.Untouched:
    return commits.Untouched(file_id=group.file_id, partition_path=group.partition_path)


def _placed(
    task: write_task.WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    token: write_task.WriteToken,
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
    adds_files = _adds_files(task)
    # With a global index rows may be written to other partitions than their own.
    is_certain = not config.has_global_index
    for path in batch.partition_paths:
        groups.prepare(path, is_created=adds_files and is_certain)
    placed = _looked_up(task, batch, groups, token, storage, engine)
    if not is_certain:
        for path in placed.batch.partition_paths:
            groups.prepare(path, is_created=adds_files)
    return placed


def _adds_files(task: write_task.WriteTask) -> bool:
    has_logs_only = not task.config.is_copy_on_write and not task.config.looks_keys_up
    return has_logs_only or task.operation is not commits.Operation.DELETE


def _looked_up(
    task: write_task.WriteTask,
    batch: batches.Batch,
    groups: placement.Placement,
    token: write_task.WriteToken,
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
    task: write_task.WriteTask,
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
    task: write_task.WriteTask, group: batches.GroupRows, groups: placement.Placement
) -> files.FileGroupId:
    path = group.partition_path
    if group.file_id is not None:
        return files.FileGroupId(path, group.file_id)
    if task.operation.replaces:
        index = tables.index_of(task.config)
        return files.FileGroupId(path, index.replacing_file_id(group.bucket, path, task.write_id))
    return groups.group_of(path, group.bucket)


def _check_empty(
    task: write_task.WriteTask, group: batches.GroupRows, groups: placement.Placement
) -> None:
    """Refuse a bulk insert into a base file: looking at what is there is what it must not do."""
    if not task.config.is_copy_on_write or task.operation is not commits.Operation.BULK_INSERT:
        return
    base_file = groups.base_file_of(_group_id(task, group, groups))
    if base_file is not None:
        raise errors.UnsupportedError(
            f"bulk insert into bucket {group.bucket} of partition "
            f"{group.partition_path or '.'!r}, which has base file {base_file.name}, expected "
            "an empty bucket in a copy-on-write table: insert adds rows to it"
        )
