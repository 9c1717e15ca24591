"""Working ahead: order, bound, failures, giving up."""

import subprocess
import sys
import threading
from collections.abc import Iterator

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


def counted(n: int) -> Iterator[int]:
    """Yield ten numbers of an item's own."""
    yield from range(n * 10, n * 10 + 10)


def bound(size_max: int) -> ahead.Bound[int]:
    return ahead.Bound(size_of=lambda _: 1, size_max=size_max)


@pytest.mark.parametrize("size_max", [0, 1, 7, 1000])
@pytest.mark.parametrize("threads", [1, 2, 5, 50])
@pytest.mark.parametrize("count", [0, 1, 20])
def test_streams_come_in_the_items_order(count: int, threads: int, size_max: int) -> None:
    found = ahead.streams(counted, range(count), threads, bound(size_max))
    assert list(found) == list(range(count * 10))


def test_no_result_is_lost_however_threads_take_turns() -> None:
    """A stream that a thread has just left was taken for one that had ended."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for size_max in (0, 1, 2, 7) * 75:
            found = ahead.streams(counted, range(6), 3, bound(size_max))
            assert list(found) == list(range(60))
    finally:
        sys.setswitchinterval(interval)


def test_items_without_results_are_passed_over() -> None:
    def task(n: int) -> Iterator[int]:
        return counted(n) if n % 3 == 0 else iter(())

    found = list(ahead.streams(task, range(9), 2, bound(5)))
    assert found == [number for n in (0, 3, 6) for number in counted(n)]


def test_what_waits_for_the_caller_is_bounded() -> None:
    made: list[int] = []
    is_quiet = threading.Semaphore(0)

    def task(n: int) -> Iterator[int]:
        for number in counted(n):
            made.append(number)
            is_quiet.release()
            yield number

    found = ahead.streams(task, range(100), 2, bound(4))
    for taken in range(1, 501):
        assert next(found) == taken - 1
        while is_quiet.acquire(timeout=0.0001):
            pass
        # The two threads, which look at the bound once they have made something, and the caller.
        assert len(made) <= taken + 4 + 2
    found.close()


def test_second_item_is_worked_on_while_the_caller_has_the_first() -> None:
    is_begun = threading.Event()

    def task(n: int) -> Iterator[int]:
        if n == 1:
            is_begun.set()
        yield from counted(n)

    found = ahead.streams(task, range(3), 2, bound(15))
    assert next(found) == 0
    assert is_begun.wait(timeout=30)
    assert list(found) == list(range(1, 30))


@pytest.mark.parametrize("threads", [1, 3])
def test_failure_of_a_stream_comes_in_its_place(threads: int) -> None:
    def task(n: int) -> Iterator[int]:
        yield n
        if n == 2:
            raise errors.StorageError("in the third")

    found = ahead.streams(task, range(100), threads, bound(2))
    assert [next(found), next(found), next(found)] == [0, 1, 2]
    with pytest.raises(errors.StorageError, match="in the third"):
        next(found)
    assert list(found) == []


def test_streams_end_with_the_caller_and_are_closed() -> None:
    closed: list[int] = []

    def task(n: int) -> Iterator[int]:
        try:
            yield from counted(n)
        finally:
            closed.append(n)

    found = ahead.streams(task, range(1000), 2, bound(3))
    next(found)
    found.close()
    assert 0 in closed
    assert len(closed) <= 3
    assert not [each for each in threading.enumerate() if each.name.startswith("hoodie-ahead")]


def test_process_ends_that_has_not_taken_everything() -> None:
    program = (
        "from hoodie.engine import ahead\n"
        "bound = ahead.Bound(size_of=lambda _: 1, size_max=2)\n"
        "found = ahead.streams(lambda n: iter(range(9)), range(9), 2, bound)\n"
        "print(next(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
