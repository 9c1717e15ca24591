"""Blocks of log files: the layout and the corruption rules of format.md: Log files."""

import struct

import pyarrow as pa
import pytest

from hoodie import errors
from hoodie.format import log_blocks
from hoodie.format.log_blocks import Block, BlockType, CorruptRange, HeaderKey

# The first block of a metadata table, as Apache Hudi writes it: an empty list of deletes.
EMPTY_DELETES = bytes.fromhex(
    "2348554449230000000000000042000000010000000100000001000000000000001130303030303030303030303030"
    "3030303000000000000000090000000300000001000000000000000000000000"
    "48"
)
# A rollback by Apache Hudi 1.2.0 of a table of version 6.
ROLLBACK = bytes.fromhex(
    "23485544492300000000"
    "0000005b0000"
    "000100000000000000030000000100000011323032363131323130373239"
    "3439373935000000030000000130000000000000001132303236313132313037323935303534360000000000000000"
    "000000000000000000000061"
)
# Behind the content: an empty footer, and the length again.
TAIL_BYTES = 12
HEADER = {HeaderKey.INSTANT_TIME: "20261121071232155", HeaderKey.SCHEMA: '{"é":1}'}


def encoded(content: bytes = b"content", block_type: BlockType = BlockType.AVRO_DATA) -> bytes:
    return b"".join(log_blocks.encode(block_type, HEADER, content))


def scanned(content: bytes) -> list[Block | CorruptRange]:
    return list(log_blocks.scan(pa.py_buffer(content)))


def contents(content: bytes) -> list[bytes | None]:
    """Return the content of each block, None for a corrupt range."""
    return [
        each.content.to_pybytes() if isinstance(each, Block) else None for each in scanned(content)
    ]


def test_block_is_written_as_hudi_does() -> None:
    header = {HeaderKey.INSTANT_TIME: "0" * 17}
    parts = log_blocks.encode(BlockType.DELETE, header, bytes.fromhex("000000030000000100"))
    assert b"".join(parts) == EMPTY_DELETES


def test_blocks_of_hudi_are_read() -> None:
    deletes, rollback = scanned(EMPTY_DELETES + ROLLBACK)
    assert deletes == Block(
        type=BlockType.DELETE,
        header={HeaderKey.INSTANT_TIME: "0" * 17},
        content=pa.py_buffer(bytes.fromhex("000000030000000100")),
        offset=0,
        start=len(EMPTY_DELETES) - TAIL_BYTES - 9,
        length=9,
    )
    assert rollback == Block(
        type=BlockType.COMMAND,
        header={
            HeaderKey.TARGET_INSTANT_TIME: "20261121072949795",
            HeaderKey.COMMAND_BLOCK_TYPE: "0",
            HeaderKey.INSTANT_TIME: "20261121072950546",
        },
        content=pa.py_buffer(b""),
        offset=len(EMPTY_DELETES),
        start=len(EMPTY_DELETES + ROLLBACK) - TAIL_BYTES,
        length=0,
    )


def test_content_is_a_slice_of_the_file() -> None:
    buffer = pa.py_buffer(encoded())
    (block,) = log_blocks.scan(buffer)
    assert isinstance(block, Block)
    assert buffer.address < block.content.address < buffer.address + buffer.size
    assert block.header == HEADER


def test_content_may_be_an_arrow_buffer_and_is_not_copied() -> None:
    content = pa.py_buffer(b"x" * 100)
    _, middle, _ = log_blocks.encode(BlockType.PARQUET_DATA, HEADER, content)
    assert middle is content


def test_empty_file_has_no_blocks() -> None:
    assert scanned(b"") == []


@pytest.mark.parametrize("length", range(1, len(encoded())))
def test_truncated_tail_is_reported_and_the_blocks_before_it_survive(length: int) -> None:
    found = contents(encoded(b"first") + encoded()[:length])
    # A tail shorter than a magic is the end of the file for Hudi; a longer one is a torn block.
    assert found == [b"first", None]


def test_torn_block_ends_at_the_next_magic() -> None:
    assert contents(encoded(b"a") + encoded()[:-1] + encoded(b"b")) == [b"a", None, b"b"]


def test_block_that_no_magic_follows_is_torn_as_for_hudi() -> None:
    first, corrupt, last = scanned(encoded(b"a") + encoded(b"torn") + b"\x00" * 6 + encoded(b"b"))
    assert isinstance(first, Block)
    assert corrupt == CorruptRange(
        offset=len(encoded(b"a")),
        length=len(encoded(b"torn")) + 6,
        reason="no magic follows the block",
    )
    assert isinstance(last, Block)


def test_file_that_begins_with_no_magic_is_scanned_to_the_next() -> None:
    corrupt, block = scanned(b"garbage" + encoded())
    assert corrupt == CorruptRange(offset=0, length=7, reason="there is no magic")
    assert isinstance(block, Block)


def test_magic_within_content_is_content() -> None:
    assert contents(encoded(encoded(b"inner")) + encoded(b"b")) == [encoded(b"inner"), b"b"]


def test_magic_within_a_torn_block_is_where_reading_goes_on() -> None:
    # As Hudi does; the inner block was never meant, and only its instant can tell.
    torn = encoded(encoded(b"inner") + log_blocks.MAGIC)[:-1]
    assert contents(torn) == [None, b"inner", None]


@pytest.mark.parametrize("length", [-(2**63), -1, 0, 31, 2**31, 2**63 - 1])
def test_hostile_length_is_a_corrupt_range(length: int) -> None:
    broken = log_blocks.MAGIC + struct.pack(">q", length) + encoded()[14:]
    assert contents(broken + encoded(b"b")) == [None, b"b"]


def replaced(at: int, number: int) -> bytes:
    """Return a block with another int32 at a place."""
    block = encoded()
    return block[:at] + struct.pack(">i", number) + block[at + 4 :]


def test_unknown_version_type_and_header_key_are_named() -> None:
    for at, number, message in (
        (14, 2, "byte 0 has format version 2, expected 1"),
        (18, 7, "byte 0 has the unknown type 7"),
        (18, -1, "byte 0 has the unknown type -1"),
        (26, 9, r"byte 0 has the unknown header keys \[9\]"),
    ):
        with pytest.raises(errors.UnsupportedError, match=message):
            scanned(replaced(at, number))


@pytest.mark.parametrize("number", [-1, 3, 2**31 - 1])
@pytest.mark.parametrize("at", [22, 30])
def test_broken_inside_of_a_whole_block_is_a_format_error(at: int, number: int) -> None:
    with pytest.raises(errors.FormatError, match="log block at byte 0 is broken"):
        scanned(replaced(at, number))


def test_text_that_is_no_utf8_is_a_format_error() -> None:
    with pytest.raises(errors.FormatError, match="log block at byte 0 is broken"):
        scanned(encoded().replace("é".encode(), b"\xff\xff"))
