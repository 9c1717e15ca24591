"""TableAction: one run of a table service, which users and policies create.

Creating a table and deleting its data are not TableActions: a HudiTable has those runs itself.
Earlier releases made TableActions for them. An upgraded cluster may still store such objects: they
are read, and start nothing.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import pydantic
from pydantic import Field, StringConstraints

from hoodie_operator.api import (
    attempts,
    compaction_plan,
    conditions,
    execution,
    fields,
    hudi_table,
    retention_policy,
    rules,
    table_indexes,
)


class ActionType(enum.Enum):
    """What is done."""

    COMPACTION = "Compaction"
    ROLLBACK = "Rollback"
    CLEAN = "Clean"
    ARCHIVE = "Archive"
    CREATE_SAVEPOINT = "CreateSavepoint"
    DELETE_SAVEPOINTS = "DeleteSavepoints"
    DELETE_PARTITIONS = "DeletePartitions"
    DELETE_ROWS = "DeleteRows"
    CONFIGURE = "Configure"
    METADATA_INIT = "MetadataInit"
    METADATA_DROP = "MetadataDrop"
    INDEX_BUILD = "IndexBuild"
    INDEX_DROP = "IndexDrop"
    MIRROR = "Mirror"
    CREATE = "Create"
    DELETE = "Delete"


RETIRED: Final = frozenset({ActionType.CREATE, ActionType.DELETE})
"""Types of earlier releases: read from what is stored, and refused where they are declared."""

_DECLARABLE: Final = tuple(each.value for each in ActionType if each not in RETIRED)


class CompactionParameters(fields.Block):
    """Parameters of a compaction."""

    instant: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = (
        Field(
            default=None,
            description=(
                "Requested time of a pending compaction to execute. By default a new compaction "
                "is planned."
            ),
        )
    )
    plan: compaction_plan.Plan | None = Field(
        default=None,
        description="Strategies and bounds of the plan. By default it takes all file groups.",
    )


class RollbackParameters(fields.Block):
    """Parameters of a rollback."""

    instant: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = (
        Field(
            default=None,
            description=(
                "Requested time of a pending write to roll back. By default all failed writes."
            ),
        )
    )


class CleanParameters(retention_policy.CleanBounds):
    """Parameters of a clean."""


class ArchiveParameters(retention_policy.ArchiveBounds):
    """Parameters of archiving."""

    readable_commits: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Number of commits that cleaning keeps readable, less than minCommits.",
    )


class CreateSavepointParameters(fields.Block):
    """Parameters of the creation of a savepoint."""

    commit: Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)] | None = Field(
        default=None, description="Requested time of the commit. By default the newest one."
    )
    comment: Annotated[str, StringConstraints(max_length=1024)] = Field(
        default="", description="Stored with the savepoint, for its readers."
    )


class DeleteSavepointsParameters(fields.Block):
    """Parameters of the deletion of savepoints."""

    commits: (
        tuple[Annotated[str, StringConstraints(pattern=r"^[0-9]{17}$", max_length=17)], ...] | None
    ) = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="Requested times of the commits that the savepoints keep.",
    )
    older_than: fields.Duration | None = Field(
        default=None, description="Age of savepoints, by the newest commit."
    )


class DeletePartitionsParameters(fields.Block):
    """Parameters of the deletion of partitions."""

    partitions: tuple[
        Annotated[
            str, StringConstraints(pattern=r"^[^/.]([^/]|/[^/.])*$", min_length=1, max_length=512)
        ],
        ...,
    ] = Field(
        min_length=1,
        max_length=1000,
        description=(
            "Paths of the partitions below the table's, such as region=eu/day=2026-11-27. All "
            "their rows are deleted in one commit."
        ),
    )


class DeleteRowsParameters(fields.Block):
    """Parameters of the deletion of rows."""

    where: str = Field(
        min_length=1,
        max_length=4096,
        description=(
            "Filter of the rows to delete, on any columns, such as city = 'Rome' and fare < 0. "
            "The rows that match when the run begins are deleted in one commit. The grammar is "
            "that of hoodie read --where; an action with another text fails with InvalidSpec."
        ),
    )


class ConfigureParameters(fields.Block):
    """Parameters of a change of the table's configuration."""

    chain: bool = Field(
        default=True,
        description=(
            "Whether a chain orders all changes of the table. With a chain, other engines are "
            "admitted as the table's concurrency.externalWriters says; without one, always."
        ),
    )


