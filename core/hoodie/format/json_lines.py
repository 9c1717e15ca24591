"""Rows as JSON objects, one a line.

Times and decimals are texts, as in CSV; bytes are base64; maps are objects. NaN and infinities are
null: JSON has no such numbers, and a text among numbers has no type for who reads them. Columns
become JSON a column at a time, in Arrow; only nested ones, bytes and texts with control codes go
through Python.
"""

import base64
import datetime
import decimal
import json
import math

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors

_NULL = "null"
_NO_NUMBERS = ("nan", "inf", "-inf")
_ROWS_AT_ONCE = 1 << 16
"""So many rows' text stays below the 2 GiB of Arrow's short offsets, unless rows are huge."""


def encode(batch: pa.RecordBatch) -> bytes:
    """Return the rows as UTF-8 lines."""
    return b"".join(
        _encode(batch.slice(start, _ROWS_AT_ONCE))
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE)
    )


def _encode(batch: pa.RecordBatch) -> bytes:
    parts: list[pa.Array | str] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        parts += [f"{',' if parts else '{'}{_key(name)}", pc.fill_null(values(column), _NULL)]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    # The values of a text column lie one behind the other, so its bytes are the lines.
    content: bytes = lines.buffers()[2].to_pybytes()
    return content


def objects(batch: pa.RecordBatch) -> pa.Array:
    """Return rows of a column or more as texts, each without its columns that are null."""
    fields = [
        pc.fill_null(pc.binary_join_element_wise(f",{_key(name)}", values(column), ""), "")
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    joined = pc.binary_join_element_wise(*fields, "")
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")


def _key(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}:"


def values(column: pa.Array) -> pa.Array:
    """Return the values of a column as JSON texts; null where there is none."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_floating(kind):
        texts = column.cast(pa.string())
        is_text = pc.is_in(texts, value_set=pa.array(_NO_NUMBERS))
        texts = pc.if_else(is_text, pa.scalar(None, pa.string()), texts)
    elif pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        texts = _quoted(column.cast(pa.string()))
    elif pa.types.is_string(kind) and not _has_control_codes(column):
        escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
        texts = _quoted(escaped)
    else:
        found = column.to_pylist(maps_as_pydicts="lossy")
        texts = pa.array([_by_value(value) for value in found], pa.string())
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _has_control_codes(texts: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py())


def _by_value(value: object) -> str | None:
    if value is None:
        return None
    return json.dumps(_finite(value), ensure_ascii=False, default=_plain)


def _finite(value: object) -> object:
    """Return a value with null for numbers that JSON has not, inside nested columns too."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list():
            return [_finite(each) for each in value]
        case _:
            return value


def _plain(value: object) -> object:
    """Return what JSON has for a value of another kind, inside nested columns too."""
    match value:
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case decimal.Decimal() | datetime.timedelta():
            return str(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
    raise errors.UnsupportedError(
        f"values of type {type(value).__name__} cannot be written as JSON"
    )
