"""What a clean did, or would do: a document, a row a partition, and a line."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.maintenance import consumers
from hoodie.maintenance.cleaning import planning
from hoodie.model import results


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """What goes of one partition.

    Attributes:
        partition: Its path; empty for a table without partitions.
        files: How many.
        bytes: Their summed size; None for a clean that was planned before.
    """

    partition: str
    files: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a clean did, or would do.

    Attributes:
        table: The table's URI.
        is_dry_run: Whether nothing was changed.
        instants: Requested times of the cleans that were completed.
        files: Files deleted, or to delete.
        bytes: Their summed size; None where it is not known.
        partitions: By partition.
        held_by: What keeps the oldest version that stays.
        left_out: Files that may go, and stay for the next clean.
        protected: Files that may go but for savepoints; None where it is not known.
        findings: What one should know though nothing failed.
    """

    table: str
    is_dry_run: bool
    instants: tuple[str, ...] = ()
    files: int
    bytes: int | None
    partitions: tuple[PartitionRow, ...]
    held_by: str
    left_out: int
    protected: int | None = None
    findings: tuple[str, ...] = ()


def proposed(uri: str, proposal: planning.Proposal) -> Document:
    """Return the document of a dry run."""
    sizes = proposal.sizes_by_partition()
    return Document(
        table=uri,
        is_dry_run=True,
        files=sum(map(len, sizes.values())),
        bytes=sum(map(sum, sizes.values())),
        partitions=tuple(
            PartitionRow(partition=path, files=len(found), bytes=sum(found))
            for path, found in sorted(sizes.items())
        ),
        held_by=proposal.hold.reason,
        left_out=proposal.left_out,
        protected=proposal.protected,
        findings=tuple(
            f"consumer {each.name} was silent for longer than its limit, and holds nothing back"
            for each in proposal.consumers
            if each.state_at(proposal.clock.now_ms) is consumers.State.EXPIRED
        ),
    )


def done(uri: str, found: results.CleanResults) -> Document:
    """Return the document of what was done."""
    paths = [path for each in found.done for path in each.deleted]
    return Document(
        table=uri,
        is_dry_run=False,
        instants=tuple(each.instant.requested_time for each in found.done),
        files=len(paths),
        bytes=None,
        partitions=tuple(_counted(paths)),
        held_by=found.held_by,
        left_out=found.left_out,
        findings=tuple(finding for each in found.done for finding in each.findings),
    )


def grid(shown: Document) -> grids.Grid:
    """Return a row for each partition."""
    columns = [grids.Column(heading="partition"), grids.Column(heading="files", is_number=True)]
    if shown.bytes is not None:
        columns.append(grids.Column(heading="size", is_number=True))
    return grids.Grid(
        columns=tuple(columns),
        rows=tuple(
            (each.partition or ".", quantities.count_text(each.files), *_size(each))
            for each in shown.partitions
        ),
    )


def lines(shown: Document) -> list[str]:
    """Return what was deleted or would be, and what holds the rest."""
    count = quantities.counted(shown.files, "file")
    if shown.is_dry_run:
        found = [f"would delete {count}, {quantities.size_text(shown.bytes or 0)}"]
    elif shown.instants:
        found = [f"deleted {count} by clean {', '.join(shown.instants)}"]
    else:
        found = ["nothing to delete"]
    found.append(f"older versions stay because {shown.held_by}")
    if shown.left_out:
        found.append(f"{quantities.counted(shown.left_out, 'file')} left for the next clean")
    if shown.protected:
        found.append(f"{quantities.counted(shown.protected, 'file')} kept by savepoints")
    return found


def _counted(paths: Iterable[str]) -> Iterable[PartitionRow]:
    counts: dict[str, int] = defaultdict(int)
    for path in paths:
        counts[path.rpartition("/")[0]] += 1
    for partition_path, count in sorted(counts.items()):
        yield PartitionRow(partition=partition_path, files=count, bytes=None)


def _size(row: PartitionRow) -> tuple[str, ...]:
    return () if row.bytes is None else (quantities.size_text(row.bytes),)
