"""One column of Avro records, from Arrow to parts of all rows and from a cursor to Arrow.

Nested types are written as what is in them, of all rows at once. Records are read as their fields,
in the rows that have them. Arrays and maps are not read here: how many items a row has is different
in each, and only a general Avro library walks through them (`hoodie.format.avro_rows`).
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.format import avro_cursor, avro_parts
from hoodie.model import avro_types
from hoodie.model.avro_types import Wire

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

_INT = pa.int32()
_LONG = pa.int64()
_FLOATS = {Wire.FLOAT: "<f4", Wire.DOUBLE: "<f8"}
_WIDTHS = {Wire.FLOAT: 4, Wire.DOUBLE: 8}
_SIGN_BIT = 0x80


def parts(column: avro_types.Column, values: pa.Array) -> list[avro_parts.Part]:
    """Return the bytes that a column contributes to each row.

    Args:
        column: How the values are encoded.
        values: In the column's type.

    Raises:
        InvalidInputError: There are nulls in a column without, or a decimal is too large.
        UnsupportedError: The column is an enum, or has one inside.
    """
    present: Flags | None = None
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
        if column.null_branch is None and column.wire is not Wire.NULL:
            raise errors.InvalidInputError(
                f"column {column.name!r} is null in {values.null_count} of {len(values)} rows, "
                "expected a value in each"
            )
    lead = _branches(column, present, len(values))
    match column.wire:
        case Wire.NULL:
            return [avro_parts.fixed(np.empty((len(values), 0), np.uint8), present, lead)]
        case Wire.INT | Wire.LONG:
            return [avro_parts.varints(_integers(column, values), present, lead)]
        case Wire.BYTES | Wire.STRING:
            is_decimal = pa.types.is_decimal(column.type)
            content = _shortened(values, present) if is_decimal else values.cast(pa.binary())
            return _with_length(content, present, lead)
        case Wire.RECORD:
            head = np.empty((len(values), 0), np.uint8)
            return [avro_parts.fixed(head, present, lead), _fields(column, values, present)]
        case Wire.ARRAY | Wire.MAP:
            return _items(column, values, present, lead)
        case Wire.ENUM:
            raise errors.UnsupportedError(
                f"column {column.name!r} is an enum, which is not written as Avro"
            )
        case _:
            return [avro_parts.fixed(_cells(column, values), present, lead)]


def read(
    cursor: avro_cursor.Cursor,
    data: pa.Buffer,
    column: avro_types.Column,
    within: Flags | None = None,
) -> pa.Array:
    """Return the values of a column at a cursor, and move behind them.

    Args:
        cursor: Stands in each row at the column.
        data: The buffer that the cursor is over.
        column: How the values are encoded; of a type that is read by column.
        within: Which rows have the column; null in the others. None for all.

    Raises:
        FormatError: A row holds no valid value.
    """
    present = _present(cursor, column, within) if column.is_union else within
    return _READERS[column.wire](cursor, data, column, present)


def skip(
    cursor: avro_cursor.Cursor, column: avro_types.Column, within: Flags | None = None
) -> None:
    """Move a cursor behind a column; arguments as of `read`.

    Raises:
        FormatError: A row holds no valid value.
    """
    present = _present(cursor, column, within) if column.is_union else within
    match column.wire:
        case Wire.RECORD:
            for each in column.inner:
                skip(cursor, each, present)
        case Wire.STRING | Wire.BYTES:
            cursor.spans(present)
        case Wire.INT | Wire.LONG:
            cursor.varints(present)
        case Wire.BOOLEAN:
            cursor.booleans(present)
        case Wire.FLOAT | Wire.DOUBLE | Wire.FIXED:
            cursor.fixed(_width(column), present)
        case _:
            assert column.wire is Wire.NULL, column


def _read_null(
    cursor: avro_cursor.Cursor, _: pa.Buffer, __: avro_types.Column, ___: Flags | None
) -> pa.Array:
    return pa.nulls(len(cursor.at))


def _read_boolean(
    cursor: avro_cursor.Cursor, _: pa.Buffer, __: avro_types.Column, present: Flags | None
) -> pa.Array:
    return pa.array(cursor.booleans(present), mask=None if present is None else ~present)


def _read_int(
    cursor: avro_cursor.Cursor, _: pa.Buffer, column: avro_types.Column, present: Flags | None
) -> pa.Array:
    numbers = cursor.varints(present)
    narrow = numbers.astype(np.int32)
    if (numbers != narrow).any():
        raise errors.FormatError("a number beyond 32 bits for an int")
    return _flat(column.type, narrow, present)


def _read_long(
    cursor: avro_cursor.Cursor, _: pa.Buffer, column: avro_types.Column, present: Flags | None
) -> pa.Array:
    return _flat(column.type, cursor.varints(present), present)


def _read_float(
    cursor: avro_cursor.Cursor, _: pa.Buffer, column: avro_types.Column, present: Flags | None
) -> pa.Array:
    return _flat(column.type, cursor.fixed(_width(column), present), present)


def _read_string(
    cursor: avro_cursor.Cursor, data: pa.Buffer, _: avro_types.Column, present: Flags | None
) -> pa.Array:
    return avro_cursor.texts(data, *cursor.spans(present), present)


def _read_bytes(
    cursor: avro_cursor.Cursor, data: pa.Buffer, column: avro_types.Column, present: Flags | None
) -> pa.Array:
    starts, ends = cursor.spans(present)
    if pa.types.is_decimal(column.type):
        return _decimals(column.type, cursor, (starts, ends), present)
    return avro_cursor.binaries(data, starts, ends, present)


def _read_fixed(
    cursor: avro_cursor.Cursor, _: pa.Buffer, column: avro_types.Column, present: Flags | None
) -> pa.Array:
    starts = cursor.at.copy()
    cells = cursor.fixed(column.size_bytes, present)
    if pa.types.is_decimal(column.type):
        return _decimals(column.type, cursor, (starts, cursor.at), present)
    return _flat(column.type, cells, present)


def _read_record(
    cursor: avro_cursor.Cursor, data: pa.Buffer, column: avro_types.Column, present: Flags | None
) -> pa.Array:
    arrays = []
    for each in column.inner:
        values = read(cursor, data, each, present)
        # Fields that are never null are not in absent rows either: Arrow casts no such structs.
        arrays.append(values if each.arrow.nullable else _without_nulls(values))
    valid = None if present is None else _bitmap(present)
    return pa.Array.from_buffers(column.type, len(cursor.at), [valid], children=arrays)


_READERS = {
    Wire.NULL: _read_null,
    Wire.BOOLEAN: _read_boolean,
    Wire.INT: _read_int,
    Wire.LONG: _read_long,
    Wire.FLOAT: _read_float,
    Wire.DOUBLE: _read_float,
    Wire.STRING: _read_string,
    Wire.BYTES: _read_bytes,
    Wire.FIXED: _read_fixed,
    Wire.RECORD: _read_record,
}


def _with_length(
    content: pa.Array, present: Flags | None, lead: Bytes | None
) -> list[avro_parts.Part]:
    """Return texts or bytes, each behind its length."""
    lengths = avro_parts.lengths(content).astype(np.int64)
    return [avro_parts.varints(lengths, present, lead), content]


def _fields(column: avro_types.Column, values: pa.Array, present: Flags | None) -> pa.Array:
    """Return the bytes of the fields of records, none where absent."""
    there = values if present is None else values.filter(pa.array(present))
    inside = [
        part
        for each, of_field in zip(column.inner, there.flatten(), strict=True)
        for part in parts(each, of_field)
    ]
    encoded = avro_parts.join(inside) if inside else avro_parts.nothing(len(there))
    return encoded if present is None else avro_parts.spread(encoded, present)


def _items(
    column: avro_types.Column, values: pa.Array, present: Flags | None, lead: Bytes | None
) -> list[avro_parts.Part]:
    """Return the bytes of arrays and maps: a block of all that they have, and an empty one."""
    (inner,) = column.inner
    key_parts: list[avro_parts.Part] = []
    if column.wire is Wire.MAP:
        values = values.cast(avro_types.entries(values.type))
        keys, items = values.flatten().flatten()
        key_parts = _with_length(keys.cast(pa.binary()), None, None)
    else:
        items = values.flatten()
    each = avro_parts.join([*key_parts, *parts(inner, items)])
    counts = pc.list_value_length(values).fill_null(0)
    numbers: Places = counts.to_numpy().astype(np.int64)
    has_items = numbers > 0
    end = np.zeros((len(values), 1), np.uint8)
    return [
        avro_parts.varints(numbers, has_items, lead),
        avro_parts.grouped(each, numbers),
        avro_parts.fixed(end, present, None),
    ]


def _branches(column: avro_types.Column, present: Flags | None, count: int) -> Bytes | None:
    """Return the union's branch of each row, zigzag; None for no union."""
    if not column.is_union:
        return None
    value, null = 2 * column.value_branch, 2 * (column.null_branch or 0)
    if present is None:
        return np.full(count, value, np.uint8)
    return np.where(present, value, null).astype(np.uint8)


