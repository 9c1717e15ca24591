"""Consumers of a table: a row each, by name, and a line for each that matters to a clean."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hoodie.cli import grids, quantities
from hoodie.maintenance import consumers
from hoodie.services import table_stats


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """One consumer.

    Attributes:
        name: Its name.
        state: Whether cleaning waits for it: `holding`, `expired` or `damaged`.
        consumed: Completion time up to which it has read; null for a damaged file.
        position: The position there, from which it goes on; null for a damaged file, and for a
            consumer that keeps none.
        unread_writes: How many writes it has not read; null for a damaged file.
        unread_since: Completion time of the first of them; null if it has read all.
        is_more_unread: Whether more of them may be archived.
        lag_ms: For how long the first of them waits by the clock of this machine, in milliseconds.
        limit_ms: How long it may be silent, in milliseconds; null for a damaged file.
        updated_ms: When its file was last modified, by the storage.
        updated_by: Which process did that; null for a damaged file.
        passed_by: Requested time of a clean that deleted, or may delete, what it has not read.
        defect: What is wrong with its file.
    """

    name: str
    state: str
    consumed: str | None
    position: str | None
    unread_writes: int | None
    unread_since: str | None
    is_more_unread: bool
    lag_ms: int | None
    limit_ms: int | None
    updated_ms: int
    updated_by: str | None
    passed_by: str | None
    defect: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Consumers of a table.

    Attributes:
        table: The table's URI.
        consumers: By name.
    """

    table: str
    consumers: tuple[ConsumerRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvancedDocument:
    """What became of an update.

    Attributes:
        table: The table's URI.
        consumer: Its name.
        consumed: Completion time up to which it has read.
        limit_ms: How long it may be silent from now on, in milliseconds.
        is_new: Whether this command declared it.
        passed_by: Requested time of a clean that deleted, or may delete, what it has not read.
    """

    table: str
    consumer: str
    consumed: str
    limit_ms: int
    is_new: bool
    passed_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedDocument:
    """What was removed.

    Attributes:
        table: The table's URI.
        consumer: Its name.
        is_removed: Whether there was such a consumer.
    """

    table: str
    consumer: str
    is_removed: bool


def row(found: table_stats.ConsumerStats) -> ConsumerRow:
    """Return the row of a consumer."""
    consumer, lag = found.consumer, found.lag
    record = consumer.record
    return ConsumerRow(
        name=consumer.name,
        state=found.state.value,
        consumed=None if record is None else record.consumed,
        position=None if record is None else record.position or None,
        unread_writes=None if lag is None else lag.writes,
        unread_since=None if lag is None else lag.since,
        is_more_unread=lag is not None and lag.is_least,
        lag_ms=None if lag is None else lag.age_ms,
        limit_ms=None if record is None else record.limit_ms,
        updated_ms=consumer.updated_ms,
        updated_by=None if record is None else record.updated_by,
        passed_by=None if found.passed_by is None else found.passed_by.requested_time,
        defect=consumer.defect or None,
    )


def document(uri: str, found: Iterable[table_stats.ConsumerStats]) -> Document:
    """Return the document of consumers."""
    return Document(table=uri, consumers=tuple(map(row, found)))


def advanced(uri: str, found: consumers.Advanced) -> AdvancedDocument:
    """Return the document of an update."""
    record = found.consumer.record
    assert record is not None, found
    return AdvancedDocument(
        table=uri,
        consumer=record.consumer,
        consumed=record.consumed,
        limit_ms=record.limit_ms,
        is_new=found.is_new,
        passed_by=None if found.passed_by is None else found.passed_by.requested_time,
    )


def grid(shown: Document) -> grids.Grid:
    """Return the consumers as texts."""
    return grids.Grid(
        columns=(
            grids.Column(heading="consumer", width_min=8),
            grids.Column(
                heading="state", styles={"holding": "green", "expired": "yellow", "damaged": "red"}
            ),
            grids.Column(heading="consumed", importance=5),
            grids.Column(heading="unread", importance=4, is_number=True),
            grids.Column(heading="for", importance=3),
            grids.Column(heading="limit", importance=2),
            grids.Column(heading="missed by clean", importance=6),
            grids.Column(heading="updated by", importance=0, width_min=8),
            grids.Column(heading="position", importance=1, width_min=8),
        ),
        rows=tuple(
            (
                each.name,
                each.state,
                each.consumed or "",
                _unread(each),
                quantities.duration_text(each.lag_ms) if each.lag_ms else "",
                "" if each.limit_ms is None else quantities.duration_text(each.limit_ms),
                each.passed_by or "",
                each.updated_by or "",
                each.position or "",
            )
            for each in shown.consumers
        ),
    )


def _unread(shown: ConsumerRow) -> str:
    if shown.unread_writes is None:
        return ""
    return f"{shown.unread_writes}{'+' if shown.is_more_unread else ''}"


def advanced_lines(shown: AdvancedDocument) -> Iterator[str]:
    """Yield what an update did."""
    verb = "declared consumer" if shown.is_new else "consumer"
    yield (
        f"{verb} {shown.consumer} has read up to {shown.consumed}; a clean waits for its next "
        f"update for {quantities.duration_text(shown.limit_ms)}"
    )


def passed_line(consumer: str, passed_by: str) -> str:
    """Return the warning about a consumer that a clean has passed."""
    return (
        f"clean {passed_by} deleted, or may delete, file versions that consumer {consumer} has not "
        "read: read the whole table, then advance the consumer"
    )


def lines(shown: Iterable[ConsumerRow]) -> Iterator[str]:
    """Yield what consumers mean to the next clean."""
    for each in shown:
        match consumers.State(each.state):
            case consumers.State.HOLDING:
                yield f"consumer: {each.name} has read up to {each.consumed}; a clean waits for it"
            case consumers.State.EXPIRED:
                yield (
                    f"consumer: {each.name} was silent for longer than its limit, and holds "
                    "nothing back"
                )
            case consumers.State.DAMAGED:
                yield f"consumer: {each.name} holds back every clean: {each.defect}"
        if each.passed_by is not None:
            yield f"consumer: {passed_line(each.name, each.passed_by)}"
