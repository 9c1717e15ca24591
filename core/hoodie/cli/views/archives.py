"""What archiving did: a document, and a line each."""

from dataclasses import dataclass

from hoodie.cli import quantities
from hoodie.model import results


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
class TrimmedRow:
    """One file of the history that was too old.

    Attributes:
        file: Its name.
        first: Requested time of its first instant.
        last: Requested time of its last instant.
        instants: How many it holds.
    """

    file: str
    first: str
    last: str
    instants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What was archived, and trimmed.

    Attributes:
        table: The table's URI.
        is_dry_run: Whether nothing was changed.
        archived: By requested time.
        trimmed: The oldest first.
        held_back: What keeps further instants, or further history, a sentence each.
        leftovers: Files removed of instants that are not pending.
    """

    table: str
    is_dry_run: bool
    archived: tuple[ArchivedRow, ...]
    trimmed: tuple[TrimmedRow, ...]
    held_back: tuple[str, ...]
    leftovers: int = 0


def document(uri: str, done: results.ArchiveResult, *, is_dry_run: bool) -> Document:
    """Return the document of what was done, or would be."""
    archived = (
        ArchivedRow(
            instant=each.requested_time,
            action=each.action.value,
            completion_time=each.completion_time or "",
        )
        for each in done.archived
    )
    trimmed = (
        TrimmedRow(file=each.name, first=each.first, last=each.last, instants=each.count)
        for each in done.trimmed
    )
    return Document(
        table=uri,
        is_dry_run=is_dry_run,
        archived=tuple(archived),
        trimmed=tuple(trimmed),
        held_back=done.holds,
        leftovers=done.leftovers,
    )


def lines(shown: Document) -> list[str]:
    """Return a line of what was archived, trimmed and removed, and one for each hold."""
    verb = "would archive" if shown.is_dry_run else "archived"
    found = ["nothing to archive"]
    if shown.archived:
        count = quantities.counted(len(shown.archived), "instant")
        first, last = shown.archived[0].instant, shown.archived[-1].instant
        found = [f"{verb} {count}, {first} to {last}"]
    if shown.trimmed:
        verb = "would delete" if shown.is_dry_run else "deleted"
        count = quantities.counted(sum(each.instants for each in shown.trimmed), "instant")
        first, last = shown.trimmed[0].first, max(each.last for each in shown.trimmed)
        found.append(f"{verb} {count} of the history, {first} to {last}")
    if shown.leftovers:
        found.append(f"removed {quantities.counted(shown.leftovers, 'file')} of ended instants")
    return found + [f"held back: {text}" for text in shown.held_back]
