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
`BaseRollbackActionExecutor.java`, `BaseRollbackPlanActionExecutor.java` (1.2.0);
protocol.md: Rollback.
"""

import logging
from dataclasses import dataclass

from hoodie import errors
from hoodie.format import rollback_avro
from hoodie.maintenance.rollback import late_completions
from hoodie.model import instants, plans, table_config
from hoodie.timeline import active, contents, partition_buckets, transitions
from hoodie.transaction import (
    admission,
    heartbeats,
    lifecycle,
    liveness,
    markers,
    metadata_commits,
    preconditions,
    table_lock,
)
from hoodie.transaction.client import Client, OpenAction

logger = logging.getLogger(__name__)

TARGETS = (*instants.WRITES, instants.Action.COMPACTION)
"""Actions that can be taken back while they are pending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRollback:
    """A rollback on the timeline that this process executes.

    Attributes:
        opened: On the timeline.
        plan: What it takes back.
        may_have_deleted: Whether an earlier executor may have begun to delete.
    """

    opened: OpenAction
    plan: plans.RollbackPlan
    may_have_deleted: bool

    @property
    def requested_time(self) -> instants.InstantTime:
        """The rollback's instant."""
        return self.opened.requested_time

    @property
    def target_inflight(self) -> instants.Instant:
        """What is taken back, as inflight."""
        return instants.Instant(
            requested_time=self.plan.target,
            action=self.plan.action,
            state=instants.State.INFLIGHT,
        )


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

    def content(timeline: active.ActiveTimeline) -> bytes:
        _check_requestable(client, timeline, plan.target)
        return rollback_avro.encode_plan(plan, client.storage.uri)

    opened = lifecycle.begin_planned(client, instants.Action.ROLLBACK, expected, content)
    logger.info("%s: %s rolls %s back", client.storage.uri, opened.requested, plan.target)
    return OpenRollback(opened=opened, plan=plan, may_have_deleted=False)


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
    plan: plans.RollbackPlan | None = None
    may_have_deleted = False

    def has_plan(rollback: instants.Instant) -> bool:
        nonlocal plan, may_have_deleted
        plan = _read_plan(client, rollback)
        may_have_deleted = rollback.state is instants.State.INFLIGHT
        if plan is None:
            _withdraw(client, rollback)
        return plan is not None

    opened = lifecycle.take_over(
        client, instants.Action.ROLLBACK, requested_time, expected, has_plan
    )
    if opened is None or plan is None:
        return None
    return OpenRollback(opened=opened, plan=plan, may_have_deleted=may_have_deleted)


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
        if not client.lock.is_courtesy:
            _end_if_completed(client, rollback)
        lifecycle.start(client, rollback.opened)
        deleted = tuple(_delete(client, rollback))
        if rollback.plan.action is instants.Action.REPLACE_COMMIT:
            # Off the timeline, its bucket counts would be taken for those of an archived instant.
            partition_buckets.delete(client.storage, rollback.plan.target)
        done = plans.RollbackDone(
            requested_time=rollback.requested_time,
            duration_ms=round((client.clock.monotonic_s() - begun_s) * 1000),
            plan=rollback.plan,
            deleted=deleted,
        )

        completion = lifecycle.complete(
            client,
            rollback.opened,
            lambda _: rollback_avro.encode_metadata(done, client.storage.uri),
            [lambda scope, _: _check_pending(scope.timeline, rollback)],
            [lambda scope, is_ours: _take_off(client, scope, rollback, is_ours)],
        )
    except BaseException:
        lifecycle.abort(client, rollback.opened)
        raise
    _tidy(client, rollback)
    return RolledBack(
        instant=completion.instant,
        plan=rollback.plan,
        deleted=deleted,
        lock_times=completion.lock_times,
        findings=completion.findings,
    )


def target_refusal(
    target: instants.Instant,
    status: heartbeats.HeartbeatStatus,
    pending_targets: contents.RollbackTargets,
) -> errors.HoodieError | None:
    """Return why an instant must not be taken back (R-A); None when it may.

    Args:
        target: In its furthest state, as read under the lock.
        status: Of its owner.
        pending_targets: What pending rollbacks take back.
    """
    if target.action not in TARGETS:
        return errors.UnsupportedError(
            f"{target} cannot be rolled back, expected a pending write or compaction"
        )
    if target.is_completed:
        return errors.ConflictError(
            f"{target} took effect at {target.completion_time}, expected a pending instant"
        )
    if status.liveness.is_alive:
        return errors.ConflictError(
            f"{target} is owned by {status.owner or 'another'}, last sign "
            f"of life {status.silence_ms} ms ago, expected an instant whose owner is dead: "
            "`hoodie heartbeats TABLE` shows whether it is alive"
        )
    unnamed = preconditions.name_refusal(target)
    if unnamed is not None:
        return unnamed
    for rollback, taken in pending_targets.items():
        if taken is None or taken == target.requested_time:
            what = "is already being rolled back" if taken else "may already be rolled back"
            return errors.ConflictError(f"{target} {what} by rollback {rollback}")
    return None


