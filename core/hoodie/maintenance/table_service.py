"""A table service: planned under the lock, executed by tasks in parallel, committed at the end.

`TableService` is what one kind of service decides; `schedule` and `execute` are the frame that all
of them run in, with the machine that every action has (`transaction.lifecycle`). Writers continue
meanwhile. Any process may execute a plan, one at a time; an execution that died is repeated from
the start, by tasks that write files of their own.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hoodie import environment
from hoodie.filegroup import snapshots
from hoodie.model import (
    commits,
    file_statistics,
    instants,
    results,
    schemas,
    settings,
    table_config,
)
from hoodie.timeline import active, index_definitions
from hoodie.transaction import client, lifecycle, manager, stored_schemas

Plan = TypeVar("Plan")
Task = TypeVar("Task")


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What the tasks of one execution have in common.

    Attributes:
        table_uri: The table's root.
        config: The table's configuration.
        schema: The table's columns when the execution began.
        settings: Of everything that writes the table.
        opened: The instant that is executed, with its write id and its timeline.
        statistics: Which ones are gathered of new data files.
    """

    table_uri: str
    config: table_config.TableConfig
    schema: schemas.TableSchema
    settings: settings.WriteSettings
    opened: client.OpenAction
    statistics: file_statistics.Wanted


class TableService(Protocol[Plan, Task]):
    """One kind of table service; it pickles. All but `run` decide, and write nothing."""

    @property
    def action(self) -> instants.Action:
        """The action of its plans on the timeline."""
        ...

    def check(self, config: table_config.TableConfig) -> None:
        """Refuse a table that the service is not for.

        Raises:
            ConfigurationError: The table's configuration rules it out.
        """
        ...

    def plan(
        self, snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
    ) -> Plan | None:
        """Return the plan to request; None when there is nothing to do.

        Args:
            snapshot: Taken in the lock scope of the request.
            requested_time: The plan's instant.
        """
        ...

    def encode(self, plan: Plan, extra: Mapping[str, str]) -> bytes:
        """Return the content of the requested file, with extra metadata."""
        ...

    def plan_to_execute(
        self, snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
    ) -> Plan:
        """Return a requested plan as it is to be executed.

        Args:
            snapshot: Taken after the plan was requested.
            requested_time: The plan's instant.
        """
        ...

    def tasks_of(self, plan: Plan, execution: Execution) -> Sequence[Task]:
        """Return the tasks of a plan; they pickle."""
        ...

    def run(self, task: Task) -> tuple[commits.WriteStat, ...]:
        """Do a task, in any process. Doing it again gives the same records."""
        ...

    def metadata(
        self, stats: Sequence[commits.WriteStat], schema: schemas.TableSchema
    ) -> commits.CommitMetadata:
        """Return what the completed instant says."""
        ...


def schedule(
    service: TableService[Plan, Task],
    target: manager.Target,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> instants.InstantTime | None:
    """Request a plan of a service.

    Returns:
        The plan's instant; None when there is nothing to do.

    Raises:
        ConfigurationError: The service is not for the table.
        HoodieError: Nothing was planned.
    """
    service.check(target.config)

    def plan(
        timeline: active.ActiveTimeline,
        requested_time: instants.InstantTime,
        extra: Mapping[str, str],
    ) -> bytes | None:
        snapshot = snapshots.take(target.storage, target.config, timeline, has_committed_only=True)
        found = service.plan(snapshot, requested_time)
        return None if found is None else service.encode(found, extra)

    with closing(manager.open_client(target, transaction, env)) as opened_client:
        planned = lifecycle.plan(opened_client, service.action, target.config, plan)
    return planned.instant.requested_time if planned.instant is not None else None


def execute(
    service: TableService[Plan, Task],
    target: manager.Target,
    requested_time: instants.InstantTime,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> results.CommitResult:
    """Execute a plan of a service and commit it.

    Raises:
        NotFoundError: There is no such plan.
        ConflictError: It was executed, or a live process is executing it.
        HoodieError: Nothing was published; only an OutcomeUnknownError leaves open whether it was.
    """
    with closing(manager.open_client(target, transaction, env)) as opened_client:
        opened = lifecycle.take_over(opened_client, service.action, requested_time, target.config)
        assert opened is not None
        try:
            lifecycle.start(opened_client, opened)
            snapshot = snapshots.take(
                target.storage, target.config, opened.timeline, has_committed_only=True
            )
            plan = service.plan_to_execute(snapshot, requested_time)
            # Not those that the table was opened with: of columns added since nothing may be lost.
            stored = stored_schemas.as_of_or_newer(target.storage, target.config, opened.timeline)
            schema = target.schema if stored is None else stored.columns
            execution = Execution(
                table_uri=target.storage.uri,
                config=target.config,
                schema=schema,
                settings=transaction.settings,
                opened=opened,
                statistics=index_definitions.wanted_statistics(
                    target.storage, opened.config, schema.arrow
                ),
            )
            written = env.engine.map(service.run, service.tasks_of(plan, execution))
            stats = tuple(stat for each in written for stat in each)
            completion = lifecycle.commit(opened_client, opened, service.metadata(stats, schema))
        except BaseException:
            lifecycle.abort(opened_client, opened, has_tasks_left=env.engine.has_tasks_left)
            raise
    return results.CommitResult(
        instant=completion.instant,
        stats=stats,
        lock_wait_ms=completion.lock_times.wait_ms,
        lock_hold_ms=completion.lock_times.hold_ms,
        findings=completion.findings,
    )
