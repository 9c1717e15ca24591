"""Compaction as a table service.

A plan takes only what completed before its instant; what completes later belongs to the file slices
that begin there. Source: RFC-66; protocol.md: Compaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hoodie import errors
from hoodie.filegroup import snapshots
from hoodie.format import file_names, timeline_avro
from hoodie.maintenance import table_service
from hoodie.maintenance.compaction import planning, tasks
from hoodie.model import commits, instants, plans, schemas, table_config


class Compaction:
    """Merges the log files of file groups into new base files; see `table_service.TableService`."""

    action = instants.Action.COMPACTION

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
        """Return the plan of every file group that has log files and is in no plan yet."""
        return planning.plan_of(snapshot.view.slices_for_compaction(requested_time))

    def encode(self, plan: plans.CompactionPlan, extra: Mapping[str, str]) -> bytes:
        """Return the content of `*.compaction.requested`."""
        return timeline_avro.encode_compaction_plan(replace(plan, extra=extra))

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
