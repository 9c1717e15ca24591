"""The record keys in data files that are there already, for a record index.

of_slice    those of a file slice's rows
changes_by  what a file of a write did to the keys of its file group, as its writer would have
            said while it wrote the file (`rewriting`, `write.tasks`)
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.filegroup import (
    block_decoding,
    changes,
    folding,
    held_keys,
    log_scanning,
    placing,
    reading,
)
from hoodie.format import file_names, log_blocks
from hoodie.model import commits, files, key_changes, schemas, table_config

_KEY_COLUMN = pa.schema([pa.field(schemas.RECORD_KEY, pa.string())])


def of_slice(
    source: held_keys.KeySource, file_slice: files.FileSlice, memory: placing.Memory
) -> Iterator[pa.ChunkedArray]:
    """Yield the keys of a slice's rows, merged; a key of several rows more than once.

    Args:
        source: The slice's table.
        file_slice: Of which the files are read.
        memory: What a merge may use.

    Raises:
        NotFoundError: A file is gone.
        FormatError: A file is broken.
        UnsupportedError: It has something that is not read.
        StorageError: The scratch folder is full.
    """
    for rows in rows_of_slice(source, file_slice, memory):
        yield rows.column(schemas.RECORD_KEY)


def rows_of_slice(
    source: held_keys.KeySource,
    file_slice: files.FileSlice,
    memory: placing.Memory,
    columns: Sequence[str] = (),
) -> Iterator[pa.Table]:
    """Yield the keys, and some columns, of a slice's rows; as `of_slice`.

    A slice whose changes do not fit into memory has columns that are in data files alone.
    """
    reader = reading.SliceReader(source.storage, source.config, source.schema, source.is_committed)
    names = [schemas.RECORD_KEY, *columns]
    if sum(each.size_bytes for each in file_slice.log_files) <= memory.share_bytes:
        yield from reader.stream(file_slice, names)
        return
    with reader.stream_bounded(file_slice, names, memory) as bounded:
        yield from bounded


def changes_by(
    source: held_keys.KeySource, stat: commits.WriteStat, *, takes_keys_out: bool
) -> key_changes.KeyChanges:
    """Return what one file of a write did to the keys of its file group.

    A base file is compared with the one that it replaced. Of a file that is gone by now nothing is
    said: the write was taken back.

    Args:
        source: The table as of the write: its own blocks count.
        stat: Of the file.
        takes_keys_out: Whether no other writes to the file group meanwhile, so that it is certain
            which keys have no row there.

    Raises:
        FormatError: The file is broken.
    """
    data_file = file_names.parse(stat.path, stat.size_bytes)
    if isinstance(data_file, files.LogFile):
        return _logged(source, data_file, takes_keys_out=takes_keys_out)
    if not isinstance(data_file, files.BaseFile):
        return key_changes.NONE
    after = _keys_in(source, data_file)
    if after is None:
        return key_changes.NONE
    before = None
    if stat.prev_base_file is not None:
        replaced = file_names.parse(files.join(stat.partition_path, stat.prev_base_file), 0)
        before = _keys_in(source, replaced) if isinstance(replaced, files.BaseFile) else None
    if before is None:
        return key_changes.KeyChanges(added=after)
    return key_changes.KeyChanges(added=_without(after, before), removed=_without(before, after))


_NO_KEYS = pa.nulls(0, pa.string())


def _keys_in(source: held_keys.KeySource, base_file: files.BaseFile) -> pa.Array | None:
    """Return the keys in a base file, each once; None of one that is gone."""
    try:
        pieces = list(reading.base_rows(source.storage, base_file, _KEY_COLUMN))
    except errors.NotFoundError:
        return None
    chunks = [chunk for each in pieces for chunk in each.column(schemas.RECORD_KEY).chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string()))


def _logged(
    source: held_keys.KeySource, log_file: files.LogFile, *, takes_keys_out: bool
) -> key_changes.KeyChanges:
    """Return what a log file says; a delete by event time may be older than the row it meets."""
    rules = folding.rules_of(source.config)
    every = pa.schema([*schemas.meta_fields(), *source.schema.arrow])
    names = dict.fromkeys([schemas.RECORD_KEY, *rules.ordering_fields])
    columns = pa.schema([every.field(name) for name in names])
    decoder = block_decoding.Decoder.of(source.config, every, columns, rules.ordering_fields)
    by_event_time = source.config.merge_mode is table_config.MergeMode.EVENT_TIME
    added, removed = [_NO_KEYS], [_NO_KEYS]
    try:
        blocks = log_scanning.read(source.storage, [log_file], source.is_committed, _pass_by)
    except errors.NotFoundError:
        return key_changes.NONE
    for found in blocks:
        with log_scanning.named(log_file):
            change = decoder.decode(found.block)
        keys = change.keys.combine_chunks()
        if isinstance(change, changes.DeletedKeys):
            is_certain = change.is_default if by_event_time else None
            removed.append(keys if is_certain is None else keys.filter(pa.array(is_certain)))
        elif change.is_deleted is None:
            added.append(keys)
        else:
            added.append(keys.filter(pa.array(~change.is_deleted)))
            removed.append(_NO_KEYS if by_event_time else keys.filter(pa.array(change.is_deleted)))
    brought = pc.unique(pa.concat_arrays(added))
    gone = pa.concat_arrays(removed) if takes_keys_out else _NO_KEYS
    return key_changes.KeyChanges(added=brought, removed=_without(pc.unique(gone), brought))


def _pass_by(log_file: files.LogFile, corrupt: log_blocks.CorruptRange) -> None:
    """Readers warn of what they skip."""
    del log_file, corrupt


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others)))
