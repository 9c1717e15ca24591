"""The life of an action, whichever it is: one machine for writes, table services and rollbacks.

    begin          in a lock scope: refuse what cannot work, take the requested time, first
                   heartbeat, attempt record, requested file                          W2 to W4
    begin_planned  the same for an action that has a plan and is executed at once     R1, R-A
    plan           in a lock scope: a plan that any process may execute later; if the lock was lost
                   meanwhile, one that others have overtaken is withdrawn
    take_over      in a lock scope: the instant is pending, its executor dead, its heartbeat ours;
                   data files of a dead execution are deleted                         P1
    start          inflight file                                                      W7
                   (tasks: a marker, then the data file; see `markers`)               W8
    complete       in a lock scope: everything that must still hold, checks of the caller, its
                   effects, completion time, completed file                           W10 to W15
                   heartbeat and markers away                                         W16, W17
    abort          stop; delete the data files where that is safe

`commit` completes what has commit metadata. Writes are begun and aborted in `write.sessions`,
compactions planned and taken over in `maintenance.compaction`, rollbacks begun, taken over and
completed in `maintenance.rollback`.

Requests of a write beside its data: a listing of the timeline in each lock scope, and some 20
others; constant in the size of the table and the length of its history, but for the timeline's
listing itself.

A crash before the requested file leaves a heartbeat that stands for nothing; one before the
completed file leaves a pending instant, invisible to readers, for a later rollback or execution;
one after it leaves markers and a heartbeat that `maintenance.rollback.leftovers` removes. Source:
`BaseHoodieWriteClient.java`, `BaseHoodieTableServiceClient.java`,
`ScheduleCompactionActionExecutor.java`; protocol.md: A write, Compaction, Rollback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hoodie import deferred, errors
from hoodie.format import timeline_avro
from hoodie.model import commits, instants, table_config
from hoodie.timeline import active, table_properties, transitions, true_time
from hoodie.transaction import (
    admission,
    authors,
    fencing,
    heartbeats,
    markers,
    preconditions,
    publication,
    table_lock,
    writer_batches,
)
from hoodie.transaction.client import AlreadyWritten, Client, Completion, OpenAction

with deferred.imports():
    from hoodie.filegroup import metadata_records
    from hoodie.transaction import late_gathering, liveness, metadata_commits

logger = logging.getLogger(__name__)

ImmediatePlanner = Callable[[active.ActiveTimeline], bytes]
"""Makes the plan of an action that is executed at once, on the timeline of the lock scope; raises
where the action must not begin."""

Planner = Callable[[active.ActiveTimeline, instants.InstantTime, Mapping[str, str]], bytes | None]
"""Makes the plan of a table service; None when there is nothing to do.

It is given the timeline of the lock scope, the plan's requested time, above everything on that
timeline, and ids for the plan's extra metadata."""

Admit = Callable[[instants.Instant], bool]
"""Looks at a pending instant in the lock scope, before it is taken over. False where it is not to
be executed."""

AdmitWrite = Callable[
    [active.ActiveTimeline, table_config.TableConfig, writer_batches.Ledger], object
]
"""Looks at the table in the scope in which a write begins; raises where it must not begin."""

Effect = Callable[[table_lock.LockScope, markers.Check], publication.Accompaniment | None]
"""What happens once, in the lock scope, after all checks and before the completed file: files
deleted, other instants taken off. It asks the check that it is given before each of its steps. It
returns what the same epoch is to publish first; None for nothing."""

Content = Callable[[table_lock.LockScope], bytes]
"""Makes what the completed file says, after the effects."""

CommitCheck = Callable[[table_lock.LockScope, OpenAction, commits.CommitMetadata], object]
"""A `publication.Check` that needs the metadata."""

Amendment = Callable[
    [table_lock.LockScope, OpenAction, commits.CommitMetadata], commits.CommitMetadata
]
"""Returns the metadata to publish, by what others have published since."""

