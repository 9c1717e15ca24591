"""Plans of table services: put on the timeline under the lock, and executed by one at a time.

    schedule  in one lock scope: take the requested time, make the plan, create the requested file;
              if the lock was lost meanwhile: take back a plan that others have overtaken
    execute   in one lock scope: the instant is pending, nobody alive executes it, its heartbeat is
              ours (P1), what a dead executor left is deleted; then the plan runs from the start

A plan never changes, so an execution that died is repeated: every file that it had marked is
deleted first, and the instant is requested again. Completing is `lifecycle.complete`, giving up
`lifecycle.abort`. Two listings of the timeline, one in each scope, as for a write. Source:
`ScheduleCompactionActionExecutor.java`, `BaseHoodieTableServiceClient.java`; concurrency 2.12.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hoodie import errors
from hoodie.model import instants, table_config
from hoodie.timeline import active, rollback_plans, transitions
from hoodie.transaction import (
    admission,
    authors,
    heartbeats,
    markers,
    refusals,
    table_lock,
    writer_batches,
)
from hoodie.transaction.client import Client, OpenWrite

logger = logging.getLogger(__name__)

Planner = Callable[[active.ActiveTimeline, instants.InstantTime, Mapping[str, str]], bytes | None]
"""Makes the content of a plan; None when there is nothing to do.

It is given the timeline of the lock scope, the plan's requested time, above everything on that
timeline, and ids for the plan's extra metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A plan on the timeline.

    Attributes:
        instant: Requested; None when there was nothing to do.
        lock_times: Waited and held.
    """

    instant: instants.Instant | None
    lock_times: table_lock.LockTimes


def schedule(
    client: Client,
    action: instants.Action,
    expected: table_config.TableConfig,
    planner: Planner,
) -> Scheduled:
    """Plan a table service under the lock, while writers are in flight.

    Args:
        client: Whose plan it is.
        action: Compaction.
        expected: The configuration that the plan is made by.
        planner: Called under the lock: the shorter the better.

    Raises:
        ConflictError: A restore is pending, or the table's configuration changed.
        FencedError: A higher attempt of the same author is there.
        LockLostError: It was lost, and there is no plan of ours that is to be executed.
        LockTimeoutError: The lock was not had.
        UnsupportedError: The table has what we do not maintain.
    """
    before = client.lock.times
    with client.lock.scope() as scope:
        admission.admit_table(client, scope, expected)
        admission.admit_author(client, scope.timeline)
        requested_time = client.times.generate(scope.timeline)
        extra = authors.extra_metadata(client.author, client.random.uuid())
        content = planner(scope.timeline, requested_time, extra)
        instant = None
        if content is not None:
            instant = admission.request(
                client, scope, requested_time, action, content, lambda: False
            )
        is_certain = scope.is_held()
    if instant is not None and not is_certain:
        _confirm(client, instant, scope.timeline)
    if instant is not None:
        logger.info("%s: %s of %s", client.storage.uri, instant, client.author)
    return Scheduled(instant=instant, lock_times=client.lock.times - before)


def execute(
    client: Client, requested_time: instants.InstantTime, expected: table_config.TableConfig
) -> OpenWrite:
    """Take a pending compaction to execute it from the start; `lifecycle.start` comes next.

    Args:
        client: The executor's.
        requested_time: Of the plan.
        expected: The configuration that the executor works by.

    Raises:
        NotFoundError: There is no such compaction.
        ConflictError: It was completed, somebody alive is executing it, or a rollback of it is
            pending.
        FencedError: A higher attempt of the same author is there.
        InvalidInputError: The client has a write open already.
        LockTimeoutError: The lock was not had.
    """
    before = client.lock.times
    with client.lock.scope() as scope:
        client.check_idle()
        instant = _pending(scope.timeline, requested_time)
        config = admission.admit_table(client, scope, expected)
        attempt = admission.admit_author(client, scope.timeline)
        _refuse_taken_back(client, instant, scope.timeline)
        scope.check()
        heartbeat = admission.own(client, requested_time, instant.action, attempt)
        try:
            # Only now nobody else can complete it: the lock was held until the heartbeat was ours.
            scope.check()
            ledger = writer_batches.read(client.storage, scope.timeline)
            if instant.state is instants.State.INFLIGHT:
                _clear(client, instant, admission.holding(scope, heartbeat))
        except BaseException:
            admission.disown(heartbeat)
            raise
        client.opened(requested_time)
        return OpenWrite(
            requested_time=requested_time,
            action=instant.action,
            batch_id=None,
            heartbeat=heartbeat,
            timeline=scope.timeline,
            config=config,
            ledger=ledger,
            lock_times_before=before,
        )


def _confirm(client: Client, planned: instants.Instant, planned_on: active.ActiveTimeline) -> None:
    """Take a plan back that others have overtaken before it was on the timeline.

    It was put there in somebody else's time with the lock, perhaps. What completed since, with no
    greater time, the plan does not know, though its base files would stand for it.

    Raises:
        LockLostError: They have. The plan is gone, unless somebody executes it already: who does
            merges what it has missed, and files may carry its time.
        LockTimeoutError: The lock was not had; the plan stays as it is.
    """
    with client.lock.scope() as scope:
        if not _is_overtaken(planned, planned_on, scope.timeline):
            return
        lost = f"the {client.lock.description} was lost while {planned} was put on the timeline"
        sighting = client.heartbeats.look(planned.requested_time)
        is_touched = sighting.liveness is not heartbeats.Liveness.MISSING
        if is_touched or planned not in scope.timeline.instants:
            raise errors.LockLostError(f"{lost}; {sighting.owner or 'somebody'} has executed it")
        scope.check()
        transitions.withdraw(client.storage, planned)
    raise errors.LockLostError(f"{lost}, and others went on: it was taken back; plan anew")


def _is_overtaken(
    planned: instants.Instant, before: active.ActiveTimeline, now: active.ActiveTimeline
) -> bool:
    """Return whether an instant has a plan's time, or has completed without a greater one."""
    time = planned.requested_time
    return any(
        time in {each.requested_time, each.completion_time}
        or (each.completion_time is not None and each.completion_time < time)
        for each in set(now.instants) - set(before.instants)
        if (each.requested_time, each.action.completed) != (time, planned.action.completed)
    )


