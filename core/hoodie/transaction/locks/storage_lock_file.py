"""The one file of a storage-based lock, as Apache Hudi's `StorageLockFile` has it on disk.

A JSON object in one line, fields in this order, without blanks:

    {"expired":false,"validUntil":1764000000123,"owner":"..."}

`expired` is true once the lock was given back; `validUntil` is the end of the lease by the holder's
wall clock, in ms; `owner` is any text, Apache Hudi's a UUID. The file is never deleted. Unknown
fields are read over, a missing one makes the file corrupt.

Source: RFC-91; `org.apache.hudi.client.transaction.lock.models.{StorageLockData, StorageLockFile}`.
"""

import json
from dataclasses import dataclass

from hoodie import errors

DIRECTORY = ".hoodie/.locks"
PATH = f"{DIRECTORY}/table_lock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The content of the file.

    Attributes:
        is_expired: Whether it was given back.
        valid_until_ms: Until when it holds unless it is renewed, by the holder's wall clock.
        owner: Who has or had it.
    """

    is_expired: bool
    valid_until_ms: int
    owner: str


def encode(lease: Lease) -> bytes:
    """Return a lease as the file has it."""
    fields = {
        "expired": lease.is_expired,
        "validUntil": lease.valid_until_ms,
        "owner": lease.owner,
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode(content: bytes, name: str) -> Lease:
    """Return the lease in a file.

    Args:
        content: Of the file.
        name: Of the file, for the error.

    Raises:
        FormatError: It holds none.
    """
    try:
        fields = json.loads(content)
        expired, valid_until, owner = (fields[key] for key in ("expired", "validUntil", "owner"))
    except (ValueError, KeyError, TypeError) as error:
        raise errors.FormatError(f"{name} is not a lock file: {error}") from error
    if type(expired) is not bool or type(valid_until) is not int or not isinstance(owner, str):
        raise errors.FormatError(
            f"{name} is not a lock file: expected expired, validUntil and owner, found {fields}"
        )
    return Lease(is_expired=expired, valid_until_ms=valid_until, owner=owner)
