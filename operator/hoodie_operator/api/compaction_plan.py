"""What a compaction plans: strategies and bounds, of policies and of single TableActions."""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Field, StringConstraints

from hoodie.model import compaction_options
from hoodie_operator.api import fields, rules

Spec = TypeVar("Spec", bound=fields.Block)

_PATTERN_LENGTH_MAX: Final = 256
_PERCENT: Final = 100


class Strategy(enum.Enum):
    """Which file groups a plan takes, and in which order."""

    LOG_SIZE = "LogSize"
    LOG_COUNT = "LogCount"
    LOG_RATIO = "LogRatio"
    BOUNDED_IO = "BoundedIO"
    DAY_BASED = "DayBased"
    RECENT_PARTITIONS = "RecentPartitions"
    OLD_PARTITIONS = "OldPartitions"
    PARTITION_REGEX = "PartitionRegex"
    UNBOUNDED = "Unbounded"


_SAME: Final[Mapping[Strategy, compaction_options.Strategy]] = {
    each: compaction_options.Strategy[each.name] for each in Strategy
}

Pattern = Annotated[
    str,
    StringConstraints(min_length=1, max_length=_PATTERN_LENGTH_MAX),
    AfterValidator(compaction_options.parse_pattern),
]
"""A regular expression of RE2, as CEL has it too."""


class Plan(fields.Block):
    """Which file groups a plan takes, and how many. The next plan takes what does not fit."""

    strategies: tuple[Strategy, ...] = Field(
        default=(Strategy.LOG_SIZE,),
        min_length=1,
        max_length=len(Strategy),
        description=(
            "Each strategy selects from the result of the one before. LogSize, LogCount and "
            "LogRatio take the file groups with the most first; DayBased takes the newest "
            "partitions; RecentPartitions and OldPartitions select by age."
        ),
    )
    max_file_groups: int | None = Field(
        default=None, ge=1, le=1_000_000, description="Maximum number of file groups in a plan."
    )
    max_bytes: fields.Size | None = Field(
        default=None,
        description=(
            "Maximum number of bytes that a plan reads. A plan of one file group may read more."
        ),
    )
    min_log_bytes: fields.Size | None = Field(
        default=None, description="LogSize: minimum bytes of log files in a file group."
    )
    min_log_files: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="LogCount: minimum number of log files in a file group.",
    )
    min_log_percent: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="LogRatio: minimum size of the log files, in percent of the base file.",
    )
    partition_days: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description=(
            "DayBased: number of partitions. RecentPartitions and OldPartitions: the age in days "
            "that separates them. 10 by default."
        ),
    )
    partition_regex: Pattern | None = Field(
        default=None,
        description="PartitionRegex: RE2 regular expression that occurs in the partition path.",
    )
    max_pending: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description=("Plan nothing while this number of compactions is pending. 5 by default."),
    )


def properties(plan: Plan | None) -> dict[str, str]:
    """Return a plan's strategies and bounds as the core's options."""
    return {} if plan is None else compaction_options.to_properties(_options(plan))


def _options(plan: Plan) -> compaction_options.CompactionOptions:
    given = {
        "strategies": tuple(_SAME[each] for each in plan.strategies),
        "file_groups_max": plan.max_file_groups,
        "bytes_max": _bytes(plan.max_bytes),
        "log_bytes_min": _bytes(plan.min_log_bytes),
        "log_files_min": plan.min_log_files,
        "log_ratio_min": (
            None if plan.min_log_percent is None else plan.min_log_percent / _PERCENT
        ),
        "partitions_max": plan.partition_days,
        "partition_regex": plan.partition_regex,
        "pending_max": plan.max_pending,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return compaction_options.CompactionOptions(**changes)  # type: ignore[arg-type] # by name


def _bytes(size: str | int | None) -> int | None:
    return None if size is None else fields.size_bytes(size)


def plan_rules(place: str, get: Callable[[Spec], Plan | None]) -> Sequence[rules.Rule[Spec]]:
    """Return the rules of a spec that may have a plan.

    Args:
        place: The plan's path below the spec; all above it may be missing.
        get: The plan of a spec.
    """
    parts = place.split(".")
    absent = " || ".join(
        f"!has(self.{'.'.join(parts[: number + 1])})" for number in range(len(parts))
    )
    plan = f"self.{place}"
    return (
        rules.Rule(
            name="strategies-once",
            field=f"{place}.strategies",
            message="has a strategy twice, expected each strategy once",
            cel=f"{absent} || {plan}.strategies.all(s, {plan}.strategies.exists_one(t, t == s))",
            holds=lambda spec: (
                (found := get(spec)) is None or len(set(found.strategies)) == len(found.strategies)
            ),
        ),
        rules.Rule(
            name="partition-regex",
            field=f"{place}.partitionRegex",
            message="goes with strategy PartitionRegex, which needs it",
            cel=(
                f"{absent} || has({plan}.partitionRegex) == ('PartitionRegex' in {plan}.strategies)"
            ),
            holds=lambda spec: (
                (found := get(spec)) is None
                or (found.partition_regex is not None)
                == (Strategy.PARTITION_REGEX in found.strategies)
            ),
        ),
        rules.Rule(
            name="partition-days",
            field=f"{place}.partitionDays",
            message="is valid with strategies DayBased, RecentPartitions and OldPartitions only",
            cel=(
                f"{absent} || !has({plan}.partitionDays) || {plan}.strategies.exists(s, "
                "s in ['DayBased', 'RecentPartitions', 'OldPartitions'])"
            ),
            holds=lambda spec: (
                (found := get(spec)) is None
                or found.partition_days is None
                or not _OF_DAYS.isdisjoint(found.strategies)
            ),
        ),
        *(
            _minimum_rule(place, absent, get, strategy, field)
            for strategy, field in _MINIMA.items()
        ),
    )


_OF_DAYS: Final = frozenset(
    {Strategy.DAY_BASED, Strategy.RECENT_PARTITIONS, Strategy.OLD_PARTITIONS}
)

_MINIMA: Final[Mapping[Strategy, tuple[str, Callable[[Plan], object]]]] = {
    Strategy.LOG_SIZE: ("minLogBytes", lambda plan: plan.min_log_bytes),
    Strategy.LOG_COUNT: ("minLogFiles", lambda plan: plan.min_log_files),
    Strategy.LOG_RATIO: ("minLogPercent", lambda plan: plan.min_log_percent),
}
"""The threshold of each strategy that has one."""


def _minimum_rule(
    place: str,
    absent: str,
    get: Callable[[Spec], Plan | None],
    strategy: Strategy,
    field: tuple[str, Callable[[Plan], object]],
) -> rules.Rule[Spec]:
    name, value_of = field
    return rules.Rule(
        name=f"threshold-{strategy.value}",
        field=f"{place}.{name}",
        message=f"is valid with strategy {strategy.value} only",
        cel=(
            f"{absent} || !has(self.{place}.{name}) || "
            f"'{strategy.value}' in self.{place}.strategies"
        ),
        holds=lambda spec: (
            (found := get(spec)) is None or value_of(found) is None or strategy in found.strategies
        ),
    )
