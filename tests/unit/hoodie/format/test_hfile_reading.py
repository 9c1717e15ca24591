"""Reading HFiles: which blocks a read fetches, index levels, traps, and what is refused."""

import functools
import struct
import tracemalloc
import zlib
from dataclasses import replace

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.format import hfile_blocks, hfile_index, hfile_messages, hfile_reading
from hoodie.format.hfile_blocks import BlockType, Compression
from hoodie.format.hfile_index import Entry
from hoodie.format.hfile_reading import Reader
from hoodie.format.hfile_writing import Options, Writer
from hoodie.storage.memory import MemoryStorage
from support.tables.hfiles import (
    HBASE_KEY_EXTRA,
    CountedFile,
    HandMade,
    columns,
    hfile,
    index_node,
    leveled,
    pairs_of,
)

PAIRS = [(b"key%05d" % number, b"value %d" % number) for number in range(3000)]
BLOCK_BYTES = 1024


def counted(monkeypatch: pytest.MonkeyPatch, content: bytes) -> CountedFile:
    """Return a file of which opening reads no data block, and runs are of one block."""
    monkeypatch.setattr(hfile_reading, "OPENING_BYTES", 4096)
    monkeypatch.setattr(hfile_reading, "GAP_BYTES_MAX", 0)
    return CountedFile(content)


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("block_bytes", [1, BLOCK_BYTES, 2**20])
def test_entries_are_read_in_order(compression: Compression, block_bytes: int) -> None:
    content = hfile(PAIRS, compression=compression, block_bytes=block_bytes)
    reader = Reader.over("x.hfile", content)
    assert pairs_of(reader.scan()) == PAIRS
    assert reader.entry_count == len(PAIRS)


def test_file_without_entries_is_read() -> None:
    reader = Reader.over("x.hfile", hfile([]))
    assert list(reader.scan()) == []
    assert reader.lookup([b"key"]).num_rows == 0
    assert reader.get(b"key") is None
    assert list(reader.with_prefixes([b""])) == []


def test_small_file_costs_one_request() -> None:
    file = CountedFile(hfile(PAIRS, block_bytes=BLOCK_BYTES, meta={"bloomFilter": b"bits"}))
    reader = file.open()
    assert pairs_of(reader.scan()) == PAIRS
    assert reader.get(b"key00007") == b"value 7"
    assert reader.meta_block("bloomFilter") == b"bits"
    assert file.requests == [(0, len(file.content))]


def test_file_of_a_storage_is_written_and_read() -> None:
    storage = MemoryStorage()
    with storage.open_write("files.hfile") as sink:
        writer = Writer(sink, Options(created_ms=1))
        writer.append(*columns(PAIRS))
        writer.finish()
    size = storage.stat("files.hfile").size_bytes
    reader = Reader("files.hfile", size, functools.partial(storage.read, "files.hfile"))
    assert pairs_of(reader.scan()) == PAIRS


def test_point_read_fetches_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    content = hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES)
    file = counted(monkeypatch, content)
    reader = file.open()
    opening = len(file.requests)
    assert reader.get(b"key01234") == b"value 1234"
    (request,) = file.requests[opening:]
    assert request[1] < 2 * BLOCK_BYTES


def test_several_keys_fetch_their_blocks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    content = hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES)
    file = counted(monkeypatch, content)
    reader = file.open()
    opening = len(file.requests)
    keys = [b"key02999", b"key00000", b"key00001", b"absent", b"key01500", b"zzz"]
    found = reader.lookup(keys)
    assert pairs_of([found]) == [PAIRS[0], PAIRS[1], PAIRS[1500], PAIRS[2999]]
    assert len(file.requests) - opening == 3


def test_blocks_that_lie_close_together_cost_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfile_reading, "OPENING_BYTES", 4096)
    content = hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES)
    file = CountedFile(content)
    reader = file.open()
    opening = len(file.requests)
    assert reader.lookup([b"key00010", b"key00500", b"key01000"]).num_rows == 3
    assert len(file.requests) - opening == 1


def test_scan_reads_in_requests_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfile_reading, "OPENING_BYTES", 4096)
    monkeypatch.setattr(hfile_reading, "REQUEST_BYTES_MAX", 10 * BLOCK_BYTES)
    content = hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES)
    file = CountedFile(content)
    assert pairs_of(file.open().scan()) == PAIRS
    assert max(length for _, length in file.requests) <= 10 * BLOCK_BYTES


