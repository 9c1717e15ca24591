"""What a check found: a line each."""

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.cli import quantities
from hoodie.model import results


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a check of a table found.

    Attributes:
        table: The table's URI.
        findings: What is wrong.
        notes: What is worth knowing though nothing is wrong.
    """

    table: str
    findings: tuple[results.Finding, ...]
    notes: tuple[results.Finding, ...]


def document(uri: str, found: Iterable[results.Finding]) -> Document:
    """Return the document of what was found."""
    everything = tuple(found)
    return Document(
        table=uri,
        findings=tuple(each for each in everything if each.severity is not results.Severity.NOTE),
        notes=tuple(each for each in everything if each.severity is results.Severity.NOTE),
    )


def lines(shown: Document) -> list[str]:
    """Return a line for each finding and note, the findings first."""
    return [
        f"{each.severity.value}: {each.subject}: {each.message}"
        for each in (*shown.findings, *shown.notes)
    ]


def summary(shown: Document) -> str:
    """Return what is said in the end."""
    notes = f", {quantities.counted(len(shown.notes), 'note')}" if shown.notes else ""
    found = quantities.counted(len(shown.findings), "finding") if shown.findings else "no findings"
    return f"{found}{notes}"
