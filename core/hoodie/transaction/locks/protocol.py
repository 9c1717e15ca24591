"""What a transaction asks of the lock of a table.

One `LockProvider` belongs to one transaction: two of them exclude each other, in one process too,
and none is re-entrant. A paused process may have been taken for dead and its lock given to another;
so a committer asks `is_held` right before and right after it publishes, and the fencing token tells
one holding from any later one.
"""

from dataclasses import dataclass
from typing import Protocol

from hoodie import identity


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOwner:
    """Who takes a lock, for lock files and messages.

    Attributes:
        id: Fresh for each provider.
        name: What a person knows it by: the writer's id, `compaction of 2026...`.
        process: The process it runs in.
    """

    id: str
    name: str
    process: identity.ProcessIdentity

    def __str__(self) -> str:
        return f"{self.name} ({self.process})"


class LockProvider(Protocol):
    """One transaction's access to the table lock."""

    @property
    def description(self) -> str:
        """Which lock this is and where, without credentials."""
        ...

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting no longer than that; with 0, try once.

        Raises:
            LockTimeoutError: Somebody else has it, who is named, or its server did not answer.
            InvalidInputError: This provider has it already.
        """
        ...

    def release(self) -> None:
        """Give the lock back; of one that was lost meanwhile nothing is touched.

        Raises:
            InvalidInputError: This provider did not take it.
        """
        ...

    def is_held(self) -> bool:
        """Return whether the lock is known to be ours at this moment; never raises.

        It asks where the lock is: a system call or two, or two requests to a server.
        """
        ...

    @property
    def fencing_token(self) -> int:
        """A number of this holding; every later one, by anybody of ours, has a greater.

        Raises:
            LockLostError: The lock is not taken.
        """
        ...

    def close(self) -> None:
        """Give the lock back if it is taken, and let go of connections. Idempotent."""
        ...
