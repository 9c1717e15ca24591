"""Records of statistics of a metadata table, all at once: to Arrow, a row for each record.

`metadata_avro` has the same of one record. A bound is in the column of its wrapper, and null in
those of the others. Source: `HoodieMetadata.avsc`; format.md: Metadata table.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import deferred, errors
from hoodie.format import metadata_avro, metadata_schemas
from hoodie.format.metadata_avro import RecordType
from hoodie.model.file_statistics import ColumnStatistics
from hoodie.model.value_wrappers import Wrapper

with deferred.imports():
    from hoodie.format import avro_trees

LOW, HIGH = "minValue", "maxValue"

_TYPES = {
    Wrapper.BOOLEAN: pa.bool_(),
    Wrapper.INT: pa.int32(),
    Wrapper.LONG: pa.int64(),
    Wrapper.FLOAT: pa.float32(),
    Wrapper.DOUBLE: pa.float64(),
    Wrapper.BYTES: pa.binary(),
    Wrapper.STRING: pa.string(),
    Wrapper.DATE: pa.int32(),
    Wrapper.DECIMAL: pa.decimal128(30, 15),
    Wrapper.TIME_MICROS: pa.int64(),
    Wrapper.TIMESTAMP_MICROS: pa.int64(),
    Wrapper.LOCAL_DATE: pa.int32(),
}
KIND = "kind"
_ROOT = "ColumnStatsMetadata"
_FIELDS = {
    "fileName": pa.string(),
    "columnName": pa.string(),
    "valueCount": pa.int64(),
    "nullCount": pa.int64(),
    "totalSize": pa.int64(),
    "totalUncompressedSize": pa.int64(),
    "isDeleted": pa.bool_(),
    "isTightBound": pa.bool_(),
    "valueType.typeOrdinal": pa.int32(),
    "valueType.additionalInfo": pa.string(),
}


def bound(end: str, wrapper: Wrapper) -> str:
    """Return the name of the column with the bounds of a wrapper.

    Args:
        end: LOW or HIGH.
        wrapper: The wrapper.
    """
    return f"{end}.{wrapper.value}.value"


_BOUNDS = {bound(end, each): _TYPES[each] for end in (LOW, HIGH) for each in Wrapper}

SCHEMA = pa.schema({**_FIELDS, KIND: pa.string(), **_BOUNDS})
"""What `decode` returns: fields by their paths, and the name of the wrapper of both bounds."""

_WANTED = ("type", *(f"{_ROOT}.{each}" for each in (*_FIELDS, LOW, HIGH, *_BOUNDS)))


def decode(values: pa.BinaryArray, schema: bytes, record_type: RecordType) -> pa.Table:
    """Return what records of statistics say, as SCHEMA, a row each.

    Args:
        values: The records.
        schema: That they were written with.
        record_type: COLUMN_STATS or PARTITION_STATS.

    Raises:
        FormatError: One is broken, or of another partition.
        UnsupportedError: A bound is of a kind that is not known.
    """
    found = avro_trees.read(values, schema, _WANTED)
    types = found.get("type", pa.nulls(len(values), pa.int32()))
    odd = [each for each in pc.unique(types).to_pylist() if each != record_type.value]
    if odd:
        raise errors.FormatError(f"a record of type {odd[0]}, expected {record_type.value}")

    def of(path: str, data_type: pa.DataType) -> pa.Array:
        array = found.get(f"{_ROOT}.{path}")
        return pa.nulls(len(values), data_type) if array is None else _as(array, data_type, path)

    columns = {
        path: of(path, data_type) for path, data_type in (*_FIELDS.items(), *_BOUNDS.items())
    }
    if columns["isDeleted"].null_count:
        raise errors.FormatError("a record without statistics")
    kinds = [of(end, pa.string()) for end in (LOW, HIGH)]
    _check_kinds(*kinds)
    if columns["fileName"].null_count and pc.any(pc.is_null(columns["fileName"])).as_py():
        raise errors.FormatError("a record without the name of a file")
    return pa.table([columns.get(name, kinds[0]) for name in SCHEMA.names], SCHEMA)


def of_records(records: Sequence[ColumnStatistics]) -> pa.Table:
    """Return what `decode` does, of records that were decoded one by one."""
    encoded = [metadata_avro.encode_statistics(each, RecordType.COLUMN_STATS) for each in records]
    values = pa.array(encoded, pa.binary())
    return decode(values, metadata_schemas.RECORD.text, RecordType.COLUMN_STATS)


def _as(array: pa.Array, data_type: pa.DataType, path: str) -> pa.Array:
    try:
        return array.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.UnsupportedError(f"{path} is of {array.type}, expected {data_type}") from error


def _check_kinds(low: pa.Array, high: pa.Array) -> None:
    known = {each.value for each in Wrapper}
    for name in pc.unique(low).to_pylist():
        if name is not None and name not in known:
            raise errors.UnsupportedError(f"a bound is {name}, which is not known")
    if not low.equals(high):
        raise errors.FormatError("a record has bounds of two kinds")
