"""CompactionPolicy: when the log files of tables are merged into base files."""

import enum

from pydantic import Field

from hoodie_operator.api import compaction_plan, conditions, execution, fields, rules


class Match(enum.Enum):
    """Whether one trigger is enough, or all must fire."""

    ANY = "Any"
    ALL = "All"


class TableSelector(fields.Block):
    """Selects tables by their labels."""

    match_labels: fields.Labels = Field(min_length=1)


class Target(fields.Block):
    """The tables that the policy compacts."""

    table_ref: fields.Reference | None = None
    table_selector: TableSelector | None = None


class Triggers(fields.Block):
    """When a compaction is due. A table without delta commits is never due."""

    match: Match = Match.ANY
    delta_commits: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Number of delta commits since the last compaction was planned.",
    )
    log_bytes: fields.Size | None = Field(
        default=None, description="Bytes of log files since the last compaction was planned."
    )
    elapsed: fields.Duration | None = Field(
        default=None,
        description=(
            "Time since the last compaction, or since the first delta commit of a table without "
            "compactions."
        ),
    )


class History(fields.Block):
    """How many finished TableActions the policy keeps, besides the newest one of each table."""

    successful: int = Field(default=10, ge=0, le=1000)
    failed: int = Field(default=5, ge=1, le=1000)


class CompactionPolicySpec(fields.Block):
    """Which tables to compact, when, and with which resources."""

    target: Target
    triggers: Triggers
    plan: compaction_plan.Plan | None = Field(
        default=None,
        description=(
            "Strategies and bounds of each plan. By default a plan takes all file groups. What "
            "does not fit into a plan is compacted by further runs, one after the other."
        ),
    )
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="2h", description="Maximum duration of an attempt. A longer attempt is stopped."
    )
    history: History = History()
    suspend: bool = Field(default=False, description="Plan no compactions.")


class TableSituation(fields.Block):
    """The state of one table of the policy."""

    table: fields.Word
    reason: fields.Word
    message: fields.Text
    action: fields.Word | None = Field(default=None, description="The active TableAction.")


class CompactionPolicyStatus(conditions.Status):
    """The observed state of the policy and its tables."""

    matched: int | None = None
    running: int | None = None
    tables: tuple[TableSituation, ...] | None = Field(default=None, max_length=100)


RULES: rules.Rules[CompactionPolicySpec] = rules.Rules(
    within=(
        rules.Rule(
            name="one-target",
            field="target",
            message="needs exactly one of tableRef and tableSelector",
            cel="has(self.target.tableRef) != has(self.target.tableSelector)",
            holds=lambda spec: (
                (spec.target.table_ref is None) != (spec.target.table_selector is None)
            ),
        ),
        rules.Rule(
            name="one-trigger",
            field="triggers",
            message="needs at least one of deltaCommits, logBytes and elapsed",
            cel=(
                "has(self.triggers.deltaCommits) || has(self.triggers.logBytes) "
                "|| has(self.triggers.elapsed)"
            ),
            holds=lambda spec: (
                spec.triggers.delta_commits is not None
                or spec.triggers.log_bytes is not None
                or spec.triggers.elapsed is not None
            ),
        ),
        *compaction_plan.plan_rules("plan", lambda spec: spec.plan),
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
)
