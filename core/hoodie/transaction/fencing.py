"""Fencing: of several attempts of one author, only the newest may publish.

A process that was replaced may not know it: it was paused, or its node was cut off. So each author
(a writer, or an action of a table service) has an attempt record on the table's own storage, and
each write puts its attempt and its write id there when it begins, by a conditional write that a
lower attempt is refused. Completion reads the record again in its lock scope: whoever finds a
higher attempt, or another write of the same author, publishes nothing.

The same record finds two processes with one writer id at one attempt: the second one finds the
first one's instant pending and its heart beating.

An attempt claims the record before it looks at what is committed. So of two attempts the older one
either completes before the newer one has claimed, and the newer one sees that, or is refused.

The record is where Apache Hudi does not look (`layout`). An operator that cannot reach the storage
fences by its own means as well, which a client is given as guards. Source: protocol.md: Attempts.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hoodie import errors, identity
from hoodie.model import json_values
from hoodie.storage.protocol import Storage
from hoodie.transaction import authors, layout

logger = logging.getLogger(__name__)

_CLAIM_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """The newest attempt of an author.

    Attributes:
        attempt: Its number; never gets smaller.
        write_id: Of its newest write; empty once that was given up.
        requested_time: Of that write.
        batch_id: Of that write; empty for none.
        process: Where it runs.
        late_batches: Earlier ones that are committed and that no ledger tells of yet.
        pending_batches: Earlier ones that may be committed yet, by the requested times of their
            writes: who wrote this record may have looked at the timeline too early.
    """

    attempt: int
    write_id: str
    requested_time: str
    process: identity.ProcessIdentity
    batch_id: str = ""
    late_batches: tuple[str, ...] = ()
    pending_batches: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierBatches:
    """What an author's record passes on of the writes before its newest one.

    Attributes:
        late: Committed, and no ledger tells of them.
        pending: Of writes that are pending, by requested time.
    """

    late: tuple[str, ...] = ()
    pending: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A record and the version it was read at."""

    record: AttemptRecord
    version: str


def read(storage: Storage, author: authors.Author) -> StoredRecord | None:
    """Return an author's record; None when it has none yet, or has no id. A request.

    Raises:
        FormatError: There is something else.
    """
    path = _path(author)
    if path is None:
        return None
    try:
        content, version = storage.fetch(path)
    except errors.NotFoundError:
        return None
    try:
        record = json_values.decode(AttemptRecord, content, path)
    except errors.InvalidInputError as error:
        raise errors.FormatError(f"{storage.uri}: {error}") from error
    return StoredRecord(record=record, version=version)


def write(
    storage: Storage, author: authors.Author, found: StoredRecord | None, record: AttemptRecord
) -> None:
    """Put a record in the place of the one found.

    Raises:
        ConflictError: Another process changed it since.
    """
    path = _path(author)
    if path is None:
        return
    content = json_values.encode(record)
    try:
        if found is None:
            storage.create(path, content)
        else:
            storage.replace(path, content, if_match=found.version)
    except (errors.AlreadyExistsError, errors.ConflictError, errors.StorageError) as error:
        stored = read(storage, author)
        if stored is not None and stored.record == record:
            return  # The answer was lost.
        if isinstance(error, errors.StorageError):
            raise
        raise errors.ConflictError(
            f"the attempt record of {author} in {storage.uri} was changed by another process"
        ) from error


def claim(storage: Storage, author: authors.Author, process: identity.ProcessIdentity) -> None:
    """Become the attempt of an author that may commit. Idempotent; one or two requests.

    What the record passes on of earlier attempts' batches stays.

    Args:
        storage: The table's.
        author: Whose attempt; one without an id has no record.
        process: Where it runs.

    Raises:
        FencedError: There is a later attempt.
        ConflictError: Others changed the record each time that this was tried.
    """
    for left in range(_CLAIM_TRIES - 1, -1, -1):
        found = read(storage, author)
        refusal = attempt_refusal(found, author)
        if refusal is not None:
            raise refusal
        if found is not None and found.record.attempt == author.attempt:
            return
        claimed = AttemptRecord(
            attempt=author.attempt, write_id="", requested_time="", process=process
        )
        if found is not None:
            claimed = replace(found.record, attempt=author.attempt, write_id="", process=process)
        try:
            write(storage, author, found, claimed)
        except errors.ConflictError:
            if not left:
                raise
        else:
            return


def attempt_refusal(
    found: StoredRecord | None, author: authors.Author
) -> errors.FencedError | None:
    """Return why an attempt must not go on: there is a higher one."""
    if found is None or found.record.attempt <= author.attempt:
        return None
    return errors.FencedError(
        f"attempt {author.attempt} of {author} was replaced by attempt {found.record.attempt} "
        f"({found.record.process})"
    )


def may_be_writing(found: StoredRecord, author: authors.Author) -> bool:
    """Return whether the recorded write is of this very attempt, and was not given up."""
    return found.record.attempt >= author.attempt and bool(found.record.write_id)


def give_up(storage: Storage, author: authors.Author, write_id: str) -> None:
    """Record that an author's newest write will never be completed; no-op if it is not that one.

    So the author may begin anew before that write's heartbeat has expired.
    """
    found = read(storage, author)
    if found is not None and found.record.write_id == write_id:
        write(storage, author, found, replace(found.record, write_id=""))


def publication_refusal(
    found: StoredRecord | None, author: authors.Author, write_id: str | None
) -> errors.FencedError | None:
    """Return why an action must not be published: its author has moved on without it.

    Args:
        found: The author's record.
        author: Whose action it is.
        write_id: By which the record names it; None for an action beside the author's own work.
    """
    if author.record_name is None or write_id is None:
        return attempt_refusal(found, author)
    if found is None:
        return errors.FencedError(f"the attempt record of {author} is gone")
    if (refusal := attempt_refusal(found, author)) is not None:
        return refusal
    if not found.record.write_id:
        return errors.FencedError(f"{author} has already given up this write or attempt")
    if found.record.write_id != write_id:
        return errors.FencedError(
            f"{author} has begun another write since: instant {found.record.requested_time} "
            f"of attempt {found.record.attempt} ({found.record.process})"
        )
    return None


def _path(author: authors.Author) -> str | None:
    name = author.record_name
    return None if name is None else f"{layout.ATTEMPTS}/{name}"
