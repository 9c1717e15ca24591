"""Plans and metadata of cleans, to the Avro that Hudi keeps on the timeline and back.

A plan holds full paths, the metadata bare names. Maps that are not used are empty, never null.
Source: `HoodieCleanerPlan.avsc`, `HoodieCleanMetadata.avsc`, `CleanPlanV2MigrationHandler.java`
(1.2.0); format.md: Timeline, Paths in metadata.
"""

from collections.abc import Mapping

from hoodie import errors
from hoodie.format import avro_container, avro_values, file_names, full_paths, timeline_schemas
from hoodie.model import files, instants, plans

_VERSION = 2
_COMPLETED = "COMPLETED"


def encode_plan(plan: plans.CleanPlan, table_uri: str) -> bytes:
    """Return the content of a requested clean.

    Args:
        plan: What to delete.
        table_uri: The table's root.
    """
    retained = plan.earliest_retained
    root = full_paths.of(table_uri, "")
    paths = {
        partition_path: [
            {"filePath": root + files.join(partition_path, name), "isBootstrapBaseFile": False}
            for name in names
        ]
        for partition_path, names in plan.file_names.items()
    }
    fields: dict[str, object] = {
        "earliestInstantToRetain": None
        if retained is None
        else {
            "timestamp": retained.requested_time,
            "action": retained.action.value,
            "state": _COMPLETED,
        },
        "lastCompletedCommitTimestamp": plan.last_completed or "",
        "policy": plan.policy,
        "filesToBeDeletedPerPartition": {},
        "version": _VERSION,
        # The branch of the union is named: fastavro would try each on all that is inside.
        "filePathsToBeDeletedPerPartition": ("map", paths),
        "partitionsToBeDeleted": [],
        "extraMetadata": dict(plan.extra),
    }
    return avro_container.encode(timeline_schemas.CLEAN_PLAN, fields)


def decode_plan(content: bytes, source: str = "clean plan") -> plans.CleanPlan:
    """Return the plan of a requested clean.

    Partitions that it drops are not read: an empty one stays, which harms nobody.

    Raises:
        FormatError: The content is empty or broken, or names what is no data file of the table.
        UnsupportedError: It deletes files outside the table, which a bootstrap left there.
    """
    record = avro_container.decode(content, source)
    version = record.number("version") or 1
    if version not in (1, _VERSION):
        raise errors.UnsupportedError(
            f"{source}: clean plan version {version} is not read, expected 1 or 2"
        )
    return plans.CleanPlan(
        policy=record.required_text("policy"),
        earliest_retained=_retained(record),
        last_completed=_time(record, record.text("lastCompletedCommitTimestamp")),
        file_names=_named(record) or _listed(record),
        extra=record.text_map("extraMetadata"),
    )


def encode_metadata(
    plan: plans.CleanPlan, requested_time: instants.InstantTime, duration_ms: int
) -> bytes:
    """Return the content of a completed clean, all of whose files are gone.

    Args:
        plan: What was to be deleted.
        requested_time: Of the clean.
        duration_ms: Of the execution that completed it.
    """
    retained = plan.earliest_retained
    fields = {
        "startCleanTime": requested_time,
        "timeTakenInMillis": duration_ms,
        "totalFilesDeleted": sum(map(len, plan.file_names.values())),
        "earliestCommitToRetain": "" if retained is None else retained.requested_time,
        "lastCompletedCommitTimestamp": plan.last_completed or "",
        "partitionMetadata": {
            partition_path: {
                "partitionPath": partition_path,
                "policy": plan.policy,
                "deletePathPatterns": list(names),
                "successDeleteFiles": list(names),
                "failedDeleteFiles": [],
                "isPartitionDeleted": False,
            }
            for partition_path, names in plan.file_names.items()
        },
        "version": _VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(plan.extra),
    }
    return avro_container.encode(timeline_schemas.CLEAN_METADATA, fields)


def decode_metadata(content: bytes, source: str = "clean metadata") -> plans.CleanDone:
    """Return what a completed clean says.

    Raises:
        FormatError: The content is empty or broken.
    """
    record = avro_container.decode(content, source)
    partitions = record.map("partitionMetadata")
    return plans.CleanDone(
        earliest_retained=_time(record, record.text("earliestCommitToRetain")),
        last_completed=_time(record, record.text("lastCompletedCommitTimestamp")),
        file_names={
            partition_path: avro_values.Record(fields, source).texts("successDeleteFiles")
            for partition_path, fields in partitions.items()
            if isinstance(fields, Mapping)
        },
        extra=record.text_map("extraMetadata"),
    )


def _retained(record: avro_values.Record) -> instants.Instant | None:
    fields = record.map("earliestInstantToRetain")
    if not fields:
        return None
    found = avro_values.Record(fields, record.source)
    time = _time(record, found.required_text("timestamp"))
    try:
        action = instants.Action(found.required_text("action"))
    except ValueError as error:
        raise errors.FormatError(
            f"{record.source}: earliestInstantToRetain has action {found.text('action')!r}, which "
            "is unknown"
        ) from error
    if time is None:
        return None
    # When it completed is not said; nobody asks.
    return instants.Instant(requested_time=time, action=action, state=instants.State.REQUESTED)


def _time(record: avro_values.Record, text: str | None) -> instants.InstantTime | None:
    if not text:
        return None
    try:
        return instants.checked_time(text)
    except errors.InvalidInputError as error:
        raise errors.FormatError(f"{record.source}: {error}") from error


def _named(record: avro_values.Record) -> dict[str, tuple[str, ...]]:
    """Return what a plan of version 2 names."""
    found: dict[str, tuple[str, ...]] = {}
    for partition_path, infos in record.records_by_key("filePathsToBeDeletedPerPartition"):
        names = []
        for info in infos:
            path = info.required_text("filePath")
            if info.flag("isBootstrapBaseFile"):
                raise errors.UnsupportedError(
                    f"{record.source}: deletes {path!r} outside the table, which a bootstrap left "
                    "there: execute this clean with Apache Hudi"
                )
            names.append(_checked(record, partition_path, path))
        found[partition_path] = tuple(names)
    return found


def _listed(record: avro_values.Record) -> dict[str, tuple[str, ...]]:
    """Return what a plan of version 1 names, by bare names."""
    return {
        partition_path: tuple(
            _checked(record, partition_path, f"/{files.join(partition_path, name)}")
            for name in names
        )
        for partition_path, names in record.texts_map("filesToBeDeletedPerPartition").items()
    }


def _checked(record: avro_values.Record, partition_path: str, path: str) -> str:
    """Return the name of a file that a clean may delete: a data file, nothing else."""
    name = full_paths.name_in(record, partition_path, path)
    if not file_names.is_data_file(name):
        raise errors.FormatError(
            f"{record.source}: names {path!r}, expected a base file or a log file"
        )
    return name
