"""What a command did to a table, or with its rows: a document, and a line."""

from dataclasses import dataclass

from hoodie.cli import quantities
from hoodie.contract import job_results
from hoodie.door import outcomes
from hoodie.maintenance.compaction import planning
from hoodie.model import results


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDocument:
    """What a write did.

    Attributes:
        table: The table's URI.
        is_written: False for a batch that the table held already, and for no rows.
        instant: Its requested time; None where nothing was written.
        completion_time: When it took effect.
        operation: As the command line names it.
        writer_id: On whose behalf; None for nobody that was named.
        batch_id: The batch; None for none.
        records: Rows written, deletes not counted.
        inserted: Those of them that were new; null where log files took them unseen, without
            --count.
        updated: Those that replaced others; null likewise.
        unchanged: Rows that changed nothing, as those with a smaller ordering value than the
            table's, which are not written to base files; null likewise.
        deletes: Keys deleted.
        rejected: Rows of the input that did not fit, and are in the file of --reject-file.
        files: Data files written.
        bytes: Their summed size.
        replaced: File groups retired.
        duration_ms: From requested to completed.
        total_ms: Of the whole command, which reads its input before.
        lock_wait_ms: Waited for the table lock in all.
        planned_compaction: Instant of the compaction that was planned after the write, if any.
        findings: What one should know though nothing failed.
    """

    table: str
    is_written: bool
    instant: str | None = None
    completion_time: str | None = None
    operation: str
    writer_id: str | None
    batch_id: str | None
    records: int = 0
    inserted: int | None = None
    updated: int | None = None
    unchanged: int | None = None
    deletes: int = 0
    rejected: int = 0
    files: int = 0
    bytes: int = 0
    replaced: int = 0
    duration_ms: int = 0
    total_ms: int = 0
    lock_wait_ms: int = 0
    planned_compaction: str | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDocument:
    """What a delete by a filter or of partitions did, or would do.

    Attributes:
        table: The table's URI.
        is_dry_run: Whether nothing was deleted, whatever matches.
        rows: How many match; of a delete, how many were deleted. None of partitions, whose files
            are not read.
        partitions: Those that are deleted.
        replaced: File groups retired with them.
        instant: Its requested time; None where nothing was deleted.
        completion_time: When it took effect.
        files: Data files written.
        bytes: Their summed size.
        duration_ms: From requested to completed.
        total_ms: Of the whole command.
        lock_wait_ms: Waited for the table lock in all.
        planned_compaction: Instant of the compaction that was planned after it, if any.
        findings: What one should know though nothing failed.
    """

    table: str
    is_dry_run: bool = False
    rows: int | None = 0
    partitions: tuple[str, ...] = ()
    replaced: int = 0
    instant: str | None = None
    completion_time: str | None = None
    files: int = 0
    bytes: int = 0
    duration_ms: int = 0
    total_ms: int = 0
    lock_wait_ms: int = 0
    planned_compaction: str | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDocument:
    """What an update by a filter did, or would do.

    Attributes:
        table: The table's URI.
        is_dry_run: Whether nothing was updated, whatever matches.
        rows: How many match; of an update, how many were updated.
        instant: Its requested time; None where nothing was updated.
        completion_time: When it took effect.
        files: Data files written.
        bytes: Their summed size.
        total_ms: Of the whole command.
        lock_wait_ms: Waited for the table lock in all.
        planned_compaction: Instant of the compaction that was planned after it, if any.
        findings: What one should know though nothing failed.
    """

    table: str
    is_dry_run: bool = False
    rows: int = 0
    instant: str | None = None
    completion_time: str | None = None
    files: int = 0
    bytes: int = 0
    total_ms: int = 0
    lock_wait_ms: int = 0
    planned_compaction: str | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDocument:
    """How many rows a table has.

    Attributes:
        table: The table's URI.
        rows: Those that the filter keeps.
    """

    table: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactDocument:
    """What a compaction did.

    Attributes:
        table: The table's URI.
        instant: Of the plan; None where nothing was planned.
        completion_time: When it took effect; None while it is only planned.
        file_groups: File groups compacted.
        records: Rows in the new base files.
        bytes: Summed size of the new base files.
        duration_ms: From planned to completed.
        pending: Other compactions that are planned and not completed.
        reason: Why nothing was planned; empty where something was.
        left_out: File groups that did not fit into the plan; the next one takes them.
        findings: What one should know though nothing failed.
    """

    table: str
    instant: str | None = None
    completion_time: str | None = None
    file_groups: int = 0
    records: int = 0
    bytes: int = 0
    duration_ms: int = 0
    pending: tuple[str, ...] = ()
    reason: str = ""
    left_out: int = 0
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """Rows that were read into a file.

    Attributes:
        table: The table's URI.
        output: The file.
        rows: How many.
    """

    table: str
    output: str
    rows: int


