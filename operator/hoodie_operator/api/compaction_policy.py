"""CompactionPolicy: when the log files of tables are merged into base files."""

import enum

from pydantic import Field

from hoodie_operator.api import conditions, execution, fields, rules


class Match(enum.Enum):
    """How several triggers go together."""

    ANY = "Any"
    ALL = "All"


class TableSelector(fields.Block):
    """Tables by their labels."""

    match_labels: fields.Labels = Field(min_length=1)


class Target(fields.Block):
    """Which tables."""

    table_ref: fields.Reference | None = None
    table_selector: TableSelector | None = None


class Triggers(fields.Block):
    """When a compaction is due; never while there is nothing to compact."""

    match: Match = Match.ANY
    delta_commits: int | None = Field(
        default=None, ge=1, le=100_000, description="So many since the last compaction was planned."
    )
    log_bytes: fields.Size | None = Field(
        default=None, description="So much was logged since the last compaction was planned."
    )
    elapsed: fields.Duration | None = Field(
        default=None, description="So long since the last compaction, or the first delta commit."
    )


class History(fields.Block):
    """How many finished TableActions of a policy are kept, beside the newest of each table."""

    successful: int = Field(default=10, ge=0, le=1000)
    failed: int = Field(default=5, ge=1, le=1000)


class CompactionPolicySpec(fields.Block):
    """When to compact what, on what."""

    target: Target
    triggers: Triggers
    runtime: execution.Runtime = execution.Runtime()
    retry: execution.Retry = execution.Retry()
    time_limit: fields.Duration = Field(
        default="2h", description="An attempt that takes longer is stopped."
    )
    history: History = History()
    suspend: bool = Field(default=False, description="Plan nothing.")


class TableSituation(fields.Block):
    """How one table stands with its policy."""

    table: fields.Word
    reason: fields.Word
    message: fields.Text
    action: fields.Word | None = Field(default=None, description="The TableAction at work.")


class CompactionPolicyStatus(conditions.Status):
    """How the policy's tables stand."""

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
        *execution.runtime_rules(lambda spec: spec.runtime),
    ),
)
