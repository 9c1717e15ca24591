"""What a policy has tried in vain it does not try again, however many tables fail."""

import random

import pytest

from hoodie_operator.api import kinds, objects
from support.operators import operator_world as ow
from support.operators.operator_world import Outside
from support.operators.rule_examples import edited

ROUNDS = 12
SELECTOR = {"tableSelector": {"matchLabels": {"tier": "gold"}}}


class Fleet(Outside):
    """Tables of one policy, each with something to compact."""

    def __init__(self, count: int, *, successful: int, failed: int) -> None:
        super().__init__()
        self.see_lock(self.add(kinds.LOCK_PROVIDER, "zk", ow.LOCK))
        self.keys = [
            self.add(
                kinds.HUDI_TABLE,
                f"t{number:02d}",
                edited(ow.TABLE, storage__path=f"t{number:02d}"),
                labels={"tier": "gold"},
            )
            for number in range(count)
        ]
        self.see(0)
        self.settle()
        for key in self.keys:
            self.end(self.uid(key), is_told=True)
        self.see(2)
        self.settle()
        self.started.clear()
        self.policy = self.add(
            kinds.COMPACTION_POLICY,
            "often",
            {
                "target": SELECTOR,
                "triggers": {"deltaCommits": 2},
                "retry": {"limit": 0},
                "history": {"successful": successful, "failed": failed},
            },
        )

    def see(self, commits: int) -> None:
        for key in self.keys:
            self.see_table(key, [ow.commit(number) for number in range(commits)])

    def actions(self) -> list[objects.ObjectKey]:
        return [key for key in self.by_key if key.kind == "TableAction"]

    def attempts(self, table: str) -> int:
        """Return how many runs were started for a table."""
        return sum(start.table.uri == f"file:///data/{table}" for start in self.started)


@pytest.mark.parametrize("seed", range(12))
def test_runs_of_each_table_are_bounded_whatever_fails_and_is_forgotten(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 14)
    here = Fleet(count, successful=chance.randint(0, 3), failed=chance.randint(1, 5))
    # Of some tables the runs fail for good, of the others there is nothing to compact.
    fails = {key.name: chance.random() < 0.6 for key in here.keys}
    bases = 0
    for round_number in range(ROUNDS):
        if round_number in (0, ROUNDS // 2):
            bases += 1
        here.see(2 + bases)
        here.settle()
        for key in chance.sample(here.actions(), len(here.actions())):
            action = here.by_key[key]
            if here.runs[action.uid][-1].is_running:
                name = action.spec.table_ref.name  # type: ignore[attr-defined]  # an action's
                kind = "Configuration" if fails[name] else None
                here.end(action.uid, kind, is_told=True)
        here.now_ms += 60_000
        here.see(2 + bases)
        here.settle()
    for key in here.keys:
        assert here.attempts(key.name) == bases
    # What is kept beyond the limits is one of each table.
    assert len(here.actions()) <= count + 8


def test_what_a_table_that_is_gone_has_left_is_forgotten() -> None:
    here = Fleet(3, successful=0, failed=1)
    here.settle()
    for key in here.actions():
        here.end(here.uid(key), "Configuration")
    here.see(2)
    here.settle()
    assert len(here.actions()) == 3
    here.delete(here.keys[0])
    here.settle()
    assert len(here.actions()) == 2


def test_policy_that_is_edited_tries_again() -> None:
    here = Fleet(3, successful=0, failed=1)
    here.settle()
    for key in here.actions():
        here.end(here.uid(key), "Configuration")
    here.see(2)
    here.settle()
    here.edit(here.policy, timeLimit="3h")
    here.settle()
    assert {here.attempts(key.name) for key in here.keys} == {2}
