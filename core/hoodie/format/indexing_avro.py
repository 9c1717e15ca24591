"""Plans and results of indexing, to the Avro that Hudi keeps on the timeline and back.

Source: `HoodieIndexPlan.avsc`, `HoodieIndexCommitMetadata.avsc`,
`ScheduleIndexActionExecutor.java`, `RunIndexActionExecutor.java` (1.2.0); RFC-45; format.md:
Timeline.
"""

from collections.abc import Mapping

from hoodie import errors
from hoodie.format import avro_container, avro_values, timeline_schemas
from hoodie.model import plans

_VERSION = 1


def encode_plan(plan: plans.Indexing) -> bytes:
    """Return the content of a requested indexing action."""
    fields = {"version": _VERSION, "indexPartitionInfos": _partitions(plan)}
    return avro_container.encode(timeline_schemas.INDEX_PLAN, fields)


def encode_done(done: plans.Indexing) -> bytes:
    """Return the content of a completed indexing action."""
    fields = {
        "version": _VERSION,
        "operationType": None,  # As Apache Hudi leaves it.
        "indexPartitionInfos": _partitions(done),
    }
    return avro_container.encode(timeline_schemas.INDEX_METADATA, fields)


def decode(content: bytes, source: str = "indexing plan") -> plans.Indexing:
    """Return what a requested or a completed indexing action says.

    Raises:
        FormatError: The content is empty or broken, or names what cannot be a partition.
        UnsupportedError: It is of a version that is not known.
    """
    record = avro_container.decode(content, source)
    version = record.number("version") or _VERSION
    if version != _VERSION:
        raise errors.UnsupportedError(
            f"{source}: indexing plan version {version} is not read, expected {_VERSION}"
        )
    if record.fields.get("indexPartitionInfos") is None:
        raise errors.FormatError(f"{source}: indexPartitionInfos is missing")
    return plans.Indexing(
        partitions=tuple(_partition(each) for each in record.records("indexPartitionInfos"))
    )


def _partitions(indexing: plans.Indexing) -> list[Mapping[str, object]]:
    return [
        {
            "version": _VERSION,
            "metadataPartitionPath": each.name,
            "indexUptoInstant": each.through,
            "extraMetadata": dict(each.extra),
        }
        for each in indexing.partitions
    ]


def _partition(record: avro_values.Record) -> plans.IndexedPartition:
    name = record.required_text("metadataPartitionPath")
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise errors.FormatError(
            f"{record.source}: names {name!r}, expected the name of a partition of a metadata table"
        )
    return plans.IndexedPartition(
        name=name,
        through=record.text("indexUptoInstant") or "",
        extra=record.text_map("extraMetadata"),
    )
