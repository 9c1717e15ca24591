"""Which compactions are planned: when one is due, which file groups it takes, and how many.

Not of `WriteSettings`: processes that write one table may each plan in another way. Names and
defaults of the keys are Apache Hudi's where it has them. Source: `HoodieCompactionConfig.java`,
`CompactionTriggerStrategy.java` (1.2.0).
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie import errors
from hoodie.model import settings

MAX_KEY = "hoodie.operator.compaction.pending.max"
"""Names the limit in messages."""

_CLASSES = "org.apache.hudi.table.action.compact.strategy."
_PATTERN_LENGTH_MAX = 1000
_DIGITS_MAX = 18

Member = TypeVar("Member", bound=enum.Enum)


class Trigger(enum.Enum):
    """When a compaction is due, by Hudi's constant."""

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


class Strategy(enum.Enum):
    """Which file groups a plan takes, and in which order; see `maintenance.compaction`."""

    LOG_SIZE = "log-size"
    LOG_COUNT = "log-count"
    LOG_RATIO = "log-ratio"
    BOUNDED_IO = "bounded-io"
    DAY_BASED = "day-based"
    RECENT_PARTITIONS = "recent-partitions"
    OLD_PARTITIONS = "old-partitions"
    PARTITION_REGEX = "partition-regex"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOptions:
    """How compactions are planned.

    Attributes:
        trigger: When one is due; None for whenever there is something to compact.
        delta_commits: So many delta commits make one due.
        delta_seconds: So much time makes one due.
        strategies: Each sees what the one before has chosen; never empty.
        target_io_mib: Read and written by a plan of the strategies that bound it.
        log_bytes_min: A file group with fewer bytes of log files is passed over by LOG_SIZE.
        log_files_min: One with fewer log files is passed over by LOG_COUNT.
        log_ratio_min: One whose log files are smaller, as a part of the base file, by LOG_RATIO.
        partitions_max: Days: partitions of DAY_BASED, age of RECENT_PARTITIONS, OLD_PARTITIONS.
        partition_regex: What PARTITION_REGEX looks for in partition paths, in RE2's syntax.
        file_groups_max: A plan has at most so many file groups; None for no limit.
        bytes_max: It reads at most so much, but for its first file group; None for no limit.
        pending_max: Nothing is planned while so many compactions are pending.
        is_incremental: Whether a plan looks only at partitions that changed since an earlier one.
        is_inline: Whether a writer plans and executes compactions after each commit.
        is_scheduled_inline: Whether it plans them.
    """

    trigger: Trigger | None = None
    delta_commits: int = 5
    delta_seconds: int = 3600
    strategies: tuple[Strategy, ...] = (Strategy.LOG_SIZE,)
    target_io_mib: int = 512_000
    log_bytes_min: int = 0
    log_files_min: int = 0
    log_ratio_min: float = 0.0
    partitions_max: int = 10
    partition_regex: str = ".*"
    file_groups_max: int | None = None
    bytes_max: int | None = None
    pending_max: int = 5
    is_incremental: bool = False
    is_inline: bool = False
    is_scheduled_inline: bool = False

    @property
    def is_planned_by_writer(self) -> bool:
        """Whether a writer plans compactions after its commits."""
        return self.is_inline or self.is_scheduled_inline


DEFAULTS = CompactionOptions()
"""Everything that there is, as Apache Hudi's default strategy orders and bounds it."""


def parse_trigger(text: str) -> Trigger:
    """Return the trigger of Hudi's constant, in any case, hyphens for underscores.

    Raises:
        ValueError: There is none of that name.
    """
    return _member(Trigger, text.upper().replace("-", "_"))


def parse_strategies(text: str) -> tuple[Strategy, ...]:
    """Return the strategies of a comma-separated list of Hudi's classes or short names.

    Raises:
        ValueError: There is none of such a name, or one is there twice.
    """
    found = tuple(
        _STRATEGIES.get(name) or _member(Strategy, name)
        for name in (part.strip().removeprefix(_CLASSES) for part in text.split(","))
    )
    if len(set(found)) < len(found):
        raise ValueError("expected each strategy once")
    return found