def _present(
    cursor: avro_cursor.Cursor, column: avro_types.Column, within: Flags | None
) -> Flags | None:
    """Read the union's branches; return which rows have a value, None for all."""
    branches = cursor.bytes_here(within)
    present: Flags = branches == 2 * column.value_branch
    if column.wire is Wire.NULL:
        # The union's only branch, or both of them, are null.
        present = np.zeros(len(branches), np.bool_)
    if column.null_branch is not None:
        is_known = present | (branches == 2 * column.null_branch)
    else:
        is_known = present
    if within is not None:
        is_known = is_known | ~within
        present = present & within
    if not is_known.all():
        raise errors.FormatError(f"byte {branches[int(is_known.argmin())]} for a union's branch")
    return None if present.all() else present


def _width(column: avro_types.Column) -> int:
    """Return the number of bytes of a value, where all values have as many."""
    return _WIDTHS.get(column.wire, column.size_bytes)


def _integers(column: avro_types.Column, values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the numbers that stand for values, anything where absent."""
    stored = values.view(_INT if column.wire is Wire.INT else _LONG)
    numbers: npt.NDArray[np.int64] = stored.fill_null(0).to_numpy().astype(np.int64, copy=False)
    return numbers


def _cells(column: avro_types.Column, values: pa.Array) -> Bytes:
    """Return values of one width as bytes, a row each; anything where absent."""
    match column.wire:
        case Wire.BOOLEAN:
            flags: Flags = values.fill_null(False).to_numpy(zero_copy_only=False)
            return flags.astype(np.uint8)[:, None]
        case Wire.FLOAT | Wire.DOUBLE:
            floats = values.fill_null(0).to_numpy().astype(_FLOATS[column.wire], copy=False)
            cells = np.ascontiguousarray(floats).view(np.uint8)
            return cells.reshape(len(values), _width(column))
        case _:
            assert column.wire is Wire.FIXED, column
            if pa.types.is_decimal(column.type):
                return _narrowed(column, values, _raw(values)[:, ::-1])
            return _raw(values)


def _raw(values: pa.Array) -> Bytes:
    """Return the bytes of a column of one width as they lie in memory."""
    width = values.type.byte_width
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return data[values.offset * width :][: len(values) * width].reshape(len(values), width)


def _shortened(values: pa.Array, present: Flags | None) -> pa.Array:
    """Return decimals as two's complements of as few bytes as each needs, as Java writes them."""
    big_endian = _raw(values)[:, ::-1]
    width = big_endian.shape[1]
    sign = _sign(big_endian[:, 0])
    differs = big_endian != sign[:, None]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), width - 1)
    leading = np.take_along_axis(big_endian, first[:, None], axis=1)[:, 0]
    # The first byte must have the sign's bit, or the number would be another.
    first -= ((leading ^ sign) & _SIGN_BIT) != 0
    is_kept = np.arange(width) >= first[:, None]
    return avro_parts.ragged(big_endian, is_kept if present is None else is_kept & present[:, None])


