"""What is observed next, and whether it may be: one decision for both outsides.

An outside asks when an object is observed next, observes it then, and keeps when it did so. What is
at work is observed often, what is at rest seldom; an edit, and the end of a run, at once. How the
observation is made, and how many at the same time, is the outside's.
"""

from dataclasses import dataclass
from typing import Final, cast

from hoodie_operator.api import kinds, objects
from hoodie_operator.api.reasons import Reason
from hoodie_operator.reconcile import facts, hudi_tables, observed_times
from hoodie_operator.reconcile.verdicts import Verdict
from hoodie_operator.reconcile.world import World

_REFUSED: Final = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.ACCOUNT_NOT_ALLOWED,
        Reason.NOT_ALLOWED,
        Reason.PATH_NOT_ALLOWED,
    }
)
"""Refusals of what an observation uses as well. A table that waits for its lock is observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Milliseconds between two observations of one object.

    Attributes:
        table_busy: Of a table with a run at work, or one that is being deleted.
        table_idle: Of a table at rest.
        table_unreadable: Of a table that could not be read.
        source: Of a Writer's source.
        lock_ready: Of a lock provider that answers.
        lock_waiting: Of one that does not answer.
        lock_starting: Of an embedded one that does not answer yet.
        unanswered: Of anything whose observer did not answer.
    """

    table_busy: int
    table_idle: int
    table_unreadable: int
    source: int
    lock_ready: int
    lock_waiting: int
    lock_starting: int
    unanswered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """The last observation of an object.

    Attributes:
        at_ms: When, by the monotonic time of the process that decides.
        generation: Of the object.
        is_answered: Whether there was an answer, that the object cannot be read for one.
    """

    at_ms: int
    generation: int
    is_answered: bool = True


def next_ms(
    world: World, found: objects.AnyObject, last: LastLook | None, periods: Periods
) -> int | None:
    """Return when a HudiTable, a Writer's source or a LockProvider is observed next.

    Returns:
        By the monotonic time of the process that decides; in the past for at once, None while it is
        not to be observed.
    """
    if last is None or last.generation != found.generation:
        return 0
    if not last.is_answered:
        return last.at_ms + periods.unanswered
    period_ms: int | None
    match found.key.kind:
        case kinds.HUDI_TABLE.name:
            period_ms = _table_period(world, cast("objects.Table", found), periods)
        case kinds.WRITER.name:
            period_ms = _source_period(world, cast("objects.Writer", found), periods)
        case kinds.LOCK_PROVIDER.name:
            period_ms = _lock_period(world, cast("objects.Lock", found), periods)
        case _:
            return None
    return None if period_ms is None else last.at_ms + period_ms


def _table_period(world: World, table: objects.Table, periods: Periods) -> int:
    seen = world.seen.tables.get(table.uid)
    if seen is None:
        return 0
    if seen.problem is not None:
        return periods.table_unreadable
    runs = runs_of_table(world, table)
    ended_ms = observed_times.last_end_ms(runs)
    if ended_ms is not None and seen.observed_ms < ended_ms:
        return 0
    is_busy = table.is_deleting or any(run.is_running for run in runs)
    return periods.table_busy if is_busy else periods.table_idle


def _source_period(world: World, writer: objects.Writer, periods: Periods) -> int | None:
    if writer.uid not in world.seen.sources:
        return 0
    # What a run reads does not matter before it has ended.
    return None if world.has_run_at_work(writer) else periods.source


def _lock_period(world: World, lock: objects.Lock, periods: Periods) -> int:
    seen = world.seen.locks.get(lock.uid)
    if seen is None:
        return 0
    if seen.is_ready:
        return periods.lock_ready
    return periods.lock_starting if lock.spec.embedded else periods.lock_waiting


def runs_of_table(world: World, table: objects.Table) -> list[facts.Run]:
    """Return the runs of a table, of its Writers and of its TableActions."""
    owners = (table, *world.writers_of(table), *world.actions_of(table))
    return [run for owner in owners for run in world.runs(owner)]


def may_be_observed(world: World, table: objects.Table) -> bool:
    """Return whether an observer may run for a table.

    An observer runs as the account and with the secrets that a table names. Where these are not
    allowed, nothing runs with them, not to observe either.
    """
    resolved = hudi_tables.resolve(world, table)
    return not (isinstance(resolved, Verdict) and resolved.reason in _REFUSED)
