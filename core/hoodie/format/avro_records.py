"""The content of Avro data blocks: rows to bytes and back, all rows at once.

    bytes  meaning; integers are big endian
    4      version, 3; versions 1 and 2 look the same
    4      number of records
    then for each record
    4      n
    n      the record in Avro's binary form, without container

The schema, with the meta columns, stands in the block's header. Source: `HoodieAvroDataBlock.java`;
format.md: Log files. Records with an array, a map or an enum are read row by row
(`hoodie.format.avro_rows`).
"""

import itertools
import struct
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.format import avro_columns, avro_cursor, avro_parts, avro_rows
from hoodie.model import avro_types

VERSION = 3
_VERSIONS_READABLE = (1, 2, 3)
_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")

Places = npt.NDArray[np.int64]


def encode(table: pa.Table, avro_json: str) -> bytes:
    """Return the content of a block that holds rows.

    Args:
        table: Has the schema's columns, by name, in types that cast to the schema's without loss.
        avro_json: The block's schema.

    Raises:
        InvalidInputError: A column is missing, does not fit its type, or has nulls where the schema
            has none; or the rows take more than 2 GiB.
        UnsupportedError: The schema has an enum.
    """
    parts = [
        part
        for column in avro_types.columns(avro_json)
        for part in avro_columns.parts(column, _values(table, column))
    ]
    sizes = np.zeros(table.num_rows, np.int64)
    for part in parts:
        sizes += avro_parts.lengths(part)
    framing = sizes.astype(">i4").view(np.uint8).reshape(-1, _LENGTH.size)
    try:
        rows = avro_parts.join([avro_parts.fixed(framing, None, None), *parts])
    except pa.ArrowInvalid as error:
        raise errors.InvalidInputError(
            f"{table.num_rows} rows take {sizes.sum()} bytes as Avro, expected 2 GiB at most"
        ) from error
    return b"".join((_HEAD.pack(VERSION, table.num_rows), avro_parts.content_of(rows)))


def decode(content: pa.Buffer, avro_json: str, columns: Collection[str] | None = None) -> pa.Table:
    """Return the rows that a block holds.

    Args:
        content: The block's content.
        avro_json: The schema in its header.
        columns: Names of the columns wanted; None for all. Those that the schema lacks are left
            out. The order is the schema's.

    Raises:
        FormatError: The content or the schema is broken.
        UnsupportedError: The content has an unknown version, or a column a type without Arrow form.
    """
    return _decode(content, *_frames(content), avro_json, columns)


def decode_together(
    contents: Sequence[pa.Buffer], avro_json: str, columns: Collection[str] | None = None
) -> tuple[pa.Table, Sequence[int]]:
    """Return the rows of blocks of one schema, a block after the other, and how many each has.

    Blocks of few rows take as long as those of thousands: what takes time is some calls for each
    column. Here these are the same few for all blocks, whose content is copied once.

    Args:
        contents: Of the blocks; at least one.
        avro_json: As of `decode`.
        columns: As of `decode`.

    Raises:
        FormatError: As of `decode`; which of them is broken is not said.
        UnsupportedError: As of `decode`.
    """
    begins = itertools.accumulate(map(len, contents[:-1]), initial=0)
    frames = [_frames(each, begin) for each, begin in zip(contents, begins, strict=True)]
    starts, ends = (np.concatenate(places) for places in zip(*frames, strict=True))
    joined = contents[0] if len(contents) == 1 else pa.py_buffer(b"".join(contents))
    return _decode(joined, starts, ends, avro_json, columns), [len(each) for each, _ in frames]


def cut(content: pa.Buffer, bytes_max: int) -> Iterator[pa.Buffer]:
    """Yield the content of blocks that hold the same records, in order; at least one.

    Args:
        content: The block's content.
        bytes_max: A part has about so many bytes, and one record at least.

    Raises:
        FormatError: The content is broken.
        UnsupportedError: It has an unknown version.
    """
    if len(content) <= bytes_max:
        yield content
        return
    starts, ends = _frames(content)
    if not len(starts):
        yield content
        return
    firsts = starts - _LENGTH.size
    while len(starts):
        count = max(1, int(np.searchsorted(ends, firsts[0] + bytes_max, side="right")))
        head = _HEAD.pack(VERSION, count)
        records = content.slice(int(firsts[0]), int(ends[count - 1] - firsts[0]))
        yield pa.py_buffer(head + records.to_pybytes())
        starts, firsts, ends = starts[count:], firsts[count:], ends[count:]


def _decode(
    content: pa.Buffer,
    starts: Places,
    ends: Places,
    avro_json: str,
    columns: Collection[str] | None,
) -> pa.Table:
    described = avro_types.columns(avro_json)
    names = None if columns is None else frozenset(columns)
    wanted = [column for column in described if names is None or column.name in names]
    last = described.index(wanted[-1]) + 1 if wanted else 0
    if not all(column.is_read_by_column for column in described[:last]):
        return avro_rows.decode(content, starts, ends, avro_json, wanted)
    cursor = avro_cursor.Cursor(np.frombuffer(content, np.uint8), starts, ends)
    arrays = []
    for column in described[:last]:
        try:
            if names is None or column.name in names:
                arrays.append(avro_columns.read(cursor, content, column))
            else:
                avro_columns.skip(cursor, column)
        except errors.FormatError as error:
            raise errors.FormatError(f"Avro records: column {column.name!r}: {error}") from error
    cursor.check_inside()
    if last == len(described):
        cursor.check_at_end()
    return pa.Table.from_arrays(arrays, schema=pa.schema([column.arrow for column in wanted]))


def _values(table: pa.Table, column: avro_types.Column) -> pa.Array:
    if table.schema.get_field_index(column.name) < 0:
        raise errors.InvalidInputError(f"column {column.name!r} is missing in the rows")
    try:
        return table.column(column.name).cast(column.type).combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.InvalidInputError(
            f"column {column.name!r} does not fit {column.type}: {error}"
        ) from error


def _frames(content: pa.Buffer, begin: int = 0) -> tuple[Places, Places]:
    """Return where each record starts and ends in a buffer in which the content begins there.

    Each record says only where the next one is, so this is the one loop over rows; following the
    chain from all places at once by doubling takes as many passes over all bytes as the count has
    bits, and measured a hundred times slower.
    """
    view = memoryview(content)
    if len(view) < _HEAD.size:
        raise errors.FormatError(f"Avro records: {len(view)} bytes, expected {_HEAD.size} at least")
    version, count = _HEAD.unpack_from(view)
    if version not in _VERSIONS_READABLE:
        raise errors.UnsupportedError(
            f"Avro data block version {version} is not read, expected {VERSION}"
        )
    if not 0 <= count <= (len(view) - _HEAD.size) // _LENGTH.size:
        raise errors.FormatError(f"Avro records: {count} records in {len(view)} bytes")
    at, unpack = _HEAD.size, _LENGTH.unpack_from
    bounds = [at]
    try:
        for _ in range(count):
            at += _LENGTH.size + unpack(view, at)[0]
            bounds.append(at)
    except struct.error as error:
        raise errors.FormatError(
            f"Avro records: record {len(bounds)} of {count} begins at byte {at} of {len(view)}"
        ) from error
    places = np.array(bounds, np.int64)
    starts, ends = places[:-1] + (begin + _LENGTH.size), places[1:] + begin
    if (ends < starts).any() or at != len(view):
        raise errors.FormatError(
            f"Avro records: {count} records end at byte {at}, expected {len(view)}, or one has a "
            "negative length"
        )
    return starts, ends
