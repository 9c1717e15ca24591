"""The content of delete blocks: keys and the ordering values that they are deleted with.

    bytes  meaning; integers are big endian
    4      version, 3 (2 holds Java objects in Kryo's form)
    4      n
    n      an Avro `HoodieDeleteRecordList`: an array of {key, partition path, ordering value}

On the wire a record is `02 length key`, `02 length partition path`, then the number of the ordering
value's branch and the bare value. Source: `HoodieDeleteBlock.java`, `HoodieDeleteRecordList.avsc`
(1.2.0); format.md: Log files.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.format import avro_columns, avro_parts, delete_cuts, delete_rows, ordering_wrappers
from hoodie.model.value_wrappers import Wrapper

VERSION = 3
_HEAD = struct.Struct(">ii")
_TEXT_BRANCH = 2  # Of ["null", "string"], as zigzag.
_LIST_END = b"\x00"

Flags = npt.NDArray[np.bool_]
Ordering: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletes:
    """The deletes of one block.

    Attributes:
        keys: Record keys, none of them null.
        is_default: Deletes without ordering value (null, or the integer 0): they always win.
        ordering: For each ordering field the values by wrapper: as long as `keys`, null where a
            delete is a default or has another wrapper. Empty when every delete is a default.
    """

    keys: pa.Array
    is_default: Flags
    ordering: tuple[Mapping[Wrapper, pa.Array], ...]


def encode(
    keys: pa.Array | pa.ChunkedArray,
    partition_path: str,
    ordering: Ordering | tuple[Ordering, ...] | None = None,
) -> bytes:
    """Return the content of a block of deletes.

    Args:
        keys: Record keys, none of them null.
        partition_path: Of all keys.
        ordering: An ordering value for each key, without nulls; a tuple with one array a field when
            there are several ordering fields; None to delete whatever came before.

    Raises:
        InvalidInputError: A key or an ordering value is null, or a value does not fit.
        UnsupportedError: Ordering values are of a type that has no wrapper.
    """
    if keys.null_count:
        raise errors.InvalidInputError(f"{keys.null_count} of {len(keys)} deleted keys are null")
    content = _one_array(keys).cast(pa.string()).cast(pa.binary())
    lengths = avro_parts.lengths(content).astype(np.int64)
    lead = np.full(len(keys), _TEXT_BRANCH, np.uint8)
    path = partition_path.encode()
    head = avro_parts.varint(1) + avro_parts.varint(len(path)) + path
    rows = avro_parts.join(
        [
            avro_parts.varints(lengths, None, lead),
            content,
            *_merged([avro_parts.constant(head), *_ordering_parts(len(keys), ordering)]),
        ]
    )
    count = avro_parts.varint(len(keys)) if len(keys) else b""
    datum = b"".join((count, avro_parts.content_of(rows), _LIST_END))
    return _HEAD.pack(VERSION, len(datum)) + datum


def decode(content: pa.Buffer) -> Deletes:
    """Return the deletes that a block holds.

    Raises:
        FormatError: The content is broken.
        UnsupportedError: The content has another version than 3.
    """
    if content.size < _HEAD.size:
        raise errors.FormatError(f"delete block of {content.size} bytes, expected 8 at least")
    version, length = _HEAD.unpack_from(content)
    if version != VERSION:
        raise errors.UnsupportedError(
            f"delete block version {version} is not read, expected {VERSION}"
        )
    if length != content.size - _HEAD.size:
        raise errors.FormatError(
            f"delete block with a list of {length} bytes, {content.size - _HEAD.size} are there"
        )
    datum = content.slice(_HEAD.size)
    keys, ordering = delete_cuts.decode(datum) or delete_rows.decode(datum)
    is_default = _defaults(ordering)
    columns = () if is_default.all() else ordering.columns
    return Deletes(
        keys=keys,
        is_default=is_default,
        ordering=tuple(_without(is_default, values) for values in columns),
    )


def _ordering_parts(
    count: int, ordering: Ordering | tuple[Ordering, ...] | None
) -> list[avro_parts.Part]:
    if ordering is None:
        ordering = pa.array(np.zeros(count, np.int32))
    if not isinstance(ordering, tuple):
        return _wrapped_parts(ordering)
    numbers = (ordering_wrappers.ARRAY_BRANCH, 1, len(ordering))
    head = b"".join(avro_parts.varint(number) for number in numbers)
    elements = [part for values in ordering for part in _wrapped_parts(values)]
    return [avro_parts.constant(head), *elements, avro_parts.constant(_LIST_END)]


def _wrapped_parts(values: Ordering) -> list[avro_parts.Part]:
    wrapper, wrapped = ordering_wrappers.wrap(_one_array(values))
    branch = avro_parts.varint(ordering_wrappers.branch_of(wrapper))
    column = ordering_wrappers.COLUMNS[wrapper]
    return [avro_parts.constant(branch), *avro_columns.parts(column, wrapped)]


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _merged(parts: Sequence[avro_parts.Part]) -> list[avro_parts.Part]:
    """Return parts with neighbouring constants made one."""
    merged: list[avro_parts.Part] = []
    for part in parts:
        if merged and isinstance(part, pa.Scalar) and isinstance(merged[-1], pa.Scalar):
            merged[-1] = avro_parts.constant(merged[-1].as_py() + part.as_py())
        else:
            merged.append(part)
    return merged


def _defaults(ordering: ordering_wrappers.Ordering) -> Flags:
    """Return which deletes are defaults; an array of ordering values is none, whatever it holds."""
    is_default = ~ordering.is_array
    for wrapper, values in ordering.columns[0].items() if ordering.columns else ():
        is_other = values.is_valid()
        if wrapper is Wrapper.INT:
            is_other = pc.fill_null(pc.not_equal(values, 0), False)
        is_default &= ~is_other.to_numpy(zero_copy_only=False)
    return is_default


def _without(is_default: Flags, values: Mapping[Wrapper, pa.Array]) -> Mapping[Wrapper, pa.Array]:
    if not is_default.any():
        return values
    kept = pa.array(~is_default)
    return {
        wrapper: pc.if_else(kept, each, None)
        for wrapper, each in values.items()
        if pc.any(pc.and_(kept, each.is_valid())).as_py()
    }
