"""What a compaction would do: a row a partition and decision, and a line."""

from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.cli.views import outcomes
from hoodie.cli.views.slices import NO_PARTITION
from hoodie.maintenance.compaction import memory, planning, strategies
from hoodie.model import instants

_COMPACT = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """File groups of one partition with one decision.

    Attributes:
        partition: The partition path; empty for a table without partitions.
        decision: `compact`, or why they are not compacted.
        file_groups: How many.
        log_files: Log files in all of them.
        log_bytes: Their summed size.
        base_bytes: Summed size of the base files.
    """

    partition: str
    decision: str
    file_groups: int
    log_files: int
    log_bytes: int
    base_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What `hoodie compact` would plan now.

    Attributes:
        table: The table's URI.
        is_due: Whether anything would be planned.
        reason: Why nothing would be; empty where something would.
        file_groups: File groups in the plan.
        log_files: Log files to merge.
        read_bytes: What the compaction reads.
        memory_bytes: What a process of this machine needs to execute it.
        left_out: File groups that do not fit into the plan; the next one takes them.
        partitions: In the order of the plan, those that are compacted first.
        pending: Compactions that are planned and not completed; their file groups are in no row.
    """

    table: str
    is_due: bool
    reason: str
    file_groups: int
    log_files: int
    read_bytes: int
    memory_bytes: int
    left_out: int
    partitions: tuple[PartitionRow, ...]
    pending: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an execution has.

    Attributes:
        slice_bytes: Memory for each file group.
        parallelism: So many are compacted at once.
    """

    slice_bytes: int
    parallelism: int


def preview(
    uri: str,
    decision: planning.Decision,
    pending: tuple[instants.InstantTime, ...],
    capacity: Capacity,
) -> Preview:
    """Return the document of what would be planned."""
    taken = decision.selection.taken
    is_due = decision.outcome is planning.Outcome.PLANNED
    found: dict[tuple[str, str], list[strategies.Candidate]] = {}
    for each in taken:
        found.setdefault((each.group.partition_path, _COMPACT), []).append(each)
    for each, choice in decision.selection.others:
        found.setdefault((each.group.partition_path, choice.value), []).append(each)
    return Preview(
        table=uri,
        is_due=is_due,
        reason="" if is_due else outcomes.reason_text(decision.outcome.value, decision.message),
        file_groups=len(taken),
        log_files=sum(each.log_files for each in taken),
        read_bytes=sum(each.read_bytes for each in taken),
        memory_bytes=_memory_bytes(decision, capacity),
        left_out=decision.selection.left_out,
        partitions=tuple(_row(*key, same) for key, same in found.items()),
        pending=pending,
    )


def _memory_bytes(decision: planning.Decision, capacity: Capacity) -> int:
    if decision.plan is None:
        return 0
    size = memory.size_of(decision.plan.operations)
    return memory.needed(size, capacity.slice_bytes, capacity.parallelism)


def _row(partition: str, decision: str, same: list[strategies.Candidate]) -> PartitionRow:
    return PartitionRow(
        partition=partition,
        decision=decision,
        file_groups=len(same),
        log_files=sum(each.log_files for each in same),
        log_bytes=sum(each.log_bytes for each in same),
        base_bytes=sum(each.base_bytes for each in same),
    )


def grid(shown: Preview) -> grids.Grid:
    """Return the partitions as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="partition", width_min=9),
            grids.Column(heading="decision"),
            grids.Column(heading="file groups", importance=3, is_number=True),
            grids.Column(heading="log files", importance=2, is_number=True),
            grids.Column(heading="log size", importance=1, is_number=True),
            grids.Column(heading="base size", importance=0, is_number=True),
        ),
        rows=tuple(
            (
                each.partition or NO_PARTITION,
                each.decision,
                quantities.count_text(each.file_groups),
                quantities.count_text(each.log_files),
                quantities.size_text(each.log_bytes),
                quantities.size_text(each.base_bytes),
            )
            for each in shown.partitions
        ),
    )


def line(shown: Preview) -> str:
    """Return what would be done, in a line."""
    if not shown.is_due:
        if shown.reason.startswith(planning.Outcome.NOTHING_TO_COMPACT.value):
            return planning.Outcome.NOTHING_TO_COMPACT.value
        return f"nothing would be planned: {shown.reason}"
    return (
        f"would compact {quantities.counted(shown.file_groups, 'file group')}: "
        f"{quantities.counted(shown.log_files, 'log file')}, "
        f"{quantities.size_text(shown.read_bytes)} to read, at most "
        f"{quantities.size_text(shown.memory_bytes)} of memory"
    )


def left_out_text(count: int) -> str:
    """Return that file groups did not fit into a plan."""
    are = "is" if count == 1 else "are"
    return f"{quantities.counted(count, 'file group')} {are} left for the next plan"
