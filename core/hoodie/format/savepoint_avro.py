"""Metadata of savepoints, to the Avro that Hudi keeps on the timeline and back.

Files stand there by partition, with their bare names. Source: `HoodieSavepointMetadata.avsc`,
`SavepointActionExecutor.java` (1.2.0); format.md: Timeline.
"""

from hoodie import errors
from hoodie.format import avro_container, avro_values, timeline_schemas
from hoodie.model import files, plans

_VERSION = 1


def encode(savepoint: plans.Savepoint) -> bytes:
    """Return the content of a completed savepoint."""
    fields = {
        "savepointedBy": savepoint.by,
        "savepointedAt": savepoint.saved_at_ms,
        "comments": savepoint.comment,
        "partitionMetadata": {
            partition_path: {
                "partitionPath": partition_path,
                "savepointDataFile": sorted(names),
            }
            for partition_path, names in savepoint.file_names.items()
        },
        "version": _VERSION,
    }
    return avro_container.encode(timeline_schemas.SAVEPOINT_METADATA, fields)


def decode(content: bytes, source: str = "savepoint metadata") -> plans.Savepoint:
    """Return what a completed savepoint says.

    Raises:
        FormatError: The content is empty or broken, or names a file outside its partition.
    """
    record = avro_container.decode(content, source)
    if record.fields.get("partitionMetadata") is None:
        raise errors.FormatError(f"{source}: partitionMetadata is missing")
    return plans.Savepoint(
        by=record.text("savepointedBy") or "",
        comment=record.text("comments") or "",
        saved_at_ms=record.count("savepointedAt"),
        file_names={
            partition_path: _names(avro_values.Record({"value": value}, source), partition_path)
            for partition_path, value in record.map("partitionMetadata").items()
        },
    )


def _names(entry: avro_values.Record, partition_path: str) -> tuple[str, ...]:
    """Return the file names of a partition, after a look that each is one of a file in it."""
    partition = avro_values.Record(entry.map("value"), entry.source)
    if partition.text("partitionPath") not in (None, partition_path):
        raise errors.FormatError(
            f"{entry.source}: partition {partition_path!r} is called "
            f"{partition.text('partitionPath')!r} as well"
        )
    names = partition.texts("savepointDataFile")
    for name in names:
        path = files.join(partition_path, name)
        parts = path.split("/")
        is_inside = parts[0] != ".hoodie" and not {"", ".", ".."} & set(parts) and "\0" not in path
        if not is_inside or "/" in name:
            raise errors.FormatError(
                f"{entry.source}: names {name!r} in partition {partition_path!r}, expected the "
                "bare name of a data file in it"
            )
    return names
