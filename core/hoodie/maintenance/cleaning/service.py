"""Cleaning as an operation: propose without the lock, plan under it, delete, complete.

    take back    failed writes, whose files are nobody's            `rollback.failed_writes`
    finish       pending cleans of any engine, one at a time
    propose      a snapshot of the table, without the lock          `planning`
    plan         in one lock scope: the proposal holds on the newest timeline
    execute      the plan's files are deleted by tasks; the completed file

Files of a plan belong to replaced slices, and their names are never used again: deleting them late,
or twice, does no harm. A crash leaves a pending clean, which the next one
finishes. Source: `CleanPlanActionExecutor.java`, `CleanActionExecutor.java` (1.2.0);
protocol.md: Cleaning.
"""

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from hoodie import environment, errors
from hoodie.filegroup import group_names, metadata_records, snapshots
from hoodie.format import clean_avro, instant_names
from hoodie.maintenance import consumers, savepoints
from hoodie.maintenance.cleaning import planning, retention
from hoodie.maintenance.rollback import failed_writes
from hoodie.model import (
    file_statistics,
    files,
    instants,
    partition_columns,
    plans,
    results,
    table_config,
)
from hoodie.storage import locations
from hoodie.storage.protocol import Storage
from hoodie.timeline import active, chain, contents, index_definitions, transitions
from hoodie.transaction import lifecycle, liveness, manager, stored_schemas, table_lock
from hoodie.transaction.client import Client, OpenAction

logger = logging.getLogger(__name__)

_TASK_FILES = 1_000
"""A task deletes so many files, which object stores take in one request."""

_PROPOSALS_MAX = 5

DeleteAll = Callable[[Sequence[str]], object]
"""Deletes the files with these paths, below the table's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTask:
    """Files to delete; it pickles.

    Attributes:
        table_uri: The table's root.
        paths: Below it.
    """

    table_uri: str
    paths: tuple[str, ...]


def delete(task: DeleteTask) -> int:
    """Delete files in whatever process the task was taken to; return how many were named."""
    locations.open_storage(task.table_uri).delete_unordered(task.paths)
    return len(task.paths)


def propose(
    storage: Storage,
    config: table_config.TableConfig,
    how: retention.Retention,
    *,
    has_sizes: bool = False,
) -> planning.Proposal:
    """Return what a clean would delete now; nothing is changed.

    Requests: those of a snapshot; one for the last clean, each savepoint and each commit since the
    last clean; a listing of each partition that they touched, or one of the whole table.

    Args:
        storage: The table's.
        config: The table's configuration.
        how: How much stays.
        has_sizes: Whether the proposal has the sizes of files; a local disk looks at each for that.

    Raises:
        FormatError: A savepoint or the last clean is damaged.
        NotFoundError: The table lacks the file of an instant on its timeline.
    """

    def read(timeline: active.ActiveTimeline) -> planning.Proposal:
        return _proposal(storage, config, how, timeline, has_sizes=has_sizes)

    return active.with_contents(storage, read, functools.partial(chain.load, config=config))


def clean(
    target: manager.Target,
    how: retention.Retention,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> results.CleanResults:
    """Take failed writes back, finish pending cleans, and delete what may go.

    Raises:
        ConflictError: The table is being restored, or changes faster than a clean can be planned.
        HoodieError: Storage or lock failed; what was begun is finished by the next clean.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        failed_writes.roll_back_all(client, target.config, active.listed(target.storage))
        done = list(_finish(client, target, env))
        for _ in range(_PROPOSALS_MAX):
            proposal = propose(target.storage, target.config, how)
            if not proposal.is_worth_recording:
                return results.CleanResults(done=tuple(done), held_by=proposal.hold.reason)
            try:
                planned = plan(client, target.config, how, proposal)
            except OutdatedError as outdated:
                logger.info("%s: proposing again: %s", target.storage.uri, outdated)
                done += _finish(client, target, env)
                continue
            done.append(execute(client, target.config, planned, _deletion(client, env)))
            return results.CleanResults(
                done=tuple(done), held_by=proposal.hold.reason, left_out=proposal.left_out
            )
    raise errors.ConflictError(
        f"{target.storage.uri} changed during each of {_PROPOSALS_MAX} plans of a clean; retry"
    )


