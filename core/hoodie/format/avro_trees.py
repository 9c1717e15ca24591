"""Avro records of nested types, all rows at once, where no row has an array or a map.

A schema is a tree of records and unions. It is walked once, with a cursor in each row: a union
divides the rows by their branches, and what is below a branch is read in its rows alone. So the
work is one pass for each field that some row has, however many rows there are.

    path    what leads to a field: names of fields and, in a union of several records, of the
            record, with dots between them: `statistics.minValue.IntWrapper.value`

An array or a map is found only by its branch: a row that has one is not read.
"""

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from hoodie import errors
from hoodie.format import avro_columns, avro_container, avro_cursor
from hoodie.format.avro_cursor import Flags
from hoodie.model import avro_types

Arrays: TypeAlias = Mapping[str, pa.Array]
"""What was read, by path: of a field its values, and of a union of records their names."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: str
    column: avro_types.Column


@dataclass(frozen=True, slots=True)
class _Record:
    fields: "tuple[_Node, ...]"


@dataclass(frozen=True, slots=True)
class _Union:
    path: str
    names: tuple[str | None, ...]
    branches: "tuple[_Node | None, ...]"


@dataclass(frozen=True, slots=True)
class _Repeated:
    path: str
    kind: str


_Node: TypeAlias = _Leaf | _Record | _Union | _Repeated


def read(values: pa.BinaryArray, schema: bytes, wanted: Collection[str]) -> Arrays:
    """Return fields of records.

    Args:
        values: The records, one in each value; no nulls.
        schema: Of all of them, as JSON.
        wanted: Paths of fields and of unions of records. Those that the schema does not have are
            left out.

    Returns:
        Of each an array with a value for each record, null where the record does not have it.

    Raises:
        FormatError: A record, or the schema, is broken.
        UnsupportedError: A record has an array or a map.
    """
    tree = _tree(schema)
    data = values.buffers()[2] or pa.py_buffer(b"")
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    places = offsets.astype(np.int64)
    cursor = avro_cursor.Cursor(np.frombuffer(data, np.uint8), places[:-1], places[1:])
    found: dict[str, pa.Array] = {}
    _Walk(cursor, data, frozenset(wanted), found).visit(tree, None)
    cursor.check_at_end()
    return found


@dataclass(frozen=True, slots=True)
class _Walk:
    """One pass over records."""

    cursor: avro_cursor.Cursor
    data: pa.Buffer
    wanted: frozenset[str]
    found: dict[str, pa.Array]

    def visit(self, node: _Node, within: Flags | None) -> None:
        """Read a node in some rows; None for all."""
        match node:
            case _Leaf(path=path, column=column):
                if path in self.wanted:
                    self.found[path] = avro_columns.read(self.cursor, self.data, column, within)
                else:
                    avro_columns.skip(self.cursor, column, within)
            case _Record(fields=fields):
                for each in fields:
                    self.visit(each, within)
            case _Union():
                self._divide(node, within)
            case _Repeated(path=path, kind=kind):
                raise errors.UnsupportedError(f"{path} is a {kind}, expected null")
            case _:
                assert_never(node)

    def _divide(self, union: _Union, within: Flags | None) -> None:
        branches = self.cursor.varints(within)
        if len(branches) and not 0 <= branches.min() <= branches.max() < len(union.branches):
            raise errors.FormatError(
                f"{union.path} is of branch {branches.max()}, of a union of {len(union.branches)}"
            )
        taken = np.flatnonzero(np.bincount(branches if within is None else branches[within]))
        for branch in taken.tolist():
            below = union.branches[branch]
            if below is None:
                continue
            inside = within
            if len(taken) > 1:
                inside = branches == branch
                inside = inside if within is None else inside & within
            self.visit(below, inside)
        if union.path in self.wanted and union.path not in self.found:
            names = pa.array(union.names, pa.string())
            absent = None if within is None else ~within
            self.found[union.path] = names.take(pa.array(branches, mask=absent))


@functools.lru_cache(maxsize=16)
def _tree(schema: bytes) -> _Node:
    try:
        parsed = avro_container.parse_schema(schema)
        # Parsed, names are full ones, and defined where they come first.
        tree = _node("", parsed, {})
    except avro_container.DECODING_ERRORS as error:
        raise errors.FormatError(f"broken Avro schema: {error}") from error
    if not isinstance(tree, _Record):
        raise errors.FormatError("the Avro schema is not of a record")
    return tree


def _node(path: str, schema: Any, named: dict[str, Any]) -> _Node:  # noqa: ANN401 - of JSON
    if isinstance(schema, str) and schema not in avro_types.FLAT:
        return _node(path, named[schema], named)
    if isinstance(schema, list):
        return _union(path, schema, named)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and "name" in schema:
        named[schema["name"]] = schema
    if kind == "record":
        below = [(each["name"], each["type"]) for each in schema["fields"]]
        return _Record(tuple(_node(f"{path}.{name}".lstrip("."), of, named) for name, of in below))
    if kind in ("array", "map", "enum"):
        return _Repeated(path, kind)
    if isinstance(kind, list) or kind not in (*avro_types.FLAT, "fixed"):
        return _node(path, kind, named)
    return _Leaf(path, _column(path, schema))


def _union(path: str, branches: list[Any], named: dict[str, Any]) -> _Node:
    defined = [
        named[each] if isinstance(each, str) and each not in avro_types.FLAT else each
        for each in branches
    ]
    names = [_name(each) for each in defined]
    is_one = sum(each is not None for each in names) == 1
    return _Union(
        path,
        tuple(names),
        tuple(
            None if name is None else _node(path if is_one else f"{path}.{name}", each, named)
            for name, each in zip(names, defined, strict=True)
        ),
    )


def _name(branch: object) -> str | None:
    """Return the name of a branch without namespace; None for null."""
    while isinstance(branch, Mapping):
        if "name" in branch:
            return str(branch["name"]).rpartition(".")[2]
        branch = branch["type"]
    return None if branch == "null" else str(branch)


def _column(path: str, schema: object) -> avro_types.Column:
    """Return how a primitive type is read: as the number that it is, unless it is a decimal."""
    if isinstance(schema, Mapping) and schema.get("logicalType") != "decimal":
        schema = {key: value for key, value in schema.items() if key != "logicalType"}
    record = {"type": "record", "name": "r", "fields": [{"name": path, "type": schema}]}
    (column,) = avro_types.columns(json.dumps(record))
    return column
