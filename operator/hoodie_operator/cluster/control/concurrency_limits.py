"""How much is done at once at one place, so that what hangs there keeps nobody from another.

A place is whatever one waits for: an observer, a host, the lock of some tables.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class KeyedSemaphore:
    """So many turns at once at each place; a place that nobody is at is forgotten."""

    def __init__(self, at_once: int) -> None:
        """Have every place free.

        Args:
            at_once: At each place.
        """
        self._at_once = at_once
        self._places: weakref.WeakValueDictionary[str, asyncio.Semaphore] = (
            weakref.WeakValueDictionary()
        )

    def at(self, place: str) -> asyncio.Semaphore:
        """Return what to hold while one is at a place."""
        return self._places.setdefault(place, asyncio.Semaphore(self._at_once))


class BoundedThreadPool:
    """Threads for calls that may hang: names that do not resolve, hosts that do not answer.

    Python cannot end a call. One whose time is up is left to its thread, and keeps its turn: where
    many hang at one place no more threads go there. Each share, a namespace's, has some of them:
    what one tenant has hang leaves threads for others.
    """

    def __init__(
        self, name: str, *, in_all: int, of_share: int, at_once: int, limit_s: float
    ) -> None:
        """Start no thread yet.

        Args:
            name: Of the threads.
            in_all: So many threads; where all hang, others wait.
            of_share: So many for one share.
            at_once: So many at one place, for one share.
            limit_s: For one call, the wait for its turn included.
        """
        self._threads = ThreadPoolExecutor(max_workers=in_all, thread_name_prefix=name)
        self._turns = KeyedSemaphore(at_once)
        self._shares = KeyedSemaphore(of_share)
        self._limit_s = limit_s

    async def call(self, share: str, place: str, asked: Callable[[], T]) -> T:
        """Return what a call returns.

        Args:
            share: On whose behalf.
            place: Where it may hang.
            asked: The call.

        Raises:
            TimeoutError: It has not returned in time.
            Exception: As the call does.
        """
        loop = asyncio.get_running_loop()
        turn, room = self._turns.at(f"{share} {place}"), self._shares.at(share)

        def release(call: Future[Any]) -> None:
            del call
            with contextlib.suppress(RuntimeError):  # The loop has ended before the call.
                loop.call_soon_threadsafe(turn.release)
                loop.call_soon_threadsafe(room.release)

        async with asyncio.timeout(self._limit_s):
            # In this order: who waits for a place takes nobody's room.
            await turn.acquire()
            try:
                await room.acquire()
            except BaseException:
                turn.release()
                raise
            call = self._threads.submit(asked)
            call.add_done_callback(release)
            return await asyncio.wrap_future(call)
