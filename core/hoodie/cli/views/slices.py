"""File slices: a row a file group, as a snapshot read sees it now."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.model import files, instants

NO_PARTITION = "."
"""How the root of a table without partitions is shown."""

_FILE_ID_WIDTH_MIN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRow:
    """The newest slice of one file group.

    Attributes:
        partition: The partition path; empty for a table without partitions.
        file_id: The file group's id within the partition.
        base_instant: What the slice starts at.
        base_file: Bare name; None for log files alone.
        base_bytes: Its size; 0 for none.
        logs: Bare names of the log files, in merge order.
        log_bytes: Their summed size.
        pending_compaction: Requested time of the pending compaction that will merge the slice.
    """

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    base_bytes: int
    logs: tuple[str, ...]
    log_bytes: int
    pending_compaction: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A table's newest slices.

    Attributes:
        table: The table's URI.
        slices: By partition and file id.
    """

    table: str
    slices: tuple[SliceRow, ...]


def document(
    uri: str,
    latest: Iterable[files.FileSlice],
    compactions: Mapping[files.FileGroupId, instants.InstantTime],
) -> Document:
    """Return the document of a table's newest slices.

    Args:
        uri: The table's.
        latest: One a file group.
        compactions: The pending compaction of each file group that has one.
    """
    return Document(
        table=uri,
        slices=tuple(
            SliceRow(
                partition=each.group.partition_path,
                file_id=each.group.file_id,
                base_instant=each.base_instant_time,
                base_file=each.base_file.name if each.base_file else None,
                base_bytes=each.base_file.size_bytes if each.base_file else 0,
                logs=tuple(log.name for log in each.log_files),
                log_bytes=each.log_bytes,
                pending_compaction=compactions.get(each.group),
            )
            for each in latest
        ),
    )


def grid(shown: Document) -> grids.Grid:
    """Return the slices as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="partition", width_min=9),
            grids.Column(heading="file group", width_min=_FILE_ID_WIDTH_MIN),
            grids.Column(heading="base instant"),
            grids.Column(heading="base size", importance=2, is_number=True),
            grids.Column(heading="logs", importance=3, is_number=True),
            grids.Column(heading="log size", importance=1, is_number=True),
            grids.Column(heading="pending compaction", importance=0),
        ),
        rows=tuple(_cells(each) for each in shown.slices),
    )


def summary(shown: Document) -> str:
    """Return one line about all of them."""
    logs = sum(len(each.logs) for each in shown.slices)
    log_bytes = sum(each.log_bytes for each in shown.slices)
    total = log_bytes + sum(each.base_bytes for each in shown.slices)
    return (
        f"{quantities.counted(len(shown.slices), 'file group')}, "
        f"{quantities.size_text(total)}, of which {quantities.size_text(log_bytes)} in "
        f"{quantities.counted(logs, 'log file')}"
    )


def _cells(shown: SliceRow) -> tuple[str, ...]:
    return (
        shown.partition or NO_PARTITION,
        shown.file_id,
        shown.base_instant,
        quantities.size_text(shown.base_bytes) if shown.base_file else "",
        quantities.count_text(len(shown.logs)),
        quantities.size_text(shown.log_bytes) if shown.logs else "",
        shown.pending_compaction or "",
    )
