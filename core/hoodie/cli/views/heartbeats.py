"""Pending instants and their owners: a row each, oldest first."""

from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.model import results


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """One pending instant.

    Attributes:
        requested_time: Its name.
        action: What it is to do.
        state: Requested or inflight.
        is_alive: Whether somebody works on it, as far as can be known.
        heartbeat: What its heartbeat tells: beating, expired, proved dead or missing.
        silence_ms: Since the last sign of life; None where there is none.
        owner: Who works on it; None where nobody says so.
        remedy: What to do about it; None while it is to be left alone.
    """

    requested_time: str
    action: str
    state: str
    is_alive: bool
    heartbeat: str
    silence_ms: int | None
    owner: str | None
    remedy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What is pending on a table.

    Attributes:
        table: The table's URI.
        pending: By requested time.
    """

    table: str
    pending: tuple[PendingRow, ...]


def document(uri: str, found: Iterable[results.PendingInstant]) -> Document:
    """Return the document of what is pending."""
    return Document(
        table=uri,
        pending=tuple(
            PendingRow(
                requested_time=each.instant.requested_time,
                action=each.instant.action.value,
                state=each.instant.state.value,
                is_alive=each.is_alive,
                heartbeat=each.liveness,
                silence_ms=each.silence_ms,
                owner=each.owner,
                remedy=each.remedy.value if each.remedy else None,
            )
            for each in found
        ),
    )


def grid(shown: Document) -> grids.Grid:
    """Return the pending instants as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="requested"),
            grids.Column(heading="action"),
            grids.Column(heading="state", importance=1),
            grids.Column(heading="heartbeat", styles={"beating": "green", "expired": "red"}),
            grids.Column(heading="silent for", importance=2, is_number=True),
            grids.Column(heading="owner", importance=0, width_min=12),
        ),
        rows=tuple(_cells(each) for each in shown.pending),
    )


def _cells(shown: PendingRow) -> tuple[str, ...]:
    silence = "" if shown.silence_ms is None else quantities.duration_text(shown.silence_ms)
    return (
        shown.requested_time,
        shown.action,
        shown.state,
        shown.heartbeat,
        silence,
        shown.owner or "",
    )
