"""What the control loop remembers of each object: one record, made and removed here alone.

Nothing in it outlives a leader. What a later one needs is in the status of the object. Back-off is
part of it: the waits after failed acts, after many acts in a row and while nothing changes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, overload

from hoodie import backoff
from hoodie_operator.api import objects
from hoodie_operator.reconcile import effects, facts, observations

_T = TypeVar("_T")
_D = TypeVar("_D")

_ACTIONS_AT_ONCE_MAX: Final = 5
"""Actions in a row without a wait between them; after each further one the wait grows."""

_UNSETTLED_S: Final = 1.0
_UNSETTLED_MAX_S: Final = 5.0
_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 120.0


@dataclass(slots=True, kw_only=True)
class Look:
    """When something is observed next.

    Attributes:
        due_s: When, by the monotonic clock; 0 for at once.
        generation: Of the object that was last looked for in the store; None before the first time.
        last: The last observation; None before the first.
        is_under_way: Whether an observation has begun and not ended.
        is_outdated: Whether something changed since it began: its answer may be of before.
    """

    due_s: float = 0.0
    generation: int | None = None
    last: observations.LastLook | None = None
    is_under_way: bool = False
    is_outdated: bool = False

    def is_due(self, now_s: float) -> bool:
        """Return whether an observation is to begin."""
        return self.due_s <= now_s and not self.is_under_way

    def make_due(self) -> None:
        """Observe at the next tick, or at the tick after the observation that is under way."""
        self.due_s = 0.0
        self.is_outdated = self.is_under_way

    def begin(self) -> None:
        """Note that an observation has begun."""
        self.is_under_way = True

    def end(self) -> None:
        """Note that the observation has ended; one that is outdated is due again."""
        self.is_under_way = False
        if self.is_outdated:
            self.make_due()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Which lock server was last applied for a LockProvider.

    Attributes:
        generation: Of the LockProvider.
        effect: As decided.
        at_s: When, by the monotonic clock.
    """

    generation: int
    effect: effects.ServeLock
    at_s: float


@dataclass(slots=True, kw_only=True)
class ObjectState:
    """What is remembered of one object.

    Attributes:
        key: Of the object.
        uid: Of the object: its successor of the same key has a record of its own.
        failures: Failed actions in a row.
        action_streak: Actions in a row, without a decision between them that nothing is to be done.
        idle_rounds: Decisions in a row that nothing is to be done, while the object is unsettled.
        refusal: What the API server refused last; None once something succeeded.
        last_served: The lock server that was last applied.
        missing_pods: Ended attempts for whose Pods a listing was asked.
        look: When it is observed next.
        table: What was observed of a HudiTable; None before the first observation.
        source: The same, of a Writer's source.
        lock: The same, of a LockProvider.
    """

    key: objects.ObjectKey
    uid: str
    failures: int = 0
    action_streak: int = 0
    idle_rounds: int = 0
    refusal: facts.Refusal | None = None
    last_served: Served | None = None
    missing_pods: frozenset[facts.RunId] = frozenset()
    look: Look = field(default_factory=Look)
    table: facts.TableFacts | None = None
    source: facts.SourceFacts | None = None
    lock: facts.LockFacts | None = None

    def is_retry_pending(self, generation: int, now_ms: int) -> bool:
        """Return whether the object waits for the retry of what was refused.

        What was refused of an earlier generation does not count: the edit may be what mends it.
        """
        refusal = self.refusal
        return refusal is not None and refusal.generation == generation and refusal.due_ms > now_ms

    def note_success(self, *, is_retry_pending: bool) -> float:
        """Count an action that succeeded; return the seconds until the next decision."""
        if not is_retry_pending:
            self.failures = 0
            self.refusal = None
        self.idle_rounds = 0
        self.action_streak += 1
        more = self.action_streak - _ACTIONS_AT_ONCE_MAX
        return 0.0 if more <= 0 else backoff.growing(_PAUSE_S, _PAUSE_MAX_S, more)

    def note_failure(self) -> float:
        """Count an action that failed; return the seconds until the next, without jitter."""
        # The lock server that was to be applied may be what failed.
        self.last_served = None
        self.failures += 1
        return backoff.growing(_PAUSE_S, _PAUSE_MAX_S, self.failures)

    def note_idle_round(self, *, is_settled: bool) -> float | None:
        """Count a decision that nothing is to be done.

        Returns:
            The seconds until the next decision; None where the object is settled.
        """
        self.action_streak = 0
        if is_settled:
            self.idle_rounds = 0
            return None
        self.idle_rounds += 1
        return min(_UNSETTLED_S * self.idle_rounds, _UNSETTLED_MAX_S)

    @property
    def fails_repeatedly(self) -> bool:
        """Whether so many actions failed in a row that the cache may be out of date."""
        return self.failures > _ACTIONS_AT_ONCE_MAX


class ObjectStates:
    """The record of each object that is in the store."""

    def __init__(self) -> None:
        """Hold none."""
        self._by_key: dict[objects.ObjectKey, ObjectState] = {}
        self._by_uid: dict[str, ObjectState] = {}
        self.tables: Mapping[str, facts.TableFacts] = _Part(self._by_uid, lambda of: of.table)
        self.sources: Mapping[str, facts.SourceFacts] = _Part(self._by_uid, lambda of: of.source)
        self.locks: Mapping[str, facts.LockFacts] = _Part(self._by_uid, lambda of: of.lock)
        self.refusals: Mapping[str, facts.Refusal] = _Part(self._by_uid, lambda of: of.refusal)

    def of(self, key: objects.ObjectKey, uid: str) -> ObjectState:
        """Return the record of an object that is in the store, a new one where there is none."""
        found = self._by_key.get(key)
        if found is None or found.uid != uid:
            self.forget(key)
            found = self._by_key[key] = self._by_uid[uid] = ObjectState(key=key, uid=uid)
        return found

    def forget(self, key: objects.ObjectKey) -> None:
        """Remove the record of an object that is gone, if there is one."""
        found = self._by_key.pop(key, None)
        if found is not None:
            del self._by_uid[found.uid]


class _Part(Mapping[str, _T], Generic[_T]):
    """One field of all records that have it, by uid: a view, as decisions take facts."""

    def __init__(
        self, states: Mapping[str, ObjectState], read: Callable[[ObjectState], _T | None]
    ) -> None:
        self._states = states
        self._read = read

    def __getitem__(self, uid: str) -> _T:
        found = self.get(uid)
        if found is None:
            raise KeyError(uid)
        return found

    @overload
    def get(self, key: str, /) -> _T | None: ...
    @overload
    def get(self, key: str, /, default: _T | _D) -> _T | _D: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        """Return the field of the record of a uid, where it has one."""
        state = self._states.get(key)
        found = None if state is None else self._read(state)
        return default if found is None else found

    def __iter__(self) -> Iterator[str]:
        return (uid for uid, state in self._states.items() if self._read(state) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
