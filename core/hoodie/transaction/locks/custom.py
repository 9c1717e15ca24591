"""Locks of a user's own: a distribution names them by an entry point.

    [project.entry-points."hoodie.lock_providers"]
    NAME = "package.module:function"

`custom://NAME/TEXT` is then a lock's address. The function is a `LockFactory`; what it returns must
keep the promises of `protocol.LockProvider`: `tests/support/contracts/lock_contract.py` has them.
"""

import importlib.metadata
from typing import Protocol

from hoodie import clock, errors, identity
from hoodie.background.protocol import Background
from hoodie.storage.protocol import Storage
from hoodie.transaction.locks.protocol import LockOwner, LockProvider

ENTRY_POINTS = "hoodie.lock_providers"


class LockFactory(Protocol):
    """What an entry point names."""

    def __call__(
        self,
        text: str,
        storage: Storage,
        owner: LockOwner,
        *,
        waiting_clock: clock.Clock,
        random: identity.Random,
        background: Background,
    ) -> LockProvider:
        """Return a fresh access to a table's lock; nothing is taken or connected yet.

        Args:
            text: What follows the name in the lock's address; empty for none.
            storage: The table's storage.
            owner: Who is to take it; fresh for each access.
            waiting_clock: For waiting and for leases.
            random: Jitter and ids.
            background: Renews leases.

        Raises:
            HoodieError: The text means no lock.
        """
        ...


def find_factory(name: str) -> LockFactory:
    """Return the factory of a name.

    Raises:
        ConfigurationError: No installed distribution names it, several do, or it cannot be loaded.
    """
    found = [*importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)]
    if len(found) != 1:
        known = sorted(
            {point.name for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
        )
        raise errors.ConfigurationError(
            f"{len(found)} installed distributions have a lock provider {name!r}: expected one; "
            f"there are {', '.join(known) or 'none'}"
        )
    (point,) = found
    try:
        factory: LockFactory = point.load()
    except (ImportError, AttributeError) as error:
        raise errors.ConfigurationError(
            f"the lock provider {name!r} cannot be loaded from {point.value}: {error}"
        ) from error
    return factory
