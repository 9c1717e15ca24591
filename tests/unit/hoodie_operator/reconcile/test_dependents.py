"""Whose decision a change alters is among those that it concerns: so nobody has to ask them all.

For any change in a small world that is at rest, all objects are decided about before and after.
"""

import dataclasses
import json

import pytest

from hoodie_operator.api import kinds, objects
from hoodie_operator.api.conditions import Condition, ConditionStatus
from hoodie_operator.reconcile import catalog, dependents, effective
from support.operators import operator_world as ow
from support.operators import rule_examples
from support.operators.rule_examples import edited


class World(ow.Outside):
    """Two tables on one lock, with writers and policies, and a third around the first."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = self.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK)
        self.table = self.add(kinds.HUDI_TABLE, "flights", ow.TABLE)
        self.other = self.add(
            kinds.HUDI_TABLE, "others", edited(ow.TABLE, storage={"path": "others"})
        )
        self.within = self.add(
            kinds.HUDI_TABLE, "within", edited(ow.TABLE, storage={"path": "flights/within"})
        )
        self.left = self.add(kinds.WRITER, "left", ow.writer_spec())
        self.right = self.add(kinds.WRITER, "right", ow.writer_spec())
        self.policy = self.add(kinds.COMPACTION_POLICY, "policy", rule_examples.POLICY)
        choosing = {"target": {"tableSelector": {"matchLabels": {"a": "b"}}}}
        self.choosing = self.add(
            kinds.COMPACTION_POLICY, "choosing", {**choosing, "triggers": {"deltaCommits": 2}}
        )
        self.retention = self.add(kinds.RETENTION_POLICY, "retention", rule_examples.RETENTION)
        self.savepoint = self.add(kinds.SAVEPOINT, "saved", rule_examples.SAVEPOINT)
        self.request = self.add(kinds.INDEX_REQUEST, "indexed", rule_examples.INDEX_REQUEST)
        self.contrary = self.add(
            kinds.INDEX_REQUEST, "contrary", {**rule_examples.INDEX_REQUEST, "ensure": "Absent"}
        )
        self.action = self.add(kinds.TABLE_ACTION, "action", rule_examples.ACTION)
        self.see_lock(self.lock)
        for key in (self.table, self.other, self.within):
            self.see_table(key, [ow.commit(1), ow.commit(2), ow.commit(3)])
            made = self.by_key[key]
            status = made.status.model_copy(update={"provisioned": True})
            self.by_key[key] = dataclasses.replace(made, status=status)
        for key in (self.left, self.right):
            self.see_source(key, [["1"]], ["id", "a"])
        self.settle()

    def decisions(self) -> dict[objects.ObjectKey, str]:
        """Return what would be done about each object, as text."""
        return {key: repr(self.decide(key)) for key in self.by_key}

    def concerned(self, *changed: objects.AnyObject) -> set[objects.ObjectKey]:
        """Return whom changes concern."""
        found = catalog.Catalog(effective.locator(self.limits.data_roots), self.by_key.values())
        return {key for each in changed for key in dependents.of(found, each)}


EDITS = {
    "lock": {"embedded": False, "type": "ZooKeeper", "zookeeper": {"servers": ["a:1"]}},
    "table": edited(ow.TABLE, suspend=True),
    "other": edited(ow.TABLE, storage={"path": "flights/others"}),
    "left": ow.writer_spec(suspend=True),
    "policy": {**rule_examples.POLICY, "suspend": True},
    "retention": {**rule_examples.RETENTION, "suspend": True},
    "request": {**rule_examples.INDEX_REQUEST, "ensure": "Absent"},
    "choosing": {"target": {"tableRef": {"name": "flights"}}, "triggers": {"deltaCommits": 9}},
}


@pytest.mark.parametrize("name", EDITS)
def test_edit_concerns_all_whose_decision_it_alters(name: str) -> None:
    here = World()
    key = getattr(here, name)
    before = here.decisions()
    kind = kinds.BY_NAME[key.kind]
    old = here.by_key[key]
    spec = kind.spec.model_validate_json(json.dumps(EDITS[name]))
    here.by_key[key] = dataclasses.replace(old, spec=spec, generation=2)
    _check(here, before, here.by_key[key], old)


@pytest.mark.parametrize(
    "name",
    ["lock", "table", "other", "within", "left", "action", "policy", "retention", "request"],
)
def test_end_concerns_all_whose_decision_it_alters(name: str) -> None:
    here = World()
    before = here.decisions()
    gone = here.by_key.pop(getattr(here, name))
    _check(here, before, gone)


@pytest.mark.parametrize("name", ["lock", "table", "left", "action"])
def test_status_concerns_all_whose_decision_it_alters(name: str) -> None:
    here = World()
    key = getattr(here, name)
    before = here.decisions()
    old = here.by_key[key]
    ready = Condition(
        type="Ready",
        status=ConditionStatus.FALSE,
        reason="RunFailed",
        message="of a test",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=1,
    )
    stalled = ready.model_copy(update={"type": "Stalled", "status": ConditionStatus.TRUE})
    status = old.status.model_copy(update={"state": "Stalled", "conditions": (ready, stalled)})
    here.by_key[key] = dataclasses.replace(old, status=status)
    _check(here, before, here.by_key[key])


def _check(here: World, before: dict[objects.ObjectKey, str], *changed: objects.AnyObject) -> None:
    after = here.decisions()
    altered = {key for key, decision in after.items() if before[key] != decision}
    assert altered, "the change alters nothing, and proves nothing"
    assert altered <= here.concerned(*changed)


def test_lock_of_an_object_is_that_of_its_table() -> None:
    here = World()
    found = here.world.by_key
    for key in (here.table, here.left, here.action):
        assert dependents.lock_of(found, here.by_key[key]) == here.lock
    lonely = here.add(kinds.WRITER, "lonely", ow.writer_spec(tableRef={"name": "none"}))
    for key in (here.lock, here.policy, here.retention, lonely):
        assert dependents.lock_of(found, here.by_key[key]) is None
