"""Archiving as a table service: old instants go from the active timeline into its history.

    sweep     files of instants that are over are removed: they would count as committed
    stage     a parquet file with a row an instant, and merges of full levels
    publish   a manifest that lists them. In a table without foreign writers by an epoch, which is
              the commit; else under the table lock, which is asked before each step
    delete    the instants' files: pending ones first, then completed ones, the oldest first
    clean     old manifests, and files that none lists
    trim      history that is older than is kept, if the policy says how much that is

A run that dies is finished by the next process that changes the table, where an epoch has said so,
or by the next run: it drops what the history holds, and uses or replaces what was staged. Source:
`TimelineArchiverV2.java`, `LSMTimelineWriter.java`; protocol.md: Archiving.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from hoodie import clock, environment
from hoodie.format import timeline_avro
from hoodie.maintenance import consumers
from hoodie.maintenance.archiving import manifests, planning, trimming
from hoodie.maintenance.cleaning import service as cleaning
from hoodie.maintenance.rollback import orphan_files
from hoodie.model import commits, instants, results, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    chain,
    contents,
    history_writing,
    schema_history,
    transitions,
)
from hoodie.timeline.history_tree import TreeFile
from hoodie.transaction import (
    admission,
    archived_batches,
    manager,
    preconditions,
    table_lock,
    writer_batches,
)
from hoodie.transaction.client import Client

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swept:
    """The result of the sweep before archiving."""

    not_swept: frozenset[instants.InstantTime]
    rollbacks: frozenset[instants.InstantTime]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """A file of the tree that no manifest lists yet.

    Attributes:
        plan: The instants in it.
        rows: A row for each of them.
        file: The file.
    """

    plan: planning.Plan
    rows: pa.Table
    file: TreeFile

    def metadata(self) -> Iterator[bytes | None]:
        """Yield what the completed file of each of them says."""
        for part in self.rows.column("metadata").chunks:
            yield from part.to_pylist()


def preview(
    target: manager.Target, policy: planning.Policy, env: environment.Environment
) -> planning.Plan:
    """Return what a run would archive and trim now; nothing is changed.

    A snapshot of the timeline and a read of a clean, and the requests of `trimming.propose` if the
    policy says how much history is kept. Files that rollbacks left are not looked for.

    Raises:
        ConfigurationError: The policy's bounds contradict each other.
    """
    plan = _preview(target.storage, target.config, policy, env.clock)[0]
    if policy.history_days is None:
        return plan
    proposal = trimming.propose(target.storage, target.config, policy.history_days)
    return replace(plan, trimmed=proposal.files, holds=(*plan.holds, *proposal.holds))


def _preview(
    storage: Storage,
    config: table_config.TableConfig,
    policy: planning.Policy,
    machine_clock: clock.Clock,
) -> tuple[planning.Plan, active.ActiveTimeline]:
    """Return a plan that is made without the lock, and the timeline that it is made on."""
    return active.with_contents(
        storage,
        lambda timeline: (
            planning.plan_of(_facts(storage, config, timeline, machine_clock.now_ms()), policy),
            timeline,
        ),
        lambda storage: chain.load(storage, config),
    )


def archive(
    target: manager.Target,
    policy: planning.Policy,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> results.ArchiveResult:
    """Archive and trim what the policy lets go.

    Args:
        target: The table.
        policy: How many commits and how much history stay.
        transaction: On whose behalf.
        env: Time, ids, threads.

    Raises:
        ConfigurationError: The policy's bounds contradict each other.
        ConflictError: The table is being restored, or its configuration has changed.
        HoodieError: Storage or lock failed; what was published is finished by the next run.
    """
    policy.check()
    with closing(manager.open_client(target, transaction, env)) as client:
        return archive_by(client, target.config, policy)


def archive_by(
    client: Client, config: table_config.TableConfig, policy: planning.Policy
) -> results.ArchiveResult:
    """Archive and trim what the policy lets go, by a client of the table; as `archive`."""
    first, timeline = _preview(client.storage, config, policy, client.clock)
    leftovers, swept = 0, None
    if first.chosen:
        # What had been rolled back before the sweep listed the table is swept.
        rollbacks = _completed_rollbacks(timeline)
        sweep = orphan_files.sweep_all(client)
        leftovers, swept = sweep.count, _Swept(not_swept=sweep.left, rollbacks=rollbacks)
    archived: list[instants.Instant] = []
    count_max = planning.COUNT_MAX
    while True:
        before_ms = client.lock.times.hold_ms
        plan = client.lock.decide(partial(_run, client, config, policy, swept, count_max))
        archived += plan.chosen
        if not plan.is_partial:
            break
        hold_ms = client.lock.times.hold_ms - before_ms
        count_max = planning.count_next(count_max, hold_ms, plan.size_bytes)
    trimmed: tuple[results.HistoryFile, ...] = ()
    holds = plan.holds
    if policy.history_days is not None:
        trimmed, history_holds = trimming.trim(client, config, policy.history_days)
        holds = (*holds, *history_holds)
    return results.ArchiveResult(
        archived=tuple(archived),
        trimmed=trimmed,
        holds=tuple(each.text for each in holds),
        leftovers=leftovers,
        lock_wait_ms=client.lock.times.wait_ms,
        lock_hold_ms=client.lock.times.hold_ms,
    )


def _completed_rollbacks(timeline: active.ActiveTimeline) -> frozenset[instants.InstantTime]:
    return frozenset(
        each.requested_time
        for each in timeline.instants
        if each.is_completed and each.action is instants.Action.ROLLBACK
    )


def _run(
    client: Client,
    config: table_config.TableConfig,
    policy: planning.Policy,
    swept: _Swept | None,
    count_max: int,
    scope: table_lock.LockScope,
) -> planning.Plan:
    """Archive once in a scope of the table lock; return what was archived."""
    admission.admit_table(client, scope, config)
    admission.admit_attempt(client)
    admission.admit_reliance(client, scope.timeline)
    tree = history_writing.read_tree(client.storage)
    timeline = scope.timeline
    if not scope.is_courtesy:
        timeline = _without_archived(client, scope, tree)
    facts = _facts(client.storage, config, timeline, client.slowest_ms, swept)
    plan = planning.plan_of(facts, policy, count_max)
    if swept is None or not plan.chosen:
        return replace(plan, chosen=(), is_partial=False)
    staged = _staged(client, scope, facts, policy, plan)
    plan = staged.plan
    _remember_batches(client, facts.timeline, staged)
    _carry_columns(client, scope, facts.timeline, staged)
    files = history_writing.with_levels_merged(
        client.storage,
        (*tree.files, staged.file),
        policy.merged_files,
        scope.check,
        may_replace=not scope.is_courtesy,
    )
    _publish(client, scope, tree, facts.timeline, plan, files)
    return plan


def _remember_batches(client: Client, timeline: active.ActiveTimeline, staged: _Staged) -> None:
    """Have the batches of what is archived remembered.

    That a commit is recorded which then stays on the timeline does no harm.
    """
    taken_back = writer_batches.contested(client.storage, timeline)
    written = (
        (metadata or b"", transitions.path(each))
        for each, metadata in zip(staged.plan.chosen, staged.metadata(), strict=True)
        if each.action.is_write and each not in taken_back
    )
    found = timeline_avro.decode_commits_with(commits.BATCH_ID_KEY, written)
    archived_batches.record(client.storage, archived_batches.of_commits(found))


def _staged(
    client: Client,
    scope: table_lock.LockScope,
    facts: planning.Facts,
    policy: planning.Policy,
    plan: planning.Plan,
) -> _Staged:
    """Put the instants of a plan into a file.

    Where the lock excludes nobody, a file of that name with other instants may be about to be
    published, or is of a run that died: fewer instants then have another name.

    Raises:
        ConflictError: All names are taken.
    """
    while True:
        rows = history_writing.rows_of(client.storage, facts.timeline, plan.chosen)
        try:
            added = history_writing.stage(
                client.storage, rows, scope.check, may_replace=not scope.is_courtesy
            )
        except history_writing.NameTakenError as error:
            if plan.write_count == 1:
                raise
            logger.info("%s: archiving one commit less: %s", client.storage.uri, error)
            plan = planning.plan_of(facts, policy, plan.write_count - 1)
        else:
            plan = replace(plan, size_bytes=rows.nbytes)
            return _Staged(plan=plan, rows=rows, file=added)


def _publish(
    client: Client,
    scope: table_lock.LockScope,
    before: history_writing.Tree,
    timeline: active.ActiveTimeline,
    plan: planning.Plan,
    files: tuple[TreeFile, ...],
) -> None:
    """Put instants into the history, and take them off the timeline."""
    number = manifests.publish(client, scope, before, files, plan.archived_below)
    if not scope.is_courtesy:
        _take_off(client, scope, timeline, plan.chosen)
    logger.info("%s: archived %d instants", client.storage.uri, len(plan.chosen))
    manifests.clean(client, scope, before, number, plan.archived_below)


def _carry_columns(
    client: Client,
    scope: table_lock.LockScope,
    timeline: active.ActiveTimeline,
    staged: _Staged,
) -> None:
    """Keep the history of the table's columns where Apache Hudi finds it."""
    key = schema_history.LATEST_KEY.encode()
    if not any(key in (metadata or b"") for metadata in staged.metadata()):
        return
    archived = {each.requested_time for each in staged.plan.chosen}
    kept = {
        each.requested_time: str(each.completion_time)
        for each in timeline.completed_writes
        if each.requested_time not in archived
    }
    schema_history.carry(client.storage, archived, kept, scope.check)


