"""What the log blocks of a slice change: rows and deleted keys, numbered in log order.

Terms:
    change   one row of a data block, or one key of a delete block
    event    the number of a change: 0 is the first change of the slice's first block

Nothing here decides what wins; `hoodie.filegroup.folding` does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.filegroup import ordering

Events = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """The rows of one data block.

    Attributes:
        keys: Record keys, none of them null.
        rows: The columns that are needed, in the table's types; one that the block lacks is null.
        partial_columns: Of a block that says it is partial (IS_PARTIAL), the columns it holds. None
            for whole rows: what such a block lacks is null by right, as in a column added later.
        is_deleted: Rows that say of themselves that they are deleted; None when none does.
    """

    keys: pa.ChunkedArray
    rows: pa.Table
    partial_columns: frozenset[str] | None = None
    is_deleted: Flags | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedKeys:
    """The keys of one delete block.

    Attributes:
        keys: Record keys, none of them null.
        ordering: Their ordering values, a column for each ordering field in the field's type; null
            where the value is the default or foreign. None when all are.
        is_default: Deletes that take place in commit order.
        is_foreign: Deletes whose value is of another class than the column's.
    """

    keys: pa.ChunkedArray
    ordering: tuple[pa.ChunkedArray, ...] | None
    is_default: Flags
    is_foreign: Flags

    def part(self, first: int, count: int) -> "DeletedKeys":
        """Return some of them."""
        ordering = self.ordering
        return DeletedKeys(
            keys=self.keys.slice(first, count),
            ordering=ordering and tuple(column.slice(first, count) for column in ordering),
            is_default=self.is_default[first : first + count],
            is_foreign=self.is_foreign[first : first + count],
        )


Change = ChangedRows | DeletedKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All changes of a slice; every array has an element for each event unless it says otherwise.

    Attributes:
        key_ids: Position of the key in `keys`.
        keys: Each key once, in the order of first appearance.
        rows: The rows of all data blocks; one an event that is a row.
        row_of: Position in `rows`; -1 for a deleted key.
        is_deleted: Whether the change deletes.
        is_key_only: Whether it is from a delete block.
        is_default: Deletes that take place in commit order.
        is_foreign: Deletes whose ordering value is of another class than the column's.
        ordering_values: None when they are not asked for.
        deleted_values: Of the changes that delete alone, as the table has them: a column for each
            ordering field.
        block_starts: First event of each block.
        partial_from: First event of the first block that says it is partial; None for none.
        carried: Of columns that some partial block lacks: whether the event's block has it.
    """

    key_ids: Events
    keys: pa.Array
    rows: pa.Table
    row_of: Events
    is_deleted: Flags
    is_key_only: Flags
    is_default: Flags
    is_foreign: Flags
    ordering_values: ordering.OrderingValues | None
    deleted_values: tuple[pa.ChunkedArray, ...]
    block_starts: Events
    partial_from: int | None
    carried: Mapping[str, Flags]


def number(
    blocks: Sequence[Change],
    columns: pa.Schema,
    ordering_fields: Sequence[str],
    *,
    orders_deletes: bool = True,
) -> Changes:
    """Return the changes of blocks that come in log order.

    Args:
        blocks: Any number.
        columns: Of the rows; the ordering fields are among them.
        ordering_fields: Columns whose values decide; none when the order of events alone does.
        orders_deletes: Whether they decide for deletes, too; otherwise all of these are defaults.
    """
    keys = pa.chunked_array([chunk for block in blocks for chunk in block.keys.chunks], pa.string())
    encoded = keys.combine_chunks().dictionary_encode()
    row_blocks = [block for block in blocks if isinstance(block, ChangedRows)]
    rows = pa.concat_tables([columns.empty_table(), *(block.rows for block in row_blocks)])
    is_key_only = _by_block(blocks, [isinstance(block, DeletedKeys) for block in blocks])
    is_deleted = _flags([_deleted(block) for block in blocks])
    values = [
        _ordering_column(blocks, number, columns.field(name))
        for number, name in enumerate(ordering_fields)
    ]
    deletes = pa.array(np.flatnonzero(is_deleted))
    lengths = np.array([len(block.keys) for block in blocks], np.int64)
    return Changes(
        key_ids=encoded.indices.to_numpy().astype(np.int64),
        keys=encoded.dictionary,
        rows=rows.combine_chunks(),
        row_of=np.where(is_key_only, -1, np.cumsum(~is_key_only) - 1),
        is_deleted=is_deleted,
        is_key_only=is_key_only,
        is_default=(
            _flags([_stated(block, "is_default") for block in blocks])
            | _default_rows(values, is_deleted & ~is_key_only)
            | (is_deleted & (not orders_deletes))
        ),
        is_foreign=_flags([_stated(block, "is_foreign") for block in blocks]),
        ordering_values=ordering.OrderingValues.of(values) if values else None,
        deleted_values=tuple(column.take(deletes) for column in values),
        block_starts=np.cumsum(lengths) - lengths,
        partial_from=_partial_from(blocks),
        carried={
            name: _by_block(blocks, [_carries(block, name) for block in blocks])
            for name in columns.names
            if not all(_carries(block, name) for block in row_blocks)
        },
    )


def _ordering_column(blocks: Sequence[Change], number: int, field: pa.Field) -> pa.ChunkedArray:
    """Return the values of one ordering field, in the field's type, for every event."""
    chunks: list[pa.Array] = []
    for block in blocks:
        match block:
            case ChangedRows():
                chunks += block.rows.column(field.name).chunks
            case DeletedKeys():
                values = block.ordering
                nulls = [pa.nulls(len(block.keys), field.type)]
                chunks += nulls if values is None else values[number].chunks
    return pa.chunked_array(chunks, field.type)


def _default_rows(values: Sequence[pa.ChunkedArray], is_deleted_row: Flags) -> Flags:
    """Return the rows that delete in commit order; several values together are never a default."""
    if len(values) != 1 or not is_deleted_row.any():
        return np.zeros(len(is_deleted_row), np.bool_)
    return is_deleted_row & ordering.is_default(values[0])


def _deleted(block: Change) -> Flags:
    if isinstance(block, ChangedRows) and block.is_deleted is not None:
        return block.is_deleted
    return np.full(len(block.keys), isinstance(block, DeletedKeys))


def _stated(block: Change, name: str) -> Flags:
    if isinstance(block, ChangedRows):
        return np.zeros(len(block.keys), np.bool_)
    return block.is_default if name == "is_default" else block.is_foreign


def _carries(block: Change, name: str) -> bool:
    if isinstance(block, DeletedKeys):
        return False
    return block.partial_columns is None or name in block.partial_columns


def _partial_from(blocks: Sequence[Change]) -> int | None:
    first = 0
    for block in blocks:
        if isinstance(block, ChangedRows) and block.partial_columns is not None:
            return first
        first += len(block.keys)
    return None


def _by_block(blocks: Sequence[Change], flags: Sequence[bool]) -> Flags:
    """Return for each event what holds for its block."""
    return np.repeat(np.array(flags, np.bool_), [len(block.keys) for block in blocks])


def _flags(parts: Sequence[Flags]) -> Flags:
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)
