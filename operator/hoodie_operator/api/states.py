"""The states of every kind, and what each means to people and tools: one table.

A state alone decides which conditions stand, as kstatus, Flux and Argo CD read them; the reason
says why an object is in it. Documents, health checks and tests are made from this table.

    kind x state -> Ready, Reconciling, Stalled, Suspended; kstatus; Argo CD health; time limit
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hoodie_operator.api.conditions import ConditionStatus
from hoodie_operator.api.reasons import Reason


class State(enum.Enum):
    """Where an object is."""

    PENDING = "Pending"
    PROVISIONING = "Provisioning"
    BLOCKED = "Blocked"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    BACKING_OFF = "BackingOff"
    READY = "Ready"
    COMPLETED = "Completed"
    SUCCEEDED = "Succeeded"
    CANCELLED = "Cancelled"
    BUILDING = "Building"
    DROPPING = "Dropping"
    ABSENT = "Absent"
    SAVED = "Saved"
    EXPIRED = "Expired"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    STALLED = "Stalled"
    FAILED = "Failed"


class Health(enum.Enum):
    """Argo CD's health."""

    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    SUSPENDED = "Suspended"
    DEGRADED = "Degraded"


class Kstatus(enum.Enum):
    """What kstatus, and with it Flux, computes."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a state means.

    Attributes:
        ready: Status of the condition Ready.
        is_reconciling: Whether the condition Reconciling stands.
        is_stalled: Whether the condition Stalled stands.
        is_suspended: Whether the condition Suspended stands.
        kstatus: What kstatus makes of these.
        health: What Argo CD is told.
        limit_ms: How long an object may stay here with one reason; then it is Stalled with
            TIMED_OUT. None where an end is sure: a state that is no waiting, or one whose run
            has limits of its own.
        reasons: The reasons it may have.
    """

    ready: ConditionStatus
    is_reconciling: bool = False
    is_stalled: bool = False
    is_suspended: bool = False
    kstatus: Kstatus
    health: Health
    limit_ms: int | None = None
    reasons: frozenset[Reason]


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS


def _waiting(*reasons: Reason, limit_ms: int | None = None) -> Row:
    return Row(
        ready=ConditionStatus.FALSE,
        is_reconciling=True,
        kstatus=Kstatus.IN_PROGRESS,
        health=Health.PROGRESSING,
        limit_ms=limit_ms,
        reasons=frozenset(reasons),
    )


def _good(*reasons: Reason) -> Row:
    return Row(
        ready=ConditionStatus.TRUE,
        kstatus=Kstatus.CURRENT,
        health=Health.HEALTHY,
        reasons=frozenset(reasons),
    )


def _stalled(*reasons: Reason) -> Row:
    return Row(
        ready=ConditionStatus.FALSE,
        is_stalled=True,
        kstatus=Kstatus.FAILED,
        health=Health.DEGRADED,
        reasons=frozenset(reasons),
    )


_SUSPENDED: Final = Row(
    ready=ConditionStatus.TRUE,
    is_suspended=True,
    kstatus=Kstatus.CURRENT,
    health=Health.SUSPENDED,
    reasons=frozenset({Reason.SUSPENDED, Reason.TABLE_SUSPENDED}),
)
_DELETING: Final = Row(
    ready=ConditionStatus.FALSE,
    is_reconciling=True,
    kstatus=Kstatus.TERMINATING,
    health=Health.PROGRESSING,
    reasons=frozenset({Reason.DELETING, Reason.IN_USE}),
)
_OWN_RUN: Final = (
    Reason.POD_NOT_CREATED,
    Reason.UNSCHEDULABLE,
    Reason.IMAGE_NOT_PULLED,
    Reason.CONTAINER_NOT_CREATED,
    Reason.STOPPING,
    Reason.BACKING_OFF,
    Reason.WRITE_CONFLICT,
    Reason.TABLE_BUSY,
)
"""What holds up the run by which a table is created, or its data deleted."""

