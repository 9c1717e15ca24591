"""The chain: a row a change, in the order in which they were made."""

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.cli import grids
from hoodie.timeline import epochs as chain_epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One change.

    Attributes:
        number: Of its epoch.
        time: That it gave; empty for the table's creation.
        author: Whose it is, and what it did.
        files: Names of the files that it puts on the timeline.
        boundary: The first epoch that was kept at the time.
    """

    number: int
    time: str
    author: str
    files: tuple[str, ...]
    boundary: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The newest part of a table's chain.

    Attributes:
        table: The table's URI.
        epochs: By number.
    """

    table: str
    epochs: tuple[EpochRow, ...]


def document(uri: str, epochs: Iterable[chain_epochs.Epoch]) -> Document:
    """Return the document of some epochs of a table."""
    rows = (
        EpochRow(
            number=each.number,
            time=each.time,
            author=each.author,
            files=tuple(shown.path.rpartition("/")[2] for shown in each.publications),
            boundary=each.boundary,
        )
        for each in epochs
    )
    return Document(table=uri, epochs=tuple(rows))


def grid(shown: Document) -> grids.Grid:
    """Return the changes as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="epoch", is_number=True),
            grids.Column(heading="time"),
            grids.Column(heading="author", importance=1, width_min=8),
            grids.Column(heading="on the timeline"),
        ),
        rows=tuple(
            (str(each.number), each.time, each.author, ", ".join(each.files))
            for each in shown.epochs
        ),
    )
