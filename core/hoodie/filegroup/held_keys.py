"""Which of some record keys a file slice has in its files.

A key counts as held where the base file or any log block of the slice has it, a delete too: what is
written of it later belongs on top of that, or a reader of base files alone would find the key in
two file groups, and a delete by event time would not hold against an older row. Whether its row is
still there is asked apart (`live`), of the few keys that several file groups hold.

Cost of a slice: the column of record keys in its base file, some row groups at a time, and its log
blocks, one after the other. Row groups whose statistics exclude all keys are not read. Where base
files have bloom filters, that of a file is asked first if there are few keys: a filter takes about
as long for a key as it takes to read some hundreds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import (
    block_decoding,
    key_footers,
    log_scanning,
    reading,
    slicing,
)
from hoodie.format import log_blocks
from hoodie.format.bloom_filters import Filter
from hoodie.model import files, predicates, schemas, table_config
from hoodie.storage import protocol

Frame = TypeVar("Frame", bound=log_blocks.Frame)
Places = npt.NDArray[np.int64]
"""Positions in the keys that are looked for, ascending."""

_KEY_COLUMN = pa.schema([pa.field(schemas.RECORD_KEY, pa.string())])
_KEYS_AT_ONCE = 1 << 16
_ROWS_A_KEY = 300
"""A filter is asked of a base file with so many times as many rows as there are keys."""


@dataclass(frozen=True, slots=True)
class KeySource:
    """What the file slices of a table have in common.

    Attributes:
        storage: The table's.
        config: The table's configuration.
        schema: The table's columns.
        is_committed: Whether log blocks of an instant count.
    """

    storage: protocol.Storage
    config: table_config.TableConfig
    schema: schemas.TableSchema
    is_committed: slicing.IsCommitted


def held(source: KeySource, file_slice: files.FileSlice, keys: pa.Array) -> Places:
    """Return which keys a slice holds.

    Args:
        source: The slice's table.
        file_slice: Of which the files are read.
        keys: Texts, each once, none of them null.

    Raises:
        NotFoundError: A file is gone.
        FormatError: A file is broken.
        UnsupportedError: The rows of the base file are elsewhere, or a log block is not read.
    """
    found = np.zeros(len(keys), np.bool_)
    if not len(keys):
        return np.flatnonzero(found)
    if file_slice.base_file is not None and _may_hold(source, file_slice.base_file, keys):
        pieces = reading.base_rows(
            source.storage, file_slice.base_file, _KEY_COLUMN, range_of(keys)
        )
        _mark(found, (piece.column(schemas.RECORD_KEY) for piece in pieces), keys)
    _mark(found, _logged_keys(source, file_slice), keys)
    return np.flatnonzero(found)


def live(source: KeySource, file_slice: files.FileSlice, keys: pa.Array) -> npt.NDArray[np.bool_]:
    """Return for each of some keys whether a slice has a row of it, once merged; as `held`."""
    found = np.zeros(len(keys), np.bool_)
    pieces = _merged(source, file_slice, keys)
    _mark(found, (piece.column(schemas.RECORD_KEY) for piece in pieces), keys)
    return found


def rows(
    source: KeySource, file_slice: files.FileSlice, keys: pa.Array, columns: Sequence[str]
) -> pa.Table:
    """Return the record key and some columns of a slice's rows of some keys; as `held`."""
    pieces = _merged(source, file_slice, keys, columns)
    found = [
        piece.filter(pc.is_in(piece.column(schemas.RECORD_KEY), value_set=keys)) for piece in pieces
    ]
    return pa.concat_tables([pieces.schema.empty_table(), *found]).combine_chunks()


def all_rows(source: KeySource, file_slice: files.FileSlice, columns: Sequence[str]) -> pa.Table:
    """Return the record key and some columns of all rows of a slice; errors as of `held`."""
    reader = reading.SliceReader(source.storage, source.config, source.schema, source.is_committed)
    return reader.read(file_slice, [schemas.RECORD_KEY, *columns]).combine_chunks()