_DELETING_DATA: Final = replace(
    _DELETING,
    reasons=_DELETING.reasons.union(
        _OWN_RUN,
        {
            Reason.DATA_KEPT,
            Reason.LOCK_NOT_READY,
            Reason.REFERENCE_NOT_FOUND,
        },
    ),
)
_RUN_STATES: Final = {
    # Each of these has a limit of its own, after which the attempt is stopped.
    State.STARTING: _waiting(
        Reason.STARTING,
        Reason.POD_NOT_CREATED,
        Reason.UNSCHEDULABLE,
        Reason.IMAGE_NOT_PULLED,
        Reason.CONTAINER_NOT_CREATED,
    ),
    State.RUNNING: _waiting(Reason.RUNNING),
    State.STOPPING: _waiting(Reason.STOPPING),
    State.BACKING_OFF: _waiting(Reason.BACKING_OFF, Reason.WRITE_CONFLICT),
}

HUDI_TABLE: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.NOT_OBSERVED,
        Reason.REFERENCE_NOT_FOUND,
        Reason.LOCK_NOT_READY,
        Reason.STORAGE_UNREACHABLE,
        Reason.API_REFUSED,
        Reason.FENCED_OFF,
        limit_ms=10 * _MINUTE_MS,
    ),
    State.PROVISIONING: _waiting(Reason.CREATING, *_OWN_RUN),
    State.READY: _good(Reason.READY),
    State.SUSPENDED: _SUSPENDED,
    State.DELETING: _DELETING_DATA,
    State.STALLED: _stalled(
        Reason.INVALID_SPEC,
        Reason.REFERENCE_NOT_FOUND,
        Reason.PATH_NOT_ALLOWED,
        Reason.NOT_ALLOWED,
        Reason.ACCOUNT_NOT_ALLOWED,
        Reason.LOCATION_CONFLICT,
        Reason.TABLE_UNREADABLE,
        Reason.IMMUTABLE_MISMATCH,
        Reason.ALREADY_EXISTS,
        Reason.TABLE_NOT_FOUND,
        Reason.LOCK_NOT_READY,
        Reason.LOCK_NOT_SHARED,
        Reason.RUN_FAILED,
        Reason.POD_STATE_UNKNOWN,
        Reason.RETRIES_EXHAUSTED,
        Reason.TIMED_OUT,
    ),
}

WRITER: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.NOT_OBSERVED,
        Reason.REFERENCE_NOT_FOUND,
        Reason.STORAGE_UNREACHABLE,
        Reason.CONFIRMING,
        limit_ms=10 * _MINUTE_MS,
    ),
    State.BLOCKED: _waiting(
        Reason.TABLE_NOT_READY,
        Reason.TABLE_BUSY,
        Reason.LOCK_NOT_READY,
        Reason.OWNED_ELSEWHERE,
        Reason.API_REFUSED,
        Reason.FENCED_OFF,
        limit_ms=24 * _HOUR_MS,
    ),
    **_RUN_STATES,
    State.COMPLETED: _good(Reason.UP_TO_DATE),
    State.SUSPENDED: _SUSPENDED,
    State.DELETING: _DELETING,
    State.STALLED: _stalled(
        Reason.INVALID_SPEC,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.PATH_NOT_ALLOWED,
        Reason.NOT_ALLOWED,
        Reason.OPERATION_NOT_ALLOWED,
        Reason.SECOND_WRITER,
        Reason.DUPLICATE_WRITER_ID,
        Reason.SHARED_COLUMNS,
        Reason.SOURCE_NOT_FOUND,
        Reason.SOURCE_UNREADABLE,
        Reason.SCHEMA_MISMATCH,
        Reason.RUN_FAILED,
        Reason.POD_STATE_UNKNOWN,
        Reason.RETRIES_EXHAUSTED,
        Reason.TIMED_OUT,
    ),
}

