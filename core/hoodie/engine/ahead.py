"""Working ahead of whoever takes the results one after the other, by threads of this process."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent import futures

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
