"""What can go wrong, ordered by what the caller should do about it.

Every error carries a stable `kind` (for results, conditions and metrics) and the exit code that
programs end with when it reaches their edge. `EXIT_CODES` is the one table of them:

    0       done
    1       findings (`hoodie check`)
    2       usage
    10-59   the classes below
    70      our own bug (anything that is not a `HoodieError`)
"""

from typing import ClassVar

EXIT_DONE = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 70


class HoodieError(Exception):
    """Anything the library reports on purpose.

    Attributes:
        kind: A stable name of the class, in CamelCase, for programs.
        exit_code: What a program that ends with this error exits with.
        is_transient: Whether the same call may succeed later with nothing mended.
    """

    kind: ClassVar[str] = "Internal"
    exit_code: ClassVar[int] = EXIT_INTERNAL
    is_transient: ClassVar[bool] = False


class ConflictError(HoodieError):
    """Somebody else changed what this decision stood on: retry on fresh state."""

    kind = "Conflict"
    exit_code = 10
    is_transient = True


class WriteConflictError(ConflictError):
    """Another write of the same file groups was published first: write the batch again."""

    kind = "WriteConflict"
    exit_code = 17


class LockTimeoutError(HoodieError):
    """The table lock was not had within the configured wait."""

    kind = "LockTimeout"
    exit_code = 11
    is_transient = True


class LockLostError(HoodieError):
    """The table lock was held and is not known to be held any more."""

    kind = "LockLost"
    exit_code = 12
    is_transient = True


class FencedError(HoodieError):
    """This attempt is not the current one: its work must not be published, nor tried again."""

    kind = "Fenced"
    exit_code = 13


class HeartbeatExpiredError(HoodieError):
    """The writer was silent for too long by its heartbeat; others may have removed its files."""

    kind = "HeartbeatExpired"
    exit_code = 14
    is_transient = True


class ClockSkewError(HoodieError):
    """The clock lags what stands on the timeline by more than the allowed skew."""

    kind = "ClockSkew"
    exit_code = 15
    is_transient = True


class OutcomeUnknownError(HoodieError):
    """Whether the change was published could not be found out; list the timeline to know."""

    kind = "OutcomeUnknown"
    exit_code = 16
    is_transient = True


class InvalidInputError(HoodieError, ValueError):
    """What the caller passed does not fit: mend it."""

    kind = "InvalidInput"
    exit_code = 20


class UnsupportedError(HoodieError):
    """The table or the request uses something that this version does not do."""

    kind = "Unsupported"
    exit_code = 21


class NotFoundError(HoodieError):
    """The named table, file, instant or column does not exist."""

    kind = "NotFound"
    exit_code = 22


class AlreadyExistsError(HoodieError):
    """The name to be created is taken."""

    kind = "AlreadyExists"
    exit_code = 23


class ConfigurationError(HoodieError):
    """Settings contradict each other or the table: no run can succeed with them."""

    kind = "Configuration"
    exit_code = 24


class StorageError(HoodieError):
    """The storage failed; the same call may succeed later."""

    kind = "Storage"
    exit_code = 30
    is_transient = True


class UnansweredError(StorageError):
    """The storage gave no answer, or none that tells: the call may take effect yet."""


class FormatError(HoodieError):
    """Bytes on storage are not what the format says: stop, and look at them."""

    kind = "Format"
    exit_code = 31


class OutOfMemoryError(HoodieError):
    """The work did not fit into memory: run it with more."""

    kind = "OutOfMemory"
    exit_code = 40
    is_transient = True


class CancelledError(HoodieError):
    """The run was told to stop and published nothing."""

    kind = "Cancelled"
    exit_code = 41
    is_transient = True


def _classes(root: type[HoodieError]) -> list[type[HoodieError]]:
    return [root, *(leaf for child in root.__subclasses__() for leaf in _classes(child))]


EXIT_CODES: dict[str, int] = {cls.kind: cls.exit_code for cls in _classes(HoodieError)}
"""Exit code by `kind`, for jobs and for the operator that reads their results."""
