"""Rows of a table whose keys are unique in all of it, and which may change their partition.

A global index finds a key in any partition. What becomes of a row that is of another partition than
its key is in:

    updates_partitions   deleted where it is, and inserted into its new partition, if the row is not
                         older than the stored one by event time; an older one changes nothing
    otherwise            updated where it is: its column says the new partition, its path the old
    delete               deleted where it is
    insert               left out, where an insert drops duplicates

A key whose row was deleted there is new in its partition, unless it would be updated where it is:
as long as a file there has the key, Apache Hudi finds it there, too.

Rows of one key in several partitions of a batch are one record: the newest decides which partition
that is, by event time if the table has it. Those of other partitions are left out, but with partial
updates: then what they say of other columns counts.

Of a delete by event time a row of another partition knows nothing: as with Apache Hudi it comes
back, however old it is. Source: `HoodieIndexUtils.java` (tagGlobalLocationBackToRecords,
mergeForPartitionUpdatesIfNeeded), 1.2.0; protocol.md: rule O8.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine import protocol as engine_protocol
from hoodie.filegroup import held_keys, ordering
from hoodie.model import commits, files, schemas, table_config
from hoodie.write import batches, tagging

_Flags = npt.NDArray[np.bool_]
_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A batch after it was decided which records change their partition.

    Attributes:
        batch: Without the rows that change nothing.
        tags: Where its keys are, but for those that are new in another partition.
        leaving: The file groups that lose keys to another partition.
        looked_into: Those whose rows decided, without losing any.
    """

    batch: batches.Batch
    tags: tagging.Tags
    leaving: tuple[batches.GroupRows, ...] = ()
    looked_into: tuple[files.FileGroupId, ...] = ()


def decided(
    source: held_keys.KeySource,
    batch: batches.Batch,
    tags: tagging.Tags,
    operation: commits.Operation,
    is_deleted: _Flags | None,
    engine: engine_protocol.Engine,
) -> Moved:
    """Decide which records of a batch change their partition.

    Args:
        source: The table.
        batch: Of `in_one_partition`.
        tags: Where the keys of the batch are, in all partitions.
        operation: What the batch does: an upsert, a delete, or an insert that drops duplicates.
        is_deleted: For each row of the batch whether it says that it is deleted; None if none does.
        engine: Runs the reads of file groups.

    Raises:
        HoodieError: A file cannot be read.
    """
    is_upsert = operation is commits.Operation.UPSERT
    if operation is commits.Operation.DELETE or (
        is_upsert and not source.config.updates_partitions
    ):
        return Moved(batch=batch, tags=tags)
    newest = _newest_rows(batch, tags.keys, source.config)
    is_deleting = np.zeros(len(tags.keys), np.bool_) if is_deleted is None else is_deleted[newest]
    partitions = _Partitions.of(batch, tags.keys)
    stays, strays = [], []
    for holder in tags.holders:
        own = partitions.number_of(holder.file_slice.group.partition_path)
        is_other = (partitions.numbers[holder.places] != own) & ~is_deleting[holder.places]
        stays.append(replace(holder, places=holder.places[~is_other]))
        strays.append(replace(holder, places=holder.places[is_other]))
    has_own = np.zeros(len(tags.keys), np.bool_)
    for holder in stays:
        has_own[holder.places] = True

    strays = [holder for holder in strays if len(holder.places)]
    ordering_columns = [
        name for name in source.config.ordering_fields if name in batch.data.column_names
    ]
    brought = [
        _Brought(
            keys=tags.keys.take(pa.array(holder.places)),
            data=batch.data.select(ordering_columns).take(pa.array(newest[holder.places])),
            may_win=is_upsert,
            clears=_clearing(batch, newest[holder.places]),
        )
        for holder in strays
    ]
    leaving, looked_into, is_out = [], [], np.zeros(len(tags.keys), np.bool_)
    looks = list(zip((holder.file_slice for holder in strays), brought, strict=True))
    found = engine.map(partial(_stored, source), looks)
    for holder, stored in zip(strays, found, strict=True):
        is_kept = stored.is_kept & ~has_own[holder.places]
        is_out[holder.places[is_kept]] = True
        moving = holder.places[stored.is_there & ~is_kept]
        group = holder.file_slice.group
        # An insert deletes nothing, also where the key is in its own partition as well.
        if not is_upsert or not len(moving):
            looked_into.append(group)
            continue
        leaving.append(
            batches.GroupRows(
                partition_path=group.partition_path,
                bucket=batches.NO_BUCKET,
                file_id=group.file_id,
                rows=np.empty(0, np.int64),
                leaving=np.sort(newest[moving]),
            )
        )
    return Moved(
        batch=_without(batch, tags.keys, is_out),
        tags=tagging.Tags(
            keys=tags.keys, holders=[holder for holder in stays if len(holder.places)]
        ),
        leaving=tuple(leaving),
        looked_into=tuple(looked_into),
    )


def _clearing(batch: batches.Batch, rows: _Numbers) -> _Flags:
    if batch.marks is None:
        return np.zeros(len(rows), np.bool_)
    return (batch.marks[rows] & batches.CLEARS).astype(np.bool_)


