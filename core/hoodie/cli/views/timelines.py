"""The timeline: a row an instant, oldest first; of its archive the newest first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.cli import grids, quantities
from hoodie.format import timeline_avro
from hoodie.model import commits, instants, time_zones
from hoodie.timeline import archived

_STATE_STYLES = {
    instants.State.REQUESTED.value: "yellow",
    instants.State.INFLIGHT.value: "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantRow:
    """One instant; what is not known of it is None.

    Attributes:
        requested_time: Its name.
        action: As its furthest state's file is named.
        state: The furthest state.
        completion_time: When it took effect.
        duration_ms: From requested to completed.
        writer_id: Who wrote it.
        operation: What the write did: upsert, insert, delete, compact, ...
        records: Rows written, deletes not counted.
        deletes: Keys deleted.
        files: Data files written.
        bytes: Their summed size.
    """

    requested_time: str
    action: str
    state: str
    completion_time: str | None
    duration_ms: int | None
    writer_id: str | None = None
    operation: str | None = None
    records: int | None = None
    deletes: int | None = None
    files: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A table's timeline.

    Attributes:
        table: The table's URI.
        instants: By requested time.
    """

    table: str
    instants: tuple[InstantRow, ...]


def row(instant: instants.Instant, metadata: commits.CommitMetadata | None) -> InstantRow:
    """Return what is shown of an instant.

    Args:
        instant: In its furthest state.
        metadata: Of that state's file; None where it holds none.
    """
    is_counted = metadata is not None and instant.is_completed
    stats = metadata.stats if metadata is not None and is_counted else ()
    return InstantRow(
        requested_time=instant.requested_time,
        action=instant.action.value,
        state=instant.state.value,
        completion_time=instant.completion_time,
        duration_ms=quantities.elapsed_ms(instant.requested_time, instant.completion_time),
        writer_id=metadata.extra.get(commits.WRITER_ID_KEY) if metadata else None,
        operation=metadata.operation.lower() if metadata and metadata.operation else None,
        records=sum(stat.written for stat in stats) if is_counted else None,
        deletes=sum(stat.deletes for stat in stats) if is_counted else None,
        files=sum(max(1, len(stat.log_files)) for stat in stats) if is_counted else None,
        bytes=sum(stat.size_bytes for stat in stats) if is_counted else None,
    )


def document(
    uri: str,
    shown: tuple[instants.Instant, ...],
    metadata: Mapping[instants.Instant, commits.CommitMetadata],
) -> Document:
    """Return the document of some instants of a table."""
    return Document(table=uri, instants=tuple(row(each, metadata.get(each)) for each in shown))


def document_of_archive(uri: str, shown: Iterable[archived.ArchivedInstant]) -> Document:
    """Return the document of archived instants, in their order."""
    return Document(table=uri, instants=tuple(row(each.instant, _metadata(each)) for each in shown))


def _metadata(found: archived.ArchivedInstant) -> commits.CommitMetadata | None:
    if not found.instant.action.is_write or not found.metadata:
        return None
    try:
        return timeline_avro.decode_commit(found.metadata, f"archived instant {found.instant}")
    except errors.FormatError:
        return None  # Of a release that kept it in another form.


def grid(shown: Document, zone: time_zones.TimeZone | None, now_ms: int) -> grids.Grid:
    """Return the instants as texts.

    Args:
        shown: The timeline.
        zone: Of its times; None where it is not known.
        now_ms: Since the epoch: completions are told by how long they are over.
    """
    return grids.Grid(
        columns=(
            grids.Column(heading="requested"),
            grids.Column(heading="action", importance=7),
            grids.Column(heading="state", styles=_STATE_STYLES),
            grids.Column(heading="completed"),
            grids.Column(heading="operation", importance=6),
            grids.Column(heading="rows", importance=8, is_number=True),
            grids.Column(heading="took", importance=5, is_number=True),
            grids.Column(heading="writer", importance=3, width_min=8),
            grids.Column(heading="deletes", importance=2, is_number=True),
            grids.Column(heading="size", importance=4, is_number=True),
            grids.Column(heading="files", importance=1, is_number=True),
            grids.Column(heading="completion time", importance=0),
        ),
        rows=tuple(_cells(each, zone, now_ms) for each in shown.instants),
    )


def _cells(shown: InstantRow, zone: time_zones.TimeZone | None, now_ms: int) -> tuple[str, ...]:
    return (
        shown.requested_time,
        shown.action,
        shown.state,
        quantities.ago_of(shown.completion_time, zone, now_ms),
        shown.operation or "",
        _count(shown.records),
        "" if shown.duration_ms is None else quantities.duration_text(shown.duration_ms),
        shown.writer_id or "",
        _count(shown.deletes),
        "" if shown.bytes is None else quantities.size_text(shown.bytes),
        _count(shown.files),
        shown.completion_time or "",
    )


def _count(count: int | None) -> str:
    return "" if count is None else quantities.count_text(count)
