"""A clock that never goes back, whatever the one that it stands on does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie import clock
from support.simulation.moved_clock import MovedClock


class Stepping(MovedClock):
    """Its wall clock is set as the test likes."""

    wall_ms = 1_000_000

    def now_ms(self) -> int:
        return self.wall_ms


def test_it_is_the_clock_that_it_stands_on_while_that_goes_on() -> None:
    stepping = Stepping()
    forward = clock.ForwardClock(stepping)
    for passed_ms in (0, 5, 1_000, 3_600_000):
        stepping.now_s += passed_ms / 1000
        stepping.wall_ms += passed_ms
        assert forward.now_ms() == stepping.wall_ms


def test_after_a_step_back_it_goes_on_from_where_it_was() -> None:
    stepping = Stepping()
    forward = clock.ForwardClock(stepping)
    stepping.wall_ms -= 3_600_000
    stepping.now_s += 2
    assert forward.now_ms() == 1_002_000


@settings(deadline=None)  # The machine is shared.
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-(10**9), 10**9)), max_size=50))
def test_it_never_goes_back_nor_stands_still(steps: list[tuple[int, int]]) -> None:
    stepping = Stepping()
    forward = clock.ForwardClock(stepping)
    told_ms = forward.now_ms()
    for passed_ms, wall_ms in steps:
        stepping.now_s += passed_ms / 1000
        stepping.wall_ms = wall_ms
        before_ms, told_ms = told_ms, forward.now_ms()
        assert told_ms >= max(before_ms + passed_ms, wall_ms)
