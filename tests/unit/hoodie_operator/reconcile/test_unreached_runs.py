"""Runs that the operator cannot ask how far they are: the storage shows whether they live."""

import dataclasses

import pytest

from hoodie_operator.api import kinds, objects
from hoodie_operator.reconcile import facts, runs
from support.operators import operator_world as ow
from support.operators.flights_world import Flights

MINUTE_MS = 60_000
WHERE = "10.1.2.3:8090 (no answer within 2 s)"


def _cut_off(here: Flights, key: objects.ObjectKey) -> None:
    here.put_run(dataclasses.replace(here.run(here.uid(key)), unreached=WHERE))
    here.settle()


def _pending(here: Flights, key: objects.ObjectKey, **changes: object) -> facts.Pending:
    """Return what a Writer's attempt at work has begun."""
    number = runs.fence_number(here.by_key[key], here.run(here.uid(key)).id.attempt)
    pending = facts.Pending(
        requested_time=ow.time(9),
        action="deltacommit",
        writer_id=key.name,
        attempt=number,
        is_alive=True,
    )
    return dataclasses.replace(pending, **changes)  # type: ignore[arg-type]  # fields of it


@pytest.mark.parametrize("is_unreached", [False, True])
def test_writer_whose_heart_beats_is_left_at_work_however_silent(*, is_unreached: bool) -> None:
    here = Flights()
    writer = here.add_writer("left")
    here.settle()
    if is_unreached:
        _cut_off(here, writer)
    for _ in range(60):
        here.see_table(here.table_key, pending=[_pending(here, writer)])
        here.now_ms += MINUTE_MS
        here.settle()
    assert not here.stopped
    assert here.condition(writer)[:2] == ("Running", "Running")
    # Its heart stops.
    here.see_table(here.table_key, pending=[_pending(here, writer, is_alive=False)])
    here.now_ms += 2 * 60 * MINUTE_MS
    here.settle()
    (stop,) = here.stopped
    assert stop.reason.startswith("NoProgress")
    assert (WHERE in stop.reason) is is_unreached


@pytest.mark.parametrize(
    "change", [{"is_alive": False}, {"attempt": 1}, {"attempt": None}, {"writer_id": "right"}]
)
def test_heart_of_another_attempt_is_no_sign_of_life(change: dict[str, object]) -> None:
    here = Flights()
    writer = here.add_writer("left")
    here.settle()
    for _ in range(4):
        here.see_table(here.table_key, pending=[_pending(here, writer, **change)])
        here.now_ms += MINUTE_MS
        here.settle()
    assert [stop.reason for stop in here.stopped] == ["NoProgress"]


def test_growing_timeline_is_a_sign_of_life() -> None:
    here = Flights()
    writer = here.add_writer("left", files=tuple(str(number) for number in range(99)))
    here.settle()
    _cut_off(here, writer)
    commits = []
    for number in range(60):
        batch = here.started[0].work.batches[number].id
        commits.append(ow.commit(number, writer_id="left", batch_id=batch))
        here.see_table(here.table_key, commits)
        here.now_ms += MINUTE_MS
        here.settle()
    assert not here.stopped


def test_compaction_whose_heart_beats_is_left_at_work_until_its_time_is_over() -> None:
    here = Flights()
    here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)])
    here.add_policy(timeLimit="1h")
    here.settle()
    (action,) = here.compactions()
    for _ in range(59):
        plan = ow.planned(9, action_id=action.name, attempt=1, is_alive=True)
        here.see_table(here.table_key, [ow.commit(n) for n in (1, 2)], [plan])
        here.now_ms += MINUTE_MS
        here.settle()
    assert not here.stopped
    here.now_ms += 2 * MINUTE_MS
    here.settle()
    assert [stop.reason for stop in here.stopped] == ["NoProgress"]


def test_run_that_cannot_be_asked_says_what_is_in_the_way() -> None:
    here = Flights()
    writer = here.add_writer("left")
    here.settle()
    _cut_off(here, writer)
    here.now_ms += 4 * MINUTE_MS
    here.settle()
    assert not here.stopped, "it may have begun long ago"
    assert here.condition(writer)[0] == "Running"
    message = here.condition(writer)[2]
    assert f"its progress cannot be read at {WHERE}: check that no NetworkPolicy" in message
    here.now_ms += 60 * MINUTE_MS
    here.settle()
    here.end(here.uid(writer))
    here.see_table(here.table_key)
    here.settle()
    state, _, message = here.condition(writer)
    assert state == "BackingOff"
    assert f"NoProgress: its progress cannot be read at {WHERE}" in message


def test_creation_that_cannot_be_asked_is_given_time() -> None:
    here = Flights(is_ready=False)
    here.see_table(here.table_key, is_there=False)
    here.settle()
    _cut_off(here, here.table_key)
    here.now_ms += 60 * MINUTE_MS
    here.settle()
    assert not here.stopped
    assert WHERE in here.condition(here.table_key)[2]


def test_run_that_refuses_to_be_asked_has_not_begun() -> None:
    here = Flights()
    here.add_writer("left")
    here.settle()
    here.now_ms += 4 * MINUTE_MS
    here.settle()
    assert [stop.reason for stop in here.stopped] == ["NoProgress"]


@pytest.mark.parametrize("unread", ["left", "right"])
def test_columns_that_are_not_read_yet_are_not_all_columns(unread: str) -> None:
    here = Flights()
    keys = {name: here.add_writer(name, column) for name, column in (("left", "a"), ("right", "b"))}
    del here.sources[here.uid(keys[unread])]
    here.settle()
    state, reason, message = here.condition(keys["right"])
    assert (state, reason) == ("Pending", "NotObserved")
    assert message == f"the source of Writer {unread} was not read yet, to compare columns"
    here.see_source(keys[unread], [["1"]], ["id", "a" if unread == "left" else "b"])
    here.settle()
    assert here.condition(keys["right"])[0] == "Starting"


def test_source_that_cannot_be_read_is_told_and_not_taken_for_all_columns() -> None:
    here = Flights()
    here.add_writer("left", "a")
    right = here.add(kinds.WRITER, "right", ow.writer_spec())
    here.sources[here.uid(right)] = facts.SourceFacts(
        generation=1,
        observed_ms=0,
        problem=facts.Problem(kind="NotFound", message="no such folder", is_transient=False),
    )
    here.settle()
    assert here.condition(right) == ("Stalled", "SourceNotFound", "no such folder")
