"""Writing files of a metadata table (MDT): base files, and log files with a block of records.

Both hold their records as HFiles. A file group that is to have none yet has a log file with an
empty block of deletes: the number of file groups of a partition is known by its files alone.

Source: `HoodieAppendHandle.java`, `HoodieHFileDataBlock.java`, `HoodieAvroHFileWriter.java`,
`HoodieBackedTableMetadataWriter.java` (initializeFileGroups); format.md: Metadata table.
"""

import io
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from hoodie.filegroup import metadata_records, metadata_table
from hoodie.format import (
    delete_records,
    file_names,
    hfile_writing,
    log_blocks,
    metadata_schemas,
)
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage

Piece: TypeAlias = pa.Table | hfile_writing.Run
"""Records of a base file, ascending by key; a run of them is compressed already."""

_FIRST_TOKEN = file_names.write_token(0, 0, 0)
_NO_COMMIT = "null"
"""What a write stat has as `prev_commit` of a base file."""


def group_ids(storage: Storage, partition: str) -> list[str]:
    """Return the ids of a partition's file groups, sorted; a listing.

    How many there are was decided when it was initialised, and stands nowhere else.

    Args:
        storage: The MDT's.
        partition: Its name.
    """
    return sorted({each.group.file_id for each in metadata_table.data_files(storage, partition)})


def write_log(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    records: metadata_records.Added,
    now_ms: int,
) -> commits.WriteStat:
    """Write a log file; one request.

    Args:
        storage: The MDT's.
        group: Whose log it is.
        instant_time: Of the delta commit.
        write_token: As of `file_names.write_token`; no other writer of that instant has it.
        records: New or taken out; without any the file group is there all the same.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        StorageError: Not done.
    """
    header = {
        HeaderKey.SCHEMA: metadata_schemas.RECORD.text.decode(),
        HeaderKey.INSTANT_TIME: str(instant_time),
    }
    if not len(records):
        return write_empty_log(storage, group, instant_time, write_token)
    blocks = []
    if records.table.num_rows:
        content = io.BytesIO()
        _write_hfile(content, [records.table], now_ms)
        blocks.append(log_blocks.encode(BlockType.HFILE_DATA, header, content.getvalue()))
    if len(records.deleted):
        deletes = delete_records.encode(records.deleted, group.partition_path)
        blocks.append(log_blocks.encode(BlockType.DELETE, header, deletes))
    return _write_blocks(storage, group, instant_time, write_token, blocks, records)


def write_empty_log(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str = _FIRST_TOKEN,
) -> commits.WriteStat:
    """Write the log file that makes a file group be there, byte for byte as Apache Hudi does.

    Args:
        storage: The MDT's.
        group: The file group.
        instant_time: Of the delta commit that makes the partition.
        write_token: As of `write_log`.

    Raises:
        StorageError: Not done.
    """
    content = delete_records.encode(pa.array([], pa.string()), group.partition_path)
    header = {HeaderKey.INSTANT_TIME: str(instant_time)}
    block = log_blocks.encode(BlockType.DELETE, header, content)
    return _write_blocks(
        storage, group, instant_time, write_token, [block], metadata_records.Added()
    )


def makes_group(log_file: files.LogFile) -> bool:
    """Return whether a log file is the one that makes its file group be there."""
    return log_file.write_token == _FIRST_TOKEN


def begins_group(data_file: files.BaseFile | files.LogFile) -> bool:
    """Return whether a data file is a log file that makes its file group be there."""
    return isinstance(data_file, files.LogFile) and makes_group(data_file)


def is_made(file_slice: files.FileSlice) -> bool:
    """Return whether the instant that made a file group of an index counts.

    That of a compaction does as well. What writers log in an index that is being built counts
    before: of their rows alone.
    """
    logs = file_slice.log_files
    return file_slice.base_file is not None or any(map(makes_group, logs))


def write_base(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    records: pa.Table | Iterable[Piece],
    now_ms: int,
) -> commits.WriteStat:
    """Write a base file; one request, or some more for a great one.

    Args:
        storage: The MDT's.
        group: The file group.
        instant_time: Of the delta commit or compaction.
        write_token: As of `write_log`.
        records: Of `metadata_merging.SCHEMA`, ascending by key; at once or in pieces, some of which
            may be prepared.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        StorageError: Not done.
    """

    def write(sink: hfile_writing.Sink) -> int:
        pieces = [records] if isinstance(records, pa.Table) else records
        return _write_hfile(sink, pieces, now_ms, has_ends=True)

    return _write_base(storage, group, instant_time, write_token, write)