Settlement: TypeAlias = "Callable[[table_lock.LockScope, OpenAction], metadata_records.SettledKeys]"
"""Returns a write's keys as the metadata table needs them, by what others have published since;
raises where the write must not complete."""

Settling: TypeAlias = (
    "Callable[[table_config.TableConfig, Sequence[commits.WriteStat]], Settlement | None]"
)
"""Looks the keys of a write's stats up before the lock, as a configuration asks for it; None where
it asks for nothing."""

DataChanges: TypeAlias = "Callable[[table_lock.LockScope, OpenAction], metadata_records.Changes]"
"""Returns the changes for the metadata table, after all checks; raises as a check does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """What becomes of a write in the lock scope, by what others have published since.

    Attributes:
        metadata: Made after all checks, once; None for what there is.
        keys: For the metadata table; None for those of the stats.
    """

    metadata: Amendment | None = None
    keys: Settling | None = None


AS_IT_IS = Adjustment()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan on the timeline.

    Attributes:
        instant: Requested; None when there was nothing to do.
        lock_times: Waited and held.
    """

    instant: instants.Instant | None
    lock_times: table_lock.LockTimes


def begin(
    client: Client,
    action: instants.Action,
    expected: table_config.TableConfig,
    batch_id: str | None = None,
    admit: AdmitWrite | None = None,
) -> OpenAction | AlreadyWritten:
    """Put a new write on the timeline.

    Args:
        client: Whose write it is.
        action: Delta commit, commit, replace commit.
        expected: The configuration that the data is prepared for.
        batch_id: The writer's batch that it will hold; one that the table holds is not begun.
        admit: Asked last; it may be asked again, on a newer timeline.

    Raises:
        ConflictError: A restore is pending; the table's configuration changed; the same writer is
            writing already, or any other in single-writer mode; the batch is held by a write that a
            rollback may take back.
        FencedError: A higher attempt of the same author is there.
        InvalidInputError: The client has a write open already.
        LockTimeoutError: The lock was not acquired in time.
        ClockSkewError: No time can be given.
        UnsupportedError: The table has what we do not maintain.
        HoodieError: What `admit` raises.
    """
    assert action in instants.WRITES, action
    if batch_id is not None:
        authors.checked_batch_id(batch_id)
    before = client.lock.times

    def decide(scope: table_lock.LockScope) -> OpenAction | None:
        client.check_idle()
        config = admission.admit_table(client, scope, expected)
        attempt = admission.admit_author(client, scope.timeline)
        batches = writer_batches.known_to(client.storage, scope.timeline, client.author, attempt)
        if batch_id is not None and batches.hold(client.author, batch_id):
            admission.admit_reliance(client, scope.timeline)
            return None
        admission.admit_beside(client, scope.timeline)
        if admit is not None:
            admit(scope.timeline, config, batches.ledger)
        admitted = _Admitted(
            action=action,
            config=config,
            prepared_for=expected,
            attempt=attempt,
            batches=batches,
            batch_id=batch_id,
            lock_times_before=before,
        )
        return _request(client, scope, admitted, b"")

    opened = client.lock.decide(decide)
    if opened is None:
        assert batch_id is not None
        return AlreadyWritten(batch_id=batch_id, lock_times=client.lock.times - before)
    logger.info("%s: %s of %s", client.storage.uri, opened.requested, client.author)
    return opened


def begin_planned(
    client: Client,
    action: instants.Action,
    expected: table_config.TableConfig,
    planner: ImmediatePlanner,
) -> OpenAction:
    """Put an action on the timeline that has a plan and is executed at once, by this process.

    It may be begun beside a write that the client has open, and is no work of its author's own:
    the author's attempt record does not name it.

    Args:
        client: Who executes it.
        action: Rollback.
        expected: The table's configuration.
        planner: Called under the lock: the shorter the better.

    Raises:
        ConflictError: A restore is pending, the table's configuration changed, or as the planner.
        FencedError: A higher attempt of the same author is there.
        LockTimeoutError: The lock was not acquired in time.
        UnsupportedError: The table has what we do not maintain.
    """
    assert not action.is_write, action
    before = client.lock.times

    def decide(scope: table_lock.LockScope) -> OpenAction:
        config = admission.admit_table(client, scope, expected)
        attempt = admission.admit_attempt(client)
        content = planner(scope.timeline)
        admitted = _Admitted(
            action=action,
            config=config,
            prepared_for=expected,
            attempt=attempt,
            lock_times_before=before,
        )
        return _request(client, scope, admitted, content)

    return client.lock.decide(decide)


