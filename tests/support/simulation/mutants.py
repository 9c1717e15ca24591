"""Rules switched off, to see whether a simulation notices."""

from collections.abc import Callable, Mapping

from hoodie.model import instants
from hoodie.timeline import true_time
from hoodie.transaction.client import Client, OpenAction
from hoodie.transaction.table_lock import LockScope

Patches = Mapping[tuple[object, str], object]
"""What takes the place of which attribute of what."""


def clock_alone(now_ms: int, *rest: object) -> true_time.Reading:
    del rest
    return true_time.Reading(time=instants.format_time(now_ms), wait_ms=0, lag_ms=0)


def unless_rollback(
    checked: Callable[[Client, LockScope, OpenAction], OpenAction],
) -> Callable[[Client, LockScope, OpenAction], OpenAction]:
    """Return a check that is not made of rollbacks."""

    def mutated(client: Client, scope: LockScope, opened: OpenAction) -> OpenAction:
        is_rollback = opened.action is instants.Action.ROLLBACK
        return opened if is_rollback else checked(client, scope, opened)

    return mutated


def by_requested_time(
    log_time: instants.InstantTime, barriers: list[instants.InstantTime], completion_time: object
) -> instants.InstantTime:
    del completion_time
    below = [barrier for barrier in barriers if barrier <= log_time]
    return below[-1] if below else log_time
