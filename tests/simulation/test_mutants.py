"""The simulation is worth something: with a rule switched off, some seed fails.

Rules guard each other (a writer that was rolled back has lost its heartbeat, too), so some are
switched off together with those that would catch the same.
"""

from collections.abc import Callable, Mapping

import pytest

from hoodie.model import instants
from hoodie.timeline import true_time
from hoodie.transaction import fencing, refusals, writer_batches
from hoodie.transaction.heartbeats import Heartbeat
from support.schedule_fleet import Fleet

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
    "T1": {(true_time, "next_reading"): clock_alone},
    "WR1": {(writer_batches.Ledger, "holds"): lambda self, writer_id, batch_id: False},
    "fencing": {(fencing, "publication_refusal"): lambda found, author, write_id: None},
}


@pytest.mark.parametrize("name", MUTANTS)
def test_rule_switched_off_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for (owner, attribute), replacement in MUTANTS[name].items():
        monkeypatch.setattr(owner, attribute, replacement)
    assert first_failure(lambda seed: Fleet(seed).run()) is not None


def first_failure(run: Callable[[int], None]) -> int | None:
    for seed in range(SEEDS_MAX):
        try:
            run(seed)
        except AssertionError:
            return seed
    return None
