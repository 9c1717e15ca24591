"""The rows of a batch for a table whose writers look keys up: which file group each goes to.

    upsert        the file groups that hold its keys; new rows are placed (`write.inserts`)
    delete        the file groups that hold its keys; a key that is nowhere is deleted nowhere
    insert        rows are placed without a look-up, so that a key may be there twice, as with
                  Apache Hudi; with `drops_duplicates` after one, without the rows of known keys
    bulk insert   as insert, to new file groups alone; so are overwrites, without a look-up. If
                  it sorts its rows, each group takes a range of them

A row that says that it is deleted, and whose key is nowhere, is left out. With a global index keys
are looked up in all partitions, and rows may move from one to another (`write.partition_moves`).

What was done depends on what was found, so both are returned: keys that are nowhere, and file
groups whose rows made others be left out.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.engine import protocol as engine_protocol
from hoodie.filegroup import block_decoding, snapshots, sorting
from hoodie.model import commits, files, instants, key_changes, schemas, settings, table_config
from hoodie.storage import protocol
from hoodie.timeline import contents, table_properties
from hoodie.write import batches, placement

with deferred.imports():
    from hoodie.filegroup import held_keys, key_footers
    from hoodie.write import inserts, partition_moves, tagging

logger = logging.getLogger(__name__)

_TRIES_MAX = 3
_FOOTERS_MAX = 3
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What decides where rows go.

    Attributes:
        config: The table's configuration.
        schema: The table's columns.
        operation: As of `write_task.WriteTask`.
        settings: The writer's.
        write_id: Of the write; a UUID.
        task: Of those that write, the number of this one.
        sort_by: Columns in whose order new file groups take new rows; none for that of the batch.
    """

    config: table_config.TableConfig
    schema: schemas.TableSchema
    operation: commits.Operation
    settings: settings.WriteSettings
    write_id: str
    task: int = 0
    sort_by: tuple[str, ...] = ()


def looks_up(operation: commits.Operation, write_settings: settings.WriteSettings) -> bool:
    """Return whether a write looks its keys up, and so brings no key a second time."""
    match operation:
        case commits.Operation.INSERT | commits.Operation.BULK_INSERT:
            return write_settings.drops_duplicates
        case _:
            return not operation.replaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A batch after the look-up.

    Attributes:
        batch: Every row in the file groups that it is written to.
        absent: Keys that are nowhere, of each partition; none where keys were not looked up.
        untouched: File groups whose keys made rows be left out.
        looked_up: Where a record index had keys.
    """

    batch: batches.Batch
    absent: tuple[commits.Absent, ...] = ()
    untouched: tuple[commits.Untouched, ...] = ()
    looked_up: tuple[key_changes.LookedUp, ...] = ()

    @property
    def facts(self) -> tuple[commits.Written, ...]:
        """What the write's commit has to know of it."""
        return (*self.absent, *self.untouched, *self.looked_up)


