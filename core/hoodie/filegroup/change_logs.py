"""Logs of change data: what a write changed, in log files of their own beside its base file.

A write of a base file that follows another one logs what it changed, where the table captures
change data, also if that is nothing: without a log Apache Hudi's readers of changes fail. That of a
new file group does not, all of whose rows are inserted. Neither do log files of data, from which
the changes follow. Each change is written once, in the order in which rows are merged. Snapshots
leave these files out; the commit names them with the base file.

Memory: the bytes of a log, and a block of changes; of small ones a few MiB together.

Source: `HoodieCDCLogger.java`, `FileGroupReaderBasedMergeHandle.java` (1.2.0); protocol.md: Change
data.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.filegroup import merging, packing
from hoodie.filegroup.packing import Item
from hoodie.format import avro_records, file_names, log_blocks
from hoodie.format.log_blocks import BlockType, HeaderKey
from hoodie.model import avro_types, change_data, commits, files, instants, schemas
from hoodie.model.change_data import LoggingMode, Op
from hoodie.model.settings import WriteSettings
from hoodie.storage import protocol

_READ = (change_data.OP, change_data.RECORD_KEY, change_data.BEFORE, change_data.AFTER)
"""Columns; the time is that of the write, whose logs they are."""

_OF_MODES = [frozenset(mode.columns) & frozenset(_READ) for mode in LoggingMode]

_TOGETHER_BYTES_MAX = 2 << 20
"""Of logs that are read, and of blocks that are decoded, at once."""

_ITEM_BYTES_MIN = 4 << 10
"""What is smaller counts as much: there are requests and values for each."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of blocks that follow each other and have one schema.

    Attributes:
        rows: They, without times, in the columns that the schema has.
        places: For each of them the place of its log among those that are read.
    """

    rows: pa.Table
    places: npt.NDArray[np.int64]


def read(storage: protocol.Storage, logs: Sequence[commits.ChangeDataLog]) -> Iterator[Records]:
    """Yield the records of logs, in order.

    Args:
        storage: The table's.
        logs: Of change data. Those that are together (`together`) are requested at once.

    Raises:
        NotFoundError: A file is gone, as after cleaning.
        FormatError: One is broken, or holds anything else.
        UnsupportedError: One is of a version that is not known.
    """
    blocks = _blocks(storage, logs)
    for schema, of_schema in itertools.groupby(blocks, key=lambda each: each.schema):
        for some in together(of_schema, lambda each: len(each.content)):
            yield _records(schema, some)


def together(items: Iterable[Item], bytes_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield items that follow each other in lists of a few MiB; a larger one alone.

    Args:
        items: Logs, their blocks, or what reads them.
        bytes_of: The size of an item.
    """
    return packing.in_order(
        items, lambda each: max(bytes_of(each), _ITEM_BYTES_MIN), _TOGETHER_BYTES_MAX
    )


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of one of several logs."""

    place: int
    path: str
    schema: str
    content: pa.Buffer


def _blocks(storage: protocol.Storage, logs: Sequence[commits.ChangeDataLog]) -> Iterator[_Block]:
    for some in together(enumerate(logs), lambda each: each[1].size_bytes):
        buffers = storage.read_buffers([log.path for _, log in some])
        for (place, log), buffer in zip(some, buffers, strict=True):
            with _named(log.path):
                for block in log_blocks.scan(buffer):
                    yield _checked(place, log.path, block)


def _checked(place: int, path: str, block: log_blocks.Block | log_blocks.CorruptRange) -> _Block:
    if isinstance(block, log_blocks.CorruptRange):
        raise errors.FormatError(f"{block.reason} at byte {block.offset}")
    schema = block.header.get(HeaderKey.SCHEMA)
    if block.type is not BlockType.CDC_DATA or schema is None:
        raise errors.FormatError(
            f"the block at byte {block.offset} holds {block.type.name}, expected change data with "
            "its schema"
        )
    return _Block(place, path, schema, block.content)


def _records(schema: str, blocks: Sequence[_Block]) -> Records:
    """Return the records of blocks with one schema."""
    contents = [each.content for each in blocks]
    try:
        with _named(blocks[0].path):
            rows, counts = _rows(contents, schema)
    except (errors.FormatError, errors.UnsupportedError):
        if len(blocks) > 1:  # One of them says which it is.
            for each in blocks:
                _records(schema, [each])
        raise
    return Records(rows=rows, places=np.repeat([each.place for each in blocks], counts))


def _rows(contents: Sequence[pa.Buffer], schema: str) -> tuple[pa.Table, Sequence[int]]:
    """Return the records of blocks, and how many each has."""
    rows, counts = avro_records.decode_together(contents, schema, _READ)
    if not any(columns <= set(rows.column_names) for columns in _OF_MODES):
        raise errors.FormatError(f"it has the columns {rows.column_names}, expected change data")
    return rows, counts


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Name the log in what is raised because of it."""
    try:
        yield
    except (errors.FormatError, errors.UnsupportedError) as error:
        raise type(error)(f"{path}: {error}") from error


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
