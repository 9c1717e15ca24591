"""Plans of table services: what an instant will do, written before it does it, then immutable.

Source: `HoodieCompactionPlan.avsc`, `HoodieCompactionOperation.avsc` (1.2.0), plan version 2, whose
paths are bare file names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hoodie.model import files


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """One file slice to merge into a base file.

    Attributes:
        group: The file group.
        base_instant_time: The slice's barrier, as in `files.FileSlice`.
        base_file_name: Bare name; None for a slice of log files alone.
        log_file_names: Bare names in merge order; never empty.
        metrics: Sizes and counts for whoever orders or bounds the work, as Hudi stores them.
    """

    group: files.FileGroupId
    base_instant_time: str
    base_file_name: str | None
    log_file_names: tuple[str, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """The content of a requested compaction."""

    operations: tuple[CompactionOperation, ...]
    extra: Mapping[str, str] = field(default_factory=dict)
