"""What must hold before a write, a plan or an execution begins, asked in the scope it begins in.

Source: concurrency 2.3 (L1), 2.5 (W2, W3), 2.12 (P1).
"""

import logging
from collections.abc import Callable

from hoodie import errors
from hoodie.model import instants, settings, table_config
from hoodie.timeline import active, table_properties, transitions
from hoodie.transaction import fencing, heartbeats, refusals, table_lock
from hoodie.transaction.client import Client, Companions

logger = logging.getLogger(__name__)

WRITES = (
    instants.Action.COMMIT,
    instants.Action.DELTA_COMMIT,
    instants.Action.REPLACE_COMMIT,
)
"""Actions that writers begin, as table services do the others."""


def admit_table(
    client: Client, scope: table_lock.LockScope, expected: table_config.TableConfig
) -> table_config.TableConfig:
    """Return the table's configuration as it is now, if the table can be changed by it.

    Raises:
        ConflictError: A restore is pending, or the configuration is not the expected one.
        FencedError: A guard says so.
        UnsupportedError: The table has what we do not maintain.
    """
    refusal = refusals.restore_refusal(scope.timeline)
    if refusal is not None:
        raise refusal
    config = table_properties.load(client.storage, client.clock)
    refusal = refusals.table_refusal(config, expected)
    if refusal is not None:
        raise refusal
    client.check_guards()
    return config


def admit_author(client: Client, timeline: active.ActiveTimeline) -> fencing.StoredRecord | None:
    """Return the author's attempt record, if the author may begin something.

    Raises:
        FencedError: A higher attempt is there.
        ConflictError: The same attempt is at work elsewhere.
    """
    found = fencing.read(client.storage, client.author)
    fenced = fencing.attempt_refusal(found, client.author)
    if fenced is not None:
        raise fenced
    if found is not None and fencing.may_be_writing(found, client.author):
        recorded_time = instants.checked_time(found.record.requested_time)
        recorded = timeline.find(recorded_time)
        if recorded is not None and recorded.is_pending:
            sighting = client.heartbeats.look(recorded_time)
            if sighting.liveness.is_alive:
                raise errors.ConflictError(
                    f"{client.author} is writing already: {recorded} of {client.storage.uri} is "
                    f"worked on by {sighting.owner or found.record.process}, which gave a sign of "
                    f"life {sighting.silence_ms} ms ago"
                )
    return found


def admit_beside(client: Client, timeline: active.ActiveTimeline) -> None:
    """Refuse a write that must not begin beside those that are at work.

    Args:
        client: The writer, admitted itself.
        timeline: Read in the scope.

    Raises:
        ConflictError: Another writer is alive, and the table is to have one.
        HoodieError: What the client's own rule raises.
    """
    is_single = client.settings.concurrency is settings.ConcurrencyMode.SINGLE_WRITER
    if client.admit_beside is None and not is_single:
        return
    companions = _companions(client, timeline)
    if client.admit_beside is not None:
        client.admit_beside(companions)
    if is_single and companions:
        instant, sighting = next(iter(companions.items()))
        raise errors.ConflictError(
            f"{instant} of {client.storage.uri} is being written by "
            f"{sighting.owner or 'another'}, which gave a sign of life {sighting.silence_ms} ms "
            f"ago, expected no other writer with {client.settings.concurrency.value}"
        )


def _companions(client: Client, timeline: active.ActiveTimeline) -> Companions:
    pending = timeline.pending_of(*WRITES)
    sightings = client.heartbeats.look_at(each.requested_time for each in pending)
    return {
        instant: seen
        for instant in pending
        if (seen := sightings[instant.requested_time]).liveness.is_alive
        and not _is_left_behind(client, seen)
    }


def _is_left_behind(client: Client, seen: heartbeats.Sighting) -> bool:
    """Return whether it is an earlier write of our own author, which is fenced off by a later."""
    return (
        seen.owner is not None
        and bool(seen.owner.author)
        and (seen.owner.author == client.author.record_name)
    )


def own(
    client: Client,
    requested_time: instants.InstantTime,
    action: instants.Action,
    attempt: fencing.StoredRecord | None,
    batch_id: str | None = None,
    earlier: fencing.EarlierBatches | None = None,
) -> heartbeats.Heartbeat:
    """Start an instant's heartbeat, and record it as its author's newest work.

    Args:
        client: Who will work on it.
        requested_time: The instant.
        action: What it does.
        attempt: The author's record, after `admit_author`.
        batch_id: What it will hold.
        earlier: The author's batches that its record has to pass on; None for none.

    Raises:
        ConflictError: Somebody alive works on that instant, or the author's record changed.
    """
    owner = heartbeats.Owner(
        name=f"{client.author}, {action.value} {requested_time}",
        write_id=client.random.uuid(),
        process=client.process,
        author=client.author.record_name or "",
        claim=client.claim,
    )
    heartbeat = client.heartbeats.start(requested_time, owner)
    record = fencing.AttemptRecord(
        attempt=client.author.attempt,
        write_id=owner.write_id,
        requested_time=requested_time,
        process=client.process,
        batch_id=batch_id or "",
        late_batches=earlier.late if earlier else (),
        pending_batches=earlier.pending if earlier else {},
    )
    try:
        fencing.write(client.storage, client.author, attempt, record)
    except BaseException:
        disown(heartbeat)
        raise
    return heartbeat


def holding(scope: table_lock.LockScope, heartbeat: heartbeats.Heartbeat) -> Callable[[], None]:
    """Return a check that lock and heartbeat have not been lost; it makes no request.

    Ask it before each step that another executor must not see done: once the lock is lost, others
    may have taken the work over, and files that have markers may be the ones they are to commit.
    """

    def check() -> None:
        heartbeat.check()
        scope.check()

    return check


def disown(heartbeat: heartbeats.Heartbeat) -> None:
    """End a heartbeat whose work failed to begin; where that fails, too, it expires."""
    heartbeat.stop()
    try:
        heartbeat.end()
    except errors.HoodieError as error:
        logger.warning("%s left a heartbeat behind: %s", heartbeat.owner, error)


def request(
    client: Client,
    scope: table_lock.LockScope,
    requested_time: instants.InstantTime,
    action: instants.Action,
    content: bytes,
    proof: transitions.Proof,
) -> instants.Instant:
    """Put an instant on the timeline, in the lock scope that its time was generated in.

    One that may appear later has its time for itself, too: it would be another instant of the same
    time otherwise, and a rollback of the one could take the files of the other. So the lock is kept
    until no clock gives that time again. (The simulation found that.) The lock is asked about right
    before each try: others may have decided since it was lost.

    Args:
        client: Whose instant it is.
        scope: In which its time was generated.
        requested_time: Its name.
        action: What it will do.
        content: The plan; empty for commits and delta commits.
        proof: Asked when a file of that name is there and empty.

    Raises:
        ConflictError: The name is taken by another.
        LockLostError: Not done.
        OutcomeUnknownError: Neither done nor not done, as far as could be found out.
        StorageError: Not done.
    """
    scope.check()
    try:
        return transitions.request(
            client.storage, requested_time, action, content, proof, scope.check
        )
    except errors.OutcomeUnknownError:
        client.times.wait_out(requested_time)
        raise