class MetadataInitParameters(fields.Block):
    """Parameters of making the metadata table."""

    rebuild: bool = Field(
        default=False, description="Whether an existing metadata table is dropped first."
    )


class IndexBuildParameters(fields.Block):
    """Parameters of a build of indexes."""

    indexes: table_indexes.IndexNames = Field(
        description="Partitions of the table's metadata table."
    )
    partitioned: bool = Field(default=False, description=table_indexes.PARTITIONED)
    columns: table_indexes.IndexColumns | None = Field(
        default=None, description=table_indexes.COLUMNS
    )
    statistics_columns: table_indexes.StatisticsColumns | None = Field(
        default=None, description=table_indexes.STATISTICS_COLUMNS
    )
    validation: table_indexes.Validation = Field(
        default=table_indexes.Validation.NONE,
        description="How much of the table is compared with its metadata table afterwards.",
    )


class IndexDropParameters(fields.Block):
    """Parameters of a drop of indexes."""

    indexes: table_indexes.IndexNames = Field(
        description="Partitions of the table's metadata table."
    )


class MirrorParameters(fields.Block):
    """Parameters of a run of the mirror in Iceberg."""

    keep_snapshots: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Number of snapshots that the mirror keeps. Their files are not cleaned.",
    )
    catalog: hudi_table.MirrorCatalog | None = Field(
        default=None, description="The catalog that the mirror is in; by default the folder alone."
    )


class TableActionSpec(fields.Block):
    """What is done to which table. Most fields cannot be changed."""

    table_ref: fields.Reference
    type: Annotated[
        ActionType,
        pydantic.WithJsonSchema(
            {"type": "string", "enum": list(_DECLARABLE), "description": "What is done."}
        ),
    ]
    compaction: CompactionParameters | None = None
    rollback: RollbackParameters | None = None
    clean: CleanParameters | None = None
    archive: ArchiveParameters | None = None
    create_savepoint: CreateSavepointParameters | None = None
    delete_savepoints: DeleteSavepointsParameters | None = None
    delete_partitions: DeletePartitionsParameters | None = None
    delete_rows: DeleteRowsParameters | None = None
    configure: ConfigureParameters | None = None
    metadata_init: MetadataInitParameters | None = None
    index_build: IndexBuildParameters | None = None
    index_drop: IndexDropParameters | None = None
    mirror: MirrorParameters | None = None
    dry_run: bool = Field(
        default=False,
        description="With type Clean or Archive: only report what would be deleted or archived.",
    )
    priority: int = Field(
        default=0,
        ge=-100,
        le=100,
        description="Actions with a higher priority start first when too many are waiting.",
    )
    approval: bool = Field(
        default=False, description="Whether no run starts before approved is true."
    )
    approved: bool = Field(default=False, description="Whether the action was approved.")
    cancel: bool = Field(default=False, description="Stop the active run. No other run starts.")
    ttl_after_finished: fields.Duration | None = Field(
        default=None,
        description=(
            "Time after which an action that is done or cancelled is deleted. By default it is "
            "kept, or kept as the history of its policy says."
        ),
    )
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="2h", description="Maximum duration of an attempt. A longer attempt is stopped."
    )
    suspend: bool = Field(default=False, description="Stop the active run, and start none.")

    @pydantic.field_validator("type", mode="before")
    @classmethod
    def _check_type(cls, value: object, info: pydantic.ValidationInfo) -> object:
        """Refuse a retired type in a manifest: the CRD's enumeration does the same in a cluster."""
        if info.context == fields.DECLARED and value in [each.value for each in RETIRED]:
            raise ValueError(f"expected one of {', '.join(_DECLARABLE)}")
        return value