TABLE_ACTION: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.NOT_OBSERVED,
        Reason.REFERENCE_NOT_FOUND,
        Reason.CONFIRMING,
        limit_ms=10 * _MINUTE_MS,
    ),
    State.BLOCKED: _waiting(
        Reason.TABLE_NOT_READY,
        Reason.TABLE_BUSY,
        Reason.LOCK_NOT_READY,
        Reason.OWNED_ELSEWHERE,
        Reason.API_REFUSED,
        Reason.FENCED_OFF,
        limit_ms=24 * _HOUR_MS,
    ),
    State.QUEUED: _waiting(Reason.QUEUED),
    **_RUN_STATES,
    State.SUCCEEDED: _good(Reason.SUCCEEDED, Reason.NOTHING_TO_DO),
    State.CANCELLED: _good(Reason.CANCELLED),
    State.SUSPENDED: replace(_SUSPENDED, reasons=_SUSPENDED.reasons | {Reason.AWAITING_APPROVAL}),
    State.DELETING: _DELETING,
    State.FAILED: _stalled(
        Reason.INVALID_SPEC,
        Reason.NOT_ALLOWED,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.OPERATION_NOT_ALLOWED,
        Reason.INDEX_REFUSED,
        Reason.DISABLED,
        Reason.INSTANT_NOT_FOUND,
        Reason.RUN_FAILED,
        Reason.POD_STATE_UNKNOWN,
        Reason.RETRIES_EXHAUSTED,
        Reason.TIMED_OUT,
    ),
}

POLICY: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.REFERENCE_NOT_FOUND,
        Reason.NOT_OBSERVED,
        Reason.API_REFUSED,
        limit_ms=10 * _MINUTE_MS,
    ),
    State.READY: _good(Reason.WATCHING),
    State.SUSPENDED: _SUSPENDED,
    State.DELETING: _DELETING,
    State.STALLED: _stalled(
        Reason.INVALID_SPEC,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.ACTION_FAILED,
        Reason.POLICY_CONFLICT,
        Reason.DISABLED,
        Reason.TIMED_OUT,
    ),
}

SAVEPOINT: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.NOT_OBSERVED,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.API_REFUSED,
        limit_ms=10 * _MINUTE_MS,
    ),
    State.PROVISIONING: _waiting(Reason.CREATING, Reason.ACTION_AT_WORK),
    State.SAVED: _good(Reason.SAVED),
    State.EXPIRED: _good(Reason.EXPIRED),
    State.SUSPENDED: _SUSPENDED,
    State.DELETING: _DELETING,
    State.STALLED: _stalled(
        Reason.INVALID_SPEC,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.ACTION_FAILED,
        Reason.SAVEPOINT_DELETED,
        Reason.TIMED_OUT,
    ),
}

INDEX_REQUEST: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.NOT_OBSERVED,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.STORAGE_UNREACHABLE,
        Reason.API_REFUSED,
        limit_ms=10 * _MINUTE_MS,
    ),
    # Each of these has a TableAction, whose states have limits of their own.
    State.BUILDING: _waiting(Reason.ACTION_AT_WORK),
    State.DROPPING: _waiting(Reason.ACTION_AT_WORK),
    State.READY: _good(Reason.READY),
    State.ABSENT: _good(Reason.READY),
    State.SUSPENDED: _SUSPENDED,
    State.DELETING: _DELETING,
    State.STALLED: _stalled(
        Reason.INVALID_SPEC,
        Reason.REFERENCE_NOT_FOUND,
        Reason.TABLE_NOT_READY,
        Reason.OPERATION_NOT_ALLOWED,
        Reason.INDEX_REFUSED,
        Reason.REQUEST_CONFLICT,
        Reason.BEHIND_OR_DAMAGED,
        Reason.ACTION_FAILED,
        Reason.TIMED_OUT,
    ),
}

LOCK_PROVIDER: Final[Mapping[State, Row]] = {
    State.PENDING: _waiting(
        Reason.NOT_OBSERVED,
        Reason.STARTING,
        Reason.LOCK_UNREACHABLE,
        Reason.API_REFUSED,
        limit_ms=2 * _MINUTE_MS,
    ),
    State.READY: _good(Reason.READY),
    State.DELETING: _DELETING,
    State.STALLED: _stalled(
        Reason.INVALID_SPEC, Reason.NOT_ALLOWED, Reason.LOCK_UNREACHABLE, Reason.TIMED_OUT
    ),
}

TABLE: Final[Mapping[str, Mapping[State, Row]]] = {
    "HudiTable": HUDI_TABLE,
    "Writer": WRITER,
    "CompactionPolicy": POLICY,
    "RetentionPolicy": POLICY,
    "Savepoint": SAVEPOINT,
    "IndexRequest": INDEX_REQUEST,
    "LockProvider": LOCK_PROVIDER,
    "TableAction": TABLE_ACTION,
}
"""Kind and state to what it means."""
