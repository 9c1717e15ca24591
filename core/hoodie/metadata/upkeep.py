"""Keeping a metadata table (MDT) small: compaction, old files, the archive of its timeline.

The writer whose delta commit makes a compaction due (`metadata_commits.is_due`) does all of it in a
scope of the table lock of its own, as Apache Hudi's writers do before theirs:

    withdraw   pending compactions that somebody left who died
    claim      in a table with a chain an epoch that changes nothing: no other change is made on
               what was seen here, and later times are greater
    compact    every file group gets a base file with all that is in it; the instant is requested
               and complete at once, so that nobody takes it over
    remove     files of slices that two newer ones have replaced
    archive    instants that compactions have, and that the data's timeline does not have any more

A delta commit that is complete while its data instant is pending may yet be taken off. A compaction
waits until there is none: it would keep what must go.

Requests: a listing and two reads for each file group, one more for each of its log files, and some
twenty. Source: `HoodieBackedTableMetadataWriter.java` (performTableServices); protocol.md: The
metadata table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from hoodie import deferred, environment
from hoodie.format import file_names, metadata_schemas, timeline_avro
from hoodie.maintenance.findings import caught
from hoodie.model import commits, files, instants, plans, table_config
from hoodie.storage.protocol import Storage
from hoodie.timeline import (
    active,
    history_tree,
    history_writing,
    metadata_timelines,
    table_properties,
    transitions,
    true_time,
)
from hoodie.transaction import authors, manager, preconditions, publication, table_lock
from hoodie.transaction.client import Client, Completion, stage_of

with deferred.imports():
    from hoodie.filegroup import metadata_merging, metadata_table, metadata_writing

logger = logging.getLogger(__name__)

SLICES_KEPT = 3
"""So many slices of a file group stay, for readers that began before the newest."""

ARCHIVED_MIN = 20
"""The timeline is archived when so many instants can be."""

_MERGED_FILES = 10


def run(
    target: manager.Target, transaction: manager.TransactionOptions, env: environment.Environment
) -> instants.Instant | None:
    """Compact the MDT of a table if that is due, and remove what is not needed any more.

    Returns:
        The compaction; None where none was due, or one must wait.

    Raises:
        HoodieError: Lock or storage failed, or the MDT is damaged; what is left does no harm.
    """
    with closing(manager.open_client(target, transaction, env)) as client:
        return run_by(client, target.config)


def run_by(client: Client, expected: table_config.TableConfig) -> instants.Instant | None:
    """Do the same by a client of the table."""
    if client.beside is None:
        return None
    return client.lock.decide(lambda scope: _run(client, scope, expected))


def after_commit(
    completion: Completion,
    target: manager.Target,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> tuple[str, ...]:
    """Do the same after a commit that finds it due; return what went wrong.

    The commit has taken effect, so nothing that fails here fails it.
    """
    if not completion.is_metadata_due:
        return ()
    own = replace(transaction, author=authors.Author())
    findings: list[str] = []
    caught("the metadata table is not compacted", findings, lambda: run(target, own, env))
    return tuple(findings)


def _run(
    client: Client, scope: table_lock.LockScope, expected: table_config.TableConfig
) -> instants.Instant | None:
    client.check_guards()
    config = table_properties.load(client.storage, client.clock)
    refusal = preconditions.table_refusal(config, expected)
    if refusal is not None:
        raise refusal
    storage, beside = client.beside, scope.beside
    assert storage is not None, client.storage.uri
    assert beside is not None, client.storage.uri
    if metadata_timelines.waiting(beside) < client.settings.metadata_delta_commits_max:
        return None
    uncommitted = _uncommitted(beside, scope.timeline)
    if uncommitted is not None:
        logger.info("%s: compaction waits for %s", storage.uri, uncommitted)
        return None
    timeline = _withdraw_pending(storage, beside, config.metadata_partitions, scope)
    table = metadata_table.MetadataTable(client.storage, scope.timeline)
    table.check_has_base(table.latest_slices(metadata_table.FILES))
    time = client.time_after(scope, true_time.Parity.EPOCH)
    refusal = preconditions.repetition_refusal(config, client.slowest_ms, time)
    if refusal is not None:
        logger.info("%s: compaction waits: %s", storage.uri, refusal)
        return None
    stage = stage_of(client.random.uuid())
    stats, operations = [], []
    for number, (each, records) in enumerate(_merged(table, config.metadata_partitions)):
        scope.check()
        token = file_names.write_token(number, stage, 0)
        now_ms = client.clock.now_ms()
        stats.append(metadata_writing.write_base(storage, each.group, time, token, records, now_ms))
        operations.append(_operation(each))
    compacted = _publish(client, scope, storage, time, stats, operations)
    _remove_old(storage, table, config.metadata_partitions, scope)
    _archive(storage, timeline, scope.timeline, scope)
    return compacted


def _uncommitted(
    beside: active.ActiveTimeline, timeline: active.ActiveTimeline
) -> instants.Instant | None:
    """Return what a compaction waits for: what may be taken off, and what others compact."""
    pending = timeline.pending_times
    for each in beside.instants:
        if each.is_completed and each.requested_time in pending:
            return each
        if each.is_pending and each.action is instants.Action.LOG_COMPACTION:
            return each
    return None


def _withdraw_pending(
    storage: Storage,
    timeline: active.ActiveTimeline,
    partitions: Sequence[str],
    scope: table_lock.LockScope,
) -> active.ActiveTimeline:
    """Remove pending compactions and what they have written; return the timeline without them.

    In a table without foreign writers one is right whenever it completes (M-G): its executor may be
    about to complete it.
    """
    pending = () if scope.is_courtesy else timeline.pending_compactions
    for each in pending:
        logger.info("%s: %s is withdrawn", storage.uri, each)
        for path in _base_files(storage, partitions):
            if path.instant_time == each.requested_time:
                scope.check()
                storage.delete(path.path)
        for state in (instants.State.INFLIGHT, instants.State.REQUESTED):
            scope.check()
            storage.delete(transitions.path(each.pending_in(state)))
    return active.listed(storage) if pending else timeline


def _merged(
    table: metadata_table.MetadataTable, partitions: Sequence[str]
) -> Iterator[tuple[files.FileSlice, Iterator[pa.Table]]]:
    """Yield what the base file of each file group is to hold that has log files, in pieces."""
    for name in partitions:
        for each in table.latest_slices(name):
            if each.log_files:
                yield each, metadata_merging.merged_in_pieces(name, table.of_slices([each]))


def _publish(
    client: Client,
    scope: table_lock.LockScope,
    storage: Storage,
    time: instants.InstantTime,
    stats: Sequence[commits.WriteStat],
    operations: Sequence[plans.CompactionOperation],
) -> instants.Instant:
    """Make base files count that are all there."""
    if scope.view is not None:
        # A process that was faster has changed what was compacted. Later times are all greater.
        publication.take_number(client, scope, scope.check, time)
    ids = {commits.WRITE_ID_KEY: client.random.uuid()}
    plan = timeline_avro.encode_compaction_plan(
        plans.CompactionPlan(operations=tuple(operations), extra=ids)
    )
    scope.check()
    requested = transitions.request(
        storage, time, instants.Action.COMPACTION, plan, lambda: False, scope.check
    )
    inflight = transitions.start(storage, requested, b"", lambda: True)
    done = commits.CommitMetadata(
        operation=commits.Operation.COMPACT.value,
        stats=tuple(stats),
        extra={commits.SCHEMA_KEY: metadata_schemas.COMMITTED.text.decode(), **ids},
        is_compacted=True,
    )
    client.times.rise_above(time)
    return transitions.complete_at(
        storage,
        inflight,
        client.time_before_another(scope),
        timeline_avro.encode_commit(done),
        scope.check,
    )


def _operation(each: files.FileSlice) -> plans.CompactionOperation:
    return plans.CompactionOperation(
        group=each.group,
        base_instant_time=each.base_instant_time,
        base_file_name=None if each.base_file is None else each.base_file.name,
        log_file_names=tuple(log.name for log in each.log_files),
    )


def _remove_old(
    storage: Storage,
    table: metadata_table.MetadataTable,
    partitions: Sequence[str],
    scope: table_lock.LockScope,
) -> None:
    """Remove the files of slices that so many newer ones have replaced.

    Base files that are as old and count for nobody are of a compaction that died. Such log files
    stay: a writer that was paused may have their delta commit complete yet. So do the log files
    that begin the file groups: those of each metadata table have the same names, and if the lock
    was lost meanwhile, one that was made since would lose its file groups.
    """
    for name in partitions:
        old: list[files.BaseFile | files.LogFile] = []
        kept_since: dict[files.FileGroupId, str] = {}
        for slices in table.slices(name):
            kept = slices[: SLICES_KEPT - 1]  # The newest is not among them yet.
            old += [
                file
                for each in slices[len(kept) :]
                for file in each.data_files
                if not metadata_writing.begins_group(file)
            ]
            kept_since[kept[-1].group] = kept[-1].base_instant_time
        old += [
            each
            for each in _base_files(storage, [name])
            if each.instant_time < kept_since.get(each.group, "")
        ]
        scope.check()
        storage.delete_unordered(sorted({each.path for each in old}))


def _base_files(storage: Storage, partitions: Sequence[str]) -> Iterator[files.BaseFile]:
    for partition in partitions:
        for each in metadata_table.data_files(storage, partition):
            if isinstance(each, files.BaseFile):
                yield each


def _archive(
    storage: Storage,
    timeline: active.ActiveTimeline,
    of_data: active.ActiveTimeline,
    scope: table_lock.LockScope,
) -> None:
    """Move instants into the archive that nobody asks for any more, the oldest."""
    chosen = archivable(timeline, of_data)
    if len(chosen) < ARCHIVED_MIN:
        return
    tree = history_writing.read_tree(storage)
    rows = history_writing.rows_of(storage, timeline, chosen)
    added = history_writing.stage(storage, rows, scope.check, may_replace=True)
    kept = history_writing.with_levels_merged(
        storage, (*tree.files, added), _MERGED_FILES, scope.check, may_replace=True
    )
    number = tree.number_next
    content = history_tree.encode_manifest(kept)
    scope.check()
    history_writing.put_manifest(storage, history_tree.manifest_path(number), content, scope.check)
    history_writing.raise_version(storage, number, scope.check)
    times = {each.requested_time for each in chosen}
    gone = [each for each in timeline.files if each.requested_time in times]
    transitions.take_off(storage, gone, scope.check)
    history_writing.clean(storage, tree, number, "", scope.check)
    logger.info("%s: archived %d instants", storage.uri, len(chosen))


def archivable(
    timeline: active.ActiveTimeline, of_data: active.ActiveTimeline
) -> list[instants.Instant]:
    """Return the instants of an MDT that compactions have and the data's timeline has not.

    The archive gets the oldest, so the first that has to stay ends them.

    Args:
        timeline: The MDT's.
        of_data: The data table's.
    """
    if of_data.pending_of(instants.Action.INDEXING):
        return []  # A compaction has not what was logged in the index that is being built.
    indexed = (
        str(each.completion_time)
        for each in of_data.completed
        if each.action is instants.Action.INDEXING
    )
    since = max(indexed, default="")
    compacted = [
        each.requested_time
        for each in timeline.completed_writes
        if each.action is instants.Action.COMMIT and each.requested_time > since
    ]
    if of_data.first is None or len(compacted) < SLICES_KEPT:
        return []
    below = min(of_data.first, compacted[-SLICES_KEPT])
    found = []
    for each in timeline.instants:
        is_over = each.is_completed and str(each.completion_time) < below
        if not is_over or each.requested_time >= below:
            break
        found.append(each)
    return found
