"""The history of a row: a line for each write that changed it, with the columns that it changed."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from hoodie.cli import grids, quantities
from hoodie.model import time_zones
from hoodie.model.change_data import AFTER, BEFORE
from hoodie.read import history

_NULL = "null"
_WIDTH_MIN = 38
_DONE = {
    history.Event.INSERT: "inserted",
    history.Event.UPDATE: "updated",
    history.Event.DELETE: "deleted",
    history.Event.UNKNOWN: "unknown",
    history.Event.KNOWN: "as of then",
}
_STYLES = {"deleted": "red", "unknown": "yellow", "as of then": "dim"}


def grid(rows: pa.Table, zone: time_zones.TimeZone | None, now_ms: int) -> grids.Grid:
    """Return a history, as `read.history.schema_of` says, as texts.

    Args:
        rows: The history.
        zone: The timeline's; None where it is not known.
        now_ms: The time, in milliseconds since the epoch.
    """
    return grids.Grid(
        columns=(
            grids.Column(heading="completed"),
            grids.Column(heading="instant", importance=3),
            grids.Column(heading="operation", importance=1),
            grids.Column(heading="writer", importance=0, width_min=8),
            grids.Column(heading="partition", importance=2),
            grids.Column(heading="row", styles=_STYLES),
            grids.Column(heading="columns", width_min=_WIDTH_MIN),
        ),
        rows=tuple(_cells(row, zone, now_ms) for row in rows.to_pylist()),
    )


def notes(rows: pa.Table) -> Iterator[str]:
    """Yield what is not known, and why."""
    for note in rows.filter(_is(rows, history.Event.UNKNOWN)).column(history.NOTE).to_pylist():
        yield f"note: {note}"


def change_count(rows: pa.Table) -> int:
    """Return how many changes a history has."""
    others = {history.Event.UNKNOWN.value, history.Event.KNOWN.value}
    return sum(each not in others for each in rows.column(history.EVENT).to_pylist())


def _is(rows: pa.Table, event: history.Event) -> pa.Array:
    return pa.array([each == event.value for each in rows.column(history.EVENT).to_pylist()])


def _cells(
    row: Mapping[str, object], zone: time_zones.TimeZone | None, now_ms: int
) -> tuple[str, ...]:
    event = history.Event(row[history.EVENT])
    return (
        quantities.ago_of(_text(row[history.COMPLETED]) or None, zone, now_ms),
        _text(row[history.INSTANT]),
        _text(row[history.OPERATION]),
        _text(row[history.WRITER]),
        _text(row["partition_path"]),
        _DONE[event],
        _changed(event, row),
    )


def _changed(event: history.Event, row: Mapping[str, object]) -> str:
    """Return the columns that a write changed, or the row where it is another all over."""
    before, after = row[BEFORE], row[AFTER]
    if event is history.Event.UNKNOWN or not (before or after):
        return _text(row[history.NOTE])
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return ", ".join(
            f"{name}: {_value(before[name])} → {_value(after[name])}"
            for name in after
            if not _is_same(before[name], after[name])
        )
    image = after or before
    assert isinstance(image, Mapping), row
    return ", ".join(f"{name}: {_value(each)}" for name, each in image.items())


def _is_same(one: object, other: object) -> bool:
    return one == other or (one != one and other != other)  # noqa: PLR0124 - NaN is the same


def _value(value: object) -> str:
    return _NULL if value is None else str(value)


def _text(value: object) -> str:
    return "" if value is None else str(value)
