"""What must hold before an action begins, is planned or taken over, asked in that lock scope.

Source: protocol.md: The table lock, A write, Compaction (L1, W2, W3, P1).
"""

import logging
from collections.abc import Callable

from hoodie import errors
from hoodie.model import instants, settings, table_config
from hoodie.timeline import active, contents, index_definitions, table_properties, transitions
from hoodie.transaction import fencing, heartbeats, preconditions, table_lock
from hoodie.transaction.client import Client, Companions

logger = logging.getLogger(__name__)


def admit_table(
    client: Client, scope: table_lock.LockScope, expected: table_config.TableConfig
) -> table_config.TableConfig:
    """Return the table's configuration as it is now, if the table can be changed by it.

    Raises:
        ConflictError: A restore is pending, or the configuration is not the expected one.
        FencedError: A guard says so.
        UnsupportedError: The table has what we do not maintain.
    """
    refusal = preconditions.restore_refusal(scope.timeline)
    if refusal is not None:
        raise refusal
    config = table_properties.load(client.storage, client.clock)
    refusal = preconditions.table_refusal(config, expected)
    if refusal is not None:
        raise refusal
    index_definitions.of_expressions(client.storage, config, config.metadata_partitions_kept_up)
    client.check_guards()
    return config


def admit_plan(
    client: Client, config: table_config.TableConfig, requested_time: instants.InstantTime
) -> None:
    """Refuse a plan whose time, just given, other engines may give again, and earlier ones.

    Raises:
        RepeatedTimeError: They may.
    """
    refusal = preconditions.repetition_refusal(config, client.slowest_ms, requested_time)
    if refusal is not None:
        raise refusal


def admit_attempt(client: Client) -> fencing.StoredRecord | None:
    """Return the author's attempt record, if no higher attempt has taken the author's place.

    Raises:
        FencedError: One has.
    """
    found = fencing.read(client.storage, client.author)
    fenced = fencing.attempt_refusal(found, client.author)
    if fenced is not None:
        raise fenced
    return found


