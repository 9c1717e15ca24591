"""The life of a write: begin, start, complete or abort (W2 to W17 without W14; C1 to C3).

    begin     in a lock scope: refuse what cannot work, take the requested time, first heartbeat,
              attempt record, requested file                                            W2 to W4
    start     inflight file with the workload profile                                   W7
              (tasks: a marker, then the data file; see `markers`)                      W8
    complete  in a lock scope: everything that must still hold, steps of the caller,
              files of failed tasks away, completion time, completed file       W10 to W13, W15
              heartbeat and markers away                                           W16, W17
    abort     stop; delete the data files where that is safe

Requests of a write beside its data: two listings of the timeline, one in each lock scope, one of
its own markers, and some 20 others; constant in the size of the table and the length of its
history, but for the timeline's listing itself.

A crash before the requested file leaves a heartbeat that stands for nothing; one before the
completed file leaves a pending instant, invisible to readers, for a later rollback; one after it
leaves markers and a heartbeat that nobody minds. Source: `BaseHoodieWriteClient.java`;
concurrency 2.5.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.format import timeline_avro
from hoodie.model import commits, instants, jobs, table_config
from hoodie.timeline import transitions
from hoodie.transaction import (
    admission,
    authors,
    fencing,
    markers,
    publication,
    refusals,
    table_lock,
    writer_batches,
)
from hoodie.transaction.client import AlreadyWritten, Client, Completion, OpenWrite

logger = logging.getLogger(__name__)

PreCompletion = Callable[
    [table_lock.LockScope, OpenWrite, commits.CommitMetadata], commits.CommitMetadata
]
"""A step in the lock scope before the completed file: a conflict check, a checkpoint, the metadata
table's commit. It returns the metadata to publish, or raises and nothing is published. It is taken
once more after a publication during which the lock was lost."""


def begin(
    client: Client,
    action: instants.Action,
    expected: table_config.TableConfig,
    batch_id: str | None = None,
) -> OpenWrite | AlreadyWritten:
    """Put a new write on the timeline.

    Args:
        client: Whose write it is.
        action: Delta commit, commit.
        expected: The configuration that the data is prepared for.
        batch_id: The writer's batch that it will hold; one that the table holds is not begun.

    Raises:
        ConflictError: A restore is pending; the table's configuration changed; the same writer is
            writing already, or any other in single-writer mode.
        FencedError: A higher attempt of the same author is there.
        InvalidInputError: The client has a write open already.
        LockTimeoutError: The lock was not had.
        ClockSkewError: No time can be given.
        UnsupportedError: The table has what we do not maintain.
    """
    assert action in admission.WRITES, action
    if batch_id is not None:
        authors.checked_batch_id(batch_id)
    before = client.lock.times
    with client.lock.scope() as scope:
        opened = _begin(client, scope, action, expected, batch_id)
    if opened is None:
        assert batch_id is not None
        return AlreadyWritten(batch_id=batch_id, lock_times=client.lock.times - before)
    logger.info("%s: %s of %s", client.storage.uri, opened.requested, client.author)
    return replace(opened, lock_times_before=before)


def start(
    client: Client,
    write: OpenWrite,
    operation: commits.Operation,
    profile: Sequence[commits.WriteStat] = (),
) -> None:
    """Make a write inflight, saying which file groups it will touch (W7); before any data file.

    Args:
        client: The one that began it.
        write: The write.
        operation: What it does.
        profile: The workload, as format-timeline 2.2 has it; empty where it is not known.

    Raises:
        HeartbeatExpiredError: The write took too long to get here.
        ConflictError: Somebody else made it inflight.
    """
    write.heartbeat.check()
    content = b""  # Apache Hudi's services have nothing there, and the plan says it all.
    if write.action in admission.WRITES:
        ids = authors.extra_metadata(client.author, write.write_id, write.batch_id)
        content = timeline_avro.encode_commit(
            commits.CommitMetadata(operation=operation.value, stats=tuple(profile), extra=ids)
        )
    transitions.start(client.storage, write.requested, content, write.heartbeat.is_own)


def complete(
    client: Client,
    write: OpenWrite,
    metadata: commits.CommitMetadata,
    steps: Sequence[PreCompletion] = (),
    amendments: Sequence[PreCompletion] = (),
) -> Completion:
    """Publish a write, all of it or nothing.

    When it raises, abort the write; only a lock that was not had may be tried again before.

    Args:
        client: The one that began it.
        write: The write, inflight, all its tasks ended.
        metadata: What was written; ids of author and batch are added here.
        steps: Run in the lock scope, in this order.
        amendments: Run after them; they check nothing, and are never taken once more.

    Raises:
        ConflictError: A rollback or a restore came between, or a step found a conflict.
        FencedError: This attempt was replaced.
        HeartbeatExpiredError: Others may have taken the write back.
        LockTimeoutError: The lock was not had.
        LockLostError: It was lost before anything was published.
        OutcomeUnknownError: Whether it was published could not be found out.
        StorageError: The storage failed, and nothing was published.
        UnsupportedError: The table now has what we do not maintain.
    """
    with client.lock.scope() as scope:
        publication.check(client, scope, write)
        for step in (*steps, *amendments):
            metadata = step(scope, write, metadata)
        # Under the lock nobody can take the instant over, so these are files of our own tasks.
        check = admission.holding(scope, write.heartbeat)
        markers.finalise(client.storage, write.requested_time, metadata.stats, check)
        completed = publication.publish(client, scope, write, metadata)
        is_certain = scope.is_held()
    findings = publication.clock_findings(client)
    if not is_certain:
        # Published, but perhaps in somebody else's time with the lock.
        findings = (*findings, publication.resolve(client, write, completed))
        _repeat(client, write, metadata, steps)
    client.closed()
    _tidy(client, write)
    lock_times = client.lock.times - write.lock_times_before
    return Completion(instant=completed, lock_times=lock_times, findings=findings)


def abort(client: Client, write: OpenWrite, *, has_tasks_left: bool) -> bool:
    """End a write that will not be completed; return whether it was still ours to empty.

    Where no task can write any more, and the heart still beats, the files that have markers are
    deleted, and a plan that was being executed is requested again; so are the files of a write that
    a rollback has taken off the timeline, as far as it missed them. The instant of a write stays
    pending for a rollback: a time that was on the timeline must not become free, or a clock that
    lags gives it away again, and whatever carries it counts for the new instant. (The simulation
    found that.) Where it may be published yet, its author does not begin anew before the heartbeat
    has expired: the same batch could be there twice. Raises nothing that the library reports.

    Args:
        client: The one that began it.
        write: The write.
        has_tasks_left: Whether a task may still be running somewhere, as after a failed Spark job:
            what it writes later can only be found through the pending instant's markers, so all is
            left as it is until the heartbeat has expired.
    """
    is_emptied = False
    try:
        if not has_tasks_left:
            is_emptied = _empty(client, write)
        if not is_emptied and not write.heartbeat.is_in_doubt:
            fencing.give_up(client.storage, client.author, write.write_id)
    except errors.HoodieError as error:
        logger.warning("%s: left behind by %s: %s", client.storage.uri, write.requested, error)
    finally:
        write.heartbeat.stop()
        client.closed()
    return is_emptied


def _begin(
    client: Client,
    scope: table_lock.LockScope,
    action: instants.Action,
    expected: table_config.TableConfig,
    batch_id: str | None,
) -> OpenWrite | None:
    """Do what `begin` does in its lock scope; None when the table holds the batch."""
    client.check_idle()
    config = admission.admit_table(client, scope, expected)
    attempt = admission.admit_author(client, scope.timeline)
    told = writer_batches.read(client.storage, scope.timeline)
    earlier = _earlier_batches(client, scope, attempt, told)
    writer_id = client.author.writer_id
    ledger = told
    if writer_id is not None and earlier.late:
        ledger = told.including(writer_id, earlier.late)
    if writer_id is not None and batch_id is not None and ledger.holds(writer_id, batch_id):
        return None
    admission.admit_beside(client, scope.timeline)
    requested_time = client.times.generate(scope.timeline)
    heartbeat = admission.own(client, requested_time, action, attempt, batch_id, earlier)
    try:
        admission.request(client, scope, requested_time, action, b"", heartbeat.is_own)
        scope.check()
    except BaseException:
        admission.disown(heartbeat)
        raise
    client.opened(requested_time)
    return OpenWrite(
        requested_time=requested_time,
        action=action,
        batch_id=batch_id,
        heartbeat=heartbeat,
        timeline=scope.timeline,
        config=config,
        ledger=ledger,
        lock_times_before=client.lock.times,
    )


def _earlier_batches(
    client: Client,
    scope: table_lock.LockScope,
    attempt: fencing.StoredRecord | None,
    told: writer_batches.Ledger,
) -> fencing.EarlierBatches:
    """Return the author's batches that the table holds, or may yet, and the ledger tells not of.

    One that appeared late, its writer having been paused, may be unknown to the newest commit, and
    stays so until a commit of the same author.
    """
    writer_id = client.author.writer_id
    if writer_id is None or attempt is None:
        return fencing.EarlierBatches()
    record = attempt.record
    late = [batch for batch in record.late_batches if not told.holds(writer_id, batch)]
    pending = {}
    recorded = {**record.pending_batches, record.requested_time: record.batch_id}
    for time, batch_id in recorded.items():
        if not batch_id or told.holds(writer_id, batch_id):
            continue
        write = scope.timeline.find(instants.checked_time(time))
        if write is None:
            continue
        if not write.is_completed:
            pending[time] = batch_id
        elif _holds_batch(client, write, writer_id, batch_id):
            late.append(batch_id)
    return fencing.EarlierBatches(late=tuple(late), pending=pending)


def _holds_batch(client: Client, found: instants.Instant, writer_id: str, batch_id: str) -> bool:
    """Return whether what completed with a recorded time is the recorded write.

    The record is there before the instant is: whose author lost the lock in between has written
    nothing, and somebody else's instant may have the time by now. (The simulation found that.) The
    record's write id does not tell: it is taken out when a write is given up.
    """
    if not found.action.is_write:
        return False
    extra = writer_batches.read_metadata(client.storage, found).extra
    return (extra.get(jobs.WRITER_ID_KEY), extra.get(jobs.BATCH_ID_KEY)) == (writer_id, batch_id)


def _empty(client: Client, write: OpenWrite) -> bool:
    """Delete the files of a write that nobody else has touched; return whether that was done."""
    with client.lock.scope() as scope:
        is_ours = (
            scope.is_held()
            and write.heartbeat.is_alive()
            and write.heartbeat.is_own()
            and scope.timeline.has_file(write.requested)
            and not scope.timeline.is_committed(write.requested_time)
            and not _is_taken_back(client, write, scope)
        )
        if is_ours:
            check = admission.holding(scope, write.heartbeat)
            markers.delete_data_files(client.storage, write.requested_time, check)
            if write.action not in admission.WRITES:
                check()
                transitions.revert(client.storage, write.inflight)
            # Before another can execute the plan: the file would then be its heartbeat.
            check()
            write.heartbeat.end()
        elif _is_gone(client, write, scope):
            # Whoever took it back did not see what was written since, and nobody else has its time.
            markers.delete_data_files(client.storage, write.requested_time, scope.check)
    return is_ours


def _is_gone(client: Client, write: OpenWrite, scope: table_lock.LockScope) -> bool:
    """Return whether a rollback has taken a write off the timeline."""
    return (
        write.action in admission.WRITES
        and scope.is_held()
        and scope.timeline.find(write.requested_time) is None
        and _is_taken_back(client, write, scope)
    )


def _is_taken_back(client: Client, write: OpenWrite, scope: table_lock.LockScope) -> bool:
    targets = publication.rollback_targets(client, write, scope.timeline)
    return refusals.rollback_of(write.requested_time, targets) is not None


def _repeat(
    client: Client,
    write: OpenWrite,
    metadata: commits.CommitMetadata,
    steps: Sequence[PreCompletion],
) -> None:
    """Find out whether what steps have checked still held when a write was published.

    Raises:
        OutcomeUnknownError: It did not, or it cannot be found out.
    """
    if not steps:
        return
    try:
        with client.lock.scope() as scope:
            for step in steps:
                metadata = step(scope, write, metadata)
    except errors.HoodieError as error:
        raise errors.OutcomeUnknownError(
            f"the table lock was lost while {write.inflight} was published: {error}"
        ) from error


def _tidy(client: Client, write: OpenWrite) -> None:
    """Remove what a completed write needs no more; failing to is no failure of the write (C3)."""
    for remove in (
        write.heartbeat.end,
        lambda: markers.delete(client.storage, write.requested_time),
    ):
        try:
            remove()
        except errors.HoodieError as error:
            logger.warning("%s: left behind by %s: %s", client.storage.uri, write.inflight, error)
