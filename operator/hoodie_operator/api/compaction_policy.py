"""CompactionPolicy: when the log files of tables are merged into base files."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import Field

from hoodie_operator.api import compaction_plan, execution, fields, rules, service_policy


class Triggers(fields.Block):
    """When a compaction is due. A table without delta commits is never due."""

    match: service_policy.Match = service_policy.Match.ANY
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


class CompactionRules(service_policy.Schedule):
    """When tables are compacted, and with which resources."""

    triggers: Triggers
    plan: compaction_plan.Plan | None = Field(
        default=None,
        description=(
            "Strategies and bounds of each plan. By default a plan takes all file groups. What "
            "does not fit into a plan is compacted by further runs, one after the other."
        ),
    )


class CompactionPolicySpec(service_policy.Policy, CompactionRules):
    """Which tables to compact, when, and with which resources."""


class CompactionPolicyStatus(service_policy.PolicyStatus):
    """The observed state of the policy and its tables."""


RulesT = TypeVar("RulesT", bound=CompactionRules)


def compaction_rules(_: type[RulesT]) -> Sequence[rules.Rule[RulesT]]:
    """Return the rules of what policies and the operator's defaults share."""
    return (
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
        rules.Rule(
            name="stuck-is-reported",
            field="stuck.action",
            message=(
                "must be Report: compactions are executed, never rolled back. Stuck writes belong "
                "to a RetentionPolicy"
            ),
            cel="!has(self.stuck) || self.stuck.action == 'Report'",
            holds=lambda spec: (
                spec.stuck is None or spec.stuck.action is service_policy.StuckAction.REPORT
            ),
        ),
        *compaction_plan.plan_rules("plan", lambda spec: spec.plan),
        *execution.runtime_rules(lambda spec: spec.runtime),
    )


RULES: rules.Rules[CompactionPolicySpec] = rules.Rules(
    within=(
        service_policy.target_rule(CompactionPolicySpec),
        *compaction_rules(CompactionPolicySpec),
    ),
)
