"""The memory that a compaction needs, by its plan.

What a merge has in memory at once are the changes of the slice, decoded, and row groups of the base
file and of the new one. Where that is more than is allowed, changes go through scratch space, and
what is allowed is what is needed.

The figures are measured (benchmarks/memory.py): a process that merges nothing, and bytes
in memory for each byte of log files. They are bounds, not means: log files are compressed.
"""

from collections.abc import Iterable, Mapping

from hoodie.model import plans

PROCESS_BYTES = 192 << 20
"""Python, Arrow and the table's metadata."""

_ROW_GROUPS_BYTES = 512 << 20
_EXPANSION = 8


def needed(log_bytes: int) -> int:
    """Return what merging a slice with so many bytes of log files takes at once, without bound."""
    return _ROW_GROUPS_BYTES + _EXPANSION * log_bytes


def fits(operation: plans.CompactionOperation, bytes_max: int) -> bool:
    """Return whether a slice can be merged at once; not where the plan does not state its size."""
    return _needed_of(operation.metrics) <= bytes_max


def needed_of_plan(
    operations: Iterable[plans.CompactionOperation], bytes_max: int, parallelism: int
) -> int:
    """Return what a process needs that executes a plan.

    Args:
        operations: The plan's; none for no plan.
        bytes_max: What each slice may take.
        parallelism: So many slices are merged at once.
    """
    largest = sorted(
        (min(bytes_max, _needed_of(each.metrics)) for each in operations), reverse=True
    )
    return PROCESS_BYTES + int(sum(largest[:parallelism]))


def _needed_of(metrics: Mapping[str, float]) -> float:
    log_bytes = metrics.get(plans.LOG_BYTES, float("inf"))
    return needed(0) + _EXPANSION * log_bytes