def parse_pattern(text: str) -> str:
    """Return a regular expression that partition paths can be searched for.

    RE2 takes time that is linear in the path for any pattern, and refuses those that it would need
    much memory for; it has no look-around and no back references.

    Raises:
        ValueError: It is none in RE2's syntax, or longer than what can be sensible.
    """
    if len(text) > _PATTERN_LENGTH_MAX:
        raise ValueError(f"expected at most {_PATTERN_LENGTH_MAX} characters")
    try:
        # Of no path at all it would not be parsed.
        matching(("",), text)
    except pa.ArrowInvalid as error:
        raise ValueError(f"expected a regular expression of RE2: {error}") from None
    except UnicodeEncodeError:
        raise ValueError("expected a regular expression of RE2, which is UTF-8") from None
    return text


def matching(paths: tuple[str, ...], pattern: str) -> list[bool]:
    """Return of each partition path whether a regular expression occurs in it."""
    # A file name that is no UTF-8 holds lone surrogates, which Arrow has no bytes for.
    texts = pa.array([path.encode(errors="replace").decode() for path in paths], pa.string())
    found: list[bool] = pc.match_substring_regex(texts, pattern).to_pylist()
    return found


def _member(kind: type[Member], text: str) -> Member:
    for member in kind:
        if member.value == text:
            return member
    raise ValueError(f"expected one of {', '.join(str(each.value) for each in kind)}")


_STRATEGIES = {
    "LogFileSizeBasedCompactionStrategy": Strategy.LOG_SIZE,
    "LogFileNumBasedCompactionStrategy": Strategy.LOG_COUNT,
    "BoundedIOCompactionStrategy": Strategy.BOUNDED_IO,
    "DayBasedCompactionStrategy": Strategy.DAY_BASED,
    "BoundedPartitionAwareCompactionStrategy": Strategy.RECENT_PARTITIONS,
    "UnBoundedPartitionAwareCompactionStrategy": Strategy.OLD_PARTITIONS,
    "PartitionRegexBasedCompactionStrategy": Strategy.PARTITION_REGEX,
    "UnBoundedCompactionStrategy": Strategy.UNBOUNDED,
}
"""By Apache Hudi's class, without its package."""


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            raise ValueError(f"expected a whole number of {least} or more")
        if int(text) < least:
            raise ValueError(f"expected a whole number of {least} or more")
        return int(text)

    return parse