def plan(
    client: Client,
    action: instants.Action,
    expected: table_config.TableConfig,
    planner: Planner,
) -> Planned:
    """Plan a table service under the lock, while writers are in flight.

    Args:
        client: Whose plan it is.
        action: Compaction.
        expected: The configuration that the plan is made by.
        planner: Called under the lock: the shorter the better.

    Raises:
        RepeatedTimeError: Other engines may give times again that have passed.
        ConflictError: A restore is pending, the table's configuration changed, or a rollback takes
            back what has completed.
        FencedError: A higher attempt of the same author is there.
        LockLostError: It was lost, and there is no plan of ours that is to be executed.
        LockTimeoutError: The lock was not acquired in time.
        UnsupportedError: The table has what we do not maintain.
    """
    before = client.lock.times

    def decide(
        scope: table_lock.LockScope,
    ) -> tuple[instants.Instant | None, active.ActiveTimeline, bool]:
        admission.admit_table(client, scope, expected)
        admission.admit_author(client, scope.timeline)
        admission.admit_reliance(client, scope.timeline)
        requested_time = client.time_after(scope, true_time.Parity.EPOCH)
        admission.admit_plan(client, expected, requested_time)
        extra = authors.extra_metadata(client.author, client.random.uuid())
        content = planner(scope.timeline, requested_time, extra)
        instant = None
        if content is not None:
            instant = _put_request(client, scope, requested_time, action, content, lambda: False)
        return instant, scope.timeline, scope.is_held()

    instant, planned_on, is_certain = client.lock.decide(decide)
    if instant is not None and not is_certain:
        publication.confirm_plan(client, instant, planned_on)
    if instant is not None:
        logger.info("%s: %s of %s", client.storage.uri, instant, client.author)
    return Planned(instant=instant, lock_times=client.lock.times - before)


def take_over(
    client: Client,
    action: instants.Action,
    requested_time: instants.InstantTime,
    expected: table_config.TableConfig,
    admit: Admit | None = None,
) -> OpenAction | None:
    """Take a pending action to execute it: a plan, or what an executor that died has left.

    A plan never changes, so an execution that died is repeated: every data file that it had marked
    is deleted first, and the instant is requested again. `start` comes next.

    Args:
        client: The executor's.
        action: Compaction, rollback.
        requested_time: Of the plan.
        expected: The configuration that the executor works by.
        admit: Asked when the instant may be taken over.

    Returns:
        The action; None where `admit` said no.

    Raises:
        NotFoundError: There is no such instant.
        ConflictError: It was completed, somebody alive is executing it, or a rollback of it is
            pending.
        FencedError: A higher attempt of the same author is there.
        InvalidInputError: The client has a write open already.
        LockTimeoutError: The lock was not acquired in time.
        UnsupportedError: The table has what we do not maintain.
    """

    def decide(scope: table_lock.LockScope) -> OpenAction | None:
        instant, config, attempt = _admit_executor(client, scope, action, requested_time, expected)
        if admit is not None and not admit(instant):
            return None
        heartbeat = admission.take_over_heartbeat(client, requested_time, action, attempt)
        try:
            # Only now nobody else can complete it: the lock was held until the heartbeat was ours.
            scope.check()
            ledger = writer_batches.Ledger()
            if action.is_write:
                ledger = writer_batches.read(client.storage, scope.timeline)
                # Without a lock its executor may be alive: its files stay until a sweep.
                if instant.state is instants.State.INFLIGHT and not scope.is_courtesy:
                    _clear(client, scope, instant, admission.holding(scope, heartbeat))
        except BaseException:
            admission.release_heartbeat(heartbeat)
            raise
        if action.is_write:
            client.opened(requested_time)
        return OpenAction(
            requested_time=requested_time,
            action=action,
            batch_id=None,
            heartbeat=heartbeat,
            timeline=scope.timeline,
            epoch=scope.epoch,
            config=config,
            prepared_for=expected,
            ledger=ledger,
            lock_times_before=before,
        )

    before = client.lock.times
    opened = client.lock.decide(decide)
    if opened is not None:
        logger.info(
            "%s: %s is taken over by %s", client.storage.uri, opened.requested, client.author
        )
    return opened


