"""The control loop keeps one record of each object that is in the store."""

from hoodie_operator.api import kinds, objects
from hoodie_operator.cluster.control import object_states
from hoodie_operator.reconcile import facts

KEY = objects.ObjectKey(kind=kinds.HUDI_TABLE.name, namespace="n", name="orders")
REFUSAL = facts.Refusal(generation=2, message="forbidden", due_ms=1000)


def test_successor_of_the_same_key_has_a_record_of_its_own() -> None:
    states = object_states.ObjectStates()
    states.of(KEY, "first").refusal = REFUSAL
    assert dict(states.refusals) == {"first": REFUSAL}
    assert states.of(KEY, "second").refusal is None
    assert dict(states.refusals) == {}
    assert "first" not in states.refusals


def test_record_of_an_object_that_is_gone_is_removed() -> None:
    states = object_states.ObjectStates()
    states.of(KEY, "first").table = facts.TableFacts(observed_ms=1)
    states.forget(KEY)
    states.forget(KEY)
    assert len(states.tables) == 0


def test_refusal_of_an_earlier_generation_is_not_waited_for() -> None:
    state = object_states.ObjectState(key=KEY, uid="first", refusal=REFUSAL)
    assert state.is_retry_pending(2, 999)
    assert not state.is_retry_pending(2, 1000)
    assert not state.is_retry_pending(3, 999)


def test_wait_grows_with_actions_in_a_row_and_ends_with_an_idle_round() -> None:
    state = object_states.ObjectState(key=KEY, uid="first")
    waits = [state.note_success(is_retry_pending=False) for _ in range(8)]
    assert waits == [0, 0, 0, 0, 0, 0.5, 1.0, 2.0]
    assert state.note_idle_round(is_settled=False) == 1.0
    assert state.note_idle_round(is_settled=True) is None
    assert state.note_success(is_retry_pending=False) == 0.0


def test_change_during_an_observation_makes_the_next_one_due_when_it_ends() -> None:
    look = object_states.Look(due_s=5.0)
    assert not look.is_due(4.0)
    look.begin()
    look.make_due()
    assert not look.is_due(9.0)
    look.due_s = 50.0
    look.end()
    assert look.is_due(9.0)
    look.begin()
    look.due_s = 50.0
    look.end()
    assert not look.is_due(9.0)
