"""Rollback: a pending instant is taken back, its files first, by one executor at a time.

    request   in one lock scope: the target is pending and its owner dead, nobody takes it back
              already; the rollback's own heartbeat, then its plan             R1, R-A, R-C
    resume    in one lock scope instead: a pending rollback whose executor is dead is taken over
    execute   inflight                                                          R2
              the target has not completed; the plan's files are deleted        R3, R4, R-D
              (if it has all the same, `late_completions` ends the rollback)
              in one lock scope: the target's inflight and requested files, the rollback's
              completed file                                                    R7, R8
              markers and heartbeats                                            R9

From the request on no writer of ours completes the target (C1), and both decisions are taken under
one lock: exactly one side wins (R-B). A crash at any step leaves a pending rollback, whose plan
says it all; each step is fine with having been done. A write's instant goes; a compaction is
requested again, since its plan is what readers slice by. Index and metadata table (R5, R6) have
nothing to take back in the tables that we write.

Requests: those of a lock scope twice, one for each file deleted, some ten others. Source:
`BaseRollbackActionExecutor.java`, `BaseRollbackPlanActionExecutor.java` (1.2.0); concurrency 2.9.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import rollback_avro
from hoodie.model import instants, plans, table_config
from hoodie.timeline import active, rollback_plans, transitions
from hoodie.transaction import (
    admission,
    failed_writes,
    fencing,
    heartbeats,
    late_completions,
    markers,
    refusals,
    table_lock,
)
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)

TARGETS = (*admission.WRITES, instants.Action.COMPACTION)
"""Actions that can be taken back while they are pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRollback:
    """A rollback on the timeline that this process executes.

    Attributes:
        requested_time: Of the rollback.
        plan: What it takes back.
        heartbeat: Stands for it until it is completed or given up.
        may_have_deleted: Whether an earlier executor may have begun to delete.
        lock_times_before: What the client had waited and held when it was opened.
    """

    requested_time: instants.InstantTime
    plan: plans.RollbackPlan
    heartbeat: heartbeats.Heartbeat
    may_have_deleted: bool
    lock_times_before: table_lock.LockTimes

    @property
    def requested(self) -> instants.Instant:
        """The rollback as requested."""
        return _in_state(self.requested_time, instants.Action.ROLLBACK, instants.State.REQUESTED)

    @property
    def inflight(self) -> instants.Instant:
        """The rollback as inflight."""
        return _in_state(self.requested_time, instants.Action.ROLLBACK, instants.State.INFLIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """A rollback that took effect.

    Attributes:
        instant: The rollback, completed.
        plan: What it took back.
        deleted: Paths of the files that are gone.
        lock_times: Waited and held for it in all.
        findings: What the table's user should know though nothing failed.
    """

    instant: instants.Instant
    plan: plans.RollbackPlan
    deleted: tuple[str, ...]
    lock_times: table_lock.LockTimes
    findings: tuple[str, ...] = ()


def request(
    client: Client, expected: table_config.TableConfig, plan: plans.RollbackPlan
) -> OpenRollback:
    """Put a rollback on the timeline.

    Args:
        client: Who will execute it.
        expected: The table's configuration.
        plan: Made before, since the files of a dead writer are all there; a late task's are found
            again when it is executed.

    Raises:
        NotFoundError: The target is not on the timeline.
        ConflictError: It has completed, somebody alive works on it, it is being taken back
            already, or a restore is pending.
        UnsupportedError: It is no write and no compaction, or the table has what we do not
            maintain.
        FencedError: A higher attempt of the same author is there.
    """
    before = client.lock.times
    with client.lock.scope() as scope:
        admission.admit_table(client, scope, expected)
        _admit_author(client)
        target = _target(client, scope.timeline, plan.target)
        requested_time = client.times.generate(scope.timeline)
        scope.check()
        heartbeat = client.heartbeats.start(requested_time, _owner(client, requested_time))
        try:
            requested = admission.request(
                client,
                scope,
                requested_time,
                instants.Action.ROLLBACK,
                rollback_avro.encode_plan(plan, client.storage.uri),
                heartbeat.is_own,
            )
            scope.check()
        except BaseException:
            admission.disown(heartbeat)
            raise
    logger.info("%s: %s takes %s back", client.storage.uri, requested, target)
    return OpenRollback(
        requested_time=requested_time,
        plan=plan,
        heartbeat=heartbeat,
        may_have_deleted=False,
        lock_times_before=before,
    )


def resume(
    client: Client, expected: table_config.TableConfig, requested_time: instants.InstantTime
) -> OpenRollback | None:
    """Take over a pending rollback whose executor is dead.

    Returns:
        The rollback; None when it had no plan that can be read, nothing was done by it, and it was
        taken off the timeline: its target is to be taken back by another.

    Raises:
        NotFoundError: There is no such rollback.
        ConflictError: It was completed, or somebody alive executes it.
        FormatError: Its plan cannot be read, and it may have deleted files.
        UnsupportedError: Its plan has what we do not take back.
        FencedError: A higher attempt of the same author is there.
    """
    before = client.lock.times
    with client.lock.scope() as scope:
        admission.admit_table(client, scope, expected)
        _admit_author(client)
        rollback = _pending(scope.timeline, requested_time)
        _refuse_alive(client, scope.timeline, rollback)
        scope.check()
        plan = _read_plan(client, rollback)
        if plan is None:
            _withdraw(client, rollback)
            return None
        heartbeat = client.heartbeats.start(requested_time, _owner(client, requested_time))
        try:
            # Only now nobody else executes it: the lock was held until the heartbeat was ours.
            scope.check()
        except BaseException:
            admission.disown(heartbeat)
            raise
    logger.info("%s: %s is resumed", client.storage.uri, rollback)
    return OpenRollback(
        requested_time=requested_time,
        plan=plan,
        heartbeat=heartbeat,
        may_have_deleted=rollback.state is instants.State.INFLIGHT,
        lock_times_before=before,
    )


def execute(client: Client, rollback: OpenRollback) -> RolledBack:
    """Take back what the rollback's plan says; repeatable, whatever was done of it already.

    When it raises, the rollback stays pending for another to resume.

    Raises:
        ConflictError: The target has completed after all, or another has completed the rollback.
        HeartbeatExpiredError: Another may have taken the rollback over.
        HoodieError: Lock or storage failed.
    """
    begun_s = client.clock.monotonic_s()
    try:
        _check_target(client, rollback)
        rollback.heartbeat.check()
        transitions.start(client.storage, rollback.requested, b"", rollback.heartbeat.is_own)
        deleted = _delete(client, rollback)
        duration_ms = round((client.clock.monotonic_s() - begun_s) * 1000)
        with client.lock.scope() as scope:
            _check(client, scope, rollback)
            _take_off(client, rollback)
            completed = _complete(client, scope, rollback, deleted, duration_ms)
            is_certain = scope.is_held()
    except BaseException:
        _give_up(rollback.heartbeat)
        raise
    findings: tuple[str, ...] = ()
    if not is_certain:
        findings = (f"the table lock was lost while {completed} was published",)
    _tidy(client, rollback)
    return RolledBack(
        instant=completed,
        plan=rollback.plan,
        deleted=tuple(deleted),
        lock_times=client.lock.times - rollback.lock_times_before,
        findings=findings,
    )


def target_refusal(
    target: instants.Instant,
    sighting: heartbeats.Sighting,
    pending_targets: rollback_plans.Targets,
) -> errors.HoodieError | None:
    """Return why an instant must not be taken back (R-A); None when it may.

    Args:
        target: In its furthest state, as read under the lock.
        sighting: Of its owner.
        pending_targets: What pending rollbacks take back.
    """
    if target.action not in TARGETS:
        return errors.UnsupportedError(
            f"{target} is not taken back, expected a pending write or compaction"
        )
    if target.is_completed:
        return errors.ConflictError(
            f"{target} took effect at {target.completion_time}, expected one that is pending"
        )
    if sighting.liveness.is_alive:
        return errors.ConflictError(
            f"{target} is being worked on by {sighting.owner or 'another'}, which gave a sign of "
            f"life {sighting.silence_ms} ms ago, expected one whose owner is dead"
        )
    unnamed = refusals.name_refusal(target)
    if unnamed is not None:
        return unnamed
    for rollback, taken in pending_targets.items():
        if taken is None or taken == target.requested_time:
            what = "is taken back" if taken else "may be taken back"
            return errors.ConflictError(f"{target} {what} by rollback {rollback} already")
    return None


def _target(
    client: Client, timeline: active.ActiveTimeline, requested_time: instants.InstantTime
) -> instants.Instant:
    target = timeline.find(requested_time)
    if target is None:
        raise errors.NotFoundError(
            f"there is no instant {requested_time} on the timeline of {client.storage.uri}"
        )
    sighting = heartbeats.Sighting(liveness=heartbeats.Liveness.MISSING)
    if target.is_pending and target.action in TARGETS:
        sighting = _sight(client, timeline, target)
    pending_targets = rollback_plans.targets(
        client.storage, timeline, requested_time, is_pending_only=True
    )
    refusal = target_refusal(target, sighting, pending_targets)
    if refusal is not None:
        raise refusal
    return target


def _pending(
    timeline: active.ActiveTimeline, requested_time: instants.InstantTime
) -> instants.Instant:
    rollback = timeline.find(requested_time)
    if rollback is None or rollback.action is not instants.Action.ROLLBACK:
        raise errors.NotFoundError(f"there is no rollback {requested_time} on the timeline")
    if rollback.is_completed:
        raise errors.ConflictError(f"{rollback} was completed at {rollback.completion_time}")
    unnamed = refusals.name_refusal(rollback)
    if unnamed is not None:
        raise unnamed
    return rollback


def _refuse_alive(
    client: Client, timeline: active.ActiveTimeline, rollback: instants.Instant
) -> None:
    sighting = _sight(client, timeline, rollback)
    if sighting.liveness.is_alive:
        raise errors.ConflictError(
            f"{rollback} is executed by {sighting.owner or 'another'}, which gave a sign of life "
            f"{sighting.silence_ms} ms ago"
        )


def _sight(
    client: Client, timeline: active.ActiveTimeline, instant: instants.Instant
) -> heartbeats.Sighting:
    return failed_writes.sight(client.heartbeats, client.storage, timeline, [instant])[instant]


def _read_plan(client: Client, rollback: instants.Instant) -> plans.RollbackPlan | None:
    """Return a rollback's plan; None for one that is not there whole, and was not begun."""
    path = rollback_plans.path(rollback)
    try:
        return rollback_avro.decode_plan(client.storage.read(path), path)
    except errors.NotFoundError:
        return None  # The late act of an executor whose rollback was withdrawn.
    except errors.FormatError:
        if rollback.state is not instants.State.REQUESTED:
            raise
        return None


def _withdraw(client: Client, rollback: instants.Instant) -> None:
    """Take a rollback off the timeline; no file carries its time."""
    logger.warning("%s: %s is withdrawn: it has no plan", client.storage.uri, rollback)
    inflight = _in_state(rollback.requested_time, rollback.action, instants.State.INFLIGHT)
    transitions.withdraw(client.storage, transitions.revert(client.storage, inflight))


def _check_target(client: Client, rollback: OpenRollback) -> None:
    """End a rollback whose target has completed all the same, one way or the other (R-D).

    No writer of ours completes it after the request. One that does not look for rollbacks may, and
    a store that carries out late what a dead one had asked for.

    Raises:
        ConflictError: It stands, as far as its files are there; the rollback was withdrawn.
    """
    found = active.listed(client.storage).find(rollback.plan.target)
    if found is None or found.is_pending:
        return
    with client.lock.scope() as scope:
        _admit_author(client)
        end = late_completions.End.WITHDRAW
        if rollback.may_have_deleted:
            end = late_completions.end_of(client.storage, scope.timeline, found)
        rollback.heartbeat.check()
        scope.check()
        if end is late_completions.End.FINISH:
            for each in scope.timeline.files:
                if each.requested_time == found.requested_time and each.is_completed:
                    transitions.reopen(client.storage, each)
        else:
            transitions.withdraw(
                client.storage, transitions.revert(client.storage, rollback.inflight)
            )
    outcome = f"{_completed_text(found, rollback)}; the rollback is {end.value}"
    if end is not late_completions.End.FINISH:
        raise errors.ConflictError(outcome)
    logger.warning("%s: %s", client.storage.uri, outcome)


def _completed_text(found: instants.Instant, rollback: OpenRollback) -> str:
    return (
        f"{found} was completed at {found.completion_time} though rollback "
        f"{rollback.requested_time} was to take it back"
    )


def _delete(client: Client, rollback: OpenRollback) -> list[str]:
    """Delete the files of the plan, and what tasks of a dead writer have added since."""
    paths = set(rollback.plan.paths)
    if rollback.plan.action in admission.WRITES:
        # A compaction may be executed anew by now, if we were taken for dead: its files stay.
        late = markers.marked_files(client.storage, rollback.plan.target)
        paths |= {path for path in late if f"_{rollback.plan.target}." in path}
    for path in sorted(paths):
        rollback.heartbeat.check()
        client.storage.delete(path)
    return sorted(paths)


def _check(client: Client, scope: table_lock.LockScope, rollback: OpenRollback) -> None:
    """Refuse to complete a rollback that is not, or not only, ours any more."""
    _admit_author(client)
    found = scope.timeline.find(rollback.plan.target)
    if found is not None and found.is_completed:
        raise errors.ConflictError(_completed_text(found, rollback))
    own = scope.timeline.find(rollback.requested_time)
    if own is None or own.is_completed or not scope.timeline.has_file(rollback.inflight):
        raise errors.ConflictError(f"{rollback.inflight} was completed or removed by another")
    refusal = refusals.restore_refusal(scope.timeline, rollback.requested_time)
    if refusal is not None:
        raise refusal
    if not rollback.heartbeat.is_own():
        raise errors.HeartbeatExpiredError(
            f"the heartbeat file of {rollback.inflight} was removed, or taken over by another"
        )
    client.check_guards()
    rollback.heartbeat.check()
    scope.check()


def _take_off(client: Client, rollback: OpenRollback) -> None:
    """Take the target off the timeline; a compaction is requested again (R7)."""
    inflight = _in_state(rollback.plan.target, rollback.plan.action, instants.State.INFLIGHT)
    requested = transitions.revert(client.storage, inflight)
    if rollback.plan.action in admission.WRITES:
        transitions.withdraw(client.storage, requested)


def _complete(
    client: Client,
    scope: table_lock.LockScope,
    rollback: OpenRollback,
    deleted: Sequence[str],
    duration_ms: int,
) -> instants.Instant:
    done = plans.RollbackDone(
        requested_time=rollback.requested_time,
        duration_ms=duration_ms,
        plan=rollback.plan,
        deleted=tuple(deleted),
    )
    try:
        return transitions.complete(
            client.storage,
            rollback.inflight,
            rollback_avro.encode_metadata(done, client.storage.uri),
            timeline=scope.timeline,
            times=client.times,
            check=admission.holding(scope, rollback.heartbeat),
        )
    except (errors.StorageError, errors.OutcomeUnknownError):
        # It may still be on its way to the store: leave it the time until the heartbeat expires.
        rollback.heartbeat.doubt("was perhaps not published")
        raise


def _give_up(heartbeat: heartbeats.Heartbeat) -> None:
    """Let others go on at once, unless they have taken over already, or have to wait."""
    if heartbeat.is_alive():
        admission.disown(heartbeat)
    else:
        heartbeat.stop()


def _tidy(client: Client, rollback: OpenRollback) -> None:
    """Remove what a finished rollback needs no more; failing to is no failure of it (R9)."""
    target = rollback.plan.target
    try:
        rollback.heartbeat.end()
        if rollback.plan.action in admission.WRITES:
            markers.delete(client.storage, target)
            client.storage.delete(heartbeats.path_of(target))
    except errors.HoodieError as error:
        logger.warning("%s: left behind by %s: %s", client.storage.uri, rollback.inflight, error)


def _admit_author(client: Client) -> None:
    refusal = fencing.attempt_refusal(fencing.read(client.storage, client.author), client.author)
    if refusal is not None:
        raise refusal
    client.check_guards()


def _owner(client: Client, requested_time: instants.InstantTime) -> heartbeats.Owner:
    # No author: an attempt record is for writes, and names the newest one's batch.
    return heartbeats.Owner(
        name=f"{client.author}, rollback {requested_time}",
        write_id=client.random.uuid(),
        process=client.process,
    )


def _in_state(
    time: instants.InstantTime, action: instants.Action, state: instants.State
) -> instants.Instant:
    return instants.Instant(requested_time=time, action=action, state=state)
