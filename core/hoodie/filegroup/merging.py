"""Merging a base file with the folded changes of its slice.

Base rows stream through: each table of them is copied once at most, and not at all when no change
touches it. What stays in memory is the changes. Rows keep the base file's order, an updated row its
place; rows of new keys come last, in the order in which the logs first name them.

Of several base rows with one key, as Hudi's insert makes them, only the first is merged, as Apache
Hudi does it; but all of them where the logs name base rows by position, since they then name each.
A base row is never taken for deleted, whatever its own columns say. Source:
`KeyBasedFileGroupRecordBuffer.java`, `PositionBasedFileGroupRecordBuffer.java` (1.2.0); measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import changes, folding, ordering
from hoodie.filegroup.changes import Events, Flags
from hoodie.model import schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCounts:
    """What a merge did so far.

    Attributes:
        inserted: Rows of keys that the base file has not.
        updated: Base rows that the changes replaced, or would have but for their ordering value.
        kept: Those of them that stay as they are, by their ordering value.
        deleted: Base rows that the changes deleted.
        missed: Keys that the changes delete and the base file has not.
    """

    inserted: int = 0
    updated: int = 0
    kept: int = 0
    deleted: int = 0
    missed: int = 0

    def __add__(self, more: "MergeCounts") -> "MergeCounts":
        return MergeCounts(
            inserted=self.inserted + more.inserted,
            updated=self.updated + more.updated,
            kept=self.kept + more.kept,
            deleted=self.deleted + more.deleted,
            missed=self.missed + more.missed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedDeletes:
    """Deletes that were merged, and against which later changes of their keys still have to hold.

    Attributes:
        keys: Record keys.
        ordering: Their ordering values, a column for each ordering field; none is null.
        blocks: By key, the number of the block that the delete is from.
    """

    keys: pa.Array
    ordering: tuple[pa.Array, ...]
    blocks: Events


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Rows that a merge changed, in the columns that it puts out.

    Attributes:
        before: As the base file has them; None where it has not got them.
        after: As they are put out, row by row those of `before`; None where they are deleted.
    """

    before: pa.Table | None
    after: pa.Table | None


Watch = Callable[[ChangedRows], None]
"""Called with all rows that a merge changes, each once."""


