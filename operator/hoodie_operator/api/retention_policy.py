"""RetentionPolicy: how much of a table's past is kept. What deletes is here, in one object.

The bounds of cleaning and archiving constrain each other, so that one rule sees both.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeVar

from pydantic import Field

from hoodie_operator.api import execution, fields, rules, service_policy

COMMITS_KEPT: Final = 10
COMMITS_MIN: Final = 20
COMMITS_MAX: Final = 30
HISTORY_DAYS_MIN: Final = 7
_HOURS_A_DAY: Final = 24

_Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Keep(fields.Block):
    """How much of the past stays readable."""

    commits: _Count | None = Field(default=None, description="The newest commits stay readable.")
    hours: _Count | None = Field(default=None, description="The last hours stay readable.")
    versions: _Count | None = Field(
        default=None, description="Number of versions of each file group that are kept."
    )


class CleaningTriggers(fields.Block):
    """When a clean is due. A table without new commits is never due."""

    match: service_policy.Match = service_policy.Match.ANY
    commits: int | None = Field(
        default=None, ge=1, le=100_000, description="Number of commits since the last clean."
    )
    elapsed: fields.Duration | None = Field(
        default=None, description="Time between the last clean and the newest commit."
    )


class CleanBounds(fields.Block):
    """What one clean keeps, and how much it deletes."""

    keep: Keep
    reader_grace: fields.Duration = Field(
        default="1h",
        description="Maximum duration of a query: what was replaced more recently is kept.",
    )
    max_files: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="Maximum number of files that one clean deletes, about. 1000000 by default.",
    )


class Cleaning(CleanBounds):
    """Deletion of file versions that no reader needs any more."""

    triggers: CleaningTriggers = CleaningTriggers(commits=10)


class ArchiveBounds(fields.Block):
    """How many commits stay on the active timeline."""

    min_commits: _Count = Field(
        default=COMMITS_MIN, description="Number of commits that a run leaves."
    )
    max_commits: _Count = Field(
        default=COMMITS_MAX, description="Nothing is archived unless there are more commits."
    )
    history_days: int | None = Field(
        default=None,
        ge=HISTORY_DAYS_MIN,
        le=36_500,
        description=(
            "Archived commits that are older, by the newest commit, are deleted from the table's "
            "history once nothing needs them. By default the history stays for ever."
        ),
    )


class Archiving(ArchiveBounds):
    """Moving old commits out of the active timeline, which keeps commits fast."""


class Savepoints(fields.Block):
    """Deletion of old savepoints."""

    expire_after: fields.Duration = Field(
        description=(
            "Age, by the newest commit, at which every savepoint of the table is deleted. "
            "Savepoint objects may set a shorter time of their own."
        )
    )


class RetentionRules(service_policy.Schedule):
    """How much of a table's past is kept."""

    cleaning: Cleaning | None = None
    archiving: Archiving | None = None
    savepoints: Savepoints | None = None
    dry_run: bool = Field(
        default=False, description="Only report what would be deleted or archived."
    )


class RetentionPolicySpec(service_policy.Policy, RetentionRules):
    """How much of the past of which tables is kept."""


class RetentionPolicyStatus(service_policy.PolicyStatus):
    """The observed state of the policy and its tables."""


def keep_rule(field: str, get: Callable[[rules.Spec], Keep | None]) -> rules.Rule[rules.Spec]:
    """Return the rule that a spec says by what the past is measured, in one way."""
    keep = f"self.{field}.keep"
    return rules.Rule(
        name="one-measure",
        field=f"{field}.keep",
        message="needs exactly one of commits, hours and versions",
        cel=(
            f"!has(self.{field}) || [has({keep}.commits), has({keep}.hours), "
            f"has({keep}.versions)].filter(x, x).size() == 1"
        ),
        holds=lambda spec: (
            (kept := get(spec)) is None
            or sum(each is not None for each in (kept.commits, kept.hours, kept.versions)) == 1
        ),
    )


RulesT = TypeVar("RulesT", bound=RetentionRules)


def retention_rules(_: type[RulesT]) -> Sequence[rules.Rule[RulesT]]:
    """Return the rules of what policies and the operator's defaults share."""
    return (
        *execution.runtime_rules(lambda spec: spec.runtime),
        rules.Rule(
            name="one-service",
            field="cleaning",
            message="is missing: needs at least one of cleaning, archiving and savepoints",
            cel="has(self.cleaning) || has(self.archiving) || has(self.savepoints)",
            holds=lambda spec: (
                spec.cleaning is not None
                or spec.archiving is not None
                or spec.savepoints is not None
            ),
        ),
        keep_rule("cleaning", lambda spec: None if spec.cleaning is None else spec.cleaning.keep),
        rules.Rule(
            name="cleaning-trigger",
            field="cleaning.triggers",
            message="needs at least one of commits and elapsed",
            cel=(
                "!has(self.cleaning) || has(self.cleaning.triggers.commits) "
                "|| has(self.cleaning.triggers.elapsed)"
            ),
            holds=lambda spec: (
                spec.cleaning is None
                or spec.cleaning.triggers.commits is not None
                or spec.cleaning.triggers.elapsed is not None
            ),
        ),
        rules.Rule(
            name="archiving-bounds",
            field="archiving.maxCommits",
            message="is expected to be greater than minCommits",
            cel=("!has(self.archiving) || self.archiving.maxCommits > self.archiving.minCommits"),
            holds=lambda spec: (
                spec.archiving is None or spec.archiving.max_commits > spec.archiving.min_commits
            ),
        ),
        rules.Rule(
            name="archiving-after-cleaning",
            field="archiving.minCommits",
            message=(
                "is expected to be greater than cleaning.keep.commits: the commits that stay "
                "readable stay on the active timeline"
            ),
            cel=(
                "!has(self.archiving) || !has(self.cleaning) || !has(self.cleaning.keep.commits) "
                "|| self.archiving.minCommits > self.cleaning.keep.commits"
            ),
            holds=lambda spec: (
                spec.archiving is None
                or spec.cleaning is None
                or spec.cleaning.keep.commits is None
                or spec.archiving.min_commits > spec.cleaning.keep.commits
            ),
        ),
        rules.Rule(
            name="history-of-readable-hours",
            field="archiving.historyDays",
            message="is expected to be at least as long as cleaning.keep.hours",
            cel=(
                "!has(self.archiving) || !has(self.archiving.historyDays) || !has(self.cleaning) "
                "|| !has(self.cleaning.keep.hours) "
                "|| self.archiving.historyDays * 24 >= self.cleaning.keep.hours"
            ),
            holds=lambda spec: (
                spec.archiving is None
                or spec.archiving.history_days is None
                or spec.cleaning is None
                or spec.cleaning.keep.hours is None
                or spec.archiving.history_days * _HOURS_A_DAY >= spec.cleaning.keep.hours
            ),
        ),
    )


RULES: rules.Rules[RetentionPolicySpec] = rules.Rules(
    within=(
        service_policy.target_rule(RetentionPolicySpec),
        *retention_rules(RetentionPolicySpec),
    ),
)