def start(
    client: Client,
    opened: OpenAction,
    operation: commits.Operation | None = None,
    profile: Sequence[commits.WriteStat] = (),
) -> None:
    """Make an action inflight (W7); before any data file.

    Args:
        client: The one that began it.
        opened: The action.
        operation: What a write does.
        profile: The workload of a write, as format.md (Timeline) has it: which file groups it will
            touch; empty where it is not known.

    Raises:
        HeartbeatExpiredError: It took too long to get here.
        ConflictError: Somebody else made it inflight.
    """
    opened.heartbeat.check()
    content = b""  # Apache Hudi's services have nothing there, and the plan says it all.
    if opened.action in instants.WRITES and operation is not None:
        ids = authors.extra_metadata(client.author, opened.write_id, opened.batch_id)
        content = timeline_avro.encode_commit(
            commits.CommitMetadata(operation=operation.value, stats=tuple(profile), extra=ids)
        )
    transitions.start(client.storage, opened.requested, content, opened.heartbeat.is_own)


def complete(
    client: Client,
    opened: OpenAction,
    content: Content,
    checks: Sequence[publication.Check] = (),
    effects: Sequence[Effect] = (),
    changes: DataChanges | None = None,
) -> Completion:
    """Publish an action, all of it or nothing.

    When it raises, abort the action; only after a LockTimeoutError may it be tried again first.

    Args:
        client: The one that began it.
        opened: The action, inflight, all its tasks ended.
        content: Of the completed file.
        checks: Asked in the lock scope, in this order.
        effects: What else happens in it, in this order.
        changes: Returns those of the data files, for the metadata table, after the checks; None
            where there are none.

    Raises:
        ConflictError: A rollback or a restore came between, or a check found a conflict.
        FencedError: This attempt was replaced.
        HeartbeatExpiredError: Others may have taken the action over, or back.
        LockTimeoutError: The lock was not acquired in time.
        LockLostError: It was lost before anything was published.
        OutcomeUnknownError: Whether it was published could not be found out; or it was, and other
            engines, which may write the table, may have decided without it (L2).
        StorageError: The storage failed, and nothing was published.
        UnsupportedError: The table now has what we do not maintain.
    """

    def decide(
        scope: table_lock.LockScope,
    ) -> tuple[instants.Instant, table_lock.LockScope, bool]:
        now = publication.checked(client, scope, opened)
        for check in checks:
            check(scope, now)
        changed = None
        if changes is not None and scope.beside is not None:
            changed = changes(scope, now)
        is_ours = admission.holding(scope, opened.heartbeat)
        first = publication.ALONE
        for effect in effects:
            first = effect(scope, is_ours) or first
        if changed is not None:
            beside = metadata_commits.put(client, scope, now, changed, is_ours)
            first = replace(first, beside=beside)
        completed = publication.publish(client, scope, now, content(scope), first)
        return completed, scope, scope.is_held()

    completed, published_in, is_certain = client.lock.decide(decide)
    if not is_certain and opened.action.is_write:
        raise errors.OutcomeUnknownError(
            f"the {client.lock.description} was lost while {completed} was published in "
            f"{client.storage.uri}: other processes may have decided without it, so that its rows "
            "may not be read. `hoodie check` reports that; the same batch is not written twice"
        )
    findings = (
        *publication.clock_findings(client),
        *publication.findings_of_others(published_in),
    )
    if opened.action.is_write:
        client.closed()
    _tidy(client, opened)
    lock_times = client.lock.times - opened.lock_times_before
    return Completion(
        instant=completed,
        lock_times=lock_times,
        findings=findings,
        is_metadata_due=metadata_commits.is_due(client, published_in),
    )