class SliceMerge:
    """One pass over a slice: `over` for each table of base rows in order, then `inserts`.

    Attributes:
        watch: Called with what changes; None for nothing.
    """

    def __init__(
        self,
        blocks: Sequence[changes.Change],
        rules: folding.Rules,
        columns: pa.Schema,
        output: Sequence[str],
        *,
        merges_repeated_keys: bool = False,
        stamps: Sequence[str] = (),
    ) -> None:
        """Fold the changes.

        Args:
            blocks: The slice's log blocks, in log order.
            rules: The table's.
            columns: Of the blocks' rows and of the base rows: what is put out, the ordering fields
                if there are any, and the record key.
            output: The columns to put out, in this order.
            merges_repeated_keys: Whether all base rows of a key are merged, not the first alone.
            stamps: Columns that tell which write changed a row last: a base row that only takes
                values for its nulls takes these as well.
        """
        self.watch: Watch | None = None
        self._merges_repeated_keys = merges_repeated_keys
        self._stamps = frozenset(stamps)
        self._changes = changes.number(
            blocks, columns, rules.ordering_fields, orders_deletes=rules.orders_deletes
        )
        self._rules = rules
        self._output = tuple(output)
        self._fold = folding.Fold(self._changes, rules)
        self._versions = self._fold.alone
        self._is_new = np.ones(len(self._changes.keys), np.bool_)
        self._deleted_by = np.full(len(self._changes.keys), folding.NO_VALUE, np.int64)
        self._is_repeated = np.zeros(len(self._changes.keys), np.bool_)
        self._counts = MergeCounts()

    @property
    def is_partial(self) -> bool:
        """Whether a change has some of the columns alone."""
        return self._changes.partial_from is not None

    @property
    def counts(self) -> MergeCounts:
        """What was done so far."""
        return self._counts

    def over(self, base: pa.Table) -> pa.Table:
        """Return the merged rows of some base rows."""
        output = base.select(self._output)
        rows, keys = self._touched(base)
        if not len(rows):
            return output
        touched = self._decide(base, rows, keys)
        positions = np.arange(base.num_rows)
        kept = np.ones(base.num_rows, np.bool_)
        kept[rows[touched.is_deleted]] = False
        by_source: dict[str | None, pa.Array] = {}
        arrays = []
        for name in self._output:
            column = output.column(name)
            source_name = name if self._has_own_sources(column, name, touched) else None
            if source_name not in by_source:
                sources = self._sources_of(name, column, touched)
                from_changes = base.num_rows + self._changes.row_of[np.maximum(sources, 0)]
                positions[rows] = np.where(sources < 0, rows, from_changes)
                by_source[source_name] = _without(
                    positions[kept], kept, rows[sources == folding.NO_VALUE]
                )
            changed = self._changes.rows.column(name)
            both = pa.chunked_array([*column.chunks, *changed.chunks], column.type)
            arrays.append(both.take(by_source[source_name]))
        merged = pa.Table.from_arrays(arrays, schema=output.schema)
        if self.watch is not None:
            self._notify(self.watch, output, merged, touched, kept)
        return merged

    def inserts(self) -> pa.Table:
        """Return the rows of the keys that no base row had."""
        winner = self._versions.winner
        is_deleted = self._changes.is_deleted[winner]
        keys = np.flatnonzero(self._is_new & ~is_deleted)
        missed = self._is_new & is_deleted
        self._deleted_by[missed] = winner[missed]
        self._counts += MergeCounts(inserted=len(keys), missed=int(missed.sum()))
        self._is_new[:] = False
        rows = self._changes.rows.select(self._output)
        winners = pa.array(self._changes.row_of[winner[keys]])
        arrays = []
        for name in self._output:
            positions = winners
            if name in self._versions.sources:
                sources = self._versions.sources[name][keys]
                positions = pa.array(self._changes.row_of[sources], mask=sources < 0)
            arrays.append(rows.column(name).take(positions))
        inserted = pa.Table.from_arrays(arrays, schema=rows.schema)
        if self.watch is not None and inserted.num_rows:
            self.watch(ChangedRows(before=None, after=inserted))
        return inserted

    def ordered_deletes(self) -> OrderedDeletes:
        """Return what deletes of a place in event time left of their keys, once all is merged.

        Other deletes need no memory: whatever comes after them counts. Nor is one left of a key of
        several base rows: of these a delete takes the first, and merged again would take the next.
        """
        found = self._changes
        by = self._deleted_by[(self._deleted_by >= 0) & ~self._is_repeated]
        by = by[~(found.is_default | found.is_foreign)[by]]
        place = (np.cumsum(found.is_deleted) - 1)[by]
        values = [column.take(pa.array(place)) for column in found.deleted_values]
        is_known = np.full(len(by), bool(values))
        for column in values:
            is_known &= ordering.flags(column.is_valid())
        mask = pa.array(is_known)
        return OrderedDeletes(
            keys=found.keys.take(pa.array(found.key_ids[by[is_known]])),
            ordering=tuple(column.filter(mask).combine_chunks() for column in values),
            blocks=np.searchsorted(found.block_starts, by[is_known], side="right") - 1,
        )

    @staticmethod
    def _notify(
        watch: Watch, base: pa.Table, merged: pa.Table, touched: "_Touched", kept: Flags
    ) -> None:
        places = np.cumsum(kept) - 1
        changed = touched.rows[touched.is_replaced | touched.is_filled]
        if len(changed):
            after = merged.take(pa.array(places[changed]))
            watch(ChangedRows(before=base.take(pa.array(changed)), after=after))
        deleted = touched.rows[touched.is_deleted]
        if len(deleted):
            watch(ChangedRows(before=base.take(pa.array(deleted)), after=None))

    def _touched(self, base: pa.Table) -> tuple[Events, Events]:
        """Return the base rows that changes are about, and the positions of their keys."""
        found = pc.index_in(base.column(schemas.RECORD_KEY), value_set=self._changes.keys)
        rows = np.flatnonzero(ordering.flags(found.is_valid()))
        keys = np.asarray(found.fill_null(0))[rows].astype(np.int64)
        if self._merges_repeated_keys:
            self._is_new[keys] = False
            return rows, keys
        first = np.zeros(len(self._changes.keys), np.int64)
        first[keys[::-1]] = rows[::-1]
        is_first = (first[keys] == rows) & self._is_new[keys]
        self._is_repeated[keys[~is_first]] = True
        rows, keys = rows[is_first], keys[is_first]
        self._is_new[keys] = False
        return rows, keys

    def _decide(self, base: pa.Table, rows: Events, keys: Events) -> "_Touched":
        values = None
        if self._rules.ordering_fields:
            values = ordering.OrderingValues.of(
                [base.column(name).take(pa.array(rows)) for name in self._rules.ordering_fields]
            )
        met = folding.BaseRows(table=base, rows=rows, keys=keys, ordering_values=values)
        winner = self._versions.winner[keys]
        is_filled = ~self._changes.is_deleted[winner] & self._fills_base_rows()
        replaces = self._replaces(winner, values)
        winner = np.where(replaces, winner, folding.BASE_ROW)
        is_filled &= ~replaces
        onto = None
        again = np.flatnonzero(self._fold.needs_base(met))
        if len(again):
            onto = self._fold.onto(met.only(again))
            winner[again] = onto.winner
            is_filled[again] = (onto.winner == folding.BASE_ROW) & (_newest(onto) >= 0)
        replaces = winner >= 0
        is_delete = self._changes.is_deleted[np.maximum(winner, 0)]
        touched = _Touched(
            rows=rows,
            keys=keys,
            is_deleted=replaces & is_delete,
            is_replaced=replaces & ~is_delete,
            is_filled=is_filled,
            again=again,
            onto=onto,
        )
        self._deleted_by[keys[touched.is_deleted]] = winner[touched.is_deleted]
        deleted = int(touched.is_deleted.sum())
        changed = int((touched.is_replaced | touched.is_filled).sum())
        left = len(rows) - deleted
        self._counts += MergeCounts(updated=left, kept=left - changed, deleted=deleted)
        return touched

    def _replaces(self, winner: Events, there: ordering.OrderingValues | None) -> Flags:
        """Return which changes win over the base rows that they meet."""
        values = self._changes.ordering_values
        if values is None:
            return np.ones(len(winner), np.bool_)
        assert there is not None
        comes_after = values.at_least(winner, there, np.arange(len(winner)))
        return comes_after | self._changes.is_default[winner] | self._changes.is_foreign[winner]

    def _fills_base_rows(self) -> bool:
        # Where a block is partial as well, the changes are folded onto each base row.
        return self._rules.fills_nulls and self._changes.partial_from is None

    def _has_own_sources(self, column: pa.ChunkedArray, name: str, touched: "_Touched") -> bool:
        if touched.onto is not None and name in touched.onto.sources:
            return True
        is_filled = column.null_count > 0 or name in self._stamps
        return (self._fills_base_rows() and is_filled) or name in self._versions.sources

    def _sources_of(self, name: str, column: pa.ChunkedArray, touched: "_Touched") -> Events:
        """Return for each touched row the event its value comes from, or BASE_ROW or NO_VALUE."""
        sources = self._versions.sources.get(name, self._versions.winner)[touched.keys]
        is_changed = touched.is_replaced
        if name in self._stamps:
            is_changed = is_changed | touched.is_filled
        elif touched.is_filled.any() and column.null_count:
            is_null = ordering.flags(column.take(pa.array(touched.rows)).is_null())
            is_changed = is_changed | (touched.is_filled & is_null)
        sources = np.where(is_changed & (sources >= 0), sources, folding.BASE_ROW)
        if touched.onto is not None:
            onto = touched.onto.sources.get(name, touched.onto.winner)
            if name in self._stamps:
                is_filled = touched.is_filled[touched.again]
                onto = np.where(is_filled, _newest(touched.onto), onto)
            sources[touched.again] = onto
        return sources


def _without(positions: Events, kept: Flags, nulls: Events) -> pa.Array:
    """Return the positions of values to take, null where the row that is kept has none."""
    if not len(nulls):
        return pa.array(positions)
    is_null = np.zeros(len(kept), np.bool_)
    is_null[nulls] = True
    return pa.array(positions, mask=is_null[kept])


def _newest(versions: folding.Versions) -> Events:
    """Return the newest change that gave each version a value; negative where none did."""
    newest: Events = np.maximum.reduce([versions.winner, *versions.sources.values()])
    return newest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Touched:
    """Base rows that changes are about.

    Attributes:
        rows: Their positions in the table.
        keys: Positions of their keys in the changes.
        is_deleted: Rows that go.
        is_replaced: Rows whose values come from changes, where those have any.
        is_filled: Rows that stay, but take values for their nulls.
        again: Which of them the changes were folded onto.
        onto: The versions of these; None where there are none.
    """

    rows: Events
    keys: Events
    is_deleted: Flags
    is_replaced: Flags
    is_filled: Flags
    again: Events
    onto: folding.Versions | None
