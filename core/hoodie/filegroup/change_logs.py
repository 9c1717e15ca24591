"""Logs of change data: what a write changed, in log files of their own beside its base file.

A write of a base file that follows another one logs what it changed, where the table captures
change data, also if that is nothing: without a log Apache Hudi's readers of changes fail. That of a
new file group does not, all of whose rows are inserted. Neither do log files of data, from which
the changes follow. Each change is written once, in the order in which rows are merged. Snapshots
leave these files out; the commit names them with the base file.

Memory: a block of changes.

Source: `HoodieCDCLogger.java`, `FileGroupReaderBasedMergeHandle.java` (1.2.0); protocol.md: Change
data.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import merging
from hoodie.format import avro_records, file_names, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import avro_types, change_data, commits, files, instants, schemas
from hoodie.model.change_data import LoggingMode, Op
from hoodie.model.settings import WriteSettings
from hoodie.storage import protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where change data is written to, and as whose.

    Attributes:
        group: The file group.
        instant_time: Requested time of the write.
        write_token: Of its files.
        open_file: Makes the file of a bare name, in the partition of the file group.
    """

    group: files.FileGroupId
    instant_time: instants.InstantTime
    write_token: str
    open_file: Callable[[str], protocol.NewFile]


def read(storage: protocol.Storage, paths: Iterable[str]) -> Iterator[pa.Table]:
    """Yield the records of logs, a block at a time, in the columns that each block has.

    Args:
        storage: The table's.
        paths: Of log files of change data, below the table root.

    Raises:
        NotFoundError: A file is gone, as after cleaning.
        FormatError: One is broken, or holds anything else.
    """
    for path in paths:
        (buffer,) = storage.read_buffers([path])
        for block in log_blocks.scan(buffer):
            if isinstance(block, log_blocks.CorruptRange):
                raise errors.FormatError(f"{path}: {block.reason} at byte {block.offset}")
            schema = block.header.get(HeaderKey.SCHEMA)
            if block.type is not BlockType.CDC_DATA or schema is None:
                raise errors.FormatError(
                    f"{path}: the block at byte {block.offset} holds {block.type.name}, expected "
                    "change data with its schema"
                )
            try:
                yield avro_records.decode(block.content, schema)
            except errors.FormatError as error:
                raise errors.FormatError(f"{path}: {error}") from error


class ChangeLog:
    """The change data of one write of one file group; a watch of its merge."""

    def __init__(
        self,
        mode: LoggingMode,
        place: Place,
        schema: schemas.TableSchema,
        settings: WriteSettings,
    ) -> None:
        """Begin; no file is made yet.

        Args:
            mode: The table's.
            place: Where to, and as whose.
            schema: The columns of its data files.
            settings: How large blocks and files get.
        """
        self._mode = mode
        self._place = place
        self._names = schema.arrow.names
        self._schema = change_data.record_schema(mode, schema.avro)
        self._settings = settings
        self._version = files.LOG_VERSION_FIRST
        self._sink: protocol.NewFile | None = None
        self._buffered: list[pa.Table] = []
        self._buffered_bytes = 0
        self._written: list[commits.ChangeDataLog] = []

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the file, or discard it after an error."""
        if error is None:
            if self._buffered or not self._written:
                self._flush()
            self._finish()
        elif self._sink is not None:
            self._sink.discard()

    @property
    def written(self) -> tuple[commits.ChangeDataLog, ...]:
        """The files, once it was left."""
        return tuple(self._written)

    def __call__(self, changed: merging.ChangedRows) -> None:
        """Write changes, or keep them for the next block."""
        rows = self._records(changed)
        self._buffered.append(rows)
        self._buffered_bytes += rows.nbytes
        if self._buffered_bytes >= self._settings.log_block_bytes_max:
            self._flush()

    def _records(self, changed: merging.ChangedRows) -> pa.Table:
        present = changed.before if changed.after is None else changed.after
        assert present is not None, "nothing has changed"
        count = present.num_rows
        op = Op.UPDATE
        if changed.before is None:
            op = Op.INSERT
        elif changed.after is None:
            op = Op.DELETE
        columns: Mapping[str, pa.Array | pa.ChunkedArray] = {
            change_data.OP: pa.repeat(pa.scalar(op.value), count),
            change_data.TIME: pa.repeat(pa.scalar(str(self._place.instant_time)), count),
            change_data.RECORD_KEY: present.column(schemas.RECORD_KEY),
            change_data.BEFORE: self._images(changed.before, present),
            change_data.AFTER: self._images(changed.after, present),
        }
        return pa.table({name: columns[name] for name in self._mode.columns})

    def _images(self, rows: pa.Table | None, present: pa.Table) -> pa.Array:
        """Return rows as structs; nulls where there are none."""
        images = (present if rows is None else rows).select(self._names).to_struct_array()
        found = images.combine_chunks()
        if rows is not None:
            return found
        # Null structs keep fields with values: null fields do not fit columns that are never null.
        nulls = pa.repeat(True, len(found))
        return pa.StructArray.from_arrays(found.flatten(), fields=list(found.type), mask=nulls)

    def _flush(self) -> None:
        """Write what is buffered as a block; an empty one where nothing has changed."""
        rows = pa.concat_tables(self._buffered) if self._buffered else self._nothing
        self._buffered, self._buffered_bytes = [], 0
        if self._sink is None:
            self._sink = self._place.open_file(self._name)
        header = {
            HeaderKey.INSTANT_TIME: str(self._place.instant_time),
            HeaderKey.SCHEMA: self._schema,
        }
        content = avro_records.encode(rows, self._schema)
        for part in log_blocks.encode(BlockType.CDC_DATA, header, content):
            self._sink.write(part)
        if self._sink.tell() >= self._settings.log_file_bytes_max:
            self._finish()

    def _finish(self) -> None:
        if self._sink is None:
            return
        size_bytes = self._sink.tell()
        self._sink.close()
        path = files.join(self._place.group.partition_path, self._name)
        self._written.append(commits.ChangeDataLog(path=path, size_bytes=size_bytes))
        self._sink, self._version = None, self._version + 1

    @property
    def _nothing(self) -> pa.Table:
        columns = avro_types.columns(self._schema)
        return pa.schema([column.arrow for column in columns]).empty_table()

    @property
    def _name(self) -> str:
        place = self._place
        return file_names.change_data_name(
            place.group.file_id, place.instant_time, self._version, place.write_token
        )
