"""T-P09: small models, of two actors on two file groups, explored as far as there is time for.

Every committed write stays readable, whatever the order of the actors' calls;
`make explore` follows all of them. Each rule switched off is shown to break that: the models are
able to tell.
"""

import math
from collections.abc import Mapping

import pytest

from hoodie.filegroup import slicing
from hoodie.model.settings import ConcurrencyMode
from hoodie.timeline import true_time
from hoodie.transaction import refusals, rollbacks
from hoodie.transaction.client import Client
from hoodie.transaction.heartbeats import Heartbeat
from hoodie.write import conflicts
from support import mutants, schedule
from support.schedule_exploration import Model, explore
from support.schedule_models import MODELS, check
from support.schedule_world import World

pytestmark = pytest.mark.simulation

RUNS_MAX = 60

WEAKENED: Mapping[str, tuple[str, mutants.Patches]] = {
    "no conflict check": (
        "two optimistic writers",
        {(conflicts, "candidates"): lambda *_: ()},
    ),
    "no lock": (
        "two non-blocking writers",
        {
            (schedule.SessionLockProvider, "_holder"): lambda self: None,
            (schedule.SessionLockProvider, "is_held"): lambda self: True,
        },
    ),
    "times that do not grow": (
        "two non-blocking writers",
        {(true_time, "next_reading"): mutants.clock_alone},
    ),
    "slices by requested time": (
        "writer and compactor",
        {(slicing, "_barrier_of"): mutants.by_requested_time},
    ),
    "publication of what was taken back": (
        "writer and rollback",
        {
            (refusals, "publication_refusal"): lambda facts: None,
            (Heartbeat, "check"): lambda self: None,
        },
    ),
    "rollback of what has completed": (
        "writer and rollback",
        {
            (rollbacks, "target_refusal"): lambda target, sighting, pending_targets: None,
            (rollbacks, "_check_target"): lambda client, rollback: None,
            (rollbacks, "_check"): lambda client, scope, rollback: None,
        },
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_committed_write_stays_readable(name: str) -> None:
    explored = explore(MODELS[name], check, RUNS_MAX)
    assert explored.interleavings >= explored.runs / 2


def test_every_interleaving_is_counted_once() -> None:
    """Of two actors that make two calls each, and so go on three times each."""

    def look_twice(world: World, client: Client) -> None:
        del world
        for _ in range(2):
            client.storage.list(".hoodie")

    actors = {"first": look_twice, "second": look_twice}
    explored = explore(Model(mode=ConcurrencyMode.OPTIMISTIC, actors=actors), lambda world: None)
    assert explored.interleavings == math.comb(6, 3)
    assert explored.runs < explored.interleavings


@pytest.mark.parametrize("name", WEAKENED)
def test_weakened_model_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, patches = WEAKENED[name]
    for (owner, attribute), replacement in patches.items():
        monkeypatch.setattr(owner, attribute, replacement)
    with pytest.raises(AssertionError):
        explore(MODELS[model], check, RUNS_MAX * 5)
