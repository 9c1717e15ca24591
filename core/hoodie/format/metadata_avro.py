"""Records of a metadata table (MDT), from the Avro that its HFiles hold as values.

    files         which files a partition of the data table has: names and sizes, and names that
                  were deleted since; of ALL_PARTITIONS the same of partitions
    column_stats  the least and the greatest value of a column in a data file, and whether there are
                  nulls; a file group's log files have their own
    bloom_filters a filter of the record keys of a base file, as its footer has it

A key stands in the HFile; in the record it is empty. Records of one key are merged in the order of
log files. Many records of statistics at once are read by `metadata_columns`. Source:
`HoodieMetadata.avsc`, `HoodieMetadataPayload.java` (combineFileSystemMetadata),
`HoodieTableMetadataUtil.java` (mergeColumnStatsRecords), `ColumnIndexID.java`; format.md: Metadata
table.
"""

import base64
import enum
import functools
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import fastavro

from hoodie import deferred, errors
from hoodie.format import avro_container, avro_values, java_hash, metadata_schemas
from hoodie.format.bloom_filters import StoredFilter
from hoodie.model import expression_indexes
from hoodie.model.file_statistics import Bound, ColumnStatistics
from hoodie.model.value_wrappers import Wrapper

with deferred.imports():
    from hoodie.format import statistics_avro

ALL_PARTITIONS = "__all_partitions__"
"""The key of the record that has the partitions."""

ROOT = "."
"""The key of the only partition of a table without partitions."""

_SIZES = "filesystemMetadata"
_STATISTICS = "ColumnStatsMetadata"
_BLOOM_FILTER = "BloomFilterMetadata"

_EXPRESSION_KEY_LENGTH = 36
"""Of a hash of a column, one of a mark, and one of a partition: a file name's is longer."""


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
        for name, size in decode_sizes(value, source).items():
            if size is None:
                found.pop(name, None)
            else:
                found[name] = max(size, found.get(name, 0))
    return found


def key_of(partition_path: str) -> str:
    """Return the key of the files of a partition of the data table."""
    return partition_path or ROOT


def statistics_prefix(column: str, partition_path: str | None = None) -> str:
    """Return what the keys of a column begin with, in one partition of the data table or in all."""
    place = "" if partition_path is None else _hashed(partition_path or ROOT)
    return _hashed(column) + place


def statistics_key(statistics: ColumnStatistics, partition_path: str) -> str:
    """Return the key of the statistics of a data file in a partition of the data table."""
    return statistics_prefix(statistics.column, partition_path) + _hashed_name(statistics.file_name)


def expression_key(column: str, partition_path: str) -> str:
    """Return the key of the bounds of a partition of the data table in an expression index."""
    return statistics_prefix(column, expression_indexes.PARTITION_MARK) + _hashed(
        partition_path or ROOT
    )


def is_of_partition(key: bytes) -> bool:
    """Return whether a key of an expression index is one of a partition of the data table."""
    return len(key) == _EXPRESSION_KEY_LENGTH


def bloom_filter_key(partition_path: str, file_name: str) -> str:
    """Return the key of the bloom filter of a base file in a partition of the data table."""
    return _hashed(partition_path or ROOT) + _hashed_name(file_name)


def _statistics_of(record: avro_values.Record) -> ColumnStatistics:
    value_type = record.record("valueType")
    low_kind, low = _bound(record, "minValue")
    high_kind, high = _bound(record, "maxValue")
    if low_kind is not high_kind:
        raise errors.FormatError(f"{record.source}: bounds of two kinds")
    return ColumnStatistics(
        file_name=record.required_text("fileName"),
        column=record.text("columnName") or "",
        low=low,
        high=high,
        kind=low_kind,
        value_type=None if value_type is None else value_type.count("typeOrdinal"),
        type_info=None if value_type is None else value_type.text("additionalInfo"),
        values=record.number("valueCount"),
        nulls=record.number("nullCount"),
        size_bytes=record.number("totalSize"),
        plain_bytes=record.number("totalUncompressedSize"),
        is_tight=record.flag("isTightBound"),
    )


