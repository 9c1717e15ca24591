"""What archiving did: a document, and a line each."""

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.cli import quantities
from hoodie.model import instants


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRow:
    """One instant that left the active timeline, or is to.

    Attributes:
        instant: Its requested time.
        action: What it did.
        completion_time: When it took effect.
    """

    instant: str
    action: str
    completion_time: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What was archived.

    Attributes:
        table: The table's URI.
        is_dry_run: Whether nothing was changed.
        archived: By requested time.
        held_back: What keeps further instants on the active timeline, a sentence each.
        leftovers: Files removed of instants that are not pending.
    """

    table: str
    is_dry_run: bool
    archived: tuple[ArchivedRow, ...]
    held_back: tuple[str, ...]
    leftovers: int = 0


def document(
    uri: str,
    archived: Iterable[instants.Instant],
    held_back: Iterable[str],
    *,
    is_dry_run: bool,
    leftovers: int = 0,
) -> Document:
    """Return the document of what was done, or would be."""
    rows = (
        ArchivedRow(
            instant=each.requested_time,
            action=each.action.value,
            completion_time=each.completion_time or "",
        )
        for each in archived
    )
    return Document(
        table=uri,
        is_dry_run=is_dry_run,
        archived=tuple(rows),
        held_back=tuple(held_back),
        leftovers=leftovers,
    )


def lines(shown: Document) -> list[str]:
    """Return a line of what was archived, one of what was removed, and one for each hold."""
    verb = "would archive" if shown.is_dry_run else "archived"
    found = ["nothing to archive"]
    if shown.archived:
        count = quantities.counted(len(shown.archived), "instant")
        first, last = shown.archived[0].instant, shown.archived[-1].instant
        found = [f"{verb} {count}, {first} to {last}"]
    if shown.leftovers:
        found.append(f"removed {quantities.counted(shown.leftovers, 'file')} of ended instants")
    return found + [f"held back: {text}" for text in shown.held_back]
