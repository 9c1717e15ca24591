"""The Avro of records of statistics, of which a metadata table has one for each column of a file.

The same bytes as by the schema (`metadata_schemas.RECORD`), a tenth of the time. Avro writes a
record's fields one after the other, a union's branch by its place before the value, and whole
numbers with the sign in the lowest bit, seven bits a byte.

    meta columns, key     five nulls, an empty text
    type                  7 statistics of files, 12 of partitions: twice their numbers
    ...                   two nulls, then the statistics (branch 1), then two nulls

Source: `HoodieMetadata.avsc` (1.2.0).
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from hoodie.format import avro_parts
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.model.value_wrappers import Wrapper

_NULL = b"\x00"
_BRANCH = b"\x02"
"""The branch of a union of null and something else."""

_FALSE, _TRUE = b"\x00", b"\x01"
_END = _NULL * 2


def encode(statistics: ColumnStatistics, type_number: int) -> bytes | None:
    """Return a record of statistics; None where bounds are of a kind that is left to the schema.

    Args:
        statistics: The statistics.
        type_number: The number of the record's type.
    """
    kind = statistics.kind
    low = high = _NULL
    if kind is not None:
        if kind not in _BOUNDS:
            return None
        place, written = _BOUNDS[kind]
        low, high = place + written(statistics.low), place + written(statistics.high)
    value_type = _NULL
    if statistics.value_type is not None:
        info = statistics.type_info
        value_type = (
            _BRANCH
            + avro_parts.varint(statistics.value_type)
            + (_NULL if info is None else _BRANCH + _text(info))
        )
    return b"".join(
        (
            _NULL * 6,
            avro_parts.varint(type_number),
            _NULL * 2,
            _BRANCH,
            _BRANCH + _text(statistics.file_name),
            _BRANCH + _text(statistics.column),
            low,
            high,
            _count(statistics.values),
            _count(statistics.nulls),
            _count(statistics.size_bytes),
            _count(statistics.plain_bytes),
            _FALSE,
            _TRUE if statistics.is_tight else _FALSE,
            value_type,
            _END,
        )
    )


def _count(value: int | None) -> bytes:
    return _NULL if value is None else _BRANCH + avro_parts.varint(value)


def _bytes(value: bytes) -> bytes:
    return avro_parts.varint(len(value)) + value


def _text(value: str) -> bytes:
    return _bytes(value.encode())


def _bounds() -> Mapping[Wrapper, tuple[bytes, Callable[[Any], bytes]]]:
    """Return the branch of each kind of bounds, and what writes them."""
    written: Mapping[Wrapper, Callable[[Any], bytes]] = {
        Wrapper.BOOLEAN: lambda value: _TRUE if value else _FALSE,
        Wrapper.INT: avro_parts.varint,
        Wrapper.LONG: avro_parts.varint,
        Wrapper.FLOAT: struct.Struct("<f").pack,
        Wrapper.DOUBLE: struct.Struct("<d").pack,
        Wrapper.BYTES: _bytes,
        Wrapper.STRING: _text,
    }
    branches = [None, *Wrapper]
    return {
        kind: (avro_parts.varint(branches.index(kind)), write) for kind, write in written.items()
    }


_BOUNDS = _bounds()
