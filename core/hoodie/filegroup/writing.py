"""Writing data files of a file group: log files, and base files.

Before a file is opened its marker is made, by a callback, so that what a crash leaves can be found
(W8). Names are unique by instant and write token; nothing is published here. Partial updates come
as whole rows with nulls, and are written as such, never as IS_PARTIAL blocks: readers of Apache
Hudi fail on slices that hold nothing else.

Source: `HoodieAppendHandle.java`, `HoodieLogFormatWriter.java`, `HoodieAvroParquetWriter.java`;
format.md: Base files, Log files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.filegroup import folding, ordering, parquet_writing
from hoodie.format import file_names, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import commits, file_statistics, files, instants, schemas, table_config
from hoodie.model.change_data import LoggingMode
from hoodie.model.settings import LogBlockFormat, WriteSettings
from hoodie.storage import protocol

with deferred.imports():
    from hoodie.filegroup import (
        change_logs,
        kept_deletes,
        key_footers,
        merging,
        statistics_gathering,
    )
    from hoodie.format import avro_records, delete_records

logger = logging.getLogger(__name__)

NEW_GROUP = "null"
"""What a write stat has as `prev_commit` where there was no file slice."""

BASE_FILE_META_COLUMNS = (schemas.COMMIT_TIME, schemas.COMMIT_SEQNO, schemas.RECORD_KEY)
"""The meta columns that rows keep in a new base file; the others say where they are."""

_BLOCK_BYTES_MAX = 1 << 30
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """Where and as whose files are written.

    Attributes:
        storage: The table's.
        group: The file group.
        instant_time: Requested time of the write.
        write_token: `{task}-{stage}-{attempt}`, unique among the attempts of the instant.
        before_file: Called with the path of a data file, below the table root, before it is opened.
        first_row: Number of the first row; no two rows of a task have the same.
        base_instant_time: Of the file slice that the write stands on; None for a new file group.
        base_file: Bare name of that slice's base file, if it has one.
        logs_before: Bare names of that slice's log files, where the table captures change data.
        statistics: Which ones are gathered of the files.
        tracks_keys: Whether stats have the keys that the write adds and removes.
        indexed_columns: Those of whose values stats of base files have the pairs that the write
            adds and removes.
        watch: Called with what a merge into a base file changes.
    """

    storage: protocol.Storage
    group: files.FileGroupId
    instant_time: instants.InstantTime
    write_token: str
    before_file: Callable[[str], None]
    first_row: int = 0
    base_instant_time: instants.InstantTime | None = None
    base_file: str | None = None
    logs_before: tuple[str, ...] = ()
    statistics: file_statistics.Wanted = file_statistics.NOTHING
    tracks_keys: bool = False
    indexed_columns: tuple[str, ...] = ()
    watch: merging.Watch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRows:
    """What a write puts into the log of one file group at once: its rows, then its deletes.

    Attributes:
        data: The table's columns, without meta columns.
        record_keys: One for each row.
        deleted_keys: Keys to delete.
        deleted_ordering: An ordering value for each deleted key, a tuple of arrays where there are
            several ordering fields; None to delete whatever came before.
        is_insert: Whether the rows are known to be new.
        sort_by: Columns by which such rows are sorted in a base file; none for their own order.
    """

    data: pa.Table
    record_keys: pa.Array
    deleted_keys: pa.Array | None = None
    deleted_ordering: pa.Array | tuple[pa.Array, ...] | None = None
    is_insert: bool = False
    sort_by: tuple[str, ...] = ()


def readable_by_hudi(
    settings: WriteSettings, config: table_config.TableConfig, schema: schemas.TableSchema
) -> WriteSettings:
    """Return the settings, with Avro blocks where Apache Hudi would misread parquet ones.

    That is where a text decides by event time: of rows in parquet blocks its Spark reader keeps the
    ordering value in memory that the next row overwrites. Measured on 1.2.0, blocks written by
    itself: after six commits 639 of 1,481 rows were the wrong ones; with Avro blocks none.
    """
    decides_by_text = any(
        ordering.class_of(schema.arrow.field(name).type)
        in (ordering.ValueClass.STRING, ordering.ValueClass.BYTES)
        for name in folding.rules_of(config).ordering_fields
    )
    if not decides_by_text:
        return settings
    return replace(settings, log_block_format=LogBlockFormat.AVRO)


def write_kept_deletes(
    target: FileTarget,
    blocks: Iterable[kept_deletes.KeptDeletes],
    schema: schemas.TableSchema,
    settings: WriteSettings,
) -> tuple[commits.WriteStat, ...]:
    """Write deletes to log files of a compaction; one stat a file, none when there is nothing.

    Those of ordering values that a delete block cannot hold, and that only rows can have brought,
    are left out with a warning: the compaction does not depend on them.
    """
    output = _LogOutput(target, schema, settings)
    for kept in blocks:
        ordering = kept.ordering if len(kept.ordering) > 1 else kept.ordering[0]
        try:
            encoded = list(_delete_blocks(target, kept.keys, ordering, settings))
        except (errors.UnsupportedError, errors.InvalidInputError) as error:
            logger.warning(
                "%s: %s: %d deletes do not outlive compaction %s: %s",
                target.storage.uri,
                target.group,
                len(kept.keys),
                target.instant_time,
                error,
            )
            continue
        for block in encoded:
            output.add(replace(block, instant_time=kept.instant_time))
    return output.close()


def write_log_files(
    target: FileTarget,
    changes: Iterable[LogRows],
    schema: schemas.TableSchema,
    settings: WriteSettings,
) -> tuple[commits.WriteStat, ...]:
    """Write rows and deleted keys to log files; one stat a file, none when there is nothing.

    A block holds about `log_block_bytes_max` of data; once a file has `log_file_bytes_max`, what is
    left goes to the next version. One open and one sync a file.

    Args:
        target: Where to.
        changes: In the order in which they take place, which is that of their blocks.
        schema: The table's columns.
        settings: The format of blocks, and the sizes.
    """
    output = _LogOutput(target, schema, settings)
    for rows in changes:
        for block in _data_blocks(target, rows, schema, settings):
            output.add(block)
        target = replace(target, first_row=target.first_row + rows.data.num_rows)
        if rows.deleted_keys is not None:
            for block in _delete_blocks(target, rows.deleted_keys, rows.deleted_ordering, settings):
                output.add(block)
    return output.close()


def write_base_file(
    target: FileTarget,
    tables: Iterable[pa.Table],
    schema: schemas.TableSchema,
    settings: WriteSettings,
) -> commits.WriteStat:
    """Write a base file; its stat takes every row for an insert, which a compaction corrects.

    Args:
        target: Where to.
        tables: `BASE_FILE_META_COLUMNS` and the table's columns in any order; others are left out.
            They are written as they come, a row group of them in memory.
        schema: The table's columns.
        settings: The codec.
    """
    group = target.group
    name = file_names.base_file_name(group.file_id, target.write_token, target.instant_time)
    columns = pa.schema([*schemas.meta_fields(), *schema.arrow])
    keys = key_footers.KeyFooter(has_bloom_filter=target.statistics.has_bloom_filter)
    gathered = statistics_gathering.FooterStatistics(target.statistics)
    records = 0
    with (
        _open(target, name) as sink,
        parquet_writing.ParquetOutput(
            sink, columns, settings.parquet_codec, gathered.add
        ) as output,
    ):
        for table in tables:
            keys.add(table.column(schemas.RECORD_KEY))
            records += table.num_rows
            placed = {
                schemas.PARTITION_PATH: _repeated(group.partition_path, table.num_rows),
                schemas.FILE_NAME: _repeated(name, table.num_rows),
            }
            arrays = [
                placed[each] if each in placed else table.column(each) for each in columns.names
            ]
            output.write(pa.Table.from_arrays(arrays, names=columns.names))
        avro_json = schemas.with_meta(schema.avro)
        footer = output.finish({parquet_writing.AVRO_SCHEMA_KEY: avro_json, **keys.finish()})
        size_bytes = sink.tell()
    return commits.WriteStat(
        file_id=group.file_id,
        partition_path=group.partition_path,
        path=files.join(group.partition_path, name),
        prev_commit=target.base_instant_time or NEW_GROUP,
        records=records,
        inserts=records,
        updates=0,
        deletes=0,
        size_bytes=size_bytes,
        statistics=gathered.finish(name, footer),
    )


def change_log(
    target: FileTarget, mode: LoggingMode, schema: schemas.TableSchema, settings: WriteSettings
) -> change_logs.ChangeLog:
    """Return the log of what a write of a base file changes; to be used in a `with` block.

    Args:
        target: Where the base file is written to.
        mode: The table's.
        schema: The columns of its data files.
        settings: How large blocks and files get.
    """
    place = change_logs.Place(
        group=target.group,
        instant_time=target.instant_time,
        write_token=target.write_token,
        open_file=lambda name: _open(target, name),
    )
    return change_logs.ChangeLog(mode, place, schema, settings)


def with_meta_columns(
    data: pa.Table, record_keys: pa.Array, target: FileTarget, first_row: int, file_name: str
) -> pa.Table:
    """Return rows with the meta columns before their own.

    Args:
        data: The table's columns.
        record_keys: One for each row.
        target: Of whose instant, task and partition the rows are.
        first_row: Number of the first row within the task.
        file_name: What the rows say of their file: its name, or the file id in log files.
    """
    count = data.num_rows
    task = target.write_token.partition("-")[0]
    numbers = pa.array(np.arange(first_row, first_row + count)).cast(pa.string())
    meta = [
        _repeated(target.instant_time, count),
        pc.binary_join_element_wise(f"{target.instant_time}_{task}", numbers, "_"),
        record_keys,
        _repeated(target.group.partition_path, count),
        _repeated(file_name, count),
    ]
    return pa.Table.from_arrays(
        [*meta, *data.columns], names=[*schemas.META_COLUMNS, *data.column_names]
    )


def new_rows(rows: LogRows, target: FileTarget) -> Iterator[pa.Table]:
    """Yield the rows of a new base file, as `write_base_file` takes them, some at once.

    Of narrow rows the meta columns take more memory than all others.
    """
    for start in range(0, rows.data.num_rows, _ROWS_AT_ONCE):
        yield with_meta_columns(
            rows.data.slice(start, _ROWS_AT_ONCE),
            rows.record_keys.slice(start, _ROWS_AT_ONCE),
            target,
            target.first_row + start,
            target.group.file_id,  # Replaced by the writer, which knows the file's name.
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewBlock:
    """A block to be written.

    Attributes:
        type: What it holds.
        content: Its content.
        rows: The rows in it, with meta columns; None in a delete block.
        records: Their number.
        inserts: Rows known to be new.
        deletes: Keys in it.
        instant_time: What it says instead of the write's instant.
    """

    type: BlockType
    content: bytes | pa.Buffer
    rows: pa.Table | None = None
    records: int = 0
    inserts: int = 0
    deletes: int = 0
    instant_time: instants.InstantTime | None = None


def _data_blocks(
    target: FileTarget, rows: LogRows, schema: schemas.TableSchema, settings: WriteSettings
) -> Iterator[_NewBlock]:
    count = rows.data.num_rows
    assert count == len(rows.record_keys)
    avro_json = schemas.with_meta(schema.avro)
    step = _rows_a_block(rows.data.nbytes + rows.record_keys.nbytes, count, settings)
    for first in range(0, count, step):
        piece = with_meta_columns(
            rows.data.slice(first, step),
            rows.record_keys.slice(first, step),
            target,
            target.first_row + first,
            target.group.file_id,
        )
        content: bytes | pa.Buffer
        match settings.log_block_format:
            case LogBlockFormat.PARQUET:
                block_type = BlockType.PARQUET_DATA
                content = _parquet(piece, avro_json, settings.parquet_codec)
            case LogBlockFormat.AVRO:
                block_type = BlockType.AVRO_DATA
                content = avro_records.encode(piece, avro_json)
            case _:
                assert_never(settings.log_block_format)
        yield _NewBlock(
            type=block_type,
            content=content,
            rows=piece,
            records=piece.num_rows,
            inserts=piece.num_rows if rows.is_insert else 0,
        )


def _delete_blocks(
    target: FileTarget,
    keys: pa.Array,
    ordering: pa.Array | tuple[pa.Array, ...] | None,
    settings: WriteSettings,
) -> Iterator[_NewBlock]:
    step = _rows_a_block(keys.nbytes, len(keys), settings)
    for first in range(0, len(keys), step):
        some = keys.slice(first, step)
        values = ordering
        if isinstance(values, tuple):
            values = tuple(each.slice(first, step) for each in values)
        elif values is not None:
            values = values.slice(first, step)
        content = delete_records.encode(some, target.group.partition_path, values)
        yield _NewBlock(type=BlockType.DELETE, content=content, deletes=len(some))


def _rows_a_block(size_bytes: int, count: int, settings: WriteSettings) -> int:
    limit = min(settings.log_block_bytes_max, _BLOCK_BYTES_MAX)
    return max(1, limit * count // max(1, size_bytes))


def _parquet(rows: pa.Table, avro_json: str, codec: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with parquet_writing.ParquetOutput(sink, rows.schema, codec) as output:
        output.write(rows)
        output.finish({parquet_writing.AVRO_SCHEMA_KEY: avro_json})
    return sink.getvalue()


class _LogOutput:
    """Log files of one write for one group, one version after the other."""

    def __init__(
        self, target: FileTarget, schema: schemas.TableSchema, settings: WriteSettings
    ) -> None:
        self._target = target
        self._settings = settings
        self._header: Mapping[HeaderKey, str] = {
            HeaderKey.INSTANT_TIME: target.instant_time,
            HeaderKey.SCHEMA: schemas.with_meta(schema.avro),
        }
        self._version = files.LOG_VERSION_FIRST
        self._sink: protocol.NewFile | None = None
        self._blocks: list[_NewBlock] = []
        self._gathered = statistics_gathering.RowStatistics(target.statistics)
        self._stats: list[commits.WriteStat] = []

    def add(self, block: _NewBlock) -> None:
        if self._sink is None:
            self._sink = _open(self._target, self._name)
        header = dict(self._header)
        if block.instant_time is not None:
            header[HeaderKey.INSTANT_TIME] = block.instant_time
        try:
            for part in log_blocks.encode(block.type, header, block.content):
                self._sink.write(part)
        except BaseException:
            self._sink.discard()
            raise
        if block.rows is not None:
            self._gathered.add(block.rows)
        # Without what is written, which is not needed any more.
        self._blocks.append(replace(block, content=b"", rows=None))
        if self._sink.tell() >= self._settings.log_file_bytes_max:
            self._finish()

    def close(self) -> tuple[commits.WriteStat, ...]:
        self._finish()
        return tuple(self._stats)

    @property
    def _name(self) -> str:
        target = self._target
        return file_names.log_file_name(
            target.group.file_id, target.instant_time, self._version, target.write_token
        )

    def _finish(self) -> None:
        if self._sink is None:
            return
        size_bytes = self._sink.tell()
        self._sink.close()
        self._stats.append(self._stat(size_bytes))
        self._sink, self._blocks, self._version = None, [], self._version + 1
        self._gathered = statistics_gathering.RowStatistics(self._target.statistics)

    def _stat(self, size_bytes: int) -> commits.WriteStat:
        group = self._target.group
        records = sum(block.records for block in self._blocks)
        inserts = sum(block.inserts for block in self._blocks)
        return commits.WriteStat(
            file_id=group.file_id,
            partition_path=group.partition_path,
            path=files.join(group.partition_path, self._name),
            prev_commit=self._target.base_instant_time or NEW_GROUP,
            records=records,
            inserts=inserts,
            updates=records - inserts,
            deletes=sum(block.deletes for block in self._blocks),
            size_bytes=size_bytes,
            base_file=self._target.base_file or "",
            log_files=(self._name,),
            logs_before=self._target.logs_before,
            log_version=self._version,
            log_blocks=len(self._blocks),
            statistics=self._gathered.finish(self._name),
        )


def _open(target: FileTarget, name: str) -> protocol.NewFile:
    path = files.join(target.group.partition_path, name)
    target.before_file(path)
    return target.storage.open_write(path)


def _repeated(text: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([text]))