def _without_archived(
    client: Client, scope: table_lock.LockScope, tree: history_writing.Tree
) -> active.ActiveTimeline:
    """Take off the timeline what the history holds, as a run that died leaves it; return the rest.

    The history is asked about instants in the range of its files alone.
    """
    timeline = scope.timeline
    transitions.take_off(client.storage, timeline.remains, scope.check)
    newest = max((file.last for file in tree.files), default="")
    held = [
        each
        for each in timeline.instants
        if each.requested_time <= newest
        and each.is_completed
        and each.action in planning.ARCHIVED
        and any(file.may_hold(each.requested_time) for file in tree.files)
        and timeline.archive.completion_time(each.requested_time) is not None
    ]
    if not held:
        return timeline
    _take_off(client, scope, timeline, held)
    return active.listed(client.storage)


def _take_off(
    client: Client,
    scope: table_lock.LockScope,
    timeline: active.ActiveTimeline,
    archived: Iterable[instants.Instant],
) -> None:
    """Delete the files of archived instants."""
    actions: dict[instants.InstantTime, set[instants.Action]] = {}
    for each in archived:
        actions.setdefault(each.requested_time, set()).add(each.action)
    found = [
        each
        for each in timeline.files
        if each.requested_time in actions and each.action.completed in actions[each.requested_time]
    ]
    transitions.take_off(client.storage, found, scope.check)