def logged_keys(source: KeySource, file_slice: files.FileSlice) -> pa.Array:
    """Return the keys in the log files of a slice, of deletes too, each once; as `held`."""
    chunks = [chunk for keys in _logged_keys(source, file_slice) for chunk in keys.chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


@dataclass(frozen=True, slots=True)
class Side:
    """A slice at one of two moments.

    Attributes:
        source: Which log blocks count then, among others.
        file_slice: The slice.
    """

    source: KeySource
    file_slice: files.FileSlice


def logged_since(then: Side, now: Side) -> pa.Array | None:
    """Return the keys in log blocks that a slice has at a later moment alone, each once; as `held`.

    Merged rows of other keys are the same at both moments. None where that is not so: the base file
    is another, or blocks are gone.
    """
    before, after = then.file_slice, now.file_slice
    if before.base_file != after.base_file:
        return None
    added = added_to(_located(then), _located(now), after.base_file)
    if added is None:
        return None
    chunks = [chunk for keys in _keys_in(now.source, added) for chunk in keys.chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


def added_to(
    old: Sequence[log_scanning.Found[Frame]],
    new: Sequence[log_scanning.Found[Frame]],
    base_file: files.BaseFile | None,
) -> list[log_scanning.Found[Frame]] | None:
    """Return the blocks that a slice has at a later moment alone; None as of `logged_since`.

    Args:
        old: Those that count at the earlier moment.
        new: Those at the later one.
        base_file: Of the slice at both.
    """
    by_positions = [reading.name_base_rows(each, base_file) for each in (old, new)]
    if old and by_positions[0] != by_positions[1]:
        return None  # Rows of keys that the base file has twice are merged in two ways.
    seen = {each.place for each in old}
    added = [each for each in new if each.place not in seen]
    return added if len(added) + len(old) == len(new) else None


def _merged(
    source: KeySource, file_slice: files.FileSlice, keys: pa.Array, columns: Sequence[str] = ()
) -> reading.SliceRows:
    reader = reading.SliceReader(source.storage, source.config, source.schema, source.is_committed)
    return reader.stream(file_slice, [schemas.RECORD_KEY, *columns], range_of(keys))


def held_in(source: KeySource, data_file: files.BaseFile | files.LogFile, keys: pa.Array) -> Places:
    """Return which keys one data file has; as `held`."""
    alone = files.FileSlice(
        group=data_file.group,
        base_instant_time=data_file.instant_time,
        base_file=data_file if isinstance(data_file, files.BaseFile) else None,
        log_files=(data_file,) if isinstance(data_file, files.LogFile) else (),
    )
    return held(source, alone, keys)


def _mark(found: npt.NDArray[np.bool_], present: Iterable[pa.ChunkedArray], keys: pa.Array) -> None:
    """Mark the keys that are among those present, which may be many more."""
    for some in _gathered(present):
        places = pc.index_in(some, value_set=keys).drop_null()
        found[places.to_numpy()] = True


def _gathered(present: Iterable[pa.ChunkedArray]) -> Iterator[pa.ChunkedArray]:
    """Yield keys, many at a time: each look-up among them begins with all that are looked for."""
    chunks: list[pa.Array] = []
    count = 0
    for some in present:
        chunks += some.chunks
        count += len(some)
        if count >= _KEYS_AT_ONCE:
            yield pa.chunked_array(chunks, pa.string())
            chunks, count = [], 0
    if count:
        yield pa.chunked_array(chunks, pa.string())


def range_of(keys: pa.Array) -> predicates.Predicate:
    """Return what holds of all keys, to leave row groups out by."""
    ends = pc.min_max(keys).as_py()
    return predicates.And(
        (
            predicates.Compare(schemas.RECORD_KEY, predicates.Comparator.GE, ends["min"]),
            predicates.Compare(schemas.RECORD_KEY, predicates.Comparator.LE, ends["max"]),
        )
    )


def _logged_keys(source: KeySource, file_slice: files.FileSlice) -> Iterator[pa.ChunkedArray]:
    """Yield the keys of the log blocks of a slice that count, of one block at a time."""
    return _keys_in(source, _located(Side(source, file_slice)))


def _located(side: Side) -> list[log_scanning.Found[log_blocks.Frame]]:
    source, log_files = side.source, side.file_slice.log_files
    return log_scanning.locate(source.storage, log_files, source.is_committed, _pass_by)


def _keys_in(
    source: KeySource, located: Sequence[log_scanning.Found[log_blocks.Frame]]
) -> Iterator[pa.ChunkedArray]:
    if not located:
        return
    columns = pa.schema([*schemas.meta_fields(), *source.schema.arrow])
    decoder = block_decoding.Decoder.of(source.config, columns, _KEY_COLUMN, ())
    for block in log_scanning.contents(source.storage, located):
        with log_scanning.named(block.file):
            yield decoder.decode(block.block).keys


def _pass_by(log_file: files.LogFile, corrupt: log_blocks.CorruptRange) -> None:
    """Readers warn of what they skip."""
    del log_file, corrupt


def _may_hold(source: KeySource, base_file: files.BaseFile, keys: pa.Array) -> bool:
    """Return whether a base file may have one of the keys, by its bloom filter if that is asked."""
    if source.config.index is None or not source.config.index.asks_bloom_filters:
        return True
    footer = key_footers.read(source.storage, base_file.path)
    if footer is None or footer.rows < _ROWS_A_KEY * len(keys) or footer.filter is None:
        return True  # One that is gone is missed by the read.
    try:
        decoded = Filter.decode(footer.filter, base_file.path)
    except errors.UnsupportedError:
        return True
    return bool(decoded.may_contain(keys).any())
