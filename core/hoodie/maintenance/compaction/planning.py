"""The plan of a compaction: which file slices, and with which of their log files.

Invariants:
    - a plan takes only log files completed before the plan's own instant, so that what completes
      later falls into the slice that begins at the instant (RFC-66);
    - no file group is in two pending plans;
    - a plan is immutable;
    - what is merged is all of the slice that ends at the plan's instant, also what the plan missed:
      the base file hides it.

Source: RFC-66; `BaseHoodieCompactionPlanGenerator.java` (1.2.0).
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

from hoodie.filegroup import snapshots
from hoodie.model import files, instants, plans

logger = logging.getLogger(__name__)

_MEBIBYTE = 1 << 20


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
            logger.warning(
                "%s: the plan misses some files of %s", operation.group, ", ".join(names)
            )
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
