"""Memory of the facts that observers return, budgeted by namespace.

A namespace may hold as much as it needs while the budget lasts. When the budget is used up, each
namespace keeps an equal share: the next facts of a namespace above its share are refused, which
frees memory for the others.
"""


class Holdings:
    """The sizes of the facts in memory, by object."""

    def __init__(self, bytes_max: int) -> None:
        """Start empty.

        Args:
            bytes_max: The budget of all namespaces together.
        """
        self._max = bytes_max
        self._held: dict[str, tuple[str, int]] = {}
        self._by_namespace: dict[str, int] = {}

    def hold(self, namespace: str, uid: str, size: int) -> bool:
        """Replace the facts of an object; return False if the budget does not allow them."""
        self.release(uid)
        there = self._by_namespace.get(namespace, 0)
        if sum(self._by_namespace.values()) + size > self._max:
            namespaces = len(self._by_namespace.keys() | {namespace})
            if there + size > self._max // namespaces:
                return False
        self._held[uid] = (namespace, size)
        self._by_namespace[namespace] = there + size
        return True

    def release(self, uid: str) -> None:
        """Drop the facts of an object."""
        namespace, size = self._held.pop(uid, ("", 0))
        left = self._by_namespace.get(namespace, 0) - size
        if left > 0:
            self._by_namespace[namespace] = left
        else:
            self._by_namespace.pop(namespace, None)
