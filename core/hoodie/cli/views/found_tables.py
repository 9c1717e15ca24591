"""The tables below a folder: a document, and a grid."""

from collections.abc import Sequence
from dataclasses import dataclass

from hoodie.cli import grids
from hoodie.services import finding


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table.

    Attributes:
        path: Below the folder; `.` for the folder itself.
        name: Its name; None, as what follows, where it cannot be read.
        type: COPY_ON_WRITE or MERGE_ON_READ.
        version: Table version.
        record_key: Columns.
        partition_by: Columns.
        problem: Why it cannot be read.
    """

    path: str
    name: str | None = None
    type: str | None = None
    version: int | None = None
    record_key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTables:
    """The tables below a folder.

    Attributes:
        folder: Its URI.
        tables: Sorted by path.
    """

    folder: str
    tables: tuple[FoundTable, ...]


def document(folder: str, found: Sequence[finding.Found]) -> FoundTables:
    """Return what was found as a document."""
    return FoundTables(folder=folder, tables=tuple(map(_shown, found)))


def grid(shown: FoundTables) -> grids.Grid:
    """Return a row for each table."""
    return grids.Grid(
        columns=(
            grids.Column(heading="path"),
            grids.Column(heading="name", importance=2),
            grids.Column(heading="type", importance=2),
            grids.Column(heading="version", is_number=True),
            grids.Column(heading="record key"),
            grids.Column(heading="partition by"),
        ),
        rows=tuple(
            (
                each.path,
                each.name or "(cannot be read)",
                each.type or "",
                str(each.version or ""),
                ",".join(each.record_key),
                ",".join(each.partition_by),
            )
            for each in shown.tables
        ),
    )


def _shown(each: finding.Found) -> FoundTable:
    path = each.path or "."
    if each.config is None:
        return FoundTable(path=path, problem=each.problem)
    return FoundTable(
        path=path,
        name=each.config.name,
        type=each.config.table_type.value,
        version=each.config.version,
        record_key=tuple(each.config.record_key_fields),
        partition_by=tuple(each.config.partition_fields),
    )
