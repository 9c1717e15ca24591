"""Curator's InterProcessMutex, as the order among the children of a path.

Who wants the lock creates an ephemeral sequential child `_c_<uuid>-lock-<10 digits>`, where the
UUID finds the node again if the answer to its creation was lost. The child with the lowest number
has the lock; every other watches the one before it. Curator sorts by what follows the last `lock-`
and looks at all children, so we do: both sides must see one order.

Source: `org.apache.curator.framework.recipes.locks.{InterProcessMutex, LockInternals,
StandardLockInternalsDriver}`, `org.apache.curator.framework.imps.ProtectedUtils`.
"""

from collections.abc import Iterable

_LOCK_NAME = "lock-"


def node_prefix(unique: str) -> str:
    """Return what the name of our node begins with; the server appends the number.

    Args:
        unique: A UUID.
    """
    return f"_c_{unique}-{_LOCK_NAME}"


def in_order(children: Iterable[str]) -> list[str]:
    """Return the children of a lock's path, the holder first."""
    return sorted(children, key=lambda name: name.rpartition(_LOCK_NAME)[2])
