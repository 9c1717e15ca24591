"""What is told of consumers: how far they are behind, and those that a clean has passed (R6)."""

import dataclasses

from hoodie.model import instants
from hoodie_operator.api import times
from hoodie_operator.api.conditions import ConditionStatus, Type
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

PASSED = facts.PassedConsumer(name="billing", consumed=ow.time(1), clean=ow.time(5))


def see(here: Flights, *passed: facts.PassedConsumer) -> None:
    here.see_table(here.table_key, [ow.commit(1)])
    uid = here.uid(here.table_key)
    here.tables[uid] = dataclasses.replace(here.tables[uid], passed_consumers=passed)
    here.settle()


def test_condition_names_the_consumer_and_the_clean_that_passed_it() -> None:
    here = Flights()
    see(here)
    assert here.status(here.table_key).condition(Type.CONSUMER_PASSED) is None
    see(here, PASSED)
    found = here.status(here.table_key).condition(Type.CONSUMER_PASSED)
    assert (found.status, found.reason) == (ConditionStatus.TRUE, "CleanedTooEarly")
    assert f"consumer billing has read up to {ow.time(1)}" in found.message
    assert f"clean {ow.time(5)} of 20" in found.message
    assert here.condition(here.table_key)[0] == "Ready"


def test_condition_stays_while_the_storage_is_not_read_and_ends_with_its_cause() -> None:
    here = Flights()
    see(here, PASSED)
    before = here.status(here.table_key).condition(Type.CONSUMER_PASSED)
    problem = facts.Problem(kind="Storage", message="it is away", is_transient=True)
    uid = here.uid(here.table_key)
    here.tables[uid] = facts.TableFacts(observed_ms=here.monotonic_ms, problem=problem)
    here.settle()
    assert here.status(here.table_key).condition(Type.CONSUMER_PASSED) == before
    see(here)
    assert here.status(here.table_key).condition(Type.CONSUMER_PASSED) is None


def test_status_tells_how_far_consumers_are_behind() -> None:
    here = Flights()
    see(here)
    assert here.status(here.table_key).consumers is None
    uid = here.uid(here.table_key)
    behind = facts.Consumer(
        name="billing", consumed=ow.time(1), unread=2, unread_since=ow.time(2), is_holding=False
    )
    others = tuple(facts.Consumer(name=f"c{n}", consumed=ow.time(3)) for n in range(30))
    here.tables[uid] = dataclasses.replace(here.tables[uid], consumers=(behind, *others))
    here.settle()
    first, second, *rest = here.status(here.table_key).consumers
    assert (first.name, first.consumed, first.holding) == ("billing", ow.time(1), False)
    assert (first.unread_commits, first.unread_since) == (2, times.text(epoch_ms(2)))
    assert (second.unread_commits, second.unread_since, len(rest)) == (0, None, 18)


def epoch_ms(number: int) -> int:
    return instants.parse_time(ow.time(number))