@dataclass(frozen=True, slots=True)
class PreparedBase:
    """The content of a base file.

    Attributes:
        content: The HFile.
        records: So many are in it.
    """

    content: bytes
    records: int


def prepare_run(records: pa.Table) -> hfile_writing.Run:
    """Return records as a piece of a base file that is compressed, for `write_base`.

    Args:
        records: As there; at least one.
    """
    batch = records.combine_chunks()
    keys, values = (batch.column(name).chunk(0) for name in ("key", "value"))
    return hfile_writing.prepare(keys, values, hfile_writing.Options(created_ms=0))


def prepare_base(records: pa.Table | Iterable[Piece], now_ms: int) -> PreparedBase:
    """Return what `write_base` writes, for `write_prepared`."""
    sink = io.BytesIO()
    pieces = [records] if isinstance(records, pa.Table) else records
    count = _write_hfile(sink, pieces, now_ms, has_ends=True)
    return PreparedBase(sink.getvalue(), count)


def write_prepared(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    prepared: PreparedBase,
) -> commits.WriteStat:
    """Write a base file that was prepared; as `write_base`."""

    def write(sink: hfile_writing.Sink) -> int:
        sink.write(prepared.content)
        return prepared.records

    return _write_base(storage, group, instant_time, write_token, write)


def _write_base(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    write: Callable[[hfile_writing.Sink], int],
) -> commits.WriteStat:
    path = _base_path(group, instant_time, write_token)
    with storage.open_write(path) as sink:
        records = write(sink)
        size_bytes = sink.tell()
    return _stat(group, path, records, size_bytes)


def stat_of_base(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    records: int,
) -> commits.WriteStat:
    """Return what `write_base` returned to whoever wrote the same file; a request.

    Args:
        storage: As of `write_base`.
        group: As there.
        instant_time: As there.
        write_token: As there.
        records: So many are in it.

    Raises:
        NotFoundError: There is none.
    """
    path = _base_path(group, instant_time, write_token)
    return _stat(group, path, records, storage.stat(path).size_bytes)


def _base_path(
    group: files.FileGroupId, instant_time: instants.InstantTime, write_token: str
) -> str:
    name = file_names.base_file_name(
        group.file_id, write_token, instant_time, metadata_table.EXTENSION
    )
    return files.join(group.partition_path, name)


def _stat(group: files.FileGroupId, path: str, records: int, size_bytes: int) -> commits.WriteStat:
    return commits.WriteStat(
        file_id=group.file_id,
        partition_path=group.partition_path,
        path=path,
        prev_commit=_NO_COMMIT,
        records=records,
        inserts=records,
        updates=0,
        deletes=0,
        size_bytes=size_bytes,
    )


def _write_blocks(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    blocks: Sequence[Iterable[bytes | pa.Buffer]],
    records: metadata_records.Added,
) -> commits.WriteStat:
    name = file_names.log_file_name(
        group.file_id, instant_time, files.LOG_VERSION_FIRST, write_token
    )
    path = files.join(group.partition_path, name)
    with storage.open_write(path) as sink:
        for part in itertools.chain.from_iterable(blocks):
            sink.write(part)
        size_bytes = sink.tell()
    return commits.WriteStat(
        file_id=group.file_id,
        partition_path=group.partition_path,
        path=path,
        prev_commit=instant_time,
        records=records.table.num_rows,
        inserts=0,
        updates=records.table.num_rows,
        deletes=len(records.deleted),
        size_bytes=size_bytes,
        base_file="",
        log_files=(name,),
        log_version=files.LOG_VERSION_FIRST,
        log_blocks=len(blocks),
    )


def _write_hfile(
    sink: hfile_writing.Sink, records: Iterable[Piece], now_ms: int, *, has_ends: bool = False
) -> int:
    """Write records that come in pieces, ascending by key; return how many there are."""
    writer = hfile_writing.Writer(sink, hfile_writing.Options(created_ms=now_ms))
    count, ends = 0, dict[str, bytes]()
    for piece in records:
        if isinstance(piece, hfile_writing.Run):
            ends.setdefault("minRecordKey", piece.first_key)
            ends["maxRecordKey"] = piece.last_key
            count += piece.entries
            writer.append_run(piece)
            continue
        if piece.num_rows:
            ends.setdefault("minRecordKey", piece.column("key")[0].as_py())
            ends["maxRecordKey"] = piece.column("key")[-1].as_py()
            count += piece.num_rows
        for batch in piece.to_batches():
            writer.append(batch.column("key"), batch.column("value"))
    writer.finish({"schema": metadata_schemas.RECORD.text, **(ends if has_ends else {})})
    return count
