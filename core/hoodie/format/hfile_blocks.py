"""Blocks of an HFile: a header, content that may be compressed, and checksums. Big endian.

    offset  bytes  meaning
    0       8      magic, which names the type
    8       4      S: bytes after the header: stored content and checksums
    12      4      bytes of the content once it is decompressed
    16      8      offset of the data block before it, or -1; nothing reads it
    24      1      type of the checksums: 0 none, 1 CRC-32, 2 CRC-32C
    25      4      N: bytes that one checksum covers
    29      4      D: bytes of header and stored content
    33      D-33   content, as one gzip stream if the file is compressed
    D       S+33-D checksums of header and stored content, 4 bytes each; zeros if there are none

What Apache Hudi 1.2.0 does, and `encode` with it: every block has checksums of type 0, and ends in
4 zero bytes for each N = 16384 bytes of header and stored content. Its reader takes as many bytes
off the *decompressed* content of a data block, and loses the entries that begin there: the last 260
bytes of a block of 1 MiB without compression. Where that would happen, `encode` raises N, so that
the reader takes off 4 bytes, less than any entry has.

Source: `HFileBlock.java`, `HFileDataBlock.java`; HBase's reference guide, "HFile format"; RFC 1952.
"""

import enum
import struct
import zlib
from typing import cast

from isal import isal_zlib

from hoodie import errors

HEADER_BYTES = 33
CONTENT_BYTES_MAX = 2**28
"""Of one block. Apache Hudi fills a block up to 1 MiB, or with one larger entry."""

_HEADER = struct.Struct(">8siiqbii")
_PREVIOUS, _PREVIOUS_AT = struct.Struct(">q"), 16
_CHECKSUM_BYTES = 4
_BYTES_PER_CHECKSUM = 16 * 1024
_BYTES_PER_CHECKSUM_MAX = 2**30
_NO_CHECKSUM = 0
_CRC_32 = 1
_CRC_32C = 2  # Not checked: it takes a library, and gzip has a checksum of its own.

_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"  # As Java writes it, since release 16.
_GZIP_TRAILER = struct.Struct("<II")
_GZIP_LEVEL = 2
"""Of ISA-L: a record index has a fifth more bytes than by level 6 of zlib, which Java uses, and
takes a fourteenth of the time, much of which passes under the lock of the table."""
_DEFLATE = -zlib.MAX_WBITS
_GZIP = 16 + zlib.MAX_WBITS
_INFLATE_ERROR = cast(
    "type[Exception]", isal_zlib.error
)  # Its stubs call it an exception, no type.
_INFLATION_MAX = 1032
"""No deflate stream grows by more: a match of 258 bytes takes 2 bits."""


class BlockType(enum.Enum):
    """What a block holds, by its magic."""

    DATA = b"DATABLK*"
    META = b"METABLKc"
    ROOT_INDEX = b"IDXROOT2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    LEAF_INDEX = b"IDXLEAF2"
    FILE_INFO = b"FILEINF2"


class Compression(enum.Enum):
    """How the blocks of a file are compressed, by its number in the trailer."""

    GZIP = 1
    NONE = 2


def encode(
    block_type: BlockType,
    content: bytes | memoryview,
    compression: Compression,
    *,
    previous_offset: int = -1,
    last_entry_bytes: int | None = None,
) -> bytes:
    """Return a block.

    Args:
        block_type: What it holds.
        content: At most CONTENT_BYTES_MAX.
        compression: The file's.
        previous_offset: What the header has for it.
        last_entry_bytes: Of a data block: the length of its last entry.
    """
    assert len(content) <= CONTENT_BYTES_MAX, len(content)
    stored = content if compression is Compression.NONE else _deflated(content)
    framed_bytes = HEADER_BYTES + len(stored)
    step = _BYTES_PER_CHECKSUM
    checksums = _checksums_bytes(framed_bytes, step)
    # The reader counts checksums as if they covered themselves, too.
    taken_off = _checksums_bytes(framed_bytes + checksums, step)
    if last_entry_bytes is not None and last_entry_bytes <= taken_off:
        step = _BYTES_PER_CHECKSUM_MAX
        checksums = _checksums_bytes(framed_bytes, step)
    header = _HEADER.pack(
        block_type.value,
        len(stored) + checksums,
        len(content),
        previous_offset,
        _NO_CHECKSUM,
        step,
        framed_bytes,
    )
    return b"".join((header, stored, bytes(checksums)))


