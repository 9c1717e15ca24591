"""The memory that a compaction needs, by its plan.

What a merge has in memory at once are the changes of the slice, decoded, and row groups of the base
file and of the new one. Where that is more than is allowed, changes go through scratch space, and
what is allowed is what is needed.

The figures are measured with `benchmarks/compaction_memory.py`, and rounded up: log files are
compressed, so that what is in memory is larger.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.model import plans

PROCESS_BYTES = 192 << 20
"""Python, Arrow and the table's metadata."""

_ROW_GROUPS_BYTES = 512 << 20
_EXPANSION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSize:
    """What of a plan determines the memory that it needs.

    Attributes:
        file_groups: File slices to merge.
        log_bytes_max: Bytes of log files in the largest of them; None where the plan does not say.
    """

    file_groups: int
    log_bytes_max: int | None


def size_of(operations: Iterable[plans.CompactionOperation]) -> PlanSize:
    """Return the size of a plan."""
    sizes = [_log_bytes(each) for each in operations]
    known = [size for size in sizes if size is not None]
    is_known = len(known) == len(sizes)
    return PlanSize(
        file_groups=len(sizes), log_bytes_max=max(known, default=0) if is_known else None
    )


def needed(size: PlanSize, bytes_max: int, parallelism: int) -> int:
    """Return the memory of a process that executes a plan.

    Args:
        size: The plan's.
        bytes_max: What each slice may take.
        parallelism: So many slices are merged at once.
    """
    return PROCESS_BYTES + min(parallelism, size.file_groups) * needed_by_slice(size, bytes_max)


def needed_by_slice(size: PlanSize, bytes_max: int) -> int:
    """Return the memory that the largest slice of a plan takes of what it may take."""
    if size.log_bytes_max is None:
        return bytes_max
    return min(bytes_max, _needed_at_once(size.log_bytes_max))


def fits(operation: plans.CompactionOperation, bytes_max: int) -> bool:
    """Return whether a slice can be merged at once; not where the plan does not state its size."""
    log_bytes = _log_bytes(operation)
    return log_bytes is not None and _needed_at_once(log_bytes) <= bytes_max


def _needed_at_once(log_bytes: int) -> int:
    """Return what merging a slice takes whose changes are all in memory."""
    return _ROW_GROUPS_BYTES + _EXPANSION * log_bytes


def _log_bytes(operation: plans.CompactionOperation) -> int | None:
    found = operation.metrics.get(plans.LOG_BYTES, math.nan)
    return int(found) if math.isfinite(found) and found >= 0 else None
