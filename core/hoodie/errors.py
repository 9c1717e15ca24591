"""What can go wrong, ordered by what the caller should do about it.

Every error carries a stable `kind` (for results, conditions and metrics) and the exit code that
programs end with when it reaches their edge. `EXIT_CODES` is the one table of them:

    0       done
    1       findings (`hoodie check`)
    2       usage
    10-59   the classes below
    70      our own bug (anything that is not a `HoodieError`)
"""

from typing import ClassVar, Self

EXIT_DONE = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70


class HoodieError(Exception):
    """Anything the library reports on purpose.

    Attributes:
        kind: A stable name of the class, in CamelCase, for programs.
        exit_code: What a program that ends with this error exits with.
        is_transient: Whether the same call may succeed later with nothing changed.
    """

    kind: ClassVar[str] = "Internal"
    exit_code: ClassVar[int] = EXIT_INTERNAL
    is_transient: ClassVar[bool] = False


class ConflictError(HoodieError):
    """Another process changed the state that this decision was based on: retry on fresh state."""

    kind = "Conflict"
    exit_code = 10
    is_transient = True


class WriteConflictError(ConflictError):
    """Another write of the same file groups was published first: write the batch again."""

    kind = "WriteConflict"
    exit_code = 17


class OvertakenError(ConflictError):
    """Another process made the next change of the table first: decide again on what is there now.

    No caller of the library sees it; the machine of actions starts again.
    """


class LockTimeoutError(HoodieError):
    """Timed out waiting for the table lock."""

    kind = "LockTimeout"
    exit_code = 11
    is_transient = True


class LockLostError(HoodieError):
    """The table lock was held and may have been lost."""

    kind = "LockLost"
    exit_code = 12
    is_transient = True


class FencedError(HoodieError):
    """A newer attempt has replaced this one: its work must not be published or retried."""

    kind = "Fenced"
    exit_code = 13


class HeartbeatExpiredError(HoodieError):
    """The heartbeat of the writer expired; other processes may have removed its files."""

    kind = "HeartbeatExpired"
    exit_code = 14
    is_transient = True


class ClockSkewError(HoodieError):
    """The clock is behind the timeline by more than the allowed skew."""

    kind = "ClockSkew"
    exit_code = 15
    is_transient = True


class RepeatedTimeError(ClockSkewError):
    """Clocks show a time twice, and other engines may give it again: retry when it is over."""

    kind = "RepeatedTime"
    exit_code = 18


class OutcomeUnknownError(HoodieError):
    """It is unknown whether the change was published: check the timeline."""

    kind = "OutcomeUnknown"
    exit_code = 16
    is_transient = True


class InvalidInputError(HoodieError, ValueError):
    """The arguments of the caller are invalid: correct them."""

    kind = "InvalidInput"
    exit_code = 20


class UnsupportedError(HoodieError):
    """The table or the request uses something that this version does not support."""

    kind = "Unsupported"
    exit_code = 21


class NotFoundError(HoodieError):
    """The named table, file, instant or column does not exist."""

    kind = "NotFound"
    exit_code = 22


class AlreadyExistsError(HoodieError):
    """The name already exists."""

    kind = "AlreadyExists"
    exit_code = 23


class ConfigurationError(HoodieError):
    """Settings contradict each other or the table: no run can succeed with them."""

    kind = "Configuration"
    exit_code = 24


class GoneError(HoodieError):
    """What the table was at that time cannot be read any more: read it as of a later time.

    Attributes:
        readable: The earliest later time, 17 digits, that can be read; empty for none known.
    """

    kind = "Gone"
    exit_code = 25

    def __init__(self, message: str, readable: str = "") -> None:
        """Take the message, which names the time as well."""
        super().__init__(message)
        self.readable = readable

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        """Pickle with the time, as errors of tasks are."""
        return type(self), (str(self), self.readable)


class StorageError(HoodieError):
    """The storage failed; the same call may succeed later."""

    kind = "Storage"
    exit_code = 30
    is_transient = True


class UnansweredError(StorageError):
    """The storage gave no definite answer: the call may still take effect."""


class FormatError(HoodieError):
    """Bytes in storage violate the format: stop and inspect them."""

    kind = "Format"
    exit_code = 31


class OutOfMemoryError(HoodieError):
    """The work did not fit into memory: run it with more."""

    kind = "OutOfMemory"
    exit_code = 40
    is_transient = True


class SharedGroupError(HoodieError):
    """Several tasks of a write have rows of one file group: one process must deal them out.

    No caller of the library sees it: who runs the tasks does that.
    """


class CancelledError(HoodieError):
    """The run was asked to stop and published nothing."""

    kind = "Cancelled"
    exit_code = 41
    is_transient = True


def _classes(root: type[HoodieError]) -> list[type[HoodieError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _classes(child))]


EXIT_CODES: dict[str, int] = {cls.kind: cls.exit_code for cls in _classes(HoodieError)}
"""Exit code by `kind`, for jobs and for the operator that reads their results."""