def test_index_larger_than_the_first_request_costs_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hfile_reading, "OPENING_BYTES", 4096 + 100)
    file = CountedFile(hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES))
    reader = file.open()
    assert len(file.requests) == 2
    assert pairs_of(reader.scan()) == PAIRS


def test_prefixes_fetch_only_their_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES)
    file = counted(monkeypatch, content)
    reader = file.open()
    opening = len(file.requests)
    found = pairs_of(reader.with_prefixes([b"key0123", b"key02999", b"absent"]))
    assert found == [*PAIRS[1230:1240], PAIRS[2999]]
    assert len(file.requests) - opening <= 3


def test_prefix_of_highest_bytes_has_no_upper_bound() -> None:
    pairs = [(b"a", b"1"), (b"\xff", b"2"), (b"\xff\xff", b"3"), (b"\xff\xff\x01", b"4")]
    reader = Reader.over("x.hfile", hfile(pairs, block_bytes=1))
    assert pairs_of(reader.with_prefixes([b"\xff\xff"])) == pairs[2:]


def test_range_has_its_first_key_and_not_its_last() -> None:
    reader = Reader.over("x.hfile", hfile(PAIRS, block_bytes=BLOCK_BYTES))
    assert pairs_of(reader.between(b"key00100", b"key00200")) == PAIRS[100:200]
    assert pairs_of(reader.between(b"key02990", None)) == PAIRS[2990:]
    assert pairs_of(reader.between(b"", b"key00001")) == PAIRS[:1]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("compression", Compression)
def test_index_of_several_levels_is_followed(levels: int, compression: Compression) -> None:
    pairs = PAIRS[:40]
    content = leveled(pairs, levels, compression=compression)
    reader = Reader.over("x.hfile", content)
    assert pairs_of(reader.scan()) == pairs
    assert reader.get(b"key00017") == b"value 17"
    assert pairs_of(reader.with_prefixes([b"key0001"])) == pairs[10:20]


def test_point_read_follows_one_branch_of_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    file = counted(monkeypatch, leveled(PAIRS, 3, entries_per_block=50, fan_out=5))
    reader = file.open()
    opening = len(file.requests)
    assert reader.get(b"key01234") == b"value 1234"
    assert len(file.requests) - opening <= 3
    # Index blocks are kept: the same branch costs a data block alone.
    opening = len(file.requests)
    assert reader.get(b"key01235") == b"value 1235"
    assert len(file.requests) - opening == 1


def test_keys_of_the_root_may_have_what_hbase_adds() -> None:
    made = HandMade()
    entry = made.add_data([(b"key", b"value")])
    key = b"\x00\x03key" + HBASE_KEY_EXTRA
    root = struct.pack(">qib", entry.offset, entry.size_bytes, len(key)) + key
    reader = Reader.over("x.hfile", made.finish([entry], entry_count=1, root_content=root))
    assert reader.get(b"key") == b"value"


def test_first_key_in_the_index_may_be_below_the_blocks() -> None:
    # HBase writes the shortest key between two blocks.
    made = HandMade()
    first = made.add_data([(b"apple", b"1")])
    second = made.add_data([(b"pear", b"2")])
    second = Entry(offset=second.offset, size_bytes=second.size_bytes, first_key=b"b")
    reader = Reader.over("x.hfile", made.finish([first, second], entry_count=2))
    assert reader.get(b"banana") is None
    assert reader.get(b"pear") == b"2"


@pytest.mark.parametrize("length", [127, 128, 206, 32767])
def test_keys_longer_than_one_byte_of_length_are_found_through_the_index(length: int) -> None:
    pairs = [(b"a" * length, b"1"), (b"b" * length, b"2")]
    reader = Reader.over("x.hfile", hfile(pairs, block_bytes=1))
    assert [reader.get(key) for key, _ in pairs] == [b"1", b"2"]


