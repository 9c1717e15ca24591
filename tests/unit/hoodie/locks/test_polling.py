"""Looking again and again at a lock: how seldom, how often, how long."""

import itertools

import pytest

from hoodie import errors
from hoodie.transaction.locks.polling import Polling, Waiting
from support.simulation import schedule


class Middle:
    """No jitter: every pause is as long as it is about."""

    def uuid(self) -> str:
        raise NotImplementedError

    def uniform(self) -> float:
        return 0.5


def _pauses(polling: Polling, wait_s: float) -> list[float]:
    clock = schedule.VirtualClock(schedule.Schedule(1), 0)
    waiting = Waiting(polling, wait_s, clock, Middle())
    times = [clock.monotonic_s()]
    while waiting.pause():
        times.append(clock.monotonic_s())
    return [round(after - before, 3) for before, after in itertools.pairwise(times)]


def test_pauses_grow_to_the_longest_and_end_with_the_waiting_time() -> None:
    pauses = _pauses(Polling(first_s=1, longest_s=2), wait_s=7)
    assert pauses == [1, 1.5, 2, 2, 0.5]


def test_looks_are_no_more_than_configured() -> None:
    assert _pauses(Polling(first_s=1, longest_s=1, retries_max=3), wait_s=60) == [1, 1, 1]


def test_no_waiting_time_is_one_look() -> None:
    assert _pauses(Polling(first_s=1, longest_s=1), wait_s=0) == []


@pytest.mark.parametrize(
    ("first_s", "longest_s", "retries_max"), [(0, 1, None), (2, 1, None), (1, 1, -1)]
)
def test_contradiction_is_invalid_input(
    first_s: float, longest_s: float, retries_max: int | None
) -> None:
    with pytest.raises(errors.InvalidInputError):
        Polling(first_s=first_s, longest_s=longest_s, retries_max=retries_max)
