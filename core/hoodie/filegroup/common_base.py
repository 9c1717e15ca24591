"""Slices of a file group at several moments that have their base file in common, merged together.

A slice that only log files are added to is the same at all moments but for them. So the base file
and each log block are read once, of all moments, and all are merged at once: of a row that is asked
for as of several moments there are as many copies, whose keys begin with the number of theirs.
Merging takes rows of a key together, and so no two of different moments.

Partial blocks are left to merges of their own: from the first of them on a slice is merged by other
rules, and not all moments have it.

Memory: the log blocks of all moments, and of each moment the versions of the rows asked for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.filegroup import (
    block_decoding,
    changes,
    held_keys,
    log_scanning,
    merging,
    packing,
    reading,
)
from hoodie.format import log_blocks
from hoodie.model import files, schemas

Places = npt.NDArray[np.int64]

_DIGITS = 8
"""Of the number before a key."""

_MERGED_MAX = 1 << 18
"""About so many versions of rows are merged at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Rows that are asked for.

    Attributes:
        side: As of which side, by its place.
        keys: Their record keys, each once.
    """

    side: int
    keys: pa.Array


def have_one(slices: Sequence[files.FileSlice]) -> bool:
    """Return whether slices have their base file in common."""
    return len({(each.group, each.base_instant_time, each.base_file) for each in slices}) == 1


class CommonBase:
    """The slices. Nothing is read of the base file before rows are asked for.

    Attributes:
        is_partial: Whether a log block has some of the columns alone; then rows must not be asked
            for.
    """

    def __init__(self, sides: Sequence[held_keys.Side], columns: Sequence[str]) -> None:
        """Read the log files.

        Args:
            sides: Slices that have their base file in common, of one table.
            columns: Of rows, the record key among them.

        Raises:
            HoodieError: As `reading.SliceReader.stream`.
        """
        source = sides[0].source
        self._slice = sides[0].file_slice
        self._storage = source.storage
        reader = reading.SliceReader(
            source.storage, source.config, source.schema, source.is_committed
        )
        self._merging = reader.merging_of(self._slice.group.partition_path, columns)
        scanned = self._scanned({log for each in sides for log in each.file_slice.log_files})
        counting = (
            log_scanning.counting(
                ((log, scanned[log]) for log in each.file_slice.log_files),
                each.source.is_committed,
                _pass_by,
            )
            for each in sides
        )
        # In log order: a side has some of the blocks, in the order of all.
        self._blocks = [
            log_scanning.Found(file=log, block=block)
            for log, found in scanned.items()
            for block in found
            if isinstance(block, log_blocks.Block)
        ]
        numbers = {each.place: number for number, each in enumerate(self._blocks)}
        self._of_sides = [
            np.array([numbers[each.place] for each in found], int) for found in counting
        ]
        used = [self._blocks[number] for number in np.unique(np.concatenate(self._of_sides))]
        self.is_partial = any(block_decoding.is_partial(each.block) for each in used)
        self._decoded = (
            {} if self.is_partial else {numbers[each.place]: self._decode(each) for each in used}
        )

    def _scanned(
        self, log_files: set[files.LogFile]
    ) -> dict[files.LogFile, list[log_blocks.Block | log_blocks.CorruptRange]]:
        ordered = files.in_merge_order(log_files, self._slice.base_instant_time)
        buffers = self._storage.read_buffers([each.path for each in ordered])
        found = {}
        for log_file, buffer in zip(ordered, buffers, strict=True):
            with log_scanning.named(log_file):
                found[log_file] = list(log_blocks.scan(buffer))
            for each in found[log_file]:
                if isinstance(each, log_blocks.CorruptRange):
                    self._merging.on_corrupt(log_file, each)
        return found

    def _decode(self, found: log_scanning.Found[log_blocks.Block]) -> changes.Change:
        with log_scanning.named(found.file):
            return self._merging.decoder.decode(found.block)

    def added(self, then: int, now: int) -> pa.Array | None:
        """Return the keys in log blocks of one side that another lacks; None as of `held_keys`."""
        old, new = self._blocks_of(then), self._blocks_of(now)
        found = held_keys.added_to(old, new, self._slice.base_file)
        if found is None:
            return None
        added = np.setdiff1d(self._of_sides[now], self._of_sides[then]).tolist()
        chunks = [chunk for each in added for chunk in self._decoded[each].keys.chunks]
        return pc.unique(pa.chunked_array(chunks, pa.string()))

    def _blocks_of(self, side: int) -> list[log_scanning.Found[log_blocks.Block]]:
        return [self._blocks[number] for number in self._of_sides[side]]

    def _merges_repeated_keys(self, side: int) -> bool:
        return reading.name_base_rows(self._blocks_of(side), self._slice.base_file)

    def rows(self, asked: Sequence[Asked]) -> list[pa.Table]:
        """Return merged rows, a table for each that is asked for, in the columns."""
        found: dict[int, pa.Table] = {}
        if not asked:
            return []
        base = self._base_rows(pc.unique(pa.chunked_array([each.keys for each in asked])))
        for numbers in self._batches(asked):
            merged = self._merged(_Copies([asked[each] for each in numbers]), base)
            found |= zip(numbers, merged, strict=True)
        return [found[number] for number in range(len(asked))]

    def _base_rows(self, keys: pa.Array) -> pa.Table:
        """Return the rows of the base file of some keys."""
        inside = self._merging.inside
        found = [inside.empty_table()]
        if len(keys):
            pieces = reading.base_rows(
                self._storage, self._slice.base_file, inside, held_keys.range_of(keys)
            )
            found += (
                piece.filter(pc.is_in(piece.column(schemas.RECORD_KEY), value_set=keys))
                for piece in pieces
            )
        return pa.concat_tables(found)

    def _batches(self, asked: Sequence[Asked]) -> Iterator[list[int]]:
        """Yield which are merged together: by the same rule, and not too many."""
        by_rule: dict[bool, list[int]] = {}
        for number, each in enumerate(asked):
            # Without blocks nothing is merged, by either rule.
            by_rule.setdefault(self._merges_repeated_keys(each.side), []).append(number)
        for numbers in by_rule.values():
            yield from packing.in_order(
                numbers, lambda number: self._versions_of(asked[number]), _MERGED_MAX
            )

    def _versions_of(self, asked: Asked) -> int:
        """Return how many versions of rows are merged for what is asked for, at most."""
        return len(asked.keys) * (1 + len(self._of_sides[asked.side]))

    def _merged(self, copies: "_Copies", base: pa.Table) -> list[pa.Table]:
        has_block = np.zeros((len(copies.asked), len(self._blocks)), np.bool_)
        for place, each in enumerate(copies.asked):
            has_block[place, self._of_sides[each.side]] = True
        merge = merging.SliceMerge(
            [
                copies.of_change(self._decoded[number], has_block[:, number])
                for number in np.flatnonzero(has_block.any(axis=0)).tolist()
            ],
            self._merging.rules,
            self._merging.inside,
            self._merging.held.names,
            merges_repeated_keys=self._merges_repeated_keys(copies.asked[0].side),
        )
        merged = pa.concat_tables([merge.over(copies.of_rows(base)), merge.inserts()])
        apart = copies.apart(merged)
        return list(reading.beside(iter(apart), self._merging.output, self._merging.values))


class _Copies:
    """Copies of rows, one for each that is asked for, distinguished by their keys."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.asked = asked
        keys = pa.chunked_array([each.keys for each in asked], pa.string()).combine_chunks()
        encoded = keys.dictionary_encode()
        codes = encoded.indices.to_numpy()
        self._keys = encoded.dictionary
        # By key: which ask for it.
        self._places = np.repeat(np.arange(len(asked)), [len(each.keys) for each in asked])[
            np.argsort(codes, kind="stable")
        ]
        self._counts = np.bincount(codes, minlength=len(self._keys))
        self._starts = np.cumsum(self._counts) - self._counts
        self._numbers = pa.array([f"{place:0{_DIGITS}}" for place in range(len(asked))])

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """Return the copies of rows."""
        which, places = self._spread(rows.column(schemas.RECORD_KEY), None)
        return self._with_keys(rows.take(pa.array(which)), places)

    def of_change(self, change: changes.Change, has_block: npt.NDArray[np.bool_]) -> changes.Change:
        """Return the copies of what a log block changes, for some of those who ask."""
        which, places = self._spread(change.keys, has_block)
        taken = pa.array(which)
        match change:
            case changes.ChangedRows():
                rows = self._with_keys(change.rows.take(taken), places)
                is_deleted = None if change.is_deleted is None else change.is_deleted[which]
                return replace(
                    change,
                    keys=rows.column(schemas.RECORD_KEY),
                    rows=rows,
                    is_deleted=is_deleted,
                )
            case changes.DeletedKeys():
                values = change.ordering
                return changes.DeletedKeys(
                    keys=self._distinguished(change.keys.take(taken), places),
                    ordering=values and tuple(column.take(taken) for column in values),
                    is_default=change.is_default[which],
                    is_foreign=change.is_foreign[which],
                )

    def apart(self, rows: pa.Table) -> list[pa.Table]:
        """Return the rows of each that is asked for, in the same order, with their own keys."""
        column = rows.column_names.index(schemas.RECORD_KEY)
        texts = rows.column(column)
        number = pc.utf8_slice_codeunits(texts, 0, _DIGITS)
        places = np.asarray(pc.index_in(number, value_set=self._numbers)).astype(np.int64)
        keys = pc.utf8_slice_codeunits(texts, _DIGITS)
        rows = rows.set_column(column, rows.schema.field(column), keys)
        rows = rows.take(pa.array(np.argsort(places, kind="stable"))).combine_chunks()
        counts = np.bincount(places, minlength=len(self.asked))
        ends = np.cumsum(counts)
        return [rows.slice(end - count, count) for end, count in zip(ends, counts, strict=True)]

    def _spread(
        self, keys: pa.ChunkedArray, has_block: npt.NDArray[np.bool_] | None
    ) -> tuple[Places, Places]:
        """Return which rows are copied, as often as there are copies, and who asks for each."""
        codes = pc.index_in(keys, value_set=self._keys)
        rows = np.flatnonzero(np.asarray(codes.is_valid()))
        asked = np.asarray(codes.drop_null()).astype(np.int64)
        counts = self._counts[asked]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        which = np.repeat(rows, counts)
        places = self._places[np.repeat(self._starts[asked], counts) + offsets]
        if has_block is None:
            return which, places
        is_merged = has_block[places]
        return which[is_merged], places[is_merged]

    def _with_keys(self, rows: pa.Table, places: Places) -> pa.Table:
        column = rows.column_names.index(schemas.RECORD_KEY)
        keys = self._distinguished(rows.column(column), places)
        return rows.set_column(column, rows.schema.field(column), keys)

    def _distinguished(self, keys: pa.ChunkedArray, places: Places) -> pa.ChunkedArray:
        numbers = self._numbers.take(pa.array(places))
        joined = pc.binary_join_element_wise(numbers, keys.combine_chunks(), "")
        return pa.chunked_array([joined], pa.string())


def _pass_by(log_file: files.LogFile, corrupt: log_blocks.CorruptRange) -> None:
    """Corrupt ranges were reported when the files were scanned."""
    del log_file, corrupt
