"""A lock that says yes to everybody at once: what stays right under it needs no lock.

`custom://lying` is its address where `install` has put its distribution on the path.
"""

from pathlib import Path

from hoodie import clock, identity
from hoodie.background.protocol import Background
from hoodie.storage.protocol import Storage
from hoodie.transaction.locks.protocol import LockOwner
from support.contracts import installed_lock

NAME = "lying"
ADDRESS = f"custom://{NAME}"


class LyingLock:
    """One access to it."""

    description = "lying lock"
    fencing_token = 1

    def acquire(self, wait_s: float) -> None:
        """Say yes."""

    def release(self) -> None:
        """Have nothing to give back."""

    def is_held(self) -> bool:
        """Say yes."""
        return True

    def close(self) -> None:
        """Have nothing to end."""


def open_lying(
    text: str,
    storage: Storage,
    owner: LockOwner,
    *,
    waiting_clock: clock.Clock,
    random: identity.Random,
    background: Background,
) -> LyingLock:
    """Open it for any owner."""
    del text, storage, owner, waiting_clock, random, background
    return LyingLock()


def install(site: Path) -> None:
    """Put its distribution into a directory, which is to be on the path."""
    installed_lock.write_distribution(site, "lying-locks", {NAME: f"{__name__}:open_lying"})
