"""The keys that are due: each once, at the earliest time it was asked for, never while at work.

Pure but for what it holds: times are given.
"""

import heapq

from hoodie_operator.api import objects


class WorkQueue:
    """Keys by when they are due."""

    def __init__(self) -> None:
        """Hold none."""
        self._due_s: dict[objects.ObjectKey, float] = {}
        self._heap: list[tuple[float, objects.ObjectKey]] = []
        self._busy: set[objects.ObjectKey] = set()

    def __len__(self) -> int:
        return len(self._due_s)

    def waiting_count(self, now_s: float) -> int:
        """Return how many keys are due and not taken: not those that come up some day."""
        return sum(due_s <= now_s for due_s in self._due_s.values())

    def add(self, key: objects.ObjectKey, due_s: float) -> bool:
        """Have a key come up, at the latest then; return whether that is news."""
        before_s = self._due_s.get(key)
        if before_s is not None and before_s <= due_s:
            return False
        self._due_s[key] = due_s
        if key not in self._busy:
            heapq.heappush(self._heap, (due_s, key))
        return True

    def next_due_s(self) -> float | None:
        """Return when the next key is due; None when none will be."""
        while self._heap:
            due_s, key = self._heap[0]
            if key not in self._busy and self._due_s.get(key) == due_s:
                return due_s
            heapq.heappop(self._heap)
        return None

    def pop(self, now_s: float) -> tuple[objects.ObjectKey, float] | None:
        """Take the key that is due for longest, and since when; None when none is."""
        due_s = self.next_due_s()
        if due_s is None or due_s > now_s:
            return None
        key = heapq.heappop(self._heap)[1]
        del self._due_s[key]
        return key, due_s

    def begin(self, key: objects.ObjectKey) -> None:
        """Hold a key back while something is done about it."""
        self._busy.add(key)

    def end(self, key: objects.ObjectKey) -> None:
        """Let a key come up again."""
        self._busy.discard(key)
        if key in self._due_s:
            heapq.heappush(self._heap, (self._due_s[key], key))

    @property
    def busy_count(self) -> int:
        """How many keys something is being done about."""
        return len(self._busy)
