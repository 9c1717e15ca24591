"""How a table's rows lie in files: a row a partition, one for all, and lines on table services."""

from collections.abc import Iterator
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.cli.views import consumers as consumer_views
from hoodie.cli.views import slices
from hoodie.services import table_stats

_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRow:
    """The files of one partition, or of all; see `services.table_stats`.

    Attributes:
        partition: The partition path; empty for a table without partitions, null for all of them.
        file_groups: How many have files.
        base_files: That a snapshot read needs.
        base_bytes: Their size.
        log_files: That a snapshot read needs.
        log_bytes: Their size.
        log_ratio: Bytes of log files by those of base files; null without base files.
        small_files: Base files below the limit.
        largest_group_bytes: Of the largest file group.
        median_group_bytes: Of the median one.
        skew: The largest by the median.
        older_files: Committed files that no snapshot read needs.
        older_bytes: Their size.
        other_files: Of writes that have not completed, or of none.
        other_bytes: Their size.
    """

    partition: str | None
    file_groups: int
    base_files: int
    base_bytes: int
    log_files: int
    log_bytes: int
    log_ratio: float | None
    small_files: int
    largest_group_bytes: int
    median_group_bytes: int
    skew: float | None
    older_files: int
    older_bytes: int
    other_files: int
    other_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A plan that is pending.

    Attributes:
        instant: Its requested time.
        action: What it does.
        state: Requested or inflight.
        file_groups: That it works on; null where the timeline does not say so.
    """

    instant: str
    action: str
    state: str
    file_groups: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """What a compaction would do that was planned now.

    Attributes:
        file_groups: That it would merge.
        log_files: Of them.
        log_bytes: Of these.
        read_bytes: With their base files.
        reason: Why it would do nothing, or not more.
    """

    file_groups: int
    log_files: int
    log_bytes: int
    read_bytes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What is known of a table's files.

    Attributes:
        table: The table's URI.
        small_file_bytes: Base files below that count as small.
        partitions: By partition path.
        total: Of all of them.
        pending: Plans of table services.
        compaction: What one would do now.
        savepoints: Requested times of the commits that savepoints keep.
        consumers: The declared ones, for which a clean waits.
    """

    table: str
    small_file_bytes: int
    partitions: tuple[FilesRow, ...]
    total: FilesRow
    pending: tuple[PlanRow, ...]
    compaction: CompactionRow
    savepoints: tuple[str, ...]
    consumers: tuple[consumer_views.ConsumerRow, ...] = ()


def document(uri: str, found: table_stats.TableStats) -> Document:
    """Return the document of a table's files."""
    planned = found.compaction
    return Document(
        table=uri,
        small_file_bytes=found.small_file_bytes,
        partitions=tuple(_row(path, each) for path, each in found.partitions.items()),
        total=_row(None, found.total),
        pending=tuple(
            PlanRow(
                instant=each.instant.requested_time,
                action=each.instant.action.value,
                state=each.instant.state.value,
                file_groups=each.file_groups,
            )
            for each in found.pending
        ),
        compaction=CompactionRow(
            file_groups=planned.file_groups,
            log_files=planned.log_files,
            log_bytes=planned.log_bytes,
            read_bytes=planned.read_bytes,
            reason=planned.reason,
        ),
        savepoints=tuple(found.savepoints),
        consumers=tuple(map(consumer_views.row, found.consumers)),
    )


def _row(path: str | None, found: table_stats.FileStats) -> FilesRow:
    return FilesRow(
        partition=path,
        file_groups=found.file_groups,
        base_files=found.base_files,
        base_bytes=found.base_bytes,
        log_files=found.log_files,
        log_bytes=found.log_bytes,
        log_ratio=None if found.log_ratio is None else round(found.log_ratio, 4),
        small_files=found.small_files,
        largest_group_bytes=found.largest_group_bytes,
        median_group_bytes=found.median_group_bytes,
        skew=None if found.skew is None else round(found.skew, 2),
        older_files=found.older_files,
        older_bytes=found.older_bytes,
        other_files=found.other_files,
        other_bytes=found.other_bytes,
    )


def grid(shown: Document) -> grids.Grid:
    """Return the partitions, and all together, as texts."""
    rows = shown.partitions if len(shown.partitions) > 1 else ()
    return grids.Grid(
        columns=(
            grids.Column(heading="partition", width_min=9),
            grids.Column(heading="groups", is_number=True),
            grids.Column(heading="base files", is_number=True, importance=5),
            grids.Column(heading="base size", is_number=True),
            grids.Column(heading="small", is_number=True, importance=3),
            grids.Column(heading="logs", is_number=True, importance=4),
            grids.Column(heading="log size", is_number=True, importance=5),
            grids.Column(heading="log ratio", is_number=True, importance=2),
            grids.Column(heading="skew", is_number=True, importance=1),
            grids.Column(heading="older", is_number=True, importance=3),
            grids.Column(heading="older size", is_number=True, importance=4),
            grids.Column(heading="uncommitted", is_number=True, importance=0),
        ),
        rows=tuple(_cells(each) for each in (*rows, shown.total)),
    )


def _cells(row: FilesRow) -> tuple[str, ...]:
    return (
        _ALL if row.partition is None else row.partition or slices.NO_PARTITION,
        quantities.count_text(row.file_groups),
        quantities.count_text(row.base_files),
        quantities.size_text(row.base_bytes),
        quantities.count_text(row.small_files),
        quantities.count_text(row.log_files),
        quantities.size_text(row.log_bytes),
        "" if row.log_ratio is None else f"{row.log_ratio:.2f}",
        "" if row.skew is None else f"{row.skew:.1f}",
        quantities.count_text(row.older_files),
        quantities.size_text(row.older_bytes),
        quantities.count_text(row.other_files) if row.other_files else "",
    )


def lines(shown: Document) -> Iterator[str]:
    """Yield what is pending, what a compaction would do, and what a clean could free."""
    for each in shown.pending:
        groups = "" if each.file_groups is None else f", {_groups(each.file_groups)}"
        yield f"pending: {each.instant} {each.action} {each.state}{groups}"
    planned = shown.compaction
    if planned.file_groups:
        reason = f"; {planned.reason}" if planned.reason else ""
        yield (
            f"compaction: would merge {quantities.counted(planned.log_files, 'log file')} "
            f"({quantities.size_text(planned.log_bytes)}) of {_groups(planned.file_groups)}, and "
            f"read {quantities.size_text(planned.read_bytes)}{reason}"
        )
    else:
        yield f"compaction: would do nothing: {planned.reason}"
    yield from consumer_views.lines(shown.consumers)
    kept = quantities.counted(len(shown.savepoints), "savepoint")
    limit = f", less what {kept} keep" if len(shown.savepoints) > 1 else ""
    if len(shown.savepoints) == 1:
        limit = f", less what {kept} keeps"
    yield (
        f"clean: could free up to {quantities.size_text(shown.total.older_bytes)} in "
        f"{quantities.counted(shown.total.older_files, 'file')}{limit}"
    )


def _groups(count: int) -> str:
    return quantities.counted(count, "file group")
