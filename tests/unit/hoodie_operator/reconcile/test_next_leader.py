"""What the next leader makes of times that another clock told: it may be behind, or ahead."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import facts
from support.operators import operator_world as ow
from support.operators.flights_world import Flights
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited

HOUR_MS = 3_600_000
BACK_OFF_MS = 7_000
"""The first one, with its jitter, to the second."""


class Place(Flights):
    """A ready table with one writer at work."""

    def __init__(self) -> None:
        super().__init__()
        self.writer_key = self.add_writer("left", files=("1",))
        self.settle()

    @property
    def writer(self) -> str:
        return self.uid(self.writer_key)

    def look(self, *pending: facts.Pending) -> None:
        """See everything."""
        self.see_lock(self.lock_key)
        self.see_table(self.table_key, pending=pending)
        for key in [key for key in self.by_key if key.kind == "Writer"]:
            self.see_source(key, [["1"]], ["id", "a"])

    def pass_on(self, clock_ahead_ms: int) -> None:
        """Have another leader see everything and decide."""
        self.lead_anew(clock_ahead_ms=clock_ahead_ms)
        self.look()
        self.settle()

    def attempts(self) -> int:
        return len(self.runs[self.writer])


@settings(deadline=None, max_examples=30)
@given(clock_ahead_ms=st.integers(-1000 * HOUR_MS, 1000 * HOUR_MS))
def test_no_clock_makes_a_leader_wait_longer_than_the_back_off(clock_ahead_ms: int) -> None:
    here = Place()
    here.end(here.writer, "Conflict")
    here.look()
    here.settle()
    assert here.condition(here.writer_key)[0] == "BackingOff"
    here.pass_on(clock_ahead_ms)
    here.now_ms += BACK_OFF_MS
    here.settle()
    assert here.attempts() == 2


def test_back_off_goes_on_under_the_next_leader() -> None:
    here = Place()
    here.end(here.writer, "Conflict")
    here.look()
    here.settle()
    here.now_ms += BACK_OFF_MS // 2
    here.pass_on(0)
    assert here.condition(here.writer_key)[0] == "BackingOff"
    here.now_ms += BACK_OFF_MS // 2 + 1
    here.settle()
    assert here.attempts() == 2


def test_success_is_confirmed_by_a_leader_whose_clock_is_behind() -> None:
    here = Place()
    here.end(here.writer, is_told=True)
    here.lead_anew(clock_ahead_ms=-HOUR_MS)
    here.see_lock(here.lock_key)
    here.see_table(
        here.table_key, [ow.commit(1, writer_id="left", batch_id="x", files=(ow.token("1"),))]
    )
    here.see_source(here.writer_key, [["1"]], ["id", "a"])
    here.settle()
    assert here.condition(here.writer_key)[:2] == ("Completed", "UpToDate")


def _silent(here: Place) -> None:
    problem = facts.Problem(kind="Storage", message="no route", is_transient=True)
    here.see_lock(here.lock_key)
    here.tables[here.uid(here.table_key)] = facts.TableFacts(
        observed_ms=here.monotonic_ms, problem=problem
    )
    here.settle()


@pytest.mark.parametrize("clock_ahead_ms", [-HOUR_MS, 0])
def test_state_that_takes_too_long_is_told_whatever_the_next_clock_says(
    clock_ahead_ms: int,
) -> None:
    here = Place()
    _silent(here)
    here.lead_anew(clock_ahead_ms=clock_ahead_ms)
    _silent(here)
    assert here.condition(here.table_key)[0] == "Pending"
    here.now_ms += 11 * 60_000
    _silent(here)
    assert here.condition(here.table_key)[:2] == ("Stalled", "TimedOut")


def test_what_was_told_to_take_too_long_stays_told_by_a_clock_that_is_behind() -> None:
    here = Place()
    _silent(here)
    here.now_ms += 11 * 60_000
    _silent(here)
    before = here.status(here.table_key)
    here.lead_anew(clock_ahead_ms=-HOUR_MS)
    _silent(here)
    assert here.status(here.table_key) == before
    here.look()
    here.settle()
    assert here.condition(here.table_key)[0] == "Ready"


def test_missing_reference_is_waited_for_as_long_as_its_grace_by_a_clock_that_is_behind() -> None:
    here = Place()
    here.limits = dataclasses.replace(here.limits, reference_grace_ms=60_000)
    key = here.add(kinds.WRITER, "lost", ow.writer_spec(tableRef={"name": "other"}))
    here.settle()
    here.lead_anew(clock_ahead_ms=-HOUR_MS)
    here.look()
    here.settle()
    assert here.condition(key)[:2] == ("Pending", "ReferenceNotFound")
    here.now_ms += 60_000
    here.settle()
    assert here.condition(key)[:2] == ("Stalled", "ReferenceNotFound")


def test_table_that_its_creation_did_not_leave_is_told_by_a_clock_that_is_behind() -> None:
    """The time that its run ended at is another leader's."""
    here = Outside()
    table = here.add(kinds.HUDI_TABLE, "flights", edited(ow.TABLE, concurrency=None))
    here.see_table(table, is_there=False)
    here.settle()
    here.end(here.uid(table), is_told=True)
    here.see_table(table)
    here.reconcile(table)
    assert here.condition(table)[0] == "Ready"
    here.lead_anew(clock_ahead_ms=-HOUR_MS)
    here.see_table(table, is_there=False)
    here.settle()
    assert here.condition(table)[:2] == ("Stalled", "TableNotFound")


def _begun_by(here: Place, attempt: int | None, *, at_s: int) -> facts.Pending:
    """Return a write that its author began at a time of its own clock."""
    return facts.Pending(
        requested_time=ow.time(at_s), action="deltacommit", writer_id="left", attempt=attempt
    )


def _fence(here: Place) -> int:
    """Return the number that the writer's run at work has."""
    return here.started[-1].fence_number


def _take_back(here: Place, pending: facts.Pending) -> objects.ObjectKey:
    here.look(pending)
    spec = {"tableRef": {"name": "flights"}, "type": "Rollback"}
    key = here.add(kinds.TABLE_ACTION, "back", spec)
    here.settle()
    return key


@pytest.mark.parametrize("at_s", [-100_000, 0, 100_000])
def test_write_of_the_attempt_at_work_is_not_taken_back_whatever_its_clock_says(at_s: int) -> None:
    here = Place()
    key = _take_back(here, _begun_by(here, _fence(here), at_s=at_s))
    assert here.condition(key)[:2] == ("Blocked", "TableBusy")


@pytest.mark.parametrize("at_s", [-100_000, 0, 100_000])
def test_write_of_an_earlier_attempt_is_taken_back_whatever_its_clock_said(at_s: int) -> None:
    here = Place()
    key = _take_back(here, _begun_by(here, _fence(here) - 1, at_s=at_s))
    assert here.started[-1].action_id == key.name


def test_write_that_tells_no_attempt_may_be_of_the_one_at_work() -> None:
    here = Place()
    key = _take_back(here, _begun_by(here, None, at_s=-100_000))
    assert here.condition(key)[:2] == ("Blocked", "TableBusy")


def test_write_is_not_taken_back_beside_the_run_of_a_writer_that_is_gone() -> None:
    here = Place()
    pending = _begun_by(here, _fence(here), at_s=0)
    (run,) = here.runs[here.writer]
    del here.by_key[here.writer_key]
    here.runs[run.id.uid] = [dataclasses.replace(run, table="default/flights")]
    key = _take_back(here, pending)
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Blocked", "TableBusy")
    assert "Writer left, which no longer exists," in message
