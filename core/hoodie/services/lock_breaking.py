"""Looking at a table's lock from outside, and taking it from a holder that is dead."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hoodie import environment, errors
from hoodie.storage import protocol
from hoodie.transaction.locks import addresses, inspection, opening

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockState:
    """How a lock is, or was before it was broken.

    Attributes:
        description: Which lock it is, and where.
        holding: Who has it; None for nobody.
    """

    description: str
    holding: inspection.Holding | None


def explain(
    storage: protocol.Storage,
    address: addresses.LockAddress,
    env: environment.Environment,
    watch_s: float = 0.0,
) -> LockState:
    """Return who has a lock, and what proves that; nothing is taken.

    Args:
        storage: The table's.
        address: Of its lock.
        env: Time and ids.
        watch_s: How long to look for a sign of life of a holder that may be alive, or for its end.

    Raises:
        UnsupportedError: The lock is one that tells nothing to other processes.
    """
    with _opened(storage, address, env) as (lock, description):
        found = inspection.watched(lock, watch_s, env.clock)
    return LockState(description=description, holding=found)


def break_lock(
    storage: protocol.Storage,
    address: addresses.LockAddress,
    env: environment.Environment,
    watch_s: float = 0.0,
    holder_id: str | None = None,
) -> LockState:
    """Take a lock from its holder; return from whom, nobody where nobody had it.

    Args:
        storage: The table's.
        address: Of its lock.
        env: Time and ids.
        watch_s: How long to look for a sign of life first.
        holder_id: Whom to take it from though nothing proves that it is dead.

    Raises:
        ConflictError: The holder may be alive, or is another than was named.
        UnsupportedError: The lock is one that tells nothing to other processes.
    """
    with _opened(storage, address, env) as (lock, description):
        found = inspection.watched(lock, watch_s, env.clock)
        if found is not None:
            refusal = inspection.break_refusal(found, holder_id)
            if refusal is not None:
                raise refusal
            if not lock.take_away(found):
                raise errors.ConflictError(
                    f"{found.holder} showed a sign of life just now, or released the {description}"
                )
            logger.warning("the %s was taken from %s", description, found.holder)
    return LockState(description=description, holding=found)


@contextmanager
def _opened(
    storage: protocol.Storage, address: addresses.LockAddress, env: environment.Environment
) -> Iterator[tuple[inspection.Inspectable, str]]:
    lock = opening.open_for("hoodie lock", address, storage, env)
    try:
        if not isinstance(lock, inspection.Inspectable):
            raise errors.UnsupportedError(
                f"the {lock.description} is not visible to other processes, expected a "
                "lock that processes share"
            )
        yield lock, lock.description
    finally:
        lock.close()
