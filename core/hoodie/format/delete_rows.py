"""Delete records one by one, for blocks whose records differ in more than key and value.

Hudi writes such a block when one operation deletes with and without ordering values.
"""

import io
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import fastavro
import numpy as np
import pyarrow as pa

from hoodie import errors
from hoodie.format import avro_container, ordering_wrappers
from hoodie.format.ordering_wrappers import Ordering
from hoodie.model.value_wrappers import Wrapper

_NAMESPACE = "org.apache.hudi.avro.model"
_BARE_TYPES: Mapping[Wrapper, object] = {
    # As in the .avsc, but that times stay numbers: Python's end sooner.
    Wrapper.BOOLEAN: "boolean",
    Wrapper.INT: "int",
    Wrapper.LONG: "long",
    Wrapper.FLOAT: "float",
    Wrapper.DOUBLE: "double",
    Wrapper.BYTES: "bytes",
    Wrapper.STRING: "string",
    Wrapper.DATE: "int",
    Wrapper.DECIMAL: {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    Wrapper.TIME_MICROS: "long",
    Wrapper.TIMESTAMP_MICROS: "long",
    Wrapper.LOCAL_DATE: "int",
}


def _record(name: str, *fields: tuple[str, object]) -> dict[str, object]:
    described = [{"name": field, "type": type_} for field, type_ in fields]
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": described}


def _wrapper_record(wrapper: Wrapper) -> dict[str, object]:
    return _record(wrapper.value, ("value", _BARE_TYPES[wrapper]))


_WRAPPERS = {f"{_NAMESPACE}.{wrapper.value}": wrapper for wrapper in Wrapper}
_ARRAY_NAME = f"{_NAMESPACE}.{ordering_wrappers.ARRAY}"
_Wrapped: TypeAlias = "tuple[str, dict[str, object]] | None"
"""A wrapper as fastavro gives it: the record's name, and the record."""

_OUTER = [wrapper for wrapper in Wrapper if wrapper is not Wrapper.LOCAL_DATE]
_IN_ARRAY = ["null", *(each.value for each in _OUTER), _wrapper_record(Wrapper.LOCAL_DATE)]
_ARRAY = _record(
    ordering_wrappers.ARRAY, ("wrappedValues", ["null", {"type": "array", "items": _IN_ARRAY}])
)
_LIST = avro_container.schema(
    _record(
        "HoodieDeleteRecordList",
        (
            "deleteRecordList",
            {
                "type": "array",
                "items": _record(
                    "HoodieDeleteRecord",
                    ("recordKey", ["null", "string"]),
                    ("partitionPath", ["null", "string"]),
                    ("orderingVal", ["null", *map(_wrapper_record, _OUTER), _ARRAY]),
                ),
            },
        ),
    )
)


def decode(datum: pa.Buffer) -> tuple[pa.Array, Ordering]:
    """Return keys and ordering values of a list of delete records.

    Raises:
        FormatError: The list is broken, a delete has no key, or an ordering value is out of bounds.
    """
    stream = io.BytesIO(datum)
    try:
        read = fastavro.schemaless_reader(stream, _LIST.parsed, None, return_record_name=True)
    except avro_container.DECODING_ERRORS as error:
        raise errors.FormatError(f"delete records are broken: {error}") from error
    assert isinstance(read, dict)
    if stream.read(1):
        raise errors.FormatError("delete block has bytes after its last record")
    records = read["deleteRecordList"]
    keys = [record["recordKey"] for record in records]
    if None in keys:
        raise errors.FormatError(f"delete record {keys.index(None)} has no key")
    values = [record["orderingVal"] for record in records]
    is_array = [value is not None and value[0] == _ARRAY_NAME for value in values]
    elements = [
        (value[1]["wrappedValues"] or []) if is_array_here else [value]
        for value, is_array_here in zip(values, is_array, strict=True)
    ]
    width = max(map(len, elements), default=0)
    return pa.array(keys, pa.string()), Ordering(
        columns=tuple(_column(elements, field) for field in range(width)),
        is_array=np.array(is_array, np.bool_),
    )


def _column(elements: Sequence[Sequence[_Wrapped]], field: int) -> Mapping[Wrapper, pa.Array]:
    found: dict[str, list[object]] = {}
    for row, values in enumerate(elements):
        value = values[field] if field < len(values) else None
        if value is not None:
            if value[0] not in found:
                found[value[0]] = [None] * len(elements)
            found[value[0]][row] = value[1]["value"]
    return {_WRAPPERS[name]: _array(_WRAPPERS[name], column) for name, column in found.items()}


def _array(wrapper: Wrapper, values: Sequence[object]) -> pa.Array:
    """Return values in a wrapper's type, whose bounds fastavro does not check."""
    try:
        return pa.array(values, ordering_wrappers.COLUMNS[wrapper].type)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise errors.FormatError(
            f"an ordering value does not fit its {wrapper.value}: {error}"
        ) from error
