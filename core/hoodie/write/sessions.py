"""A write from begin to commit, around the data files that any number of processes write.

    session = begin(...)            checks the table and who else writes it; on the timeline now
    written = tasks.run(session.task, ...)  here, or wherever the pickled task is taken
    session.commit(written)         all of it is visible, or nothing
    session.abort(...)              instead, when anything failed

`write` does the three for rows, `delete_selected` and `update_selected` for the records that a
look at the table finds, `write_composed` for several of these at once, and `delete_partitions` for
whole partitions.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hoodie import deferred, environment, errors
from hoodie.filegroup import snapshots, writing
from hoodie.maintenance.findings import caught
from hoodie.model import (
    commits,
    compaction_options,
    files,
    instants,
    key_changes,
    results,
    schema_evolution,
    schemas,
    secondary_indexes,
    settings,
    table_config,
)
from hoodie.storage import protocol
from hoodie.timeline import active, index_definitions
from hoodie.transaction import client, lifecycle, manager, writer_batches
from hoodie.write import (
    batches,
    compatibility,
    conflicts,
    preflight,
    retries,
    streaming,
    tasks,
    write_task,
)

with deferred.imports():
    from hoodie.filegroup import sorting
    from hoodie.maintenance.compaction import inline
    from hoodie.maintenance.rollback import failed_writes
    from hoodie.metadata import upkeep
    from hoodie.write import (
        composition,
        early_conflicts,
        inserted_keys,
        pending,
        record_keys,
        replacements,
        schema_conflicts,
        secondary_pairs,
    )

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a write does.

    Attributes:
        operation: Upsert, insert, bulk insert, delete, or one of `write.replacements`.
        transaction: On whose behalf, and how.
        partitions: Paths of those that an insert_overwrite replaces instead of those of its rows,
            or that a delete_partition deletes.
        batch_id: The writer's batch; one that the table holds is not written again. None for none.
        extra: Put into the commit's extra metadata.
        compaction: Which compactions the writer plans after its commit, if it does.
        sort_by: Columns by which a bulk insert sorts its rows (`filegroup.sorting`); none for the
            order of the batch.
        parts: Of a write of several operations these and the columns of their rows.
    """

    operation: commits.Operation
    transaction: manager.TransactionOptions
    partitions: tuple[str, ...] = ()
    batch_id: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    compaction: compaction_options.CompactionOptions = compaction_options.DEFAULTS
    sort_by: tuple[str, ...] = ()
    parts: tuple[tuple[commits.Operation, Sequence[str]], ...] = ()

    @property
    def replacement(self) -> replacements.Replacement | None:
        """What it replaces; as of `replacements.of`."""
        return replacements.of(self.operation, self.partitions)


