"""What was refused is told on the object until the next try, and nothing else is done meanwhile."""

import pytest

from hoodie_operator.api import kinds
from hoodie_operator.reconcile import decide, effects, facts
from support.operators import operator_world as ow
from support.operators import rule_examples


@pytest.mark.parametrize("kind", kinds.KINDS, ids=lambda kind: kind.name)
def test_refusal_is_told_until_its_time_has_come(kind: kinds.Kind) -> None:
    here = ow.Outside()
    key = here.add(kind, "some", rule_examples.VALID[kind.name])
    normal = here.decide(key)
    here.refusals[here.uid(key)] = facts.Refusal(
        generation=1, message="pods are forbidden", due_ms=here.now_ms + 30_000
    )
    (told,) = here.decide(key)
    assert isinstance(told, effects.SetStatus)
    here.carry_out(told)
    _, reason, message = here.condition(key)
    assert reason == "ApiRefused"
    assert message.startswith("pods are forbidden; next try at 20")
    assert here.decide(key) == []
    assert not decide.is_settled(here.world)
    here.now_ms += 30_000
    assert [type(each) for each in here.decide(key)] == [type(each) for each in normal]


@pytest.mark.parametrize("kind", [kinds.HUDI_TABLE, kinds.WRITER, kinds.TABLE_ACTION])
def test_refusal_by_a_later_lease_has_a_reason_and_a_remedy(kind: kinds.Kind) -> None:
    here = ow.Outside()
    key = here.add(kind, "some", rule_examples.VALID[kind.name])
    here.refusals[here.uid(key)] = facts.Refusal(
        generation=1,
        message="the leader of lease 4 may not change what the one of lease 9 wrote",
        due_ms=here.now_ms + 30_000,
        is_fenced_off=True,
    )
    here.settle()
    _, reason, message = here.condition(key)
    assert reason == "FencedOff"
    assert "lease 4 may not change what the one of lease 9 wrote: another operator" in message
    assert "delete this operator's Lease" in message


def test_lock_that_answers_is_ready_whatever_is_refused_about_its_server() -> None:
    here = ow.Outside()
    key = here.add(kinds.LOCK_PROVIDER, "zk", rule_examples.LOCK)
    here.see_lock(key)
    here.reconcile(key)
    here.refusals[here.uid(key)] = facts.Refusal(
        generation=1, message="StatefulSet zk is invalid", due_ms=here.now_ms + 30_000
    )
    for effect in here.decide(key):
        assert isinstance(effect, effects.SetStatus), "it is not served again before its time"
        here.carry_out(effect)
    state, reason, message = here.condition(key)
    assert (state, reason) == ("Ready", "Ready")
    assert message.startswith("as told; StatefulSet zk is invalid; next try at 20")
    here.see_lock(key, is_ready=False)
    here.carry_out(*here.decide(key))
    assert here.condition(key)[:2] == ("Pending", "ApiRefused")


def test_edited_object_is_tried_at_once() -> None:
    here = ow.Outside()
    key = here.add(kinds.HUDI_TABLE, "flights", rule_examples.TABLE)
    here.refusals[here.uid(key)] = facts.Refusal(
        generation=1, message="no", due_ms=here.now_ms + 30_000
    )
    here.edit(key, storage__path="elsewhere")
    here.settle()
    assert here.condition(key)[1] != "ApiRefused"
