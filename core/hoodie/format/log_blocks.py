"""Log files as a sequence of blocks. All integers are big endian.

    bytes  meaning
    6      magic `#HUDI#`
    8      L: bytes after this field, to the block's end
    4      log format version, 1
    4      block type
    -      header: int32 n, then n times int32 key, int32 length, UTF-8 text
    8      C: bytes of content
    C      content
    -      footer: like the header, always empty
    8      L + 6

A block that a crash cut off, or that is not followed by another magic or the end of the file, does
not count, nor do the bytes up to the next magic: that is how a torn write is survived. A block
whose frame is right and whose inside is not is another thing: it was written in full and changed
later, so it stops the reader, as it stops Hudi's. Source: `HoodieLogFormatWriter.java`,
`HoodieLogFileReader.java`, `HoodieLogBlock.java`; format.md: Log files.
"""

import enum
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from hoodie import errors

MAGIC = b"#HUDI#"
FORMAT_VERSION = 1
CONTENT_BYTES_MAX = 2**31 - 1 - (1 << 20)
"""Java reads lengths as int32; what surrounds the content stays far below the rest."""

_MAGIC_PATTERN = re.compile(re.escape(MAGIC))
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_VERSION_AND_TYPE = struct.Struct(">ii")
_KEY_AND_LENGTH = struct.Struct(">ii")
# Version, type, empty header, content length, empty footer, trailing length.
_INSIDE_BYTES_MIN = 4 + 4 + 4 + 8 + 4 + 8
_SEARCHED_BYTES = 1 << 20

Buffered: TypeAlias = bytes | memoryview


class BlockType(enum.Enum):
    """What a block holds, by its ordinal in `HoodieLogBlockType`."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2  # Never written; Hudi makes it up for what it skips.
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(enum.Enum):
    """What a block's header tells, by its ordinal in `HeaderMetadataType`."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


_BLOCK_TYPES = {block_type.value: block_type for block_type in BlockType}
_HEADER_KEYS = {key.value: key for key in HeaderKey}