def _check_requestable(
    client: Client, timeline: active.ActiveTimeline, requested_time: instants.InstantTime
) -> None:
    target = timeline.find(requested_time)
    if target is None:
        raise errors.NotFoundError(
            f"there is no instant {requested_time} on the timeline of {client.storage.uri}"
        )
    status = heartbeats.HeartbeatStatus(liveness=heartbeats.Liveness.MISSING)
    if target.is_pending and target.action in TARGETS:
        status = liveness.look_at(client.heartbeats, client.storage, timeline, [target])[target]
    pending_targets = contents.read_rollback_targets(
        client.storage, timeline, requested_time, is_pending_only=True
    )
    refusal = target_refusal(target, status, pending_targets)
    if refusal is not None:
        raise refusal


def _read_plan(client: Client, rollback: instants.Instant) -> plans.RollbackPlan | None:
    """Return a rollback's plan; None for one that is not there whole, and was not begun."""
    try:
        return contents.read_rollback_plan(client.storage, rollback)
    except errors.NotFoundError:
        return None  # The late act of an executor whose rollback was withdrawn.
    except errors.FormatError:
        if rollback.state is not instants.State.REQUESTED:
            raise
        return None


def _withdraw(client: Client, rollback: instants.Instant) -> None:
    """Take a rollback off the timeline; no file carries its time."""
    logger.warning("%s: %s is withdrawn: it has no plan", client.storage.uri, rollback)
    inflight = rollback.pending_in(instants.State.INFLIGHT)
    transitions.withdraw(client.storage, transitions.revert(client.storage, inflight))


def _end_if_completed(client: Client, rollback: OpenRollback) -> None:
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
        admission.admit_attempt(client)
        client.check_guards()
        end = late_completions.End.WITHDRAW
        if rollback.may_have_deleted:
            end = late_completions.end_of(client.storage, scope.timeline, found)
        rollback.opened.heartbeat.check()
        scope.check()
        if end is late_completions.End.FINISH:
            for each in scope.timeline.files:
                if each.requested_time == found.requested_time and each.is_completed:
                    transitions.reopen(client.storage, each)
        else:
            transitions.withdraw(
                client.storage, transitions.revert(client.storage, rollback.opened.inflight)
            )
    outcome = f"{_completed_text(found, rollback)}; the rollback is {end.value}"
    if end is not late_completions.End.FINISH:
        raise errors.ConflictError(outcome)
    logger.warning("%s: %s", client.storage.uri, outcome)


def _check_pending(timeline: active.ActiveTimeline, rollback: OpenRollback) -> None:
    found = timeline.find(rollback.plan.target)
    if found is not None and found.is_completed:
        raise errors.ConflictError(_completed_text(found, rollback))


def _completed_text(found: instants.Instant, rollback: OpenRollback) -> str:
    return (
        f"{found} was completed at {found.completion_time} although rollback "
        f"{rollback.requested_time} rolls it back"
    )


def _delete(client: Client, rollback: OpenRollback) -> list[str]:
    """Delete the files of the plan, and what tasks of a dead writer have added since."""
    paths = set(rollback.plan.paths)
    if rollback.plan.action in instants.WRITES:
        # A compaction may be executed again by now, if we were taken for dead: its files stay.
        late = markers.marked_files(client.storage, rollback.plan.target)
        paths |= {path for path in late if f"_{rollback.plan.target}." in path}
    for path in sorted(paths):
        rollback.opened.heartbeat.check()
        client.storage.delete(path)
    return sorted(paths)


def _take_off(
    client: Client, scope: table_lock.LockScope, rollback: OpenRollback, is_ours: markers.Check
) -> None:
    """Take the target off the timeline; a compaction is requested again (R7).

    Its delta commit of the metadata table goes first: of an instant that is not there it counts.
    """
    plan = rollback.plan
    metadata_commits.take_off(client, scope, rollback.opened, plan.target, plan.action, is_ours)
    is_ours()
    requested = transitions.revert(client.storage, rollback.target_inflight)
    if rollback.plan.action in instants.WRITES:
        transitions.withdraw(client.storage, requested)


def _tidy(client: Client, rollback: OpenRollback) -> None:
    """Remove what the target needs no more; failing to is no failure of the rollback (R9)."""
    if rollback.plan.action not in instants.WRITES:
        return
    target = rollback.plan.target
    try:
        markers.delete(client.storage, target)
        client.storage.delete(heartbeats.path_of(target))
    except errors.HoodieError as error:
        logger.warning("%s: left behind by %s: %s", client.storage.uri, target, error)
