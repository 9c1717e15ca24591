"""The simulation is worth something: with a rule switched off, some seed fails.

Rules guard each other (a writer that was rolled back has lost its heartbeat, too), so some are
switched off together with those that would catch the same.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hoodie.filegroup import slicing, snapshots
from hoodie.maintenance.rollback import execution, orphan_files
from hoodie.timeline import active, transitions, true_time
from hoodie.transaction import (
    fencing,
    preconditions,
    publication,
    table_lock,
    writer_batches,
)
from hoodie.transaction.heartbeats import Heartbeat
from hoodie.write import compatibility, conflicts
from support.simulation import mutants, schedule, schedule_shrinking
from support.simulation.schedule_plans import Plan, Scenario, plan_of

pytestmark = pytest.mark.simulation

SEEDS_MAX = 150


MUTANTS: Mapping[str, mutants.Patches] = {
    "C1": {
        (preconditions, "publication_refusal"): lambda facts: None,
        (Heartbeat, "check"): lambda self: None,
    },
    "L1": {
        (schedule.SessionLockProvider, "_holder"): lambda self: None,
        (schedule.SessionLockProvider, "is_held"): lambda self: True,
    },
    "L2": {(table_lock.LockScope, "is_held"): lambda self: True},
    "R-A and R-D": {
        (execution, "target_refusal"): lambda target, status, pending_targets: None,
        (execution, "_end_if_completed"): lambda client, rollback: None,
    },
    "R-C": {
        (execution, "_check_pending"): lambda timeline, rollback: None,
        (publication, "checked"): mutants.unless_rollback(publication.checked),
        (Heartbeat, "check"): lambda self: None,
    },
    "leftovers of late tasks": {(orphan_files, "sweep"): lambda client: 0},
    "leftovers of the living": {
        (orphan_files, "_left"): lambda timeline, taken_back, time, paths: paths
    },
    "N1": {(compatibility, "order_dependence"): lambda config, mine, other: None},
    "O2": {(conflicts, "candidates"): lambda *_: ()},
    "Q1: slices by completion time": {(slicing, "_barrier_of"): mutants.by_requested_time},
    "reads of a prefix": {(active, "load"): active.listed},
    "reads of what is committed": {
        (snapshots.CommittedFiles, "is_committed"): lambda self, requested_time: True
    },
    "late files of what was taken back": {
        (snapshots.CommittedFiles, "_targets"): lambda self: frozenset(),
    },
    "O2 of base files": {(conflicts, "candidates"): lambda *_: ()},
    "O2 of late base files": {(conflicts, "candidates"): lambda *_: ()},
    "doubt about late files": {
        (transitions, "_create"): lambda storage, instant, content, proof, check=None: (
            transitions._create_once(storage, instant, content, proof)
        )
    },
    "times of late instants": {(true_time.TimeGenerator, "wait_out"): lambda self, time: None},
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
    "late files of what was taken back": Scenario.COPY_ON_WRITE,
    "O2 of base files": Scenario.COPY_ON_WRITE,
    "O2 of late base files": Scenario.LATE_COPY_ON_WRITE,
    "doubt about late files": Scenario.LATE_COPY_ON_WRITE,
    "times of late instants": Scenario.LATE,
}
"""Which fleet breaks a rule, where it is not the usual one."""


FIRST_SEEDS = {"R-C": 40, "fencing": 160, "times of late instants": 715}
"""Where to begin looking, for those that few seeds catch."""


def plan_against(name: str, seed: int) -> Plan:
    """Return a run that needs the rule."""
    plan = plan_of(SCENARIOS.get(name, Scenario.NON_BLOCKING), seed)
    match name:
        case "R-C":
            return replace(plan, writers=3, batches=2, janitors=3)
        case "late files of what was taken back":
            return replace(plan, writers=3, batches=1, janitors=2, crash_rate=0.0, pause_rate=0.05)
        case "reads of a prefix":
            return replace(plan, writers=3, compactors=0, readers=3, crash_rate=0.0, page_names=2)
        case "N1":
            return replace(plan, batches=3, compactors=2, has_shared_columns=True)
        case _:
            return plan


def test_lock_that_nobody_takes_is_noticed_where_it_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """T-P06: one writer alone needs none, so no other invariant tells."""
    monkeypatch.setattr(table_lock.TableLock, "_acquire", lambda self: None)
    monkeypatch.setattr(table_lock.TableLock, "_release", lambda self: None)
    monkeypatch.setattr(schedule.SessionLockProvider, "is_held", lambda self: True)
    plan = Plan(seed=1, writers=1, compactors=0, janitors=0, crash_rate=0.0, pause_rate=0.0)
    found = schedule_shrinking.run(plan)
    assert found is not None
    assert "without the lock" in found.message


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
