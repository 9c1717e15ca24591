"""Lines of JSON objects one by one, in Python: where Arrow refuses some of them as they stand.

Each value of a row becomes its JSON text, so that rows and columns can be told apart. A column of
texts takes a value of any JSON type: a string as it is, any other value as its JSON text, a number
with the digits that it has. Spark reads JSON so.
"""

import functools
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.sources import input_checks

Row = Mapping[str, object]

_SCANNED_BYTES = 1 << 22
_SPACES = b" \t\r"
_BOM = b"\xef\xbb\xbf"

NO_JSON = "is not JSON: "
"""What problems of lines begin with that cannot be parsed."""


class _Fraction(float):
    """A number as a float, and with the digits that it has."""

    digits = ""


def blocks(stream: BinaryIO | pa.NativeFile, size_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of an input, cut between lines; a longer line makes a longer block."""
    left: list[bytes] = []
    while chunk := bytes(stream.read(size_bytes)):
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline:
            yield b"".join((*left, whole, newline))
            left = []
        left.append(rest)
    if last := b"".join(left):
        yield last


def rows(
    block: bytes, check: Callable[[Row], None], reject: Callable[[int, str, str], None]
) -> Iterator[Row]:
    """Yield the objects of a block, in order.

    Args:
        block: Whole lines; empty ones do not count.
        check: Raises an InvalidInputError of an object that is not taken.
        reject: Called with the number of a line that is no object or not taken, the line, and why.
    """
    number = 0
    for line in filter(bytes.strip, block.split(b"\n")):
        try:
            found = _values(line)
        except errors.InvalidInputError as error:
            reject(number, _shown(line), str(error))
            number += 1
            continue
        for row in found:
            try:
                checked = _object_of(row)
                check(checked)
            except errors.InvalidInputError as error:
                reject(number, _shown(line), str(error))
            else:
                yield checked
            number += 1


def has_null(open_input: input_checks.Open) -> bool:
    """Return whether a line begins with a null that is not a value of an object.

    Arrow 26.0.1 ends the process where a block of its own begins with one.
    """
    with open_input() as stream:
        for block in blocks(stream, _SCANNED_BYTES):
            plain = block.removeprefix(_BOM).translate(None, _SPACES)
            if plain.startswith(b"null") or b"\nnull" in plain:
                return True
    return False


def _values(line: bytes) -> Sequence[object]:
    """Return the values in a line, mostly one."""
    found = []
    try:
        input_checks.check_nesting(functools.partial(io.BytesIO, line), "the row")
        text = line.removeprefix(_BOM).decode().strip()
        while text:
            value, end = _decoder.raw_decode(text)
            found.append(value)
            text = text[end:].lstrip()
    except json.JSONDecodeError as error:
        problem = f"{NO_JSON}{error.msg} in column {error.colno}"
        raise errors.InvalidInputError(problem) from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(f"is not UTF-8: {error.reason}") from error
    return found


def _object_of(value: object) -> Row:
    if not isinstance(value, dict):
        raise errors.InvalidInputError(f"is not a JSON object, but {_kind(value)}")
    return value


def _shown(line: bytes) -> str:
    return line.decode(errors="replace").strip()


def texts(found: Iterable[Row], keys: Mapping[str, str], schema: pa.Schema) -> pa.Table:
    """Return the JSON texts of values; null where there is none.

    Args:
        found: Rows.
        keys: The rows' key of each of the table's columns.
        schema: The table's; its columns of texts have texts alone, as have those of maps.
    """
    columns: dict[str, list[str | None]] = {name: [] for name in keys}
    of_texts = {name for name in keys if _is_text(schema.field(name).type)}
    for row in found:
        for name, column in columns.items():
            value = row.get(keys[name])
            text = None if value is None else _text(value)
            if name in of_texts and text is not None and not isinstance(value, str):
                text = json.dumps(text)
            column.append(text)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_map(kind))


def lines(values: pa.Table) -> bytes:
    """Return rows of JSON texts as lines of objects."""
    parts: list[pa.ChunkedArray | str] = []
    for name, column in zip(values.column_names, values.columns, strict=True):
        parts += [f"{',' if parts else '{'}{json.dumps(name)}:", pc.fill_null(column, "null")]
    joined = pc.binary_join_element_wise(*parts, "}", "")
    return "\n".join(joined.to_pylist()).encode()


def without_mixtures(block: bytes) -> bytes:
    """Return the objects of a block, those of mixed columns as texts; lines of others are left out.

    A column is mixed that has values of several JSON types.
    """
    found = list(rows(block, lambda _: None, lambda *_: None))
    kinds: dict[str, set[str]] = defaultdict(set)
    for row in found:
        for key, value in row.items():
            if value is not None:
                kinds[key].add(_kind(value))
    mixed = {key for key, several in kinds.items() if len(several) > 1}
    plain = (
        {
            key: _text(value) if key in mixed and not isinstance(value, str | None) else value
            for key, value in row.items()
        }
        for row in found
    )
    return "\n".join(map(json.dumps, plain)).encode()


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case None:
            return "null"
    return "an object"


def _text(value: object) -> str:
    return value.digits if isinstance(value, _Fraction) else json.dumps(value)


def _fraction(digits: str) -> _Fraction:
    number = _Fraction(digits)
    number.digits = digits
    return number


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.InvalidInputError(f"has the key {twice!r} twice")
    return found


def _no_number(text: str) -> object:
    raise errors.InvalidInputError(f"has {text}, which is not JSON")


_decoder = json.JSONDecoder(
    parse_float=_fraction, parse_constant=_no_number, object_pairs_hook=_object
)