def written(
    uri: str,
    result: results.WriteResult | None,
    operation: str,
    writer_id: str | None,
    total_ms: int,
    count: outcomes.Counted | None = None,
) -> WriteDocument:
    """Return the document of a write that the command took some time for; None for no rows."""
    count = count or outcomes.Counted()
    rows = count.rows
    match result:
        case None | results.AlreadyCommitted():
            return WriteDocument(
                table=uri,
                is_written=False,
                operation=operation,
                writer_id=writer_id,
                batch_id=None if result is None else result.batch_id,
                total_ms=total_ms,
            )
        case results.CommitResult(instant=instant):
            return WriteDocument(
                table=uri,
                is_written=True,
                instant=instant.requested_time,
                completion_time=instant.completion_time,
                operation=operation,
                writer_id=writer_id,
                batch_id=result.batch_id,
                records=result.records,
                inserted=result.inserted if rows is None else rows.inserted,
                updated=result.updated if rows is None else rows.updated,
                unchanged=result.unchanged if rows is None else rows.unchanged,
                deletes=result.deletes,
                files=result.file_count,
                bytes=result.size_bytes,
                replaced=len(result.replaced),
                duration_ms=quantities.elapsed_ms(instant.requested_time, instant.completion_time)
                or 0,
                total_ms=total_ms,
                lock_wait_ms=result.lock_wait_ms,
                planned_compaction=result.planned_compaction,
                findings=(*result.findings, *count.findings),
            )


def write_line(shown: WriteDocument, *, is_counted: bool = False) -> str:
    """Return what is said of a write.

    Args:
        shown: The write.
        is_counted: Whether it was asked how many rows were new.
    """
    if not shown.is_written and shown.batch_id is None:
        return "the input has no rows, nothing was written"
    if not shown.is_written:
        return f"batch {shown.batch_id} is in the table already, nothing was written"
    amounts = []
    if shown.records or shown.unchanged:
        kinds = _kinds(shown, is_counted=is_counted)
        amounts.append(f"{quantities.counted(shown.records, 'row')}{kinds}")
    if shown.deletes:
        amounts.append(quantities.counted(shown.deletes, "delete"))
    planned = shown.planned_compaction
    return (
        f"committed {shown.instant}: {shown.operation} of {' and '.join(amounts) or 'no rows'}, "
        f"{quantities.counted(shown.files, 'file')}, {quantities.size_text(shown.bytes)}, "
        f"{_replaced(shown.replaced)}in {quantities.duration_text(shown.total_ms)}, of which the "
        f"write took {quantities.duration_text(shown.duration_ms)}"
        f"{f'; then planned compaction {planned}' if planned else ''}"
    )


def _kinds(shown: WriteDocument, *, is_counted: bool) -> str:
    """Return how many rows were new, where some were not, or that was asked."""
    if shown.inserted is None or not (shown.updated or shown.unchanged or is_counted):
        return ""
    unchanged = f", {shown.unchanged:,} unchanged" if shown.unchanged else ""
    return f" ({shown.inserted:,} new, {shown.updated:,} updated{unchanged})"


def _replaced(groups: int) -> str:
    return f"{quantities.counted(groups, 'file group')} replaced, " if groups else ""


def deleted(
    uri: str,
    result: results.WriteResult | None,
    total_ms: int,
    partitions: tuple[str, ...] = (),
) -> DeleteDocument:
    """Return the document of a delete that the command took some time for."""
    if not isinstance(result, results.CommitResult):
        return DeleteDocument(table=uri, total_ms=total_ms)
    instant = result.instant
    return DeleteDocument(
        table=uri,
        rows=None if partitions else result.deletes,
        partitions=partitions,
        replaced=len(result.replaced),
        instant=instant.requested_time,
        completion_time=instant.completion_time,
        files=result.file_count,
        bytes=result.size_bytes,
        duration_ms=quantities.elapsed_ms(instant.requested_time, instant.completion_time) or 0,
        total_ms=total_ms,
        lock_wait_ms=result.lock_wait_ms,
        planned_compaction=result.planned_compaction,
        findings=result.findings,
    )