class OutdatedError(errors.ConflictError):
    """A proposal does not hold any more."""


def _proposal(
    storage: Storage,
    config: table_config.TableConfig,
    how: retention.Retention,
    timeline: active.ActiveTimeline,
    *,
    has_sizes: bool,
) -> planning.Proposal:
    protected = savepoints.protected_paths(storage, timeline)
    saved = tuple(each.requested_time for each in timeline.savepoints)
    clock = clock_of(storage, config, timeline)
    declared = consumers.read_all(storage, timeline)
    hold = retention.bound(timeline, how, clock, declared)
    last = contents.read_last_clean(storage, timeline)
    commits = planning.commits_since(timeline, last and last[1], saved, how, hold)
    snapshot = snapshots.take(storage, config, timeline, has_committed_only=True)
    names = group_names.TableNames(storage, config, snapshot, has_sizes=has_sizes)
    partitions = (
        names.partitions()
        if commits is None
        else sorted(contents.read_touched_partitions(storage, commits))
    )
    may_go = planning.removals(snapshot, names, partitions, how, hold)
    found = planning.without(may_go, protected)
    kept, capped_hold = planning.capped(found, hold, how.files_max)
    by_versions = how.policy is retention.Policy.VERSIONS
    return planning.Proposal(
        timeline=timeline,
        clock=clock,
        policy=how.policy,
        hold=capped_hold,
        removals=tuple(kept),
        earliest_retained=None
        if by_versions
        else retention.earliest_retained(timeline, capped_hold.time),
        savepoints=saved,
        commits_seen=None if commits is None else len(commits),
        partitions_seen=len(partitions),
        left_out=planning.file_count(found) - planning.file_count(kept),
        protected=planning.file_count(may_go) - planning.file_count(found),
        consumers=declared,
        sizes=names.sizes,
    )


def clock_of(
    storage: Storage, config: table_config.TableConfig, timeline: active.ActiveTimeline
) -> retention.Clock:
    """Return what time it is for a table, whatever our clock says; a listing."""
    modified_ms = {info.name: info.modified_ms for info in storage.list(active.DIRECTORY)}
    return retention.clock_of(
        timeline,
        {each: modified_ms.get(instant_names.file_name(each), 0) for each in timeline.completed},
        config.zone,
    )


def plan(
    client: Client,
    config: table_config.TableConfig,
    how: retention.Retention,
    proposal: planning.Proposal,
) -> instants.InstantTime:
    """Put a proposal on the timeline, if it holds in the lock scope; return its instant.

    Raises:
        OutdatedError: It does not, or another clean is pending.
    """

    def content(
        timeline: active.ActiveTimeline,
        requested_time: instants.InstantTime,
        extra: Mapping[str, str],
    ) -> bytes:
        del requested_time
        pending = timeline.pending_of(instants.Action.CLEAN)
        if pending:
            raise OutdatedError(f"{pending[0]} is pending")
        saved = [each.requested_time for each in timeline.savepoints]
        declared = consumers.read_all(client.storage, timeline)
        hold = retention.bound(timeline, how, proposal.clock, declared)
        if not planning.still_holds(proposal, timeline, hold, saved):
            raise OutdatedError("the timeline has changed")
        return clean_avro.encode_plan(proposal.plan(extra), client.storage.uri)

    planned = lifecycle.plan(client, instants.Action.CLEAN, config, content)
    assert planned.instant is not None, proposal
    return planned.instant.requested_time


def _finish(
    client: Client, target: manager.Target, env: environment.Environment
) -> Iterator[results.CleanResult]:
    """Execute the cleans that are pending.

    Raises:
        ConflictError: Somebody alive executes one, or it names files that are in use.
    """
    timeline = active.listed(target.storage)
    for pending in timeline.pending_of(instants.Action.CLEAN):
        if not _has_plan(client.storage, timeline, pending):
            _drop(client, pending)
            continue
        try:
            delete_all = _deletion(client, env)
            yield execute(client, target.config, pending.requested_time, delete_all)
        except (errors.ConflictError, errors.NotFoundError):
            if pending in active.listed(target.storage).instants:
                raise  # Otherwise another has finished it.


