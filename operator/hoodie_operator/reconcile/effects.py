"""What a decision asks the outside to do; every effect may be carried out again without harm."""

from dataclasses import dataclass
from typing import TypeAlias

from hoodie.model import jobs
from hoodie_operator.api import conditions, fields, objects
from hoodie_operator.reconcile import effective, facts


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRun:
    """Start an attempt, unless one of this id was ever started.

    Attributes:
        id: Which.
        fence_number: Higher than that of every earlier attempt for the same writer or action, of
            an earlier object of the same name, too.
        table: What every run of the table is told.
        work: What to do.
        engine: What on.
        writer_id: Of a Writer's run.
        action_id: Of a TableAction's run.
    """

    id: facts.RunId
    fence_number: int
    table: effective.EffectiveTable
    work: jobs.Work
    engine: jobs.EngineSpec
    writer_id: str | None
    action_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRun:
    """Ask an attempt to stop; kill it when it was asked before and its grace is over.

    Attributes:
        id: Which.
        is_killed: Whether its grace is over.
        reason: For people.
    """

    id: facts.RunId
    is_killed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStatus:
    """Make this the status of an object; nothing when it is already."""

    key: objects.ObjectKey
    uid: str
    status: conditions.Status


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateObject:
    """Create an object, unless one of its key is there."""

    key: objects.ObjectKey
    owner: objects.Owner
    spec: fields.Block


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveObject:
    """Remove an object that is to go, or that nobody needs any more, and what it owns."""

    key: objects.ObjectKey
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLock:
    """See to it that a lock server of our own runs for a LockProvider."""

    key: objects.ObjectKey
    uid: str


Effect: TypeAlias = StartRun | StopRun | SetStatus | CreateObject | RemoveObject | ServeLock
