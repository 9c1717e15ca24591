"""Rules switched off, to see whether a simulation notices."""

from collections.abc import Mapping

from hoodie.model import files, instants
from hoodie.timeline import true_time

Patches = Mapping[tuple[object, str], object]
"""What takes the place of which attribute of what."""


def clock_alone(now_ms: int, *rest: object) -> true_time.Reading:
    del rest
    return true_time.Reading(time=instants.format_time(now_ms), wait_ms=0, lag_ms=0)


def by_requested_time(
    log: files.LogFile, barriers: list[instants.InstantTime], completion_time: object
) -> instants.InstantTime:
    del completion_time
    below = [barrier for barrier in barriers if barrier <= log.instant_time]
    return below[-1] if below else log.instant_time
