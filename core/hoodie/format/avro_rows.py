"""Avro records one by one, for schemas with arrays, maps or enums: slow, and only for reading.

The records go through fastavro into Python's values and from there to Arrow, which takes some
10 microseconds a row.
"""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie import errors
from hoodie.format import avro_container
from hoodie.model import avro_types

Places = npt.NDArray[np.int64]


def decode(
    content: pa.Buffer,
    starts: Places,
    ends: Places,
    avro_json: str,
    wanted: Sequence[avro_types.Column],
) -> pa.Table:
    """Return columns of records.

    Args:
        content: Has the records.
        starts: Of each record.
        ends: Of each record.
        avro_json: The records' schema.
        wanted: Columns of it to return.

    Raises:
        FormatError: A record or the schema is broken.
    """
    # Numbers stay numbers: Arrow knows the logical types, and Python's times have fewer values.
    record = _without_logical_types(avro_types.parse_record(avro_json))
    view = memoryview(content)
    rows: list[Mapping[str, object]] = []
    try:
        schema = avro_container.parse_schema(json.dumps(record).encode())
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            stream = io.BytesIO(view[start:end])
            row = fastavro.schemaless_reader(stream, schema, None)
            assert isinstance(row, dict)
            if stream.read(1):
                raise errors.FormatError(f"Avro record {len(rows)} has bytes after its last field")
            rows.append(row)
        arrays = [
            pa.array([_value(row[each.name], each.type) for row in rows], each.type)
            for each in wanted
        ]
    except (*avro_container.DECODING_ERRORS, pa.ArrowInvalid) as error:
        raise errors.FormatError(f"Avro record {len(rows)} is broken: {error}") from error
    return pa.Table.from_arrays(arrays, schema=pa.schema([each.arrow for each in wanted]))


def _without_logical_types(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON document
    """Return a schema without logical types but decimals, whose bytes Arrow does not take."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_kept = schema.get("logicalType") == "decimal"
    return {
        key: value if key == "default" else _without_logical_types(value)
        for key, value in schema.items()
        if is_kept or key != "logicalType"
    }


def _value(value: object, type_: pa.DataType) -> object:
    """Return a value as Arrow takes it: maps as lists of pairs."""
    if value is None or not pa.types.is_nested(type_):
        return value
    if isinstance(value, dict) and pa.types.is_map(type_):
        return [(key, _value(item, type_.item_type)) for key, item in value.items()]
    if isinstance(value, dict):
        return {each.name: _value(value[each.name], each.type) for each in type_}
    assert isinstance(value, list), value
    return [_value(item, type_.value_type) for item in value]