def delete_line(shown: DeleteDocument) -> str:
    """Return what is said of a delete."""
    rows = quantities.counted(shown.rows or 0, "row")
    if shown.partitions:
        paths = quantities.counted(len(shown.partitions), "partition")
        rows = f"{paths} with {quantities.counted(shown.replaced, 'file group')}"
    if shown.is_dry_run:
        return f"{rows} would be deleted"
    if shown.instant is None:
        return "no rows match, nothing was deleted"
    planned = shown.planned_compaction
    return (
        f"committed {shown.instant}: deleted {rows}, {quantities.counted(shown.files, 'file')}, "
        f"{quantities.size_text(shown.bytes)}, in {quantities.duration_text(shown.total_ms)}"
        f"{f'; then planned compaction {planned}' if planned else ''}"
    )


def updated(uri: str, result: outcomes.Written, total_ms: int) -> UpdateDocument:
    """Return the document of an update that the command took some time for."""
    return UpdateDocument(
        table=uri,
        rows=result.rows,
        instant=result.instant,
        completion_time=result.completed,
        files=result.files,
        bytes=result.size_bytes,
        total_ms=total_ms,
        lock_wait_ms=result.lock_wait_ms,
        planned_compaction=result.planned_compaction,
        findings=result.findings,
    )


def update_line(shown: UpdateDocument) -> str:
    """Return what is said of an update."""
    rows = quantities.counted(shown.rows, "row")
    if shown.is_dry_run:
        return f"{rows} would be updated"
    if shown.instant is None:
        return "no rows match, nothing was updated"
    planned = shown.planned_compaction
    return (
        f"committed {shown.instant}: updated {rows}, {quantities.counted(shown.files, 'file')}, "
        f"{quantities.size_text(shown.bytes)}, in {quantities.duration_text(shown.total_ms)}"
        f"{f'; then planned compaction {planned}' if planned else ''}"
    )


def compacted(uri: str, result: results.CommitResult) -> CompactDocument:
    """Return the document of a compaction that was run here."""
    instant = result.instant
    return CompactDocument(
        table=uri,
        instant=instant.requested_time,
        completion_time=instant.completion_time,
        file_groups=result.group_count,
        records=result.records,
        bytes=result.size_bytes,
        duration_ms=quantities.elapsed_ms(instant.requested_time, instant.completion_time) or 0,
        findings=result.findings,
    )


def compacted_by_job(uri: str, result: job_results.JobResult) -> CompactDocument:
    """Return the document of a compaction that a job planned or ran."""
    if not result.instants:
        return CompactDocument(table=uri, reason=result.reason)
    newest = result.instants[-1]
    return CompactDocument(
        table=uri,
        instant=newest.requested_time,
        completion_time=newest.completion_time,
        file_groups=result.file_groups,
        records=result.records,
        bytes=result.bytes,
        duration_ms=quantities.elapsed_ms(newest.requested_time, newest.completion_time) or 0,
        left_out=result.left_out,
        findings=result.findings,
    )


def scheduled(uri: str, result: results.ScheduleResult) -> CompactDocument:
    """Return the document of a compaction that was planned here, or was not."""
    if result.instant is None:
        return CompactDocument(table=uri, reason=reason_text(result.outcome, result.message))
    return CompactDocument(
        table=uri,
        instant=result.instant,
        file_groups=result.file_groups,
        left_out=result.left_out,
    )


def reason_text(outcome: str, message: str) -> str:
    """Return why nothing is planned."""
    return f"{outcome}: {message}"


def compact_line(shown: CompactDocument) -> str:
    """Return what is said of a compaction."""
    if shown.instant is None and shown.pending:
        waiting = ", ".join(shown.pending)
        return f"{_nothing(shown, 'nothing new to compact')}; planned and not completed: {waiting}"
    if shown.instant is None:
        return _nothing(shown, "nothing to compact")
    if shown.completion_time is None:
        groups = quantities.counted(shown.file_groups, "file group")
        return f"planned {f'{groups} at ' if shown.file_groups else ''}{shown.instant}"
    return (
        f"compacted {shown.instant}: {quantities.counted(shown.file_groups, 'file group')}, "
        f"{quantities.counted(shown.records, 'row')}, {quantities.size_text(shown.bytes)}, in "
        f"{quantities.duration_text(shown.duration_ms)}"
    )


def _nothing(shown: CompactDocument, otherwise: str) -> str:
    if not shown.reason or shown.reason.startswith(planning.Outcome.NOTHING_TO_COMPACT.value):
        return otherwise
    return f"nothing planned: {shown.reason}"


def read_line(shown: ReadDocument) -> str:
    """Return what is said of rows that were read into a file."""
    return f"{quantities.counted(shown.rows, 'row')} in {shown.output}"