def _has_plan(storage: Storage, timeline: active.ActiveTimeline, pending: instants.Instant) -> bool:
    """Return whether a pending clean says what it deletes; a request.

    An engine that crashed may leave an empty plan. Of a clean that was completed and archived a
    paused executor may create the inflight file again.
    """
    requested = pending.pending_in(instants.State.REQUESTED)
    if not timeline.has_file(requested):
        return False
    try:
        return storage.stat(transitions.path(requested)).size_bytes > 0
    except errors.NotFoundError:
        return False


def _drop(client: Client, pending: instants.Instant) -> None:
    """Take a clean without a plan off the timeline, whose executor is dead: it deletes nothing.

    Raises:
        ConflictError: Somebody alive executes it.
    """
    with client.lock.scope() as scope:
        found = scope.timeline.find(pending.requested_time)
        if found is None or found.is_completed or _has_plan(client.storage, scope.timeline, found):
            return  # Another has ended it, or the listing before lacked its plan.
        liveness.refuse_alive(client, scope.timeline, found)
        for state in (instants.State.INFLIGHT, instants.State.REQUESTED):
            scope.check()
            client.storage.delete(transitions.path(found.pending_in(state)))
    logger.warning("%s: %s had no plan, and was removed", client.storage.uri, pending)


def _deletion(client: Client, env: environment.Environment) -> DeleteAll:
    """Return what deletes files by tasks."""
    return lambda paths: env.engine.map(delete, _tasks(client.storage.uri, paths))


def execute(
    client: Client,
    config: table_config.TableConfig,
    requested_time: instants.InstantTime,
    delete_all: DeleteAll,
) -> results.CleanResult:
    """Execute a plan of any engine and complete it.

    Args:
        client: Who executes it.
        config: The table's configuration.
        requested_time: Of the plan.
        delete_all: Deletes files; missing ones are fine.

    Raises:
        ConflictError: It was completed, or somebody alive executes it; or it names files that are
            in use, and nothing was deleted.
    """
    begun_s = client.clock.monotonic_s()
    action = instants.Action.CLEAN
    opened = lifecycle.take_over(client, action, requested_time, config)
    assert opened is not None, requested_time
    try:
        planned = opened.requested
        wanted = contents.read_clean_plan(client.storage, planned)
        kept = _kept(client, config, opened.timeline, planned, wanted)
        lifecycle.start(client, opened)
        deleted = kept.taken_from(wanted, opened.timeline)
        paths = tuple(sorted(deleted.paths))
        delete_all(paths)
        duration_ms = round((client.clock.monotonic_s() - begun_s) * 1000)
        content = clean_avro.encode_metadata(deleted, requested_time, duration_ms)
        columns = functools.partial(stored_schemas.as_of_or_newer, timeline=opened.timeline)
        found = _without_files(paths, client.storage, opened.config, columns)

        def changes(scope: table_lock.LockScope, now: OpenAction) -> metadata_records.Changes:
            if now.config == opened.config:
                return found
            columns = functools.partial(stored_schemas.as_of, timeline=scope.timeline)
            return _without_files(paths, client.storage, now.config, columns)

        completion = lifecycle.complete(client, opened, lambda _: content, changes=changes)
    except BaseException:
        lifecycle.abort(client, opened)
        raise
    return results.CleanResult(
        instant=completion.instant,
        deleted=paths,
        lock_wait_ms=completion.lock_times.wait_ms,
        lock_hold_ms=completion.lock_times.hold_ms,
        findings=(*completion.findings, *kept.findings),
    )


