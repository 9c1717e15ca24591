"""Plans and metadata of cleans, with the fields that matter to others, as Apache Hudi has them."""

from collections.abc import Mapping

from support.peer.replacements import avro

FILE_INFO = {
    "type": "record",
    "name": "HoodieCleanFileInfo",
    "fields": [{"name": "filePath", "type": ["null", "string"], "default": None}],
}
CLEAN_PLAN = {
    "type": "record",
    "name": "HoodieCleanerPlan",
    "fields": [
        {
            "name": "filePathsToBeDeletedPerPartition",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": FILE_INFO}}],
            "default": None,
        }
    ],
}
CLEANED_PARTITION = {
    "type": "record",
    "name": "HoodieCleanPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": "string"},
        {"name": "successDeleteFiles", "type": {"type": "array", "items": "string"}},
    ],
}
CLEAN = {
    "type": "record",
    "name": "HoodieCleanMetadata",
    "fields": [
        {"name": "earliestCommitToRetain", "type": "string"},
        {"name": "partitionMetadata", "type": {"type": "map", "values": CLEANED_PARTITION}},
    ],
}


def clean_plan(*paths: str) -> bytes:
    """Return the plan of a clean, with full paths as Apache Hudi has them."""
    by_partition: dict[str, list[Mapping[str, str]]] = {}
    for path in paths:
        partition = path.rpartition("/")[0]
        by_partition.setdefault(partition, []).append({"filePath": f"s3://b/t/{path}"})
    return avro(CLEAN_PLAN, {"filePathsToBeDeletedPerPartition": by_partition})


def cleaned(earliest: str, *paths: str) -> bytes:
    """Return the metadata of a clean, with bare names as Apache Hudi has them."""
    by_partition: dict[str, dict[str, object]] = {}
    for path in paths:
        partition, _, name = path.rpartition("/")
        entry = by_partition.setdefault(
            partition, {"partitionPath": partition, "successDeleteFiles": []}
        )
        deleted = entry["successDeleteFiles"]
        assert isinstance(deleted, list)
        deleted.append(name)
    return avro(CLEAN, {"earliestCommitToRetain": earliest, "partitionMetadata": by_partition})
