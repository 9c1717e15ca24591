"""The table lock as transactions use it: a scope in which a timeline is read and decided on.

Every change of the timeline is made in one scope, on the timeline that the scope read after the
lock was acquired (L1). A scope is entered by one transaction at a time, which has a provider of its
own (L3, L4): a second thread that comes by the same client is refused. Whether the lock is still
held is asked right before and right after anything is published (L2). Letting go of the lock never
turns what was published into a failure (C3): the provider or its server ends what could not be
given back.

In a table with a chain (`hoodie.timeline.chain`) the lock is a courtesy among our own writers,
which makes retries rare: what counts is the number of the epoch that a change was decided on. If
other engines write the table as well, the lock is what keeps us apart from them.

One listing a scope, whatever the length of the history; of a table with a chain one more, of its
epochs.
"""

import logging
import threading  # noqa: TID251 - a provider does not know which thread takes it, in-process apart
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeVar

from hoodie import clock, errors
from hoodie.model import settings
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, epochs
from hoodie.transaction.locks.protocol import LockProvider

logger = logging.getLogger(__name__)

Decided = TypeVar("Decided")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockTimes:
    """How long a lock was waited for and held.

    Attributes:
        wait_ms: Until it was acquired.
        hold_ms: From then until it was released.
    """

    wait_ms: int = 0
    hold_ms: int = 0

    def __add__(self, other: "LockTimes") -> "LockTimes":
        return LockTimes(wait_ms=self.wait_ms + other.wait_ms, hold_ms=self.hold_ms + other.hold_ms)

    def __sub__(self, other: "LockTimes") -> "LockTimes":
        return LockTimes(wait_ms=self.wait_ms - other.wait_ms, hold_ms=self.hold_ms - other.hold_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long and how often a lock is tried for.

    Attributes:
        wait_ms: What one try may take.
        retries_max: Further tries after one that did not get it.
        retry_wait_ms: Pause before each of them.
    """

    wait_ms: int
    retries_max: int = 0
    retry_wait_ms: int = 0

    @classmethod
    def of(cls, found: settings.WriteSettings) -> Self:
        """Return what settings ask for."""
        return cls(
            wait_ms=found.lock_wait_ms,
            retries_max=found.lock_retries_max,
            retry_wait_ms=found.lock_retry_wait_ms,
        )


class LockScope:
    """The lock while it is held, and what was read under it."""

    def __init__(
        self,
        provider: LockProvider,
        timeline: active.ActiveTimeline,
        view: epochs.View | None = None,
        *,
        beside: active.ActiveTimeline | None = None,
        is_courtesy: bool = False,
    ) -> None:
        """Take a provider that has acquired its lock, and what was read since.

        Args:
            provider: The lock's.
            timeline: Read last.
            view: Of the table's chain; None for a table without one.
            beside: The timeline of the table's other half; None where it has none.
            is_courtesy: Whether changes that are made without the lock are refused anyway.
        """
        self._provider = provider
        self._timeline = timeline
        self._beside = beside
        self._view = view
        self._is_courtesy = is_courtesy

    @property
    def view(self) -> epochs.View | None:
        """The table's chain and what it says of the timeline; None for a table without one."""
        return self._view

    @property
    def epoch(self) -> int | None:
        """The number of the newest epoch; None for a table without a chain."""
        return None if self._view is None else self._view.head.epoch.number

    @property
    def is_courtesy(self) -> bool:
        """Whether changes that are made without the lock are refused anyway.

        They are in a table with a chain that no other engine writes.
        """
        return self._is_courtesy

    @property
    def timeline(self) -> active.ActiveTimeline:
        """The active timeline as it was when the scope was entered."""
        return self._timeline

    @property
    def beside(self) -> active.ActiveTimeline | None:
        """The timeline of the table's metadata table; of a metadata table, that of the data."""
        return self._beside

    @property
    def floor(self) -> str:
        """The greatest time on the timeline beside; empty for none."""
        return "" if self._beside is None else self._beside.greatest_time or ""

    @property
    def fencing_token(self) -> int:
        """Tells this holding of the lock from any other."""
        return self._provider.fencing_token

    def is_held(self) -> bool:
        """Return whether the lock is known to be held; true where it is a courtesy."""
        return self._is_courtesy or self._provider.is_held()

    def check(self) -> None:
        """Refuse to go on without the lock.

        Raises:
            LockLostError: It is not known to be held any more.
        """
        _check(self._provider, is_courtesy=self._is_courtesy)


class TableLock:
    """One transaction client's access to the table lock."""

    def __init__(
        self,
        provider: LockProvider,
        storage: Storage,
        waiting_clock: clock.Clock,
        patience: Patience,
        table_chain: chain.Chain | None = None,
        beside: Storage | None = None,
    ) -> None:
        """Take the provider, the table and its chain, and how long to try for the lock.

        Args:
            provider: For this client alone.
            storage: The table's.
            waiting_clock: Tells how long was waited.
            patience: How long to try.
            table_chain: The table's; None for none.
            beside: The storage of the table's metadata table; of a metadata table, the data's. Its
                timeline is read in each scope, too, since times are above those of both.
        """
        self._provider = provider
        self._chain = table_chain
        self._storage = storage
        self._beside = beside
        self._clock = waiting_clock
        self._patience = patience
        self._times = LockTimes()
        self._entry = threading.Lock()

    @property
    def description(self) -> str:
        """Which lock it is."""
        return self._provider.description

    @property
    def is_courtesy(self) -> bool:
        """As `LockScope.is_courtesy`."""
        return self._chain is not None and not self._chain.has_foreign_writers

    @property
    def times(self) -> LockTimes:
        """All waits and holds so far."""
        return self._times

    @contextmanager
    def scope(self) -> Iterator[LockScope]:
        """Acquire the lock, read the timeline, and give the lock back in the end.

        Raises:
            InvalidInputError: This client is in a scope already, in whichever thread.
            LockTimeoutError: Timed out waiting for the lock; the message names its owner.
            StorageError: The timeline could not be read.
        """
        if not self._entry.acquire(blocking=False):
            raise errors.InvalidInputError(
                f"the {self.description} is already held by this client: two threads that change "
                "a table need one client each"
            )
        try:
            yield from self._scope()
        finally:
            self._entry.release()

    def decide(self, decide: Callable[[LockScope], Decided]) -> Decided:
        """Return what is decided and done in a scope.

        In a table with a chain whoever is overtaken decides everything again, on the newest
        timeline (CH3). Somebody else's change was made each time, so that the table never stands
        still. The same holds if a file of the timeline was archived meanwhile and is missing, or
        those of an index that was dropped.

        Raises:
            HoodieError: As `scope`, and what it raises itself.
        """
        while True:
            entered: LockScope | None = None
            try:
                with self.scope() as scope:
                    entered = scope
                    return decide(scope)
            except errors.OvertakenError as overtaken:
                logger.info("deciding again: %s", overtaken)
            except (errors.NotFoundError, errors.FormatError) as error:
                if entered is None or not self._is_old(entered):
                    raise
                logger.info("deciding again: %s", error)

    def _is_old(self, scope: LockScope) -> bool:
        """Return whether a change was made since a scope was entered; a listing, and a read."""
        return self._chain is not None and self._chain.head().epoch.number != scope.epoch

    def _scope(self) -> Iterator[LockScope]:
        begun_s = self._clock.monotonic_s()
        try:
            self._acquire()
        finally:
            acquired_s = self._clock.monotonic_s()
            self._times += LockTimes(wait_ms=_ms(acquired_s - begun_s))
        try:
            yield self._look()
        finally:
            self._release()
            self._times += LockTimes(hold_ms=_ms(self._clock.monotonic_s() - acquired_s))

    def _look(self) -> LockScope:
        """Read the timeline, after what the chain's head says was published."""
        is_courtesy = self.is_courtesy
        view = None
        if self._chain is not None:
            view = self._chain.look(lambda: _check(self._provider, is_courtesy=is_courtesy))
        return LockScope(
            self._provider,
            active.listed(self._storage) if view is None else view.timeline,
            view,
            beside=None if self._beside is None else active.listed(self._beside),
            is_courtesy=is_courtesy,
        )

    def _acquire(self) -> None:
        for _ in range(self._patience.retries_max):
            try:
                self._provider.acquire(self._patience.wait_ms / 1000)
            except errors.LockTimeoutError as error:
                logger.info("retrying in %s ms: %s", self._patience.retry_wait_ms, error)
                self._clock.sleep_s(self._patience.retry_wait_ms / 1000)
            else:
                return
        self._provider.acquire(self._patience.wait_ms / 1000)

    def _release(self) -> None:
        try:
            self._provider.release()
        except errors.HoodieError as error:
            logger.warning("%s was not released: %s", self._provider.description, error)


def _check(provider: LockProvider, *, is_courtesy: bool) -> None:
    if not is_courtesy and not provider.is_held():
        raise errors.LockLostError(f"the {provider.description} was lost while held")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
