"""Avro schemas as columns: what each field of a record schema is on the wire and in Arrow.

Terms:
    wire         how a value is encoded, apart from its meaning: a decimal is BYTES or FIXED
    null branch  position of `null` in the column's union; None when it is no union with null

Source: the Avro 1.11 specification; format.md (Base files) for what Hudi uses of it.
"""

import enum
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from hoodie import errors

_DECIMAL128_DIGITS = 38
_DECIMAL256_DIGITS = 76
_FIXED_BYTES_MAX = 2**31 - 1


class Wire(enum.Enum):
    """How values of a column are encoded."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field of a record schema.

    Attributes:
        name: The field's name.
        type: The Arrow type of its values.
        wire: Their encoding.
        null_branch: Position of null in the union: 0, 1, or None for no union with null.
        is_union: Whether a branch number precedes each value.
        size_bytes: Width of a FIXED.
        inner: The columns inside of a nested type: the items of an ARRAY, the values of a MAP, the
            fields of a RECORD.
    """

    name: str
    type: pa.DataType
    wire: Wire
    null_branch: int | None
    is_union: bool
    size_bytes: int = 0
    inner: "tuple[Column, ...]" = ()

    @property
    def is_read_by_column(self) -> bool:
        """Whether no array, map or enum is in it, which are read row by row."""
        if self.wire is Wire.RECORD:
            return all(each.is_read_by_column for each in self.inner)
        return self.wire.value in FLAT

    @property
    def value_branch(self) -> int:
        """Position of the value's type in the union."""
        return 1 if self.null_branch == 0 else 0

    @property
    def arrow(self) -> pa.Field:
        """The column as an Arrow field."""
        is_nullable = self.null_branch is not None or self.wire is Wire.NULL
        return pa.field(self.name, self.type, nullable=is_nullable)


FLAT = frozenset(
    each.value for each in Wire if each not in (Wire.ARRAY, Wire.MAP, Wire.RECORD, Wire.ENUM)
)
"""The kinds of types in which nothing else is, by their Avro names; without enums."""

_PLAIN: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_KEPT = (("bytes", "decimal"), ("fixed", "decimal"), ("string", "uuid"))
"""Further logical types that lose nothing."""


def entries(map_type: pa.DataType) -> pa.DataType:
    """Return a map's type as that of a list of its entries."""
    return pa.list_(pa.struct([map_type.key_field, map_type.item_field]))


def parse_record(avro_json: str) -> dict[str, Any]:
    """Return the JSON object of a record schema.

    Raises:
        FormatError: The text is no JSON, or no record schema with named fields.
    """
    try:
        record = json.loads(avro_json)
    except (ValueError, RecursionError) as error:
        raise errors.FormatError(f"Avro schema {avro_json[:80]!r} is not JSON: {error}") from error
    if not isinstance(record, dict) or record.get("type") != "record":
        raise errors.FormatError(f"Avro schema {avro_json[:80]!r} is not a record")
    _fields_of(record)
    return record