class ActionResult(fields.Block):
    """The result of the action."""

    file_groups: int | None = None
    left_out: int | None = Field(
        default=None,
        description="Number of file groups, or files of a clean, that did not fit into the plan.",
    )
    archived: int | None = Field(
        default=None, description="Number of instants moved out of the active timeline."
    )
    trimmed: int | None = Field(
        default=None, description="Number of instants deleted from the table's history."
    )
    files: int | None = None
    bytes: int | None = None
    records: int | None = None
    deletes: int | None = Field(default=None, description="Number of deleted rows.")
    duration_ms: int | None = None
    lock_wait_ms: int | None = None
    lock_hold_ms: int | None = None
    findings: tuple[fields.Text, ...] | None = Field(default=None, max_length=20)


class TableActionStatus(conditions.Status):
    """The observed state of the action."""

    instant: fields.Word | None = Field(
        default=None, description="The instant that the action has planned or executes."
    )
    runs: attempts.Runs | None = None
    result: ActionResult | None = None
    finished_time: fields.Word | None = None


REPORTING: Final = frozenset({ActionType.CLEAN, ActionType.ARCHIVE})
"""Types that can only report."""

_PARAMETERS: Final[Mapping[ActionType, Callable[[TableActionSpec], fields.Block | None]]] = {
    ActionType.COMPACTION: lambda spec: spec.compaction,
    ActionType.ROLLBACK: lambda spec: spec.rollback,
    ActionType.CLEAN: lambda spec: spec.clean,
    ActionType.ARCHIVE: lambda spec: spec.archive,
    ActionType.CREATE_SAVEPOINT: lambda spec: spec.create_savepoint,
    ActionType.DELETE_SAVEPOINTS: lambda spec: spec.delete_savepoints,
    ActionType.DELETE_PARTITIONS: lambda spec: spec.delete_partitions,
    ActionType.DELETE_ROWS: lambda spec: spec.delete_rows,
    ActionType.CONFIGURE: lambda spec: spec.configure,
    ActionType.METADATA_INIT: lambda spec: spec.metadata_init,
    ActionType.INDEX_BUILD: lambda spec: spec.index_build,
    ActionType.INDEX_DROP: lambda spec: spec.index_drop,
    ActionType.MIRROR: lambda spec: spec.mirror,
}
"""The parameters of each type, in the field of its name, which goes with that type only."""


def _field(action_type: ActionType) -> str:
    return action_type.value[0].lower() + action_type.value[1:]


def _goes_with(
    action_type: ActionType, get: Callable[[TableActionSpec], fields.Block | None]
) -> rules.Rule[TableActionSpec]:
    field = _field(action_type)
    return rules.Rule(
        name=f"{field}-block",
        field=field,
        message=f"is valid with type {action_type.value} only",
        cel=f"!has(self.{field}) || self.type == '{action_type.value}'",
        holds=lambda spec: get(spec) is None or spec.type is action_type,
    )


def _indexes_to_build(
    spec: TableActionSpec,
) -> tuple[tuple[str, ...], Mapping[str, str]] | None:
    how = spec.index_build
    return None if how is None else (how.indexes, how.columns or {})