def _sign(leading: Bytes) -> Bytes:
    """Return the bytes that go on before two's complements with some first bytes."""
    return np.where(leading & _SIGN_BIT, 0xFF, 0).astype(np.uint8)


def _narrowed(column: avro_types.Column, values: pa.Array, big_endian: Bytes) -> Bytes:
    """Return two's complements in the column's width."""
    sign = _sign(big_endian[:, :1])
    surplus = big_endian.shape[1] - column.size_bytes
    if surplus <= 0:
        return np.concatenate((np.repeat(sign, -surplus, axis=1), big_endian), axis=1)
    # What is left out must repeat the sign, and what is left in must begin with it.
    is_wide = (big_endian[:, :surplus] != sign).any(axis=1)
    is_wide |= (big_endian[:, surplus] ^ sign[:, 0]) >= _SIGN_BIT
    is_wide &= values.is_valid().to_numpy(zero_copy_only=False)
    if is_wide.any():
        raise errors.InvalidInputError(
            f"column {column.name!r} has the value {values[int(is_wide.argmax())]}, which does not "
            f"fit {column.size_bytes} bytes"
        )
    return big_endian[:, surplus:]


def decimals(values: pa.BinaryArray, type_: pa.DataType) -> pa.Array:
    """Return decimals from big-endian two's complements of any length, as Java writes them.

    Raises:
        FormatError: One has no bytes, or more than the type.
    """
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    places = offsets.astype(np.int64)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    starts, ends = places[:-1], places[1:]
    present: Flags | None = None
    if values.null_count:
        present = values.is_valid().to_numpy(zero_copy_only=False)
    return _decimals(type_, avro_cursor.Cursor(data, starts, ends), (starts, ends), present)


