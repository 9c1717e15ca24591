"""Avro container files of one record, as every non-empty file of the timeline is one.

    offset  bytes  meaning
    0       4      magic `Obj` 01
    4       -      map of header keys to bytes; Java writes `avro.schema` alone, so do we
    -       16     sync marker
    -       -      long 1 (records), long n (bytes), the record, the sync marker again

Numbers are zigzag varints. What is read may be hostile: nothing is allocated because of a length
that the file only claims, and a schema in which a value takes no byte, or contains itself, is
refused, since a few bytes could then stand for any number of values. Source: Avro 1.11
specification, "Object Container Files"; format.md: Timeline.
"""

import functools
import hashlib
import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fastavro

from hoodie import errors
from hoodie.format import avro_parts, avro_values

CONTENT_BYTES_MAX = 256 << 20
"""No metadata of a sane table is larger, neither as stored nor inflated."""

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_VARINT_BYTES_MAX = 10
_VARINT_MORE = 0x80  # Set in every byte but a number's last; the other seven bits are its digits.
_SCHEMA_DEPTH_MAX = 64
_PRIMITIVES = frozenset(("boolean", "int", "long", "float", "double", "bytes", "string"))
DECODING_ERRORS = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    fastavro.read.SchemaResolutionError,
    fastavro.schema.SchemaParseException,
)
"""What decoding broken bytes raises in fastavro and zlib, besides our own errors."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A writer's schema, ready for use.

    Attributes:
        text: Its JSON, as it goes into the header.
        parsed: The same in the form fastavro wants.
    """

    text: bytes
    parsed: fastavro.types.Schema


def schema(definition: Mapping[str, object]) -> Schema:
    """Return a schema from its JSON object."""
    text = json.dumps(definition, separators=(",", ":")).encode()
    return Schema(text, fastavro.parse_schema(dict(definition)))


