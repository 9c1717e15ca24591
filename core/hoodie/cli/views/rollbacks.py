"""What rollbacks did: a document, and a line each."""

from dataclasses import dataclass

from hoodie.cli import quantities
from hoodie.model import results


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRow:
    """One instant that was taken back.

    Attributes:
        instant: The rollback's requested time.
        completion_time: When it took effect.
        target: What it took back.
        action: What that was to do.
        deleted: Paths of the files that are gone, below the table's root.
    """

    instant: str
    completion_time: str
    target: str
    action: str
    deleted: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What became of what had failed.

    Attributes:
        table: The table's URI.
        rollbacks: Those that were completed, in that order.
        passed_over: Why others were not taken back.
        leftovers: Files removed of instants that are not pending.
        findings: What one should know though nothing failed.
    """

    table: str
    rollbacks: tuple[RollbackRow, ...]
    passed_over: tuple[str, ...] = ()
    leftovers: int = 0
    findings: tuple[str, ...] = ()


def document(uri: str, found: results.RollbackResults) -> Document:
    """Return the document of what was done."""
    return Document(
        table=uri,
        rollbacks=tuple(
            RollbackRow(
                instant=each.instant.requested_time,
                completion_time=each.instant.completion_time or "",
                target=each.target,
                action=each.action.value,
                deleted=each.deleted,
            )
            for each in found.done
        ),
        passed_over=found.passed_over,
        leftovers=found.leftovers,
        findings=tuple(finding for each in found.done for finding in each.findings),
    )


def lines(shown: Document) -> list[str]:
    """Return a line for each rollback, and one where there was none or something was left."""
    found = [
        f"rolled back {each.target} {each.action}: {quantities.counted(len(each.deleted), 'file')} "
        f"deleted, by rollback {each.instant}"
        for each in shown.rollbacks
    ]
    if shown.leftovers:
        found.append(f"removed {quantities.counted(shown.leftovers, 'file')} of ended instants")
    return found or ["nothing to roll back"]