def _statistics_to_build(
    spec: TableActionSpec,
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    how = spec.index_build
    return None if how is None else (how.indexes, how.statistics_columns or ())


def _plan(spec: TableActionSpec) -> compaction_plan.Plan | None:
    return None if spec.compaction is None else spec.compaction.plan


RULES: rules.Rules[TableActionSpec] = rules.Rules(
    within=(
        *(_goes_with(action_type, get) for action_type, get in _PARAMETERS.items()),
        rules.Rule(
            name="instant-or-plan",
            field="compaction",
            message="has instant and plan, expected one of them: the plan of an instant is fixed",
            cel=(
                "!has(self.compaction) || !has(self.compaction.instant) "
                "|| !has(self.compaction.plan)"
            ),
            holds=lambda spec: (
                spec.compaction is None
                or spec.compaction.instant is None
                or spec.compaction.plan is None
            ),
        ),
        rules.Rule(
            name="dry-run",
            field="dryRun",
            message="is valid with type Clean and Archive only",
            cel="!self.dryRun || self.type in ['Clean', 'Archive']",
            holds=lambda spec: not spec.dry_run or spec.type in REPORTING,
        ),
        rules.Rule(
            name="clean-needs-keep",
            field="clean",
            message="is required with type Clean",
            cel="self.type != 'Clean' || has(self.clean)",
            holds=lambda spec: spec.type is not ActionType.CLEAN or spec.clean is not None,
        ),
        rules.Rule(
            name="partitions-to-delete",
            field="deletePartitions",
            message="is required with type DeletePartitions",
            cel="self.type != 'DeletePartitions' || has(self.deletePartitions)",
            holds=lambda spec: (
                spec.type is not ActionType.DELETE_PARTITIONS or spec.delete_partitions is not None
            ),
        ),
        rules.Rule(
            name="rows-to-delete",
            field="deleteRows",
            message="is required with type DeleteRows",
            cel="self.type != 'DeleteRows' || has(self.deleteRows)",
            holds=lambda spec: (
                spec.type is not ActionType.DELETE_ROWS or spec.delete_rows is not None
            ),
        ),
        rules.Rule(
            name="indexes-to-build",
            field="indexBuild",
            message="is required with type IndexBuild",
            cel="self.type != 'IndexBuild' || has(self.indexBuild)",
            holds=lambda spec: (
                spec.type is not ActionType.INDEX_BUILD or spec.index_build is not None
            ),
        ),
        table_indexes.columns_rule("indexBuild", _indexes_to_build),
        *table_indexes.statistics_rules("indexBuild", _statistics_to_build),
        rules.Rule(
            name="partitioned-record-index",
            field="indexBuild.partitioned",
            message="is valid with record_index among the indexes only",
            cel=(
                "!has(self.indexBuild) || !self.indexBuild.partitioned || "
                "'record_index' in self.indexBuild.indexes"
            ),
            holds=lambda spec: (
                spec.index_build is None
                or table_indexes.may_be_partitioned(
                    spec.index_build.indexes, spec.index_build.partitioned
                )
            ),
        ),
        rules.Rule(
            name="indexes-to-drop",
            field="indexDrop",
            message="is required with type IndexDrop",
            cel="self.type != 'IndexDrop' || has(self.indexDrop)",
            holds=lambda spec: (
                spec.type is not ActionType.INDEX_DROP or spec.index_drop is not None
            ),
        ),
        rules.Rule(
            name="savepoints-to-delete",
            field="deleteSavepoints",
            message="needs commits or olderThan with type DeleteSavepoints",
            cel=(
                "self.type != 'DeleteSavepoints' || (has(self.deleteSavepoints) && "
                "(has(self.deleteSavepoints.commits) || has(self.deleteSavepoints.olderThan)))"
            ),
            holds=lambda spec: (
                spec.type is not ActionType.DELETE_SAVEPOINTS
                or (
                    (found := spec.delete_savepoints) is not None
                    and (found.commits is not None or found.older_than is not None)
                )
            ),
        ),
        rules.Rule(
            name="archive-bounds",
            field="archive.maxCommits",
            message="is expected to be greater than minCommits",
            cel="!has(self.archive) || self.archive.maxCommits > self.archive.minCommits",
            holds=lambda spec: (
                spec.archive is None or spec.archive.max_commits > spec.archive.min_commits
            ),
        ),
        rules.Rule(
            name="archive-after-cleaning",
            field="archive.minCommits",
            message="is expected to be greater than readableCommits",
            cel=(
                "!has(self.archive) || !has(self.archive.readableCommits) "
                "|| self.archive.minCommits > self.archive.readableCommits"
            ),
            holds=lambda spec: (
                spec.archive is None
                or spec.archive.readable_commits is None
                or spec.archive.min_commits > spec.archive.readable_commits
            ),
        ),
        retention_policy.keep_rule(
            "clean", lambda spec: None if spec.clean is None else spec.clean.keep
        ),
        *compaction_plan.plan_rules("compaction.plan", _plan),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
    between=(
        rules.immutable("tableRef", lambda spec: spec.table_ref),
        rules.immutable("type", lambda spec: spec.type),
        *(
            rules.immutable_optional(_field(action_type), get)
            for action_type, get in _PARAMETERS.items()
        ),
        rules.immutable("dryRun", lambda spec: spec.dry_run),
        rules.immutable("priority", lambda spec: spec.priority),
        rules.immutable("approval", lambda spec: spec.approval),
        rules.immutable("runtime", lambda spec: spec.runtime),
        rules.immutable("retry", lambda spec: spec.retry),
        rules.immutable("timeLimit", lambda spec: spec.time_limit),
    ),
)