def _facts(
    storage: Storage,
    config: table_config.TableConfig,
    timeline: active.ActiveTimeline,
    clock_ms: int,
    swept: _Swept | None = None,
) -> planning.Facts:
    newest = timeline.greatest_time or instants.format_time(0)
    repetition = preconditions.coming_repetition(config, clock_ms, newest)
    return planning.Facts(
        timeline=timeline,
        is_copy_on_write=config.is_copy_on_write,
        last_clean=_last_clean(storage, timeline),
        not_swept=swept.not_swept if swept else (),
        swept_rollbacks=swept.rollbacks if swept else None,
        consumers=_consumers(storage, config, timeline),
        repeated_from=None if repetition is None else repetition.first,
    )


def _consumers(
    storage: Storage, config: table_config.TableConfig, timeline: active.ActiveTimeline
) -> tuple[consumers.Consumer, ...]:
    """Return the consumers that have to be waited for; no request without any."""
    declared = consumers.read_all(storage, timeline)
    if not declared:
        return ()
    now_ms = cleaning.clock_of(storage, config, timeline).now_ms
    return tuple(each for each in declared if each.state_at(now_ms) is not consumers.State.EXPIRED)


def _last_clean(storage: Storage, timeline: active.ActiveTimeline) -> planning.LastClean | None:
    """Return what archiving needs of the last completed clean; a read."""
    last = contents.read_last_clean(storage, timeline)
    if last is None:
        return None
    instant, done = last
    return planning.LastClean(
        requested_time=instant.requested_time,
        earliest_retained=done.earliest_retained,
        savepoints=tuple(map(instants.checked_time, done.savepoints)),
        bound=done.bound,
    )