class WriteSession:
    """A write that is on the timeline. End it with `commit` or `abort`, once."""

    def __init__(
        self,
        task: write_task.WriteTask,
        write: client.OpenAction,
        transaction_client: client.Client,
        options: WriteOptions,
        choice_of_columns: lifecycle.Amendment,
        after_commit: Callable[[client.Completion], inline.Done],
    ) -> None:
        """Take what `begin` made."""
        self._after_commit = after_commit
        self.task = task
        self._write = write
        self._client = transaction_client
        self._extra = options.extra
        self._replacement = options.replacement
        self._choice_of_columns = choice_of_columns

    @property
    def requested_time(self) -> instants.InstantTime:
        """The write's instant."""
        return self._write.requested_time

    def commit(
        self, written: Sequence[commits.Written], *, may_have_failed_tasks: bool = True
    ) -> results.CommitResult:
        """Publish what the tasks wrote.

        Args:
            written: What they returned.
            may_have_failed_tasks: Whether others may have left files behind; costs a listing.

        Raises:
            WriteConflictError: Another write of the same file groups was faster; under
                non-blocking concurrency control only for base files of a bulk insert.
            InvalidInputError: Rows are of other partitions than those that it replaces.
            NotFoundError: A partition that is to be deleted is not there.
            HoodieError: Nothing was published, and the write is aborted; only an
                OutcomeUnknownError leaves open whether it was.
        """
        stats = tuple(each for each in written if isinstance(each, commits.WriteStat))
        untouched = [each for each in written if isinstance(each, commits.Untouched)]
        absent = [each for each in written if isinstance(each, commits.Absent)]
        looked_up = [each for each in written if isinstance(each, key_changes.LookedUp)]
        try:
            _check_base_files(stats)
            replaced = self._replaced(stats)
            metadata = commits.CommitMetadata(
                operation=self.task.operation.value,
                stats=stats,
                extra={**self._extra, commits.SCHEMA_KEY: self.task.schema.avro},
                replaced=replaced.groups,
            )
            completion = lifecycle.commit(
                self._client,
                self._write,
                metadata,
                [
                    *self._bucket_checks(),
                    conflicts.commit_check(self._client, untouched, replaced),
                    inserted_keys.commit_check(self._client, absent, self.task.stored_schema),
                ],
                self._adjustment(metadata, looked_up),
                may_have_failed_tasks=may_have_failed_tasks,
            )
        except BaseException:
            self.abort(has_tasks_left=False)
            raise
        findings = (*completion.findings, *self._roll_back_lazily())
        self._client.close()
        compaction = self._after_commit(completion)
        return results.CommitResult(
            instant=completion.instant,
            stats=stats,
            replaced=replaced.groups,
            batch_id=self._write.batch_id,
            lock_wait_ms=completion.lock_times.wait_ms,
            lock_hold_ms=completion.lock_times.hold_ms,
            findings=(*findings, *compaction.findings),
            planned_compaction=compaction.planned,
        )

    def _bucket_checks(self) -> Sequence[lifecycle.CommitCheck]:
        """Return the checks that buckets are those with which the write began."""
        config = self.task.config
        if config.index is table_config.IndexKind.CONSISTENT_HASHING:
            return (conflicts.rings_check(self._client),)
        if not preflight.may_have_own_counts(config):
            return ()
        return (conflicts.counts_check(self._client, self.task.hashing_config),)

    def _replaced(self, stats: Sequence[commits.WriteStat]) -> replacements.Replaced:
        if self._replacement is None:
            return replacements.NOTHING
        return replacements.replaced(
            self._replacement, self._client.storage, self.task.config, self._write.timeline, stats
        )

    def _adjustment(
        self, metadata: commits.CommitMetadata, looked_up: Sequence[key_changes.LookedUp]
    ) -> lifecycle.Adjustment:
        client, schema = self._client, self.task.stored_schema
        of_keys = record_keys.settling(
            client.storage, schema, metadata.replaced, client.parallelism, looked_up
        )
        mode = client.settings.concurrency
        write = secondary_pairs.Write(
            requested_time=self.requested_time,
            retired=metadata.replaced,
            is_alone=mode is not settings.ConcurrencyMode.NON_BLOCKING,
            threads=client.parallelism,
        )
        settling = secondary_pairs.settling(client.storage, schema, write, of_keys)
        keeps_newer = self._client.settings.keeps_newer_columns
        return lifecycle.Adjustment(
            metadata=self._choice_of_columns if keeps_newer else None, keys=settling
        )

    def abort(self, *, has_tasks_left: bool) -> None:
        """Give the write up: nothing of it will ever be visible.

        Args:
            has_tasks_left: Whether a task may still be running somewhere.
        """
        _give_up(self._client, self.task.config, self._write, has_tasks_left=has_tasks_left)

    def roll_back_eagerly(self) -> None:
        """Take back what failed before, if that is the policy; before any data is written.

        Raises:
            HoodieError: Something stays pending: abort this write.
        """
        if self._policy is settings.FailedWritesPolicy.EAGER:
            failed_writes.roll_back_all(self._client, self.task.config, self._write.timeline)

    def _roll_back_lazily(self) -> tuple[str, ...]:
        """Take back some of what failed, if that is the policy; return what went wrong (C3)."""
        if self._policy is not settings.FailedWritesPolicy.LAZY:
            return ()
        findings: list[str] = []
        caught(
            "failed writes stay pending",
            findings,
            lambda: failed_writes.roll_back_all(
                self._client, self.task.config, self._write.timeline, failed_writes.LAZY_MAX
            ),
        )
        return tuple(findings)

    @property
    def _policy(self) -> settings.FailedWritesPolicy:
        return self._client.settings.effective_failed_writes_policy


