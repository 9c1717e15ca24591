"""The small models that are explored exhaustively: two actors, two file groups (T-P09).

Of three actors all interleavings are followed that differ in the first choices (T-P04).
"""

import contextlib
from dataclasses import replace

from hoodie import errors
from hoodie.model.compaction_options import CompactionOptions
from hoodie.model.instants import Action, State
from hoodie.model.settings import ConcurrencyMode
from hoodie.timeline import contents
from hoodie.transaction.client import Client
from support.simulation import chain_models, invariants, schedule_rollback
from support.simulation.schedule_exploration import Act, Model
from support.simulation.schedule_world import GROUPS, World


def write(world: World, writer: Client) -> None:
    with contextlib.suppress(errors.ConflictError, errors.HeartbeatExpiredError):
        world.write(writer, "b")


def compact(world: World, service: Client) -> None:
    planned = world.schedule_compaction(service)
    if planned is not None:
        world.compact(service, planned.requested_time)


ONE_GROUP = CompactionOptions(file_groups_max=1)


def compact_one_group(world: World, service: Client) -> None:
    """Plan and execute a part, whatever else is pending."""
    world.plans_beside_rate = 1.0
    planned = world.schedule_compaction(service, ONE_GROUP)
    assert planned is not None, "each of two planners finds a file group"
    world.compact(service, planned.requested_time)


def check_bounded_plans(world: World) -> None:
    """No file group is in two plans, and none was forgotten (T-C12)."""
    timeline = world.check()
    planned = [
        operation.group
        for each in timeline.completed_writes
        if each.action is Action.COMMIT
        for operation in contents.read_compaction_plan(
            world.storage, replace(each, action=Action.COMPACTION).pending_in(State.REQUESTED)
        ).operations
    ]
    assert sorted(planned) == sorted(GROUPS)
    check(world)


def roll_back(world: World, service: Client) -> None:
    with contextlib.suppress(errors.ConflictError):
        schedule_rollback.roll_back_dead(world, service)


def read(world: World, reader: Client) -> None:
    world.read(reader)


def check(world: World) -> None:
    timeline = world.check()
    last = world.read(world.writer("last reader"))
    invariants.check_everything_is_read(world.storage, timeline, last)


def model(first: Act, second: Act, mode: ConcurrencyMode = ConcurrencyMode.NON_BLOCKING) -> Model:
    return Model(
        mode=mode,
        actors={"first": first, "second": second},
        prepare=write,
        is_taken_for_dead=roll_back in (first, second),
        is_swept=roll_back in (first, second),
        check=check,
    )


CHOICES = 10
"""Of who goes on, at calls that do not commute with what the others do."""

THREE = f"two writers and a compactor, {CHOICES} choices"
MODELS: dict[str, Model] = {
    "two optimistic writers": model(write, write, ConcurrencyMode.OPTIMISTIC),
    "two non-blocking writers": model(write, write),
    "writer and compactor": model(write, compact),
    "writer and rollback": model(write, roll_back),
    "writer and reader": model(write, read),
    "compactor and reader": model(compact, read),
    "two compactors of bounded plans": replace(
        model(compact_one_group, compact_one_group), check=check_bounded_plans
    ),
    THREE: Model(
        mode=ConcurrencyMode.NON_BLOCKING,
        actors={"first": write, "second": write, "third": compact},
        prepare=write,
        choices_max=CHOICES,
        check=check,
    ),
}


CHOICES_OF_LIARS = 18
"""As many where the lock is given to everybody: nearly every call is a choice then."""


def write_until_collection(world: World, writer: Client) -> None:
    """Write so often that the next change moves the boundary of the chain."""
    for number in range(3):
        world.write(writer, f"early {number}")


MODELS |= {
    f"{name}, the lock lies": replace(
        MODELS[name],
        is_lying=True,
        choices_max=CHOICES_OF_LIARS,
        prepare=write_until_collection,
    )
    for name in (
        "two optimistic writers",
        "two non-blocking writers",
        "writer and compactor",
        "writer and rollback",
        "two compactors of bounded plans",
    )
}


MODELS |= chain_models.MODELS