def in_one_partition(batch: batches.Batch, config: table_config.TableConfig) -> batches.Batch:
    """Return a batch whose rows of each key are of one partition: that of the newest of them.

    Args:
        batch: Split by partition alone.
        config: The table's; it says how rows are ordered.
    """
    keys = pc.unique(batch.record_keys)
    partitions = _Partitions.of(batch, keys)
    if not partitions.has_repeated:
        return batch
    newest = _newest_rows(batch, keys, config)
    number_of_row = np.empty(len(batch.record_keys), np.int64)
    for number, group in enumerate(batch.groups):
        number_of_row[group.rows] = number
    present = np.sort(np.concatenate([group.rows for group in batch.groups]))
    wanted = number_of_row[newest][_places(batch, keys, present)]
    if not config.has_partial_updates:
        is_left_out = number_of_row[present] != wanted
        present, wanted = present[~is_left_out], wanted[~is_left_out]
    groups = [
        replace(group, rows=present[wanted == number]) for number, group in enumerate(batch.groups)
    ]
    return replace(batch, groups=tuple(group for group in groups if len(group.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brought:
    """Keys that are in one file group, and whose new rows are of other partitions.

    Attributes:
        keys: Texts, each once.
        data: The ordering values of the newest row of each.
        may_win: Whether that may take the place of the stored one.
        clears: For each whether it does so in any case, since its key was deleted before.
    """

    keys: pa.Array
    data: pa.Table
    may_win: bool
    clears: _Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """What a file group has of such keys.

    Attributes:
        is_there: For each whether it has a row.
        is_kept: For each whether that row stays.
    """

    is_there: _Flags
    is_kept: _Flags


def _stored(source: held_keys.KeySource, look: tuple[files.FileSlice, _Brought]) -> _Stored:
    """Return what a file slice has of keys that a batch brings to other partitions."""
    file_slice, brought = look
    by_event_time = source.config.merge_mode is table_config.MergeMode.EVENT_TIME
    fields = source.config.ordering_fields if brought.may_win and by_event_time else ()
    rows = held_keys.rows(source, file_slice, brought.keys, fields)
    held = rows.column(schemas.RECORD_KEY).combine_chunks().cast(pa.string())
    row_of = pc.index_in(brought.keys, value_set=held)
    is_there = row_of.is_valid().to_numpy(zero_copy_only=False)
    if not brought.may_win:
        return _Stored(is_there=is_there, is_kept=is_there)
    is_kept = np.zeros(len(is_there), np.bool_)
    if fields:
        stored = ordering.OrderingValues.of([rows.column(name) for name in fields])
        new = ordering.OrderingValues.of([brought.data.column(name) for name in fields])
        places = np.flatnonzero(is_there)
        stored_rows = np.asarray(row_of.drop_null().to_numpy(), np.int64)
        is_kept[places] = ~(brought.clears[places] | new.at_least(places, stored, stored_rows))
    return _Stored(is_there=is_there, is_kept=is_kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partitions:
    """The partition of each key of a batch.

    Attributes:
        paths: Of the partitions.
        numbers: For each key that of its partition.
        has_repeated: Whether some key is in several of them.
    """

    paths: Mapping[str, int]
    numbers: _Numbers
    has_repeated: bool

    @classmethod
    def of(cls, batch: batches.Batch, keys: pa.Array) -> "_Partitions":
        """Return the partitions of some keys, each once, that are all keys of a batch."""
        paths: dict[str, int] = {}
        numbers = np.full(len(keys), -1, np.int64)
        has_repeated = False
        for group in batch.groups:
            number = paths.setdefault(group.partition_path, len(paths))
            places = _places(batch, keys, group.rows)
            before = numbers[places]
            has_repeated |= bool(((before != -1) & (before != number)).any())
            numbers[places] = number
        return cls(paths=paths, numbers=numbers, has_repeated=has_repeated)

    def number_of(self, path: str) -> int:
        """Return the number of a partition; another one where the batch has no row of it."""
        return self.paths.get(path, len(self.paths))


def _newest_rows(
    batch: batches.Batch, keys: pa.Array, config: table_config.TableConfig
) -> _Numbers:
    """Return for each key the position of its newest row: the last one, if they are even."""
    present = np.sort(np.concatenate([np.empty(0, np.int64), *(g.rows for g in batch.groups)]))
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "key": pa.array(_places(batch, keys, present)),
        "row": pa.array(present),
    }
    order = [("key", "ascending")]
    if config.merge_mode is table_config.MergeMode.EVENT_TIME:
        for number, name in enumerate(config.ordering_fields):
            if name in batch.carried:
                columns[f"by {number}"] = batch.data.column(name).take(pa.array(present))
                order.append((f"by {number}", "ascending"))
    rows = pa.table(columns)
    ordered = rows.take(pc.sort_indices(rows, [*order, ("row", "ascending")]))
    newest = np.empty(len(keys), np.int64)
    # Of several assignments to one place the last one counts.
    newest[ordered.column("key").to_numpy()] = ordered.column("row").to_numpy()
    return newest


def _without(batch: batches.Batch, keys: pa.Array, is_out: _Flags) -> batches.Batch:
    """Return a batch without the rows of some keys."""
    if not is_out.any():
        return batch
    groups = [
        replace(group, rows=group.rows[~is_out[_places(batch, keys, group.rows)]])
        for group in batch.groups
    ]
    return replace(batch, groups=tuple(group for group in groups if len(group.rows)))


def _places(batch: batches.Batch, keys: pa.Array, rows: _Numbers) -> _Numbers:
    """Return the place of the key of each of some rows."""
    found = pc.index_in(batch.record_keys.take(pa.array(rows)), value_set=keys)
    return np.asarray(found.to_numpy(), np.int64)
