"""Failed writes are taken back: by which plan, in which order, and when by a writer itself.

    eager   a single writer, after it has begun and before it writes any data
    lazy    any writer, once it has committed, two at most: it has not told anybody that it has
    never   only who asks for it

A writer looks at what was pending when it began, so nothing is requested while nothing was. A write
that was aborted and has no task left is taken back at once, unless never.

Lazy is Apache Hudi's name for what its cleaning does first. Source: `CleanerUtils.java`
(rollbackFailedWrites), `BaseHoodieTableServiceClient.java`; protocol.md: A write, Rollback (W1).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from hoodie import deferred, errors
from hoodie.model import instants, plans, results, table_config
from hoodie.timeline import active, contents, transitions
from hoodie.transaction import client, liveness, markers, table_lock

with deferred.imports():
    from hoodie.maintenance.rollback import execution, planning

logger = logging.getLogger(__name__)

LAZY_MAX = 2
"""How many writes a writer takes back lazily after one of its own: no process leaves more than one
behind, so that what was left behind gets less even if every other writer dies."""


def roll_back(
    transaction_client: client.Client,
    config: table_config.TableConfig,
    requested_time: instants.InstantTime,
    timeline: active.ActiveTimeline | None = None,
) -> results.RollbackResult:
    """Take a pending write or compaction back, or go on with a pending rollback.

    Args:
        transaction_client: Who does it.
        config: The table's.
        requested_time: Of what is to be taken back, or of a rollback.
        timeline: Just read; read anew without one.

    Raises:
        NotFoundError: There is no such instant.
        ConflictError: It has completed, or somebody alive works on it or takes it back.
        UnsupportedError: It is nothing that can be taken back.
        HoodieError: It stays pending, and may be taken back by another try.
    """
    timeline = timeline or active.listed(transaction_client.storage)
    pending = _rollback_of(transaction_client, timeline, requested_time)
    if pending is not None:
        resumed = execution.resume(transaction_client, config, pending)
        if resumed is not None:
            return _result(execution.execute(transaction_client, resumed))
        if pending == requested_time:
            raise errors.NotFoundError(
                f"rollback {pending} had no plan that can be read, and was withdrawn"
            )
    plan = _plan(transaction_client, timeline, requested_time)
    opened = execution.request(transaction_client, config, plan)
    return _result(execution.execute(transaction_client, opened))


def roll_back_all(
    transaction_client: client.Client,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    count_max: int | None = None,
) -> results.RollbackResults:
    """Go on with pending rollbacks whose executors are dead, then take dead writes back.

    No request while nothing is pending.

    Args:
        transaction_client: Who does it.
        config: The table's.
        timeline: What is looked at; whatever is done is decided on a newer one, under the lock.
        count_max: So many are done at most, the newest first; None for all.

    Raises:
        HoodieError: Storage or lock failed, or a plan cannot be read; the rest was not tried.
    """
    done: list[results.RollbackResult] = []
    passed_over = _take_off_remains(transaction_client, timeline)
    for each in _dead(transaction_client, timeline):
        if len(done) == count_max:
            break
        try:
            done.append(roll_back(transaction_client, config, each.requested_time))
        except (errors.ConflictError, errors.NotFoundError) as error:
            # It is in other hands, or was: of several that see it dead one takes it back.
            logger.info("%s: passed over: %s", transaction_client.storage.uri, error)
            passed_over.append(str(error))
    return results.RollbackResults(done=tuple(done), passed_over=tuple(passed_over))


def _take_off_remains(
    transaction_client: client.Client, timeline: active.ActiveTimeline
) -> list[str]:
    """Delete what is left of archived instants; return what was done. No request without any."""
    if not timeline.remains:
        return []
    storage = transaction_client.storage

    def take_off(scope: table_lock.LockScope) -> None:
        # In a table without foreign writers it was taken off before the scope was entered.
        transitions.take_off(storage, scope.timeline.remains, scope.check)

    transaction_client.lock.decide(take_off)
    times = sorted({each.requested_time for each in timeline.remains})
    done = [f"{time} was archived before: its files on the timeline were deleted" for time in times]
    for each in done:
        logger.warning("%s: %s", storage.uri, each)
    return done


def _dead(
    transaction_client: client.Client, timeline: active.ActiveTimeline
) -> Iterator[instants.Instant]:
    """Yield pending rollbacks whose executors are dead, then dead writes."""
    for actions in ((instants.Action.ROLLBACK,), instants.WRITES):
        yield from liveness.find_dead(transaction_client, timeline, actions)


def roll_back_aborted(
    transaction_client: client.Client, config: table_config.TableConfig, write: client.OpenAction
) -> None:
    """Take back a write of ours that was aborted, its files deleted; failing to is only logged."""
    uri = transaction_client.storage.uri
    try:
        roll_back(transaction_client, config, write.requested_time)
    except errors.NotFoundError as error:
        logger.info("%s: %s was rolled back by another process: %s", uri, write.requested, error)
    except errors.HoodieError as error:
        logger.warning("%s: %s stays pending: %s", uri, write.requested, error)


def _rollback_of(
    transaction_client: client.Client,
    timeline: active.ActiveTimeline,
    requested_time: instants.InstantTime,
) -> instants.InstantTime | None:
    """Return the pending rollback that is meant, or that takes back what is meant."""
    found = timeline.find(requested_time)
    if found is not None and found.action is instants.Action.ROLLBACK:
        return requested_time
    targets = contents.read_rollback_targets(
        transaction_client.storage, timeline, requested_time, is_pending_only=True
    )
    return next((time for time, target in targets.items() if target == requested_time), None)


def _plan(
    transaction_client: client.Client,
    timeline: active.ActiveTimeline,
    requested_time: instants.InstantTime,
) -> plans.RollbackPlan:
    """Return the plan for an instant; the table is listed where its markers may not tell all."""
    storage = transaction_client.storage
    target = timeline.find(requested_time)
    if target is None:
        raise errors.NotFoundError(
            f"there is no instant {requested_time} on the timeline of {storage.uri}"
        )
    if target.action not in execution.TARGETS or target.is_completed:
        # It will be refused, with the reason, by whom it is requested from.
        return planning.plan_of(target, ())
    marked = markers.find(storage, requested_time)
    paths = set(marked.paths)
    # No data file is written before the instant is inflight.
    if not marked.is_complete and target.state is instants.State.INFLIGHT:
        paths.update(planning.listed_files(storage, requested_time))
    return planning.plan_of(target, paths)


def _result(done: execution.RolledBack) -> results.RollbackResult:
    return results.RollbackResult(
        instant=done.instant,
        target=done.plan.target,
        action=done.plan.action,
        deleted=done.deleted,
        lock_wait_ms=done.lock_times.wait_ms,
        lock_hold_ms=done.lock_times.hold_ms,
        findings=done.findings,
    )
