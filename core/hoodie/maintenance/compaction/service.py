"""Compaction as a table service.

A plan takes only what completed before its instant; what completes later belongs to the file slices
that begin there. Source: RFC-66; protocol.md: Compaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hoodie import environment, errors
from hoodie.filegroup import snapshots
from hoodie.format import file_names, timeline_avro
from hoodie.maintenance import table_service
from hoodie.maintenance.compaction import planning, tasks
from hoodie.model import (
    commits,
    compaction_options,
    instants,
    plans,
    results,
    schemas,
    table_config,
)
from hoodie.timeline import chain
from hoodie.transaction import manager


@dataclass(slots=True, kw_only=True)
class Compaction:
    """Merges the log files of file groups into new base files; see `table_service.TableService`.

    Attributes:
        options: Which compactions are planned.
        decision: What was decided last; None before.
    """

    options: compaction_options.CompactionOptions = compaction_options.DEFAULTS
    decision: planning.Decision | None = None

    @property
    def action(self) -> instants.Action:
        """Compaction."""
        return instants.Action.COMPACTION

    def check(self, config: table_config.TableConfig) -> None:
        """Refuse a copy-on-write table."""
        if config.is_copy_on_write:
            raise errors.ConfigurationError(
                f"table {config.name!r} is {config.table_type.value}: its writes leave no log "
                "files, expected a table of type MERGE_ON_READ to compact"
            )

    def plan(
        self, snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
    ) -> plans.CompactionPlan | None:
        """Return the plan by the options; what was decided, and why, is kept as `decision`."""
        self.decision = planning.decide(snapshot, requested_time, self.options)
        return self.decision.plan

    def encode(self, plan: plans.CompactionPlan, extra: Mapping[str, str]) -> bytes:
        """Return the content of `*.compaction.requested`."""
        return timeline_avro.encode_compaction_plan(replace(plan, extra={**plan.extra, **extra}))

    def plan_to_execute(
        self, snapshot: snapshots.Snapshot, requested_time: instants.InstantTime
    ) -> plans.CompactionPlan:
        """Return a pending plan with all log files of its slices."""
        return planning.plan_to_execute(snapshot, requested_time)

    def tasks_of(
        self, plan: plans.CompactionPlan, execution: table_service.Execution
    ) -> Sequence[tasks.CompactionTask]:
        """Return one task for each file slice of the plan."""
        committed = snapshots.committed_instants(execution.opened.timeline)
        return [
            tasks.CompactionTask(
                table_uri=execution.table_uri,
                config=execution.config,
                schema=execution.schema,
                instant_time=execution.opened.requested_time,
                write_id=execution.opened.write_id,
                settings=execution.settings,
                committed=committed,
                operation=operation,
                write_token=file_names.write_token(number, execution.opened.stage, 0),
                statistics=execution.statistics,
            )
            for number, operation in enumerate(plan.operations)
        ]

    def run(self, task: tasks.CompactionTask) -> tuple[commits.WriteStat, ...]:
        """Compact one file slice."""
        return tasks.run(task)

    def metadata(
        self, stats: Sequence[commits.WriteStat], schema: schemas.TableSchema
    ) -> commits.CommitMetadata:
        """Return the metadata of the commit that a compaction becomes."""
        return commits.CommitMetadata(
            operation=commits.Operation.COMPACT.value,
            stats=tuple(stats),
            extra={commits.SCHEMA_KEY: schema.avro},
            is_compacted=True,
        )


def schedule(
    target: manager.Target,
    options: compaction_options.CompactionOptions,
    transaction: manager.TransactionOptions,
    env: environment.Environment,
) -> results.ScheduleResult:
    """Plan a compaction, or say why none is planned.

    Raises:
        ConfigurationError: The table is copy-on-write.
        HoodieError: Nothing was planned.
    """
    service = Compaction(options=options)
    instant = table_service.schedule(service, target, transaction, env)
    assert service.decision is not None, "the planner was not asked"
    return _result(service.decision, instant)


def preview(
    target: manager.Target,
    options: compaction_options.CompactionOptions,
    env: environment.Environment,
) -> planning.Decision:
    """Return what would be planned now; nothing is written, and no lock is needed.

    Raises:
        ConfigurationError: As `schedule`.
    """
    Compaction(options=options).check(target.config)
    timeline = chain.load(target.storage, target.config)
    now = target.config.zone.format(env.clock.now_ms())
    greatest = timeline.greatest_time
    requested_time = now if greatest is None else max(now, instants.next_time(greatest))
    snapshot = snapshots.take(target.storage, target.config, timeline, has_committed_only=True)
    return planning.decide(snapshot, requested_time, options)


def _result(
    decision: planning.Decision, instant: instants.InstantTime | None
) -> results.ScheduleResult:
    is_planned = instant is not None
    return results.ScheduleResult(
        instant=instant,
        outcome=decision.outcome.value,
        message=decision.message,
        file_groups=len(decision.selection.taken) if is_planned else 0,
        left_out=decision.selection.left_out if is_planned else 0,
    )
