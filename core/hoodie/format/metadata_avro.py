"""Records of a metadata table (MDT), from the Avro that its HFiles hold as values.

    files         which files a partition of the data table has: names and sizes, and names that
                  were deleted since; of ALL_PARTITIONS the same of partitions
    column_stats  the least and the greatest value of a column in a data file, and whether there are
                  nulls; a file group's log files have their own

A key stands in the HFile; in the record it is empty. Records of one key are merged in the order of
log files. Source: `HoodieMetadata.avsc`, `HoodieMetadataPayload.java` (combineFileSystemMetadata),
`HoodieTableMetadataUtil.java` (mergeColumnStatsRecords), `ColumnIndexID.java`; format.md: Metadata
table.
"""

import base64
import datetime
import decimal
import enum
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import fastavro

from hoodie import errors
from hoodie.format import avro_container, avro_values, java_hash

ALL_PARTITIONS = "__all_partitions__"
"""The key of the record that has the partitions."""

ROOT = "."
"""The key of the only partition of a table without partitions."""

_SIZES = "filesystemMetadata"
_STATISTICS = "ColumnStatsMetadata"

Number = bool | int | float | decimal.Decimal
Bound = Number | str | bytes | datetime.date


class RecordType(enum.Enum):
    """What a record tells, by its field `type`."""

    PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


@dataclass(frozen=True, slots=True)
class Value:
    """A record as it is stored.

    Attributes:
        content: Its bytes.
        schema: The JSON of the schema that it was written with.
    """

    content: bytes
    schema: bytes


def merged_sizes(values: Iterable[Value], source: str) -> dict[str, int]:
    """Return the names that records of the partition `files` of one key leave, with sizes in bytes.

    Args:
        values: In the order of merging.
        source: What they are of, for messages.

    Raises:
        FormatError: One is broken, or of another partition.
    """
    found: dict[str, int] = {}
    for value in values:
        for name, file_info in _sizes(value, source).items():
            if file_info.flag("isDeleted"):
                found.pop(name, None)
            else:
                found[name] = max(file_info.count("size"), found.get(name, 0))
    return found


class ValueKind(enum.Enum):
    """How a bound was written: the record around it in Avro."""

    BOOLEAN = "BooleanWrapper"
    INT = "IntWrapper"
    LONG = "LongWrapper"
    FLOAT = "FloatWrapper"
    DOUBLE = "DoubleWrapper"
    BYTES = "BytesWrapper"
    STRING = "StringWrapper"
    DATE = "DateWrapper"
    DECIMAL = "DecimalWrapper"
    TIME_MICROS = "TimeMicrosWrapper"
    TIMESTAMP_MICROS = "TimestampMicrosWrapper"
    LOCAL_DATE = "LocalDateWrapper"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRange:
    """The values of a column in a data file.

    Attributes:
        file_name: The file's.
        low: Not above any value; None where all are null, or where there are no rows.
        high: Not below any value; None as `low`.
        kind: How both were written; None without them.
        type_ordinal: The column's type in Apache Hudi's enumeration of them; None in version 8.
        has_nulls: Whether a value may be null.
    """

    file_name: str
    low: Bound | None
    high: Bound | None
    kind: ValueKind | None
    type_ordinal: int | None
    has_nulls: bool


def statistics_prefix(column: str, partition_path: str | None = None) -> str:
    """Return what the keys of a column begin with, in one partition of the data table or in all."""
    place = "" if partition_path is None else _hashed(partition_path or ROOT)
    return _hashed(column) + place


def column_range(values: Iterable[Value], source: str) -> ColumnRange | None:
    """Return what records of the partition `column_stats` of one key say of a file.

    Args:
        values: In the order of merging.
        source: What they are of, for messages.

    Returns:
        None where nothing can be relied on: the file was deleted, a bound is no number, or two
        records differ.

    Raises:
        FormatError: One is broken, or of another partition.
    """
    found: set[ColumnRange] = set()
    for value in values:
        record = _decode(value, source, RecordType.COLUMN_STATS).record(_STATISTICS)
        if record is None:
            raise errors.FormatError(f"{source}: a record without statistics")
        found = set() if record.flag("isDeleted") else {*found, _range_of(record)}
    if len(found) != 1:
        return None
    (told,) = found
    bounds = (told.low, told.high)
    return None if any(isinstance(each, float) and math.isnan(each) for each in bounds) else told


def _range_of(record: avro_values.Record) -> ColumnRange:
    value_type = record.record("valueType")
    low_kind, low = _bound(record, "minValue")
    high_kind, high = _bound(record, "maxValue")
    if low_kind is not high_kind:
        raise errors.FormatError(f"{record.source}: bounds of two kinds")
    return ColumnRange(
        file_name=record.required_text("fileName"),
        low=low,
        high=high,
        kind=low_kind,
        type_ordinal=None if value_type is None else value_type.number("typeOrdinal"),
        has_nulls=record.number("nullCount") != 0,
    )


def _bound(record: avro_values.Record, name: str) -> tuple[ValueKind | None, Bound | None]:
    wrapper = record.fields.get(name)
    if wrapper is None:
        return None, None
    try:
        type_name, fields = cast("tuple[str, Mapping[str, Bound]]", wrapper)
        return ValueKind(type_name.rpartition(".")[2]), fields["value"]
    except (TypeError, ValueError, KeyError) as error:
        raise errors.UnsupportedError(f"{record.source}: {name} is {wrapper!r:.80}") from error


def _hashed(text: str) -> str:
    return base64.b64encode(java_hash.xxhash64(text.encode()).to_bytes(8, "big")).decode()


def _sizes(value: Value, source: str) -> Mapping[str, avro_values.Record]:
    return _decode(value, source, RecordType.FILES, RecordType.PARTITIONS).record_map(_SIZES)


def _decode(value: Value, source: str, *expected: RecordType) -> avro_values.Record:
    data = io.BytesIO(value.content)
    try:
        schema = avro_container.parse_schema(value.schema)
        fields = fastavro.schemaless_reader(data, schema, None, return_record_name=True)
    except avro_container.DECODING_ERRORS as error:
        raise errors.FormatError(f"{source}: broken Avro: {error}") from error
    if not isinstance(fields, dict) or data.read(1):
        raise errors.FormatError(f"{source}: bytes that are not one record of the schema")
    record = avro_values.Record(fields, source)
    if record.number("type") not in {each.value for each in expected}:
        raise errors.FormatError(
            f"{source}: a record of type {record.number('type')}, expected "
            f"{' or '.join(str(each.value) for each in expected)}"
        )
    return record