def test_every_entry_is_read_though_checksums_are_as_long_as_the_last() -> None:
    # 900 kB without compression have 56 checksums: Apache Hudi's reader stops 224 bytes early.
    pairs = [(b"key%03d" % number, bytes(970)) for number in range(900)] + [(b"last", b"1")]
    reader = Reader.over("x.hfile", hfile(pairs, compression=Compression.NONE))
    assert pairs_of(reader.scan()) == pairs
    assert reader.get(b"last") == b"1"


def test_value_that_looks_like_an_entry_is_read_whole() -> None:
    inner = hfile(PAIRS[:50], compression=Compression.NONE)
    pairs = [(b"a", inner), (b"bb", inner + b"\x00" + HBASE_KEY_EXTRA), (b"c", b"")]
    reader = Reader.over("x.hfile", hfile(pairs, compression=Compression.NONE))
    assert pairs_of(reader.scan()) == pairs


def test_data_block_without_entries_is_refused() -> None:
    made = HandMade()
    entry = made.add(BlockType.DATA, b"", b"key")
    with pytest.raises(errors.FormatError, match="no entry begins at byte 0"):
        list(Reader.over("x.hfile", made.finish([entry])).scan())


@pytest.mark.parametrize(
    "entry",
    [
        struct.pack(">iih", 15, 1, 3) + b"key\x01" + struct.pack(">qb", 7, 4) + b"v\x00",
        struct.pack(">iih", 15, 1, 3) + b"key\x00" + struct.pack(">qb", 7, 8) + b"v\x00",
        struct.pack(">iih", 15, 1, 3) + b"key\x00" + struct.pack(">qb", 7, 4) + b"v\x01",
        struct.pack(">iih", 15, 1, 2) + b"key\x00" + struct.pack(">qb", 7, 4) + b"v\x00",
        struct.pack(">iih", 15, 1, -1) + b"key\x00" + struct.pack(">qb", 7, 4) + b"v\x00",
    ],
)
def test_entry_that_is_not_a_put_of_a_row_key_is_refused(entry: bytes) -> None:
    made = HandMade()
    block = made.add(BlockType.DATA, entry, b"key")
    with pytest.raises(errors.FormatError, match="byte 0 of the block begins an entry with"):
        list(Reader.over("x.hfile", made.finish([block])).scan())


def test_keys_of_many_lengths_are_read() -> None:
    pairs = [(b"k" * length, b"v" * (length % 5)) for length in range(1, 300)]
    assert pairs_of(Reader.over("x.hfile", hfile(pairs)).scan()) == pairs


def test_entry_with_another_timestamp_is_read() -> None:
    content = struct.pack(">iih", 15, 1, 3) + b"key\x00" + struct.pack(">qb", 7, 4) + b"v\x00"
    made = HandMade()
    entry = made.add(BlockType.DATA, content, b"key")
    reader = Reader.over("x.hfile", made.finish([entry], entry_count=1))
    assert reader.get(b"key") == b"v"


def test_keys_sorted_as_java_sorts_strings_are_all_found() -> None:
    # By UTF-16 a character above U+FFFF comes before U+FF21, by bytes after it.
    texts = ["a", "b", "\U0001f600", "\U0001f601x", "\U0001f602", "\uff21", "\uff22", "\uff23"]
    assert texts == sorted(texts, key=lambda text: text.encode("utf-16-be"))
    keys = [text.encode() for text in texts]
    assert keys != sorted(keys)
    for blocks in (1, 2, 3):
        made = HandMade()
        groups = [keys[start : start + blocks] for start in range(0, len(keys), blocks)]
        entries = [made.add_data([(key, key) for key in group]) for group in groups]
        reader = Reader.over("x.hfile", made.finish(entries, entry_count=len(keys)))
        assert [reader.get(key) for key in keys] == keys
        assert reader.lookup(keys).num_rows == len(keys)
        assert reader.get("\U0001f601".encode()) is None
        assert pairs_of(reader.with_prefixes(["\U0001f601".encode()])) == [(keys[3], keys[3])]
        assert pairs_of(reader.with_prefixes(["\uff22".encode()])) == [(keys[6], keys[6])]


def test_texts_are_looked_up_as_their_bytes() -> None:
    reader = Reader.over("x.hfile", hfile(PAIRS))
    found = reader.lookup(pa.array(["key00002", "key00001", "key00002"]))
    assert pairs_of([found]) == PAIRS[1:3]


