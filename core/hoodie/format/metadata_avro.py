"""Records of a metadata table (MDT), from the Avro that its HFiles hold as values.

A record of the partition `files` tells which files a partition of the data table has: names and
sizes, and names that were deleted since. The record of ALL_PARTITIONS tells the same of partitions.
A key stands in the HFile; in the record it is empty.

Records of one key are merged in the order of log files. Source: `HoodieMetadata.avsc`,
`HoodieMetadataPayload.java` (combineFileSystemMetadata); format.md: Metadata table.
"""

import enum
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import fastavro

from hoodie import errors
from hoodie.format import avro_container, avro_values

ALL_PARTITIONS = "__all_partitions__"
"""The key of the record that has the partitions."""

ROOT = "."
"""The key of the only partition of a table without partitions."""

SIZES_FIELD = "filesystemMetadata"


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


def _sizes(value: Value, source: str) -> Mapping[str, avro_values.Record]:
    record = _decode(value, source)
    kinds = (RecordType.PARTITIONS.value, RecordType.FILES.value)
    if record.number("type") not in kinds:
        raise errors.FormatError(
            f"{source}: a record of type {record.number('type')}, expected one of {kinds}"
        )
    return record.record_map(SIZES_FIELD)


def _decode(value: Value, source: str) -> avro_values.Record:
    data = io.BytesIO(value.content)
    try:
        schema = avro_container.parse_schema(value.schema)
        record = fastavro.schemaless_reader(data, schema, None)
    except avro_container.DECODING_ERRORS as error:
        raise errors.FormatError(f"{source}: broken Avro: {error}") from error
    if not isinstance(record, dict) or data.read(1):
        raise errors.FormatError(f"{source}: bytes that are not one record of the schema")
    return avro_values.Record(record, source)
