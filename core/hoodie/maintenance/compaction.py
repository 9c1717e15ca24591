"""Compaction of file slices: the plan, and the task that merges one slice into a base file.

Invariants:
    - a plan takes only log files completed before the plan's own instant, so that what completes
      later falls into the slice that begins at the instant (RFC-66);
    - no file group is in two pending plans;
    - a plan is immutable, and running a task again gives the same records;
    - what is merged is all of the slice that ends at the plan's instant, also what the plan missed:
      the base file hides it.

Source: RFC-66; `BaseHoodieCompactionPlanGenerator.java`, `HoodieCompactor.java` (1.2.0).
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from hoodie import errors
from hoodie.filegroup import kept_deletes, reading, snapshots, writing
from hoodie.format import file_names
from hoodie.model import commits, files, instants, plans, schemas, settings, table_config
from hoodie.storage import protocol

logger = logging.getLogger(__name__)

_MEBIBYTE = 1 << 20

DataFile = TypeVar("DataFile", files.BaseFile, files.LogFile)


def plan_of(slices: Iterable[files.FileSlice]) -> plans.CompactionPlan | None:
    """Return the plan that compacts the slices, largest logs first; None when no slice needs it.

    One whose logs hold nothing but kept deletes does not.

    Args:
        slices: As `FileSystemView.slices_for_compaction` gives them: their logs completed before
            the plan's instant, their groups in no pending plan.
    """
    with_logs = sorted(
        (each for each in slices if each.is_changed),
        key=lambda candidate: (-candidate.log_bytes, candidate.group),
    )
    operations = tuple(_operation(candidate) for candidate in with_logs)
    assert len({operation.group for operation in operations}) == len(operations)
    return plans.CompactionPlan(operations=operations) if operations else None


def plan_to_execute(
    snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
) -> plans.CompactionPlan:
    """Return the plan of a pending compaction, with all log files of its slices.

    The planner may have been paused until it had lost the lock, and have missed some that completed
    meanwhile. Since the plan is on the timeline nothing completes before its instant.

    Args:
        snapshot: Taken since then.
        requested_time: The compaction's.
    """
    plan = snapshot.compactions[requested_time]
    slices = snapshot.view.slices_below(requested_time)
    found = {each.group: tuple(log.name for log in each.log_files) for each in slices}
    operations = []
    for operation in plan.operations:
        names = found.get(operation.group, ())
        if set(names) > set(operation.log_file_names):
            logger.warning("%s: the plan has missed some of %s", operation.group, ", ".join(names))
            operations.append(replace(operation, log_file_names=names))
        else:
            operations.append(operation)
    return replace(plan, operations=tuple(operations))


def _operation(candidate: files.FileSlice) -> plans.CompactionOperation:
    base = candidate.base_file
    base_bytes = base.size_bytes if base else 0
    return plans.CompactionOperation(
        group=candidate.group,
        base_instant_time=candidate.base_instant_time,
        base_file_name=base.name if base else None,
        log_file_names=tuple(log.name for log in candidate.log_files),
        metrics={
            "TOTAL_LOG_FILES": float(len(candidate.log_files)),
            "TOTAL_LOG_FILES_SIZE": float(candidate.log_bytes),
            "TOTAL_IO_READ_MB": float(candidate.total_bytes // _MEBIBYTE),
            "TOTAL_IO_WRITE_MB": float(base_bytes // _MEBIBYTE),
            "TOTAL_IO_MB": float((candidate.total_bytes + base_bytes) // _MEBIBYTE),
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """What a process needs to know to compact one file slice; it pickles.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns.
        instant_time: The compaction's requested time.
        write_id: Of this execution: whose heartbeat must be there until all files are written.
        settings: The codec.
        committed: Which log blocks count.
        operation: The slice.
        write_token: Of the files; no other execution of the plan has the same.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    instant_time: instants.InstantTime
    write_id: str
    settings: settings.WriteSettings
    committed: snapshots.CommittedInstants
    operation: plans.CompactionOperation
    write_token: str


def compact_slice(
    task: CompactionTask, storage: protocol.Storage, before_file: Callable[[str], None]
) -> tuple[commits.WriteStat, ...]:
    """Merge a slice into a base file, and a log file of the deletes that outlive it.

    Memory: the changes in the slice's logs, and some row groups of its base file.

    Args:
        task: What to merge.
        storage: The table's.
        before_file: Called with the path of each file before it is opened.

    Raises:
        NotFoundError: A file of the plan is gone.
        FormatError: A file is broken, or the plan names one that is none.
    """
    file_slice = _slice(task.operation)
    committed = snapshots.CommittedFiles(storage, task.committed)
    reader = reading.SliceReader(storage, task.config, task.schema, committed.is_committed)
    rows = reader.stream(file_slice, [*writing.BASE_FILE_META_COLUMNS, *task.schema.arrow.names])
    target = writing.FileTarget(
        storage=storage,
        group=file_slice.group,
        instant_time=task.instant_time,
        write_token=task.write_token,
        before_file=before_file,
        base_instant_time=file_slice.base_instant_time,
        base_file=task.operation.base_file_name,
    )
    stat = writing.write_base_file(target, rows, task.schema, task.settings)
    counts = rows.counts
    stat = replace(stat, inserts=counts.inserted, updates=counts.updated, deletes=counts.deleted)
    keeping = kept_deletes.Keeping(
        instant_time=task.instant_time,
        file_slice=file_slice,
        hours=task.settings.deletes_kept_hours,
    )
    kept = rows.kept_deletes(keeping)
    name = file_names.base_file_name(file_slice.group.file_id, task.write_token, task.instant_time)
    on_top = replace(target, base_instant_time=task.instant_time, base_file=name)
    on_top_stats = writing.write_kept_deletes(on_top, kept, task.schema, task.settings)
    # They were counted with the base file already.
    return (stat, *(replace(each, deletes=0) for each in on_top_stats))


def _slice(operation: plans.CompactionOperation) -> files.FileSlice:
    base_file = None
    if operation.base_file_name is not None:
        base_file = _parsed(operation, operation.base_file_name, files.BaseFile)
    return files.FileSlice(
        group=operation.group,
        base_instant_time=instants.checked_time(operation.base_instant_time),
        base_file=base_file,
        log_files=tuple(
            _parsed(operation, name, files.LogFile) for name in operation.log_file_names
        ),
    )


def _parsed(operation: plans.CompactionOperation, name: str, kind: type[DataFile]) -> DataFile:
    parsed = file_names.parse(files.join(operation.group.partition_path, name), 0)
    if not isinstance(parsed, kind) or parsed.group != operation.group:
        raise errors.FormatError(
            f"the plan names {name!r} for file group {operation.group}, expected one of its files"
        )
    return parsed
