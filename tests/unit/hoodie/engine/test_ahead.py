"""Working ahead: order, bound, failures, giving up."""

import threading

import pytest

from hoodie import errors
from hoodie.engine import ahead


@pytest.mark.parametrize("threads", [1, 2, 5, 50])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_results_come_in_the_items_order(threads: int, count: int) -> None:
    assert list(ahead.results(lambda n: n * n, range(count), threads)) == [
        n * n for n in range(count)
    ]


def test_threads_work_while_the_caller_is_busy_and_not_too_far_ahead() -> None:
    started: list[int] = []
    is_third_started = threading.Event()

    def task(n: int) -> int:
        started.append(n)
        if n == 3:
            is_third_started.set()
        return n

    found = ahead.results(task, range(100), 2)
    assert next(found) == 0
    assert next(found) == 1
    assert is_third_started.wait(timeout=30)
    assert len(started) <= 4  # Two were taken, and there are two threads.
    assert list(found) == list(range(2, 100))


@pytest.mark.parametrize("threads", [1, 3])
def test_failure_comes_in_its_place(threads: int) -> None:
    def task(n: int) -> int:
        if n == 2:
            raise errors.StorageError("the second")
        return n

    found = ahead.results(task, range(100), threads)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(errors.StorageError, match="the second"):
        next(found)
    assert list(found) == []


def test_caller_who_wants_no_more_ends_it() -> None:
    started: list[int] = []
    found = ahead.results(started.append, range(1000), 2)
    next(found)
    found.close()
    assert len(started) <= 4
    assert not [each for each in threading.enumerate() if each.name.startswith("hoodie-ahead")]
