"""Writing log files of a metadata table: a block of records each, in an HFile.

Source: `HoodieAppendHandle.java`, `HoodieHFileDataBlock.java`; format.md: Metadata table.
"""

import io
from collections.abc import Mapping

import pyarrow as pa

from hoodie.filegroup import metadata_table
from hoodie.format import file_names, hfile_writing, log_blocks, metadata_schemas
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import commits, files, instants
from hoodie.storage.protocol import Storage


def group_ids(storage: Storage, partition: str) -> list[str]:
    """Return the ids of a partition's file groups, sorted; a listing.

    How many there are was decided when it was initialised, and stands nowhere else.

    Args:
        storage: The metadata table's.
        partition: Its name.
    """
    found = (
        file_names.parse_new(files.join(partition, name), 0, metadata_table.EXTENSION)
        for name in storage.names(partition)
    )
    return sorted({each.group.file_id for each in found if each is not None})


def write_log(
    storage: Storage,
    group: files.FileGroupId,
    instant_time: instants.InstantTime,
    write_token: str,
    records: Mapping[str, bytes],
    now_ms: int,
) -> commits.WriteStat:
    """Write a log file; one request.

    Args:
        storage: The metadata table's.
        group: Whose log it is.
        instant_time: Of the delta commit.
        write_token: As of `file_names.write_token`; no other writer of that instant has it.
        records: By key; at least one.
        now_ms: The time, in milliseconds since the epoch.

    Raises:
        StorageError: Not done.
    """
    schema = metadata_schemas.RECORD.text.decode()
    header = {HeaderKey.SCHEMA: schema, HeaderKey.INSTANT_TIME: str(instant_time)}
    content = _hfile(records, schema, now_ms)
    name = file_names.log_file_name(
        group.file_id, instant_time, files.LOG_VERSION_FIRST, write_token
    )
    path = files.join(group.partition_path, name)
    with storage.open_write(path) as sink:
        for part in log_blocks.encode(BlockType.HFILE_DATA, header, content):
            sink.write(part)
        size_bytes = sink.tell()
    return commits.WriteStat(
        file_id=group.file_id,
        partition_path=group.partition_path,
        path=path,
        prev_commit=instant_time,
        records=len(records),
        inserts=0,
        updates=len(records),
        deletes=0,
        size_bytes=size_bytes,
        base_file="",
        log_files=(name,),
        log_version=files.LOG_VERSION_FIRST,
        log_blocks=1,
    )


def _hfile(records: Mapping[str, bytes], schema: str, now_ms: int) -> bytes:
    entries = sorted((key.encode(), content) for key, content in records.items())
    sink = io.BytesIO()
    writer = hfile_writing.Writer(sink, hfile_writing.Options(created_ms=now_ms))
    writer.append(
        pa.array([key for key, _ in entries], pa.binary()),
        pa.array([content for _, content in entries], pa.binary()),
    )
    writer.finish({"schema": schema.encode()})
    return sink.getvalue()
