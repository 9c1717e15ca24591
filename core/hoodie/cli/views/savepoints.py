"""Savepoints of a table: a row each, oldest first."""

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.model import instants, results, time_zones


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointRow:
    """One savepoint.

    Attributes:
        instant: Requested time of the commit that it keeps.
        completion_time: When it took effect.
        comment: Of who created it.
        by: Who that was.
        files: How many files it keeps.
        partitions: Of how many partitions.
        is_new: Whether this command created it.
    """

    instant: str
    completion_time: str
    comment: str
    by: str
    files: int
    partitions: int
    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Savepoints of a table.

    Attributes:
        table: The table's URI.
        savepoints: All of them, or the one that was created.
    """

    table: str
    savepoints: tuple[SavepointRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedDocument:
    """What was deleted.

    Attributes:
        table: The table's URI.
        deleted: Requested times of the commits that have no savepoint any more.
    """

    table: str
    deleted: tuple[str, ...]


def document(uri: str, found: Iterable[results.SavepointResult]) -> Document:
    """Return the document of savepoints."""
    return Document(
        table=uri,
        savepoints=tuple(
            SavepointRow(
                instant=each.instant.requested_time,
                completion_time=each.instant.completion_time or "",
                comment=each.savepoint.comment,
                by=each.savepoint.by,
                files=len(each.savepoint.paths),
                partitions=len(each.savepoint.file_names),
                is_new=each.is_new,
            )
            for each in found
        ),
    )


def deleted(uri: str, found: Iterable[instants.Instant]) -> DeletedDocument:
    """Return the document of what was deleted."""
    return DeletedDocument(table=uri, deleted=tuple(each.requested_time for each in found))


def grid(shown: Document, zone: time_zones.TimeZone | None, now_ms: int) -> grids.Grid:
    """Return the savepoints as texts.

    Args:
        shown: The document.
        zone: The timeline's; None where it is not known.
        now_ms: The time, in milliseconds since the epoch.
    """
    return grids.Grid(
        columns=(
            grids.Column(heading="commit"),
            grids.Column(heading="created", importance=1),
            grids.Column(heading="files", is_number=True, importance=2),
            grids.Column(heading="by", importance=0, width_min=8),
            grids.Column(heading="comment", width_min=12),
        ),
        rows=tuple(
            (
                each.instant,
                quantities.ago_of(each.completion_time, zone, now_ms),
                quantities.count_text(each.files),
                each.by,
                each.comment,
            )
            for each in shown.savepoints
        ),
    )


def created_line(shown: SavepointRow) -> str:
    """Return the line about a savepoint that was asked for."""
    kept = f"keeps {quantities.counted(shown.files, 'file')}"
    if shown.is_new:
        return f"created savepoint {shown.instant}, which {kept}"
    return f"savepoint {shown.instant} exists with this comment, and {kept}"