@functools.lru_cache(maxsize=32)
def columns(avro_json: str) -> tuple[Column, ...]:
    """Return the columns of a record schema, in order; blocks of a table have the same few.

    Raises:
        FormatError: The text is no valid Avro record schema.
        UnsupportedError: A column has a type without Arrow form, such as a union of several types.
    """
    record = parse_record(avro_json)
    namespace, _, name = _full_name(record, "").rpartition(".")
    names = _Names(namespace=namespace, open={name, _full_name(record, "")})
    try:
        return tuple(_column(each["name"], each.get("type"), names) for each in _fields_of(record))
    except RecursionError as error:
        raise errors.FormatError(
            f"Avro schema {avro_json[:80]!r} nests types too deeply to be read"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The named types met so far; the same for all that is below a record schema.

    Attributes:
        namespace: Of the enclosing named type.
        known: Definitions by full name.
        open: Full names of the records that enclose this place: one of them again is a recursion.
    """

    namespace: str
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)

    def inside(self, full_name: str) -> "_Names":
        namespace = full_name.rpartition(".")[0]
        return _Names(namespace=namespace, known=self.known, open=self.open | {full_name})


def ignored_logical_types(avro_json: str) -> tuple[str, ...]:
    """Return the columns with a logical type that is read as the plain type below it, and which.

    Avro ignores a logical type that it does not know, or that does not fit its type. A UUID as text
    is what it looks like.

    Raises:
        FormatError: The text is no valid Avro record schema.
    """
    try:
        return tuple(
            f"{each['name']}: {ignored}"
            for each in _fields_of(parse_record(avro_json))
            for ignored in _ignored_in(each.get("type"))
        )
    except RecursionError as error:
        raise errors.FormatError(
            f"Avro schema {avro_json[:80]!r} nests types too deeply to be read"
        ) from error


def _ignored_in(schema: object) -> Iterator[str]:
    """Yield the logical types in a type that mean nothing there."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _ignored_in(branch)
    if not isinstance(schema, dict):
        return
    kind, logical = schema.get("type"), str(schema.get("logicalType"))
    is_known = isinstance(kind, str) and ((kind, logical) in _LOGICAL or (kind, logical) in _KEPT)
    if "logicalType" in schema and not is_known:
        yield f"{logical:.80} of {json.dumps(kind)[:80]}"
    if not isinstance(kind, str):
        yield from _ignored_in(kind)
    for part in ("items", "values"):
        yield from _ignored_in(schema.get(part))
    if kind == "record":
        for each in _fields_of(schema):
            yield from _ignored_in(each.get("type"))


def _column(name: str, schema: object, names: _Names) -> Column:
    branches = schema if isinstance(schema, list) else [schema]
    others = [branch for branch in branches if _type_name(branch) != "null"]
    if len(others) > 1 or len(branches) - len(others) > 1 or not branches:
        raise errors.UnsupportedError(
            f"column {name!r} is the Avro union {json.dumps(schema)[:200]}, "
            "expected one type, or null and one type"
        )
    null_branch = None
    if len(branches) > 1:
        null_branch = 0 if branches[1] is others[0] else 1
    found = _value_type(name, others[0] if others else "null", names)
    return Column(
        name=name,
        type=found.type,
        wire=found.wire,
        null_branch=null_branch,
        is_union=isinstance(schema, list),
        size_bytes=found.size_bytes,
        inner=found.inner,
    )


class _ValueType(NamedTuple):
    """A type that is no union; as of `Column`."""

    wire: Wire
    type: pa.DataType
    size_bytes: int = 0
    inner: tuple[Column, ...] = ()


def _value_type(name: str, schema: object, names: _Names) -> _ValueType:
    """Return what a type is that is no union."""
    definition = _definition(name, schema, names)
    kind = definition["type"]
    decimal = _decimal(name, definition) if kind in ("bytes", "fixed") else None
    if kind == "fixed":
        size_bytes = definition.get("size")
        if type(size_bytes) is not int or not 0 <= size_bytes <= _FIXED_BYTES_MAX:
            raise errors.FormatError(f"column {name!r} is an Avro fixed of size {size_bytes!r}")
        return _ValueType(Wire.FIXED, decimal or pa.binary(size_bytes), size_bytes)
    if kind in _PLAIN:
        logical = str(definition.get("logicalType"))
        return _ValueType(Wire(kind), decimal or _LOGICAL.get((kind, logical), _PLAIN[kind]))
    return _nested(name, definition, names)


def _definition(name: str, schema: object, names: _Names) -> dict[str, Any]:
    """Return the JSON object of a type, resolving names; `type` in it is the kind of type."""
    if isinstance(schema, str) and schema not in _PLAIN:
        full_name = schema if "." in schema or not names.namespace else _join(names, schema)
        if full_name in names.open:
            raise errors.UnsupportedError(f"column {name!r} has the recursive Avro type {schema}")
        if full_name not in names.known:
            raise errors.FormatError(f"column {name!r} has the unknown Avro type {schema!r:.80}")
        return names.known[full_name]
    if isinstance(schema, str):
        return {"type": schema}
    if not isinstance(schema, dict) or not isinstance(schema.get("type"), str | dict | list):
        raise errors.FormatError(f"column {name!r} has the Avro type {json.dumps(schema)[:80]}")
    if not isinstance(schema["type"], str):
        # {"type": {"type": "string"}} is the same as its inner type.
        return _definition(name, schema["type"], names)
    if schema["type"] in ("fixed", "enum", "record"):
        names.known[_full_name(schema, names.namespace)] = schema
    return schema


def _nested(name: str, definition: dict[str, Any], names: _Names) -> _ValueType:
    kind = definition["type"]
    if kind == "enum":
        return _ValueType(Wire.ENUM, pa.string())
    if kind == "array":
        items = _column(name, definition.get("items"), names)
        return _ValueType(Wire.ARRAY, pa.list_(items.arrow.with_name("item")), inner=(items,))
    if kind == "map":
        values = _column(name, definition.get("values"), names)
        type_ = pa.map_(pa.string(), values.arrow.with_name("value"))
        return _ValueType(Wire.MAP, type_, inner=(values,))
    if kind == "record":
        inside = names.inside(_full_name(definition, names.namespace))
        fields = _fields_of(definition)
        inner = tuple(
            _column(f"{name}.{each['name']}", each.get("type"), inside) for each in fields
        )
        type_ = pa.struct(
            [
                column.arrow.with_name(each["name"])
                for each, column in zip(fields, inner, strict=True)
            ]
        )
        return _ValueType(Wire.RECORD, type_, inner=inner)
    if kind == "error":
        raise errors.UnsupportedError(f"column {name!r} has the Avro type error")
    return _value_type(name, kind, names)


def _decimal(name: str, definition: dict[str, Any]) -> pa.DataType | None:
    if definition.get("logicalType") != "decimal":
        return None
    precision, scale = definition.get("precision"), definition.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise errors.FormatError(f"column {name!r} is an Avro decimal of precision {precision!r}")
    if not 0 < precision <= _DECIMAL256_DIGITS or not 0 <= scale <= precision:
        raise errors.UnsupportedError(f"column {name!r} is an Avro decimal({precision}, {scale})")
    wide = precision > _DECIMAL128_DIGITS
    return pa.decimal256(precision, scale) if wide else pa.decimal128(precision, scale)


def _fields_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    if not isinstance(fields, list):
        raise errors.FormatError(f"Avro record {record.get('name')!r} has no fields")
    for each in fields:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise errors.FormatError(f"Avro record {record.get('name')!r} has a field without name")
        if not _is_text(each["name"]):
            raise errors.FormatError(
                f"Avro record {record.get('name')!r} has the field {each['name']!a:.80}, expected "
                "a name without lone surrogates"
            )
    names = [each["name"] for each in fields]
    if len(set(names)) != len(names):
        raise errors.FormatError(f"Avro record {record.get('name')!r} has two fields of one name")
    return fields


def _is_text(name: str) -> bool:
    """Return whether a name can be stored: JSON may hold halves of characters."""
    return not any("\ud800" <= each <= "\udfff" for each in name)


def _type_name(schema: object) -> object:
    while isinstance(schema, dict):
        schema = schema.get("type")
    return schema


def _full_name(definition: dict[str, Any], enclosing: str) -> str:
    name, namespace = definition.get("name"), definition.get("namespace", enclosing)
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise errors.FormatError(f"Avro {definition['type']} has the name {name!r:.80}")
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _join(names: _Names, name: str) -> str:
    qualified = f"{names.namespace}.{name}"
    # A name without namespace in it may also be one defined outside of any.
    return qualified if qualified in names.known or qualified in names.open else name
