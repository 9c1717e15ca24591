"""The two Protocol Buffers messages of an HFile: trailer and file info.

The trailer is the last 4096 bytes of the file:

    offset  bytes  meaning
    0       8      `TRABLK"$`
    8       -      length of the message, a varint; the message; zeros
    4092    1      minor version, 0 to 3
    4093    3      major version, 3

File info is a block whose content is `PBUF`, the message's length as a varint, and the message: a
map from texts to bytes, as repeated pairs.

Source: `HFile.proto`, `HFileTrailer.java`, `HFileFileInfoBlock.java`; Protocol Buffers, "Encoding".
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.format.hfile_blocks import Compression

TRAILER_BYTES = 4096
COMPARATOR = "org.apache.hudi.io.storage.HoodieHBaseKVComparator"

_TRAILER_MAGIC = b'TRABLK"$'
_MAJOR_VERSION = 3
_VERSION_BYTES = 4
_FILE_INFO_MAGIC = b"PBUF"
_MAP_ENTRY = 1
_PAIR_FIRST = 1
_PAIR_SECOND = 2
_WORD_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_VARINT_BYTES_MAX = 10
_SKIPPED_BYTES = {1: 8, 5: 4}
"""Lengths of the types of fields that no message here has, by their number."""

Value = int | memoryview


class _Field(enum.IntEnum):
    FILE_INFO_OFFSET = 1
    LOAD_ON_OPEN_OFFSET = 2
    UNCOMPRESSED_INDEX_BYTES = 3
    ROOT_ENTRIES = 5
    META_ENTRIES = 6
    ENTRY_COUNT = 7
    INDEX_LEVELS = 8
    FIRST_DATA_OFFSET = 9
    LAST_DATA_OFFSET = 10
    COMPARATOR = 11
    COMPRESSION = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """What the end of an HFile says of it.

    Attributes:
        file_info_offset: Where file info begins.
        load_on_open_offset: Where the part begins that is read first: root index, meta index and
            file info.
        data_bytes: Of all entries, uncompressed. (HBase has the size of the index here.)
        root_entries: Of the root of the data index.
        meta_entries: Of the meta index.
        entry_count: Of the whole file.
        index_levels: Of the data index; 1 if its root is all.
        first_data_offset: Of the first data block; -1 if there is none.
        last_data_offset: Of the last data block; 0 if there is none.
        compression: Of all blocks.
    """

    file_info_offset: int
    load_on_open_offset: int
    data_bytes: int
    root_entries: int
    meta_entries: int
    entry_count: int
    index_levels: int
    first_data_offset: int
    last_data_offset: int
    compression: Compression


def encode_trailer(trailer: Trailer) -> bytes:
    """Return the last bytes of a file."""
    numbers = {
        _Field.FILE_INFO_OFFSET: trailer.file_info_offset,
        _Field.LOAD_ON_OPEN_OFFSET: trailer.load_on_open_offset,
        _Field.UNCOMPRESSED_INDEX_BYTES: trailer.data_bytes,
        _Field.ROOT_ENTRIES: trailer.root_entries,
        _Field.META_ENTRIES: trailer.meta_entries,
        _Field.ENTRY_COUNT: trailer.entry_count,
        _Field.INDEX_LEVELS: trailer.index_levels,
        _Field.FIRST_DATA_OFFSET: trailer.first_data_offset,
        _Field.LAST_DATA_OFFSET: trailer.last_data_offset,
    }
    message = b"".join(
        (
            *(_number(field, value) for field, value in numbers.items()),
            _bytes(_Field.COMPARATOR, COMPARATOR.encode()),
            _number(_Field.COMPRESSION, trailer.compression.value),
        )
    )
    head = _TRAILER_MAGIC + _varint(len(message)) + message
    version = _MAJOR_VERSION.to_bytes(_VERSION_BYTES, "big")
    return head.ljust(TRAILER_BYTES - _VERSION_BYTES, b"\0") + version


def decode_trailer(data: memoryview, place: str) -> Trailer:
    """Return what the last bytes of a file say.

    Args:
        data: TRAILER_BYTES.
        place: Names file and offset in errors.

    Raises:
        FormatError: They are no trailer.
        UnsupportedError: The version or the compression is not supported.
    """
    if data[: len(_TRAILER_MAGIC)] != _TRAILER_MAGIC:
        found = bytes(data[: len(_TRAILER_MAGIC)])
        raise errors.FormatError(f"{place}: magic {found!r}, expected {_TRAILER_MAGIC!r}")
    major = int.from_bytes(data[1 - _VERSION_BYTES :], "big")
    if major != _MAJOR_VERSION:
        raise errors.UnsupportedError(
            f"{place}: version {major} of HFile is not supported, only {_MAJOR_VERSION} is"
        )
    message = _delimited(data[len(_TRAILER_MAGIC) : -_VERSION_BYTES], place)
    fields = dict(_fields(message, place))
    numbers = {key: value for key, value in fields.items() if isinstance(value, int)}
    codec = numbers.get(_Field.COMPRESSION, Compression.NONE.value)
    if codec not in {each.value for each in Compression}:
        raise errors.UnsupportedError(
            f"{place}: compression {codec} is not supported, only "
            + " and ".join(f"{each.value} ({each.name})" for each in Compression)
        )
    return Trailer(
        file_info_offset=numbers.get(_Field.FILE_INFO_OFFSET, 0),
        load_on_open_offset=numbers.get(_Field.LOAD_ON_OPEN_OFFSET, 0),
        data_bytes=numbers.get(_Field.UNCOMPRESSED_INDEX_BYTES, 0),
        root_entries=numbers.get(_Field.ROOT_ENTRIES, 0),
        meta_entries=numbers.get(_Field.META_ENTRIES, 0),
        entry_count=numbers.get(_Field.ENTRY_COUNT, 0),
        index_levels=numbers.get(_Field.INDEX_LEVELS, 0),
        first_data_offset=numbers.get(_Field.FIRST_DATA_OFFSET, 0),
        last_data_offset=numbers.get(_Field.LAST_DATA_OFFSET, 0),
        compression=Compression(codec),
    )


def encode_file_info(info: Mapping[str, bytes]) -> bytes:
    """Return the content of the block; the pairs are in the order of the map."""
    message = b"".join(
        _bytes(_MAP_ENTRY, _bytes(_PAIR_FIRST, name.encode()) + _bytes(_PAIR_SECOND, value))
        for name, value in info.items()
    )
    return _FILE_INFO_MAGIC + _varint(len(message)) + message


def decode_file_info(content: memoryview, place: str) -> dict[str, bytes]:
    """Return the map that the block's content is.

    Raises:
        FormatError: It is none.
    """
    if content[: len(_FILE_INFO_MAGIC)] != _FILE_INFO_MAGIC:
        raise errors.FormatError(f"{place}: file info does not begin with {_FILE_INFO_MAGIC!r}")
    info = {}
    for field, pair in _fields(_delimited(content[len(_FILE_INFO_MAGIC) :], place), place):
        if field != _MAP_ENTRY or isinstance(pair, int):
            raise errors.FormatError(f"{place}: file info has the unknown field {field}")
        parts = dict(_fields(pair, place))
        first, second = parts.get(_PAIR_FIRST, b""), parts.get(_PAIR_SECOND, b"")
        if isinstance(first, int) or isinstance(second, int):
            raise errors.FormatError(f"{place}: a pair of file info is not of bytes")
        info[str(first, "utf-8", "replace")] = bytes(second)
    return info


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & _WORD_MASK)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(data: memoryview, at: int, place: str) -> tuple[int, int]:
    """Return a number as 64 bits without sign, and the place behind it."""
    value = 0
    for position, byte in enumerate(data[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follow
            return value & _WORD_MASK, at + position + 1
    raise errors.FormatError(f"{place}: a number of a message does not end")


def _delimited(data: memoryview, place: str) -> memoryview:
    length, start = _read_varint(data, 0, place)
    if length > len(data) - start:
        raise errors.FormatError(
            f"{place}: a message of {length} bytes, {len(data) - start} are left"
        )
    return data[start : start + length]


def _fields(message: memoryview, place: str) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field: whole numbers with sign, or bytes."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at, place)
        field, wire_type = tag >> 3, tag & 0x7
        value, at = _read_varint(message, at, place) if wire_type in (0, 2) else (0, at)
        if wire_type == 0:
            yield field, value - (1 << 64) if value & _SIGN else value
            continue
        length = value if wire_type == 2 else _SKIPPED_BYTES.get(wire_type)  # noqa: PLR2004
        if length is None or length > len(message) - at:
            raise errors.FormatError(
                f"{place}: field {field} of a message is of type {wire_type} and {length} bytes, "
                f"{len(message) - at} are left"
            )
        if wire_type == 2:  # noqa: PLR2004 - bytes with their length before them
            yield field, message[at : at + length]
        at += length
