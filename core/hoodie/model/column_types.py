"""Types of columns by name, as manifests and the command line spell them: `decimal(10, 2)`."""

import difflib
import re
from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from hoodie import errors

NAMED: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "string": pa.string(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "bytes": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
)
FORMS = f"{', '.join(NAMED)} or decimal(P, S)"

HOLDERS: Mapping[pa.DataType, pa.DataType] = MappingProxyType(
    {
        pa.uint64(): pa.decimal128(20, 0),
        pa.time32("s"): pa.string(),
        pa.time32("ms"): pa.string(),
        pa.time64("us"): pa.string(),
        pa.time64("ns"): pa.string(),
        **{pa.duration(unit): pa.int64() for unit in ("s", "ms", "us", "ns")},
    }
)
"""Types that no table has, and the type of a table that holds all of their values."""

_OTHER_NAMES = {
    "bigint": "long",
    "binary": "bytes",
    "bool": "boolean",
    "integer": "int",
    "real": "float",
    "smallint": "int",
    "text": "string",
    "tinyint": "int",
    "varchar": "string",
}
"""SQL's, by ours."""
_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")
_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")
_COLUMN = re.compile(r"(\S+)(?:\s*:\s*|\s+)(\S.*)")


def named(text: str) -> pa.DataType:
    """Return the type of a name, in either case; SQL's names are taken, too.

    Raises:
        InvalidInputError: There is none of that name.
    """
    name = " ".join(text.lower().split())
    name = _OTHER_NAMES.get(name, name)
    if name in NAMED:
        return NAMED[name]
    if (decimal := _DECIMAL.fullmatch(name)) is not None:
        precision, scale = map(int, decimal.groups())
        try:
            return pa.decimal128(precision, scale)
        except ValueError as error:
            raise errors.InvalidInputError(f"type {text}: {error}") from error
    close = difflib.get_close_matches(name, [*NAMED, *_OTHER_NAMES], n=1)
    hint = f"; did you mean {_OTHER_NAMES.get(close[0], close[0])}?" if close else ""
    raise errors.InvalidInputError(f"type {text!r} is not known, expected {FORMS}{hint}")


def name_of(kind: pa.DataType) -> str | None:
    """Return the name of a type; None for one that is written as an Avro schema only."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return next((name for name, known in NAMED.items() if known == kind), None)


def columns(text: str) -> dict[str, pa.DataType]:
    """Return the columns in a list such as `id long, price decimal(10, 2)`, in their order.

    Raises:
        InvalidInputError: It is malformed, or names a column twice or a type that is not known.
    """
    found: dict[str, pa.DataType] = {}
    for part in _OUTSIDE_PARENTHESES.split(text):
        column = _COLUMN.fullmatch(part.strip())
        if column is None:
            raise errors.InvalidInputError(
                f"columns {text!r}: expected NAME TYPE in place of {part.strip()!r}, such as "
                "id long, born date"
            )
        name = column[1].rstrip(":")
        if name in found:
            raise errors.InvalidInputError(f"columns {text!r}: {name!r} is given twice")
        found[name] = named(column[2])
    return found
