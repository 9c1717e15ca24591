"""How much memory what observers tell takes, by namespace: shares of one amount.

While there is room, a namespace may hold as much as it needs. Once all is taken, each may hold its
equal share: who holds more is refused what it tells next, and thereby makes room for others.
"""


class Holdings:
    """What is held, by whom it is about."""

    def __init__(self, bytes_max: int) -> None:
        """Hold nothing yet.

        Args:
            bytes_max: For all namespaces together.
        """
        self._max = bytes_max
        self._held: dict[str, tuple[str, int]] = {}
        self._by_namespace: dict[str, int] = {}

    def hold(self, namespace: str, uid: str, size: int) -> bool:
        """Hold what is told of an object, in place of what was; return whether there is room."""
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
        """Hold nothing of an object any more."""
        namespace, size = self._held.pop(uid, ("", 0))
        left = self._by_namespace.get(namespace, 0) - size
        if left > 0:
            self._by_namespace[namespace] = left
        else:
            self._by_namespace.pop(namespace, None)
