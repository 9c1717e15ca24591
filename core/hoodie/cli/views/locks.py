"""A table's lock and who has it: a document, and a line for each thing that is known."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.cli import quantities
from hoodie.model import settings, table_config
from hoodie.services import lock_breaking
from hoodie.transaction.locks import inspection

_PATIENCE = (
    "hoodie.write.lock.wait_time_ms",
    "hoodie.write.lock.client.num_retries",
    "hoodie.write.lock.client.wait_time_ms_between_retry",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRow:
    """Who has the lock.

    Attributes:
        id: For `hoodie lock break --holder`.
        owner: What people know the holder by.
        host: Of its process; None where the lock does not tell.
        pid: Of its process; None where the lock does not tell.
        since: When it took the lock; None where the lock does not tell.
        silence_ms: Since its last sign of life; None where the lock keeps none.
        liveness: alive, may be alive, or dead.
        evidence: Why.
        release: What would give the lock to others.
    """

    id: str
    owner: str
    host: str | None
    pid: int | None
    since: str | None
    silence_ms: int | None
    liveness: str
    evidence: str
    release: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A table's lock.

    Attributes:
        table: The table's URI.
        lock: Which it is, and where.
        purpose: What it is there for.
        holder: The holder; None if it is free.
        is_broken: Whether it was taken from the holder just now.
        settings: How a writer with these options tries for it, by Hudi's keys.
    """

    table: str
    lock: str
    purpose: str
    holder: HolderRow | None
    is_broken: bool
    settings: Mapping[str, str]


def document(
    uri: str,
    config: table_config.TableConfig,
    state: lock_breaking.LockState,
    write_settings: settings.WriteSettings,
    *,
    is_broken: bool,
) -> Document:
    """Return the document of a lock that was looked at, or broken."""
    properties = settings.to_properties(write_settings)
    holding = state.holding
    return Document(
        table=uri,
        lock=state.description,
        purpose=_purpose(config),
        holder=None if holding is None else _row(holding),
        is_broken=is_broken and holding is not None,
        settings={key: text for key, text in properties.items() if key in _PATIENCE},
    )


def _row(holding: inspection.Holding) -> HolderRow:
    return HolderRow(
        id=holding.holder.id,
        owner=holding.holder.name,
        host=holding.holder.host,
        pid=holding.holder.pid,
        since=None if holding.since_ms is None else _time_text(holding.since_ms),
        silence_ms=holding.silence_ms,
        liveness=holding.liveness.value,
        evidence=holding.evidence,
        release=holding.release,
    )


def lines(shown: Document) -> list[str]:
    """Return what is known, a line each."""
    holder = shown.holder
    if holder is None:
        return [
            f"the {shown.lock} is free",
            f"purpose    {shown.purpose}",
            *_patience(shown),
        ]
    if shown.is_broken:
        return [f"took the {shown.lock} from {holder.owner}"]
    silence = None
    if holder.silence_ms is not None:
        silence = f"{quantities.duration_text(holder.silence_ms)} ago"
    known = {
        "lock": shown.lock,
        "purpose": shown.purpose,
        "owner": holder.owner,
        "process": None if holder.pid is None else f"{holder.pid} on {holder.host}",
        "since": holder.since,
        "last sign": silence,
        "state": f"{holder.liveness}: {holder.evidence}",
        "released": f"when {holder.release}" if holder.liveness != _DEAD else holder.release,
        "holder id": holder.id,
    }
    width = max(map(len, known))
    return [
        *(f"{name:<{width}}  {text}" for name, text in known.items() if text is not None),
        *_patience(shown),
    ]


def _purpose(config: table_config.TableConfig) -> str:
    if config.chain is None:
        return "keeps all writers apart"
    if config.has_foreign_writers:
        return (
            "keeps other engines and hoodie apart; the table's chain keeps hoodie's writers apart"
        )
    return "makes retries rare; the table's chain keeps all writers apart, with or without it"


def _patience(shown: Document) -> list[str]:
    """Return what is in effect for writers, wherever it comes from."""
    return [f"in effect  {key}={text}" for key, text in shown.settings.items()]


_DEAD = inspection.Liveness.DEAD.value


def _time_text(epoch_ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(epoch_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
