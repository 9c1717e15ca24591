"""Merging a slice whose changes do not fit into memory.

Keys are merged apart from each other, so it is enough to have together what is said of a key. Rows
are put where they are needed by way of scratch files, and never sorted:

    1. the log blocks are decoded one after the other, and each change is put into a part by the
       hash of its key;
    2. the base file's keys likewise, with their positions, as far as a change may be about them;
    3. part by part, keys meet: a change is put to its place, which is the position of the base row
       that it is about, or, of a key that the base file has not, the event that first names it;
    4. the base file streams, and each piece of it meets the changes of its places;
    5. the changes of new keys follow, in ranges of places.

Steps 4 and 5 are merges as `merging.SliceMerge` does them, of fewer keys at a time. Rows come in
the same order as from one merge of all.

Memory: shares of what is allowed (`Memory.share_bytes`): a decoded piece of a block, a piece of the
base file, changes of some places, and what is not yet written of scratch files. A single record
with more changes than that is still merged at once. Disk: the decoded changes twice, compressed.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import (
    block_decoding,
    changes,
    folding,
    kept_deletes,
    log_scanning,
    merging,
    ordering,
    parquet_reading,
    spilling,
)
from hoodie.filegroup.changes import Events, Flags
from hoodie.format import java_hash, log_blocks
from hoodie.model import files, schemas
from hoodie.storage import protocol, scratch

_SHARES = 16
_PARTS_MAX = 1 << 10

_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads hashes that have something in common, as those of one bucket have."""

_PLACE = "_hoodie_spilled_place"
_IS_REPEATED = "_hoodie_spilled_is_repeated"
_POSITION = "_hoodie_spilled_position"
_KEY = "_hoodie_spilled_key"
_BLOCK = "_hoodie_spilled_block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a merge may use.

    Attributes:
        bytes_max: Memory for one slice.
        scratch_folder: A local folder for what does not fit.
    """

    bytes_max: int
    scratch_folder: str

    @property
    def share_bytes(self) -> int:
        """Return how much each of the things may take that are in memory at once."""
        return max(1, self.bytes_max // _SHARES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A slice to be merged.

    Attributes:
        storage: The table's.
        base_file: None for a slice of logs alone.
        blocks: Those that count, in log order.
        decoder: Of the blocks.
        rules: The table's.
        output: Columns of the result.
        merges_repeated_keys: As of `merging.SliceMerge`.
    """

    storage: protocol.Storage
    base_file: files.BaseFile | None
    blocks: Sequence[log_scanning.Found[log_blocks.Frame]]
    decoder: block_decoding.Decoder
    rules: folding.Rules
    output: Sequence[str]
    merges_repeated_keys: bool


@dataclass(slots=True, kw_only=True)
class _Numbering:
    """What is known of all changes and of the base file.

    Attributes:
        blocks: By number.
        events: So many there are.
        piece_starts: Position of the first row of each piece of the base file, and their end.
    """

    blocks: list[spilling.Block] = field(default_factory=list)
    events: int = 0
    piece_starts: list[int] = field(default_factory=lambda: [0])


