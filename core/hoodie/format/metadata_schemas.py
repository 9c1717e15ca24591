"""Avro schema of the records of a metadata table: names, order and defaults of Apache Hudi 1.2.0.

Its releases before 1.1 have no ArrayWrapper and no type of values; they read records without them.
The meta columns come first, and are null. Source: `HoodieMetadata.avsc`; format.md: Metadata table.
"""

import functools
from collections.abc import Mapping

import fastavro

from hoodie.format import avro_container

_NAMESPACE = "org.apache.hudi.avro.model"
_Type = str | list[object] | dict[str, object]
_META = "commit_time commit_seqno record_key partition_path file_name"
_NO_DEFAULT = object()
_TEXT: dict[str, object] = {"type": "string", "avro.java.string": "String"}
"""Apache Hudi casts the names of files to Java's strings, which Avro makes of such ones only."""

_WRAPPED: Mapping[str, _Type] = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": _TEXT,
    "Date": "int",
    "Decimal": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicros": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicros": "long",
    "LocalDate": "int",
}


def qualified(name: str) -> str:
    """Return the full name of a record, which says which branch of a union a value is of."""
    return f"{_NAMESPACE}.{name}"


def _record(name: str, *fields: dict[str, object]) -> dict[str, object]:
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": list(fields)}


def _field(name: str, type_: _Type, default: object = _NO_DEFAULT) -> dict[str, object]:
    found: dict[str, object] = {"name": name, "type": type_}
    return found if default is _NO_DEFAULT else {**found, "default": default}


def _nullable(name: str, type_: _Type) -> dict[str, object]:
    return _field(name, ["null", type_], None)


def _nullables(names: str, type_: _Type) -> list[dict[str, object]]:
    return [_nullable(name, type_) for name in names.split()]


_WRAPPERS = [f"{name}Wrapper" for name in _WRAPPED]
_ARRAY = _record(
    "ArrayWrapper",
    _nullable("wrappedValues", {"type": "array", "items": ["null", *_WRAPPERS]}),
)
_FILE_INFO = _record(
    "HoodieMetadataFileInfo", _field("size", "long"), _field("isDeleted", "boolean")
)
_BLOOM_FILTER = _record(
    "HoodieMetadataBloomFilter",
    _field("type", _TEXT),
    _field("timestamp", _TEXT),
    _field("bloomFilter", "bytes"),
    _field("isDeleted", "boolean"),
)
_COLUMN_STATISTICS = _record(
    "HoodieMetadataColumnStats",
    *_nullables("fileName columnName", _TEXT),
    _field(
        "minValue",
        [
            "null",
            *(_record(f"{name}Wrapper", _field("value", each)) for name, each in _WRAPPED.items()),
            _ARRAY,
        ],
        None,
    ),
    _field("maxValue", ["null", *_WRAPPERS, "ArrayWrapper"], None),
    *_nullables("valueCount nullCount totalSize totalUncompressedSize", "long"),
    _field("isDeleted", "boolean"),
    _field("isTightBound", "boolean", default=False),
    _nullable(
        "valueType",
        _record(
            "HoodieValueTypeInfo",
            _field("typeOrdinal", "int"),
            _nullable("additionalInfo", _TEXT),
        ),
    ),
)
_RECORD_INDEX = _record(
    "HoodieRecordIndexInfo",
    _nullable("partitionName", _TEXT),
    *_nullables("fileIdHighBits fileIdLowBits", "long"),
    _nullable("fileIndex", "int"),
    _nullable("fileId", _TEXT),
    _nullable("instantTime", "long"),
    _field("fileIdEncoding", "int", default=0),
    _nullable("position", "long"),
)
_SECONDARY_INDEX = _record("HoodieSecondaryIndexInfo", _field("isDeleted", "boolean"))

_META_FIELDS = tuple(_nullable(f"_hoodie_{name}", "string") for name in _META.split())
_FIELDS = (
    _field("key", _TEXT),
    _field("type", "int"),
    _field(
        "filesystemMetadata",
        ["null", {"type": "map", "values": _FILE_INFO, "avro.java.string": "String"}],
    ),
    _nullable("BloomFilterMetadata", _BLOOM_FILTER),
    _nullable("ColumnStatsMetadata", _COLUMN_STATISTICS),
    _nullable("recordIndexMetadata", _RECORD_INDEX),
    _nullable("SecondaryIndexMetadata", _SECONDARY_INDEX),
)

RECORD = avro_container.schema(_record("HoodieMetadataRecord", *_META_FIELDS, *_FIELDS))
"""The schema of records in files."""

COMMITTED = avro_container.schema(_record("HoodieMetadataRecord", *_FIELDS))
"""The schema that commits name: without meta columns, which Apache Hudi adds to it."""


@functools.lru_cache(maxsize=16)
def is_current(schema: bytes) -> bool:
    """Return whether records by a schema, as JSON, have the same bytes as those by `RECORD`."""
    canonical = fastavro.schema.to_parsing_canonical_form
    theirs = canonical(avro_container.parse_schema(schema))
    return bool(theirs == canonical(RECORD.parsed))