def set_previous_offset(block: bytearray, offset: int) -> None:
    """Change what the header of a block has for the offset of the data block before it.

    No checksum of `encode` covers it.
    """
    _PREVIOUS.pack_into(block, _PREVIOUS_AT, offset)


def decode(
    data: memoryview, block_type: BlockType, compression: Compression, place: str
) -> tuple[memoryview, int]:
    """Return the content of the block that begins some bytes, and its length with all parts.

    Args:
        data: The block, and perhaps what follows it.
        block_type: What it must hold.
        compression: The file's.
        place: Names file and offset in errors.

    Raises:
        FormatError: The bytes are no such block.
    """
    if len(data) < HEADER_BYTES:
        raise errors.FormatError(f"{place}: {len(data)} bytes, a block has at least {HEADER_BYTES}")
    magic, after, content_bytes, _, checksum_type, step, framed_bytes = _HEADER.unpack_from(data)
    if magic != block_type.value:
        raise errors.FormatError(f"{place}: magic {magic!r}, expected {block_type.value!r}")
    if not 0 <= after <= len(data) - HEADER_BYTES:
        raise errors.FormatError(
            f"{place}: the block has {after} bytes after its header, "
            f"{len(data) - HEADER_BYTES} are there"
        )
    end = HEADER_BYTES + after
    if not HEADER_BYTES <= framed_bytes <= end:
        raise errors.FormatError(f"{place}: content up to byte {framed_bytes} in a block of {end}")
    if not 0 <= content_bytes <= CONTENT_BYTES_MAX:
        raise errors.FormatError(
            f"{place}: the block has {content_bytes} bytes of content, "
            f"at most {CONTENT_BYTES_MAX} are read"
        )
    _check_sums(data[:end], framed_bytes, checksum_type, step, place)
    stored = data[HEADER_BYTES:framed_bytes]
    if compression is Compression.NONE:
        if len(stored) != content_bytes:
            raise errors.FormatError(
                f"{place}: {len(stored)} bytes of content, the header says {content_bytes}"
            )
        return stored, end
    return _inflated(stored, content_bytes, place), end


def _checksums_bytes(framed_bytes: int, step: int) -> int:
    return _CHECKSUM_BYTES * -(-framed_bytes // step)


def _check_sums(
    block: memoryview, framed_bytes: int, checksum_type: int, step: int, place: str
) -> None:
    if checksum_type in (_NO_CHECKSUM, _CRC_32C):
        return
    if checksum_type != _CRC_32:
        raise errors.FormatError(f"{place}: unknown type {checksum_type} of checksums")
    if step <= 0 or len(block) - framed_bytes != _checksums_bytes(framed_bytes, step):
        raise errors.FormatError(
            f"{place}: {len(block) - framed_bytes} bytes of checksums, each of {step} bytes"
        )
    at = framed_bytes
    for start in range(0, framed_bytes, step):
        found = zlib.crc32(block[start : min(start + step, framed_bytes)])
        if found != int.from_bytes(block[at : at + _CHECKSUM_BYTES], "big"):
            raise errors.FormatError(f"{place}: the checksum of the block's byte {start} is wrong")
        at += _CHECKSUM_BYTES


def _deflated(content: bytes | memoryview) -> bytes:
    # Not zlib's own frame: it names another operating system than Java does.
    deflater = isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, _DEFLATE)
    trailer = _GZIP_TRAILER.pack(zlib.crc32(content), len(content))
    return b"".join((_GZIP_HEADER, deflater.compress(content), deflater.flush(), trailer))


def _inflated(stored: memoryview, content_bytes: int, place: str) -> memoryview:
    if content_bytes > len(stored) * _INFLATION_MAX:
        raise errors.FormatError(
            f"{place}: {len(stored)} compressed bytes cannot hold {content_bytes}"
        )
    inflater = isal_zlib.decompressobj(_GZIP)
    try:
        # One byte more than there should be: the stream must end before it.
        content = inflater.decompress(stored, content_bytes + 1)
    except _INFLATE_ERROR as error:
        raise errors.FormatError(f"{place}: the content is not a gzip stream: {error}") from error
    if len(content) != content_bytes or not inflater.eof:
        raise errors.FormatError(
            f"{place}: the content does not end after the {content_bytes} bytes of the header"
        )
    return memoryview(content)
