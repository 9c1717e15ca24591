"""Putting the changes of a slice to their places, by way of scratch files.

The place of a change is the position of the base row that it is about, or, of a key that the base
file has not, the event that first names it.

    1. the log blocks are decoded one after the other, and each change is put into a part by the
       hash of its key;
    2. the base file's keys likewise, with their positions, as far as a change may be about them;
    3. part by part, keys meet, and changes are put into a part for each piece of the base file, and
       for each range of places of new keys.

Nothing is sorted: within a part the changes of a key are in log order.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import (
    block_decoding,
    changes,
    folding,
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

PLACE = "_hoodie_spilled_place"
IS_REPEATED = "_hoodie_spilled_is_repeated"
KEY = "_hoodie_spilled_key"
_POSITION = "_hoodie_spilled_position"

_SHARES = 16
PARTS_MAX = 1 << 10
"""By key: with more the pieces that are written become too small."""

_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads hashes that have something in common, as those of one bucket have."""


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
        watch: As of `merging.SliceMerge`.
    """

    storage: protocol.Storage
    base_file: files.BaseFile | None
    blocks: Sequence[log_scanning.Found[log_blocks.Frame]]
    decoder: block_decoding.Decoder
    rules: folding.Rules
    output: Sequence[str]
    merges_repeated_keys: bool
    watch: merging.Watch | None = None


class Placing:
    """The changes of one slice on their way to their places.

    In memory are a piece of a block or of the base file, the keys of one part, and what is not yet
    written.

    Attributes:
        spilling: How they are spilled.
        blocks: The blocks that they are from, once they are placed.
        piece_starts: Position of the first row of each piece of the base file, and their end.
    """

    def __init__(self, source: Source, memory: Memory) -> None:
        """Begin; nothing is read yet."""
        self.spilling = spilling.Spilling(
            columns=source.decoder.columns, ordering_fields=source.rules.ordering_fields
        )
        self.blocks: list[spilling.Block] = []
        self.piece_starts = [0]
        self._source = source
        self._memory = memory
        self._events = 0
        log_bytes = sum(each.block.length for each in source.blocks)
        # What is in memory of a part are the keys.
        self._part_count = min(PARTS_MAX, 1 + 4 * log_bytes // memory.share_bytes)

    @property
    def base_pieces(self) -> int:
        """How many pieces the base file has; the parts of new keys have the numbers behind."""
        return len(self.piece_starts) - 1

    def placed(self, stack: contextlib.ExitStack) -> scratch.Parts:
        """Return all changes at their places: by piece of the base file, then by range of new keys.

        Args:
            stack: Closes the parts.

        Raises:
            StorageError: The scratch folder cannot be used, or is full.
        """
        with contextlib.ExitStack() as meeting:
            by_key = meeting.enter_context(self.parts(self._part_count))
            is_named = self._spill_changes(by_key)
            base_keys = meeting.enter_context(self.parts(self._part_count))
            self._spill_base_keys(base_keys, is_named)
            del is_named
            found = stack.enter_context(self.parts(self.base_pieces + self._part_count))
            for number in range(self._part_count):
                self._place(by_key, base_keys, number, found)
            found.flush()
        return found

    def parts(self, count: int) -> scratch.Parts:
        """Return empty parts."""
        return scratch.Parts(self._memory.scratch_folder, count, self._memory.share_bytes)

    def parts_by_key(self, stack: contextlib.ExitStack) -> scratch.Parts:
        """Return empty parts for `add_by_key`; the stack closes them."""
        return stack.enter_context(self.parts(self._part_count))

    def add_by_key(self, parts: scratch.Parts, rows: pa.Table) -> None:
        """Add rows that have a column of keys."""
        numbers = _numbers(_mixed_hashes(rows.column(KEY)), self._part_count)
        parts.add(rows, numbers)

    def range_start(self, number: int) -> int:
        """Return the first of the places of new keys that are in one of their parts."""
        return -(-number * self._events // self._part_count)

    def pieces(self, columns: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows of the base file in pieces that are the same whatever the columns are."""
        base_file = self._source.base_file
        if base_file is None:
            return
        with (
            log_scanning.named(base_file),
            self._source.storage.open_input(base_file.path, is_mapped=False) as source,
        ):
            yield from parquet_reading.ParquetInput(source).cut(columns, self._memory.share_bytes)

    def _spill_changes(self, by_key: scratch.Parts) -> Flags:
        """Put all changes into parts by key; return by mixed hash whether a change may have it."""
        source = self._source
        is_named = np.zeros(1 << (self._memory.share_bytes - 1).bit_length(), np.bool_)
        for found in log_scanning.contents(source.storage, source.blocks):
            first_event, partial_columns = self._events, None
            with log_scanning.named(found.file):
                for piece in source.decoder.pieces(found.block, self._memory.share_bytes):
                    if isinstance(piece, changes.ChangedRows):
                        partial_columns = piece.partial_columns
                    mixed = _mixed_hashes(piece.keys)
                    is_named[_slots(mixed, is_named)] = True
                    rows = self.spilling.rows(piece, self._events)
                    by_key.add(rows, _numbers(mixed, self._part_count))
                    self._events += rows.num_rows
            self.blocks.append(
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
        columns = pa.schema([self._source.decoder.columns.field(schemas.RECORD_KEY)])
        for rows in self.pieces(columns):
            first = self.piece_starts[-1]
            self.piece_starts.append(first + rows.num_rows)
            keys = rows.column(schemas.RECORD_KEY)
            mixed = _mixed_hashes(keys)
            found = np.flatnonzero(is_named[_slots(mixed, is_named)])
            base_keys.add(
                pa.table({KEY: keys.take(pa.array(found)), _POSITION: first + found}),
                _numbers(mixed[found], self._part_count),
            )
        base_keys.flush()

    def _place(
        self, by_key: scratch.Parts, base_keys: scratch.Parts, number: int, placed: scratch.Parts
    ) -> None:
        """Put the changes of one part to their places."""
        texts = [pa.chunked_array([], pa.string())]
        known_events = [np.zeros(0, np.int64)]
        for rows in by_key.tables(number):
            texts.append(rows.column(schemas.RECORD_KEY))
            known_events.append(spilling.events_of(rows))
        keys = pa.chunked_array([chunk for text in texts for chunk in text.chunks], pa.string())
        del texts
        encoded = keys.combine_chunks().dictionary_encode()
        del keys
        key_ids = encoded.indices.to_numpy().astype(np.int64)
        # Of several values for one place numpy keeps the last: here the first event.
        first_events = np.zeros(len(encoded.dictionary), np.int64)
        first_events[key_ids[::-1]] = np.concatenate(known_events)[::-1]
        places = self._places(base_keys.tables(number), encoded.dictionary)
        done = 0
        for rows in by_key.tables(number):
            ids = key_ids[done : done + rows.num_rows]
            done += rows.num_rows
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
        numbers = np.where(
            of_base,
            np.searchsorted(self.piece_starts, place, side="right") - 1,
            self.base_pieces + place * self._part_count // max(1, self._events),
        )
        if len(row_of) > len(key_ids):
            rows = rows.take(pa.array(row_of))
        rows = rows.append_column(PLACE, pa.array(place))
        is_repeated = places.is_repeated[key_ids[row_of]]
        placed.add(rows.append_column(IS_REPEATED, pa.array(is_repeated)), numbers)

    def _places(self, tables: Iterator[pa.Table], keys: pa.Array) -> "_Places":
        """Return the positions of the base rows that changes of some keys are about."""
        positions, key_ids = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        is_found = np.zeros(len(keys), np.bool_)
        is_repeated = np.zeros(len(keys), np.bool_)
        for rows in tables:
            found = pc.index_in(rows.column(KEY), value_set=keys)
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


def _mixed_hashes(keys: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Return a hash of each key whose upper half is as good as chance."""
    hashes = java_hash.string_hash(keys).view(np.uint32).astype(np.uint64)
    return (hashes * _MIXER) >> np.uint64(16)


def _numbers(mixed: npt.NDArray[np.uint64], count: int) -> Events:
    return ((mixed >> np.uint64(16)) % np.uint64(count)).astype(np.int64)


def _slots(mixed: npt.NDArray[np.uint64], flags: Flags) -> Events:
    return (mixed & np.uint64(len(flags) - 1)).astype(np.int64)