def _give_up(
    transaction_client: client.Client,
    config: table_config.TableConfig,
    write: client.OpenAction,
    *,
    has_tasks_left: bool,
) -> None:
    """End a write that will not be published, and roll it back if that is the policy."""
    policy = transaction_client.settings.effective_failed_writes_policy
    try:
        is_emptied = lifecycle.abort(transaction_client, write, has_tasks_left=has_tasks_left)
        if is_emptied and policy is not settings.FailedWritesPolicy.NEVER:
            failed_writes.roll_back_aborted(transaction_client, config, write)
    finally:
        transaction_client.close()


def _check_base_files(stats: Sequence[commits.WriteStat]) -> None:
    """Refuse two base files of one file group, which tasks must not have shared."""
    based = collections.Counter(conflicts.groups_of(each for each in stats if not each.log_files))
    for group, count in based.items():
        if count > 1:
            raise errors.SharedGroupError(f"{count} base files of {group}, expected one")


def begin(
    target: manager.Target,
    options: WriteOptions,
    columns: Sequence[str],
    env: environment.Environment,
) -> WriteSession | results.AlreadyCommitted:
    """Put a write on the timeline.

    Args:
        target: The table.
        options: What the write does.
        columns: The input's columns.
        env: Time, ids, threads.

    Raises:
        ConfigurationError: The table is not for this mode, or an active writer's columns overlap;
            or a non-blocking writer replaces file groups.
        InvalidInputError: Partitions are given to an operation without, or the other way round; or
            rows cannot be sorted by the columns of `sort_by`.
        ConflictError: The same writer, or one that must be alone, is active.
        UnsupportedError: The table is not one that we write.
        HoodieError: As `preflight.look`.
    """
    transaction = options.transaction
    compatibility.check_table(target.config, transaction.settings.concurrency)
    sorting.check(options.sort_by, target.schema.arrow, options.operation)
    if options.replacement is not None:
        replacements.check_mode(options.operation, transaction.settings.concurrency)
        replacements.check_index(options.operation, target.config)
    stream = _stream(target.config, options, columns)
    transaction_client = _open_client(target, transaction, env, stream)
    found: list[preflight.Found] = []

    def look(
        timeline: active.ActiveTimeline,
        config: table_config.TableConfig,
        ledger: writer_batches.Ledger,
    ) -> None:
        mode = transaction.settings.concurrency
        found.append(preflight.look(target, mode, timeline, config, ledger))

    try:
        opened = lifecycle.begin(
            transaction_client,
            _action(target.config, options.operation),
            target.config,
            options.batch_id,
            look,
        )
        if isinstance(opened, client.AlreadyWritten):
            transaction_client.close()
            return results.AlreadyCommitted(batch_id=opened.batch_id)
    except BaseException:
        transaction_client.close()
        raise
    try:
        # First: an instant that is inflight says whose it is, so that a rollback needs no wait.
        lifecycle.start(transaction_client, opened, options.operation)
        task = _task(target, options, opened, found[-1])
    except BaseException:
        _give_up(transaction_client, target.config, opened, has_tasks_left=False)
        raise
    begun = found[-1].begun
    choice = schema_conflicts.amendment(target.storage, begun, task.schema, target.added)

    def after_commit(completion: client.Completion) -> inline.Done:
        findings = upkeep.after_commit(completion, target, transaction, env)
        done = inline.after_commit(target, options.compaction, transaction, env)
        return replace(done, findings=(*findings, *done.findings))

    session = WriteSession(task, opened, transaction_client, options, choice, after_commit)
    try:
        session.roll_back_eagerly()
    except BaseException:
        session.abort(has_tasks_left=False)
        raise
    return session


