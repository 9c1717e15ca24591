"""Reading HFiles of version 3, as Apache Hudi has them: base files and log blocks of metadata.

    data blocks, with leaf and meta blocks among them
    intermediate index blocks
    root index, meta index, file info       read when the file is opened
    trailer                                 4096 bytes

A reader makes few requests: one to open a file (two if what is read then is more than
OPENING_BYTES), and one for the blocks that a read needs and that lie close together. Blocks within
the last OPENING_BYTES, so all of a small file, cost none. Index blocks are kept, data blocks are
not. Batches come in the order of the file, one for each block.

Whatever the bytes are, a read ends with what they hold, a FormatError, or an UnsupportedError, and
holds no more than some blocks at a time. Entries that Apache Hudi's reader loses at the end of a
block (see `hoodie.format.hfile_blocks`) are read.

Source: `HFileReaderImpl.java`, `HFileInfo.java`.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Self

import pyarrow as pa

from hoodie import errors
from hoodie.format import hfile_blocks, hfile_entries, hfile_index, hfile_messages, hfile_search
from hoodie.format.hfile_blocks import BlockType
from hoodie.format.hfile_index import Entry
from hoodie.format.hfile_search import Wanted

OPENING_BYTES = 256 * 1024
LOAD_ON_OPEN_BYTES_MAX = 2**28
REQUEST_BYTES_MAX = 8 * 2**20
"""Of one request for several blocks; a larger block has one of its own."""
GAP_BYTES_MAX = 256 * 1024
"""What is read in vain rather than with another request."""
INDEX_LEVELS_MAX = 8

_INT_BYTES = 4
_LONG_BYTES = 8


class ReadRange(Protocol):
    """Reads a range of a file, as `hoodie.storage.protocol.Storage.read` with a path."""

    def __call__(self, *, offset: int, length: int) -> bytes | memoryview:
        """Return bytes of the file, fewer if it ends before."""
        ...


class Reader:
    """An open HFile.

    Attributes:
        file_info: What it says of itself, `schema` among it.
        entry_count: How many entries it has.
    """

    __slots__ = (
        "_end",
        "_meta",
        "_name",
        "_nodes",
        "_read",
        "_root",
        "_tail",
        "_tail_offset",
        "_trailer",
        "entry_count",
        "file_info",
    )

    def __init__(self, name: str, size_bytes: int, read: ReadRange) -> None:
        """Open a file.

        Args:
            name: For errors.
            size_bytes: The file's length.
            read: `functools.partial(storage.read, path)`.

        Raises:
            FormatError: It is no HFile, or shorter than its length.
            UnsupportedError: It has something that Apache Hudi does not write.
        """
        self._name = name
        self._read = read
        self._nodes: dict[int, list[Entry]] = {}
        self._tail = memoryview(b"")
        self._tail_offset = size_bytes
        self._load_tail(max(0, size_bytes - OPENING_BYTES))
        if size_bytes < hfile_messages.TRAILER_BYTES:
            raise errors.FormatError(
                f"{name} has {size_bytes} bytes, an HFile has at least "
                f"{hfile_messages.TRAILER_BYTES}"
            )
        trailer_offset = size_bytes - hfile_messages.TRAILER_BYTES
        self._trailer = hfile_messages.decode_trailer(
            self._tail[-hfile_messages.TRAILER_BYTES :], self._place(trailer_offset)
        )
        self._end = self._trailer.load_on_open_offset
        first = max(0, trailer_offset - LOAD_ON_OPEN_BYTES_MAX)
        if not first <= self._end <= trailer_offset:
            raise errors.FormatError(
                f"{self._place(trailer_offset)}: the part to be read first begins at byte "
                f"{self._end}, expected it from byte {first} on"
            )
        self._load_tail(self._end)
        self._load(trailer_offset)

    @classmethod
    def over(cls, name: str, content: bytes | pa.Buffer) -> Self:
        """Open a file that is in memory, such as the content of a log block."""
        view = memoryview(content).cast("B")

        def read(*, offset: int, length: int) -> memoryview:
            return view[offset : offset + length]

        return cls(name, len(view), read)

    def meta_block(self, name: str) -> bytes | None:
        """Return the content of a meta block, such as `bloomFilter`, or None if there is none."""
        entry = self._meta.get(name.encode())
        if entry is None:
            return None
        data = memoryview(self._range(entry.offset, entry.size_bytes))
        return bytes(self._content(entry, data, BlockType.META))

    def scan(self) -> Iterator[pa.RecordBatch]:
        """Yield all entries, as `hfile_entries.SCHEMA`.

        Raises:
            FormatError: The file is broken, or has not as many entries as it says.
        """
        found = 0
        for batch in self.between(b"", None):
            found += batch.num_rows
            yield batch
        if found != self.entry_count:
            raise errors.FormatError(
                f"{self._name} has {found} entries, its trailer says {self.entry_count}"
            )

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None if there is no such key."""
        found = self.lookup([key])
        return found.column("value")[0].as_py() if found.num_rows else None

    def lookup(self, keys: pa.Array | Sequence[bytes]) -> pa.Table:
        """Return the entries of those keys that are there, as `hfile_entries.SCHEMA`.

        They are in the order of the file, with a chunk for each block.

        Args:
            keys: Binary or texts, in any order, with or without duplicates.
        """
        plain = keys.cast(pa.binary()).to_pylist() if isinstance(keys, pa.Array) else keys
        batches = self._batches(hfile_search.Keys.of(plain))
        return pa.Table.from_batches(batches, hfile_entries.SCHEMA)

    def with_prefixes(self, prefixes: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Yield the entries whose key begins with any of some texts."""
        return self._batches(hfile_search.Prefixes.of(prefixes))

    def between(self, low: bytes, high: bytes | None) -> Iterator[pa.RecordBatch]:
        """Yield the entries from a key on and below another; None is no bound.

        Some may be missing in a file that is not sorted by the bytes of keys, see
        `hoodie.format.hfile_search`.
        """
        return self._batches(hfile_search.Span(low=low, high=high))

    def _place(self, offset: int) -> str:
        return f"{self._name} at byte {offset}"

    def _load_tail(self, offset: int) -> None:
        """Have all bytes from an offset on in memory."""
        missing = self._tail_offset - offset
        if missing > 0:
            self._tail = memoryview(b"".join((self._fetched(offset, missing), self._tail)))
            self._tail_offset = offset

    def _fetched(self, offset: int, length: int) -> bytes | memoryview:
        data = self._read(offset=offset, length=length)
        if len(data) != length:
            raise errors.FormatError(
                f"{self._place(offset)}: the file ends after {len(data)} bytes, expected {length}"
            )
        return data

    def _range(self, offset: int, length: int) -> bytes | memoryview:
        if offset >= self._tail_offset:
            return self._tail[offset - self._tail_offset :][:length]
        return self._fetched(offset, length)

    def _load(self, trailer_offset: int) -> None:
        trailer = self._trailer
        at = self._end
        parts = []
        for block_type in (BlockType.ROOT_INDEX, BlockType.ROOT_INDEX, BlockType.FILE_INFO):
            data = self._tail[at - self._tail_offset : trailer_offset - self._tail_offset]
            content, length = hfile_blocks.decode(
                data, block_type, trailer.compression, self._place(at)
            )
            parts.append((content, self._place(at)))
            at += length
        if not 1 <= trailer.index_levels <= INDEX_LEVELS_MAX:
            raise errors.FormatError(
                f"{self._place(trailer_offset)}: an index of {trailer.index_levels} levels, "
                f"expected 1 to {INDEX_LEVELS_MAX}"
            )
        (root, root_place), (meta, meta_place), (info, info_place) = parts
        self._root = hfile_index.decode_root(root, trailer.root_entries, self._end, root_place)
        self._meta = hfile_index.decode_meta(meta, trailer.meta_entries, self._end, meta_place)
        self.file_info: Mapping[str, bytes] = hfile_messages.decode_file_info(info, info_place)
        self.entry_count = trailer.entry_count
        _check_supported(self.file_info, info_place)

    def _batches(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        for entry, data in self._blocks(self._data_entries(wanted)):
            content = self._content(entry, data, BlockType.DATA)
            entries = hfile_entries.decode(content, self._place(entry.offset))
            rows = wanted.rows(entries)
            if len(rows):
                yield (entries if len(rows) == len(entries) else entries.take(rows)).batch()

    def _data_entries(self, wanted: Wanted) -> list[Entry]:
        entries = _chosen(self._root, wanted)
        for level in range(self._trailer.index_levels - 1, 0, -1):
            kind = BlockType.LEAF_INDEX if level == 1 else BlockType.INTERMEDIATE_INDEX
            self._load_nodes(entries, kind)
            below = [entry for node in entries for entry in self._nodes[node.offset]]
            self._check_order(below)
            entries = _chosen(below, wanted)
        return entries

    def _load_nodes(self, entries: Iterable[Entry], kind: BlockType) -> None:
        missing = [entry for entry in entries if entry.offset not in self._nodes]
        for entry, data in self._blocks(missing):
            content = self._content(entry, data, kind)
            place = self._place(entry.offset)
            self._nodes[entry.offset] = hfile_index.decode_node(content, self._end, place)

    def _check_order(self, entries: Sequence[Entry]) -> None:
        for entry, after in itertools.pairwise(entries):
            if after.offset < entry.end:
                raise errors.FormatError(
                    f"{self._place(after.offset)}: the index has a block before byte {entry.end}, "
                    "where the one before it ends"
                )

    def _blocks(self, entries: Sequence[Entry]) -> Iterator[tuple[Entry, memoryview]]:
        """Yield the bytes of blocks, with one request for those that are close together."""
        for run in _runs(entries):
            start = run[0].offset
            data = memoryview(self._range(start, run[-1].end - start))
            for entry in run:
                yield entry, data[entry.offset - start : entry.end - start]

    def _content(self, entry: Entry, data: memoryview, kind: BlockType) -> memoryview:
        place = self._place(entry.offset)
        content, _ = hfile_blocks.decode(data, kind, self._trailer.compression, place)
        return content


def _chosen(entries: Sequence[Entry], wanted: Wanted) -> list[Entry]:
    found = wanted.blocks([entry.first_key for entry in entries]) if entries else set()
    return [entries[index] for index in sorted(found)]


def _runs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    run: list[Entry] = []
    for entry in entries:
        is_near = run and entry.offset - run[-1].end <= GAP_BYTES_MAX
        if run and not (is_near and entry.end - run[0].offset <= REQUEST_BYTES_MAX):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _check_supported(info: Mapping[str, bytes], place: str) -> None:
    version = info.get("KEY_VALUE_VERSION", b"").rjust(_INT_BYTES, b"\0")
    newest = info.get("MAX_MEMSTORE_TS_KEY", b"").rjust(_LONG_BYTES, b"\0")
    if int.from_bytes(version, "big") == 1 and int.from_bytes(newest, "big") > 0:
        raise errors.UnsupportedError(f"{place}: versions for concurrency control in an HFile")
    if "MAX_TAGS_LEN" in info:
        raise errors.UnsupportedError(f"{place}: tags in an HFile")