def admit_author(client: Client, timeline: active.ActiveTimeline) -> fencing.StoredRecord | None:
    """Return the author's attempt record, if the author may begin work of its own.

    Raises:
        FencedError: A higher attempt is there.
        ConflictError: The same attempt is at work elsewhere.
    """
    found = admit_attempt(client)
    if found is not None and fencing.may_be_writing(found, client.author):
        recorded_time = instants.checked_time(found.record.requested_time)
        recorded = timeline.find(recorded_time)
        if recorded is not None and recorded.is_pending:
            status = client.heartbeats.look(recorded_time)
            if status.liveness.is_alive:
                raise errors.ConflictError(
                    f"{client.author} is already writing: {recorded} of {client.storage.uri} is "
                    f"owned by {status.owner or found.record.process}, last sign of life "
                    f"{status.silence_ms} ms ago"
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
        instant, status = next(iter(companions.items()))
        raise errors.ConflictError(
            f"{instant} of {client.storage.uri} is being written by "
            f"{status.owner or 'another'}, last sign of life {status.silence_ms} ms "
            f"ago, expected no other writer with {client.settings.concurrency.value}"
        )


def admit_reliance(client: Client, timeline: active.ActiveTimeline) -> None:
    """Refuse to rely on a completed instant that a pending rollback takes back.

    One request for each pending rollback.

    Args:
        client: Who is to rely on what has completed: counts a batch as written, or plans files.
        timeline: Read in the scope.

    Raises:
        ConflictError: There is one; the rollback's end decides whether it stands.
    """
    targets = contents.read_rollback_targets(
        client.storage, timeline, instants.InstantTime(""), is_pending_only=True
    )
    for rollback, time in targets.items():
        target = timeline.find(time) if time is not None else None
        if target is not None and target.is_completed:
            raise errors.ConflictError(
                f"{target} of {client.storage.uri} completed although rollback {rollback} rolls it "
                "back: wait until the rollback has ended, or run hoodie rollback --all"
            )


def pending(
    timeline: active.ActiveTimeline,
    action: instants.Action,
    requested_time: instants.InstantTime,
) -> instants.Instant:
    """Return a pending instant that is to be taken over.

    Raises:
        NotFoundError: There is none of that action.
        ConflictError: It was completed.
        UnsupportedError: It has a name of 14 digits.
    """
    instant = timeline.find(requested_time)
    if instant is None:
        raise errors.NotFoundError(f"there is no instant {requested_time} on the timeline")
    if instant.is_completed and instant.action is action.completed:
        raise errors.ConflictError(f"{instant} was completed at {instant.completion_time}")
    if instant.action is not action:
        raise errors.NotFoundError(f"{instant} is not a {action.value}")
    unnamed = preconditions.name_refusal(instant)
    if unnamed is not None:
        raise unnamed
    return instant


def admit_not_taken_back(
    client: Client, instant: instants.Instant, timeline: active.ActiveTimeline
) -> None:
    """Refuse a plan whose dead execution is being taken back: what it deletes was planned then.

    Raises:
        ConflictError: It is.
    """
    targets = contents.read_rollback_targets(
        client.storage, timeline, instant.requested_time, is_pending_only=True
    )
    rollback = preconditions.rollback_of(instant.requested_time, targets)
    if rollback is not None:
        raise errors.ConflictError(
            f"{instant} is being rolled back by rollback {rollback}: wait until that has ended"
        )


def refuse_shared_time(
    client: Client, planned: instants.Instant, timeline: active.ActiveTimeline
) -> None:
    """Withdraw a plan that has the time of another instant, unless its execution has begun.

    Its planner lost the lock right before the plan was on the timeline, and died or failed before
    it had taken the plan back. Files of both would carry one time, and a completion time is of a
    time.

    Raises:
        ConflictError: It has.
    """
    if planned.state is not instants.State.REQUESTED:
        return
    for other in timeline.instants:
        is_same = other.requested_time == planned.requested_time
        if is_same and other.action.completed is not planned.action.completed:
            transitions.withdraw(client.storage, planned)
            raise errors.ConflictError(
                f"{planned} has the time of {other}, since the table lock was lost while it was "
                "planned; it was withdrawn: plan the compaction again"
            )


def _companions(client: Client, timeline: active.ActiveTimeline) -> Companions:
    pending = timeline.pending_of(*instants.WRITES)
    statuses = client.heartbeats.look_at(each.requested_time for each in pending)
    return {
        instant: seen
        for instant in pending
        if (seen := statuses[instant.requested_time]).liveness.is_alive
        and not _is_left_behind(client, seen)
    }


def _is_left_behind(client: Client, seen: heartbeats.HeartbeatStatus) -> bool:
    """Return whether it is an earlier write of our own author, which is fenced off by a later."""
    return (
        seen.owner is not None
        and bool(seen.owner.author)
        and (seen.owner.author == client.author.record_name)
    )


def start_heartbeat(
    client: Client,
    requested_time: instants.InstantTime,
    action: instants.Action,
    attempt: fencing.StoredRecord | None,
    batch_id: str | None = None,
    earlier: fencing.EarlierBatches | None = None,
) -> heartbeats.Heartbeat:
    """Start a new instant's heartbeat; record one that writes data as its author's newest work.

    What an author does beside its own work, a rollback, its record does not name: that is for
    writes, and holds the newest one's batch.

    Args:
        client: Who will work on it.
        requested_time: The instant.
        action: What it does.
        attempt: The author's record, after `admit_author`.
        batch_id: What it will hold.
        earlier: The author's batches that its record has to pass on; None for none.

    Raises:
        ConflictError: The author's record changed.
        OvertakenError: Another has taken the time, as may happen without a lock.
    """
    owner = _owner(client, requested_time, action)
    try:
        heartbeat = client.heartbeats.start(requested_time, owner)
    except errors.AlreadyExistsError as error:
        raise errors.OvertakenError(f"time {requested_time} is taken: {error}") from error
    if action.is_write:
        _record(client, heartbeat, requested_time, attempt, batch_id, earlier)
    return heartbeat


def take_over_heartbeat(
    client: Client,
    requested_time: instants.InstantTime,
    action: instants.Action,
    attempt: fencing.StoredRecord | None,
) -> heartbeats.Heartbeat:
    """Take over a pending instant's heartbeat, and record it as `start_heartbeat` does.

    Raises:
        ConflictError: Somebody alive works on that instant, or the author's record changed.
    """
    owner = _owner(client, requested_time, action)
    heartbeat = client.heartbeats.take_over(requested_time, owner)
    if action.is_write:
        _record(client, heartbeat, requested_time, attempt)
    return heartbeat


def _owner(
    client: Client, requested_time: instants.InstantTime, action: instants.Action
) -> heartbeats.Owner:
    return heartbeats.Owner(
        name=f"{client.author}, {action.value} {requested_time}",
        write_id=client.random.uuid(),
        process=client.process,
        author=(client.author.record_name or "") if action.is_write else "",
        claim=client.claim if action.is_write else "",
    )


def _record(
    client: Client,
    heartbeat: heartbeats.Heartbeat,
    requested_time: instants.InstantTime,
    attempt: fencing.StoredRecord | None,
    batch_id: str | None = None,
    earlier: fencing.EarlierBatches | None = None,
) -> None:
    """Record a write as its author's newest; where that fails, its heartbeat ends."""
    record = fencing.AttemptRecord(
        attempt=client.author.attempt,
        write_id=heartbeat.owner.write_id,
        requested_time=requested_time,
        process=client.process,
        batch_id=batch_id or "",
        late_batches=earlier.late if earlier else (),
        pending_batches=earlier.pending if earlier else {},
    )
    try:
        fencing.write(client.storage, client.author, attempt, record)
    except BaseException:
        release_heartbeat(heartbeat)
        raise


def holding(scope: table_lock.LockScope, heartbeat: heartbeats.Heartbeat) -> Callable[[], None]:
    """Return a check that lock and heartbeat have not been lost; it makes no request.

    Ask it before each step that another executor must not see done: once the lock is lost, others
    may have taken the work over, and files that have markers may be the ones they are to commit.
    """

    def check() -> None:
        heartbeat.check()
        scope.check()

    return check


def release_heartbeat(heartbeat: heartbeats.Heartbeat) -> None:
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
        content: The plan; empty for writes.
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
        if not scope.is_courtesy:
            client.times.wait_out(requested_time)
        raise
