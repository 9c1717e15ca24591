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


def decode_taken_back(content: bytes, source: str = "rollback plan") -> plans.TakenBack:
    """Return what the plan of a rollback says of the instant that it takes back.

    This project takes back nothing that has completed. Apache Hudi plans by the markers of the
    write, which name the file group of each file, unless the instant has completed or markers are
    switched off: then it lists the files, and names no file group (`MarkerBasedRollbackStrategy`,
    `ListingBasedRollbackStrategy`). Below table version 8 a plan by either may take back log
    blocks.

    Raises:
        FormatError: The content is empty or broken.
        UnsupportedError: It takes back an action that is not known.
    """
    record = avro_container.decode(content, source)
    requests = record.records("RollbackRequests")
    action = _action(record)
    is_listed = any(
        not request.text("fileId") or request.map("logBlocksToBeDeleted") for request in requests
    )
    return plans.TakenBack(
        target=_target_time(record),
        may_have_completed=is_of_java(content)
        and _may_have_completed(action, has_changed_files=is_listed, has_files=bool(requests)),
    )


def decode_taken_back_done(content: bytes, source: str = "rollback metadata") -> plans.TakenBack:
    """Return what the metadata of a completed rollback says of what it took back.

    It does not say how the files were found, so that of a rollback of Apache Hudi that deleted any
    the target may have completed.

    Raises:
        FormatError: The content is empty or broken.
        UnsupportedError: It took back an action that is not known.
    """
    record = avro_container.decode(content, source)
    infos = record.records("instantsRollback")
    if len(infos) != 1:
        raise errors.FormatError(f"{source}: rolls back {len(infos)} instants, expected one")
    plan = avro_values.Record({"instantToRollback": infos[0].fields}, source)
    has_files = bool(record.map("partitionMetadata"))
    return plans.TakenBack(
        target=_target_time(plan),
        may_have_completed=is_of_java(content)
        and _may_have_completed(_action(plan), has_changed_files=has_files, has_files=has_files),
    )


def _may_have_completed(
    action: instants.Action, *, has_changed_files: bool, has_files: bool
) -> bool:
    """Return whether a target may have changed the table before.

    Args:
        action: What it does; compactions and clusterings have another name once they completed.
        has_changed_files: Whether it had files of which it is not known that it did not complete.
        has_files: Whether it had any; a replace commit may have retired file groups without.
    """
    if action.completed is not action:
        return False
    return has_changed_files or (action is instants.Action.REPLACE_COMMIT and not has_files)


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
