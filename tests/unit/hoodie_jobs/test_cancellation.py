"""A request to stop is noted at once and takes effect where the work looks."""

import os
import signal
import threading

import pytest

from hoodie import errors
from hoodie_jobs import cancellation


@pytest.fixture
def stop() -> cancellation.Cancellation:
    return cancellation.Cancellation()


def test_work_goes_on_until_asked_to_stop(stop: cancellation.Cancellation) -> None:
    stop.check()
    stop.wait(0)
    stop.request()
    with pytest.raises(errors.CancelledError):
        stop.check()


def test_wait_ends_when_asked_to_stop(stop: cancellation.Cancellation) -> None:
    threading.Timer(0.01, stop.request).start()
    with pytest.raises(errors.CancelledError):
        stop.wait(60)


def test_signal_is_a_request_and_makes_the_calls(
    stop: cancellation.Cancellation, request: pytest.FixtureRequest
) -> None:
    for number in cancellation.SIGNALS:
        former = signal.getsignal(number)
        request.addfinalizer(lambda number=number, former=former: signal.signal(number, former))  # type: ignore[misc] # pytest takes any callable
    called = threading.Event()
    stop.on_request(called.set)
    stop.listen()

    os.kill(os.getpid(), signal.SIGTERM)

    assert called.wait(60)
    assert stop.is_requested