class BoundedRows:
    """The merged rows of a slice, to be iterated once, in a `with` block."""

    def __init__(self, source: Source, memory: Memory) -> None:
        """Begin; nothing is read yet."""
        self._source = source
        self._memory = memory
        self._share = memory.share_bytes
        self._spilling = spilling.Spilling(
            columns=source.decoder.columns, ordering_fields=source.rules.ordering_fields
        )
        # Of 16 bytes in memory at most one is of a key or a position.
        log_bytes = sum(each.block.length for each in source.blocks)
        self._part_count = min(_PARTS_MAX, 1 + 2 * log_bytes // self._share)
        self._numbering = _Numbering()
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
        self._deletes = self._parts(self._open, self._part_count)
        with contextlib.ExitStack() as placing:
            with contextlib.ExitStack() as meeting:
                by_key = self._parts(meeting, self._part_count)
                is_named = self._spill_changes(by_key)
                base_keys = self._parts(meeting, self._part_count)
                self._spill_base_keys(base_keys, is_named)
                del is_named
                pieces = len(self._numbering.piece_starts) - 1
                placed = self._parts(placing, pieces + self._part_count)
                for number in range(self._part_count):
                    self._place(by_key, base_keys, number, placed)
                placed.flush()
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

    def _parts(self, stack: contextlib.ExitStack, count: int) -> scratch.Parts:
        parts = scratch.Parts(self._memory.scratch_folder, count, self._share)
        return stack.enter_context(parts)

    def _spill_changes(self, by_key: scratch.Parts) -> Flags:
        """Put all changes into parts by key; return by mixed hash whether a change may have it."""
        source, numbering = self._source, self._numbering
        is_named = np.zeros(1 << (self._share - 1).bit_length(), np.bool_)
        for found in log_scanning.contents(source.storage, source.blocks):
            first_event, partial_columns = numbering.events, None
            with log_scanning.named(found.file):
                for piece in source.decoder.pieces(found.block, self._share):
                    if isinstance(piece, changes.ChangedRows):
                        partial_columns = piece.partial_columns
                    mixed = _mixed_hashes(piece.keys)
                    is_named[_slots(mixed, is_named)] = True
                    rows = self._spilling.rows(piece, numbering.events)
                    by_key.add(rows, _numbers(mixed, self._part_count))
                    numbering.events += rows.num_rows
            numbering.blocks.append(
                spilling.Block(
                    first_event=first_event,
                    is_delete=found.block.type is log_blocks.BlockType.DELETE,
                    partial_columns=partial_columns,
                )
            )
        by_key.flush()
        return is_named

    def _spill_base_keys(self, base_keys: scratch.Parts, is_named: Flags) -> None:
        """Put the positions of base rows into parts by key, where a change may be about them."""
        for rows in self._base_pieces(self._key_column()):
            first = self._numbering.piece_starts[-1]
            self._numbering.piece_starts.append(first + rows.num_rows)
            keys = rows.column(schemas.RECORD_KEY)
            mixed = _mixed_hashes(keys)
            found = np.flatnonzero(is_named[_slots(mixed, is_named)])
            base_keys.add(
                pa.table({_KEY: keys.take(pa.array(found)), _POSITION: first + found}),
                _numbers(mixed[found], self._part_count),
            )
        base_keys.flush()

    def _key_column(self) -> pa.Schema:
        return pa.schema([self._source.decoder.columns.field(schemas.RECORD_KEY)])

    def _base_pieces(self, columns: pa.Schema) -> Iterator[pa.Table]:
        base_file = self._source.base_file
        if base_file is None:
            return
        with (
            log_scanning.named(base_file),
            self._source.storage.open_input(base_file.path, is_mapped=False) as source,
        ):
            yield from parquet_reading.ParquetInput(source).cut(columns, self._share)

    def _place(
        self, by_key: scratch.Parts, base_keys: scratch.Parts, number: int, placed: scratch.Parts
    ) -> None:
        """Put the changes of one part to their places."""
        texts = [rows.column(schemas.RECORD_KEY) for rows in by_key.tables(number)]
        if not texts:
            return
        encoded = (
            pa.chunked_array([chunk for text in texts for chunk in text.chunks], pa.string())
            .combine_chunks()
            .dictionary_encode()
        )
        del texts
        key_ids = encoded.indices.to_numpy().astype(np.int64)
        places = self._places(base_keys.tables(number), encoded.dictionary)
        done = 0
        first_events = np.full(len(encoded.dictionary), -1, np.int64)
        for rows in by_key.tables(number):
            ids = key_ids[done : done + rows.num_rows]
            done += rows.num_rows
            events = spilling.events_of(rows)
            # Of several values for one place numpy keeps the last: here the first event.
            first = np.full(len(first_events), -1, np.int64)
            first[ids[::-1]] = events[::-1]
            first_events = np.where(first_events < 0, first, first_events)
            self._put(rows, ids, places, first_events, placed)

    def _put(
        self,
        rows: pa.Table,
        key_ids: Events,
        places: "_Places",
        first_events: Events,
        placed: scratch.Parts,
    ) -> None:
        counts = places.counts[key_ids]
        is_new = counts == 0
        row_of = np.repeat(np.arange(len(key_ids)), np.maximum(counts, 1))
        of_base = ~is_new[row_of]
        place = first_events[key_ids[row_of]]
        place[of_base] = places.of(key_ids[~is_new])
        pieces = len(self._numbering.piece_starts) - 1
        numbers = np.where(
            of_base,
            np.searchsorted(self._numbering.piece_starts, place, side="right") - 1,
            pieces + place * self._part_count // max(1, self._numbering.events),
        )
        if len(row_of) > len(key_ids):
            rows = rows.take(pa.array(row_of))
        rows = rows.append_column(_PLACE, pa.array(place))
        is_repeated = places.is_repeated[key_ids[row_of]]
        placed.add(rows.append_column(_IS_REPEATED, pa.array(is_repeated)), numbers)

    def _places(self, tables: Iterator[pa.Table], keys: pa.Array) -> "_Places":
        """Return the positions of the base rows that changes of some keys are about."""
        positions, key_ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        is_found = np.zeros(len(keys), np.bool_)
        is_repeated = np.zeros(len(keys), np.bool_)
        for rows in tables:
            found = pc.index_in(rows.column(_KEY), value_set=keys)
            which = np.flatnonzero(ordering.flags(found.is_valid()))
            ids = np.asarray(found.fill_null(0))[which].astype(np.int64)
            if not self._source.merges_repeated_keys:
                first = np.zeros(len(keys), np.int64)
                first[ids[::-1]] = which[::-1]
                is_first = (first[ids] == which) & ~is_found[ids]
                is_repeated[ids[~is_first]] = True
                which, ids = which[is_first], ids[is_first]
                is_found[ids] = True
            positions.append(rows.column(_POSITION).to_numpy()[which])
            key_ids.append(ids)
        return _Places.sorted(np.concatenate(positions), np.concatenate(key_ids), is_repeated)

    def _merged_base(self, placed: scratch.Parts) -> Iterator[pa.Table]:
        """Yield the base rows as the changes of their places make them."""
        starts = self._numbering.piece_starts
        for number, piece in enumerate(self._base_pieces(self._source.decoder.columns)):
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
        pieces = len(self._numbering.piece_starts) - 1
        for numbers in self._together(placed, range(pieces, len(placed))):
            first_range, last_range = numbers[0] - pieces, numbers[-1] - pieces
            spans = [(self._range_start(first_range), self._range_start(last_range + 1))]
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

    def _range_start(self, number: int) -> int:
        """Return the first of the places of new keys that are in one range."""
        return -(-number * self._numbering.events // self._part_count)

    def _together(self, parts: scratch.Parts, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Yield numbers of parts that fit into a share together; one at least."""
        taken: list[int] = []
        size_bytes = 0
        for number in numbers:
            more = parts.size_bytes(number)
            if taken and size_bytes + more > self._share:
                yield taken
                taken, size_bytes = [], 0
            taken.append(number)
            size_bytes += more
        if taken:
            yield taken

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
            counts += np.bincount(rows.column(_PLACE).to_numpy() - first, minlength=end - first)
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
            self._spilling.blocks(rows, self._numbering.blocks),
            self._source.rules,
            self._source.decoder.columns,
            self._source.output,
            merges_repeated_keys=self._source.merges_repeated_keys,
        )
        repeated = rows.filter(rows.column(_IS_REPEATED)).column(schemas.RECORD_KEY)
        return merge, repeated.combine_chunks()

    def _note(self, merge: merging.SliceMerge, repeated: pa.Array) -> None:
        """Add up what a merge did, and spill the deletes that it left."""
        assert self._deletes is not None
        self._counts += merge.counts
        found = merge.ordered_deletes()
        rows = pa.Table.from_arrays(
            [found.keys, pa.array(found.blocks, pa.int64()), *found.ordering],
            names=[_KEY, _BLOCK, *self._source.rules.ordering_fields[: len(found.ordering)]],
        )
        rows = rows.filter(pc.invert(pc.is_in(rows.column(_KEY), value_set=repeated)))
        if rows.num_rows:
            keys = rows.column(_KEY)
            self._deletes.add(rows, _numbers(_mixed_hashes(keys), self._part_count))


@dataclass(frozen=True, slots=True)
class _Places:
    """Positions of base rows by key.

    Attributes:
        positions: In the order of keys.
        starts: Where the positions of each key begin among them.
        counts: How many each key has; 0 where the base file has none.
        is_repeated: Of each key, whether the base file has further rows that are not merged.
    """

    positions: Events
    starts: Events
    counts: Events
    is_repeated: Flags

    @classmethod
    def sorted(cls, positions: Events, key_ids: Events, is_repeated: Flags) -> "_Places":
        """Return positions, of each of which the key is given, by key."""
        counts = np.bincount(key_ids, minlength=len(is_repeated))
        order = np.argsort(key_ids, kind="stable")
        return cls(positions[order], np.cumsum(counts) - counts, counts, is_repeated)

    def of(self, key_ids: Events) -> Events:
        """Return the positions of some keys, repeated ones too, one key after the other."""
        lengths = self.counts[key_ids]
        offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        found: Events = self.positions[np.repeat(self.starts[key_ids], lengths) + offsets]
        return found


def _between(tables: Iterator[pa.Table], first: int, end: int) -> Iterator[pa.Table]:
    """Yield the rows whose place is in a range."""
    for rows in tables:
        place = rows.column(_PLACE).to_numpy()
        inside = (place >= first) & (place < end)
        if inside.all():
            yield rows
        elif inside.any():
            yield rows.filter(pa.array(inside))


def _ordered_deletes(tables: Sequence[pa.Table]) -> merging.OrderedDeletes:
    """Return spilled deletes; of several of one key, the last."""
    rows = pa.concat_tables(tables).combine_chunks()
    encoded = rows.column(_KEY).combine_chunks().dictionary_encode()
    last = np.zeros(len(encoded.dictionary), np.int64)
    last[encoded.indices.to_numpy()] = np.arange(rows.num_rows)
    rows = rows.take(pa.array(np.sort(last)))
    return merging.OrderedDeletes(
        keys=rows.column(_KEY).combine_chunks(),
        ordering=tuple(
            rows.column(number).combine_chunks() for number in range(2, rows.num_columns)
        ),
        blocks=rows.column(_BLOCK).to_numpy(),
    )


def _mixed_hashes(keys: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return a hash of each key whose upper half is as good as chance."""
    hashes = java_hash.string_hash(keys).view(np.uint32).astype(np.uint64)
    return (hashes * _MIXER) >> np.uint64(16)


def _numbers(mixed: npt.NDArray[np.uint64], count: int) -> Events:
    return ((mixed >> np.uint64(16)) % np.uint64(count)).astype(np.int64)


def _slots(mixed: npt.NDArray[np.uint64], flags: Flags) -> Events:
    return (mixed & np.uint64(len(flags) - 1)).astype(np.int64)
