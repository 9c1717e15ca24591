"""Working ahead of whoever takes the results one after the other, by threads of this process."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent import futures
from dataclasses import dataclass
from typing import Generic

from hoodie.engine.protocol import Item, Result


def results(
    task: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> Generator[Result, None, None]:
    """Yield the task's results in the items' order.

    While the caller is busy with one result each thread makes one more, and then waits. A single
    thread is the caller's own, which never works ahead.

    Raises:
        Exception: An item's failure in its place; what runs has ended, the rest is not started.
    """
    threads = min(threads, len(items))
    if threads <= 1:
        yield from map(task, items)
        return
    waiting: deque[futures.Future[Result]] = deque()
    with futures.ThreadPoolExecutor(threads, thread_name_prefix="hoodie-ahead") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(task, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # Also when the caller wants no more: leaving the pool then waits for what runs only.
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound(Generic[Result]):
    """How much may wait for the caller.

    Attributes:
        size_of: The size of a result.
        size_max: No result is made ahead while those that wait have this size together.
    """

    size_of: Callable[[Result], int]
    size_max: int


def streams(
    task: Callable[[Item], Iterator[Result]],
    items: Iterable[Item],
    threads: int,
    bound: Bound[Result],
) -> Generator[Result, None, None]:
    """Yield what the task yields for each item, in the items' order.

    As `results`, but of an item only what fits into the bound is made before the caller asks for
    it. No thread waits for the caller, or a process could not end before it has taken everything:
    a thread leaves an item whose results fill the bound, and takes it up again when there is room.

    Args:
        task: Does nothing before its first result is asked for; each is made by one thread, but not
            all by the same.
        items: The items. Those of an iterator are taken by the caller's thread, a few ahead.
        threads: So many items are worked on at once.
        bound: What waits for the caller.

    Raises:
        Exception: An item's failure in its place; what runs has ended, the rest is not started.
    """
    if isinstance(items, Sized):
        threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            yield from task(item)
        return
    with futures.ThreadPoolExecutor(threads, thread_name_prefix="hoodie-ahead") as pool:
        streamed = _Streams(pool, bound)
        try:
            for item in items:
                streamed.add(task(item))
                if len(streamed.waiting) > threads:
                    yield from streamed.first()
            while streamed.waiting:
                yield from streamed.first()
        finally:
            streamed.stop()
            pool.shutdown(wait=False, cancel_futures=True)


class Turn:
    """What one thread does at a time, in a `with` block; the others wait."""

    def __init__(self) -> None:
        """Nothing is being done."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Wait for whichever thread is in a block."""
        self._lock.acquire()

    def __exit__(self, *raised: object) -> None:
        """Let the next one in."""
        self._lock.release()


class _Stream(Generic[Result]):
    """The results of one item.

    Attributes:
        source: Makes them; of one thread at a time.
        made: Those that wait for the caller.
        work: What makes more of them now, or did last.
        is_at_work: Whether it still does.
        is_ended: Whether there are no more.
    """

    def __init__(self, source: Iterator[Result]) -> None:
        self.source = source
        self.made: deque[Result] = deque()
        self.work: futures.Future[None] | None = None
        self.is_at_work = False
        self.is_ended = False


class _Streams(Generic[Result]):
    """The streams of the items that are worked on or wait, the caller's first."""

    def __init__(self, pool: futures.Executor, bound: Bound[Result]) -> None:
        self.waiting: deque[_Stream[Result]] = deque()
        self._pool = pool
        self._bound = bound
        self._size = 0
        self._is_stopped = False
        self._changed = threading.Condition()

    def add(self, source: Iterator[Result]) -> None:
        """Begin an item behind the others."""
        with self._changed:
            self.waiting.append(_Stream(source))
            self._work_where_there_is_room()

    def first(self) -> Iterator[Result]:
        """Yield the results of the first item, and forget it."""
        stream = self.waiting[0]
        while True:
            with self._changed:
                self._work_where_there_is_room()
                self._changed.wait_for(lambda: stream.made or not stream.is_at_work)
                if not stream.made:
                    assert stream.is_ended
                    break
                result = stream.made.popleft()
                self._size -= self._bound.size_of(result)
            yield result
            del result  # Or it would live until the next one is there.
        assert stream.work is not None
        stream.work.result()
        with self._changed:
            self.waiting.popleft()

    def stop(self) -> None:
        """Have what runs end at its next result."""
        with self._changed:
            self._is_stopped = True

    def _work_where_there_is_room(self) -> None:
        for stream in self.waiting:
            if not (stream.is_at_work or stream.is_ended) and self._has_room(stream):
                stream.is_at_work = True
                stream.work = self._pool.submit(self._make, stream)

    def _has_room(self, stream: _Stream[Result]) -> bool:
        is_awaited = stream is self.waiting[0] and not stream.made
        return is_awaited or self._size < self._bound.size_max

    def _make(self, stream: _Stream[Result]) -> None:
        """Make results while there is room for them."""
        is_left = False
        try:
            for result in stream.source:
                with self._changed:
                    stream.made.append(result)
                    self._size += self._bound.size_of(result)
                    is_left = self._is_stopped or not self._has_room(stream)
                    # Together with that: with no thread at work, and nothing made, it has ended.
                    stream.is_at_work = not is_left
                    self._changed.notify()
                if is_left:
                    return
        finally:
            if not is_left:
                with self._changed:
                    stream.is_at_work, stream.is_ended = False, True
                    self._changed.notify()
