"""The rows of one file group of a write: into its next base file, or into its log.

    copy-on-write    the file group's next base file
    merge-on-read    a log file; of an empty bucket a base file, by a bulk insert or a single
                     writer, unless rows that are deleted must hold against later ones; a base file
                     of new rows, where writers look keys up (`write.lookups`)
    replacements     base files of new file groups in either (`write.replacements`)

Rows that take much memory come in pieces, those of a key in one. A new base file, rows that are
added without a look at their keys, and logs take one piece after the other; a base file that is
merged with takes all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred
from hoodie.filegroup import snapshots, writing
from hoodie.format import file_names
from hoodie.model import commits, files, key_changes, schemas, settings, table_config
from hoodie.storage import protocol
from hoodie.transaction import heartbeats, markers
from hoodie.write import batches, placement, write_task

with deferred.imports():
    from hoodie.filegroup import block_decoding, reading, rewriting
    from hoodie.write import composition, early_conflicts

Values = TypeVar("Values", pa.Table, pa.Array)

MadePiece: TypeAlias = Callable[[], tuple[batches.Batch, batches.GroupRows]]
"""Returns rows, of which those of the group are written."""

MadeChanges: TypeAlias = Callable[[], Sequence[writing.LogRows]]
"""Returns what a piece does to its file group, in the order in which it takes place."""

_NO_ROWS: batches.Rows = np.empty(0, np.int64)


class GroupWriter:
    """Writes data files of file groups whose partitions are prepared; for any thread."""

    def __init__(
        self,
        task: write_task.WriteTask,
        groups: placement.Placement,
        token: write_task.WriteToken,
        partition_paths: Sequence[str],
        mark: early_conflicts.Mark | None,
    ) -> None:
        """Write as an attempt of a task.

        Args:
            task: The write, in the columns of data files.
            groups: The file groups that there are.
            token: No other writer of this instant may have the same.
            partition_paths: Of the file groups that will be written.
            mark: Made by `early_conflicts.marking` of the task's detection.
        """
        assert (mark is None) == (task.detection is None), "conflicts must be detected"
        self._task = task
        self._groups = groups
        self._token = token
        # Apache Hudi finds column statistics by names of files alone, and a bucket has the same
        # file id in each partition.
        self._stages = {path: token.stage + n for n, path in enumerate(partition_paths)}
        self._announce = _announcing(task, groups.storage, mark)
        self._logged_to = _logged_to(task, partition_paths, groups.storage)

    def write(
        self, pieces: Sequence[MadePiece], group: files.FileGroupId, first_row: int
    ) -> tuple[commits.WriteStat, ...]:
        """Write the rows of a file group; nothing where they change nothing.

        Args:
            pieces: One at least. Several are of a bucket's file group, and may be made twice.
            group: Where to.
            first_row: The number of the first row within the task.
        """
        task, groups = self._task, self._groups
        changes: Sequence[MadeChanges] = [partial(_made_changes, task, each) for each in pieces]
        is_base_file = task.operation.replaces
        if len(pieces) == 1:
            batch, rows = pieces[0]()
            if group in task.known:
                rows = _without_duplicates(task, batch, rows, task.known[group], groups.storage)
            if rows.is_empty:
                return ()
            is_base_file = is_base_file or rows.is_base_file
            pieces, only = [lambda: (batch, rows)], _changes(task, batch, rows)
            changes = [lambda: only]
        is_new = groups.is_new(group)
        if is_new and task.operation is commits.Operation.BULK_INSERT and not is_base_file:
            is_base_file = not any(_keeps_deletes(task, *piece()) for piece in pieces)
        target = self._target(group, first_row)
        if task.config.is_copy_on_write or is_base_file:
            return _rewrite_group(task, changes, target, groups.base_file_of(group))
        based = replace(target, base_instant_time=None if is_new else task.instant_time)
        if (before := self._logged_to.get(group)) is not None:
            based = replace(
                based,
                base_file=before.base_file.name if before.base_file else None,
                logs_before=tuple(each.name for each in before.log_files),
            )
        return _write_group(task, changes, based, may_have_base_file=is_new)

    def _target(self, group: files.FileGroupId, first_row: int) -> writing.FileTarget:
        task, token = self._task, self._token
        return writing.FileTarget(
            storage=self._groups.storage,
            group=group,
            instant_time=task.instant_time,
            write_token=file_names.write_token(
                token.task, self._stages[group.partition_path], token.attempt
            ),
            before_file=partial(self._announce, group),
            first_row=first_row,
            statistics=task.statistics,
            tracks_keys=task.tracks_keys,
            indexed_columns=task.indexed_columns,
        )


def may_be_in_pieces(task: write_task.WriteTask) -> bool:
    """Return whether `GroupWriter` takes rows of one file group in several pieces."""
    return not task.known and not task.sort_by


def _logged_to(
    task: write_task.WriteTask, partition_paths: Sequence[str], storage: protocol.Storage
) -> Mapping[files.FileGroupId, files.FileSlice]:
    """Return the slices that logs of the write are added to, if the table captures change data.

    Apache Hudi computes from what a commit says of them what its log files change. Where writers do
    not block each other, another one may log to them meanwhile.
    """
    if task.config.change_data is None or task.config.is_copy_on_write:
        return {}
    view = snapshots.take(storage, task.config, has_committed_only=True).view
    return {each.group: each for path in partition_paths for each in view.latest_slices(path)}


def _announcing(
    task: write_task.WriteTask, storage: protocol.Storage, mark: early_conflicts.Mark | None
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


def _without_duplicates(
    task: write_task.WriteTask,
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
    task: write_task.WriteTask,
    pieces: Sequence[MadeChanges],
    target: writing.FileTarget,
    base_file: files.BaseFile | None,
) -> tuple[commits.WriteStat, ...]:
    """Write the next base file of one file group; none where there is nothing to delete from."""
    if base_file is None and not any(each.data.num_rows for made in pieces for each in made()):
        return ()
    based = replace(target, base_instant_time=base_file.instant_time if base_file else None)
    merges = task.settings.merges_inserts and task.operation is commits.Operation.INSERT

    def changes(made: MadeChanges) -> Sequence[writing.LogRows]:
        return [replace(each, is_insert=False) for each in made()] if merges else made()

    stat = rewriting.rewrite(
        based, base_file, map(changes, pieces), task.config, task.file_schema, task.settings
    )
    return (stat,)


def _keeps_deletes(
    task: write_task.WriteTask, batch: batches.Batch, group: batches.GroupRows
) -> bool:
    """Return whether rows say that they are deleted and hold against rows that come later.

    A base file cannot say that of a key; a log file does, and compactions keep it.
    """
    if not _merges_by_event_time(task):
        return False
    columns = task.schema.arrow
    names = [name for name in columns.names if name in block_decoding.deleting_columns(task.config)]
    if not names:
        return False
    decoder = block_decoding.Decoder.of(task.config, columns, columns, task.config.ordering_fields)
    return decoder.deleted_rows(batch.data.select(names).take(pa.array(group.rows))) is not None


def _write_group(
    task: write_task.WriteTask,
    pieces: Sequence[MadeChanges],
    target: writing.FileTarget,
    *,
    may_have_base_file: bool,
) -> tuple[commits.WriteStat, ...]:
    """Write the rows of one file group: to its log, or a base file if it is new and we are alone.

    Non-blocking writers only ever log: another one may be first in the same bucket.
    """
    is_alone = task.settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if may_have_base_file and is_alone:
        stat = _first_base_file(task, pieces, target)
        if stat is not None:
            return (stat,)
    keys: list[key_changes.KeyChanges] = []

    def logged() -> Iterator[writing.LogRows]:
        for made in pieces:
            changes = made()
            yield from changes
            if task.tracks_keys:
                keys.append(_logged_keys(task, changes))

    stats = writing.write_log_files(target, logged(), task.file_schema, task.settings)
    if not stats or not task.tracks_keys:
        return stats
    first, *others = stats
    return (
        replace(first, keys=key_changes.joined(keys)),
        *(replace(each, keys=key_changes.NONE) for each in others),
    )


def _first_base_file(
    task: write_task.WriteTask, pieces: Sequence[MadeChanges], target: writing.FileTarget
) -> commits.WriteStat | None:
    """Write rows that nothing is beside; None, and no file, if some cannot be in a base file."""
    first = pieces[0]()
    if not _makes_base_rows(task, first):
        return None
    seen = rewriting.AddedRows(target)

    def tables() -> Iterator[pa.Table]:
        numbered = target
        for changes in chain([first], (made() for made in pieces[1:])):
            if not _makes_base_rows(task, changes):
                raise _NotBaseRowsError
            (rows,) = changes
            seen.add(rows.data.append_column(schemas.RECORD_KEY, rows.record_keys))
            yield from writing.new_rows(rows, numbered)
            numbered = replace(numbered, first_row=numbered.first_row + rows.data.num_rows)

    try:
        stat = writing.write_base_file(target, tables(), task.file_schema, task.settings)
    except _NotBaseRowsError:
        return None
    return replace(stat, keys=seen.keys(), pairs=seen.pairs())


class _NotBaseRowsError(Exception):
    """Rows of a later piece cannot be in a base file."""


def _logged_keys(
    task: write_task.WriteTask, changes: Sequence[writing.LogRows]
) -> key_changes.KeyChanges:
    """Return which keys a log brings, and which it takes away whatever else is in the file group.

    Others may log to it meanwhile where writers do not block each other; and where event time
    decides, a delete may be older than the row that it meets.
    """
    brought: list[pa.Array] = []
    gone: list[pa.Array] = []
    columns = task.schema.arrow
    decoder = block_decoding.Decoder.of(task.config, columns, columns, task.config.ordering_fields)
    by_event_time = _merges_by_event_time(task)
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


def _made_changes(task: write_task.WriteTask, piece: MadePiece) -> Sequence[writing.LogRows]:
    return _changes(task, *piece())


def _changes(
    task: write_task.WriteTask, batch: batches.Batch, group: batches.GroupRows
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
    task: write_task.WriteTask, keys: pa.Array, ordering: pa.Array | tuple[pa.Array, ...] | None
) -> writing.LogRows:
    return writing.LogRows(
        data=task.file_schema.arrow.empty_table(),
        record_keys=keys.slice(0, 0),
        deleted_keys=keys,
        deleted_ordering=ordering,
    )


def _changes_at_once(
    task: write_task.WriteTask, batch: batches.Batch, of_group: batches.Rows, leaves: batches.Rows
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


def _marked(task: write_task.WriteTask, batch: batches.Batch, rows: pa.Array) -> pa.Array | None:
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


def _merges_by_event_time(task: write_task.WriteTask) -> bool:
    return task.config.merge_mode is table_config.MergeMode.EVENT_TIME


def _makes_base_rows(task: write_task.WriteTask, changes: Sequence[writing.LogRows]) -> bool:
    """Return whether rows can stand in a base file: no key twice, and none that says it is gone."""
    if any(each.deleted_keys is not None for each in changes):
        return False
    (rows,) = changes
    deleting = block_decoding.deleting_columns(task.config)
    tells_of_deletes = not deleting.isdisjoint(task.schema.arrow.names)
    return not tells_of_deletes and len(pc.unique(rows.record_keys)) == len(rows.record_keys)


def _deleted_ordering(
    task: write_task.WriteTask, batch: batches.Batch, rows: pa.Array
) -> pa.Array | tuple[pa.Array, ...] | None:
    """Return the ordering values of deletes; None for deletes that take place in commit order."""
    names = task.config.ordering_fields
    if not names or not set(names) <= batch.carried:
        return None
    values = tuple(batch.data.column(name).take(rows).combine_chunks() for name in names)
    return values[0] if len(values) == 1 else values
