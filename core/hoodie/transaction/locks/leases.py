"""A lock that is a lease: taken, renewed in the background, given back, and over when it is not.

What a lease is on a server or a storage is a `LeaseStore`'s; when it is had, held and lost is told
here, for all of them alike:

- A lease is changed by writes that are refused unless it is still at the version that was seen.
- A refused write may be the echo of our own that succeeded, and one that failed may have succeeded:
  what is there is read before it counts as somebody else's.
- `is_held` asks the store: a process that was paused for longer than its lease does not know.
- A lease that ended and that nobody took is renewed, and was ours all the time.
"""

import dataclasses
import enum
import logging
from dataclasses import dataclass
from typing import Protocol

from hoodie import clock, errors, identity
from hoodie.background.protocol import Background, Periodic
from hoodie.transaction.locks import inspection, polling
from hoodie.transaction.locks.inspection import Holding, Liveness
from hoodie.transaction.locks.protocol import LockOwner

logger = logging.getLogger(__name__)


class Event(enum.Enum):
    """What happened to a lease of ours."""

    START = "START"
    RENEW = "RENEW"
    END = "END"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A lease as it was at some moment.

    Attributes:
        version: No other state of the lease has the same.
        owner: Who has or had it.
        is_given_back: Whether that one gave it back.
        token: Greater than that of any holding before; a renewal may make it greater still.
        until: When it ends, in words for who waits.
    """

    version: str
    owner: str
    is_given_back: bool
    token: int
    until: str


class LeaseStore(Protocol):
    """One access to where a lease is.

    A write returns what is there now, and None when somebody else was quicker. All of them raise
    HoodieError when the store fails.
    """

    @property
    def description(self) -> str:
        """Which lock it is and where, without credentials."""
        ...

    @property
    def owner_text(self) -> str:
        """What a lease of ours names as its owner; no other access has the same."""
        ...

    @property
    def lease_s(self) -> float:
        """How long a lease is that is not renewed."""
        ...

    @property
    def renew_interval_s(self) -> float:
        """How often it is to be renewed."""
        ...

    def look(self) -> Seen | None:
        """Return the lease; None when nobody ever had it."""
        ...

    def is_over(self, seen: Seen) -> bool:
        """Return whether a lease that was not given back has ended."""
        ...

    def take(self, before: Seen | None) -> Seen | None:
        """Write a lease of ours over what was seen."""
        ...

    def renew(self, held: Seen) -> Seen | None:
        """Make our lease as long as a fresh one."""
        ...

    def give_back(self, held: Seen) -> Seen | None:
        """Mark a lease as given back, whosever it is."""
        ...

    def last_sign_ms(self) -> int | None:
        """Return when the lease was last written, by the store's wall clock; None where unknown."""
        ...

    def note(self, event: Event) -> None:
        """Take note of what happened; never raises."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


def owner_text(owner: LockOwner) -> str:
    """Return what a lease names its owner: words for who waits, and an id that is nobody else's."""
    return "".join(c if c.isprintable() else "?" for c in f"{owner} {owner.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hold:
    seen: Seen
    token: int
    since_s: float  # Monotonic, from before the lease was written.


class LeasedLock:
    """One transaction's access."""

    def __init__(
        self,
        store: LeaseStore,
        owner: LockOwner,
        polls: polling.Polling,
        *,
        waiting_clock: clock.Clock,
        random: identity.Random,
        background: Background,
    ) -> None:
        """Take where the lease is, and who we are.

        Args:
            store: For this access alone.
            owner: Who takes the lock.
            polls: How often to look while another has it.
            waiting_clock: For waiting and for the length of leases.
            random: Jitter.
            background: Renews the lease.
        """
        self._store = store
        self._owner = owner
        self._polls = polls
        self._clock = waiting_clock
        self._random = random
        self._background = background
        self._hold: _Hold | None = None
        self._renewal: Periodic | None = None

    @property
    def description(self) -> str:
        """The lock in words."""
        return self._store.description

    def acquire(self, wait_s: float) -> None:
        """Take the lock, waiting no longer than that."""
        if self._hold is not None:
            raise errors.InvalidInputError(f"{self._owner} already holds the {self.description}")
        waiting = polling.Waiting(self._polls, wait_s, self._clock, self._random)
        while True:
            seen = self._store.look()
            if self._is_free(seen) and self._take(seen):
                return
            if not waiting.pause():
                raise errors.LockTimeoutError(
                    f"{self._owner} timed out after {wait_s:g} s waiting for the "
                    f"{self.description}: "
                    f"{self._holder()}"
                )

    def _is_free(self, seen: Seen | None) -> bool:
        if seen is None or seen.is_given_back:
            return True
        if seen.owner == self._store.owner_text:
            return True  # Left by a write of ours whose answer was lost.
        if not self._store.is_over(seen):
            return False
        logger.warning(
            "%s takes over the %s: %s was silent for too long",
            self._owner,
            self.description,
            seen.owner,
        )
        return True

    def _take(self, seen: Seen | None) -> bool:
        since_s = self._clock.monotonic_s()
        taken = self._store.take(seen)
        if taken is None:
            return False
        self._hold = _Hold(seen=taken, token=taken.token, since_s=since_s)
        try:
            self._renewal = self._background.every(
                self._store.renew_interval_s, self._renew, name=f"renewal of {self.description}"
            )
        except BaseException:
            self._give_back()
            raise
        self._store.note(Event.START)
        return True

    def holding(self) -> Holding | None:
        """Return who has the lease."""
        seen = self._store.look()
        if seen is None or seen.is_given_back:
            return None
        is_over = self._store.is_over(seen)
        sign_ms = self._store.last_sign_ms()
        return Holding(
            holder=inspection.holder_of(seen.owner),
            since_ms=None,
            silence_ms=None if sign_ms is None else max(0, self._clock.now_ms() - sign_ms),
            liveness=Liveness.DEAD if is_over else Liveness.MAYBE,
            evidence=("its lease has expired" if is_over else f"a holder {seen.until}"),
            release=(
                "the next waiting process takes it"
                if is_over
                else "the holder releases it, or stops renewing its lease and the lease expires"
            ),
            version=seen.version,
        )

    def take_away(self, found: Holding) -> bool:
        """Mark exactly the lease that was seen as given back."""
        seen = self._store.look()
        if seen is None or seen.is_given_back or seen.version != found.version:
            return False
        return self._store.give_back(seen) is not None

    def _holder(self) -> str:
        seen = self._store.look()
        if seen is None or seen.is_given_back:
            return "it was released just now, and another process acquired it"
        return f"held by {seen.owner}, {seen.until}"

    def _renew(self) -> bool:
        """Renew the lease; False when it was lost."""
        hold = self._hold
        if hold is None:
            return False
        since_s = self._clock.monotonic_s()
        try:
            renewed = self._store.renew(hold.seen)
            if renewed is None:
                return self._found_again(hold)
        except errors.HoodieError as error:
            logger.warning(
                "the renewal of the %s failed and will be retried: %s", self.description, error
            )
            return True
        self._hold = dataclasses.replace(hold, seen=renewed, since_s=since_s)
        self._store.note(Event.RENEW)
        return True

    def _found_again(self, hold: _Hold) -> bool:
        """Go on with a renewal of ours whose answer was lost; False when it is somebody else's."""
        now = self._store.look()
        if self._is_ours(now):
            assert now is not None
            self._hold = dataclasses.replace(hold, seen=now)
            return True
        logger.error("%s lost the %s: it was not renewed in time", self._owner, self.description)
        return False

    def _is_ours(self, seen: Seen | None) -> bool:
        return seen is not None and seen.owner == self._store.owner_text and not seen.is_given_back

    def release(self) -> None:
        """Give the lock back, if the lease is still ours."""
        if self._hold is None:
            raise errors.InvalidInputError(f"{self._owner} does not hold the {self.description}")
        if not self._give_back():
            logger.warning("%s had lost the %s before releasing it", self._owner, self.description)

    def _give_back(self) -> bool:
        renewal, self._renewal = self._renewal, None
        if renewal is not None:
            renewal.stop()
        hold, self._hold = self._hold, None
        assert hold is not None
        if self._store.give_back(hold.seen) is None:
            # A renewal of ours may have been written though its answer was lost.
            now = self._store.look()
            if not self._is_ours(now):
                return False
            assert now is not None
            if self._store.give_back(now) is None:
                return False
        self._store.note(Event.END)
        return True

    def is_held(self) -> bool:
        """Return whether the lease is ours and not over, by the store and by our clock."""
        hold = self._hold
        if hold is None or self._clock.monotonic_s() - hold.since_s >= self._store.lease_s:
            return False
        try:
            return self._is_ours(self._store.look())
        except errors.HoodieError:
            return False

    @property
    def fencing_token(self) -> int:
        """The token of the lease when it was taken."""
        hold = self._hold
        if hold is None:
            raise errors.LockLostError(f"{self._owner} does not hold the {self.description}")
        return hold.token

    def close(self) -> None:
        """Give the lock back if it is taken."""
        try:
            if self._hold is not None:
                self.release()
        finally:
            self._store.close()