def _bound(record: avro_values.Record, name: str) -> tuple[Wrapper | None, Bound | None]:
    wrapper = record.fields.get(name)
    if wrapper is None:
        return None, None
    try:
        type_name, fields = cast("tuple[str, Mapping[str, Bound]]", wrapper)
        return Wrapper(type_name.rpartition(".")[2]), fields["value"]
    except (TypeError, ValueError, KeyError) as error:
        raise errors.UnsupportedError(f"{record.source}: {name} is {wrapper!r:.80}") from error


def encode_sizes(sizes: Mapping[str, int | None], record_type: RecordType) -> bytes:
    """Return a record of the partition `files`.

    Args:
        sizes: Sizes in bytes of files by their names, or 0 by partition paths; None for what was
            deleted.
        record_type: FILES or PARTITIONS.
    """
    infos = {name: {"size": size or 0, "isDeleted": size is None} for name, size in sizes.items()}
    return encode(record_type, {_SIZES: infos})


def encode_statistics(statistics: ColumnStatistics, record_type: RecordType) -> bytes:
    """Return a record of statistics.

    Args:
        statistics: The statistics.
        record_type: COLUMN_STATS or PARTITION_STATS.
    """
    encoded = statistics_avro.encode(statistics, record_type.value)
    return encode_by_schema(statistics, record_type) if encoded is None else encoded


def encode_by_schema(statistics: ColumnStatistics, record_type: RecordType) -> bytes:
    """Return the same record as `encode_statistics`, of bounds of any kind."""
    value_type = None
    if statistics.value_type is not None:
        value_type = {"typeOrdinal": statistics.value_type, "additionalInfo": statistics.type_info}
    fields = {
        "fileName": statistics.file_name,
        "columnName": statistics.column,
        "minValue": _wrapped(statistics.low, statistics.kind),
        "maxValue": _wrapped(statistics.high, statistics.kind),
        "valueCount": statistics.values,
        "nullCount": statistics.nulls,
        "totalSize": statistics.size_bytes,
        "totalUncompressedSize": statistics.plain_bytes,
        "isDeleted": False,
        "isTightBound": statistics.is_tight,
        "valueType": value_type,
    }
    return encode(record_type, {_STATISTICS: fields})


def encode_no_statistics(statistics: ColumnStatistics) -> bytes:
    """Return a record that says that a data file is gone, of which only names are taken."""
    fields = {
        "fileName": statistics.file_name,
        "columnName": statistics.column,
        "minValue": None,
        "maxValue": None,
        "valueCount": None,
        "nullCount": None,
        "totalSize": None,
        "totalUncompressedSize": None,
        "isDeleted": True,
        "isTightBound": False,
        "valueType": None,
    }
    return encode(RecordType.COLUMN_STATS, {_STATISTICS: fields})


def _wrapped(bound: Bound | None, kind: Wrapper | None) -> tuple[str, object] | None:
    return None if kind is None else (metadata_schemas.qualified(kind.value), {"value": bound})


def encode(record_type: RecordType, fields: Mapping[str, object]) -> bytes:
    """Return a record.

    Args:
        record_type: Its field `type`.
        fields: The one that its type is about.
    """
    stream = io.BytesIO()
    record = {"key": "", "type": record_type.value, _SIZES: None, **fields}
    fastavro.schemaless_writer(stream, metadata_schemas.RECORD.parsed, record)
    return stream.getvalue()


def encode_bloom_filter(stored: StoredFilter | None, instant_time: str) -> bytes:
    """Return a record of a base file's bloom filter; for None, that the file is gone.

    Args:
        stored: The filter.
        instant_time: Of the action that wrote the file, or deleted it.
    """
    fields = {
        "type": "" if stored is None else stored.type_code,
        "timestamp": instant_time,
        "bloomFilter": b"" if stored is None else stored.text,
        "isDeleted": stored is None,
    }
    return encode(RecordType.BLOOM_FILTER, {_BLOOM_FILTER: fields})