def _ratio(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise ValueError("expected a number of 0 or more")
    return found


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


KEYS = (
    settings.Key(
        name="hoodie.compact.inline",
        field="is_inline",
        parse=_flag,
        meaning="a writer plans and runs compactions after its commits",
    ),
    settings.Key(
        name="hoodie.compact.schedule.inline",
        field="is_scheduled_inline",
        parse=_flag,
        meaning="a writer plans compactions after its commits, and another process runs them",
    ),
    settings.Key(
        name="hoodie.compact.inline.trigger.strategy",
        field="trigger",
        parse=parse_trigger,
        meaning="when a compaction is due: NUM_COMMITS, NUM_COMMITS_AFTER_LAST_REQUEST, "
        "TIME_ELAPSED, NUM_AND_TIME or NUM_OR_TIME; `hoodie compact` without it plans whatever "
        "there is",
        default="NUM_COMMITS_AFTER_LAST_REQUEST for writers",
    ),
    settings.Key(
        name="hoodie.compact.inline.max.delta.commits",
        field="delta_commits",
        parse=_at_least(1),
        meaning="number of delta commits that make a compaction due",
    ),
    settings.Key(
        name="hoodie.compact.inline.max.delta.seconds",
        field="delta_seconds",
        parse=_at_least(1),
        meaning="time that makes a compaction due, in seconds",
    ),
    settings.Key(
        name="hoodie.compaction.strategy",
        field="strategies",
        parse=parse_strategies,
        meaning="which file groups a plan takes: classes of Apache Hudi, or "
        + ", ".join(each.value for each in Strategy)
        + "; a list, separated by commas, combines several",
        default="log-size",
    ),
    settings.Key(
        name="hoodie.compaction.target.io",
        field="target_io_mib",
        parse=_at_least(1),
        meaning="MiB that a plan may read and write; the last file group may exceed it",
    ),
    settings.Key(
        name="hoodie.compaction.logfile.size.threshold",
        field="log_bytes_min",
        parse=_at_least(0),
        meaning="log-size: minimum bytes of log files in a file group",
    ),
    settings.Key(
        name="hoodie.compaction.logfile.num.threshold",
        field="log_files_min",
        parse=_at_least(0),
        meaning="log-count: minimum number of log files in a file group",
    ),
    settings.Key(
        name="hoodie.operator.compaction.log.ratio.min",
        field="log_ratio_min",
        parse=_ratio,
        meaning="log-ratio: minimum size of the log files, divided by that of the base file",
    ),
    settings.Key(
        name="hoodie.compaction.daybased.target.partitions",
        field="partitions_max",
        parse=_at_least(1),
        meaning="day-based: number of partitions; recent-partitions, old-partitions: age in days "
        "that separates them",
    ),
    settings.Key(
        name="hoodie.compaction.partition.path.regex",
        field="partition_regex",
        parse=parse_pattern,
        meaning="partition-regex: RE2 regular expression that occurs in a partition's path",
    ),
    settings.Key(
        name="hoodie.operator.compaction.file.groups.max",
        field="file_groups_max",
        parse=_at_least(1),
        meaning="maximum number of file groups in a plan",
        default="no limit",
    ),
    settings.Key(
        name="hoodie.operator.compaction.bytes.max",
        field="bytes_max",
        parse=_at_least(1),
        meaning="maximum bytes that a plan reads; a plan of one file group may read more",
        default="no limit",
    ),
    settings.Key(
        name="hoodie.table.services.incremental.enabled",
        field="is_incremental",
        parse=_flag,
        meaning="look only at partitions that changed since an earlier plan, where that finds the "
        "same file groups; the default of Apache Hudi is true",
    ),
    settings.Key(
        name=MAX_KEY,
        field="pending_max",
        parse=_at_least(1),
        meaning="number of pending compactions from which no further one is planned",
    ),
)

_BY_NAME = {key.name: key for key in KEYS}

NAMES = frozenset(_BY_NAME)


def from_properties(
    properties: Mapping[str, str], defaults: CompactionOptions = DEFAULTS
) -> CompactionOptions:
    """Return the options that `hoodie.*` properties mean, on top of the defaults.

    Raises:
        ConfigurationError: A key is unknown or a value is not one of its key.
    """
    values = {}
    for name, text in properties.items():
        key = _BY_NAME.get(name)
        if key is None or key.field is None:
            raise errors.ConfigurationError(f"{name} is not an option of compaction")
        try:
            values[key.field] = key.parse(text.strip())
        except ValueError as error:
            raise errors.ConfigurationError(f"{name} is {text!r}, {error}") from None
    return replace(defaults, **values)


def to_properties(options: CompactionOptions) -> dict[str, str]:
    """Return what differs from the defaults, by Hudi's keys; `from_properties` reads it."""
    found = {}
    for key in KEYS:
        assert key.field is not None, key.name
        value = getattr(options, key.field)
        if value != getattr(DEFAULTS, key.field):
            found[key.name] = text_of(value)
    return found


def text_of(value: object) -> str:
    """Return an option's value as the text of its key."""
    match value:
        case bool():
            return "true" if value else "false"
        case enum.Enum():
            return str(value.value)
        case tuple():
            return ",".join(text_of(each) for each in value)
        case _:
            return str(value)
