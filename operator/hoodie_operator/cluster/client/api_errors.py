"""What the API server answers when it does not do what it was asked to."""

from collections.abc import Collection
from typing import ClassVar

from hoodie import errors

_MESSAGE_LENGTH_MAX = 500


class ApiError(errors.HoodieError):
    """The API server refused, or did not answer.

    Attributes:
        status: Of the HTTP answer; 0 where there was none.
        reason: As in the answer's Status object.
        is_outcome_known: Whether it is certain that nothing was changed, by earlier tries of the
            same call either.
    """

    kind: ClassVar[str] = "ApiRefused"
    is_outcome_known: bool = True

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        """Keep what was answered."""
        super().__init__(message[:_MESSAGE_LENGTH_MAX])
        self.status = status
        self.reason = reason


class NotFoundError(ApiError):
    """There is no such object, or no such resource."""


class AlreadyExistsError(ApiError):
    """An object of that name is there already."""


class NotLeadingError(ApiError):
    """A change was not asked for: another may lead before it has taken effect."""

    is_transient = True


class ConflictError(ApiError):
    """The object is not the one, or not in the version, that was meant."""

    is_transient = True


class GoneError(ApiError):
    """What was listed is too old to go on with."""

    is_transient = True


class InvalidError(ApiError):
    """The manifest does not fit the schema, or a rule, or an admission policy."""


class ForbiddenError(ApiError):
    """Our account may not, or a quota is used up."""

    is_transient = True


class NamespaceEndingError(ForbiddenError):
    """Nothing new may be in the namespace any more: it is being deleted."""


class UnauthorizedError(ApiError):
    """The credentials are not taken (any more)."""

    is_transient = True


class TooManyRequestsError(ApiError):
    """The API server has too much to do; nothing was done."""

    kind = "ApiUnavailable"
    is_transient = True


class UnavailableError(ApiError):
    """No answer, or one that tells of a failure inside: whether it was done is not known."""

    kind = "ApiUnavailable"
    is_transient = True
    is_outcome_known = False


_NAMESPACE_ENDING = "NamespaceTerminating"

_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def of(status: int, reason: str, message: str, causes: Collection[str] = ()) -> ApiError:
    """Return the error that an answer means.

    Args:
        status: Of the HTTP answer.
        reason: Of its Status object.
        message: For people.
        causes: Their reasons, of the Status object.
    """
    found = _BY_STATUS.get(status, UnavailableError)
    if found is ConflictError and reason == "AlreadyExists":
        found = AlreadyExistsError
    if found is ForbiddenError and _NAMESPACE_ENDING in causes:
        found = NamespaceEndingError
    return found(message, status=status, reason=reason)