def commit(
    client: Client,
    opened: OpenAction,
    metadata: commits.CommitMetadata,
    checks: Sequence[CommitCheck] = (),
    adjustment: Adjustment = AS_IT_IS,
    *,
    may_have_failed_tasks: bool = True,
) -> Completion:
    """Publish what wrote data files, as `complete`; first delete those of failed tasks (W13).

    Args:
        client: The one that began it.
        opened: A write, or the execution of a plan.
        metadata: What was written; ids of author and batch are added here.
        checks: Asked in the lock scope, in this order.
        adjustment: Made after them.
        may_have_failed_tasks: Whether there may be any; a listing then.

    Raises:
        HoodieError: As `complete`.
    """
    commit_of = _Commit(client, opened, metadata, adjustment)

    def with_metadata(check: CommitCheck) -> publication.Check:
        return lambda scope, opened: check(scope, opened, metadata)

    while True:
        try:
            return complete(
                client,
                opened,
                commit_of.content,
                [*map(with_metadata, checks), commit_of.amend],
                [commit_of.delete_files_of_failed_tasks] if may_have_failed_tasks else [],
                commit_of.changes,
            )
        except late_gathering.ReconfiguredError as reconfigured:
            logger.info("%s: %s: %s", client.storage.uri, opened.inflight, reconfigured)
            commit_of.gather(reconfigured.config)


class _Commit:
    """What is decided of a commit in lock scopes, of which one publishes it."""

    def __init__(
        self,
        client: Client,
        opened: OpenAction,
        metadata: commits.CommitMetadata,
        adjustment: Adjustment,
    ) -> None:
        self._client = client
        self._opened = opened
        self._metadata = metadata
        self._adjustment = adjustment
        self._amended = metadata
        self.gather(opened.config)

    def gather(self, config: table_config.TableConfig) -> None:
        """Find what a configuration asks for: in the files, and of keys in the record index.

        Raises:
            FormatError: A file is broken, or the metadata table, as long as it is that of the same
                configuration: indexes are dropped while they are looked into.
            NotFoundError: A file is gone, though the action may still complete.
            HoodieError: As `publication.checked`: it was taken back, or over, with its files.
        """
        while True:
            try:
                self._gather(config)
            except errors.NotFoundError:
                self._client.lock.decide(self._check)
                raise
            except errors.FormatError as error:
                now = table_properties.load(self._client.storage, self._client.clock)
                if now == config:
                    raise
                logger.info("%s: gathering again: %s", self._client.storage.uri, error)
                config = now
            else:
                return

    def _check(self, scope: table_lock.LockScope) -> None:
        publication.checked(self._client, scope, self._opened)

    def _gather(self, config: table_config.TableConfig) -> None:
        self._late = late_gathering.gather(self._client, self._opened, self._metadata, config)
        self._stats = self._late.completed(self._metadata.stats)
        self._settlement = None
        if self._adjustment.keys is not None:
            self._settlement = self._adjustment.keys(config, self._stats)

    def amend(self, scope: table_lock.LockScope, now: OpenAction) -> None:
        """Adjust the metadata; a `publication.Check`."""
        if self._adjustment.metadata is not None:
            self._amended = self._adjustment.metadata(scope, now, self._metadata)

    def delete_files_of_failed_tasks(self, _: table_lock.LockScope, is_ours: markers.Check) -> None:
        """Delete what the metadata does not name; an `Effect`.

        Under the lock nobody can take the instant over, so these are files of our own tasks.
        """
        stage = self._opened.own_stage if self._client.lock.is_courtesy else None
        markers.finalise(
            self._client.storage,
            self._opened.requested_time,
            self._metadata.stats,
            is_ours,
            stage,
        )

    def content(self, scope: table_lock.LockScope) -> bytes:
        """Return the content of the completed file."""
        ids = publication.ids(self._client, scope, self._opened)
        published = replace(self._amended, extra={**self._amended.extra, **ids})
        if self._opened.action is instants.Action.REPLACE_COMMIT:
            return timeline_avro.encode_replace_commit(published)
        return timeline_avro.encode_commit(published)

    def changes(self, scope: table_lock.LockScope, now: OpenAction) -> metadata_records.Changes:
        """Return the changes for the metadata table.

        Raises:
            ReconfiguredError: It asks for what was not looked for.
        """
        if now.config != self._late.config:
            raise late_gathering.ReconfiguredError(now.config)
        settled = metadata_records.SettledKeys(written=self._stats)
        if self._settlement is not None:
            settled = self._settlement(scope, now)
        # Without an amendment it is what the action began with.
        has_amendment = self._adjustment.metadata is not None
        published = self._amended.extra[commits.SCHEMA_KEY] if has_amendment else None
        return metadata_records.Changes(
            written=settled.written,
            removed_keys=settled.removed,
            pairs=settled.pairs,
            filters=self._late.filters,
            published=published,
        )