def test_log_block_content_is_read_from_a_buffer() -> None:
    whole = pa.py_buffer(b"before" + hfile(PAIRS) + b"after")
    reader = Reader.over("block", whole.slice(6, len(whole) - 11))
    assert pairs_of(reader.scan()) == PAIRS


def test_checksums_of_crc_32_are_checked() -> None:
    made = HandMade()
    entry = made.add_data([(b"key", b"value")])
    block = bytearray(made.parts.pop())
    block[24] = 1
    framed = len(block) - 4
    block[framed:] = zlib.crc32(block[:framed]).to_bytes(4, "big")
    made.offset = 0
    entry = made.add_raw(bytes(block), b"key")
    content = made.finish([entry], entry_count=1)
    assert Reader.over("x.hfile", content).get(b"key") == b"value"
    changed = content.replace(b"value", b"valuf")
    with pytest.raises(errors.FormatError, match=r"x\.hfile at byte 0: the checksum"):
        Reader.over("x.hfile", changed).get(b"key")


@pytest.mark.parametrize("size", [0, 1, 4095])
def test_file_shorter_than_a_trailer_is_refused(size: int) -> None:
    with pytest.raises(errors.FormatError, match=f"x.hfile has {size} bytes"):
        Reader.over("x.hfile", bytes(size))


def test_file_that_is_shorter_than_its_listing_is_refused() -> None:
    file = CountedFile(hfile(PAIRS))
    with pytest.raises(errors.FormatError, match="the file ends after"):
        Reader("x.hfile", len(file.content) + 10, file)


def test_error_names_file_and_offset() -> None:
    content = bytearray(hfile(PAIRS, compression=Compression.NONE, block_bytes=BLOCK_BYTES))
    second = content.index(b"DATABLK*", 1)
    content[second] = 0
    with pytest.raises(errors.FormatError, match=rf"x.hfile at byte {second}: magic"):
        list(Reader.over("x.hfile", bytes(content)).scan())


def test_other_version_is_refused() -> None:
    content = bytearray(hfile(PAIRS))
    content[-1] = 2
    with pytest.raises(errors.UnsupportedError, match="version 2 of HFile"):
        Reader.over("x.hfile", bytes(content))


def test_compression_that_apache_hudi_lacks_is_refused() -> None:
    content = hfile(PAIRS)
    at = content.index(b"KVComparator`") + len(b"KVComparator`")
    with pytest.raises(errors.UnsupportedError, match="compression 3"):
        Reader.over("x.hfile", content[:at] + b"\x03" + content[at + 1 :])


@pytest.mark.parametrize(
    ("info", "what"),
    [
        ({"KEY_VALUE_VERSION": b"\0\0\0\1", "MAX_MEMSTORE_TS_KEY": b"\0" * 7 + b"\1"}, "versions"),
        ({"MAX_TAGS_LEN": b"\0\0\0\0"}, "tags"),
    ],
)
def test_what_hbase_adds_to_entries_is_refused(info: dict[str, bytes], what: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=what):
        Reader.over("x.hfile", HandMade().finish([], info=info))


def test_block_that_inflates_beyond_its_header_is_refused() -> None:
    bomb = hfile_blocks.encode(BlockType.DATA, bytes(50 * 2**20), Compression.GZIP)
    lying = bytearray(bomb)
    lying[12:16] = (1000).to_bytes(4, "big")
    made = HandMade(Compression.GZIP)
    content = made.finish([made.add_raw(bytes(lying), b"key")], entry_count=1)
    tracemalloc.start()
    try:
        with pytest.raises(errors.FormatError, match="does not end after the 1000 bytes"):
            list(Reader.over("x.hfile", content).scan())
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("claimed", "what"), [(2**28 + 1, "at most"), (2**28, "cannot hold"), (-1, "at most")]
)
def test_claimed_size_of_content_is_not_allocated(claimed: int, what: str) -> None:
    block = bytearray(hfile_blocks.encode(BlockType.DATA, bytes(100), Compression.GZIP))
    block[12:16] = struct.pack(">i", claimed)
    made = HandMade(Compression.GZIP)
    content = made.finish([made.add_raw(bytes(block), b"key")], entry_count=1)
    with pytest.raises(errors.FormatError, match=what):
        list(Reader.over("x.hfile", content).scan())


