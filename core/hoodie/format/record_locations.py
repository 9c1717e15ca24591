"""Records of the partition `record_index` of a metadata table: in which file group a key's row is.

The key stands in the HFile. All keys that a write puts into one file group have the same record, so
a record is encoded and decoded once for each file group and write, not for each key.

    partitionName      path of the data table's partition
    fileIdHighBits,    the two halves of the UUID in the file group's id, as signed numbers
    fileIdLowBits
    fileIndex          the number after it; -1 where there is none
    fileIdEncoding     0, or 1 where the id is no UUID: it stands in fileId then
    instantTime        of the write, in milliseconds since the epoch

Source: `HoodieMetadata.avsc`, `HoodieMetadataPayload.java` (createRecordIndexUpdate),
`HoodieTableMetadataUtil.java` (getLocationFromRecordIndexInfo); format.md: Metadata table.
"""

import re
import uuid

from hoodie import errors
from hoodie.format import metadata_avro
from hoodie.format.metadata_avro import RecordType, Value
from hoodie.model import files

_LOCATION = "recordIndexMetadata"
_HALF_BYTES = 8
_NO_NUMBER = -1
_NO_HALF = -1
_AS_UUID = 0
_AS_TEXT = 1

_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?")


def encode(group: files.FileGroupId, requested_ms: int) -> bytes:
    """Return the record of keys that a write put into a file group.

    Args:
        group: The file group.
        requested_ms: When the write was requested, in milliseconds since the epoch.
    """
    fields: dict[str, object] = {
        "partitionName": group.partition_path,
        "fileIdHighBits": _NO_HALF,
        "fileIdLowBits": _NO_HALF,
        "fileIndex": _NO_NUMBER,
        "fileId": group.file_id,
        "instantTime": requested_ms,
        "fileIdEncoding": _AS_TEXT,
        "position": None,
    }
    match = _ID.fullmatch(group.file_id)
    if match is not None:
        halves = uuid.UUID(match[1]).bytes
        fields["fileIdHighBits"] = int.from_bytes(halves[:_HALF_BYTES], "big", signed=True)
        fields["fileIdLowBits"] = int.from_bytes(halves[_HALF_BYTES:], "big", signed=True)
        fields["fileIndex"] = _NO_NUMBER if match[2] is None else int(match[2])
        fields["fileId"] = ""
        fields["fileIdEncoding"] = _AS_UUID
    return metadata_avro.encode(RecordType.RECORD_INDEX, {_LOCATION: fields})


def decode(value: Value, source: str) -> files.FileGroupId:
    """Return the file group that a record names.

    Raises:
        FormatError: It is broken, or of another partition of the metadata table.
        UnsupportedError: It names the file group in a way that is not known.
    """
    record = metadata_avro.decode(value, source, RecordType.RECORD_INDEX).record(_LOCATION)
    if record is None:
        raise errors.FormatError(f"{source}: a record without location")
    partition_path = record.required_text("partitionName")
    encoding = record.count("fileIdEncoding")
    if encoding == _AS_TEXT:
        return files.FileGroupId(partition_path, record.required_text("fileId"))
    if encoding != _AS_UUID:
        raise errors.UnsupportedError(
            f"{source}: a file id of encoding {encoding}, expected {_AS_UUID} or {_AS_TEXT}"
        )
    halves = [record.number("fileIdHighBits"), record.number("fileIdLowBits")]
    number = record.number("fileIndex")
    if number is None or any(half is None for half in halves):
        raise errors.FormatError(f"{source}: a record without file id")
    content = b"".join((half or 0).to_bytes(_HALF_BYTES, "big", signed=True) for half in halves)
    ending = "" if number == _NO_NUMBER else f"-{number}"
    return files.FileGroupId(partition_path, f"{uuid.UUID(bytes=content)}{ending}")