def abort(client: Client, opened: OpenAction, *, has_tasks_left: bool = False) -> bool:
    """End an action that this process will not complete; return whether it was still ours to empty.

    Where no task can write any more, and the heart still beats, the files that have markers are
    deleted, and a plan that was being executed is requested again; so are the files of a write that
    a rollback has taken off the timeline, as far as it missed them. The instant of a write stays
    pending for a rollback: a time that was on the timeline must not become free, or a clock that
    lags gives it away again, and whatever carries it counts for the new instant. (The simulation
    found that.) Where it may be published yet, its author does not begin anew before the heartbeat
    has expired: the same batch could be there twice. An action without data files stays as it is,
    for others to take over. Raises nothing that the library reports.

    Args:
        client: The one that began it.
        opened: The action.
        has_tasks_left: Whether a task may still be running somewhere, as after a failed Spark job:
            what it writes later can only be found through the pending instant's markers, so all is
            left as it is until the heartbeat has expired.
    """
    if not opened.action.is_write:
        if opened.heartbeat.is_alive():
            admission.release_heartbeat(opened.heartbeat)
        else:
            opened.heartbeat.stop()  # Others have taken over already, or have to wait.
        return False
    is_emptied = False
    try:
        if not has_tasks_left:
            is_emptied = _empty(client, opened)
        if not is_emptied and not opened.heartbeat.is_in_doubt:
            fencing.give_up(client.storage, client.author, opened.write_id)
    except errors.HoodieError as error:
        logger.warning("%s: left behind by %s: %s", client.storage.uri, opened.requested, error)
    finally:
        opened.heartbeat.stop()
        client.closed()
    return is_emptied


@dataclass(frozen=True, slots=True, kw_only=True)
class _Admitted:
    """What is to be put on the timeline, admitted in this lock scope."""

    action: instants.Action
    config: table_config.TableConfig
    prepared_for: table_config.TableConfig
    attempt: fencing.StoredRecord | None
    lock_times_before: table_lock.LockTimes
    batches: writer_batches.KnownBatches = field(default_factory=writer_batches.KnownBatches)
    batch_id: str | None = None


def _request(
    client: Client, scope: table_lock.LockScope, admitted: _Admitted, content: bytes
) -> OpenAction:
    """Take the requested time, and put heartbeat and requested file there."""
    action = admitted.action
    parity = true_time.Parity.WRITER if action.is_write else true_time.Parity.EPOCH
    requested_time = client.time_after(scope, parity)
    heartbeat = admission.start_heartbeat(
        client,
        requested_time,
        action,
        admitted.attempt,
        admitted.batch_id,
        admitted.batches.earlier,
    )
    try:
        requested = _put_request(client, scope, requested_time, action, content, heartbeat.is_own)
        try:
            scope.check()
        except errors.HoodieError:
            _sign(client, requested, heartbeat)
            raise
    except BaseException:
        admission.release_heartbeat(heartbeat)
        raise
    if action.is_write:
        client.opened(requested_time)
    return OpenAction(
        requested_time=requested_time,
        action=action,
        batch_id=admitted.batch_id,
        heartbeat=heartbeat,
        timeline=scope.timeline,
        epoch=scope.epoch,
        config=admitted.config,
        prepared_for=admitted.prepared_for,
        ledger=admitted.batches.ledger,
        lock_times_before=admitted.lock_times_before,
    )


