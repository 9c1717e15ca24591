"""Compaction as a table service: plan under the lock, merge file groups in parallel, commit.

Writers go on meanwhile: the plan takes only what completed before its instant, and what completes
later belongs to the file slices that begin there. Any process may execute a plan, one at a time; an
execution that died is repeated from the start. Source: RFC-66; concurrency 2.12.
"""

from collections.abc import Mapping
from dataclasses import replace

from hoodie import environment, errors
from hoodie.filegroup import snapshots
from hoodie.format import file_names, timeline_avro
from hoodie.maintenance import compaction
from hoodie.model import commits, instants, results
from hoodie.storage import locations
from hoodie.timeline import active
from hoodie.transaction import heartbeats, lifecycle, markers, scheduling, stored_schemas
from hoodie.write import sessions


def schedule(
    target: sessions.Target,
    transaction: sessions.TransactionOptions,
    outside: environment.Environment,
) -> instants.InstantTime | None:
    """Plan a compaction of every file group that has log files and is in no plan yet.

    Returns:
        The plan's instant; None when there is nothing to compact.

    Raises:
        ConfigurationError: The table is copy-on-write.
        HoodieError: Nothing was planned.
    """
    if target.config.is_copy_on_write:
        raise errors.ConfigurationError(
            f"table {target.config.name!r} is {target.config.table_type.value}: its writes leave "
            "no log files, expected a table of type MERGE_ON_READ to compact"
        )

    def plan(
        timeline: active.ActiveTimeline,
        requested_time: instants.InstantTime,
        extra: Mapping[str, str],
    ) -> bytes | None:
        snapshot = snapshots.take(target.storage, target.config, timeline)
        found = compaction.plan_of(snapshot.view.slices_for_compaction(requested_time))
        if found is None:
            return None
        return timeline_avro.encode_compaction_plan(replace(found, extra=extra))

    provider = sessions.open_lock(target.storage, transaction, outside)
    try:
        client = sessions.open_client(target, provider, transaction, outside)
        scheduled = scheduling.schedule(client, instants.Action.COMPACTION, target.config, plan)
    finally:
        provider.close()
    return scheduled.instant.requested_time if scheduled.instant is not None else None


def execute(
    target: sessions.Target,
    requested_time: instants.InstantTime,
    transaction: sessions.TransactionOptions,
    outside: environment.Environment,
) -> results.CommitResult:
    """Execute a planned compaction and commit it.

    Raises:
        NotFoundError: There is no such plan.
        ConflictError: It was executed, or somebody alive is executing it.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    provider = sessions.open_lock(target.storage, transaction, outside)
    try:
        client = sessions.open_client(target, provider, transaction, outside)
        write = scheduling.execute(client, requested_time, target.config)
        try:
            lifecycle.start(client, write, commits.Operation.COMPACT)
            snapshot = snapshots.take(target.storage, target.config, write.timeline)
            plan = compaction.plan_to_execute(snapshot, requested_time)
            # Not those that the table was opened with: of columns added since nothing may be lost.
            stored = stored_schemas.as_of(target.storage, write.timeline)
            schema = target.schema if stored is None else stored.columns
            tasks = [
                compaction.CompactionTask(
                    table_uri=target.storage.uri,
                    config=target.config,
                    schema=schema,
                    instant_time=requested_time,
                    write_id=write.write_id,
                    settings=transaction.settings,
                    committed=snapshots.committed_instants(write.timeline),
                    operation=operation,
                    write_token=file_names.write_token(number, write.stage, 0),
                )
                for number, operation in enumerate(plan.operations)
            ]
            stats = [stat for each in outside.engine.map(run_task, tasks) for stat in each]
            metadata = commits.CommitMetadata(
                operation=commits.Operation.COMPACT.value,
                stats=tuple(stats),
                extra={commits.SCHEMA_KEY: schema.avro},
                is_compacted=True,
            )
            completion = lifecycle.complete(client, write, metadata)
        except BaseException:
            lifecycle.abort(client, write, has_tasks_left=outside.engine.has_tasks_left)
            raise
    finally:
        provider.close()
    return results.CommitResult(
        instant=completion.instant,
        stats=tuple(stats),
        lock_wait_ms=completion.lock_times.wait_ms,
        lock_hold_ms=completion.lock_times.hold_ms,
        findings=completion.findings,
    )


def run_task(task: compaction.CompactionTask) -> tuple[commits.WriteStat, ...]:
    """Compact one file slice in whatever process the task was taken to."""
    storage = locations.open_storage(task.table_uri)
    watch = heartbeats.watch(task.instant_time, task.write_id, task.settings.heartbeat_interval_ms)

    def announce(path: str) -> None:
        markers.mark(storage, task.instant_time, path)
        # Afterwards: what is written in spite of it can be found.
        watch.check(storage)

    return compaction.compact_slice(task, storage, announce)
