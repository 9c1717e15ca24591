"""Changes as rows of one table, so that they can be spilled, and read back as blocks.

A change has the columns of the table's rows, its event, and what `changes` states of it. A deleted
key is a row with its record key and ordering values. Blocks are remembered aside, with all that
holds for the slice as a whole: some changes of a slice become the same number of blocks, most of
them empty, so that they are merged as they are among all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.filegroup import changes, ordering
from hoodie.filegroup.changes import Events
from hoodie.model import schemas

EVENT = "_hoodie_spilled_event"
_IS_DELETED = "_hoodie_spilled_is_deleted"
_IS_DEFAULT = "_hoodie_spilled_is_default"
_IS_FOREIGN = "_hoodie_spilled_is_foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block whose changes were spilled.

    Attributes:
        first_event: Its first event, or that of the next block where it has none.
        is_delete: Whether it is a delete block.
        partial_columns: As in `changes.ChangedRows`.
    """

    first_event: int
    is_delete: bool
    partial_columns: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spilling:
    """How changes become rows and back.

    Attributes:
        columns: Of the changed rows.
        ordering_fields: Those of them that decide by event time.
    """

    columns: pa.Schema
    ordering_fields: Sequence[str]

    def rows(self, change: changes.Change, first_event: int) -> pa.Table:
        """Return changes as rows."""
        count = len(change.keys)
        false = np.zeros(count, np.bool_)
        if isinstance(change, changes.ChangedRows):
            arrays = list(change.rows.columns)
            is_deleted = false if change.is_deleted is None else change.is_deleted
            flags = (is_deleted, false, false)
        else:
            arrays = [self._of_deletes(change, field) for field in self.columns]
            flags = (~false, change.is_default, change.is_foreign)
        events = np.arange(first_event, first_event + count)
        return pa.Table.from_arrays(
            [*arrays, pa.array(events), *map(pa.array, flags)],
            schema=pa.schema(
                [
                    # Of a deleted key all other columns are null.
                    *(field.with_nullable(True) for field in self.columns),
                    pa.field(EVENT, pa.int64()),
                    *(pa.field(name, pa.bool_()) for name in _FLAGS),
                ]
            ),
        )

    def blocks(self, rows: pa.Table, blocks: Sequence[Block]) -> list[changes.Change]:
        """Return the blocks of spilled rows.

        Args:
            rows: In the order of events.
            blocks: All blocks of the slice.
        """
        rows = rows.combine_chunks()
        events = events_of(rows)
        starts = np.searchsorted(events, [block.first_event for block in blocks])
        ends = np.append(starts[1:], len(events))
        flags = {name: ordering.flags(rows.column(name)) for name in _FLAGS}
        found: list[changes.Change] = []
        for block, start, end in zip(blocks, starts, ends, strict=True):
            some = rows.slice(start, end - start)
            keys = some.column(schemas.RECORD_KEY)
            if block.is_delete:
                found.append(
                    changes.DeletedKeys(
                        keys=keys,
                        ordering=tuple(some.column(name) for name in self.ordering_fields) or None,
                        is_default=flags[_IS_DEFAULT][start:end],
                        is_foreign=flags[_IS_FOREIGN][start:end],
                    )
                )
                continue
            arrays = some.select(self.columns.names).columns
            found.append(
                changes.ChangedRows(
                    keys=keys,
                    rows=pa.Table.from_arrays(arrays, schema=self.columns),
                    partial_columns=block.partial_columns,
                    is_deleted=flags[_IS_DELETED][start:end],
                )
            )
        return found

    def _of_deletes(self, deletes: changes.DeletedKeys, field: pa.Field) -> pa.ChunkedArray:
        if field.name == schemas.RECORD_KEY:
            return deletes.keys
        if deletes.ordering is not None and field.name in self.ordering_fields:
            return deletes.ordering[list(self.ordering_fields).index(field.name)]
        return pa.chunked_array([pa.nulls(len(deletes.keys), field.type)])


_FLAGS = (_IS_DELETED, _IS_DEFAULT, _IS_FOREIGN)


def events_of(rows: pa.Table) -> Events:
    """Return the events of spilled rows."""
    found: Events = rows.column(EVENT).to_numpy()
    return found