def _sign(client: Client, requested: instants.Instant, heartbeat: heartbeats.Heartbeat) -> None:
    """Have a write that ends right after its request say whose it was, as `start` does.

    An empty requested file without a heartbeat may be of another engine, for which the build of an
    index waits (IF4). Raises nothing that the library reports.
    """
    if requested.action not in instants.WRITES:
        return
    ids = authors.extra_metadata(client.author, heartbeat.owner.write_id)
    unknown = commits.CommitMetadata(operation="UNKNOWN", stats=(), extra=ids)
    try:
        heartbeat.check()
        transitions.start(
            client.storage, requested, timeline_avro.encode_commit(unknown), heartbeat.is_own
        )
    except errors.HoodieError as error:
        logger.warning("%s: left behind by %s: %s", client.storage.uri, requested, error)


def _put_request(
    client: Client,
    scope: table_lock.LockScope,
    requested_time: instants.InstantTime,
    action: instants.Action,
    content: bytes,
    proof: transitions.Proof,
) -> instants.Instant:
    """Put an instant on the timeline: with a plan, in a table with a chain, by an epoch."""
    if scope.view is None:
        return admission.request(client, scope, requested_time, action, content, proof)
    if action in instants.WRITES:
        return _claim(client, scope, requested_time, action)
    requested = instants.Instant(
        requested_time=requested_time, action=action, state=instants.State.REQUESTED
    )
    return publication.put(client, scope, requested, content, scope.check)


def _claim(
    client: Client,
    scope: table_lock.LockScope,
    requested_time: instants.InstantTime,
    action: instants.Action,
) -> instants.Instant:
    """Put a write on the timeline of a table with a chain, with a time for itself alone (CH5).

    An empty file of that name tells nobody whose it is: who did not certainly create it takes
    another time, and a rollback takes off what nobody owns. So does who comes to the timeline after
    instants with greater times: who reads a timeline without it may take its files for those of an
    archived write, since its time is below all that is there (format.md: Visibility). (The
    simulation found both.)

    Raises:
        OvertakenError: It is to take a time again.
    """
    try:
        requested = admission.request(client, scope, requested_time, action, b"", lambda: False)
    except errors.ConflictError as error:
        raise errors.OvertakenError(f"time {requested_time} is taken: {error}") from error
    if scope.is_courtesy and scope.timeline.start in scope.timeline.write_completion_times:
        # Nobody takes that back. If it was archived since, readers of ours leave this time out of
        # what counts as archived, and it never completes (`ActiveTimeline.late`).
        _refuse_archived(client, scope, requested)
        return requested
    timeline = active.listed(client.storage)
    others = (each for each in timeline.instants if each.requested_time != requested_time)
    latest = max(map(active.latest_time, others), default="")
    if latest > requested_time:
        transitions.withdraw(client.storage, requested)
        raise errors.OvertakenError(f"{latest} is on the timeline before {requested}")
    return requested


def _refuse_archived(
    client: Client, scope: table_lock.LockScope, requested: instants.Instant
) -> None:
    """Take a claim back that came after it was archived past its time: another may have had it.

    A listing, in a table that was archived before.

    Raises:
        OvertakenError: It did.
    """
    assert client.chain is not None, client.storage.uri
    assert scope.view is not None, client.storage.uri
    if not scope.view.head.epoch.archived_below:
        return
    below = client.chain.head().epoch.archived_below
    if requested.requested_time < below:
        transitions.withdraw(client.storage, requested)
        raise errors.OvertakenError(
            f"everything before {below} is archived, and {requested} is not"
        )


