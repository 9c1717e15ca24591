"""Periodic threads: they call until stopped, False or a failure; stop waits for a running call."""

import logging
import threading

import pytest

from hoodie import errors
from hoodie.background.threads import ThreadBackground

SOON_S = 0.001
LONG_S = 3600.0


def test_call_comes_again_and_again_until_it_returns_false() -> None:
    counts: list[int] = []
    ended = threading.Event()

    def call() -> bool:
        counts.append(len(counts))
        if len(counts) == 5:
            ended.set()
            return False
        return True

    periodic = ThreadBackground().every(SOON_S, call, name="count")
    assert ended.wait(timeout=30)
    periodic.stop()
    assert counts == [0, 1, 2, 3, 4]


def test_stop_before_the_first_interval_means_no_call() -> None:
    calls: list[None] = []

    def call() -> bool:
        calls.append(None)
        return True

    periodic = ThreadBackground().every(LONG_S, call, name="never")
    periodic.stop()
    periodic.stop()
    assert calls == []


def test_stop_returns_only_when_the_running_call_has_ended() -> None:
    entered, leave, stopped = threading.Event(), threading.Event(), threading.Event()

    def call() -> bool:
        entered.set()
        leave.wait(timeout=30)
        assert not stopped.is_set()
        return True

    periodic = ThreadBackground().every(SOON_S, call, name="slow")
    assert entered.wait(timeout=30)

    def stop() -> None:
        periodic.stop()
        stopped.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    assert not stopped.wait(timeout=0.05)
    leave.set()
    stopper.join(timeout=30)
    assert stopped.is_set()


def test_call_may_stop_itself() -> None:
    started, ended = threading.Event(), threading.Event()

    def call() -> bool:
        started.wait(timeout=30)
        periodic.stop()
        ended.set()
        return True

    periodic = ThreadBackground().every(SOON_S, call, name="self")
    started.set()
    assert ended.wait(timeout=30)
    periodic.stop()


def test_call_that_raises_is_logged_once_and_not_called_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called = threading.Event()

    def call() -> bool:
        called.set()
        raise errors.StorageError("broken")

    with caplog.at_level(logging.ERROR, logger="hoodie"):
        periodic = ThreadBackground().every(SOON_S, call, name="beat")
        assert called.wait(timeout=30)
        periodic.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "hoodie-beat failed and is not called again"
    ]


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan")])
def test_interval_that_is_none_is_refused(interval_s: float) -> None:
    with pytest.raises(errors.InvalidInputError, match="beat"):
        ThreadBackground().every(interval_s, lambda: True, name="beat")
