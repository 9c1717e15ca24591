"""Tables that were written some days ago: the machine's clock, set back."""

from dataclasses import dataclass, replace

from hoodie import clock, environment

_DAY_MS = 86_400_000


@dataclass
class EarlierClock(clock.SystemClock):
    """The machine's clock, some days ago."""

    days: float

    def now_ms(self) -> int:
        return super().now_ms() - int(self.days * _DAY_MS)


def system(days: float) -> environment.Environment:
    """Return the machine's environment as it was some days ago."""
    return replace(environment.system(), clock=EarlierClock(days))
