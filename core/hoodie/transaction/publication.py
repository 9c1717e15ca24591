"""Publishing a write: what must hold is found out, the completed file created, doubt resolved.

All in one lock scope but the last. Source: concurrency 2.5 (C1, W15), 2.3 (L2).
"""

import logging
from dataclasses import replace

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits, instants, jobs
from hoodie.timeline import active, rollback_plans, table_properties, transitions
from hoodie.transaction import admission, authors, fencing, refusals, table_lock, writer_batches
from hoodie.transaction.client import Client, OpenWrite

logger = logging.getLogger(__name__)


def check(client: Client, scope: table_lock.LockScope, write: OpenWrite) -> None:
    """Refuse to publish unless all of C1 holds.

    Raises:
        HoodieError: As `refusals.publication_refusal` says, or a guard.
    """
    refusal = refusals.publication_refusal(
        refusals.PublicationFacts(
            inflight=write.inflight,
            author=client.author,
            write_id=write.write_id,
            timeline=scope.timeline,
            is_heartbeat_own=write.heartbeat.is_own(),
            rollback_targets=rollback_targets(client, write, scope.timeline),
            attempt=fencing.read(client.storage, client.author),
            config=table_properties.load(client.storage, client.clock),
            expected=write.config,
            is_heartbeat_alive=write.heartbeat.is_alive(),
            is_lock_held=scope.is_held(),
        )
    )
    if refusal is not None:
        raise refusal
    client.check_guards()


def publish(
    client: Client,
    scope: table_lock.LockScope,
    write: OpenWrite,
    metadata: commits.CommitMetadata,
) -> instants.Instant:
    """Take the completion time and create the completed file, after `check` found nothing.

    Raises:
        HoodieError: As `transitions.complete`; or lock or heartbeat were lost meanwhile.
    """
    extra = {**metadata.extra, **_ids(client, scope, write)}
    content = timeline_avro.encode_commit(replace(metadata, extra=extra))
    try:
        return transitions.complete(
            client.storage,
            write.inflight,
            content,
            timeline=scope.timeline,
            times=client.times,
            check=admission.holding(scope, write.heartbeat),
        )
    except errors.StorageError:
        write.heartbeat.kill("was not published, as the storage tells")
        raise
    except errors.OutcomeUnknownError:
        # It may still be on its way to the store: leave it the time until the heartbeat expires.
        write.heartbeat.doubt("was perhaps published")
        raise


def resolve(client: Client, write: OpenWrite, completed: instants.Instant) -> str:
    """Return what to tell of a publication during which the lock was lost.

    Takes the lock: whoever had it meanwhile may have decided before the completed file was there,
    and not yet published what.

    Raises:
        OutcomeUnknownError: It may have been undone or passed over, or cannot be looked at.
    """
    lost = f"the table lock was lost while {completed} was published"
    try:
        with client.lock.scope() as scope:
            timeline = scope.timeline
            targets = rollback_targets(client, write, timeline)
            attempt = fencing.read(client.storage, client.author)
            is_heartbeat_own = write.heartbeat.is_own()
    except errors.HoodieError as error:
        raise errors.OutcomeUnknownError(f"{lost}: {error}") from error
    fenced = fencing.publication_refusal(attempt, client.author, write.write_id)
    contest = refusals.contest(completed, timeline, targets) or fenced
    if contest is not None:
        raise errors.OutcomeUnknownError(f"{lost}: {contest}")
    if not is_heartbeat_own:
        raise errors.OutcomeUnknownError(
            f"{lost}: another process took it over since, and may have deleted its files"
        )
    later = [
        str(each)
        for each in timeline.completed_writes
        if not write.timeline.has_file(each)
        and str(each.completion_time) > str(completed.completion_time)
    ]
    if later:
        # Who reads increments may have gone on to these, and passes ours by.
        return f"{lost}, after {', '.join(later)} had completed with later times"
    return f"{lost}, and nobody interfered"


def rollback_targets(
    client: Client, write: OpenWrite, timeline: active.ActiveTimeline
) -> rollback_plans.Targets:
    """Return what rollbacks requested since a write take back; a request for each.

    What had completed when the execution of a plan began took back an earlier execution.
    """
    completed = {each.requested_time for each in write.timeline.instants if each.is_completed}
    found = rollback_plans.targets(client.storage, timeline, after=write.requested_time)
    return {time: target for time, target in found.items() if time not in completed}


def clock_findings(client: Client) -> tuple[str, ...]:
    """Return which instant is ahead of our clock and who wrote it, where that was passed over."""
    suspect = client.times.suspect
    if suspect is None:
        return ()
    writer = "an unknown writer"
    if suspect.is_completed and suspect.action.is_write:
        try:
            extra = writer_batches.read_metadata(client.storage, suspect).extra
            writer = extra.get(jobs.WRITER_ID_KEY) or extra.get(jobs.ACTION_ID_KEY) or writer
        except errors.HoodieError as error:
            logger.warning("%s: who wrote %s is not known: %s", client.storage.uri, suspect, error)
    finding = (
        f"instant {suspect} of {writer} is ahead of this machine's clock by more than "
        f"{client.settings.clock_skew_ms_max} ms; later instants follow it"
    )
    return (finding,)


def _ids(client: Client, scope: table_lock.LockScope, write: OpenWrite) -> dict[str, str]:
    """Return what a commit of ours says beside its own metadata."""
    ids = authors.extra_metadata(client.author, write.write_id, write.batch_id)
    ledger = writer_batches.read(client.storage, scope.timeline, write.ledger)
    writer_id = client.author.writer_id
    if writer_id is not None and write.batch_id is not None:
        known = write.ledger.batches.get(writer_id, ())
        ledger = ledger.including(writer_id, [*known, write.batch_id])
    # An empty one, too: whoever looks for it then needs to look no further.
    ids[writer_batches.LEDGER_KEY] = writer_batches.encode(ledger.batches)
    return ids
