"""Fences as records in a table's own storage, which each attempt makes of itself.

    .hoodie/.hudi_operator/fences/OWNER/NUMBER      empty; NUMBER has 20 digits

The highest number is the attempt that may commit. An attempt makes its record before it looks at
what is committed, and looks at all of them in the lock scope of each completion. So of two
attempts the older one either completes before the newer one made its record, and the newer one sees
that, or is refused. Records of older attempts are removed by the newest one; an attempt whose own
record is gone is refused as well. It needs no more of a storage than creating and listing.
"""

import contextlib

from hoodie import errors
from hoodie.storage.protocol import Storage

FOLDER = ".hoodie/.hudi_operator/fences"
_DIGITS = 20


def claim(storage: Storage, owner: str, attempt: int) -> None:
    """Become the attempt that may commit. Idempotent.

    Args:
        storage: Of the table.
        owner: The writer or action, by a name without slash that all its attempts share.
        attempt: The number of this attempt.

    Raises:
        FencedError: There is a later attempt.
    """
    _refuse_later(_numbers(storage, owner), attempt)
    # It may be there by an earlier try of this very attempt.
    with contextlib.suppress(errors.AlreadyExistsError):
        storage.create(_path(owner, attempt), b"")
    numbers = _numbers(storage, owner)
    _refuse_later(numbers, attempt)
    storage.delete_all(_path(owner, number) for number in numbers if number < attempt)


def check(storage: Storage, owner: str, attempt: int) -> None:
    """Look whether an attempt may commit.

    Raises:
        FencedError: It may not.
    """
    numbers = _numbers(storage, owner)
    _refuse_later(numbers, attempt)
    if attempt not in numbers:
        raise errors.FencedError(f"attempt {attempt} may not commit: its fence record is gone")


def _refuse_later(numbers: list[int], attempt: int) -> None:
    latest = max(numbers, default=0)
    if latest > attempt:
        raise errors.FencedError(
            f"attempt {attempt} may not commit: attempt {latest} is the current one"
        )


def _numbers(storage: Storage, owner: str) -> list[int]:
    names = [info.name for info in storage.list(f"{FOLDER}/{owner}")]
    return [int(name) for name in names if len(name) == _DIGITS and name.isdecimal()]


def _path(owner: str, attempt: int) -> str:
    return f"{FOLDER}/{owner}/{attempt:0{_DIGITS}d}"
