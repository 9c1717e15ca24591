"""Copy-on-write: a file group's base file and a batch of changes become its next base file.

The batch is merged as a compaction merges a log file that holds it, so both kinds of tables decide
alike which version of a row wins. Rows that the batch does not change keep their commit time and
sequence number. An insert may add its rows without looking for their keys, as Apache Hudi does it:
that is faster, and leaves two rows with one key where the key was there. What it adds may be
sorted (`sorting.py`), once its rows of one key were combined: that takes them as they came.

Base rows stream through; what stays in memory is the batch. A group whose rows were all deleted
keeps a base file without rows: without it the older one would be read.

Of a table that captures change data, what the batch has changed is written beside it
(`change_logs.py`).

Source: `FileGroupReaderBasedMergeHandle.java`, `HoodieConcatHandle.java` (1.2.0); the counts and
stamps are measured.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import (
    block_decoding,
    changes,
    folding,
    merging,
    ordering,
    reading,
    sorting,
    writing,
)
from hoodie.format import secondary_keys
from hoodie.model import commits, files, key_changes, schemas, settings, table_config

_STAMPS = (schemas.COMMIT_TIME, schemas.COMMIT_SEQNO)


def rewrite(
    target: writing.FileTarget,
    base_file: files.BaseFile | None,
    batch: Sequence[writing.LogRows],
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    write_settings: settings.WriteSettings,
) -> commits.WriteStat:
    """Write the base file that holds the rows of the present one, changed by a batch.

    Args:
        target: Where to.
        base_file: The present one; None where the file group is new.
        batch: What a log would get, in this order. Rows of an insert, which nothing may be beside,
            are added without looking for their keys.
        config: The table's configuration.
        schema: The table's columns.
        write_settings: The codec.

    Raises:
        NotFoundError: The present base file is gone.
        FormatError: It is broken.
    """
    if config.change_data is None or base_file is None:
        return _rewritten(target, base_file, batch, config, schema, write_settings)
    with writing.change_log(target, config.change_data, schema, write_settings) as log:
        watched = replace(target, watch=log)
        stat = _rewritten(watched, base_file, batch, config, schema, write_settings)
    return replace(stat, change_data=log.written)


def _rewritten(
    target: writing.FileTarget,
    base_file: files.BaseFile | None,
    batch: Sequence[writing.LogRows],
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    write_settings: settings.WriteSettings,
) -> commits.WriteStat:
    columns = _stored_columns(schema)
    rules = folding.rules_of(config)
    decoder = block_decoding.Decoder.of(config, columns, columns, rules.ordering_fields)
    base_rows = reading.base_rows(target.storage, base_file, columns)
    if (inserted := _inserted(batch)) is not None:
        changed = decoder.changed(_with_meta_columns(target, inserted, columns))
        added, counts = _added(
            changed, columns, rules, combines=write_settings.combines_rows_of_inserts
        )
        if inserted.sort_by:
            added = added.take(sorting.positions(added, inserted.sort_by))
        if target.watch is not None and added.num_rows:
            target.watch(merging.ChangedRows(before=None, after=added))
        stat = writing.write_base_file(target, _chained(base_rows, added), schema, write_settings)
        keys = None
        pairs = pairs_of_new_rows(target, added)
        if target.tracks_keys:
            added_keys = added.column(schemas.RECORD_KEY).combine_chunks()
            keys = key_changes.KeyChanges(added=added_keys)
    else:
        blocks = list(_blocks(target, batch, columns, decoder))
        merge = merging.SliceMerge(blocks, rules, columns, columns.names, stamps=_STAMPS)
        merge.watch = target.watch
        is_watched = target.tracks_keys or target.indexed_columns
        seen = _KeyWatch(batch, target.indexed_columns) if is_watched else None
        rows = _merged(base_rows, merge, seen)
        stat = writing.write_base_file(target, rows, schema, write_settings)
        counts = merge.counts
        keys = seen.changes() if seen is not None and target.tracks_keys else None
        pairs = {} if seen is None else seen.pairs()
    return replace(
        stat,
        keys=keys,
        pairs=pairs,
        inserts=counts.inserted,
        updates=counts.updated - counts.kept,
        lost=counts.kept,
        deletes=counts.deleted + counts.missed,
        prev_base_file=base_file.name if base_file else None,
    )


def _inserted(batch: Sequence[writing.LogRows]) -> writing.LogRows | None:
    """Return the rows of a batch that is an insert."""
    if not any(each.is_insert for each in batch):
        return None
    (inserted,) = batch
    return inserted


def _blocks(
    target: writing.FileTarget,
    batch: Sequence[writing.LogRows],
    columns: pa.Schema,
    decoder: block_decoding.Decoder,
) -> Iterator[changes.Change]:
    """Yield a batch as the blocks of a log would be read."""
    for each in batch:
        if each.data.num_rows:
            yield decoder.changed(_with_meta_columns(target, each, columns))
        target = replace(target, first_row=target.first_row + each.data.num_rows)
        yield from _deletes(each)


def _stored_columns(schema: schemas.TableSchema) -> pa.Schema:
    meta = [
        field for field in schemas.meta_fields() if field.name in writing.BASE_FILE_META_COLUMNS
    ]
    return pa.schema([*meta, *schema.arrow])


def _with_meta_columns(
    target: writing.FileTarget, batch: writing.LogRows, columns: pa.Schema
) -> pa.Table:
    """Return the batch's rows as a base file has them, in plain columns."""
    rows = writing.with_meta_columns(
        batch.data, batch.record_keys, target, target.first_row, target.group.file_id
    )
    return rows.select(columns.names).cast(columns)


