"""A clock that stands still until the test moves it."""


class MovedClock:
    """Nobody sleeps by it."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep_s(self, seconds: float) -> None:
        raise AssertionError(seconds)
