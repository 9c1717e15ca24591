"""Reads of a timeline that changes while it is listed: what they show is a prefix (I5, I6, I11).

The listing is the worst that `Storage` allows: names come in any order, in pages, and between two
of them anything happens that writers, archiving and restores do.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.format import instant_names
from hoodie.model.instants import Action, Instant, InstantTime, State, format_time
from hoodie.storage.memory import MemoryStorage
from hoodie.timeline import active

BEGIN_MS = 1_780_000_000_000


@dataclass
class Writers:
    """Those who change a timeline: one at a time, as the lock has it."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    now_ms: int = BEGIN_MS
    pending: list[InstantTime] = field(default_factory=list)
    completed: dict[InstantTime, InstantTime] = field(default_factory=dict)
    order: list[InstantTime] = field(default_factory=list)
    archived: set[InstantTime] = field(default_factory=set)
    restored: set[InstantTime] = field(default_factory=set)
    archiving: list[InstantTime] = field(default_factory=list)
    known: int = 0  # How many had completed when a read of the timeline began.

    def act(self, what: str, which: int) -> None:
        match what:
            case "begin":
                time = self._now()
                self.pending.append(time)
                for state in (State.REQUESTED, State.INFLIGHT):
                    self._create(time, state)
            case "complete" if self.pending:
                self._complete(self.pending.pop(which % len(self.pending)))
            case "archive":
                self._archive(which)
            case "restore" if self._restorable():
                time = max(self._restorable(), key=lambda each: self.completed[each])
                self.restored.add(time)
                self._remove(time)
            case _:
                pass

    def _archive(self, which: int) -> None:
        """Go on deleting what is archived, in the order of requested times; or begin.

        The newest write stays, and what is older than it but completed while the timeline is read.
        """
        if not self.archiving:
            ends = [*self.pending, *self.order[self.known :], *sorted(self._there())[-1:]]
            old = [each for each in sorted(self._there()) if each < min(ends, default="")]
            self.archiving = old[: 1 + which % 4]
        if self.archiving:
            time = self.archiving.pop(0)
            self.archived.add(time)
            self._remove(time)

    def _there(self) -> set[InstantTime]:
        return self.completed.keys() - self.archived - self.restored

    def _restorable(self) -> set[InstantTime]:
        """Return what a restore may take back; a write stays, so that older ones are archived."""
        there = self._there()
        return set() if self.archiving or len(there) < 2 else there

    def _complete(self, time: InstantTime) -> None:
        self.completed[time] = self._now()
        self.order.append(time)
        self._create(time, State.COMPLETED)

    def _create(self, time: InstantTime, state: State) -> None:
        completed = self.completed.get(time) if state is State.COMPLETED else None
        instant = Instant(
            requested_time=time,
            action=Action.DELTA_COMMIT,
            state=state,
            completion_time=completed,
        )
        self.storage.create(f"{active.DIRECTORY}/{instant_names.file_name(instant)}", b"")

    def _remove(self, time: InstantTime) -> None:
        for name in self.storage.names(active.DIRECTORY):
            if name.startswith(time):
                self.storage.delete(f"{active.DIRECTORY}/{name}")

    def _now(self) -> InstantTime:
        self.now_ms += 1
        return format_time(self.now_ms)


class Unfair(MemoryStorage):
    """Lists names in an order of its own, two at a time, while others write."""

    def __init__(self, writers: Writers, data: st.DataObject) -> None:
        super().__init__(uri="memory://unfair")
        self._writers = writers
        self._data = data
        self.listings = 0

    @property
    def has_atomic_listings(self) -> bool:
        return False

    def names(self, directory: str) -> Sequence[str]:
        self.listings += 1
        seen: set[str] = set()
        found = []
        salt = self._data.draw(st.integers(0, 3), label="order")
        # Later listings are quiet, so that a run ends.
        steps = self._data.draw(st.lists(ACTIONS, max_size=8 if self.listings < 4 else 0))
        while True:
            there = sorted(
                set(self._writers.storage.names(directory)) - seen,
                key=lambda name: zlib.crc32(f"{salt} {name}".encode()),
            )
            if not there:
                return found
            for name in there[:2]:
                seen.add(name)
                found.append(name)
            if steps:
                self._writers.act(*steps.pop())


ACTIONS = st.tuples(
    st.sampled_from(("begin", "begin", "complete", "complete", "archive", "restore")),
    st.integers(0, 5),
)


@settings(max_examples=3000, deadline=None)
@given(before=st.lists(ACTIONS, max_size=30), data=st.data())
def test_completed_instants_of_a_read_are_a_prefix(
    before: list[tuple[str, int]], data: st.DataObject
) -> None:
    writers = Writers()
    for what, which in before:
        writers.act(what, which)
    writers.known = len(writers.order)
    acknowledged = set(writers._there())
    timeline = active.load(Unfair(writers, data))
    shown = {each.requested_time for each in timeline.completed_writes}
    last = max((writers.order.index(each) for each in shown), default=-1)
    for time in writers.order[: last + 1]:
        if time not in writers.restored:
            assert timeline.is_committed(time), f"{time} is missed, {writers.order[last]} is shown"
    for time in acknowledged - writers.restored:
        assert timeline.is_committed(time), f"{time} was acknowledged before, and is missed"
