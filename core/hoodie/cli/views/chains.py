"""The chain: a row a change, in the order in which they were made."""

from collections.abc import Iterable, Mapping
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
        properties: What it changes in the table's properties; null removes a key.
        is_last: Whether it ends the chain.
        foreign: Completed by another engine since the epoch before.
        annulled: Of the epoch before: what another engine's changes kept from being published.
        boundary: The first epoch that was kept at the time.
        removals: Names of the files of savepoints, and of a plan, that it deletes.
    """

    number: int
    time: str
    author: str
    files: tuple[str, ...]
    properties: Mapping[str, str | None]
    is_last: bool
    foreign: tuple[str, ...]
    annulled: tuple[str, ...]
    boundary: int
    removals: tuple[str, ...] = ()


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
            files=tuple(map(_name, (shown.path for shown in each.publications))),
            properties=each.properties,
            is_last=each.is_last,
            foreign=each.foreign,
            annulled=tuple(map(_name, each.annulled)),
            boundary=each.boundary,
            removals=tuple(map(_name, each.deleted)),
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
            grids.Column(heading="change"),
        ),
        rows=tuple(
            (str(each.number), each.time, each.author, "\n".join(_changes(each)))
            for each in shown.epochs
        ),
    )


def _changes(row: EpochRow) -> list[str]:
    found = [*row.files, *(f"{name} deleted" for name in row.removals)]
    found += [
        f"{key} removed" if value is None else f"{key}={value}"
        for key, value in row.properties.items()
    ]
    if row.is_last:
        found.append("the end of the chain")
    found += [f"since the epoch before, by another engine: {name}" for name in row.foreign]
    found += [f"not published, of the epoch before: {name}" for name in row.annulled]
    return found


def _name(path: str) -> str:
    return path.rpartition("/")[2]
