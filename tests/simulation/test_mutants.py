"""The simulation is worth something: with a rule switched off, some seed fails.

Rules guard each other (a writer that was rolled back has lost its heartbeat, too), so some are
switched off together with those that would catch the same.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hoodie.filegroup import slicing, snapshots
from hoodie.timeline import true_time
from hoodie.transaction import (
    fencing,
    leftovers,
    publication,
    refusals,
    rollbacks,
    writer_batches,
)
from hoodie.transaction.heartbeats import Heartbeat
from hoodie.write import combinations, conflicts
from support import mutants, schedule, schedule_shrinking
from support.schedule_fleet import Plan, Scenario, plan_of

pytestmark = pytest.mark.simulation

SEEDS_MAX = 150


MUTANTS: Mapping[str, mutants.Patches] = {
    "C1": {
        (refusals, "publication_refusal"): lambda facts: None,
        (Heartbeat, "check"): lambda self: None,
    },
    "L1": {
        (schedule.SessionLockProvider, "_holder"): lambda self: None,
        (schedule.SessionLockProvider, "is_held"): lambda self: True,
    },
    "L2": {(publication, "resolve"): lambda client, write, completed: "lost"},
    "R-A and R-D": {
        (rollbacks, "target_refusal"): lambda target, sighting, pending_targets: None,
        (rollbacks, "_check_target"): lambda client, rollback: None,
    },
    "R-C": {
        (rollbacks, "_check"): lambda client, scope, rollback: None,
        (Heartbeat, "check"): lambda self: None,
    },
    "leftovers of late tasks": {(leftovers, "sweep"): lambda client: 0},
    "leftovers of the living": {
        (leftovers, "_left"): lambda timeline, taken_back, time, paths: paths
    },
    "N1": {(combinations, "order_dependence"): lambda config, mine, other: None},
    "O2": {(conflicts, "candidates"): lambda *_: ()},
    "Q1: slices by completion time": {(slicing, "_barrier_of"): mutants.by_requested_time},
    "reads of what is committed": {
        (snapshots.CommittedFiles, "is_committed"): lambda self, requested_time: True
    },
    "T1": {(true_time, "next_reading"): mutants.clock_alone},
    "WR1": {(writer_batches.Ledger, "holds"): lambda self, writer_id, batch_id: False},
    "fencing": {(fencing, "publication_refusal"): lambda found, author, write_id: None},
}

SCENARIOS = {
    "L2": Scenario.FAILING,
    "R-A and R-D": Scenario.FAILING,
    "R-C": Scenario.FAILING,
    "O2": Scenario.OPTIMISTIC,
    "leftovers of the living": Scenario.FAILING,
}
"""Which fleet breaks a rule, where it is not the usual one."""


FIRST_SEEDS = {"R-C": 50, "fencing": 40}
"""Where to begin looking, for those that few seeds catch."""


def plan_against(name: str, seed: int) -> Plan:
    """Return a run that needs the rule."""
    plan = plan_of(SCENARIOS.get(name, Scenario.NON_BLOCKING), seed)
    match name:
        case "R-C":
            return replace(plan, writers=3, batches=2, janitors=3)
        case "N1":
            return replace(plan, batches=3, compactors=2, has_shared_columns=True)
        case _:
            return plan


@pytest.mark.parametrize("name", MUTANTS)
def test_rule_switched_off_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for (owner, attribute), replacement in MUTANTS[name].items():
        monkeypatch.setattr(owner, attribute, replacement)
    first = FIRST_SEEDS.get(name, 0)
    runs = (
        schedule_shrinking.run(plan_against(name, seed)) for seed in range(first, first + SEEDS_MAX)
    )
    found = next((failure.message for failure in runs if failure is not None), None)
    assert found is not None
    # A mutant that no longer fits the code fails as well.
    assert not found.startswith(("TypeError", "AttributeError")), found
