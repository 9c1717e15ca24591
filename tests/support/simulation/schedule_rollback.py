"""Rollback in simulated worlds: the library's own, with what happened noted down."""

from hoodie import errors
from hoodie.format import rollback_avro
from hoodie.maintenance.rollback import failed_writes, orphan_files
from hoodie.model import instants, plans
from hoodie.timeline import active
from hoodie.transaction import liveness
from hoodie.transaction.client import Client
from support.simulation.schedule_world import World


def encode_plan(target: instants.Instant) -> bytes:
    """Return the plan of a rollback that deletes nothing."""
    plan = plans.RollbackPlan(target=target.requested_time, action=target.action)
    return rollback_avro.encode_plan(plan, "memory://t")


def roll_back_dead(world: World, service: Client) -> int:
    """Roll back every write whose owner is dead, and sweep; return how many rollbacks that were."""
    timeline = active.load(service.storage)
    process = world.process_of(service)
    failures = process.failures
    found = failed_writes.roll_back_all(service, world.config, timeline)
    for each in found.done:
        if process.failures == failures and each.action in instants.WRITES:
            world.witness.see_rolled_back(process, each.instant, each.target)
        world.time.note(f"rolled back {each.target}")
    for reason in found.passed_over:
        world.time.note(f"passed over: {reason}")
    orphan_files.sweep(service)
    return len(found.done)


def roll_back_compactions(world: World, service: Client) -> None:
    """Take back every compaction whose executor is dead, so that it is requested again."""
    timeline = active.load(service.storage)
    compactions = (instants.Action.COMPACTION,)
    for each in liveness.find_dead(service, timeline, compactions):
        if each.state is instants.State.INFLIGHT:
            try:
                failed_writes.roll_back(service, world.config, each.requested_time)
            except (errors.ConflictError, errors.NotFoundError) as error:
                world.time.note(f"passed over: {error}")
            else:
                world.time.note(f"rolled back {each}")
