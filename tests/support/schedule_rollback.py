"""Rollback of dead writes, as small as the protocol allows (concurrency 2.9, R1 to R9, R-A, R-D).

It stands in for the service that comes later, so that simulations have somebody who takes writes
back while their writers may still be alive.
"""

from hoodie.format import avro_container
from hoodie.model import instants
from hoodie.timeline import active, rollback_plans, transitions
from hoodie.transaction import heartbeats, markers
from hoodie.transaction.client import Client
from support.schedule_world import World

_INSTANT = {
    "type": "record",
    "name": "HoodieInstantInfo",
    "fields": [{"name": name, "type": "string"} for name in ("commitTime", "action")],
}
_PLAN = avro_container.schema(
    {
        "type": "record",
        "name": "HoodieRollbackPlan",
        "fields": [{"name": "instantToRollback", "type": _INSTANT}],
    }
)


def encode_plan(target: instants.Instant) -> bytes:
    """Return the plan of a rollback."""
    info = {"commitTime": target.requested_time, "action": target.action.value}
    return avro_container.encode(_PLAN, {"instantToRollback": info})


def roll_back_dead(world: World, service: Client) -> int:
    """Roll back every write whose heartbeat ended or expired; return how many."""
    plan(service)
    timeline = active.load(service.storage)
    pending = timeline.pending_of(instants.Action.ROLLBACK)
    targets = rollback_plans.targets(service.storage, timeline, instants.InstantTime(""))
    for rollback in pending:
        target = targets[rollback.requested_time]
        assert target is not None
        execute(service, rollback, target)
        world.time.note(f"rolled back {target}")
    return len(pending)


def plan(service: Client) -> None:
    """R1: publish a plan for each dead write, decided on under the lock (R-A)."""
    with service.lock.scope() as scope:
        timeline = scope.timeline
        planned = rollback_plans.targets(service.storage, timeline, instants.InstantTime(""))
        for target in timeline.pending_of(instants.Action.DELTA_COMMIT):
            if target.requested_time in planned.values():
                continue
            if service.heartbeats.look(target.requested_time).liveness.is_alive:
                continue
            requested_time = service.times.generate(timeline)
            scope.check()
            transitions.request(
                service.storage,
                requested_time,
                instants.Action.ROLLBACK,
                encode_plan(target),
                lambda: False,
            )


def execute(service: Client, rollback: instants.Instant, target_time: instants.InstantTime) -> None:
    """R2 to R9: delete the files, then the instant, then complete; again, if it broke off."""
    requested = _state(rollback.requested_time, instants.Action.ROLLBACK, requested=True)
    transitions.start(service.storage, requested, b"", lambda: True)
    with service.lock.scope() as scope:
        found = scope.timeline.find(target_time)
        if found is not None and found.is_completed:
            raise AssertionError(f"{found} was completed though rollback {rollback} takes it back")
    markers.delete_data_files(service.storage, target_time, lambda: None)
    markers.delete(service.storage, target_time)
    with service.lock.scope() as scope:
        inflight = _state(rollback.requested_time, instants.Action.ROLLBACK, requested=False)
        if (
            inflight not in scope.timeline.files
            or (scope.timeline.find(rollback.requested_time) or inflight).is_completed
        ):
            return
        target = _state(target_time, instants.Action.DELTA_COMMIT, requested=False)
        transitions.revert(service.storage, target)
        transitions.withdraw(
            service.storage, _state(target_time, instants.Action.DELTA_COMMIT, requested=True)
        )
        transitions.complete(
            service.storage,
            inflight,
            encode_plan(target),
            timeline=scope.timeline,
            times=service.times,
            check=scope.check,
        )
    service.storage.delete(heartbeats.path_of(target_time))


def _state(
    time: instants.InstantTime, action: instants.Action, *, requested: bool
) -> instants.Instant:
    state = instants.State.REQUESTED if requested else instants.State.INFLIGHT
    return instants.Instant(requested_time=time, action=action, state=state)
