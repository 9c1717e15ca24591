"""What a write did, in numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import results

RowCounter = Callable[[results.CommitResult], results.RowCounts]
"""Looks up how many rows of a write were new, as `Table.row_counts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a write did.

    Attributes:
        instant: Its requested time, by which the timeline names it; None if nothing was written.
        completed: When it completed, from which on readers see it.
        rows: Rows written, deletes not counted.
        deleted: Keys deleted, those that were not there among them.
        inserted: Rows that were new; None where the write did not look, as into log files, and was
            not asked to count.
        updated: Rows that replaced others; None likewise.
        unchanged: Rows that changed nothing (`results.RowCounts`); None likewise.
        files: Files written.
        size_bytes: Their summed size.
        lock_wait_ms: Waited for the table's lock in all.
        lock_hold_ms: Held it in all.
        took_ms: From the call to its return, reading the input included.
        batch_id: The writer's batch, if it has one.
        is_repeated: Whether the table held that batch before: nothing was written.
        planned_compaction: The compaction that the writer planned after its commit; None for none.
        findings: What you should know though nothing failed.
    """

    instant: str | None = None
    completed: str | None = None
    rows: int = 0
    deleted: int = 0
    inserted: int | None = None
    updated: int | None = None
    unchanged: int | None = None
    files: int = 0
    size_bytes: int = 0
    lock_wait_ms: int = 0
    lock_hold_ms: int = 0
    took_ms: int = 0
    batch_id: str | None = None
    is_repeated: bool = False
    planned_compaction: str | None = None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many rows of a write were new, and updated, as far as that is known.

    Attributes:
        rows: None where that was not looked up.
        findings: Why not, though it was asked for.
    """

    rows: results.RowCounts | None = None
    findings: tuple[str, ...] = ()


def counted(result: results.WriteResult | None, count: RowCounter) -> Counted:
    """Count the rows of a write that has completed, which no failure of this undoes."""
    if not isinstance(result, results.CommitResult):
        return Counted()
    try:
        return Counted(rows=count(result))
    except errors.HoodieError as error:
        return Counted(findings=(f"new and updated rows are not counted: {error}",))


def written(
    result: results.WriteResult | None, took_ms: int, count: Counted | None = None
) -> Written:
    """Return what a write did.

    Args:
        result: Of the write; None for nothing to do.
        took_ms: How long it took.
        count: Of its rows; None if they were not counted.
    """
    rows = count.rows if count is not None else None
    if result is None:
        return Written(took_ms=took_ms)
    if isinstance(result, results.AlreadyCommitted):
        return Written(took_ms=took_ms, batch_id=result.batch_id, is_repeated=True)
    return Written(
        instant=result.instant.requested_time,
        completed=result.instant.completion_time,
        rows=result.records,
        deleted=result.deletes,
        inserted=result.inserted if rows is None else rows.inserted,
        updated=result.updated if rows is None else rows.updated,
        unchanged=result.unchanged if rows is None else rows.unchanged,
        files=result.file_count,
        size_bytes=result.size_bytes,
        lock_wait_ms=result.lock_wait_ms,
        lock_hold_ms=result.lock_hold_ms,
        took_ms=took_ms,
        batch_id=result.batch_id,
        planned_compaction=result.planned_compaction,
        findings=(*result.findings, *(count.findings if count is not None else ())),
    )
