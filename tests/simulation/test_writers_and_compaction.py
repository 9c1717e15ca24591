"""Writers and compactors on one table, with crashes, failures, pauses and skewed clocks, by seed.

A failing seed replays: `pytest tests/simulation -k "once[17]"` runs seed 17 alone, and the message
holds its history.
"""

import pytest

from support.schedule_fleet import FailingFleet, Fleet, OptimisticFleet

pytestmark = pytest.mark.simulation

SEEDS = 100
FAILING_SEEDS = 30
OPTIMISTIC_SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_acknowledged_batch_is_there_once(seed: int) -> None:
    """T-P03, T-N02, T-C03, T-L21: invariants I1, I2 and I9 of concurrency 6.2."""
    Fleet(seed).run()


@pytest.mark.parametrize("seed", range(FAILING_SEEDS))
def test_fleet_that_dies_often_is_cleaned_up(seed: int) -> None:
    """T-R01, T-R02, T-H02, T-H04: and I8, I10, nothing is left of whom was taken back."""
    FailingFleet(seed).run()


@pytest.mark.parametrize("seed", range(OPTIMISTIC_SEEDS))
def test_optimistic_writes_of_a_file_group_are_serial(seed: int) -> None:
    """T-O02, T-O04, T-O05, T-O06: the same, and I3."""
    OptimisticFleet(seed).run()


def test_same_seed_is_the_same_history() -> None:
    histories = []
    for _ in range(2):
        fleet = Fleet(7)
        fleet.run()
        histories.append(fleet.time.history)
    assert histories[0] == histories[1]