class Bytes(Protocol):
    """The bytes of a file, of which slices are read."""

    def __len__(self) -> int:
        """Return how many there are."""
        ...

    def __getitem__(self, where: slice) -> Buffered:
        """Return some of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One block without its content.

    Attributes:
        type: What it holds.
        header: Texts by key.
        offset: Of its magic in the file.
        start: Of its content in the file.
        length: Of its content.
    """

    type: BlockType
    header: Mapping[HeaderKey, str]
    offset: int
    start: int
    length: int

    def with_content(self, content: pa.Buffer) -> "Block":
        """Return the block."""
        return Block(
            type=self.type,
            header=self.header,
            offset=self.offset,
            start=self.start,
            length=self.length,
            content=content,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Frame):
    """One block.

    Attributes:
        content: A slice of the buffer that was scanned, or a part of it.
    """

    content: pa.Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Bytes that are no block, and are skipped.

    Attributes:
        offset: Of the first byte.
        length: Up to the next magic, or to the end of the file.
        reason: What is wrong there.
    """

    offset: int
    length: int
    reason: str


def encode(
    block_type: BlockType, header: Mapping[HeaderKey, str], content: bytes | pa.Buffer
) -> tuple[bytes, bytes | pa.Buffer, bytes]:
    """Return the parts of a block, to be written one after the other.

    The content is passed through, not copied.
    """
    assert block_type is not BlockType.CORRUPT
    assert len(content) <= CONTENT_BYTES_MAX, len(content)
    packed = _encode_header(header)
    length = _INSIDE_BYTES_MIN + len(packed) - _INT.size + len(content)
    head = b"".join(
        (
            MAGIC,
            _LONG.pack(length),
            _VERSION_AND_TYPE.pack(FORMAT_VERSION, block_type.value),
            packed,
            _LONG.pack(len(content)),
        )
    )
    tail = _INT.pack(0) + _LONG.pack(length + len(MAGIC))
    return head, content, tail


def scan(buffer: pa.Buffer) -> Iterator[Block | CorruptRange]:
    """Yield the blocks of a log file in order, and the ranges between them that are none.

    Every byte of the file is in exactly one of them.

    Args:
        buffer: The whole file. Blocks are slices of it, nothing is copied.

    Raises:
        UnsupportedError: A block's format version, type or header key is not known.
        FormatError: A block's frame is right and its inside is not.
    """
    for found in frames(memoryview(buffer)):
        if isinstance(found, Frame):
            yield found.with_content(buffer.slice(found.start, found.length))
        else:
            yield found


def frames(view: Bytes) -> Iterator[Frame | CorruptRange]:
    """Yield the same as `scan` without the content of blocks, which is not read.

    Args:
        view: The whole file.

    Raises:
        UnsupportedError: As `scan`.
        FormatError: As `scan`.
    """
    offset = 0
    while offset < len(view):
        try:
            end = _checked_end(view, offset)
        except errors.FormatError as error:
            end = _next_magic(view, offset)
            yield CorruptRange(offset=offset, length=end - offset, reason=str(error))
        else:
            yield _frame(view, offset, end)
        offset = end


def _checked_end(view: Bytes, offset: int) -> int:
    """Return where the block that begins at a place ends, if its frame is right."""
    if not _has_magic(view, offset):
        raise errors.FormatError("there is no magic")
    start = offset + len(MAGIC) + _LONG.size
    if start > len(view):
        raise errors.FormatError("the file ends within the block's length")
    (length,) = _LONG.unpack(view[start - _LONG.size : start])
    if not _INSIDE_BYTES_MIN <= length <= len(view) - start:
        raise errors.FormatError(
            f"the block has a length of {length}, the file {len(view) - start} more bytes"
        )
    end: int = start + length
    (trailing,) = _LONG.unpack(view[end - _LONG.size : end])
    if trailing - len(MAGIC) != length:
        raise errors.FormatError(
            f"the block has a length of {length}, and {trailing - len(MAGIC)} at its end"
        )
    # Fewer bytes than a magic count as the end of the file, as they do for Hudi.
    if end + len(MAGIC) <= len(view) and not _has_magic(view, end):
        raise errors.FormatError("no magic follows the block")
    return end


def _next_magic(view: Bytes, offset: int) -> int:
    """Return where the next magic is, or the end of the file; not the magic at the place itself."""
    after = offset + len(MAGIC) if _has_magic(view, offset) else offset
    for start in range(after, len(view), _SEARCHED_BYTES):
        found = _MAGIC_PATTERN.search(view[start : start + _SEARCHED_BYTES + len(MAGIC) - 1])
        if found:
            return start + found.start()
    return len(view)


def _has_magic(view: Bytes, offset: int) -> bool:
    return bytes(view[offset : offset + len(MAGIC)]) == MAGIC


def _frame(view: Bytes, offset: int, end: int) -> Frame:
    at = offset + len(MAGIC) + _LONG.size
    version, type_ordinal = _VERSION_AND_TYPE.unpack(view[at : at + _VERSION_AND_TYPE.size])
    if version != FORMAT_VERSION:
        raise errors.UnsupportedError(
            f"log block at byte {offset} has format version {version}, expected {FORMAT_VERSION}"
        )
    if type_ordinal not in _BLOCK_TYPES:
        raise errors.UnsupportedError(
            f"log block at byte {offset} has the unknown type {type_ordinal}"
        )
    try:
        header, start, length = _decode_inside(view, at + _VERSION_AND_TYPE.size, end)
    except (errors.FormatError, struct.error, UnicodeDecodeError) as error:
        raise errors.FormatError(f"log block at byte {offset} is broken: {error}") from error
    unknown = header.keys() - _HEADER_KEYS.keys()
    if unknown:
        raise errors.UnsupportedError(
            f"log block at byte {offset} has the unknown header keys {sorted(unknown)}"
        )
    return Frame(
        type=_BLOCK_TYPES[type_ordinal],
        header={_HEADER_KEYS[ordinal]: text for ordinal, text in header.items()},
        offset=offset,
        start=start,
        length=length,
    )


def _encode_header(header: Mapping[HeaderKey, str]) -> bytes:
    parts = [_INT.pack(len(header))]
    for key, text in header.items():
        encoded = text.encode()
        parts += (_KEY_AND_LENGTH.pack(key.value, len(encoded)), encoded)
    return b"".join(parts)


def _decode_inside(view: Bytes, at: int, end: int) -> tuple[dict[int, str], int, int]:
    """Return the header's texts and the content's start and length, of a block that ends there."""
    header, at = _decode_header(view, at, end)
    (length,) = _LONG.unpack(view[at : min(at + _LONG.size, end)])
    start = at + _LONG.size
    if not 0 <= length <= end - start:
        raise errors.FormatError(f"content of {length} bytes, {end - start} are left")
    _, footer_end = _decode_header(view, start + length, end)
    if footer_end + _LONG.size != end:
        raise errors.FormatError(f"{end - footer_end} bytes after the footer, expected 8")
    return header, start, length


def _decode_header(view: Bytes, at: int, end: int) -> tuple[dict[int, str], int]:
    """Return the texts of a header or footer by ordinal, and the place behind it."""
    (count,) = _INT.unpack(view[at : min(at + _INT.size, end)])
    if count < 0:
        raise errors.FormatError(f"a header of {count} texts")
    at += _INT.size
    header = {}
    # Every entry takes bytes, so that a claimed count ends with the block at the latest.
    for _ in range(count):
        ordinal, length = _KEY_AND_LENGTH.unpack(view[at : min(at + _KEY_AND_LENGTH.size, end)])
        at += _KEY_AND_LENGTH.size
        if not 0 <= length <= end - at:
            raise errors.FormatError(f"a header text of {length} bytes, {end - at} are left")
        header[ordinal] = str(view[at : at + length], "utf-8")
        at += length
    return header, at
