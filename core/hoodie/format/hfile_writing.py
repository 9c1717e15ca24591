"""Writing HFiles of version 3, byte for byte as Apache Hudi 1.2.0 does.

Two writers of the same entries and options write the same bytes, however the entries are cut into
batches. They are those of Apache Hudi's writer, but for blocks whose last entries its reader would
lose (see `hoodie.format.hfile_blocks`): so is even the order of the file info, that of a Java map.
Entries that were prepared elsewhere keep the blocks that they have there.

Source: `HFileWriterImpl.java`, `HoodieAvroHFileWriter.java`.
"""

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.format import hfile_blocks, hfile_entries, hfile_index, hfile_messages, java_hash
from hoodie.format.hfile_blocks import BlockType, Compression
from hoodie.format.hfile_index import Entry

FILE_BYTES_MAX = 2**31 - 1
"""Apache Hudi's reader has offsets of 31 bits."""

_HASH_MAP_SIZE = 16
_HASH_MAP_LOAD = 0.75


class Sink(Protocol):
    """What bytes are written to: a file of a storage, or `io.BytesIO`."""

    def write(self, content: bytes, /) -> int:
        """Write all of it and return its length."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a file is written.

    Attributes:
        created_ms: When, in milliseconds since the epoch; it is in the file.
        compression: Of all blocks.
        block_bytes: Up to how many bytes entries share a block.
    """

    created_ms: int
    compression: Compression = Compression.GZIP
    block_bytes: int = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Entries as the data blocks of a file, made before it is written; it pickles.

    Attributes:
        content: The blocks, one behind the other.
        blocks: Where each is in `content`, at least one.
        last_key: The greatest key.
        entries: How many entries there are.
        keys_bytes: The length of their keys.
        values_bytes: The length of their values.
    """

    content: bytes
    blocks: tuple[Entry, ...]
    last_key: bytes
    entries: int
    keys_bytes: int
    values_bytes: int

    @property
    def first_key(self) -> bytes:
        """The least key."""
        return self.blocks[0].first_key


def prepare(keys: pa.Array, values: pa.Array, options: Options) -> Run:
    """Return entries as data blocks, for `Writer.append_run`.

    Args:
        keys: As of `Writer.append`, at least one.
        values: As there.
        options: Those of the file.

    Raises:
        InvalidInputError: As there.
    """
    assert len(keys), "a run has entries"
    sink = io.BytesIO()
    writer = Writer(sink, options)
    writer.append(keys, values)
    return writer.run(sink.getvalue)


class Writer:
    """An HFile that is being written; of it, the last block and the index are in memory."""

    __slots__ = (
        "_batches",
        "_batches_bytes",
        "_data",
        "_entries",
        "_keys_bytes",
        "_last_key",
        "_offset",
        "_options",
        "_sink",
        "_values_bytes",
    )

    def __init__(self, sink: Sink, options: Options) -> None:
        assert 0 < options.block_bytes <= hfile_blocks.CONTENT_BYTES_MAX, options.block_bytes
        self._sink = sink
        self._options = options
        self._batches: list[tuple[pa.BinaryArray, pa.BinaryArray]] = []
        self._batches_bytes = 0
        self._data: list[Entry] = []
        self._offset = 0
        self._last_key: bytes | None = None
        self._entries = 0
        self._keys_bytes = 0
        self._values_bytes = 0

    def append(self, keys: pa.Array, values: pa.Array) -> None:
        """Write entries behind those before.

        Args:
            keys: Binary or texts, ascending by their bytes, each once in the file.
            values: Binary, one for each key.

        Raises:
            InvalidInputError: A key is not above the one before, a key or value is null or too
                long, or the file would be longer than FILE_BYTES_MAX.
        """
        assert len(keys) == len(values), (len(keys), len(values))
        if not len(keys):
            return
        keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
        self._check(keys, values)
        self._last_key = keys[-1].as_py()
        self._batches.append((keys, values))
        self._batches_bytes += int(_sizes(keys, values).sum())
        if self._batches_bytes > self._options.block_bytes:
            self._write_full_blocks()

    def append_run(self, run: Run) -> None:
        """Write entries that were prepared behind those before; their blocks stay what they are.

        Raises:
            InvalidInputError: Its keys are not above those before, or the file would be longer than
                FILE_BYTES_MAX.
        """
        self._check_follows(run.first_key)
        self._flush()
        content = memoryview(run.content)
        for block in run.blocks:
            some = bytearray(content[block.offset : block.offset + block.size_bytes])
            if self._offset:
                hfile_blocks.set_previous_offset(some, self._offset)
            self._data.append(self._put(bytes(some), block.first_key))
        self._last_key = run.last_key
        self._entries += run.entries
        self._keys_bytes += run.keys_bytes
        self._values_bytes += run.values_bytes

    def run(self, content: Callable[[], bytes]) -> Run:
        """Return what was written so far, of a file that is not finished.

        Args:
            content: Returns what the sink was given.
        """
        self._flush()
        assert self._last_key is not None
        return Run(
            content=content(),
            blocks=tuple(self._data),
            last_key=self._last_key,
            entries=self._entries,
            keys_bytes=self._keys_bytes,
            values_bytes=self._values_bytes,
        )

    def finish(
        self, file_info: Mapping[str, bytes] | None = None, meta: Mapping[str, bytes] | None = None
    ) -> None:
        """Write the rest of the file.

        Args:
            file_info: What it shall say of itself: `schema` and the like.
            meta: Contents of meta blocks by name, at most one.
        """
        self._flush()
        meta_entries = [
            self._write_block(BlockType.META, content, name.encode())
            for name, content in (meta or {}).items()
        ]
        start = self._offset
        self._write_block(BlockType.ROOT_INDEX, hfile_index.encode_root(self._data))
        self._write_block(BlockType.ROOT_INDEX, hfile_index.encode_meta(meta_entries))
        info = hfile_messages.encode_file_info(self._file_info(file_info or {}))
        info_entry = self._write_block(BlockType.FILE_INFO, info)
        trailer = hfile_messages.Trailer(
            file_info_offset=info_entry.offset,
            load_on_open_offset=start,
            data_bytes=self._keys_bytes
            + self._values_bytes
            + self._entries * hfile_entries.ENTRY_BYTES,
            root_entries=len(self._data),
            meta_entries=len(meta_entries),
            entry_count=self._entries,
            index_levels=1,
            first_data_offset=self._data[0].offset if self._data else -1,
            last_data_offset=self._data[-1].offset if self._data else 0,
            compression=self._options.compression,
        )
        self._sink.write(hfile_messages.encode_trailer(trailer))

    def _check(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        if keys.null_count or values.null_count:
            raise errors.InvalidInputError(
                "an entry of an HFile has a null, expected key and value"
            )
        if int(hfile_entries.lengths(keys).max()) > hfile_entries.KEY_BYTES_MAX:
            raise errors.InvalidInputError(
                f"a key of an HFile is longer than {hfile_entries.KEY_BYTES_MAX} bytes"
            )
        if int(_sizes(keys, values).max()) > hfile_blocks.CONTENT_BYTES_MAX:
            raise errors.InvalidInputError(
                f"an entry of an HFile is longer than {hfile_blocks.CONTENT_BYTES_MAX} bytes"
            )
        is_above = pc.less(keys[:-1], keys[1:])
        self._check_follows(keys[0].as_py())
        if not pc.all(is_above, min_count=0).as_py():
            row = pc.index(is_above, value=False).as_py()
            raise errors.InvalidInputError(
                f"key {keys[row + 1].as_py()!r} of an HFile follows {keys[row].as_py()!r}, "
                "expected ascending keys"
            )

    def _check_follows(self, first: bytes) -> None:
        if self._last_key is not None and first <= self._last_key:
            raise errors.InvalidInputError(
                f"key {first!r} of an HFile follows {self._last_key!r}, expected ascending keys"
            )

    def _flush(self) -> None:
        for keys, values in self._pending():
            self._write_data(keys, values)

    def _pending(self) -> Iterable[tuple[pa.BinaryArray, pa.BinaryArray]]:
        if not self._batches:
            return
        keys = pa.concat_arrays([each for each, _ in self._batches])
        values = pa.concat_arrays([each for _, each in self._batches])
        self._batches = []
        self._batches_bytes = 0
        yield keys, values

    def _write_full_blocks(self) -> None:
        for keys, values in self._pending():
            ends = np.cumsum(_sizes(keys, values))
            begin = 0
            while True:
                before = int(ends[begin - 1]) if begin else 0
                limit = before + self._options.block_bytes
                end = max(int(np.searchsorted(ends, limit, side="right")), begin + 1)
                # The last block may have room for what follows.
                if end >= len(keys):
                    break
                self._write_data(keys[begin:end], values[begin:end])
                begin = end
            self._batches = [(keys[begin:], values[begin:])]
            self._batches_bytes = int(ends[-1]) - before

    def _write_data(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        sizes = _sizes(keys, values)
        self._entries += len(keys)
        self._keys_bytes += int(hfile_entries.lengths(keys).sum())
        self._values_bytes += int(hfile_entries.lengths(values).sum())
        content = memoryview(hfile_entries.encode(keys, values)).cast("B")
        entry = self._write_block(BlockType.DATA, content, keys[0].as_py(), int(sizes[-1]))
        self._data.append(entry)

    def _write_block(
        self,
        block_type: BlockType,
        content: bytes | memoryview,
        first_key: bytes = b"",
        last_entry_bytes: int | None = None,
    ) -> Entry:
        # Apache Hudi has the offset of the block itself for the one before it.
        is_later_data = block_type is BlockType.DATA and self._offset
        block = hfile_blocks.encode(
            block_type,
            content,
            self._options.compression,
            previous_offset=self._offset if is_later_data else -1,
            last_entry_bytes=last_entry_bytes,
        )
        return self._put(block, first_key)

    def _put(self, block: bytes, first_key: bytes) -> Entry:
        if self._offset + len(block) > FILE_BYTES_MAX - hfile_messages.TRAILER_BYTES:
            raise errors.InvalidInputError(
                f"an HFile would be longer than {FILE_BYTES_MAX} bytes, which Apache Hudi reads"
            )
        self._sink.write(block)
        entry = Entry(offset=self._offset, size_bytes=len(block), first_key=first_key)
        self._offset += len(block)
        return entry

    def _file_info(self, given: Mapping[str, bytes]) -> dict[str, bytes]:
        last = self._last_key
        last_key = b"" if last is None else len(last).to_bytes(2, "big") + last
        count = max(self._entries, 1)
        info = {
            "MAX_MEMSTORE_TS_KEY": _long(0),
            **given,
            "hfile.LASTKEY": last_key,
            "hfile.AVG_KEY_LEN": _int(self._keys_bytes // count),
            "hfile.CREATE_TIME_TS": _long(self._options.created_ms),
            "hfile.AVG_VALUE_LEN": _int(self._values_bytes // count),
            "KEY_VALUE_VERSION": _int(1),
        }
        return {name: info[name] for name in _in_java_order(list(info))}


def _in_java_order(names: list[str]) -> list[str]:
    """Return names in the order of a Java HashMap that they were put into."""
    size = _HASH_MAP_SIZE
    while len(names) > size * _HASH_MAP_LOAD:
        size *= 2
    hashes = java_hash.string_hash(pa.array(names, pa.string())).astype(np.uint32)
    buckets = (hashes ^ (hashes >> np.uint32(16))) & np.uint32(size - 1)
    return [names[index] for index in np.argsort(buckets, stable=True)]


def _sizes(
    keys: pa.BinaryArray, values: pa.BinaryArray
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return hfile_entries.lengths(keys) + hfile_entries.lengths(values) + hfile_entries.ENTRY_BYTES


def _int(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _long(value: int) -> bytes:
    return value.to_bytes(8, "big")
