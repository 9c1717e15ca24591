"""Avro schemas of any content: a table schema, or an error that the library reports."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from hoodie import errors
from hoodie.model import schemas

_NAMES = st.sampled_from(
    ["a", "b", "n.a", "", ".", "enum", "record", "\ud800", "\x00", "ü", "null"]
)
_TYPES = st.sampled_from(
    ["null", "int", "long", "string", "bytes", "fixed", "enum", "array", "map", "record", "error"]
)
_NUMBERS = st.one_of(st.integers(), st.booleans(), st.sampled_from([10**9, 2**31, 2**63, 10**40]))
_LEAVES = st.one_of(st.none(), _NUMBERS, st.floats(allow_nan=False), _NAMES, _TYPES)


def _nodes(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Return what looks like a type: some of its keys, with values that fit or do not."""
    values = st.one_of(inner, st.lists(inner, max_size=3))
    field = st.fixed_dictionaries({}, optional={"name": st.one_of(_NAMES, inner), "type": values})
    return st.fixed_dictionaries(
        {"type": st.one_of(_TYPES, values)},
        optional={
            "name": st.one_of(_NAMES, inner),
            "namespace": st.one_of(_NAMES, inner),
            "fields": st.one_of(st.lists(st.one_of(field, inner), max_size=3), inner),
            "items": values,
            "values": values,
            "size": _LEAVES,
            "logicalType": st.sampled_from(["decimal", "date", "timestamp-micros", 7]),
            "precision": _LEAVES,
            "scale": _LEAVES,
        },
    )


_SCHEMAS = st.recursive(_LEAVES, _nodes, max_leaves=12)
_COLUMNS = st.lists(
    st.fixed_dictionaries({"name": _NAMES, "type": st.one_of(_SCHEMAS, st.lists(_SCHEMAS))}),
    max_size=4,
)


def _read(text: str) -> None:
    try:
        found = schemas.from_avro(text)
    except (errors.FormatError, errors.UnsupportedError):
        return
    assert isinstance(found, schemas.TableSchema)


@given(columns=_COLUMNS)
@example(columns=[{"name": "a", "type": {"type": "fixed", "name": "f", "size": 2**31}}])
@example(columns=[{"name": "a", "type": {"type": "fixed", "name": "f", "size": 10**40}}])
@example(columns=[{"name": "\ud800", "type": "int"}])
def test_record_of_any_columns_is_read_or_refused(columns: list[object]) -> None:
    _read(json.dumps({"type": "record", "name": "r", "fields": columns}))


@given(value=_SCHEMAS)
def test_any_value_is_read_or_refused(value: object) -> None:
    _read(json.dumps(value))


@given(depth=st.integers(1, 5_000))
def test_type_of_any_depth_is_read_or_refused(depth: int) -> None:
    inner = '{"type": "array", "items": ' * depth + '"int"' + "}" * depth
    _read(f'{{"type": "record", "name": "r", "fields": [{{"name": "a", "type": {inner}}}]}}')
