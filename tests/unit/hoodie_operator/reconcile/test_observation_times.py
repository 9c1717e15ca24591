"""When an object is observed next, as both outsides ask for it."""

import dataclasses

import pytest

from hoodie_operator.api import objects
from hoodie_operator.reconcile import facts, observations
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

PERIODS = observations.Periods(
    table_busy=10,
    table_idle=1_000,
    table_unreadable=100,
    source=500,
    lock_ready=2_000,
    lock_waiting=20,
    lock_starting=0,
    unanswered=30,
)


def _next(
    here: ow.Outside, found: objects.AnyObject, at_ms: int, *, is_answered: bool = True
) -> int | None:
    last = observations.LastLook(at_ms=at_ms, generation=found.generation, is_answered=is_answered)
    return observations.next_ms(here.world, found, last, PERIODS)


def _table(here: Flights) -> objects.AnyObject:
    return here.by_key[here.table_key]


def test_object_that_was_never_observed_or_was_edited_is_observed_at_once() -> None:
    here = Flights()
    found = _table(here)
    assert observations.next_ms(here.world, found, None, PERIODS) == 0
    last = observations.LastLook(at_ms=5_000, generation=found.generation)
    edited = dataclasses.replace(found, generation=found.generation + 1)
    assert observations.next_ms(here.world, edited, last, PERIODS) == 0


def test_table_at_rest_is_observed_less_often_than_one_that_cannot_be_read() -> None:
    here = Flights()
    found = _table(here)
    assert _next(here, found, 5_000) == 6_000
    assert _next(here, found, 5_000, is_answered=False) == 5_030
    problem = facts.Problem(kind="Storage", message="m", is_transient=True)
    here.tables[found.uid] = facts.TableFacts(observed_ms=5_000, problem=problem)
    assert _next(here, found, 5_000) == 5_100


def test_end_of_a_run_after_the_observation_is_observed_at_once() -> None:
    here = Flights()
    key = here.add_writer("w")
    here.settle()
    writer, table = here.by_key[key], _table(here)
    observed_ms = here.monotonic_ms
    assert here.run(writer.uid).is_running
    assert _next(here, table, observed_ms) == observed_ms + PERIODS.table_busy
    # What the run reads does not matter before it has ended, unless other sources are declared.
    assert _next(here, writer, observed_ms) is None
    edited = dataclasses.replace(writer, generation=writer.generation + 1)
    last = observations.LastLook(at_ms=observed_ms, generation=writer.generation)
    assert observations.next_ms(here.world, edited, last, PERIODS) == 0
    here.now_ms += 1_000
    here.end(writer.uid)
    assert _next(here, table, observed_ms) == observed_ms
    assert _next(here, writer, observed_ms) == observed_ms + PERIODS.source


@pytest.mark.parametrize(("is_ready", "pause_ms"), [(True, 2_000), (False, 20)])
def test_lock_that_does_not_answer_is_observed_more_often(*, is_ready: bool, pause_ms: int) -> None:
    here = Flights()
    lock = here.by_key[here.lock_key]
    here.locks[lock.uid] = facts.LockFacts(generation=1, is_ready=is_ready, message="m", since_ms=0)
    assert _next(here, lock, 5_000) == 5_000 + pause_ms


def test_other_kinds_are_not_observed() -> None:
    here = Flights()
    key = here.add_policy()
    assert _next(here, here.by_key[key], 5_000) is None
