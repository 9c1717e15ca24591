"""The wait between two tries grows up to its limit, and its jitter stays within its spread."""

import pytest

from hoodie import backoff


def test_wait_doubles_up_to_its_limit() -> None:
    waits = [backoff.growing(0.5, 5.0, failures) for failures in range(1, 7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


def test_wait_after_days_of_failures_is_the_limit() -> None:
    assert backoff.growing(0.5, 120.0, 10**9) == 120.0


def test_wait_grows_by_another_factor() -> None:
    assert backoff.growing(2.0, 100.0, 3, factor=1.5) == 4.5


@pytest.mark.parametrize(("chance", "wait"), [(0.0, 8.0), (0.5, 10.0), (1.0, 12.0)])
def test_jitter_stays_within_its_spread(chance: float, wait: float) -> None:
    assert backoff.jittered(10.0, chance, 0.2) == pytest.approx(wait)