def write(
    target: manager.Target,
    data: pa.Table | pa.RecordBatchReader,
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult:
    """Write a batch in one commit; a batch that does not fit is refused before it begins.

    One that lost a conflict is written again, on what the table holds then, as often as the
    settings say.

    Args:
        target: The table.
        data: What is given as a reader need not fit into memory; `write.streaming`.
        options: What to do with it, and how.
        env: Time, ids, threads.

    Raises:
        WriteConflictError: It lost each time.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    compatibility.check_table(target.config, options.transaction.settings.concurrency)
    if options.operation is commits.Operation.DELETE_PARTITION:
        raise errors.InvalidInputError(
            "a delete_partition takes no rows: expected Table.delete_partitions"
        )
    if options.transaction.settings.adds_columns:
        target = target.grown_to(schema_evolution.merged(target.schema, data.schema))
    return _write_data(target, data, options, env)


def _write_data(
    target: manager.Target,
    data: pa.Table | pa.RecordBatchReader,
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult:
    if isinstance(data, pa.Table):
        return _write_batch(target, data, options, env)
    folder = options.transaction.settings.scratch_folder
    with streaming.spooled(
        data, lambda piece: _prepared(target, piece, options), folder
    ) as spooled:
        if isinstance(spooled, pa.Table):
            return _write_batch(target, spooled, options, env)

        def write_files(
            task: write_task.WriteTask, mark: early_conflicts.Mark | None
        ) -> list[commits.Written]:
            return streaming.write(task, spooled, target.storage, env.engine, mark)

        columns = batches.unmarked_names(spooled.column_names)
        return retries.until_won(
            lambda: _write_once(target, write_files, columns, options, env),
            _retries(options, env),
        )


def write_composed(
    target: manager.Target,
    steps: Sequence[composition.Part | pending.Selection],
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult | None:
    """Do several operations in one commit, as if they were done one after the other.

    Rows are streamed as by `write`, but where a step selects records by a filter: then they are
    held in memory, since it sees what the steps before it did.

    Args:
        target: The table.
        steps: At least one, none of which replaces file groups.
        options: How; its operation follows from the steps.
        env: Time, ids, threads.

    Returns:
        None, and a rollback, where steps select and there is nothing to write.

    Raises:
        InvalidInputError: Rows do not fit, or are too many to be held.
        ConfigurationError: The writer is non-blocking, and a step selects; or an insert that leaves
            out known keys is beside other operations.
        UnsupportedError: The table has no record key, and rows are beside other operations.
        WriteConflictError: It lost each time.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    write_settings = options.transaction.settings
    compatibility.check_table(target.config, write_settings.concurrency)
    parts = [each for each in steps if isinstance(each, composition.Part)]
    if write_settings.adds_columns:
        columns = target.schema
        for part in parts:
            if not part.deletes:
                columns = schema_evolution.merged(columns, part.rows.schema)
        target = target.grown_to(columns)
    options = replace(
        options,
        operation=commits.Operation.UPSERT,
        parts=tuple((part.operation, part.rows.schema.names) for part in parts),
    )
    composition.check(steps, target.config, write_settings)
    if len(parts) < len(steps):
        if len(target.added):
            raise errors.InvalidInputError(
                f"rows add the columns {', '.join(target.added.names)} in a commit that also "
                "changes or deletes rows by a filter: add them in a commit of its own"
            )
        return _write_in_turn(target, steps, options, env)
    data, operation = composition.composed(
        parts, target.config, target.schema, fills_columns=write_settings.adds_columns
    )
    return _write_data(target, data, replace(options, operation=operation), env)


def _write_in_turn(
    target: manager.Target,
    steps: Sequence[composition.Part | pending.Selection],
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult | None:
    """Do operations of which some select records, once the write has begun."""
    check_selected(target, options)
    prepared = _held(target, steps, options)

    def write_once() -> results.WriteResult | None:
        session = begin(target, options, target.schema.arrow.names, env)
        if isinstance(session, results.AlreadyCommitted):
            return session
        try:
            batch = _joined(target, prepared)
        except BaseException:
            session.abort(has_tasks_left=False)
            raise
        if batch is None:
            session.abort(has_tasks_left=False)
            return None
        return _written(session, _files_of(batch, target, env), target, env)

    return retries.until_won(write_once, _retries(options, env))


def _held(
    target: manager.Target,
    steps: Sequence[composition.Part | pending.Selection],
    options: WriteOptions,
) -> Sequence[tuple[batches.Batch | pending.Selection, bool]]:
    """Return the steps, those with rows ready to be written, and whether each deletes."""
    found: list[tuple[batches.Batch | pending.Selection, bool]] = []
    held_bytes = 0
    for step in steps:
        if isinstance(step, pending.Selection):
            found.append((step, step.deletes))
            continue
        rows = streaming.held(step.rows, streaming.MEMORY_BYTES - held_bytes)
        held_bytes += rows.nbytes
        batch = _prepared(target, rows, replace(options, operation=step.prepared_as))
        found.append((batch, step.deletes))
    return found


def _joined(
    target: manager.Target, steps: Sequence[tuple[batches.Batch | pending.Selection, bool]]
) -> batches.Batch | None:
    """Return all that steps do, with the records that they select now; None for nothing."""
    batch: batches.Batch | None = None
    for step, deletes in steps:
        after = step
        if isinstance(after, pending.Selection):
            config, schema = target.config, target.schema
            before = None if batch is None else pending.Pending(batch, config, schema)
            after = batches.of_stored(after.select(before), config, schema)
        if len(after.record_keys):
            batch = composition.joined(batch, after, deletes=deletes)
    return batch


def _write_batch(
    target: manager.Target, data: pa.Table, options: WriteOptions, env: environment.Environment
) -> results.WriteResult:
    write_files = _files_of(_prepared(target, data, options), target, env)
    columns = batches.unmarked_names(data.column_names)
    return retries.until_won(
        lambda: _write_once(target, write_files, columns, options, env),
        _retries(options, env),
    )


def _prepared(target: manager.Target, data: pa.Table, options: WriteOptions) -> batches.Batch:
    """Return rows ready to be written; raises if they do not fit."""
    batch = batches.prepare(
        data,
        target.config,
        target.schema,
        options.operation,
        fills_columns=options.transaction.settings.adds_columns,
    )
    if options.replacement is not None:
        options.replacement.check_rows(set(batch.partition_paths))
    return batch


def check_selected(target: manager.Target, options: WriteOptions) -> None:
    """Refuse a change of selected records by a writer that finds no conflicts.

    Raises:
        ConfigurationError: It is non-blocking.
    """
    mode = options.transaction.settings.concurrency
    if mode is settings.ConcurrencyMode.NON_BLOCKING:
        verb = "deleted" if options.operation is commits.Operation.DELETE else "updated"
        raise errors.ConfigurationError(
            f"records of {target.storage.uri} cannot be {verb} by a filter in mode {mode.value}: "
            "a record that another writer changes meanwhile would be lost. Expected a single or an "
            "optimistic writer while no others are active, or a write by keys"
        )


def delete_selected(
    target: manager.Target,
    select: Callable[[], pa.Table],
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult | None:
    """Delete records that are in the table; None, and a rollback, if there are none any more.

    They are selected after the write has begun: whatever changes their file groups from then on is
    a conflict, after which they are selected again, as often as the settings say.

    Args:
        target: The table.
        select: Returns `_hoodie_record_key` and `_hoodie_partition_path` of the records, as the
            table is now.
        options: Of a delete.
        env: Time, ids, threads.

    Raises:
        ConfigurationError: As `check_selected`.
        WriteConflictError: It lost each time.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    config = target.config
    columns = list(dict.fromkeys([*config.partition_fields, *config.record_key_fields]))
    return _write_selected(target, columns, select, options, env)


def update_selected(
    target: manager.Target,
    select: Callable[[], pa.Table],
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult | None:
    """Write new versions of records that are in the table; as `delete_selected`.

    Args:
        target: The table.
        select: Returns `_hoodie_record_key`, `_hoodie_partition_path` and all columns of the
            records, changed, as the table is now. They stay in their file groups, whatever their
            keys were made of: in a table without key fields, too.
        options: Of an upsert.
        env: Time, ids, threads.

    Raises:
        ConfigurationError: As `check_selected`.
        WriteConflictError: It lost each time.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    return _write_selected(target, target.schema.arrow.names, select, options, env)


def _write_selected(
    target: manager.Target,
    columns: Sequence[str],
    select: Callable[[], pa.Table],
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult | None:
    check_selected(target, options)

    def write_once() -> results.WriteResult | None:
        session = begin(target, options, columns, env)
        if isinstance(session, results.AlreadyCommitted):
            return session
        try:
            rows = select()
            batch = batches.of_stored(rows, target.config, target.schema)
        except BaseException:
            session.abort(has_tasks_left=False)
            raise
        if not rows.num_rows:
            session.abort(has_tasks_left=False)
            return None
        return _written(session, _files_of(batch, target, env), target, env)

    return retries.until_won(write_once, _retries(options, env))


def delete_partitions(
    target: manager.Target, options: WriteOptions, env: environment.Environment
) -> results.WriteResult:
    """Retire all file groups of some partitions.

    Args:
        target: The table.
        options: Of a delete_partition.
        env: Time, ids, threads.

    Raises:
        ConfigurationError: The writer is non-blocking.
        NotFoundError: There is no such partition, or nothing in it.
        WriteConflictError: Another write of them was faster each time.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    assert options.operation is commits.Operation.DELETE_PARTITION, options.operation

    def delete_once() -> results.WriteResult:
        session = begin(target, options, (), env)
        if isinstance(session, results.AlreadyCommitted):
            return session
        return session.commit([], may_have_failed_tasks=False)

    return retries.until_won(delete_once, _retries(options, env))


def _retries(options: WriteOptions, env: environment.Environment) -> retries.Retries:
    return retries.Retries(
        count_max=options.transaction.settings.conflict_retries_max,
        random=env.random,
        wait=env.clock.sleep_s,
    )


_WriteFiles = Callable[[write_task.WriteTask, early_conflicts.Mark | None], list[commits.Written]]
"""Writes the data files of a write, in threads of this process."""


def _files_of(
    batch: batches.Batch, target: manager.Target, env: environment.Environment
) -> _WriteFiles:
    def write_files(
        task: write_task.WriteTask, mark: early_conflicts.Mark | None
    ) -> list[commits.Written]:
        return tasks.run(task, batch, write_task.WriteToken(), target.storage, env.engine, mark)

    return write_files


def _write_once(
    target: manager.Target,
    write_files: _WriteFiles,
    columns: Sequence[str],
    options: WriteOptions,
    env: environment.Environment,
) -> results.WriteResult:
    session = begin(target, options, columns, env)
    if isinstance(session, results.AlreadyCommitted):
        return session
    return _written(session, write_files, target, env)


def _written(
    session: WriteSession,
    write_files: _WriteFiles,
    target: manager.Target,
    env: environment.Environment,
) -> results.CommitResult:
    try:
        mark = early_conflicts.marking(session.task.detection, target.storage, env)
        written = write_files(session.task, mark)
    except BaseException:
        session.abort(has_tasks_left=False)
        raise
    # Each ran once, in a thread of this process, and none has failed.
    return session.commit(written, may_have_failed_tasks=False)


def _open_client(
    target: manager.Target,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
    stream: compatibility.Stream,
) -> client.Client:
    """Return the client of a write that does this to the table."""

    def admit_beside(companions: client.Companions) -> None:
        compatibility.check(
            target.config,
            stream,
            [compatibility.stream_of(instant, seen) for instant, seen in companions.items()],
            is_acknowledged=transaction.settings.acknowledges_order_dependence,
        )

    return manager.open_client(
        target,
        transaction,
        env,
        claim=compatibility.claim(stream),
        admit_beside=admit_beside,
    )


def _action(config: table_config.TableConfig, operation: commits.Operation) -> instants.Action:
    """Return what a write is on the timeline."""
    if operation.replaces:
        return instants.Action.REPLACE_COMMIT
    return instants.Action.COMMIT if config.is_copy_on_write else instants.Action.DELTA_COMMIT


def _stream(
    config: table_config.TableConfig, options: WriteOptions, columns: Sequence[str]
) -> compatibility.Stream:
    return compatibility.Stream(
        writer_id=options.transaction.author.writer_id or "",
        columns=tuple(sorted(batches.written_columns(columns, config))),
        is_order_dependent_delete=any(
            compatibility.is_order_dependent_delete(config, operation, given)
            for operation, given in options.parts or ((options.operation, columns),)
        ),
        mode=options.transaction.settings.concurrency,
    )


def _detection(
    target: manager.Target, transaction: manager.TransactionOptions, opened: client.OpenAction
) -> early_conflicts.Detection | None:
    if not transaction.settings.detects_conflicts_early:
        return None
    return early_conflicts.Detection(
        instant_time=opened.requested_time,
        config=target.config,
        known=frozenset(opened.timeline.write_completion_times),
        settings=transaction.settings,
        lock=transaction.lock,
        author=str(transaction.author),
    )


def _task(
    target: manager.Target,
    options: WriteOptions,
    opened: client.OpenAction,
    found: preflight.Found,
) -> write_task.WriteTask:
    stored = found.stored
    # Keys are looked up in the indexes that there are now, whenever the table was opened.
    config = replace(
        target.config,
        metadata_partitions=opened.config.metadata_partitions,
        metadata_partitions_inflight=opened.config.metadata_partitions_inflight,
        metadata_partitions_own=opened.config.metadata_partitions_own,
    )
    return write_task.WriteTask(
        table_uri=target.storage.uri,
        config=config,
        schema=target.schema,
        stored_schema=stored,
        instant_time=opened.requested_time,
        write_id=opened.write_id,
        operation=options.operation,
        settings=writing.readable_by_hudi(options.transaction.settings, target.config, stored),
        committed=snapshots.committed_instants(opened.timeline),
        replaced=snapshots.replaced_groups(target.storage, opened.timeline),
        known=_known(target, options, opened.timeline),
        hashing_config=found.counts,
        detection=_detection(target, options.transaction, opened),
        statistics=index_definitions.wanted_statistics(target.storage, opened.config, stored.arrow),
        tracks_keys=key_changes.RECORD_INDEX in config.metadata_partitions_kept_up,
        indexed_columns=_indexed_columns(target.storage, opened.config, stored),
        sort_by=options.sort_by,
    )


def _indexed_columns(
    storage: protocol.Storage,
    config: table_config.TableConfig,
    schema: schemas.TableSchema,
) -> tuple[str, ...]:
    """Return the columns of secondary indexes, of those that the write's data files have."""
    definitions = index_definitions.of_secondary_indexes(
        storage, config, config.metadata_partitions_kept_up
    )
    # One that cannot be kept up refuses the write once that completes.
    named = dict.fromkeys(
        each.column
        for each in definitions
        if secondary_indexes.column_refusal(each, schema.arrow, config.name) is None
    )
    return tuple(named)


def _known(
    target: manager.Target, options: WriteOptions, timeline: active.ActiveTimeline
) -> Mapping[files.FileGroupId, files.FileSlice]:
    """Return the file slices whose keys an insert leaves out, if it does; lists the table then."""
    is_insert = options.operation in (commits.Operation.INSERT, commits.Operation.BULK_INSERT)
    if target.config.looks_keys_up:
        return {}  # Its keys are looked up in any case.
    if not (is_insert and options.transaction.settings.drops_duplicates):
        return {}
    view = snapshots.take(target.storage, target.config, timeline, has_committed_only=True).view
    return {each.group: each for path in view.partitions() for each in view.latest_slices(path)}
