"""Copy-on-write: a file group's base file and a batch of changes become its next base file.

The batch is merged as a compaction merges a log file that holds it, so both kinds of tables decide
alike which version of a row wins. Rows that the batch does not change keep their commit time and
sequence number. An insert may add its rows without looking for their keys, as Apache Hudi does it:
that is faster, and leaves two rows with one key where the key was there. What it adds may be
sorted (`sorting.py`), once its rows of one key were combined: that takes them as they came.

Base rows stream through; what stays in memory is the batch, or, where nothing has to be merged with
base rows, a piece of it. A group whose rows were all deleted
keeps a base file without rows: without it the older one would be read.

Of a table that captures change data, what the batch has changed is written beside it
(`change_logs.py`).

Source: `FileGroupReaderBasedMergeHandle.java`, `HoodieConcatHandle.java` (1.2.0); the counts and
stamps are measured.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

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
    pieces: Iterable[Sequence[writing.LogRows]],
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    write_settings: settings.WriteSettings,
) -> commits.WriteStat:
    """Write the base file that holds the rows of the present one, changed by a batch.

    Args:
        target: Where to.
        base_file: The present one; None where the file group is new.
        pieces: A batch, one piece at least: what a log would get, in this order, all of a key in
            one. Rows of an insert, which nothing may be beside, are added without looking for
            their keys.
        config: The table's configuration.
        schema: The table's columns.
        write_settings: The codec.

    Raises:
        NotFoundError: The present base file is gone.
        FormatError: It is broken.
    """
    if config.change_data is None or base_file is None:
        return _rewritten(target, base_file, pieces, config, schema, write_settings)
    with writing.change_log(target, config.change_data, schema, write_settings) as log:
        watched = replace(target, watch=log)
        stat = _rewritten(watched, base_file, pieces, config, schema, write_settings)
    return replace(stat, change_data=log.written)


def _rewritten(
    target: writing.FileTarget,
    base_file: files.BaseFile | None,
    pieces: Iterable[Sequence[writing.LogRows]],
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
    write_settings: settings.WriteSettings,
) -> commits.WriteStat:
    columns = _stored_columns(schema)
    rules = folding.rules_of(config)
    decoder = block_decoding.Decoder.of(config, columns, columns, rules.ordering_fields)
    base_rows = reading.base_rows(target.storage, base_file, columns)
    pieces = iter(pieces)
    first = next(pieces)
    keys: key_changes.KeyChanges | None
    if base_file is None or _inserted(first) is not None:
        combines = write_settings.combines_rows_of_inserts
        added = _Addition(target, columns, rules, decoder, combines=combines)
        added_rows = added.tables(chain([first], pieces))
        stat = writing.write_base_file(target, chain(base_rows, added_rows), schema, write_settings)
        counts, keys, pairs = added.counts, added.rows.keys(), added.rows.pairs()
    else:
        batch = [*first, *(each for piece in pieces for each in piece)]
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


class AddedRows:
    """Which keys, and pairs, rows bring to a file group that are added to it."""

    def __init__(self, target: writing.FileTarget) -> None:
        """Gather what stats of a file have."""
        self._target = target
        self._keys: list[key_changes.KeyChanges] = []
        self._pairs: dict[str, list[key_changes.KeyChanges]] = {
            each: [] for each in target.indexed_columns
        }

    def add(self, rows: pa.Table) -> None:
        """See rows, with their keys."""
        if self._target.tracks_keys:
            keys = rows.column(schemas.RECORD_KEY).combine_chunks()
            self._keys.append(key_changes.KeyChanges(added=keys))
        for column, pairs in self._pairs.items():
            own = secondary_keys.of_rows(column, rows)
            pairs.append(key_changes.KeyChanges(added=own))

    def keys(self) -> key_changes.KeyChanges | None:
        """Return the keys, if stats have them."""
        return key_changes.joined(self._keys) if self._target.tracks_keys else None

    def pairs(self) -> Mapping[str, key_changes.KeyChanges]:
        """Return the pairs, by column."""
        return {column: key_changes.joined(pairs) for column, pairs in self._pairs.items()}


class _Addition:
    """Rows that a base file gets as they are, or that are all there is in a file group."""

    def __init__(
        self,
        target: writing.FileTarget,
        columns: pa.Schema,
        rules: folding.Rules,
        decoder: block_decoding.Decoder,
        *,
        combines: bool,
    ) -> None:
        """Add rows; once.

        Args:
            target: Where to.
            columns: Of the rows.
            rules: How rows of one key are merged.
            decoder: Of the table.
            combines: Whether rows of one key of an insert are.
        """
        self._target = target
        self._columns = columns
        self._rules = rules
        self._decoder = decoder
        self._combines = combines
        self.counts = merging.MergeCounts()
        self.rows = AddedRows(target)

    def tables(self, pieces: Iterable[Sequence[writing.LogRows]]) -> Iterator[pa.Table]:
        """Yield what is added, piece by piece."""
        target = self._target
        for piece in pieces:
            added, counts = self._added(target, piece)
            self.counts += counts
            self.rows.add(added)
            yield added
            count = sum(each.data.num_rows for each in piece)
            target = replace(target, first_row=target.first_row + count)

    def _added(
        self, target: writing.FileTarget, piece: Sequence[writing.LogRows]
    ) -> tuple[pa.Table, merging.MergeCounts]:
        columns = self._columns
        inserted = _inserted(piece)
        if inserted is None:
            blocks = list(_blocks(target, piece, columns, self._decoder))
            merge = merging.SliceMerge(blocks, self._rules, columns, columns.names, stamps=_STAMPS)
            return merge.inserts(), merge.counts
        changed = self._decoder.changed(_with_meta_columns(target, inserted, columns))
        added, counts = _added(changed, columns, self._rules, combines=self._combines)
        if inserted.sort_by:
            added = added.take(sorting.positions(added, inserted.sort_by))
        if target.watch is not None and added.num_rows:
            target.watch(merging.ChangedRows(before=None, after=added))
        return added, counts


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