def encode(record_schema: Schema, record: Mapping[str, object]) -> bytes:
    """Return the container file with one record; the same bytes for the same record."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, record_schema.parsed, record)
    body = stream.getvalue()
    # Java draws the sync marker at random; nothing asks that it be, and equal content is checkable.
    sync = hashlib.blake2b(record_schema.text + body, digest_size=_SYNC_BYTES).digest()
    header = _bytes(b"avro.schema") + _bytes(record_schema.text)
    return b"".join(
        (
            _MAGIC,
            avro_parts.varint(1),
            header,
            avro_parts.varint(0),
            sync,
            avro_parts.varint(1),
            _bytes(body),
            sync,
        )
    )


def decode(
    content: bytes,
    source: str,
    bytes_max: int = CONTENT_BYTES_MAX,
    *,
    only: frozenset[str] | None = None,
) -> avro_values.Record:
    """Return the one record of a container file, decoded with the schema it carries.

    Args:
        content: The whole file.
        source: What it is, for messages.
        bytes_max: More than this, stored or inflated, is refused.
        only: The fields that are wanted, of the record and of all records in it; the others are
            passed by, which is faster, and may be in it or not. None for all.

    Raises:
        FormatError: The content is empty, too large, broken, or no container of one record.
    """
    schema_text, body = _opened(content, source, bytes_max)
    try:
        return avro_values.Record(_decode_record(schema_text, body, only), source)
    except DECODING_ERRORS as error:
        raise _broken(source, error) from error


def holds_text(content: bytes, text: str, source: str, bytes_max: int = CONTENT_BYTES_MAX) -> bool:
    """Return whether the one record of a container file may hold a text; it is not decoded.

    Args:
        content: The whole file.
        text: A key, say, or a part of a value.
        source: As of `decode`, as are `bytes_max` and what is raised of the container; a record
            that is broken in a container that is whole is not noticed.
        bytes_max: As of `decode`.
    """
    return text.encode() in _opened(content, source, bytes_max)[1]


def decode_from_key(
    content: bytes,
    source: str,
    field: str,
    key: str,
    bytes_max: int = CONTENT_BYTES_MAX,
    *,
    without: str,
) -> tuple[str, avro_values.Record] | None:
    """Return the value of a key in a map of texts, and the record's fields after that map.

    What is before the key is not looked at, however long it is: the key's bytes are searched for.
    Of a map that has the key nothing else is returned. Of one that lacks it something is if its
    last value was made up to look like the key and its value.

    Args:
        content: The whole file.
        source: As of `decode`, as are `bytes_max` and what is raised of the container.
        field: The map's name; it is one of the record's fields.
        key: The key.
        bytes_max: As of `decode`.
        without: Another key, which the map must not have.

    Returns:
        None unless the key's bytes are in the record once and all that follows them, to its last
        byte, is the rest of such a map and of the record, and the other key's text is nowhere.
        Decode it then.
    """
    schema_text, body = _opened(content, source, bytes_max)
    encoded = _bytes(key.encode())
    place = body.find(encoded)
    if place < 0 or body.find(encoded, place + 1) >= 0 or without.encode() in body:
        return None
    try:
        _, place = _bytes_at(body, place)
        value, place = _bytes_at(body, place)
        while body[place]:
            _, place = _bytes_at(body, place)
            _, place = _bytes_at(body, place)
        data = io.BytesIO(body[place + 1 :])
        rest = fastavro.schemaless_reader(data, _parse_after(schema_text, field))
        if not isinstance(rest, dict) or data.read(1):
            return None
        return value.decode(), avro_values.Record(rest, source)
    except DECODING_ERRORS:
        return None


def _broken(source: str, error: Exception) -> errors.FormatError:
    return errors.FormatError(f"{source}: broken Avro container file: {error}")


def _opened(content: bytes, source: str, bytes_max: int) -> tuple[bytes, bytes]:
    """Return the schema and the bytes of the one record of a container file."""
    if not content.startswith(_MAGIC):
        raise errors.FormatError(
            f"{source}: {len(content)} bytes that begin with {content[:4]!r}, "
            "expected an Avro container file"
        )
    if len(content) > bytes_max:
        raise errors.FormatError(f"{source}: {len(content)} bytes, expected {bytes_max} at most")
    try:
        return _parts_of(content, bytes_max)
    except DECODING_ERRORS as error:
        raise _broken(source, error) from error


def _parts_of(content: bytes, bytes_max: int) -> tuple[bytes, bytes]:
    header, place = _header_at(content, len(_MAGIC))
    sync, place = _part_at(content, place, _SYNC_BYTES)
    count, place = _varint_at(content, place)
    body, place = _bytes_at(content, place)
    if count != 1:
        raise ValueError(f"{count} records in the first block, expected 1")
    closing, place = _part_at(content, place, _SYNC_BYTES)
    if closing != sync:
        raise ValueError("the sync marker after the record differs from the header's")
    if place != len(content):
        raise ValueError("bytes after the first record")
    codec = header.get("avro.codec", b"null")
    if codec == b"deflate":
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        body = inflate.decompress(body, bytes_max)
        if inflate.unconsumed_tail or not inflate.eof:
            raise ValueError(f"the record does not inflate to {bytes_max} bytes or fewer")
    elif codec != b"null":
        raise ValueError(f"codec {codec[:20]!r}, expected null or deflate")
    return header["avro.schema"], body


def _decode_record(
    schema_text: bytes, body: bytes, only: frozenset[str] | None
) -> Mapping[str, object]:
    data = io.BytesIO(body)
    reader = None if only is None else _parse_part(schema_text, only)
    record = fastavro.schemaless_reader(data, parse_schema(schema_text), reader)
    if not isinstance(record, dict):
        raise TypeError(f"a {type(record).__name__}, expected a record")
    if data.read(1):
        raise ValueError("bytes after the record's last field")
    return record


def _header_at(content: bytes, place: int) -> tuple[dict[str, bytes], int]:
    """Return the header at a place, and the place after it; as what follows returns parts."""
    header: dict[str, bytes] = {}
    while True:
        count, place = _varint_at(content, place)
        if count == 0:
            return header, place
        if count < 0:
            _, place = _varint_at(content, place)  # The block's length, which allows to skip it.
        for _ in range(abs(count)):
            key, place = _bytes_at(content, place)
            header[key.decode()], place = _bytes_at(content, place)


@functools.lru_cache(maxsize=64)
def parse_schema(text: bytes) -> fastavro.types.Schema:
    """Return a writer's schema for fastavro, if every value of it takes a byte at least.

    Cached, since a table's files carry few different ones.
    """
    definition = json.loads(text)
    _check_takes_bytes(definition, ())
    return fastavro.parse_schema(definition)


@functools.lru_cache(maxsize=64)
def _parse_part(text: bytes, only: frozenset[str]) -> fastavro.types.Schema | None:
    """Return the part of a writer's schema with some fields; None where it does not stand alone."""
    try:
        return fastavro.parse_schema(_part(json.loads(text), only))
    except DECODING_ERRORS:
        return None  # A type is defined in a field that is left out.