def _pending(
    timeline: active.ActiveTimeline, requested_time: instants.InstantTime
) -> instants.Instant:
    instant = timeline.find(requested_time)
    if instant is None:
        raise errors.NotFoundError(f"there is no instant {requested_time} on the timeline")
    if instant.is_completed:
        raise errors.ConflictError(f"{instant} was completed at {instant.completion_time}")
    if instant.action is not instants.Action.COMPACTION:
        raise errors.NotFoundError(f"{instant} is no compaction")
    unnamed = refusals.name_refusal(instant)
    if unnamed is not None:
        raise unnamed
    return instant


def _refuse_taken_back(
    client: Client, instant: instants.Instant, timeline: active.ActiveTimeline
) -> None:
    """Refuse a plan whose dead execution is being taken back: what it deletes was planned then."""
    targets = rollback_plans.targets(
        client.storage, timeline, instant.requested_time, is_pending_only=True
    )
    rollback = refusals.rollback_of(instant.requested_time, targets)
    if rollback is not None:
        raise errors.ConflictError(f"{instant} is taken back by rollback {rollback} first")


def _clear(client: Client, inflight: instants.Instant, check: Callable[[], None]) -> None:
    """Remove what an executor that died has left; under the lock, its heartbeat being ours now."""
    count = markers.delete_data_files(client.storage, inflight.requested_time, check)
    check()
    requested = transitions.revert(client.storage, inflight)
    logger.info(
        "%s: %s is executed anew, %d files of a dead executor were deleted",
        client.storage.uri,
        requested,
        count,
    )