def test_index_that_refers_to_a_block_twice_is_refused() -> None:
    made = HandMade()
    entry = made.add_data([(b"key", b"value")])
    with pytest.raises(errors.FormatError, match="the index has a block"):
        Reader.over("x.hfile", made.finish([entry, entry]))


def test_branches_of_an_index_that_meet_are_refused() -> None:
    made = HandMade()
    entry = made.add_data([(b"key", b"value")])
    leaves = [made.add(BlockType.LEAF_INDEX, index_node([entry]), b"key") for _ in range(2)]
    reader = Reader.over("x.hfile", made.finish(leaves, levels=2))
    with pytest.raises(errors.FormatError, match="the index has a block before byte"):
        list(reader.scan())


def test_index_that_refers_to_itself_is_refused() -> None:
    made = HandMade()
    size = len(
        hfile_blocks.encode(
            BlockType.LEAF_INDEX,
            index_node([Entry(offset=0, size_bytes=33, first_key=b"k")]),
            made.compression,
        )
    )
    leaf = made.add(
        BlockType.INTERMEDIATE_INDEX,
        index_node([Entry(offset=0, size_bytes=size, first_key=b"k")]),
        b"k",
    )
    reader = Reader.over("x.hfile", made.finish([leaf], levels=4))
    with pytest.raises(errors.FormatError, match="magic"):
        list(reader.scan())


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**40])
def test_part_to_be_read_first_lies_inside_the_file(offset: int) -> None:
    trailer = hfile_messages.decode_trailer(memoryview(hfile(PAIRS))[-4096:], "x")
    moved = replace(trailer, load_on_open_offset=offset)
    content = hfile(PAIRS)[:-4096] + hfile_messages.encode_trailer(moved)
    file = CountedFile(content)
    with pytest.raises(errors.FormatError, match=f"begins at byte {offset}, expected it from"):
        file.open()
    assert len(file.requests) == 1


@pytest.mark.parametrize("count", [-1, 10_000, 2**40, 2**62])
@pytest.mark.parametrize("name", ["root_entries", "meta_entries"])
def test_claimed_count_of_index_entries_is_not_believed(name: str, count: int) -> None:
    content = hfile(PAIRS)
    trailer = hfile_messages.decode_trailer(memoryview(content)[-4096:], "x")
    trailer = replace(trailer, **{name: count})
    changed = content[:-4096] + hfile_messages.encode_trailer(trailer)
    with pytest.raises(errors.FormatError, match=rf"{count} entries in \d+ bytes of an index"):
        Reader.over("x.hfile", changed)


@pytest.mark.parametrize("levels", [0, -1, 9, 2**40])
def test_depth_of_the_index_is_bounded(levels: int) -> None:
    with pytest.raises(errors.FormatError, match="levels, expected 1 to 8"):
        Reader.over("x.hfile", HandMade().finish([], levels=levels))


def test_file_with_fewer_entries_than_it_says_is_refused() -> None:
    made = HandMade()
    entry = made.add_data([(b"key", b"value")])
    reader = Reader.over("x.hfile", made.finish([entry], entry_count=2))
    with pytest.raises(errors.FormatError, match="has 1 entries, its trailer says 2"):
        list(reader.scan())


def test_varints_of_protocol_buffers_in_an_index_are_refused() -> None:
    # Apache Hudi 1.1.1 writes them for keys from 126 bytes on, and does not read them.
    made = HandMade()
    key = b"k" * 200
    entry = made.add_data([(key, b"value")])
    root = struct.pack(">qi", entry.offset, entry.size_bytes) + b"\xca\x01\x00\xc8" + key
    with pytest.raises(errors.FormatError, match=r"a key of (an|-?\d+ bytes in an) index"):
        Reader.over("x.hfile", made.finish([entry], root_content=root))


def test_variable_lengths_of_hadoop_are_as_hadoop_writes_them() -> None:
    for key, lead in (
        (b"k" * 125, b"\x7f"),
        (b"k" * 126, b"\x8f\x80"),
        (b"k" * 300, b"\x8e\x01\x2e"),
    ):
        entry = Entry(offset=1, size_bytes=40, first_key=key)
        assert hfile_index.encode_root([entry])[12:].startswith(lead + len(key).to_bytes(2, "big"))