@functools.lru_cache(maxsize=64)
def _parse_after(text: bytes, field: str) -> fastavro.types.Schema:
    """Return the part of a writer's schema with the fields after one."""
    definition = json.loads(text)
    fields = definition["fields"]
    begin = [each["name"] for each in fields].index(field) + 1
    return fastavro.parse_schema(definition | {"fields": fields[begin:]})


def _part(definition: object, only: frozenset[str]) -> Any:  # noqa: ANN401 - any of JSON's
    if isinstance(definition, list):
        return [_part(branch, only) for branch in definition]
    if not isinstance(definition, dict):
        return definition
    found = {
        key: _part(value, only) if key in ("type", "items", "values") else value
        for key, value in definition.items()
    }
    if found["type"] == "record":
        found["fields"] = [_part(each, only) for each in found["fields"] if each["name"] in only]
    return found


def _check_takes_bytes(definition: object, enclosing: tuple[str, ...]) -> None:
    """Check that every value takes a byte at least, and no type contains itself."""
    if len(enclosing) > _SCHEMA_DEPTH_MAX:
        raise ValueError(f"a schema of more than {_SCHEMA_DEPTH_MAX} levels")
    if isinstance(definition, list):
        for branch in definition:
            if branch != "null":
                _check_takes_bytes(branch, (*enclosing, ""))
    elif isinstance(definition, str):
        if definition.rpartition(".")[2] in enclosing or definition == "null":
            raise ValueError(f"a schema in which {definition!r:.80} contains itself or is null")
    elif isinstance(definition, dict):
        _check_definition(definition, enclosing)
    else:
        raise TypeError(f"a schema with {definition!r:.80} for a type")


def _check_definition(definition: dict[str, Any], enclosing: tuple[str, ...]) -> None:
    kind = definition.get("type")
    if kind == "record":
        if not definition["fields"]:
            raise ValueError("a schema with a record without fields")
        inside = (*enclosing, definition["name"].rpartition(".")[2])
        for field in definition["fields"]:
            _check_takes_bytes(field["type"], inside)
    elif kind in ("array", "map"):
        _check_takes_bytes(definition["items" if kind == "array" else "values"], (*enclosing, ""))
    elif kind == "fixed":
        if definition["size"] < 1:
            raise ValueError("a schema with a fixed of no bytes")
    elif kind not in _PRIMITIVES and kind != "enum":
        _check_takes_bytes(kind, (*enclosing, ""))


def _bytes(content: bytes) -> bytes:
    return avro_parts.varint(len(content)) + content


def _varint_at(content: bytes, place: int) -> tuple[int, int]:
    number = 0
    for position in range(_VARINT_BYTES_MAX):
        byte = content[place + position]
        number |= (byte & 0x7F) << (7 * position)
        if byte < _VARINT_MORE:
            return (number >> 1) ^ -(number & 1), place + position + 1
    raise ValueError(f"a number of more than {_VARINT_BYTES_MAX} bytes")


def _bytes_at(content: bytes, place: int) -> tuple[bytes, int]:
    length, place = _varint_at(content, place)
    return _part_at(content, place, length)


def _part_at(content: bytes, place: int, length: int) -> tuple[bytes, int]:
    end = place + length
    if length < 0 or end > len(content):
        raise EOFError(f"{length} bytes expected at {place}, {len(content) - place} are there")
    return content[place:end], end
