"""Instants: the actions on a table's timeline and the times they are known by.

Terms:
    requested time   names an action; 17 digits `yyyyMMddHHmmssSSS`, UTC in tables of ours
    completion time  when it took effect; part of the completed file's name (timeline layout 2)
    pending          requested or inflight

Times are compared as strings of equal length. Names of files hold some of them in 14 digits, from
writers before 0.10 and from bootstraps: such a name is kept beside the time. Source: RFC-66;
`HoodieInstantTimeGenerator.java`.
"""

import enum
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NewType

from hoodie import errors

InstantTime = NewType("InstantTime", str)
"""A 17-digit time, requested or completion."""

_SECONDS_FORMAT = "%Y%m%d%H%M%S"
_TIME = re.compile(r"\d{14}(\d{3})?", re.ASCII)
_DIGITS = 17

SHORT_ENDING = "999"
"""The milliseconds that a time of 14 digits stands for."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Action(enum.Enum):
    """What an instant does, by the name in its files' extension."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"

    __hash__ = object.__hash__  # There is one of each; the hash of `Enum` is code of Python.

    @property
    def completed(self) -> "Action":
        """The action's name once it is completed: a compaction becomes a commit."""
        return _COMPLETED_AS.get(self, self)

    @property
    def is_write(self) -> bool:
        """Whether it adds or replaces data files."""
        return self in _WITH_DATA_FILES


_COMPLETED_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}
_WITH_DATA_FILES = (*_COMPLETED_AS, *_COMPLETED_AS.values())

WRITES = (Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT)
"""Actions that writers begin, as table services do the others."""


class State(enum.Enum):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"

    __hash__ = object.__hash__  # As of an action.


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """One action on the timeline, in the furthest state seen.

    Attributes:
        requested_time: Its name.
        action: As its furthest state's file is named: a finished compaction is a COMMIT.
        state: The furthest state.
        completion_time: Set exactly when the state is COMPLETED.
        short_name: The requested time as names of files hold it, where that is 14 digits.
        short_completion: The completion time likewise.
    """

    requested_time: InstantTime
    action: Action
    state: State
    completion_time: InstantTime | None = None
    short_name: str | None = None
    short_completion: str | None = None

    def __post_init__(self) -> None:
        assert (self.completion_time is not None) == (self.state is State.COMPLETED)
        assert self.short_completion is None or self.completion_time is not None

    def pending_in(self, state: State) -> "Instant":
        """Return the instant as it is, or was, in a state before completion."""
        return replace(self, state=state, completion_time=None, short_completion=None)

    @property
    def is_completed(self) -> bool:
        """Whether it took effect."""
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        """Whether it is requested or inflight."""
        return self.state is not State.COMPLETED

    def __str__(self) -> str:
        return f"{self.requested_time} {self.action.value} {self.state.value}"


def format_time(epoch_ms: int) -> InstantTime:
    """Return the 17-digit UTC text of a time in milliseconds since the epoch."""
    moment = _EPOCH + timedelta(milliseconds=epoch_ms)
    return InstantTime(f"{moment:{_SECONDS_FORMAT}}{moment.microsecond // 1000:03d}")


def parse_time(text: str) -> int:
    """Return the milliseconds since the epoch of a UTC instant time of 14 or 17 digits.

    Raises:
        InvalidInputError: The text is no instant time.
    """
    try:
        checked = checked_time(text)
        seconds = datetime.strptime(checked[:14], _SECONDS_FORMAT).replace(tzinfo=UTC)
    except ValueError as error:
        raise errors.InvalidInputError(
            f"{text!r} is not an instant time yyyyMMddHHmmssSSS"
        ) from error
    return (seconds - _EPOCH) // timedelta(milliseconds=1) + int(checked[14:])


def short_text(text: str) -> str | None:
    """Return the text of an instant time if it is one of 14 digits."""
    return None if len(text) == _DIGITS else text


def checked_time(text: str) -> InstantTime:
    """Return the text as an instant time; 14 digits are padded with 999 as Hudi does.

    Raises:
        InvalidInputError: The text has another form.
    """
    if not _TIME.fullmatch(text):
        raise errors.InvalidInputError(f"{text!r} is not an instant time yyyyMMddHHmmssSSS")
    return whole_time(text)


def whole_time(digits: str) -> InstantTime:
    """Return the instant time of 14 or 17 digits, as `checked_time` does."""
    return InstantTime(digits if len(digits) == _DIGITS else f"{digits}{SHORT_ENDING}")


def previous_time(time: InstantTime) -> InstantTime:
    """Return the instant time one millisecond earlier."""
    return format_time(parse_time(time) - 1)


def next_time(time: InstantTime) -> InstantTime:
    """Return the instant time one millisecond later."""
    return format_time(parse_time(time) + 1)
