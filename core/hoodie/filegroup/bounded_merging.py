"""Merging a slice whose changes do not fit into memory.

Keys are merged apart from each other, so it is enough to have together what is said of a key. The
changes are put to their places (`hoodie.filegroup.placing`); then the base file streams, and each
piece of it meets the changes of its places; the changes of new keys follow, some places at a time.
Each of these is a merge as `merging.SliceMerge` does it, of fewer keys. Rows come in the same order
as from one merge of all.

Memory: shares of what is allowed (`placing.Memory.share_bytes`). What cannot be taken apart is in
memory whole all the same: the changes of one record, and one delete block. Disk: twice the decoded
changes, compressed.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import kept_deletes, log_scanning, merging, packing, placing, spilling
from hoodie.model import schemas
from hoodie.storage import scratch

_BLOCK = "_hoodie_spilled_block"


class BoundedRows:
    """The merged rows of a slice, to be iterated once, in a `with` block."""

    def __init__(self, source: placing.Source, memory: placing.Memory) -> None:
        """Begin; nothing is read yet."""
        self._source = source
        self._share = memory.share_bytes
        self._placing = placing.Placing(source, memory)
        self._counts = merging.MergeCounts()
        self._open = contextlib.ExitStack()
        self._deletes: scratch.Parts | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free the scratch space."""
        self._open.close()

    @property
    def counts(self) -> merging.MergeCounts:
        """What merging did, as far as the rows were iterated."""
        return self._counts

    def __iter__(self) -> Iterator[pa.Table]:
        """Yield tables of the output's columns; some may be empty.

        Raises:
            StorageError: The scratch folder cannot be used, or is full.
        """
        self._deletes = self._placing.parts_by_key(self._open)
        with contextlib.ExitStack() as stack:
            placed = self._placing.placed(stack)
            yield from self._merged_base(placed)
            yield from self._inserted(placed)
        self._deletes.flush()

    def kept_deletes(self, keeping: kept_deletes.Keeping) -> Iterator[kept_deletes.KeptDeletes]:
        """Yield the deletes that outlive a compaction; once all rows were iterated."""
        assert self._deletes is not None
        origins = [
            kept_deletes.Origin(file=each.file, instant_time=log_scanning.instant_time(each.block))
            for each in self._source.blocks
        ]
        for numbers in self._together(self._deletes, range(len(self._deletes))):
            tables = [each for number in numbers for each in self._deletes.tables(number)]
            if tables:
                yield from kept_deletes.kept(_ordered_deletes(tables), origins, keeping)

    def _merged_base(self, placed: scratch.Parts) -> Iterator[pa.Table]:
        """Yield the base rows as the changes of their places make them."""
        starts = self._placing.piece_starts
        for number, piece in enumerate(self._placing.pieces(self._source.decoder.columns)):
            for first, end in self._cuts(placed, number, starts[number], starts[number + 1]):
                base = piece.slice(first - starts[number], end - first)
                tables = list(_between(placed.tables(number), first, end))
                if tables:
                    merge, is_repeated = self._merge(tables)
                    yield merge.over(base)
                    self._note(merge, is_repeated)
                else:
                    yield base.select(self._source.output)

    def _inserted(self, placed: scratch.Parts) -> Iterator[pa.Table]:
        """Yield the rows of keys that the base file has not."""
        pieces = self._placing.base_pieces
        for numbers in self._together(placed, range(pieces, len(placed))):
            first_range, last_range = numbers[0] - pieces, numbers[-1] - pieces
            spans = [
                (self._placing.range_start(first_range), self._placing.range_start(last_range + 1))
            ]
            if len(numbers) == 1:
                spans = list(self._cuts(placed, numbers[0], *spans[0]))
            for first, end in spans:
                tables = [
                    each
                    for number in numbers
                    for each in _between(placed.tables(number), first, end)
                ]
                if tables:
                    merge, is_repeated = self._merge(tables)
                    yield merge.inserts()
                    self._note(merge, is_repeated)

    def _together(self, parts: scratch.Parts, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Yield numbers of parts that fit into a share together; one at least."""
        return packing.in_order(numbers, parts.size_bytes, self._share)

    def _cuts(
        self, placed: scratch.Parts, number: int, first: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Yield ranges of places, from the first to the end, whose changes fit into a share."""
        size_bytes = placed.size_bytes(number)
        if size_bytes <= self._share:
            yield first, end
            return
        counts = np.zeros(end - first, np.int64)
        for rows in placed.tables(number):
            counts += np.bincount(
                rows.column(placing.PLACE).to_numpy() - first, minlength=end - first
            )
        before = np.cumsum(counts)
        rows_max = max(1, int(before[-1]) * self._share // size_bytes)
        start = 0
        while start < end - first:
            done = before[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(before, done + rows_max, side="right")))
            yield first + start, first + stop
            start = stop

    def _merge(self, tables: Sequence[pa.Table]) -> tuple[merging.SliceMerge, pa.Array]:
        """Return the merge of some changes, and which of their keys have several base rows."""
        rows = pa.concat_tables(tables)
        # A key of two base rows may be here twice.
        _, in_order = np.unique(spilling.events_of(rows), return_index=True)
        rows = rows.take(pa.array(in_order))
        merge = merging.SliceMerge(
            self._placing.spilling.blocks(rows, self._placing.blocks),
            self._source.rules,
            self._source.decoder.columns,
            self._source.output,
            merges_repeated_keys=self._source.merges_repeated_keys,
        )
        merge.watch = self._source.watch
        repeated = rows.filter(rows.column(placing.IS_REPEATED)).column(schemas.RECORD_KEY)
        return merge, repeated.combine_chunks()

    def _note(self, merge: merging.SliceMerge, repeated: pa.Array) -> None:
        """Add up what a merge did, and spill the deletes that it left."""
        assert self._deletes is not None
        self._counts += merge.counts
        found = merge.ordered_deletes()
        rows = pa.Table.from_arrays(
            [found.keys, pa.array(found.blocks, pa.int64()), *found.ordering],
            names=[placing.KEY, _BLOCK, *self._source.rules.ordering_fields[: len(found.ordering)]],
        )
        rows = rows.filter(pc.invert(pc.is_in(rows.column(placing.KEY), value_set=repeated)))
        if rows.num_rows:
            self._placing.add_by_key(self._deletes, rows)


def _between(tables: Iterator[pa.Table], first: int, end: int) -> Iterator[pa.Table]:
    """Yield the rows whose place is in a range."""
    for rows in tables:
        place = rows.column(placing.PLACE).to_numpy()
        inside = (place >= first) & (place < end)
        if inside.all():
            yield rows
        elif inside.any():
            yield rows.filter(pa.array(inside))


def _ordered_deletes(tables: Sequence[pa.Table]) -> merging.OrderedDeletes:
    """Return spilled deletes; of several of one key, the last."""
    rows = pa.concat_tables(tables).combine_chunks()
    encoded = rows.column(placing.KEY).combine_chunks().dictionary_encode()
    last = np.zeros(len(encoded.dictionary), np.int64)
    last[encoded.indices.to_numpy()] = np.arange(rows.num_rows)
    rows = rows.take(pa.array(np.sort(last)))
    return merging.OrderedDeletes(
        keys=rows.column(placing.KEY).combine_chunks(),
        ordering=tuple(
            rows.column(number).combine_chunks() for number in range(2, rows.num_columns)
        ),
        blocks=rows.column(_BLOCK).to_numpy(),
    )
