"""Plans and metadata of rollbacks, to the Avro that Hudi keeps on the timeline and back.

Files stand there with their full paths. Source: `HoodieRollbackPlan.avsc`,
`HoodieRollbackMetadata.avsc`, `BaseRollbackHelper.java` (1.2.0);
format.md: Timeline, Paths in metadata.
"""

from collections.abc import Iterable, Mapping

from hoodie import errors
from hoodie.format import avro_container, avro_values, full_paths, timeline_schemas
from hoodie.model import files, instants, plans

_VERSION = 1
_JAVA_TEXTS = b"avro.java.string"


def encode_plan(plan: plans.RollbackPlan, table_uri: str) -> bytes:
    """Return the content of a requested rollback.

    Args:
        plan: What to take back.
        table_uri: The table's root.
    """
    fields = {
        "instantToRollback": _instant_info(plan),
        "RollbackRequests": [
            {
                "partitionPath": request.partition_path,
                "fileId": request.file_id,
                "latestBaseInstant": request.base_instant_time,
                "filesToBeDeleted": [
                    full_paths.of(table_uri, files.join(request.partition_path, name))
                    for name in request.file_names
                ],
                "logBlocksToBeDeleted": {},
            }
            for request in plan.requests
        ],
        "version": _VERSION,
    }
    return avro_container.encode(timeline_schemas.ROLLBACK_PLAN, fields)


def decode_plan(content: bytes, source: str = "rollback plan") -> plans.RollbackPlan:
    """Return the plan of a requested rollback.

    Raises:
        FormatError: The content is empty or broken, or names a file that is not the target's.
        UnsupportedError: It takes back log blocks, which table versions below 8 do, or an action
            that is not known.
    """
    record = avro_container.decode(content, source)
    target = _target_time(record)
    return plans.RollbackPlan(
        target=target,
        action=_action(record),
        requests=tuple(_request(request, target) for request in record.records("RollbackRequests")),
    )


def decode_target(content: bytes, source: str = "rollback plan") -> instants.InstantTime:
    """Return which instant the plan of a requested rollback takes back.

    Raises:
        FormatError: The content is empty or broken.
    """
    return _target_time(avro_container.decode(content, source))


def encode_metadata(done: plans.RollbackDone, table_uri: str) -> bytes:
    """Return the content of a completed rollback.

    Args:
        done: What was done.
        table_uri: The table's root.
    """
    partitions: dict[str, list[str]] = {}
    for path in done.deleted:
        partition_path = path.rpartition("/")[0]
        partitions.setdefault(partition_path, []).append(full_paths.of(table_uri, path))
    fields = {
        "startRollbackTime": done.requested_time,
        "timeTakenInMillis": done.duration_ms,
        "totalFilesDeleted": len(done.deleted),
        "commitsRollback": [done.plan.target],
        "partitionMetadata": {
            partition_path: {
                "partitionPath": partition_path,
                "successDeleteFiles": paths,
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for partition_path, paths in partitions.items()
        },
        "version": _VERSION,
        "instantsRollback": [_instant_info(done.plan)],
    }
    return avro_container.encode(timeline_schemas.ROLLBACK_METADATA, fields)


def decode_restored(
    content: bytes, source: str = "restore metadata"
) -> tuple[instants.InstantTime, ...]:
    """Return which instants a completed restore took back (`HoodieRestoreMetadata.avsc`).

    Raises:
        FormatError: The content is empty or broken.
    """
    record = avro_container.decode(content, source)
    try:
        return tuple(map(instants.checked_time, record.texts("instantsToRollback")))
    except errors.InvalidInputError as error:
        raise errors.FormatError(f"{source}: {error}") from error


def is_of_java(content: bytes) -> bool:
    """Return whether a Java writer made a plan: it says of texts which of its classes they are."""
    return _JAVA_TEXTS in content


def _instant_info(plan: plans.RollbackPlan) -> Mapping[str, str]:
    return {"commitTime": plan.target, "action": plan.action.value}


def _target_time(record: avro_values.Record) -> instants.InstantTime:
    info = avro_values.Record(record.map("instantToRollback"), record.source)
    try:
        return instants.checked_time(info.required_text("commitTime"))
    except errors.InvalidInputError as error:
        raise errors.FormatError(f"{record.source}: {error}") from error


def _action(record: avro_values.Record) -> instants.Action:
    info = avro_values.Record(record.map("instantToRollback"), record.source)
    action = info.required_text("action")
    try:
        return instants.Action(action)
    except ValueError as error:
        raise errors.UnsupportedError(
            f"{record.source}: rolls back a {action!r}, which is an unknown action"
        ) from error


def _request(record: avro_values.Record, target: instants.InstantTime) -> plans.RollbackRequest:
    if record.map("logBlocksToBeDeleted"):
        raise errors.UnsupportedError(
            f"{record.source}: rolls back log blocks, expected whole files as in version 8 and "
            "later"
        )
    partition_path = record.text("partitionPath") or ""
    return plans.RollbackRequest(
        partition_path=partition_path,
        file_names=tuple(_names(record, partition_path, target)),
        file_id=record.text("fileId"),
        base_instant_time=record.text("latestBaseInstant"),
    )


def _names(
    record: avro_values.Record, partition_path: str, target: instants.InstantTime
) -> Iterable[str]:
    for path in record.texts("filesToBeDeleted"):
        name = full_paths.name_in(record, partition_path, path)
        # A plan may be damaged, or hostile: nothing but the target's own files is ever deleted.
        if f"_{target}." not in name:
            raise errors.FormatError(
                f"{record.source}: names {path!r} in partition {partition_path!r}, "
                f"expected a file of instant {target}"
            )
        yield name
