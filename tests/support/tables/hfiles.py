"""HFiles made by hand: of several index levels, with HBase's longer keys, and what reads cost."""

import io
import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from hoodie.format import (
    hfile_blocks,
    hfile_entries,
    hfile_index,
    hfile_messages,
    hfile_reading,
    hfile_writing,
)
from hoodie.format.hfile_blocks import BlockType, Compression
from hoodie.format.hfile_index import Entry

Pairs = Sequence[tuple[bytes, bytes]]

HBASE_KEY_EXTRA = b"\x00" + struct.pack(">qb", 2**63 - 1, 4)


def columns(pairs: Pairs) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    keys = pa.array([key for key, _ in pairs], pa.binary())
    return keys, pa.array([value for _, value in pairs], pa.binary())


def pairs_of(batches: Iterable[pa.RecordBatch | pa.Table]) -> list[tuple[bytes, bytes]]:
    return [
        (row["key"], row["value"])
        for batch in batches
        for row in batch.cast(hfile_entries.SCHEMA).to_pylist()
    ]


def hfile(
    pairs: Pairs,
    *,
    compression: Compression = Compression.GZIP,
    block_bytes: int = 2**20,
    file_info: Mapping[str, bytes] | None = None,
    meta: Mapping[str, bytes] | None = None,
) -> bytes:
    sink = io.BytesIO()
    options = hfile_writing.Options(created_ms=1, compression=compression, block_bytes=block_bytes)
    writer = hfile_writing.Writer(sink, options)
    writer.append(*columns(pairs))
    writer.finish(file_info, meta)
    return sink.getvalue()


class CountedFile:
    """A file in memory that counts what is read of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.requests: list[tuple[int, int]] = []

    def __call__(self, *, offset: int, length: int) -> bytes:
        self.requests.append((offset, length))
        return self.content[offset : offset + length]

    def open(self) -> hfile_reading.Reader:
        return hfile_reading.Reader("counted.hfile", len(self.content), self)


class HandMade:
    """A file put together from blocks, each of which may be wrong."""

    def __init__(self, compression: Compression = Compression.NONE) -> None:
        self.compression = compression
        self.parts: list[bytes] = []
        self.offset = 0

    def add(self, block_type: BlockType, content: bytes, first_key: bytes = b"") -> Entry:
        return self.add_raw(hfile_blocks.encode(block_type, content, self.compression), first_key)

    def add_raw(self, block: bytes, first_key: bytes = b"") -> Entry:
        entry = Entry(offset=self.offset, size_bytes=len(block), first_key=first_key)
        self.parts.append(block)
        self.offset += len(block)
        return entry

    def add_data(self, pairs: Pairs) -> Entry:
        content = hfile_entries.encode(*columns(pairs)).to_pybytes()
        return self.add(BlockType.DATA, content, pairs[0][0])

    def finish(
        self,
        root: Sequence[Entry],
        *,
        levels: int = 1,
        entry_count: int = 0,
        root_content: bytes | None = None,
        info: Mapping[str, bytes] | None = None,
    ) -> bytes:
        start = self.offset
        content = hfile_index.encode_root(root) if root_content is None else root_content
        self.add(BlockType.ROOT_INDEX, content)
        self.add(BlockType.ROOT_INDEX, b"")
        file_info = self.add(BlockType.FILE_INFO, hfile_messages.encode_file_info(info or {}))
        trailer = hfile_messages.Trailer(
            file_info_offset=file_info.offset,
            load_on_open_offset=start,
            data_bytes=0,
            root_entries=len(root),
            meta_entries=0,
            entry_count=entry_count,
            index_levels=levels,
            first_data_offset=0,
            last_data_offset=0,
            compression=self.compression,
        )
        return b"".join((*self.parts, hfile_messages.encode_trailer(trailer)))


def index_node(entries: Sequence[Entry], extra: bytes = HBASE_KEY_EXTRA) -> bytes:
    """Return a leaf or intermediate block as HBase writes it."""
    encoded = [
        struct.pack(">qih", entry.offset, entry.size_bytes, len(entry.first_key))
        + entry.first_key
        + extra
        for entry in entries
    ]
    places = itertools.accumulate(map(len, encoded), initial=0)
    return struct.pack(f">{len(entries) + 2}i", len(entries), *places) + b"".join(encoded)


def leveled(
    pairs: Pairs,
    levels: int,
    *,
    entries_per_block: int = 2,
    fan_out: int = 2,
    compression: Compression = Compression.GZIP,
) -> bytes:
    """Return a file whose index has several levels, leaf blocks among the data as in HBase."""
    made = HandMade(compression)
    below: list[Entry] = []
    nodes: list[Entry] = []
    cuts = range(0, len(pairs), entries_per_block)
    for cut in cuts:
        below.append(made.add_data(pairs[cut : cut + entries_per_block]))
        is_last = cut == cuts[-1]
        if levels > 1 and (len(below) == fan_out or is_last):
            nodes.append(made.add(BlockType.LEAF_INDEX, index_node(below), below[0].first_key))
            below = []
    for _ in range(levels - 2):
        groups = [nodes[cut : cut + fan_out] for cut in range(0, len(nodes), fan_out)]
        nodes = [
            made.add(BlockType.INTERMEDIATE_INDEX, index_node(group), group[0].first_key)
            for group in groups
        ]
    return made.finish(nodes or below, levels=levels, entry_count=len(pairs))