def _empty(client: Client, opened: OpenAction) -> bool:
    """Delete the files of a write that nobody else has touched; return whether that was done.

    A rollback that takes it back already deletes the same files, and does not mind that they are
    gone.
    """
    with client.lock.scope() as scope:
        is_ours = (
            scope.is_held()
            and opened.heartbeat.is_alive()
            and opened.heartbeat.is_own()
            and scope.timeline.has_file(opened.requested)
            and not scope.timeline.is_committed(opened.requested_time)
        )
        if is_ours:
            check = admission.holding(scope, opened.heartbeat)
            stage = opened.own_stage if scope.is_courtesy else None
            markers.delete_data_files(client.storage, opened.requested_time, check, stage)
            if opened.action not in instants.WRITES and not scope.is_courtesy:
                check()
                transitions.revert(client.storage, opened.inflight)
            # Before another can execute the plan: the file would then be its heartbeat.
            check()
            opened.heartbeat.end()
        elif _is_gone(client, opened, scope):
            # Whoever took it back did not see what was written since, and nobody else has its time.
            markers.delete_data_files(client.storage, opened.requested_time, scope.check)
    return is_ours


def _is_gone(client: Client, opened: OpenAction, scope: table_lock.LockScope) -> bool:
    """Return whether a write is off the timeline: by a rollback, or as its time is archived."""
    if opened.action not in instants.WRITES or not scope.is_held():
        return False
    if scope.timeline.find(opened.requested_time) is not None:
        return False
    if scope.view is not None and opened.requested_time < scope.view.head.epoch.archived_below:
        return True
    targets = publication.rollback_targets(client, opened, scope.timeline)
    return preconditions.rollback_of(opened.requested_time, targets) is not None


def _admit_executor(
    client: Client,
    scope: table_lock.LockScope,
    action: instants.Action,
    requested_time: instants.InstantTime,
    expected: table_config.TableConfig,
) -> tuple[instants.Instant, table_config.TableConfig, fencing.StoredRecord | None]:
    """Return the pending instant that a client may execute, and what admitted it."""
    if action.is_write:
        client.check_idle()
    instant = admission.pending(scope.timeline, action, requested_time)
    config = admission.admit_table(client, scope, expected)
    if action.is_write:
        attempt = admission.admit_author(client, scope.timeline)
        admission.admit_not_taken_back(client, instant, scope.timeline)
    else:
        attempt = admission.admit_attempt(client)
    # A requested plan has no owner yet; a rollback is executed by the process that requested it.
    if action is instants.Action.ROLLBACK or instant.state is instants.State.INFLIGHT:
        liveness.refuse_alive(client, scope.timeline, instant)
    scope.check()
    if instant.action is instants.Action.COMPACTION and not scope.is_courtesy:
        admission.refuse_shared_time(client, instant, scope.timeline)
    return instant, config, attempt


def _clear(
    client: Client,
    scope: table_lock.LockScope,
    inflight: instants.Instant,
    check: Callable[[], None],
) -> None:
    """Remove what an executor that died has left; under the lock, its heartbeat being ours now.

    Its completion may still be on its way to the store as an epoch (E6): the number is taken first.
    """
    if scope.view is not None:
        publication.take_number(client, scope, check)
    count = markers.delete_data_files(client.storage, inflight.requested_time, check)
    check()
    requested = transitions.revert(client.storage, inflight)
    logger.info(
        "%s: %s is executed again, %d files of a dead executor were deleted",
        client.storage.uri,
        requested,
        count,
    )


def _tidy(client: Client, opened: OpenAction) -> None:
    """Remove what a completed action needs no more; failing to is no failure of it (C3)."""
    steps = [opened.heartbeat.end]
    if opened.action.is_write:
        steps.append(lambda: markers.delete(client.storage, opened.requested_time))
    for step in steps:
        try:
            step()
        except errors.HoodieError as error:
            logger.warning("%s: left behind by %s: %s", client.storage.uri, opened.inflight, error)