def decode_bloom_filter(value: Value, source: str) -> StoredFilter | None:
    """Return the bloom filter of a record; None if it says that the file is gone.

    Raises:
        FormatError: It is broken, or of another partition.
    """
    record = decode(value, source, RecordType.BLOOM_FILTER).record(_BLOOM_FILTER)
    if record is None:
        raise errors.FormatError(f"{source}: a record without a bloom filter")
    if record.flag("isDeleted"):
        return None
    text = record.fields.get("bloomFilter")
    if not isinstance(text, bytes):
        raise errors.FormatError(f"{source}: bloomFilter is {text!r:.80}, expected bytes")
    return StoredFilter(type_code=record.required_text("type"), text=text)


def _hashed_name(file_name: str) -> str:
    digest = hashlib.md5(file_name.encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


@functools.lru_cache(maxsize=1024)
def _hashed(text: str) -> str:
    return base64.b64encode(java_hash.xxhash64(text.encode()).to_bytes(8, "big")).decode()


def decode_sizes(value: Value, source: str) -> dict[str, int | None]:
    """Return what a record of the partition `files` says, as of `encode_sizes`.

    Raises:
        FormatError: It is broken, or of another partition.
    """
    record = decode(value, source, RecordType.FILES, RecordType.PARTITIONS)
    # Without a `Record` for each file, of which there are many.
    infos = record.map(_SIZES)
    try:
        sizes = {
            name: None if info["isDeleted"] is True else info["size"]  # type: ignore[index] # caught
            for name, info in infos.items()
        }
    except (TypeError, LookupError) as error:
        raise errors.FormatError(f"{source}: a file without size: {error}") from error
    for name, size in sizes.items():
        if size is not None and (type(size) is not int or size < 0):
            raise errors.FormatError(f"{source}: {name} has a size of {size!r:.80}")
    return sizes


def decode_statistics(
    value: Value, source: str, record_type: RecordType
) -> ColumnStatistics | None:
    """Return what a record of statistics says; None if it says that the file was deleted.

    Args:
        value: The record.
        source: What it is of, for messages.
        record_type: COLUMN_STATS or PARTITION_STATS.

    Raises:
        FormatError: It is broken, or of another partition.
        UnsupportedError: Its bounds are of a kind that is not known.
    """
    record = decode(value, source, record_type).record(_STATISTICS)
    if record is None:
        raise errors.FormatError(f"{source}: a record without statistics")
    return None if record.flag("isDeleted") else _statistics_of(record)


def recoded(value: Value, source: str) -> bytes:
    """Return a record as written by the schema of today, from one of another release.

    Raises:
        FormatError: It is broken.
    """
    fields = _fields(value, source)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, metadata_schemas.RECORD.parsed, fields)
    return stream.getvalue()


def _fields(value: Value, source: str) -> dict[str, object]:
    data = io.BytesIO(value.content)
    try:
        schema = avro_container.parse_schema(value.schema)
        fields = fastavro.schemaless_reader(data, schema, None, return_record_name=True)
    except avro_container.DECODING_ERRORS as error:
        raise errors.FormatError(f"{source}: broken Avro: {error}") from error
    if not isinstance(fields, dict) or data.read(1):
        raise errors.FormatError(f"{source}: bytes that are not one record of the schema")
    return fields


def type_of(value: Value, source: str) -> int | None:
    """Return the type of a record, by its number.

    Raises:
        FormatError: It is broken.
    """
    return avro_values.Record(_fields(value, source), source).number("type")


def decode(value: Value, source: str, *expected: RecordType) -> avro_values.Record:
    """Return a record of any of some types.

    Raises:
        FormatError: It is broken, or of another type.
    """
    record = avro_values.Record(_fields(value, source), source)
    if record.number("type") not in {each.value for each in expected}:
        raise errors.FormatError(
            f"{source}: a record of type {record.number('type')}, expected "
            f"{' or '.join(str(each.value) for each in expected)}"
        )
    return record
