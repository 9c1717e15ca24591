"""The simulation is worth something: with a rule switched off, some seed fails.

Rules guard each other (a writer that was rolled back has lost its heartbeat, too), so some are
switched off together with those that would catch the same.
"""

from collections.abc import Callable, Mapping

import pytest

from hoodie.model import instants
from hoodie.timeline import true_time
from hoodie.transaction import (
    fencing,
    leftovers,
    refusals,
    rollbacks,
    writer_batches,
)
from hoodie.transaction.heartbeats import Heartbeat
from hoodie.write import conflicts
from support.schedule_fleet import FailingFleet, Fleet, OptimisticFleet

pytestmark = pytest.mark.simulation

SEEDS_MAX = 100


def clock_alone(now_ms: int, *rest: object) -> true_time.Reading:
    del rest
    return true_time.Reading(time=instants.format_time(now_ms), wait_ms=0, lag_ms=0)


Patches = Mapping[tuple[object, str], object]

MUTANTS: Mapping[str, Patches] = {
    "C1": {
        (refusals, "publication_refusal"): lambda facts: None,
        (Heartbeat, "check"): lambda self: None,
    },
    "R-A and R-D": {
        (rollbacks, "target_refusal"): lambda target, sighting, pending_targets: None,
        (rollbacks, "_check_target"): lambda client, rollback: None,
    },
    "R-C": {
        (rollbacks, "_check"): lambda client, scope, rollback: None,
        (Heartbeat, "check"): lambda self: None,
    },
    "leftovers of late tasks": {(leftovers, "sweep"): lambda client: 0},
    "T1": {(true_time, "next_reading"): clock_alone},
    "WR1": {(writer_batches.Ledger, "holds"): lambda self, writer_id, batch_id: False},
    "O2": {(conflicts, "candidates"): lambda begun, now, own: ()},
    "fencing": {(fencing, "publication_refusal"): lambda found, author, write_id: None},
}

FLEETS = {
    "R-A and R-D": FailingFleet,
    "R-C": FailingFleet,
    "O2": OptimisticFleet,
}
"""Which fleet breaks a rule, where it is not the usual one."""


@pytest.mark.parametrize("name", MUTANTS)
def test_rule_switched_off_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = FLEETS.get(name, Fleet)
    for (owner, attribute), replacement in MUTANTS[name].items():
        monkeypatch.setattr(owner, attribute, replacement)
    assert first_failure(lambda seed: fleet(seed).run()) is not None


def first_failure(run: Callable[[int], None]) -> int | None:
    for seed in range(SEEDS_MAX):
        try:
            run(seed)
        except AssertionError:
            return seed
    return None