def placed(
    how: Lookup,
    batch: batches.Batch,
    groups: placement.Placement,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> Placed:
    """Return a batch with every row in the file groups that it is written to.

    Args:
        how: What decides.
        batch: Split by partition alone.
        groups: The partitions of the batch, prepared.
        storage: The table's.
        engine: Reads the files of the table.

    Raises:
        HoodieError: A file cannot be read.
    """
    for _ in range(_TRIES_MAX - 1):
        try:
            return _placed(how, batch, groups, storage, engine)
        except errors.NotFoundError as error:
            # Compacted, and cleaned, since the table was looked at.
            logger.info("%s: keys are looked up again: %s", storage.uri, error)
    return _placed(how, batch, groups, storage, engine)


def _placed(
    how: Lookup,
    batch: batches.Batch,
    groups: placement.Placement,
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> Placed:
    snapshot = snapshots.take(storage, how.config, has_committed_only=True)
    has_looked = looks_up(how.operation, how.settings)
    is_everywhere = has_looked and how.config.has_global_index
    paths = dict.fromkeys(batch.partition_paths)
    if is_everywhere:
        paths |= dict.fromkeys(snapshot.view.partitions())
    slices = {path: snapshot.view.latest_slices(path) for path in paths}
    absent: tuple[commits.Absent, ...] = ()
    leaving: tuple[batches.GroupRows, ...] = ()
    untouched: tuple[commits.Untouched, ...] = ()
    looked_up: Sequence[key_changes.LookedUp] = ()
    if is_everywhere:
        moved, looked_up = _moved(how, batch, snapshot, slices, storage, engine)
        leaving, untouched = moved.leaving, tuple(_untouched(moved.looked_into))
        tags = dict.fromkeys((group.partition_path for group in moved.batch.groups), moved.tags)
        batch = tagging.routed(moved.batch, tags, stays=False)
    elif has_looked:
        indexed = _indexed(how, tagging.wanted_keys(batch), snapshot, slices, storage, engine)
        batch, looked_up = tagging.routed(batch, indexed.tags, stays=False), indexed.looked_up
    # What replaces file groups leaves those that are new since it began, with their keys.
    if has_looked or (how.operation.replaces and how.config.record_key_fields):
        # What a log file deletes is new to a write that finds it compacted, or moves it.
        absent = tuple(_absent(batch, _logged(slices)))
    known = [group for group in batch.groups if group.file_id is not None]
    new = [group for group in batch.groups if group.file_id is None]
    match how.operation:
        case commits.Operation.DELETE:
            new = []
        case commits.Operation.INSERT | commits.Operation.BULK_INSERT:
            source = _key_source(how, snapshot, storage)
            split = [_by_presence(batch, group, source, slices) for group in known]
            # Rows of keys that are there are left out; those of deleted ones go on top of that.
            untouched += tuple(
                _untouched(_group_of(there) for there, _ in split if len(there.rows))
            )
            known = [gone for _, gone in split if len(gone.rows)]
    new = [left for group in new if len((left := _without_deleted(how, batch, group)).rows)]
    known += leaving
    chosen = _chosen(how, batch, new, known, _Seen(snapshot, slices, groups, storage), engine)
    batch = replace(batch, groups=tuple(_joined([*known, *chosen])))
    return Placed(batch=batch, absent=absent, untouched=untouched, looked_up=tuple(looked_up))


def _logged(slices: Mapping[str, Sequence[files.FileSlice]]) -> set[files.FileGroupId]:
    """Return the file groups with log files."""
    return {each.group for found in slices.values() for each in found if each.log_files}


def _absent(
    batch: batches.Batch, doubtful: Collection[files.FileGroupId]
) -> Iterator[commits.Absent]:
    """Yield the keys that are nowhere, or in file groups that may not have them any more."""
    rows: dict[str, list[batches.Rows]] = {}
    for group in batch.groups:
        if group.file_id is None or _group_of(group) in doubtful:
            rows.setdefault(group.partition_path, []).append(group.rows)
    for path, found in rows.items():
        keys = pc.unique(batch.record_keys.take(pa.array(np.concatenate(found))))
        yield commits.Absent(partition_path=path, keys=keys)


def _untouched(groups: Iterable[files.FileGroupId]) -> Iterator[commits.Untouched]:
    for group in groups:
        yield commits.Untouched(file_id=group.file_id, partition_path=group.partition_path)


def _group_of(known: batches.GroupRows) -> files.FileGroupId:
    assert known.file_id is not None, known.partition_path
    return files.FileGroupId(known.partition_path, known.file_id)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The table as it was looked at.

    Attributes:
        snapshot: The table.
        slices: The file slices of each partition of the batch.
        groups: The same partitions, as the write began.
        storage: The table's.
    """

    snapshot: snapshots.Snapshot
    slices: Mapping[str, Sequence[files.FileSlice]]
    groups: placement.Placement
    storage: protocol.Storage


def _chosen(
    how: Lookup,
    batch: batches.Batch,
    new: Sequence[batches.GroupRows],
    known: Sequence[batches.GroupRows],
    seen: _Seen,
    engine: engine_protocol.Engine,
) -> list[batches.GroupRows]:
    """Return the file groups of new rows, by partition."""
    if not new:
        return []
    small = _SmallFiles(how, seen, known)

    largest = [_largest(seen.slices[group.partition_path]) for group in new]
    row_bytes = engine.map(partial(_row_bytes, seen.storage), largest)
    number = 0
    chosen: list[batches.GroupRows] = []
    for group, of_stored in zip(new, row_bytes, strict=True):
        some = small.among(seen.slices[group.partition_path])
        sizes = inserts.Sizes(
            row_bytes=batch.row_bytes if of_stored is None else of_stored,
            file_bytes_max=how.settings.base_file_bytes_max,
        )
        for share in _shared(batch, how.sort_by, group, some, sizes):
            if share.file_id is not None:
                chosen.append(share)
                continue
            file_id = inserts.new_file_id(how.write_id, how.task, number)
            chosen.append(replace(share, file_id=file_id))
            number += 1
    return chosen


def _moved(
    how: Lookup,
    batch: batches.Batch,
    snapshot: snapshots.Snapshot,
    slices: Mapping[str, Sequence[files.FileSlice]],
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> tuple[partition_moves.Moved, Sequence[key_changes.LookedUp]]:
    """Return a batch whose keys were looked up in all partitions, and where an index had them."""
    batch = partition_moves.in_one_partition(batch, how.config)
    present = np.sort(np.concatenate([group.rows for group in batch.groups] or [_NO_ROWS]))
    keys = pc.unique(batch.record_keys.take(pa.array(present)))
    everywhere = {tagging.EVERYWHERE: [each for found in slices.values() for each in found]}
    indexed = _indexed(how, {tagging.EVERYWHERE: keys}, snapshot, everywhere, storage, engine)
    moved = partition_moves.decided(
        _key_source(how, snapshot, storage),
        batch,
        indexed.tags[tagging.EVERYWHERE],
        how.operation,
        _deleted_rows(how, batch),
        engine,
    )
    return moved, indexed.looked_up


def _indexed(
    how: Lookup,
    wanted: Mapping[str, pa.Array],
    snapshot: snapshots.Snapshot,
    slices: Mapping[str, Sequence[files.FileSlice]],
    storage: protocol.Storage,
    engine: engine_protocol.Engine,
) -> tagging.Indexed:
    """Return where keys are, by the record index if the table has one."""
    source = _key_source(how, snapshot, storage)
    indexed = None
    if key_changes.RECORD_INDEX in how.config.metadata_partitions:
        indexed = tagging.by_record_index(snapshot, wanted, slices, engine.parallelism)
    # One that was dropped before it was asked, or while it was, may lack any key.
    if indexed is None or not table_properties.names_ready(storage, key_changes.RECORD_INDEX):
        return tagging.Indexed(tags=tagging.look_up(source, wanted, slices, engine))
    if how.config.is_copy_on_write:
        return indexed
    logged = {path: [each for each in found if each.log_files] for path, found in slices.items()}
    more = tagging.look_up(source, tagging.nowhere(indexed.tags), logged, engine)
    return replace(indexed, tags=tagging.joined(indexed.tags, more))


def _key_source(
    how: Lookup, snapshot: snapshots.Snapshot, storage: protocol.Storage
) -> held_keys.KeySource:
    return held_keys.KeySource(storage, how.config, how.schema, snapshot.committed.is_committed)


def _by_presence(
    batch: batches.Batch,
    group: batches.GroupRows,
    source: held_keys.KeySource,
    slices: Mapping[str, Sequence[files.FileSlice]],
) -> tuple[batches.GroupRows, batches.GroupRows]:
    """Return the rows of keys that a file group has a row of, and those of its deleted keys."""
    file_slice = next(
        each for each in slices[group.partition_path] if each.group.file_id == group.file_id
    )
    if not file_slice.log_files:
        return group, replace(group, rows=group.rows[:0])
    keys = batch.record_keys.take(pa.array(group.rows))
    each_once = pc.unique(keys)
    there = each_once.filter(pa.array(held_keys.live(source, file_slice, each_once)))
    is_there = pc.is_in(keys, value_set=there).to_numpy(zero_copy_only=False)
    return replace(group, rows=group.rows[is_there]), replace(group, rows=group.rows[~is_there])


def _without_deleted(
    how: Lookup, batch: batches.Batch, group: batches.GroupRows
) -> batches.GroupRows:
    """Return new rows without those of keys of which every row says that it is deleted."""
    rows = pa.array(group.rows)
    deleted = _deleted_rows(how, batch, rows)
    if deleted is None:
        return group
    encoded = batch.record_keys.take(rows).dictionary_encode()
    codes = encoded.indices.to_numpy()
    is_written = np.zeros(len(encoded.dictionary), np.bool_)
    is_written[codes[~deleted]] = True
    return replace(group, rows=group.rows[is_written[codes]])


def _deleted_rows(
    how: Lookup, batch: batches.Batch, rows: pa.Array | None = None
) -> npt.NDArray[np.bool_] | None:
    """Return for each of some rows whether it deletes its key; None if none does."""
    marked = None
    if batch.marks is not None:
        marks = batch.marks if rows is None else batch.marks[rows.to_numpy()]
        marked = (marks & batches.DELETES).astype(np.bool_)
    columns = how.schema.arrow
    flags = block_decoding.deleting_columns(how.config) & set(columns.names)
    if not flags:
        return marked
    decoder = block_decoding.Decoder.of(how.config, columns, columns, how.config.ordering_fields)
    flagged = batch.data.select(sorted(flags))
    found = decoder.deleted_rows(flagged if rows is None else flagged.take(rows))
    return marked if found is None else found if marked is None else found | marked


class _SmallFiles:
    """The base files that take new rows."""

    def __init__(
        self,
        how: Lookup,
        seen: _Seen,
        known: Sequence[batches.GroupRows],
    ) -> None:
        self._limit = how.settings.small_file_bytes
        if how.operation is commits.Operation.BULK_INSERT or how.operation.replaces:
            self._limit = 0
        self._groups = seen.groups
        planned = seen.snapshot.compactions.values()
        self._is_taken: Collection[files.FileGroupId] = {
            *(each.group for plan in planned for each in plan.operations),
            *_clustered(seen),
        }
        if not how.config.is_copy_on_write:
            # Their rows go to a log file, and one write makes one file slice of a file group.
            logged = [files.FileGroupId(each.partition_path, str(each.file_id)) for each in known]
            self._is_taken = {*self._is_taken, *logged}

    def among(self, slices: Sequence[files.FileSlice]) -> list[inserts.SmallFile]:
        return [
            inserts.SmallFile(file_id=each.group.file_id, size_bytes=each.base_file.size_bytes)
            for each in slices
            if each.base_file is not None
            and each.base_file.size_bytes < self._limit
            and not each.log_files
            and not each.base_file.is_skeleton
            and each.group not in self._is_taken
            # Written since this write began: to write it again were a conflict.
            and self._groups.base_file_of(each.group) == each.base_file
        ]


def _clustered(seen: _Seen) -> Iterator[files.FileGroupId]:
    for pending in seen.snapshot.timeline.pending_of(instants.Action.CLUSTERING):
        yield from contents.read_clustered_groups(seen.storage, pending)


def _largest(slices: Sequence[files.FileSlice]) -> list[str]:
    """Return the paths of the largest base files."""
    bases = [each.base_file for each in slices if each.base_file is not None]
    by_size = sorted(bases, key=lambda each: each.size_bytes, reverse=True)
    return [each.path for each in by_size[:_FOOTERS_MAX]]


def _row_bytes(storage: protocol.Storage, paths: Sequence[str]) -> float | None:
    """Return about how many bytes a row takes in some base files; None if they have none."""
    footers = [each for path in paths if (each := key_footers.read(storage, path)) is not None]
    rows = sum(each.rows for each in footers)
    return sum(each.data_bytes for each in footers) / rows if rows else None


def _shared(
    batch: batches.Batch,
    sort_by: Sequence[str],
    group: batches.GroupRows,
    small: Sequence[inserts.SmallFile],
    sizes: inserts.Sizes,
) -> Iterator[batches.GroupRows]:
    """Yield the rows of the file groups that take new rows; without an id those of new ones."""
    rows = group.rows
    if sort_by:
        columns = batch.data.select(sort_by).take(pa.array(rows))
        rows = rows[sorting.positions(columns, sort_by).to_numpy()]
    encoded = batch.record_keys.take(pa.array(rows)).dictionary_encode()
    shares = list(inserts.shares(len(encoded.dictionary), small, sizes))
    codes = encoded.indices.to_numpy().astype(np.int64)
    for number, some in tagging.by_number(inserts.numbers_of(codes, shares), rows):
        file_id = shares[number].file_id
        yield replace(group, file_id=file_id, rows=np.sort(some), is_base_file=True)


def _joined(groups: Sequence[batches.GroupRows]) -> Iterator[batches.GroupRows]:
    """Yield groups with all rows of one file group together."""
    found: dict[tuple[str, str | None], batches.GroupRows] = {}
    for each in groups:
        key = (each.partition_path, each.file_id)
        before = found.get(key)
        if before is None:
            found[key] = each
        else:
            found[key] = replace(
                each,
                rows=np.sort(np.concatenate([before.rows, each.rows])),
                leaving=np.sort(np.concatenate([before.leaving, each.leaving])),
            )
    yield from found.values()
