"""A write from begin to commit, around the data files that any number of processes write.

    session = begin(...)            checks the table and who else writes it; on the timeline now
    written = tasks.run(session.task, ...)  here, or wherever the pickled task is taken
    session.commit(written)         all of it is visible, or nothing
    session.abort(...)              instead, when anything failed

`write` does the three for a batch in memory.
"""

import collections
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from hoodie import environment, errors
from hoodie.filegroup import snapshots, writing
from hoodie.model import (
    commits,
    files,
    instants,
    results,
    schema_evolution,
    schemas,
    settings,
    table_config,
)
from hoodie.storage import protocol
from hoodie.timeline import active
from hoodie.transaction import authors, client, lifecycle, stored_schemas
from hoodie.transaction.locks import addresses, opening
from hoodie.transaction.locks import protocol as lock_protocol
from hoodie.write import (
    batches,
    combinations,
    conflicts,
    early_conflicts,
    failed_writes,
    retries,
    schema_conflicts,
    tasks,
)

logger = logging.getLogger(__name__)

_NO_COLUMNS = pa.schema([])


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """On whose behalf a table is changed, and how.

    Attributes:
        settings: Equal for everything that writes the table.
        lock: The table's lock.
        author: A writer's or an action's run.
        guards: Called in the lock scope right before anything is published.
    """

    settings: settings.WriteSettings
    lock: addresses.LockAddress
    author: authors.Author
    guards: tuple[client.Guard, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a write does.

    Attributes:
        operation: Upsert, insert, bulk insert or delete.
        transaction: On whose behalf, and how.
        batch_id: The writer's batch; one that the table holds is not written again. None for none.
        extra: Put into the commit's extra metadata.
    """

    operation: commits.Operation
    transaction: TransactionOptions
    batch_id: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table that is written.

    Attributes:
        storage: Its storage.
        config: Its configuration.
        schema: Its columns when it was opened, and those that the write adds.
        added: What the write adds or widens, as of when the table was opened.
    """

    storage: protocol.Storage
    config: table_config.TableConfig
    schema: schemas.TableSchema
    added: pa.Schema = _NO_COLUMNS

    def grown_to(self, columns: schemas.TableSchema) -> "Target":
        """Return the target of a write that adds columns: the table's, grown by them.

        Raises:
            InvalidInputError: The type of one of them has to stay.
        """
        added = schema_evolution.additions(self.schema, columns.arrow)
        schema_evolution.check_fixed(self.schema, added, self.config)
        return replace(self, schema=columns, added=added)


class WriteSession:
    """A write that is on the timeline. End it with `commit` or `abort`, once."""

    def __init__(
        self,
        task: tasks.WriteTask,
        write: client.OpenWrite,
        transaction_client: client.Client,
        provider: lock_protocol.LockProvider,
        extra: Mapping[str, str],
        choice_of_columns: lifecycle.PreCompletion,
    ) -> None:
        """Take what `begin` made."""
        self.task = task
        self._write = write
        self._client = transaction_client
        self._provider = provider
        self._extra = extra
        self._choice_of_columns = choice_of_columns

    @property
    def requested_time(self) -> instants.InstantTime:
        """The write's instant."""
        return self._write.requested_time

    def commit(self, written: Sequence[commits.Written]) -> results.CommitResult:
        """Publish what the tasks wrote.

        Raises:
            WriteConflictError: Another write of the same file groups was faster; under
                non-blocking concurrency control only for base files of a bulk insert.
            HoodieError: Nothing was published, and the write is aborted; only an
                OutcomeUnknownError leaves open whether it was.
        """
        stats = tuple(each for each in written if isinstance(each, commits.WriteStat))
        untouched = [each for each in written if isinstance(each, commits.Untouched)]
        metadata = commits.CommitMetadata(
            operation=self.task.operation.value,
            stats=stats,
            extra={**self._extra, commits.SCHEMA_KEY: self.task.schema.avro},
        )
        try:
            _check_base_files(stats)
            completion = lifecycle.complete(
                self._client,
                self._write,
                metadata,
                [conflicts.step(self._client, untouched)],
                self._amendments(),
            )
        except BaseException:
            self.abort(has_tasks_left=False)
            raise
        findings = (*completion.findings, *self._roll_back_lazily())
        self._provider.close()
        return results.CommitResult(
            instant=completion.instant,
            stats=stats,
            batch_id=self._write.batch_id,
            lock_wait_ms=completion.lock_times.wait_ms,
            lock_hold_ms=completion.lock_times.hold_ms,
            findings=findings,
        )

    def abort(self, *, has_tasks_left: bool) -> None:
        """Give the write up: nothing of it will ever be visible.

        Args:
            has_tasks_left: Whether a task may still be running somewhere.
        """
        try:
            is_emptied = lifecycle.abort(self._client, self._write, has_tasks_left=has_tasks_left)
            if is_emptied and self._policy is not settings.FailedWritesPolicy.NEVER:
                failed_writes.roll_back_aborted(self._client, self.task.config, self._write)
        finally:
            self._provider.close()

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
        try:
            failed_writes.roll_back_all(
                self._client, self.task.config, self._write.timeline, failed_writes.LAZY_MAX
            )
        except errors.HoodieError as error:
            return (f"failed writes stay pending: {error}",)
        except Exception as error:
            # Whatever it was: the write has taken effect, and its caller must learn that.
            logger.exception("%s: failed writes stay pending", self._client.storage.uri)
            return (f"failed writes stay pending: {type(error).__name__}: {error}",)
        return ()

    def _amendments(self) -> Sequence[lifecycle.PreCompletion]:
        """Return what is decided in the lock scope of the completion."""
        if not self._client.settings.keeps_newer_columns:
            return ()
        return (self._choice_of_columns,)

    @property
    def _policy(self) -> settings.FailedWritesPolicy:
        return self._client.settings.effective_failed_writes_policy


def _check_base_files(stats: Sequence[commits.WriteStat]) -> None:
    """Refuse two base files of one file group: tasks share none but a group of no bucket."""
    based = collections.Counter(conflicts.groups_of(each for each in stats if not each.log_files))
    for group, count in based.items():
        if count > 1:
            raise errors.UnsupportedError(
                f"{count} tasks wrote base files of {group}, a file group of no bucket in a "
                "copy-on-write table, expected one task: write this batch with the local engine"
            )


def begin(
    target: Target,
    options: WriteOptions,
    columns: Sequence[str],
    outside: environment.Environment,
) -> WriteSession | results.AlreadyCommitted:
    """Put a write on the timeline.

    Args:
        target: The table.
        options: What the write does.
        columns: The input's columns.
        outside: Time, ids, threads.

    Raises:
        ConfigurationError: The table is not for this mode, or an active writer's columns overlap.
        ConflictError: The same writer, or one that must be alone, is active.
        UnsupportedError: The table is not one that we write.
    """
    transaction = options.transaction
    combinations.check_table(target.config, transaction.settings.concurrency)
    provider = open_lock(target.storage, transaction, outside)
    try:
        stream = _stream(target.config, options, columns)
        transaction_client = open_client(target, provider, transaction, outside, stream)
        opened = lifecycle.begin(
            transaction_client, _action(target.config), target.config, options.batch_id
        )
        if isinstance(opened, client.AlreadyWritten):
            provider.close()
            return results.AlreadyCommitted(batch_id=opened.batch_id)
    except BaseException:
        provider.close()
        raise
    try:
        columns_begun = schema_conflicts.begun(target.storage, opened.timeline)
        task = _task(target, options, opened, columns_begun)
    except BaseException:
        lifecycle.abort(transaction_client, opened, has_tasks_left=False)
        provider.close()
        raise
    choice = schema_conflicts.step(target.storage, columns_begun, task.schema, target.added)
    session = WriteSession(task, opened, transaction_client, provider, options.extra, choice)
    try:
        lifecycle.start(transaction_client, opened, options.operation)
        session.roll_back_eagerly()
    except BaseException:
        session.abort(has_tasks_left=False)
        raise
    return session


def write(
    target: Target, data: pa.Table, options: WriteOptions, outside: environment.Environment
) -> results.WriteResult:
    """Write a batch in one commit; a batch that does not fit is refused before it begins.

    One that lost a conflict is written again, on what the table holds then, as often as the
    settings say.

    Raises:
        WriteConflictError: It lost each time.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    combinations.check_table(target.config, options.transaction.settings.concurrency)
    if options.transaction.settings.adds_columns:
        target = target.grown_to(schema_evolution.merged(target.schema, data.schema))
    batch = batches.prepare(
        data,
        target.config,
        target.schema,
        options.operation,
        fills_columns=options.transaction.settings.adds_columns,
    )
    return retries.until_won(
        lambda: _write_once(target, batch, data.column_names, options, outside),
        retries.Retries(
            count_max=options.transaction.settings.conflict_retries_max,
            random=outside.random,
            wait=outside.clock.sleep_s,
        ),
    )


def _write_once(
    target: Target,
    batch: batches.Batch,
    columns: Sequence[str],
    options: WriteOptions,
    outside: environment.Environment,
) -> results.WriteResult:
    session = begin(target, options, columns, outside)
    if isinstance(session, results.AlreadyCommitted):
        return session
    try:
        mark = early_conflicts.marking(session.task.detection, target.storage, outside)
        token = tasks.WriteToken()
        written = tasks.run(session.task, batch, token, target.storage, outside.engine, mark)
    except BaseException:
        session.abort(has_tasks_left=False)
        raise
    return session.commit(written)


def open_lock(
    storage: protocol.Storage, transaction: TransactionOptions, outside: environment.Environment
) -> lock_protocol.LockProvider:
    """Return a fresh access to the table's lock; for one transaction, which closes it."""
    return opening.open_for(str(transaction.author), transaction.lock, storage, outside)


def open_client(
    target: Target,
    provider: lock_protocol.LockProvider,
    transaction: TransactionOptions,
    outside: environment.Environment,
    stream: combinations.Stream | None = None,
) -> client.Client:
    """Return a transaction client.

    Args:
        target: The table.
        provider: Of its lock, for this client alone.
        transaction: On whose behalf, and how.
        outside: Time, ids, threads.
        stream: What a write does to the table; None for a table service.

    Raises:
        ConfigurationError: Heartbeats by these settings could expire though all is well.
    """
    session_s = addresses.session_s(transaction.lock)

    def admit_beside(companions: client.Companions) -> None:
        assert stream is not None
        combinations.check(
            target.config,
            stream,
            [combinations.stream_of(instant, seen) for instant, seen in companions.items()],
            is_acknowledged=transaction.settings.acknowledges_order_dependence,
        )

    return client.Client(
        client.Connection(
            storage=target.storage,
            provider=provider,
            surroundings=outside,
            settings=transaction.settings,
            author=transaction.author,
            guards=transaction.guards,
            claim=combinations.claim(stream) if stream is not None else "",
            admit_beside=admit_beside if stream is not None else None,
            lock_session_ms=round(session_s * 1000),
        )
    )


def _action(config: table_config.TableConfig) -> instants.Action:
    """Return what a write is on the timeline."""
    return instants.Action.COMMIT if config.is_copy_on_write else instants.Action.DELTA_COMMIT


def _stream(
    config: table_config.TableConfig, options: WriteOptions, columns: Sequence[str]
) -> combinations.Stream:
    return combinations.Stream(
        writer_id=options.transaction.author.writer_id or "",
        columns=tuple(sorted(batches.written_columns(columns, config))),
        is_order_dependent_delete=combinations.is_order_dependent_delete(
            config, options.operation, columns
        ),
        mode=options.transaction.settings.concurrency,
    )


def _detection(
    target: Target, transaction: TransactionOptions, opened: client.OpenWrite
) -> early_conflicts.Detection | None:
    if not transaction.settings.detects_conflicts_early:
        return None
    return early_conflicts.Detection(
        instant_time=opened.requested_time,
        table_type=target.config.table_type,
        known=frozenset(opened.timeline.write_completion_times),
        settings=transaction.settings,
        lock=transaction.lock,
        author=str(transaction.author),
    )


def _task(
    target: Target,
    options: WriteOptions,
    opened: client.OpenWrite,
    begun: stored_schemas.StoredSchema | None,
) -> tasks.WriteTask:
    stored = target.schema if begun is None else schema_conflicts.with_added(begun, target.added)
    return tasks.WriteTask(
        table_uri=target.storage.uri,
        config=target.config,
        schema=target.schema,
        stored_schema=stored,
        instant_time=opened.requested_time,
        write_id=opened.write_id,
        operation=options.operation,
        settings=writing.readable_by_hudi(options.transaction.settings, target.config, stored),
        committed=snapshots.committed_instants(opened.timeline),
        replaced=snapshots.replaced_groups(target.storage, opened.timeline),
        known=_known(target, options, opened.timeline),
        detection=_detection(target, options.transaction, opened),
    )


def _known(
    target: Target, options: WriteOptions, timeline: active.ActiveTimeline
) -> Mapping[files.FileGroupId, files.FileSlice]:
    """Return the file slices whose keys an insert leaves out, if it does; lists the table then."""
    is_insert = options.operation in (commits.Operation.INSERT, commits.Operation.BULK_INSERT)
    if not (is_insert and options.transaction.settings.drops_duplicates):
        return {}
    view = snapshots.take(target.storage, target.config, timeline).view
    return {each.group: each for path in view.partitions() for each in view.latest_slices(path)}
