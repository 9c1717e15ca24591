"""The local engine: order, bound, first failure, progress."""

import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from hoodie import errors
from hoodie.engine import local
from hoodie.engine.local import LocalEngine


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_items_order(threads: int) -> None:
    assert LocalEngine(threads).map(lambda n: n * n, range(20)) == [n * n for n in range(20)]
    assert LocalEngine(threads).map(lambda n: n, []) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_of_one_key_come_together_in_the_order_of_their_items(threads: int) -> None:
    found = LocalEngine(threads).exchange(
        lambda n: {n % 3: n, 7: -n} if n else {},
        range(8),
        lambda key, parts: (key, list(parts)),
    )
    assert found == [
        (0, [3, 6]),
        (1, [1, 4, 7]),
        (2, [2, 5]),
        (7, [-1, -2, -3, -4, -5, -6, -7]),
    ]


def test_no_more_items_run_at_once_than_threads_and_as_many_do() -> None:
    barrier = threading.Barrier(4)  # Passed only when four items run at once.
    running = most = 0
    lock = threading.Lock()

    def task(_: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        barrier.wait(timeout=30)
        with lock:
            running -= 1

    LocalEngine(4).map(task, range(16))
    assert most == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_counts_to_the_total(threads: int) -> None:
    heard: list[tuple[int, int]] = []
    LocalEngine(threads).map(
        lambda n: n, range(5), progress=lambda done, total: heard.append((done, total))
    )
    assert heard == [(n, 5) for n in range(1, 6)]


def test_first_failure_in_time_is_raised_after_what_runs_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = threading.Event()
    set_exception = Future.set_exception

    def set_exception_and_tell(future: Future[None], error: BaseException) -> None:
        failed.set()
        set_exception(future, error)

    # What the task itself said might be heard before the engine knows of its failure.
    monkeypatch.setattr(Future, "set_exception", set_exception_and_tell)
    started: list[int] = []
    ended: list[int] = []

    def task(n: int) -> None:
        started.append(n)
        if n == 1:
            raise errors.StorageError("first in time")
        failed.wait(timeout=30)
        ended.append(n)
        if n == 0:
            raise errors.FormatError("first in order")

    with pytest.raises(errors.StorageError, match="first in time"):
        LocalEngine(2).map(task, range(1000))
    assert 0 in ended
    assert sorted([*ended, 1]) == sorted(started)
    assert len(started) <= 3  # One more may have begun before the failure was known.


def test_single_thread_stops_at_the_first_failure() -> None:
    started: list[int] = []

    def task(n: int) -> None:
        started.append(n)
        raise errors.StorageError(str(n))

    with pytest.raises(errors.StorageError, match="0"):
        LocalEngine(1).map(task, range(3))
    assert started == [0]


def test_engine_without_threads_is_refused() -> None:
    with pytest.raises(errors.InvalidInputError):
        LocalEngine(0)


@pytest.mark.parametrize(
    ("limit", "expected"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", None)]
)
def test_processors_are_what_the_container_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, expected: int | None
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(local, "_CGROUP_LIMIT", tmp_path / "cpu.max")
    assert local.processors() == 8
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert local.processors() == (expected or 8)