def _decimals(
    type_: pa.DataType,
    cursor: avro_cursor.Cursor,
    spans: tuple[Places, Places],
    present: Flags | None,
) -> pa.Array:
    """Return decimals from big-endian two's complements of any length."""
    starts, ends = spans
    lengths = ends - starts if present is None else (ends - starts) * present
    cursor.check_inside()
    is_value = np.ones(len(starts), np.bool_) if present is None else present
    if (lengths[is_value] == 0).any():
        raise errors.FormatError("a decimal of no bytes")
    data = cursor.data
    sign = _sign(data.take(starts, mode="clip"))
    cells = np.empty((len(starts), type_.byte_width), np.uint8)
    for place in range(max(int(lengths.max(initial=0)), type_.byte_width)):
        byte = np.where(place < lengths, data.take(ends - 1 - place, mode="clip"), sign)
        if place < type_.byte_width:
            cells[:, place] = byte
        elif (byte != sign)[is_value].any():
            raise errors.FormatError(f"a decimal of more than {type_.byte_width} bytes")
    return _flat(type_, cells, present)


def _flat(type_: pa.DataType, values: np.ndarray, present: Flags | None) -> pa.Array:
    """Return an array of values of one width; null where absent."""
    valid = None if present is None else _bitmap(present)
    count = len(values)
    return pa.Array.from_buffers(type_, count, [valid, pa.py_buffer(np.ascontiguousarray(values))])


def _without_nulls(values: pa.Array) -> pa.Array:
    """Return values with anything in the place of nulls."""
    if not values.null_count:
        return values
    assert not values.offset, values.offset
    if pa.types.is_struct(values.type):
        fields = [values.field(place) for place in range(values.type.num_fields)]
        return pa.Array.from_buffers(values.type, len(values), [None], children=fields)
    return pa.Array.from_buffers(values.type, len(values), [None, *values.buffers()[1:]])


def _bitmap(present: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(present, bitorder="little"))
