"""Merging a base file with the folded changes of its slice.

Base rows stream through: each table of them is copied once at most, and not at all when no change
touches it. What stays in memory is the changes. Rows keep the base file's order, an updated row its
place; rows of new keys come last, in the order in which the logs first name them.

Of several base rows with one key, as Hudi's insert makes them, only the first is merged, as Apache
Hudi does it; but all of them where the logs name base rows by position, since they then name each.
A base row is never taken for deleted, whatever its own columns say. Source:
`KeyBasedFileGroupRecordBuffer.java`, `PositionBasedFileGroupRecordBuffer.java` (1.2.0); measured.
"""

from collections.abc import Sequence
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


class SliceMerge:
    """One pass over a slice: `over` for each table of base rows in order, then `inserts`."""

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
        self._merges_repeated_keys = merges_repeated_keys
        self._stamps = frozenset(stamps)
        self._changes = changes.number(
            blocks, columns, rules.ordering_fields, orders_deletes=rules.orders_deletes
        )
        self._rules = rules
        self._output = tuple(output)
        self._versions = folding.fold(self._changes, rules)
        self._is_new = np.ones(len(self._changes.keys), np.bool_)
        self._counts = MergeCounts()

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
            source_name = name if self._has_own_sources(column, name) else None
            if source_name not in by_source:
                sources = self._sources_of(name, column, touched)
                from_changes = base.num_rows + self._changes.row_of[sources]
                positions[rows] = np.where(sources < 0, rows, from_changes)
                by_source[source_name] = pa.array(positions[kept])
            changed = self._changes.rows.column(name)
            both = pa.chunked_array([*column.chunks, *changed.chunks], column.type)
            arrays.append(both.take(by_source[source_name]))
        return pa.Table.from_arrays(arrays, schema=output.schema)

    def inserts(self) -> pa.Table:
        """Return the rows of the keys that no base row had."""
        winner = self._versions.winner
        is_deleted = self._changes.is_deleted[winner]
        keys = np.flatnonzero(self._is_new & ~is_deleted)
        missed = int((self._is_new & is_deleted).sum())
        self._counts += MergeCounts(inserted=len(keys), missed=missed)
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
        return pa.Table.from_arrays(arrays, schema=rows.schema)

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
        rows, keys = rows[is_first], keys[is_first]
        self._is_new[keys] = False
        return rows, keys

    def _decide(self, base: pa.Table, rows: Events, keys: Events) -> "_Touched":
        winner = self._versions.winner[keys]
        is_delete = self._changes.is_deleted[winner]
        replaces = np.ones(len(rows), np.bool_)
        values = self._changes.ordering_values
        if values is not None:
            there = ordering.OrderingValues.of(
                [base.column(name).take(pa.array(rows)) for name in self._rules.ordering_fields]
            )
            replaces = values.at_least(winner, there, np.arange(len(rows)))
            replaces |= self._changes.is_default[winner] | self._changes.is_foreign[winner]
        touched = _Touched(
            rows=rows,
            keys=keys,
            is_deleted=replaces & is_delete,
            is_replaced=replaces & ~is_delete,
            is_filled=~replaces & ~is_delete & self._fills_base_rows(),
        )
        deleted = int(touched.is_deleted.sum())
        changed = int((touched.is_replaced | touched.is_filled).sum())
        left = len(rows) - deleted
        self._counts += MergeCounts(updated=left, kept=left - changed, deleted=deleted)
        return touched

    def _fills_base_rows(self) -> bool:
        # Once a block is partial, what is there counts, nulls included, and a base row has all.
        return self._rules.fills_nulls and self._changes.partial_from is None

    def _has_own_sources(self, column: pa.ChunkedArray, name: str) -> bool:
        is_filled = column.null_count > 0 or name in self._stamps
        return (self._fills_base_rows() and is_filled) or name in self._versions.sources

    def _sources_of(self, name: str, column: pa.ChunkedArray, touched: "_Touched") -> Events:
        """Return for each touched row the event its value comes from; -1 for the row itself."""
        sources = self._versions.sources.get(name, self._versions.winner)[touched.keys]
        is_changed = touched.is_replaced
        if name in self._stamps:
            is_changed = is_changed | touched.is_filled
        elif touched.is_filled.any() and column.null_count:
            is_null = ordering.flags(column.take(pa.array(touched.rows)).is_null())
            is_changed = is_changed | (touched.is_filled & is_null)
        return np.where(is_changed, sources, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Touched:
    """Base rows that changes are about.

    Attributes:
        rows: Their positions in the table.
        keys: Positions of their keys in the changes.
        is_deleted: Rows that go.
        is_replaced: Rows whose values come from changes, where those have any.
        is_filled: Rows that stay, but take values for their nulls.
    """

    rows: Events
    keys: Events
    is_deleted: Flags
    is_replaced: Flags
    is_filled: Flags