def _deletes(batch: writing.LogRows) -> Iterator[changes.DeletedKeys]:
    if batch.deleted_keys is None:
        return
    count = len(batch.deleted_keys)
    values = batch.deleted_ordering
    columns: tuple[pa.ChunkedArray, ...] | None = None
    is_default = np.ones(count, np.bool_)
    if values is not None:
        arrays = values if isinstance(values, tuple) else (values,)
        columns = tuple(pa.chunked_array([each]) for each in arrays)
        # Several values together are never a default.
        is_default &= len(columns) == 1 and ordering.is_default(columns[0])
    yield changes.DeletedKeys(
        keys=pa.chunked_array([batch.deleted_keys]),
        ordering=columns,
        is_default=is_default,
        is_foreign=np.zeros(count, np.bool_),
    )


def _added(
    changed: changes.ChangedRows, columns: pa.Schema, rules: folding.Rules, *, combines: bool
) -> tuple[pa.Table, merging.MergeCounts]:
    """Return the rows that an insert adds: none that says of itself that it is deleted."""
    if combines:
        merge = merging.SliceMerge([changed], rules, columns, columns.names)
        return merge.inserts(), merge.counts
    added = changed.rows
    if changed.is_deleted is not None:
        added = added.filter(pa.array(~changed.is_deleted))
    missed = changed.rows.num_rows - added.num_rows
    return added, merging.MergeCounts(inserted=added.num_rows, missed=missed)


def _chained(base_rows: Iterator[pa.Table], added: pa.Table) -> Iterator[pa.Table]:
    yield from base_rows
    yield added


def _merged(
    base_rows: Iterator[pa.Table], merge: merging.SliceMerge, seen: "_KeyWatch | None"
) -> Iterator[pa.Table]:
    for before in base_rows:
        after = merge.over(before)
        if seen is not None:
            seen.saw(before, after)
        yield after
    added = merge.inserts()
    if seen is not None:
        seen.saw(added.slice(0, 0), added)
    yield added


def pairs_of_new_rows(
    target: writing.FileTarget, rows: pa.Table
) -> Mapping[str, key_changes.KeyChanges]:
    """Return the pairs of rows that are added to a file group, by column; as of a stat."""
    return {
        column: key_changes.KeyChanges(added=secondary_keys.of_rows(column, rows))
        for column in target.indexed_columns
    }


class _KeyWatch:
    """Finds which keys, and pairs, of a batch a file group gains and loses while it is rewritten.

    Rows of other keys stay as they are.
    """

    def __init__(self, batch: Sequence[writing.LogRows], columns: Sequence[str]) -> None:
        both = [keys for each in batch for keys in (each.record_keys, each.deleted_keys)]
        found = [each for each in both if each is not None]
        self._keys = pc.unique(pa.chunked_array(found, pa.string()))
        self._columns = columns
        self._before: list[pa.Table] = []
        self._after: list[pa.Table] = []

    def saw(self, before: pa.Table, after: pa.Table) -> None:
        """See rows before the merge and after it."""
        self._before.append(self._own(before))
        self._after.append(self._own(after))

    def _own(self, rows: pa.Table) -> pa.Table:
        rows = rows.select(list(dict.fromkeys([schemas.RECORD_KEY, *self._columns])))
        return rows.filter(pc.is_in(rows.column(schemas.RECORD_KEY), value_set=self._keys))

    def changes(self) -> key_changes.KeyChanges:
        """Return the keys, once all rows were seen; of several rows of one key one may go alone."""
        before, after = (
            pa.chunked_array(
                [chunk for each in rows for chunk in each.column(schemas.RECORD_KEY).chunks],
                pa.string(),
            ).combine_chunks()
            for rows in (self._before, self._after)
        )
        return _difference(before, after)

    def pairs(self) -> Mapping[str, key_changes.KeyChanges]:
        """Return the pairs, by column, once all rows were seen."""
        if not self._columns:
            return {}
        before, after = pa.concat_tables(self._before), pa.concat_tables(self._after)
        return {
            column: _difference(
                secondary_keys.of_rows(column, before), secondary_keys.of_rows(column, after)
            )
            for column in self._columns
        }


def _difference(before: pa.Array, after: pa.Array) -> key_changes.KeyChanges:
    return key_changes.KeyChanges(
        added=pc.unique(_without(after, before)), removed=pc.unique(_without(before, after))
    )


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
