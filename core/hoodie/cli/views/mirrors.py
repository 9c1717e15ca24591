"""A mirror: what a run did or would do, and what of the table it lacks."""

from collections.abc import Iterator
from dataclasses import dataclass

from hoodie.services.mirrors import values


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What became of a mirror, or would.

    Attributes:
        table: The table's URI.
        is_dry_run: Whether nothing was done.
        metadata: URI of the Iceberg table's metadata; null for one that is not there yet.
        snapshot_id: Of its newest snapshot; null where it has none yet.
        is_new: Whether this run made that snapshot.
        instant: Requested time of the newest write that it has; null for none.
        completion_time: Up to which it has followed the table.
        files: How many base files it names.
        added: How many were added.
        removed: How many were removed.
        snapshots: How many snapshots it has.
        dropped: How many were dropped.
        unmirrored_file_groups: File groups with rows in log files alone.
        unmirrored_log_bytes: The size of these log files.
    """

    table: str
    is_dry_run: bool
    metadata: str | None
    snapshot_id: int | None
    is_new: bool
    instant: str | None
    completion_time: str
    files: int
    added: int
    removed: int
    snapshots: int
    dropped: int
    unmirrored_file_groups: int
    unmirrored_log_bytes: int


def document(uri: str, done: values.Mirrored, *, is_dry_run: bool) -> Document:
    """Return what is shown of a mirror."""
    return Document(
        table=uri,
        is_dry_run=is_dry_run,
        metadata=done.location or None,
        snapshot_id=done.snapshot_id,
        is_new=done.is_new,
        instant=done.instant,
        completion_time=done.completion_time,
        files=done.files,
        added=done.added,
        removed=done.removed,
        snapshots=done.kept,
        dropped=done.dropped,
        unmirrored_file_groups=done.unmirrored.groups,
        unmirrored_log_bytes=done.unmirrored.log_bytes,
    )


def lines(done: values.Mirrored, *, is_dry_run: bool) -> Iterator[str]:
    """Yield it for people."""
    yield f"the mirror {values.summary(done, is_dry_run=is_dry_run)}"
    if done.location:
        yield f"metadata: {done.location}"
