"""What `hoodie drop` deletes: a document, and a line."""

from dataclasses import dataclass

from hoodie.cli import quantities


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDocument:
    """What a drop deleted, or would delete.

    Attributes:
        table: The table's URI.
        name: The table's name; None where an earlier drop that was interrupted went on.
        is_dry_run: Whether nothing was deleted.
        files: All files below the root.
        bytes: Their summed size.
    """

    table: str
    name: str | None
    is_dry_run: bool
    files: int
    bytes: int


def sizes(shown: DropDocument) -> str:
    """Return how much that is, in words."""
    return f"{quantities.counted(shown.files, 'file')}, {quantities.size_text(shown.bytes)}"


def line(shown: DropDocument) -> str:
    """Return the answer in a line."""
    what = f"table {shown.name} in {shown.table}" if shown.name else f"the rest of {shown.table}"
    if shown.is_dry_run:
        return f"would delete {what}: {sizes(shown)}"
    return f"deleted {what}: {sizes(shown)}"