def _without_files(
    paths: Sequence[str],
    storage: Storage,
    config: table_config.TableConfig,
    read_columns: Callable[[Storage, table_config.TableConfig], stored_schemas.StoredSchema | None],
) -> metadata_records.Changes:
    """Return that files are deleted; two reads where they had statistics."""
    found = metadata_records.Changes(deleted=paths)
    if not file_statistics.is_needed(config):
        return found
    stored = read_columns(storage, config)
    if stored is None:
        return found
    wanted = index_definitions.wanted_statistics(storage, config, stored.columns.arrow)
    # Files of Apache Hudi may have them of the others, too.
    columns = (*wanted.kinds, *partition_columns.left_out(config)) if wanted.kinds else ()
    return replace(found, columns=columns, expressions=tuple(wanted.expressions))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """Files of a plan that stay, since they came to be needed after it was made.

    Attributes:
        saved: Those that savepoints name.
        held: Those that a consumer needs.
        hold: Of that consumer; None for no such file.
    """

    saved: frozenset[str]
    held: frozenset[str] = frozenset()
    hold: retention.Hold | None = None

    @property
    def findings(self) -> list[str]:
        """What the user should know."""
        found = [f"{path} is kept, since a savepoint names it" for path in sorted(self.saved)]
        if self.hold is not None:
            found.append(f"{len(self.held)} files of the plan are kept: {self.hold.reason}")
        return found

    def taken_from(
        self, wanted: plans.CleanPlan, timeline: active.ActiveTimeline
    ) -> plans.CleanPlan:
        """Return a plan without these files, so that a later clean looks for them again.

        Once one of the savepoints is deleted, that looks at the whole table. For a consumer it
        begins with what was replaced at its time, and nothing is cleaned from there on.
        """
        kept = self.saved | self.held
        if not kept:
            return wanted
        extra, earliest = dict(wanted.extra), wanted.earliest_retained
        if self.saved:
            extra[plans.SAVEPOINTS_KEY] = ",".join(
                each.requested_time for each in timeline.savepoints
            )
        if self.hold is not None:
            extra[plans.BOUND_KEY] = min(extra.get(plans.BOUND_KEY, ""), self.hold.time)
            earliest = retention.earliest_retained(timeline, self.hold.time)
        return replace(
            wanted,
            earliest_retained=earliest,
            file_names={
                path: tuple(name for name in names if files.join(path, name) not in kept)
                for path, names in wanted.file_names.items()
            },
            extra=extra,
        )


def _kept(
    client: Client,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    planned: instants.Instant,
    wanted: plans.CleanPlan,
) -> _Kept:
    """Return the files of a plan that savepoints name or consumers need, which came since.

    Raises:
        ConflictError: The plan names files that a read needs.
    """
    snapshot = snapshots.take(client.storage, config, timeline, has_committed_only=True)
    names = group_names.TableNames(client.storage, config, snapshot)
    used = planning.in_use(wanted, snapshot, names)
    if used:
        raise errors.ConflictError(
            f"{planned} of {client.storage.uri} deletes {min(used)}, which is in use: expected "
            "files of replaced file slices; look at it with the engine that planned it"
        )
    protected = savepoints.protected_paths(client.storage, timeline)
    saved = wanted.paths & protected if protected else protected
    hold = _consumers_hold(client.storage, config, timeline)
    held = frozenset() if hold is None else planning.held(wanted, snapshot, names, hold)
    return _Kept(saved=saved, held=held, hold=hold if held else None)


def _consumers_hold(
    storage: Storage, config: table_config.TableConfig, timeline: active.ActiveTimeline
) -> retention.Hold | None:
    """Return the hold of the consumer that is the farthest behind; no request without any."""
    declared = consumers.read_all(storage, timeline)
    if not declared:
        return None
    found = retention.of_consumers(declared, clock_of(storage, config, timeline).now_ms)
    return min(found, key=lambda hold: hold.time, default=None)


def _tasks(table_uri: str, paths: Sequence[str]) -> list[DeleteTask]:
    return [
        DeleteTask(table_uri=table_uri, paths=tuple(paths[first : first + _TASK_FILES]))
        for first in range(0, len(paths), _TASK_FILES)
    ]
