"""Who has a lock, by what evidence, and taking it from a holder that is dead.

What proves death is what makes a provider give the lock to the next who wants it: a process of this
machine that ended, a lease that is over, a silence that the server's time-out does not allow. A
provider whose lock can be looked at from outside is `Inspectable`; one among threads is not.
"""

import enum
import re
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from hoodie import clock, errors

_STEP_S = 0.5
_OURS = re.compile(r"(?P<name>.*) \(pid (?P<pid>\d+) on (?P<host>\S+)\)(?: (?P<id>[0-9a-f-]{36}))?")


class Liveness(enum.Enum):
    """What is known of a lock's holder."""

    ALIVE = "alive"
    MAYBE = "may be alive"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whose a lock is, as far as the lock itself says so.

    Attributes:
        id: Names the holder to `hoodie lock break --holder`; no other has the same.
        name: What people know it by.
        host: Of its process; None where it is not told.
        pid: Of its process; None where it is not told.
    """

    id: str
    name: str
    host: str | None = None
    pid: int | None = None

    def __str__(self) -> str:
        return self.name if self.pid is None else f"{self.name} (pid {self.pid} on {self.host})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A lock that somebody has.

    Attributes:
        holder: Who.
        since_ms: When it was taken, in milliseconds since the epoch; None where nobody knows.
        silence_ms: Since the last sign of life that was left where the lock is; None for none.
        patience_s: A holder that left no sign of life for longer, while it was watched, is dead;
            None where that proves nothing, or the provider itself watches.
        liveness: What all of it proves.
        evidence: What is known of the holder, as a clause.
        release: What would give the lock to others, as a clause.
        version: Another one after each sign of life; what `take_away` insists on.
    """

    holder: Holder
    since_ms: int | None
    silence_ms: int | None = None
    patience_s: float | None = None
    liveness: Liveness
    evidence: str
    release: str
    version: str


@runtime_checkable
class Inspectable(Protocol):
    """A provider whose lock can be looked at, and taken from its holder."""

    def holding(self) -> Holding | None:
        """Return who has the lock; None for nobody.

        Raises:
            HoodieError: Where the lock is does not answer.
        """
        ...

    def take_away(self, found: Holding) -> bool:
        """End exactly that holding; False when it changed since, and nothing was done.

        A holder that is alive learns of it from `is_held`, before it publishes anything.
        """
        ...


def holder_of(text: str) -> Holder:
    """Return the holder that a text stands for, taken apart where it is one of ours."""
    ours = _OURS.fullmatch(text)
    if ours is None:
        return Holder(id=text, name=text)
    return Holder(id=ours["id"] or text, name=ours["name"], host=ours["host"], pid=int(ours["pid"]))


def watched(lock: Inspectable, watch_s: float, waiting_clock: clock.Clock) -> Holding | None:
    """Return who has a lock, having looked for so long for a sign of life or for its end."""
    found = first = lock.holding()
    start_s = waiting_clock.monotonic_s()
    while first is not None and found is not None and found.liveness is Liveness.MAYBE:
        watched_s = waiting_clock.monotonic_s() - start_s
        if watched_s >= watch_s:
            break
        waiting_clock.sleep_s(min(watch_s - watched_s, _STEP_S))
        found = lock.holding()
        if found is None or found.holder.id != first.holder.id:
            break
        found = _judged(found, first, waiting_clock.monotonic_s() - start_s)
    return found


def _judged(found: Holding, first: Holding, watched_s: float) -> Holding:
    """Return a holding with what its being watched since `first` proves."""
    if found.version != first.version:
        sign = "it showed a sign of life while it was watched"
        return replace(found, liveness=Liveness.ALIVE, evidence=f"{found.evidence}; {sign}")
    if found.patience_s is not None and watched_s > found.patience_s:
        silence = f"it gave no sign of life in {watched_s:.0f} s"
        return replace(found, liveness=Liveness.DEAD, evidence=f"{found.evidence}; {silence}")
    return found


def break_refusal(found: Holding, holder_id: str | None) -> errors.HoodieError | None:
    """Return why a lock must not be taken from its holder; None when it may.

    Args:
        found: Who has it.
        holder_id: Whom somebody insists on taking it from, dead or not; None where nobody does.
    """
    if holder_id is not None and holder_id != found.holder.id:
        return errors.ConflictError(
            f"the lock is held by {found.holder}, whose id is {found.holder.id!r}, "
            f"not by {holder_id!r}"
        )
    if holder_id is None and found.liveness is not Liveness.DEAD:
        what = "is" if found.liveness is Liveness.ALIVE else "may be"
        return errors.ConflictError(
            f"{found.holder} has the lock and {what} alive: {found.evidence}; {found.release}"
        )
    return None
